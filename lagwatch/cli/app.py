"""The command: its subcommands and how it starts."""

import os
from pathlib import Path
from typing import Annotated

import typer

from lagwatch import __version__
from lagwatch.cli import (
    alert,
    ask,
    backfill,
    config,
    demo,
    deployments,
    events,
    explain,
    history,
    jobs,
    nightly,
    replay,
    report,
    rollup,
    serve,
    status,
    token,
    top,
)

app = typer.Typer(
    name="lagwatch",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="`lagwatch COMMAND --help` shows examples; `--install-completion` sets the shell up.",
)
app.command(epilog=serve.EPILOG)(serve.serve)
app.command(epilog=status.EPILOG)(status.status)
app.command(epilog=top.EPILOG)(top.top)
app.command(epilog=events.EPILOG)(events.events)
app.command(epilog=explain.EPILOG)(explain.explain)
app.command(epilog=replay.EPILOG)(replay.replay)
app.command(epilog=demo.EPILOG)(demo.demo)
app.command(epilog=deployments.EPILOG)(deployments.deployment)
app.command(epilog=backfill.EPILOG)(backfill.backfill)
app.command(epilog=rollup.EPILOG)(rollup.rollup)
app.command(epilog=report.EPILOG)(report.report)
app.command(epilog=nightly.EPILOG)(nightly.nightly)
app.command(epilog=token.EPILOG)(token.token)
app.add_typer(config.config, name="config")
app.add_typer(alert.alert, name="alert")
app.add_typer(history.history, name="history")
app.add_typer(jobs.jobs, name="jobs")
app.add_typer(deployments.deployments, name="deployments")
app.add_typer(ask.loss, name="loss")


def _version(asked: bool) -> None:  # noqa: FBT001 typer calls it with the flag's value
    if asked:
        typer.echo(f"lagwatch {__version__}")
        raise typer.Exit


@app.callback()
def lagwatch(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="LAGWATCH_TOKEN_FILE",
            help="File with the token for --url; or set the variable LAGWATCH_TOKEN.",
        ),
    ] = None,
) -> None:
    """Is every Kafka consumer group keeping up, and if not, since when and by which rule?"""
    del version  # its callback has done the work
    if token_file is not None:
        os.environ["LAGWATCH_TOKEN_FILE"] = str(token_file)


def main() -> None:
    """Run the command with the arguments of the process."""
    app(prog_name="lagwatch")

"""`lagwatch config`: check, show and describe the configuration."""

from typing import TYPE_CHECKING, Annotated

import typer

from lagwatch.cli.options import DEFAULT_CLUSTER, Bootstrap, ClusterName, ConfigFile, configured
from lagwatch.cli.output import print_json
from lagwatch.cli.reporting import reported

if TYPE_CHECKING:  # pydantic takes a while to import
    from collections.abc import Iterator

    from lagwatch.config.settings import Settings
    from lagwatch.errors import Fault

config = typer.Typer(no_args_is_help=True, help="Check, show and describe the configuration.")

_CHECK = """
**Examples**

`lagwatch config check -c lagwatch.toml`

`LAGWATCH_CLUSTERS__PROD__BOOTSTRAP=kafka-1:9092 lagwatch config check`
"""
_SHOW = """
**Examples**

`lagwatch config show -c lagwatch.toml`

`lagwatch config show -c lagwatch.toml --json`
"""


@config.command(epilog=_CHECK)
@reported()
def check(
    *,
    config: ConfigFile = None,
    bootstrap: Bootstrap = None,
    cluster_name: ClusterName = DEFAULT_CLUSTER,
    group: Annotated[
        str | None, typer.Option(help="Also show which alert policy this group gets.")
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option(help="A topic that the group reads; may be repeated.")
    ] = None,
) -> None:
    """List every fault at once, with its key, value and remedy; asks no broker."""
    settings = configured(
        config, bootstrap=bootstrap, cluster_name=cluster_name, beyond=_faults
    ).settings
    names = sorted(settings.clusters)
    typer.echo(f"ok: {len(names)} cluster{'s'[: len(names) != 1]}: {', '.join(names)}")
    if group is not None:
        _show_policies(settings, group, tuple(topic or ()))


def _faults(settings: "Settings") -> "Iterator[Fault]":
    """What is wrong with alerts, and with the files that only `serve` reads."""
    from lagwatch.clock import SystemClock
    from lagwatch.config.tokens import read_tokens
    from lagwatch.errors import ConfigError, Fault
    from lagwatch.http_server import Certificate
    from lagwatch.notify.review import opening_faults, report_channels, review, template_faults

    if settings.alerts.active:
        yield from template_faults(settings.alerts)
        yield from review(settings)
        yield from opening_faults(settings.alerts)
    else:
        yield from report_channels(settings)
    try:
        if settings.server.auth.tokens_file is not None:
            read_tokens(settings.server.auth.tokens_file)
        if settings.server.tls.cert_file is not None:
            certificate = Certificate(settings.server.tls, SystemClock())
            if certificate.problem:
                yield Fault(
                    key="server.tls.cert_file",
                    value=str(settings.server.tls.cert_file),
                    problem=certificate.problem,
                    remedy="Renew it, and check the clock of this machine.",
                )
    except ConfigError as error:
        yield from error.faults


def _show_policies(settings: "Settings", group: str, topics: tuple[str, ...]) -> None:
    """One line per cluster, or per cluster and topic."""
    from lagwatch.notify.policies import PolicyBook

    book = PolicyBook(settings.alerts)
    for cluster in sorted(settings.clusters):
        for topic, policy in book.of(cluster, group, topics or ("",)).items():
            name = f"{cluster}/{group}" + (f" of {topic}" if topic else "")
            channels = ", ".join(policy.channels) if policy is not None else ""
            chosen = (
                f"policy {policy.name}, channels: {channels or 'none'}" if policy else "no policy"
            )
            typer.echo(f"{name}: {chosen}")


@config.command(epilog=_SHOW)
@reported()
def show(
    *,
    config: ConfigFile = None,
    bootstrap: Bootstrap = None,
    cluster_name: ClusterName = DEFAULT_CLUSTER,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the configuration in force and the origin of each value; secrets are hidden."""
    loaded = configured(config, bootstrap=bootstrap, cluster_name=cluster_name)

    from lagwatch.config.show import as_toml, as_tree

    if as_json:
        print_json([as_tree(loaded)], single=True)
    else:
        typer.echo(as_toml(loaded), nl=False)


@config.command()
@reported()
def reference() -> None:
    """Print every option, as Markdown."""
    from lagwatch.config.reference import markdown

    typer.echo(markdown(), nl=False)

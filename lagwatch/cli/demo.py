"""`lagwatch demo`: a real broker, groups in every state, and the verdicts on them."""

from typing import Annotated

import typer

from lagwatch.cli.reporting import Exit, reported
from lagwatch.errors import MissingPartError

EPILOG = """
**Examples**

`lagwatch demo`

`lagwatch demo --seconds 60 --port 8000`
"""


@reported(Exit.ERROR)
def demo(
    *,
    seconds: Annotated[
        int | None, typer.Option(min=1, help="End by itself, and judge; without: until Ctrl-C.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="HTTP port.")] = 8000,
) -> None:
    """Start a real Kafka broker with groups in every state, and show the verdicts on them.

    With --seconds the exit code is 0 only if every group showed the verdict it should.
    """
    try:
        from lagwatch.demo import run
    except ModuleNotFoundError as error:
        raise MissingPartError(
            f"this installation was made without the demo (no module {error.name}): install "
            "lagwatch with `pip install 'lagwatch[embedded]'`"
        ) from error
    raise typer.Exit(run(seconds, port))

"""`lagwatch loss`: messages that were deleted before a group read them."""

from typing import Annotated
from urllib.parse import quote

import typer

from lagwatch.cli.ask import HERE, Url, ask, only_cluster
from lagwatch.cli.reporting import Exit, reported

loss = typer.Typer(no_args_is_help=True, help="Lost messages of a group.")

EPILOG = """
The messages stay counted in the metrics and recorded in the history.

**Examples**

`lagwatch loss acknowledge billing --cluster prod`
"""


@loss.callback()
def _losses() -> None:
    """Keep `acknowledge` a subcommand, although it is the only one."""


@loss.command(epilog=EPILOG)
@reported(Exit.ERROR)
def acknowledge(
    group: Annotated[str, typer.Argument(help="The group's exact name.")],
    *,
    cluster: Annotated[
        str, typer.Option(metavar="NAME", help="Its cluster; not needed where there is only one.")
    ] = "",
    url: Url = HERE,
) -> None:
    """Stop showing the lost messages of a group as an error."""
    name = cluster or only_cluster(url)
    group_path = f"/api/v1/clusters/{quote(name, safe='')}/groups/{quote(group, safe='')}"
    answer = ask(
        url,
        "POST",
        f"{group_path}/losses/acknowledge",
        missing=("group", f"{group} on {name}"),
    )
    number = int(answer["partitions"])
    typer.echo(f"{group} on {name}: losses of {number} partition{'' if number == 1 else 's'}")

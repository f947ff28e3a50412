"""`lagwatch deployment`: tell a running lagwatch that a version went live."""

from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import quote

import typer

from lagwatch.cli.ask import HERE, Url, ask, only_cluster
from lagwatch.cli.output import print_json
from lagwatch.cli.reporting import Exit, reported

EPILOG = """
The history remembers when, and the offsets the group had committed; the nightly report compares
the hours before and after. Call it at the end of a deployment.

**Examples**

`lagwatch deployment billing --version 4.2`

`lagwatch deployment billing --cluster prod --version $CI_COMMIT_TAG --note "new parser"`
"""


@reported(Exit.ERROR)
def deployment(
    group: Annotated[str, typer.Argument(help="The group's exact name.")],
    *,
    version: Annotated[str, typer.Option(help="What went live: a version, tag or commit.")],
    note: Annotated[str, typer.Option(help="What else there is to say.")] = "",
    cluster: Annotated[
        str, typer.Option(metavar="NAME", help="Its cluster; not needed where there is only one.")
    ] = "",
    url: Url = HERE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Remember that a version of a group's consumers went live now."""
    name = cluster or only_cluster(url)
    path = f"/api/v1/clusters/{quote(name, safe='')}/groups/{quote(group, safe='')}/deployments"
    order = {"version": version, "note": note}
    made = ask(url, "POST", path, order, missing=("group", f"{group} on {name}"))
    if as_json:
        print_json([made], single=True)
        return
    at = datetime.fromtimestamp(made["at_ms"] / 1000, UTC).isoformat(" ", "seconds")
    known = sum(offset is not None for offsets in made["offsets"].values() for offset in offsets)
    typer.echo(f"{group} on {name}: {version} at {at}, with the offsets of {known} partitions")

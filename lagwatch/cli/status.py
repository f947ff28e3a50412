"""`lagwatch status`: one look, with an exit code for scripts."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from lagwatch.cli.observed import WAIT_S, Wait, Watch, observed
from lagwatch.cli.options import Bootstrap, ConfigFile
from lagwatch.cli.output import console, print_json
from lagwatch.cli.reporting import Exit, complain, reported
from lagwatch.cli.views import GroupView, StatusSource
from lagwatch.errors import NotFoundError

_EXIT_OF_STATUS: Final = {"OK": Exit.OK, "WARN": Exit.WARNING, "ERR": Exit.ERROR}
_SEVERITY: Final = (Exit.OK, Exit.UNKNOWN, Exit.WARNING, Exit.ERROR)
"""Known trouble comes before unknown states."""

EPILOG = """
| Exit code | Meaning |
|---|---|
| 0 | OK: every group is at the log end, makes progress, or pauses for no longer than is usual |
| 1 | WARNING: a group is falling behind |
| 2 | ERROR: a group stopped, stalled, went back or lost messages |
| 3 | unknown: not enough seen, late and getting later, stale data, a cluster out of reach |

A known problem goes before what is unknown.

**Examples**

`lagwatch status --bootstrap kafka-1:9092`

`lagwatch status my-group --url http://lagwatch:8000 --cluster prod`

`lagwatch status --url http://burrow:8000 --json`
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The groups and clusters that a look has found."""

    groups: tuple[GroupView, ...]
    whole: bool
    """False if a cluster was not ready: a group that is missing may then exist all the same."""
    problems: tuple[str, ...]
    clusters: int = 1
    """How many were asked."""

    @property
    def code(self) -> Exit:
        codes = [_code(group) for group in self.groups]
        return max(codes if self.whole else [*codes, Exit.UNKNOWN], key=_rank, default=Exit.OK)


@reported(Exit.UNKNOWN)
def status(
    group: Annotated[
        str | None, typer.Argument(metavar="[GROUP]", help="Only this group, with its partitions.")
    ] = None,
    *,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="Ask a running lagwatch, or a Burrow.")
    ] = None,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="Only this cluster.")] = None,
    wait: Wait = WAIT_S,
    watch: Watch = "10s",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show every group and its verdict once; the exit code is the worst of them."""
    with _source(url, bootstrap, config, cluster, wait, watch=watch) as source:
        seen = look(source, _chosen(source, cluster), group)
    if group is None:
        _complain(seen)
    if as_json:
        print_json([_answer(seen)], single=True)
    else:
        _draw(seen, single=group is not None)
    if group is not None:  # the answer comes first
        _complain(seen)
    raise typer.Exit(seen.code)


def look(source: StatusSource, clusters: Sequence[str], group: str | None) -> Look:
    """Ask for all groups, or for one.

    For a group that is found, only the clusters that have it count.

    Raises:
        NotFoundError: no cluster knows the group.
    """
    found = {cluster: tuple(_groups(source, cluster, group)) for cluster in clusters}
    groups = [view for views in found.values() for view in views]
    relevant = [cluster for cluster in clusters if group is None or not groups or found[cluster]]
    readiness = {cluster: source.readiness(cluster) for cluster in relevant}
    whole = all(each.ready for each in readiness.values())
    problems = [
        f"cluster {cluster!r}: {problem}"
        for cluster, each in readiness.items()
        for problem in each.problems
    ]
    if group is not None and not groups:
        if whole:
            raise NotFoundError(kind="group", name=group)
        problems.append(f"group {group!r} is not known so far")
    return Look(groups=tuple(groups), whole=whole, problems=tuple(problems), clusters=len(clusters))


def _groups(source: StatusSource, cluster: str, group: str | None) -> Iterator[GroupView]:
    names = source.groups(cluster) if group is None else (group,)
    for name in names:
        try:
            yield source.group(cluster, name, show_all=group is not None)
        except NotFoundError:
            continue  # it was deleted meanwhile, or is in another cluster


@contextmanager
def _source(
    url: str | None,
    bootstrap: str | None,
    config: Path | None,
    cluster: str | None,
    wait_s: float,
    *,
    watch: str,
) -> Iterator[StatusSource]:
    if url is not None:
        if bootstrap is not None:
            raise typer.BadParameter("either --url or --bootstrap", param_hint="--url")
        from lagwatch.cli.remote import RemoteSource

        with RemoteSource(url, timeout_s=wait_s) as remote:
            yield remote
        return
    from lagwatch.cli.local import LocalSource

    seen = observed(config, bootstrap, cluster, wait_s=wait_s, watch=watch)
    yield LocalSource(seen.queries, seen.first)


def _chosen(source: StatusSource, cluster: str | None) -> tuple[str, ...]:
    clusters = source.clusters()
    if cluster is None:
        return clusters
    _known(cluster, clusters)
    return (cluster,)


def _known(cluster: str, clusters: Sequence[str]) -> None:
    if cluster not in clusters:
        raise NotFoundError(kind="cluster", name=cluster)


def _code(group: GroupView) -> Exit:
    """The exit code for a group; stale data count as UNKNOWN."""
    return Exit.UNKNOWN if group.stale else _EXIT_OF_STATUS.get(group.status, Exit.UNKNOWN)


def _rank(code: Exit) -> int:
    return _SEVERITY.index(code)


def _answer(seen: Look) -> dict[str, object]:
    return {
        "status": seen.code.name,
        "problems": list(seen.problems),
        "groups": [asdict(group) for group in seen.groups],
    }


def _complain(seen: Look) -> None:
    for problem in seen.problems:
        complain(problem)


def _draw(seen: Look, *, single: bool) -> None:
    from lagwatch.cli.status_table import draw_group, draw_groups

    screen = console()
    if single:
        for group in seen.groups:
            draw_group(screen, group)
    elif seen.groups:
        draw_groups(screen, seen.groups, clusters=seen.clusters)
    else:
        screen.print("no groups" if seen.whole else "no groups so far")

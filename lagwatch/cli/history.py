"""`lagwatch history`: copy, count, check and compact what was recorded."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lagwatch.cli.options import INSTANT_HELP, ConfigFile, configured, instant_ms
from lagwatch.cli.output import console, plain, print_json
from lagwatch.cli.reporting import Exit, reported
from lagwatch.core.words import duration

if TYPE_CHECKING:  # pyarrow and pydantic take a while to import
    from rich.progress import Progress as Bar

    from lagwatch.config.history import HistorySettings
    from lagwatch.history.transfer import Choice
    from lagwatch.ports.history import HistoryStore, ReportProgress, StoredKind, Verification

_STORE_HELP: Final = (
    "A folder or URL of Parquet files, an `http(s)://` URL of Elasticsearch, or `elasticsearch` "
    "as configured; by default the configured store."
)
_SHOWN: Final = 20
"""Lines of a list that are shown; `--json` has all."""

history = typer.Typer(no_args_is_help=True, help="Copy, count, check and compact the history.")

Where = Annotated[str | None, typer.Argument(metavar="[STORE]", help=_STORE_HELP)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", metavar="KIND", help="Only this kind; may be repeated."),
]
Clusters = Annotated[
    list[str] | None,
    typer.Option("--cluster", metavar="NAME", help="Only this cluster; may be repeated."),
]
Since = Annotated[str | None, typer.Option(help="First instant, " + INSTANT_HELP)]
Until = Annotated[str | None, typer.Option(help="End, not included, " + INSTANT_HELP)]
State = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Remembers what is copied, so that a copy can go on."),
]

_EXPORT = """
Repeating the command continues an interrupted copy; no row is stored twice.

**Examples**

`lagwatch history export /backup/lag --since 2026-11-01`

`lagwatch history export http://elasticsearch:9200 --cluster prod`

`lagwatch history export s3://bucket/lag --store /var/lib/lagwatch/history`
"""
_IMPORT = """
Repeating the command continues an interrupted copy; no row is stored twice.

**Examples**

`lagwatch history import /backup/lag -c lagwatch.toml`

`lagwatch history import http://elasticsearch:9200 --store ./history`
"""
_STATS = """
**Examples**

`lagwatch history stats`

`lagwatch history stats ./history --json`
"""
_VERIFY = """
Exit codes: 0 sound, 1 something is wrong (torn or foreign), 2 it could not be read. Gaps and
duplicates are counted, and are no fault: lagwatch did not record then, or two instances did.

**Examples**

`lagwatch history verify`

`lagwatch history verify ./history --json`
"""
_COMPACT = """
The service does this by itself for hours that are over.

**Examples**

`lagwatch history compact ./history`
"""


@history.command(name="export", epilog=_EXPORT)
@reported()
def export(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Where to; as STORE.")],
    *,
    store: Annotated[str | None, typer.Option(metavar="STORE", help=_STORE_HELP)] = None,
    config: ConfigFile = None,
    kind: Kinds = None,
    cluster: Clusters = None,
    since: Since = None,
    until: Until = None,
    state: State = None,
) -> None:
    """Copy the history into another store."""
    settings = _settings(config)
    choice = _choice(kind, cluster, since, until)
    _copy(_existing(store, settings), _opened(target, settings), choice, state, settings)


@history.command(name="import", epilog=_IMPORT)
@reported()
def import_(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Where from; as STORE.")],
    *,
    store: Annotated[str | None, typer.Option(metavar="STORE", help=_STORE_HELP)] = None,
    config: ConfigFile = None,
    kind: Kinds = None,
    cluster: Clusters = None,
    since: Since = None,
    until: Until = None,
    state: State = None,
) -> None:
    """Copy another store into the history."""
    settings = _settings(config)
    choice = _choice(kind, cluster, since, until)
    _copy(_existing(source, settings), _opened(store, settings), choice, state, settings)


@history.command(epilog=_STATS)
@reported()
def stats(store: Where = None, *, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Show what there is: rows, bytes, first and last instant by cluster and kind."""
    opened = _existing(store, _settings(config))
    found = opened.store.stats()
    opened.store.close()
    if as_json:
        print_json([_stored(stored) for stored in found], single=False)
    elif found:
        _draw_stats(found)
    else:
        typer.echo("nothing is recorded there")


@history.command(epilog=_VERIFY)
@reported()
def verify(store: Where = None, *, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Read everything and count: records, duplicates, gaps, torn files."""
    opened = _existing(store, _settings(config))
    with _bar("verify") as progress:
        found = opened.store.verify(progress)
    opened.store.close()
    if as_json:
        print_json([_verified(found)], single=True)
    else:
        _print_verification(found)
    raise typer.Exit(Exit.OK if found.sound else Exit.WARNING)


@history.command(epilog=_COMPACT)
@reported()
def compact(store: Where = None, *, config: ConfigFile = None) -> None:
    """Make few large Parquet files out of many small ones; doubled records become one."""
    opened = _existing(store, _settings(config))
    with _bar("compact") as progress:
        done = opened.store.compact(progress)
    opened.store.close()
    if done is None:
        raise typer.BadParameter(
            f"{opened.name} compacts itself; only Parquet files are compacted so",
            param_hint="STORE",
        )
    typer.echo(f"{done.merged} files became {done.written}, {done.rows} rows")


# stores


class _Opened:
    """A store and what the user calls it."""

    def __init__(self, name: str, store: "HistoryStore") -> None:
        self.name = name
        self.store = store
        self.where = name if "://" in name else str(Path(name).resolve())
        """The same for the same store, however a folder is written."""


def _settings(config: Path | None) -> "HistorySettings":
    """The section `[history]`; its defaults without a configuration."""
    from lagwatch.config.history import HistorySettings

    return configured(config).settings.history if config is not None else HistorySettings()


def _opened(where: str | None, settings: "HistorySettings") -> _Opened:
    """A store, which may be new.

    Raises:
        HistoryError: it cannot be understood.
    """
    from lagwatch.history.drivers.registry import open_store, place_of, settings_of

    there = settings_of(where, settings)
    return _Opened(where or place_of(there), open_store(there))


def _existing(where: str | None, settings: "HistorySettings") -> _Opened:
    """A store to read from: a folder must be there."""
    from lagwatch.history.drivers.registry import folder_of, settings_of

    folder = folder_of(settings_of(where, settings))
    if folder is not None and not folder.is_dir():
        raise typer.BadParameter(f"there is no folder {folder}", param_hint="STORE")
    return _opened(where, settings)


# copying


def _choice(
    kinds: list[str] | None, clusters: list[str] | None, since: str | None, until: str | None
) -> "Choice":
    from lagwatch.core.record import KINDS, Kind
    from lagwatch.history.transfer import Choice

    known = {kind.value for kind in KINDS}
    for kind in kinds or ():
        if kind not in known:
            raise typer.BadParameter(
                f"{kind} is no kind; there are {', '.join(sorted(known))}", param_hint="--kind"
            )
    return Choice(
        kinds=tuple(map(Kind, kinds)) if kinds else KINDS,
        clusters=tuple(clusters or ()),
        from_ms=instant_ms(since, "--since") if since else 0,
        to_ms=instant_ms(until, "--until") if until else Choice().to_ms,
    )


def _copy(
    source: _Opened,
    target: _Opened,
    choice: "Choice",
    state: Path | None,
    settings: "HistorySettings",
) -> None:
    from lagwatch.config.secret import ShownUrl
    from lagwatch.history.transfer import Done, copy

    if source.where == target.where:
        raise typer.BadParameter(
            f"{ShownUrl.shown(target.name)} is the store that is copied from: every row would be "
            "there twice. Name another one"
        )
    done = Done(state or _state_file(source.name, target.name, choice, settings))
    with _bar("copy") as progress:
        rows = copy(source.store, target.store, choice, done=done, progress=progress)
    source.store.close()
    target.store.close()
    names = (ShownUrl.shown(store.name) for store in (source, target))  # a URL may hold secrets
    typer.echo(f"{rows} rows copied from {' to '.join(names)}")


def _state_file(source: str, target: str, choice: "Choice", settings: "HistorySettings") -> Path:
    """One per copy, beside the spool."""
    digest = blake2b(f"{source}\0{target}\0{choice}".encode(), digest_size=8).hexdigest()
    return settings.spool / "copies" / f"{digest}.jsonl"


@contextmanager
def _bar(what: str) -> "Iterator[ReportProgress]":
    """A progress bar on stderr, where that is a terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield _moving(bar, what)


def _moving(bar: "Bar", what: str) -> "ReportProgress":
    task = bar.add_task(what, total=None)

    def move(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total)

    return move


# output


def _draw_stats(found: "tuple[StoredKind, ...]") -> None:
    from rich.table import Table

    table = Table("cluster", "kind", "rows", "size", "parts", "first", "last", box=None)
    for column in ("rows", "size", "parts"):
        table.columns[("cluster", "kind", "rows", "size", "parts").index(column)].justify = "right"
    for stored in found:
        table.add_row(
            plain(stored.cluster),
            stored.kind.value,
            f"{stored.rows:,}",
            _size(stored.size_bytes),
            f"{stored.parts:,}",
            _instant(stored.first_ms),
            _instant(stored.last_ms),
        )
    console().print(table)


def _print_verification(found: "Verification") -> None:
    for kind, rows in found.rows.items():
        if rows:
            typer.echo(f"{kind.value}: {rows:,} records")
    typer.echo(f"duplicates: {found.duplicates:,}" + _duplicates(found))
    gaps = [
        f"{gap.cluster}: {_instant(gap.from_ms)} to {_instant(gap.to_ms)}"
        f" ({duration((gap.to_ms - gap.from_ms) / 1000)})"
        for gap in found.gaps
    ]
    _list("gaps", gaps)
    _list("torn files", found.torn)
    _list("foreign files", found.foreign)
    if found.missing:
        _list("missing rows", found.missing)
    if found.leftovers:
        _list("leftovers (harmless)", found.leftovers)
    typer.echo("sound" if found.sound else "SOMETHING IS WRONG")


def _duplicates(found: "Verification") -> str:
    """What the number of duplicates means."""
    if found.repeated:
        return f", {found.repeated:,} of them twice in one file, which no writer of ours does"
    if found.duplicates:
        return (
            " in several files, as two instances or a backfill write them; readers see each once, "
            "and `lagwatch history compact` keeps one"
        )
    return ""


def _list(title: str, lines: "tuple[str, ...] | list[str]") -> None:
    typer.echo(f"{title}: {len(lines):,}")
    for line in lines[:_SHOWN]:
        typer.echo(f"  {line}")
    if len(lines) > _SHOWN:
        typer.echo(f"  … and {len(lines) - _SHOWN:,} more")


def _stored(stored: "StoredKind") -> dict[str, object]:
    return {
        "cluster": stored.cluster,
        "kind": stored.kind.value,
        "rows": stored.rows,
        "size_bytes": stored.size_bytes,
        "parts": stored.parts,
        "first_ms": stored.first_ms,
        "last_ms": stored.last_ms,
    }


def _verified(found: "Verification") -> dict[str, object]:
    return {
        "sound": found.sound,
        "rows": {kind.value: rows for kind, rows in found.rows.items()},
        "duplicates": found.duplicates,
        "repeated": found.repeated,
        "gaps": [
            {"cluster": gap.cluster, "from_ms": gap.from_ms, "to_ms": gap.to_ms}
            for gap in found.gaps
        ],
        "torn": list(found.torn),
        "foreign": list(found.foreign),
        "missing": list(found.missing),
        "leftovers": list(found.leftovers),
    }


def _instant(at_ms: int | None) -> str:
    from datetime import UTC, datetime

    if at_ms is None:
        return "-"
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _size(size_bytes: int) -> str:
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:  # noqa: PLR2004 SI prefixes
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"

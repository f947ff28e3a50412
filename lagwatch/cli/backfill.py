"""`lagwatch backfill`: the history of the time in which lagwatch did not run."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lagwatch.cli.jobs import EXIT_CODES, Clusters, Job, Master, Store, job
from lagwatch.cli.options import INSTANT_HELP, ConfigFile, instant_ms
from lagwatch.cli.reporting import reported

if TYPE_CHECKING:  # pyspark, numpy and pydantic take a while to import
    from rich.progress import Progress as Bar

    from lagwatch.jobs.backfill.request import BackfillRequest, ProgressDisplay

_DAY_MS: Final = 86_400_000
_DEFAULT_DAYS: Final = 7

EPILOG: Final = f"""
Commits come from the offsets topic, log ends from ListOffsets by time; they are judged by the
rules of the service. Only unrecorded times are filled, so the command can be repeated;
repeating the command continues a run that was killed. What compaction and retention have removed
stays a gap and is reported.

`--from telegraf` takes over what Telegraf's `inputs.burrow` left in Elasticsearch (indices
`burrow-*`; `telegraf:URL` or `telegraf:URL/INDICES` where that is not the configured one).

`--from parquet:PATH` reads copies: `PATH/offsets` with the columns `partition`, `offset`,
`timestamp`, `key`, `value` of Spark's Kafka source, and `PATH/log_ends` with `topic`, `partition`,
`at_ms`, `log_end` and, if there are any, `log_start`, `method`; both with `cluster` where they hold
several. `timestamp` and `at_ms` are timestamps or epoch milliseconds.
{EXIT_CODES}
**Examples**

`lagwatch backfill -c lagwatch.toml --dry-run`

`lagwatch backfill -c lagwatch.toml --since 2026-11-20 --until 2026-11-21T07:30:00Z`

`lagwatch backfill -c lagwatch.toml --from telegraf:http://elasticsearch:9200`

`lagwatch backfill --from parquet:/backup/kafka --cluster prod --store ./history`
"""


@reported()
def backfill(
    *,
    config: ConfigFile = None,
    source: Annotated[
        str,
        typer.Option(
            "--from", metavar="SOURCE", help="`kafka`, `telegraf[:URL]` or `parquet:PATH`."
        ),
    ] = "kafka",
    since: Annotated[
        str | None,
        typer.Option(
            metavar="INSTANT",
            help=f"Fill from here on ({_DEFAULT_DAYS} days before --until), " + INSTANT_HELP,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="INSTANT", help="Up to here, not included (now), " + INSTANT_HELP),
    ] = None,
    cluster: Clusters = None,
    store: Store = None,
    master: Master = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be read and written; write nothing.")
    ] = False,
) -> None:
    """Fill unrecorded times from what Kafka still holds, or from another recording."""
    kind, where = _source(source)
    until_ms = instant_ms(until, "--until") if until else None
    since_ms = instant_ms(since, "--since") if since else None
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise typer.BadParameter("must be before --until", param_hint="--since")
    if kind == "kafka" and config is None:
        raise typer.BadParameter("--from kafka needs the clusters of a configuration: -c FILE")
    with job(
        "backfill", config=config, store=store, master=master, dry=dry_run, fills=True
    ) as begun:
        from lagwatch.jobs.backfill.run import run_backfill

        end_ms = until_ms if until_ms is not None else begun.now_ms
        if kind == "kafka":  # what is to come cannot be filled
            end_ms = min(end_ms, begun.now_ms)
        begin_ms = since_ms if since_ms is not None else end_ms - _DEFAULT_DAYS * _DAY_MS
        if begin_ms >= end_ms:
            raise typer.BadParameter("must be before --until and now", param_hint="--since")
        request = _request(
            begun,
            source=(kind, where),
            only=tuple(cluster or ()),
            since_ms=begin_ms,
            until_ms=end_ms,
            dry_run=dry_run,
        )
        with _shown(begun) as progress:
            result = run_backfill(
                begun.spark, begun.ref, request, begun.run, now_ms=begun.now_ms, progress=progress
            )
        for line in result.lines():
            typer.echo(line)


def _source(text: str) -> tuple[str, str]:
    kind, _, where = text.partition(":")
    if kind not in {"kafka", "telegraf", "parquet"} or (kind == "kafka" and where):
        raise typer.BadParameter(
            f"{text!r} is not one of kafka, telegraf, telegraf:URL, parquet:PATH",
            param_hint="--from",
        )
    if kind == "parquet" and not where:
        raise typer.BadParameter("say where the copies are: parquet:PATH", param_hint="--from")
    return kind, where


def _request(
    begun: Job,
    *,
    source: tuple[str, str],
    only: tuple[str, ...],
    since_ms: int,
    until_ms: int,
    dry_run: bool,
) -> "BackfillRequest":
    from lagwatch.config.evaluator import EvaluatorSettings, WindowSettings
    from lagwatch.history.build import recorder_settings
    from lagwatch.jobs.backfill.replay import ReplaySettings
    from lagwatch.jobs.backfill.request import BackfillRequest, From, telegraf_of
    from lagwatch.monitor.settings import monitor_settings

    kind, where = source
    settings, history = begun.settings, begun.ref.settings
    clusters = settings.clusters if settings is not None else {}
    if unknown := [name for name in only if clusters and name not in clusters]:
        raise typer.BadParameter(
            f"no cluster {', '.join(unknown)}; there are {', '.join(sorted(clusters))}",
            param_hint="--cluster",
        )
    recorded = recorder_settings(history)
    elasticsearch = history.elasticsearch
    if kind == "telegraf":
        elasticsearch, where = telegraf_of(where, elasticsearch)
    return BackfillRequest(
        source=From(kind),
        where=where,
        clusters=clusters,
        only=only,
        elasticsearch=elasticsearch,
        since_ms=since_ms,
        until_ms=until_ms,
        replay=ReplaySettings(
            monitor=monitor_settings(
                settings.windows if settings is not None else WindowSettings(),
                settings.evaluator if settings is not None else EvaluatorSettings(),
            ),
            interval_ms=recorded.interval_ms,
            full_every=recorded.full_every,
        ),
        dry_run=dry_run,
    )


@contextmanager
def _shown(begun: Job) -> "Iterator[ProgressDisplay]":
    """A bar on stderr where that is a terminal, else lines of the log."""
    import sys

    if not sys.stderr.isatty():
        yield _Lines(begun)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield _Drawn(bar)


class _Lines:
    """Progress as lines of the log: one for each step, and one for each tenth."""

    def __init__(self, begun: Job) -> None:
        self._run = begun.run
        self._tenth = 0

    def step(self, what: str) -> None:
        self._tenth = 0
        self._run.log_step("backfill_step", step=what)

    def move(self, done: int, total: int) -> None:
        tenth = 10 * done // max(total, 1)
        if tenth > self._tenth:
            self._tenth = tenth
            self._run.log_step("backfill_progress", parts=done, of=total)


class _Drawn:
    """Progress as a bar."""

    def __init__(self, bar: "Bar") -> None:
        self._bar = bar
        self._task = bar.add_task("", total=None)

    def step(self, what: str) -> None:
        self._bar.reset(self._task, total=None, description=what)

    def move(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)


__all__ = ["EPILOG", "backfill"]

"""`lagwatch rollup`: 5 minutes, hours and days from what was recorded."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from lagwatch.cli.jobs import EXIT_CODES, Clusters, Job, Master, Store, job, require_known
from lagwatch.cli.options import INSTANT_HELP, ConfigFile, instant_ms
from lagwatch.cli.reporting import reported

if TYPE_CHECKING:  # pyarrow and pydantic take a while to import
    from lagwatch.jobs.rollup.job import RollupRequest

EPILOG: Final = f"""
Each run does what is new since the last one; rows that came late re-open their buckets only. Then
small Parquet files are put together, and what is older than `history.retention` is deleted. A run
that was killed is continued by the same command.
{EXIT_CODES}
**Examples**

`lagwatch rollup -c lagwatch.toml`

`lagwatch rollup --store ./history --from 2026-11-01 --to 2026-11-08`

`lagwatch rollup --store http://elasticsearch:9200 --master spark://master:7077`
"""


@reported()
def rollup(
    *,
    config: ConfigFile = None,
    store: Store = None,
    begin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="INSTANT",
            help="Make all buckets from here on anew, changed or not, " + INSTANT_HELP,
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="INSTANT", help="Up to here, not included, " + INSTANT_HELP),
    ] = None,
    cluster: Clusters = None,
    master: Master = None,
    tidy: Annotated[
        bool,
        typer.Option(help="Put small files together, and delete what is older than the retention."),
    ] = True,
) -> None:
    """Roll samples up to 5 minutes, hours and days; compact files; apply the retention."""
    from_ms = instant_ms(begin, "--from") if begin else None
    to_ms = instant_ms(end, "--to") if end else None
    if from_ms is not None and to_ms is not None and from_ms >= to_ms:
        raise typer.BadParameter("must be after --from", param_hint="--to")
    with job("rollup", config=config, store=store, master=master) as begun:
        from lagwatch.jobs.rollup.job import RollupRequest

        require_known(cluster or (), begun)
        roll_up(
            begun,
            RollupRequest(from_ms=from_ms, to_ms=to_ms, clusters=tuple(cluster or ()), tidy=tidy),
        )


def roll_up(begun: Job, request: "RollupRequest") -> None:
    """Roll up, and show what was done.

    Raises:
        HistoryError, JobError: the store or Spark refused, or the lock is lost.
    """
    from lagwatch.jobs.rollup.job import run_rollup

    result = run_rollup(
        begun.start_spark,
        begun.ref,
        request,
        now_ms=begun.now_ms,
        log_step=lambda event, values: begun.run.log_step(event, **values),
        fence=begun.run.lock.fence if begun.run.lock is not None else None,
    )
    begun.run.clusters |= set(result.clusters)
    for what, number in result.counts().items():
        begun.run.count(what, number)
    for problem in result.set_aside:
        begun.run.put_aside(problem)
    for line in result.lines():
        typer.echo(line)

"""What the commands of the Spark jobs share: their flags, and a run from beginning to end."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lagwatch.cli.options import configured
from lagwatch.cli.reporting import Exit, complain
from lagwatch.errors import ConfigError, HistoryError, JobError, LagwatchError, SourceError

if TYPE_CHECKING:  # pyspark, pyarrow and pydantic take a while to import
    from pyspark.sql import SparkSession

    from lagwatch.config.settings import Settings
    from lagwatch.jobs.run import JobRun
    from lagwatch.jobs.stores.base import StartSpark
    from lagwatch.jobs.tables import StoreRef

EXIT_CODES: Final = """
Exit codes: 0 done; 1 done, but files or records could not be used and were set aside; 2 bad
configuration or arguments; 3 not done (Kafka, store or Spark refused, or another run works on the
store): the same command may succeed later.
"""

Store = Annotated[
    str | None,
    typer.Option(
        metavar="PATH|URL",
        help="A folder or URL of Parquet files, an `http(s)://` URL of Elasticsearch; by default "
        "the configured store.",
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        metavar="MASTER",
        help="`local[2]`, `spark://…`, `yarn`, `k8s://…`, `sc://…`; instead of `jobs.master`.",
    ),
]
Clusters = Annotated[
    list[str] | None,
    typer.Option("--cluster", metavar="NAME", help="Only this cluster; may be repeated."),
]

jobs = typer.Typer(no_args_is_help=True, help="What the Spark jobs need on other machines.")


@jobs.command()
def package(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="The zip to write.")] = Path(
        "lagwatch-jobs.zip"
    ),
) -> None:
    """Write lagwatch as one zip, for `spark-submit --py-files`."""
    from lagwatch.jobs.package import write_package

    typer.echo(write_package(target))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A run that has begun."""

    start_spark: "StartSpark"
    """Spark runs from the first call to the end of the job."""
    ref: "StoreRef"
    settings: "Settings | None"
    """The whole configuration; None without one."""
    run: "JobRun"
    now_ms: int

    @property
    def spark(self) -> "SparkSession":
        """Spark, started now if it does not run yet."""
        return self.start_spark()


@contextmanager
def job(
    name: str,
    *,
    config: Path | None,
    store: str | None,
    master: str | None,
    dry: bool = False,
) -> Iterator[Job]:
    """Start a run of a job alone on its store; leave with the exit code of its outcome.

    Raises:
        typer.Exit: always, at the end.
    """
    try:
        with _begun(name, config=config, store=store, master=master, dry=dry) as begun:
            yield begun
    except ConfigError:
        raise
    except (JobError, SourceError, HistoryError) as error:
        complain(str(error))
        bad = isinstance(error, JobError) and error.kind == "input"
        raise typer.Exit(Exit.BAD_INPUT if bad else Exit.UNKNOWN) from None
    raise typer.Exit(Exit.WARNING if begun.run.set_aside else Exit.OK)


@contextmanager
def _begun(
    name: str, *, config: Path | None, store: str | None, master: str | None, dry: bool
) -> Iterator[Job]:
    settings = configured(config).settings if config is not None else None
    _require_spark()

    from lagwatch import log
    from lagwatch.clock import SystemClock
    from lagwatch.config.history import HistorySettings
    from lagwatch.config.jobs import JobsSettings
    from lagwatch.config.secret import Place
    from lagwatch.config.settings import LogSettings
    from lagwatch.config.walk import hidden_texts
    from lagwatch.jobs.package import SUBMITTED
    from lagwatch.jobs.run import job_run
    from lagwatch.jobs.tables import StoreRef

    said = settings.log if settings is not None else LogSettings()
    secrets = hidden_texts(settings) if settings is not None else ()
    log.configure(level=said.level, form=said.format, secrets=secrets)
    jobs_settings = settings.jobs if settings is not None else JobsSettings()
    if master is not None:
        jobs_settings = jobs_settings.model_copy(update={"master": Place(master)})
    ref = StoreRef.of(store, settings.history if settings is not None else HistorySettings())
    clock = SystemClock()
    with (
        job_run(name, ref.settings, jobs_settings, clock, dry=dry) as run,
        ExitStack() as running,
    ):

        @cache
        def start_spark() -> "SparkSession":
            from lagwatch.jobs.session import spark_session

            return running.enter_context(spark_session(jobs_settings, name=name, lock=run.lock))

        if SUBMITTED in os.environ:
            # YARN in cluster mode calls a program that takes no session a failure
            start_spark()
        yield Job(
            start_spark=start_spark, ref=ref, settings=settings, run=run, now_ms=clock.now_ms()
        )


def _require_spark() -> None:
    # only looked for: the import takes a while, and a run with nothing to do needs none
    if find_spec("pyspark") is None:
        raise LagwatchError(
            "Spark is not installed (no package pyspark). Install lagwatch[spark], and Java 17 or "
            "newer."
        )

"""What the commands of the Spark jobs share: their flags, and a run from beginning to end."""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lagwatch.cli.options import configured
from lagwatch.cli.reporting import Exit, complain
from lagwatch.errors import ConfigError, HistoryError, JobError, LagwatchError, SourceError

if TYPE_CHECKING:  # pyspark, pyarrow and pydantic take a while to import
    from pyspark.sql import SparkSession

    from lagwatch.config.jobs import JobsSettings
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
    """A running job."""

    start_spark: "StartSpark"
    """Starts Spark at the first call; Spark then runs until the job ends."""
    ref: "StoreRef"
    settings: "Settings | None"
    """The whole configuration; None without one."""
    run: "JobRun"
    now_ms: int

    @property
    def spark(self) -> "SparkSession":
        """Spark, started now if it does not run yet."""
        return self.start_spark()


_MASTER: Final = re.compile(
    r"local(\[(\*|\d+)(,\s*\d+)?\])?|yarn|(spark|k8s|sc)://.+|local-cluster\[.+\]"
)


@contextmanager
def job(
    name: str,
    *,
    config: Path | None,
    store: str | None,
    master: str | None,
    dry: bool = False,
    fills: bool = False,
) -> Iterator[Job]:
    """Start a run of a job alone on its store; leave with the exit code of its outcome.

    `fills`: the store may be new; see `prepared`.

    Raises:
        typer.Exit: always, at the end.
    """
    with (
        leaving() as outcomes,
        prepared(config=config, store=store, master=master, fills=fills) as place,
    ):
        with place.begun(name, dry=dry) as begun:
            yield begun
        outcomes.append(begun.run)


def require_known(clusters: list[str] | tuple[str, ...], begun: Job) -> None:
    """Refuse the name of a cluster that is neither recorded nor configured, before Spark starts.

    Raises:
        JobError: there is one.
    """
    from lagwatch.history.drivers.registry import open_store

    if not clusters:
        return
    with closing(open_store(begun.ref.settings)) as store:
        recorded = store.clusters()
    configured_too = begun.settings.clusters if begun.settings is not None else ()
    unknown = sorted({*clusters} - {*recorded, *configured_too})
    if unknown and (recorded or configured_too):
        raise JobError(
            kind="input",
            message=f"--cluster: nothing is recorded of {', '.join(unknown)}; "
            f"the history has {', '.join(recorded) or 'no cluster'}",
            retryable=False,
        )


@contextmanager
def leaving() -> Iterator["list[JobRun]"]:
    """Leave with the exit code of the runs that are put into the list, or of what went wrong.

    Raises:
        typer.Exit: always, at the end.
    """
    runs: list[JobRun] = []
    try:
        yield runs
    except ConfigError:
        raise
    except (JobError, SourceError, HistoryError) as error:
        complain(str(error))
        bad = isinstance(error, JobError) and error.kind == "input"
        raise typer.Exit(Exit.BAD_INPUT if bad else Exit.UNKNOWN) from None
    raise typer.Exit(Exit.WARNING if any(run.set_aside for run in runs) else Exit.OK)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlace:
    """A store and a Spark for the runs of one command, one after the other."""

    settings: "Settings | None"
    jobs_settings: "JobsSettings"
    ref: "StoreRef"
    running: ExitStack
    sessions: "list[SparkSession]"
    """Of Spark once it was started; every run uses it."""

    @contextmanager
    def begun(self, name: str, *, dry: bool = False) -> Iterator[Job]:
        """A run of a job, alone on the store.

        Raises:
            JobError: another run of the job works on the store.
            HistoryError: the store cannot be reached.
        """
        from lagwatch.clock import SystemClock
        from lagwatch.jobs.package import SUBMITTED
        from lagwatch.jobs.run import job_run

        clock = SystemClock()
        with job_run(name, self.ref.settings, self.jobs_settings, clock, dry=dry) as run:

            def start_spark() -> "SparkSession":
                return self._spark(name, run)

            if SUBMITTED in os.environ:
                # YARN in cluster mode calls a program that takes no session a failure
                start_spark()
            yield Job(
                start_spark=start_spark,
                ref=self.ref,
                settings=self.settings,
                run=run,
                now_ms=clock.now_ms(),
            )

    def _spark(self, name: str, run: "JobRun") -> "SparkSession":
        from lagwatch.jobs.jvm import running_jvm
        from lagwatch.jobs.session import spark_session

        if not self.sessions:
            started = spark_session(self.jobs_settings, name=name, lock=run.lock)
            self.sessions.append(self.running.enter_context(started))
        elif run.lock is not None and (jvm := running_jvm()) is not None:
            run.lock.guarded_by(jvm.guard_pid)
        return self.sessions[0]


@contextmanager
def prepared(
    *, config: Path | None, store: str | None, master: str | None, fills: bool = False
) -> Iterator[JobPlace]:
    """What the runs of a command share; Spark is stopped at the end.

    Of a job that `fills` a store its folder may be new; the others would find nothing in it, and
    a wrong path would look like a quiet night.

    Raises:
        typer.BadParameter: `--store` or `--master` names nothing.
        LagwatchError: there is no such folder.
    """
    from lagwatch.config import secret

    if store is not None and not store.strip():
        raise typer.BadParameter(
            "is empty. Write a folder or a URL, or leave the option out for the configured store",
            param_hint="--store",
        )
    if master is not None and not _MASTER.fullmatch(master):
        raise typer.BadParameter(
            f"{secret.ShownUrl.shown(master)!r} is no master. Write local[2], spark://HOST:PORT, "
            "yarn, k8s://… or sc://…",
            param_hint="--master",
        )
    settings = configured(config).settings if config is not None else None
    _require_spark()

    from lagwatch import log
    from lagwatch.config.history import HistorySettings
    from lagwatch.config.jobs import JobsSettings
    from lagwatch.config.settings import LogSettings
    from lagwatch.config.walk import hidden_texts
    from lagwatch.jobs.tables import StoreRef

    said = settings.log if settings is not None else LogSettings()
    secrets = hidden_texts(settings) if settings is not None else ()
    log.configure(level=said.level, form=said.format, secrets=secrets)
    jobs_settings = settings.jobs if settings is not None else JobsSettings()
    if master is not None:
        jobs_settings = jobs_settings.model_copy(update={"master": secret.ShownUrl(master)})
    ref = StoreRef.of(store, settings.history if settings is not None else HistorySettings())
    if not fills:
        _require_folder(ref)
    with ExitStack() as running:
        yield JobPlace(
            settings=settings, jobs_settings=jobs_settings, ref=ref, running=running, sessions=[]
        )


def _require_folder(ref: "StoreRef") -> None:
    from lagwatch.history.drivers.registry import folder_of

    folder = folder_of(ref.settings)
    if folder is not None and not folder.is_dir():
        raise LagwatchError(
            f"There is no folder {folder}: nothing was recorded there. Check --store, or "
            "history.url: `lagwatch serve` makes the folder when it starts."
        )


def _require_spark() -> None:
    # looks for the package only: importing it takes a while, and an idle run does not need it
    if find_spec("pyspark") is None:
        raise LagwatchError(
            "Spark is not installed (no package pyspark). Install lagwatch[spark], and Java 17 or "
            "newer."
        )

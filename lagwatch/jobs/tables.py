"""Stores as Spark tables: rows of history read and written, whichever store keeps them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind
from lagwatch.errors import HistoryError
from lagwatch.history.drivers.registry import open_store, settings_of
from lagwatch.jobs.fence import Fence, allowed_by
from lagwatch.jobs.sources.sink import Sink, Written
from lagwatch.jobs.stores.base import Aside, Result
from lagwatch.jobs.stores.registry import job_store
from lagwatch.ports.history import HistoryRange, HistoryStore

if TYPE_CHECKING:  # `StoreRef` serves runs that need no Spark, too
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRef:
    """Which store; goes to the workers, secrets and all. Never log it."""

    settings: HistorySettings

    @classmethod
    def of(cls, where: str | None, settings: HistorySettings) -> Self:
        """A store as users name it: folder, URL, `elasticsearch`; None: the configured one."""
        return cls(settings=settings_of(where, settings))

    def open(self, fence: Fence | None = None) -> HistoryStore:
        """The store itself, which takes rows only of a run that has its lock; the caller closes it.

        Raises:
            HistoryError: it cannot be understood, or its package is not installed.
        """
        return open_store(self.settings, allowed=allowed_by(fence))


def read_rows(
    spark: "SparkSession",
    ref: StoreRef,
    wanted: HistoryRange,
    *,
    aside: Aside | None = None,
    distinct: bool = False,
) -> "DataFrame":
    """The rows of a range, each record once: of equal keys the better source, then the first.

    Columns are those of the kind, or `wanted.columns` and the key, in the order of the schema. With
    `distinct` the caller knows that no record is in two files, which saves the look.

    Parquet files that are torn, foreign or of a later release are skipped, and passed to `aside`.

    Raises:
        HistoryError: the store did not answer.
    """
    return job_store(ref.settings).rows(spark, wanted, aside=aside, distinct=distinct)


def on_sound_files(ref: StoreRef, act: Callable[[], Result]) -> Result:
    """Result of `act`, which reads rows of the store and may be called several times.

    A file may turn out to be torn only when its pages are read, or be compacted in between: then
    `act` is called again, and `read_rows` passes over what is torn.
    """
    return job_store(ref.settings).steady(act)


def write_rows(
    rows: "DataFrame", ref: StoreRef, kind: Kind, *, batch: str, fence: Fence | None = None
) -> Written:
    """Write rows as recorded (samples, group_samples, events); returns how many were stored.

    Writing the same rows again, in part or whole, changes nothing, and no row of a worse source
    takes the place of a better one's. `batch` names what is written: letters, digits and `-`.

    This is not a data source sink, because a sink cannot report what was rejected.

    Raises:
        PySparkException: a store refused, or was away for long; `lagwatch.jobs.faults` reads it.
    """
    from lagwatch.jobs.stores.making import write  # noqa: PLC0415 only where Spark runs

    sink = Sink(settings=ref.settings, kind=kind, batch=batch, fence=fence)
    return write(rows.sortWithinPartitions(*kind.key), sink)


def replace_rows(rows: "DataFrame", ref: StoreRef, kind: Kind) -> Written:
    """Put computed rows in the place of those with the same keys, where the store can do that.

    Raises:
        PySparkException: as `write_rows`.
        HistoryError: the store replaces no single rows.
    """
    from lagwatch.jobs.stores.making import write  # noqa: PLC0415 only where Spark runs

    sink = job_store(ref.settings).replacing(kind)
    if sink is None:
        raise HistoryError(
            store=ref.settings.store,
            kind="schema",
            message="this store replaces no single rows, only what its roll-ups make anew",
            retryable=False,
        )
    return write(rows, sink)


__all__ = [
    "Aside",
    "StoreRef",
    "Written",
    "on_sound_files",
    "read_rows",
    "replace_rows",
    "write_rows",
]

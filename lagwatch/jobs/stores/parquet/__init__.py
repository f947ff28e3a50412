"""The job side of the Parquet store.

```
rows      as Spark reads them         watch     what is new, and how it is divided
rollups   files written anew          state     what the jobs remember, and the kernel's lock
```
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from lagwatch.config.history import HistorySettings
from lagwatch.core.record import RAW, Kind
from lagwatch.core.record.columns import ROLLUP_STEP_MS
from lagwatch.history.drivers.registry import folder_of
from lagwatch.history.folder import open_folder
from lagwatch.history.layout import day_of, day_start_ms
from lagwatch.history.parquet import ParquetStore
from lagwatch.jobs.stores.base import (
    Aside,
    Exclusive,
    Made,
    Making,
    Mark,
    RawRows,
    Result,
    StartSpark,
    Weighed,
)
from lagwatch.jobs.stores.parquet.state import FolderState, kernel_lock
from lagwatch.jobs.stores.parquet.watch import crowded, look, made, weigh
from lagwatch.jobs.units import Range
from lagwatch.ports.history import Compacted, HistoryRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ParquetJobs:
    """A `JobStore` of files."""

    def __init__(self, settings: HistorySettings) -> None:
        """Opens nothing yet."""
        self._settings = settings
        self._where = settings.url.get_secret_value()

    def state(self) -> FolderState:
        return FolderState(open_folder(self._where))

    def exclusive(self, job: str) -> AbstractContextManager[Exclusive]:
        folder = folder_of(self._settings)
        return nullcontext(Exclusive(free=True)) if folder is None else kernel_lock(folder, job)

    def rows(
        self, spark: "SparkSession", wanted: HistoryRange, *, aside: Aside | None, distinct: bool
    ) -> "DataFrame":
        from lagwatch.jobs.stores.parquet.rows import parquet_rows  # noqa: PLC0415 needs pyspark

        return parquet_rows(spark, self._where, wanted, aside=aside, distinct=distinct)

    def steady(self, act: Callable[[], Result]) -> Result:
        from lagwatch.jobs.stores.parquet.rows import retried  # noqa: PLC0415 needs pyspark

        return retried(self._where, act)

    def replacing(self, kind: Kind) -> None:  # noqa: ARG002 files are replaced as a whole
        return None

    def rollups(self) -> "ParquetRollups":
        return ParquetRollups(self._settings)


class ParquetRollups:
    """The `Rollups` of files."""

    def __init__(self, settings: HistorySettings) -> None:
        self._settings = settings
        self._where = settings.url.get_secret_value()
        self._store = ParquetStore(self._where)

    @property
    def set_aside(self) -> Sequence[str]:
        return self._store.set_aside

    def clusters(self) -> Sequence[str]:
        return sorted({name for kind in RAW for name in self._store.clusters_of(kind)})

    def look(self, cluster: str, mark: Mark) -> RawRows:
        return look(self._store, cluster, mark)

    def made(self, cluster: str) -> Mark:
        return made(self._store, cluster)

    def unreadable(self, cluster: str, before_ms: int) -> Sequence[Range]:
        days = [day for kind in RAW for day in self._store.days(kind, cluster)]
        from_ms = day_start_ms(min(days, default=day_of(before_ms)))
        found: list[Range] = []
        for kind in ROLLUP_STEP_MS if from_ms < before_ms else ():
            wanted = HistoryRange(kind=kind, cluster=cluster, from_ms=from_ms, to_ms=before_ms)
            for slot in self._store.slots(wanted, cluster):
                self._store.footers(slot)
            found += [
                (max(begin, from_ms), min(end, before_ms))
                for begin, end in self._store.damaged(kind, cluster)
                if begin < before_ms and end > from_ms
            ]
        return found

    def weigh(
        self, kind: Kind, cluster: str, pieces: Sequence[Range], *, step_ms: int, most: int
    ) -> Iterator[Weighed]:
        return weigh(self._store, kind, cluster, pieces, step_ms=step_ms, most=most)

    def replace(self, spark: "SparkSession", making: Making) -> Made:
        from lagwatch.jobs.stores.parquet.rollups import replace  # noqa: PLC0415 needs pyspark

        return replace(spark, self._settings, making)

    def compact(
        self, start_spark: StartSpark, clusters: Sequence[str], before_ms: int
    ) -> Compacted:
        slots = crowded(self._store, clusters, before_ms)
        if not slots:
            return Compacted()
        from lagwatch.jobs.stores.parquet.rollups import compact  # noqa: PLC0415 needs pyspark

        return compact(start_spark(), self._where, slots)

    def close(self) -> None:
        self._store.close()


JOBS = ParquetJobs

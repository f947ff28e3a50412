"""What the jobs need of a store beyond the service's side.

Each file or folder here that is named as a driver in `lagwatch/history/drivers` holds a `JOBS`: it
makes the job side of a store from its settings. `registry.py` finds it. Importing it imports no
pyspark: a run first looks for work, and starts Spark only if there is any.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lagwatch.core.record import Kind, Records
from lagwatch.jobs.fence import Fence
from lagwatch.jobs.sources.sink import Sink, Written
from lagwatch.jobs.state import JobState
from lagwatch.jobs.units import Range, Ranges
from lagwatch.ports.history import Compacted, HistoryRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

StartSpark = Callable[[], "SparkSession"]
"""Starts Spark at the first call, and gives the same session at each."""
MakeRows = Callable[[Iterator[Any], list[str]], Iterator[Records]]
"""Makes rows from Arrow batches that describe the work; appends to the list what it sets aside."""
Aside = Callable[[str, str], None]
"""Called with a file that is set aside, and the reason."""
Result = TypeVar("Result")

Mark = dict[str, Any]
"""State kept for one cluster; JSON."""
Weighed = tuple[int, int, Sequence[tuple[str, int]]]
"""Begin, end, and rows per group; () if one task takes all groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRows:
    """The raw rows of a cluster as they are now."""

    held: Ranges
    """Ranges with samples of partitions or groups; each at least five minutes."""
    changed: Ranges
    """Ranges with new rows since the mark."""
    lost: tuple[tuple[Kind, Range], ...] = ()
    """Kinds and ranges of roll-ups that were `made` by the mark and are gone."""
    mark: Mark
    """The new mark, to be saved once all ranges are rolled up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """Roll-ups of one kind that are to be made."""

    kind: Kind
    units: "DataFrame"
    """One row of `UNIT_TYPE` per task."""
    make: MakeRows
    ranges: Mapping[str, Ranges]
    """Ranges of buckets that are replaced as a whole, by cluster."""
    now_ms: int
    fence: Fence | None = None
    """None: no other run can be at work, as in tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Result of making roll-ups."""

    written: Written
    replaced: int = 0
    """Rows that were in these buckets before."""
    problems: tuple[str, ...] = ()
    """Files that were set aside while they were made."""


class Rollups(Protocol):
    """A store as the roll-ups use it, opened for one run. Methods raise `HistoryError`."""

    @property
    def set_aside(self) -> Sequence[str]:
        """Parts of the store that could not be used so far, one sentence each."""
        ...

    def clusters(self) -> Sequence[str]:
        """Clusters of which there are raw rows, sorted."""
        ...

    def look(self, cluster: str, mark: Mark) -> RawRows:
        """Compare with the saved mark; {} the first time.

        Each store decides what its mark holds.
        """
        ...

    def made(self, cluster: str) -> Mark:
        """The roll-ups that are there now, to be kept in the mark as `made`.

        Only those of days of which there are raw rows: others could not be made again.
        """
        ...

    def unreadable(self, cluster: str, before_ms: int) -> Sequence[Range]:
        """Times before an instant of which some roll-ups can no longer be read, in any order.

        Only times of which there are raw rows: later they could not be made again.
        """
        ...

    def weigh(
        self, kind: Kind, cluster: str, pieces: Sequence[Range], *, step_ms: int, most: int
    ) -> Iterator[Weighed]:
        """Split `pieces` into pieces of time with their rows; together they cover all of `pieces`.

        A piece may be put together of several, or cut at multiples of `step_ms`, so that it has
        about `most` rows; its groups are named when it has more.
        """
        ...

    def replace(self, spark: "SparkSession", making: Making) -> Made:
        """Replace all roll-ups of these buckets; may be repeated.

        Raises:
            PySparkException: the store refused, or was away for long.
        """
        ...

    def compact(
        self, start_spark: StartSpark, clusters: Sequence[str], before_ms: int
    ) -> Compacted:
        """Make few large parts of many small ones; without any, Spark is not started.

        Raises:
            PySparkException: the store refused; nothing is lost.
        """
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusive:
    """What a store offers against a second run."""

    free: bool
    """False: another run holds it."""
    descriptors: tuple[int, ...] = ()
    """Open files: the lock is held until every copy of them, also in other processes, is closed."""


class JobStore(Protocol):
    """The job side of a store."""

    def state(self) -> JobState:
        """State that the jobs keep from one run to the next."""
        ...

    def exclusive(self, job: str) -> AbstractContextManager[Exclusive]:
        """Hold the store's own lock against a second run, beside the note in `state`.

        A store without one is always free.
        """
        ...

    def rows(
        self, spark: "SparkSession", wanted: HistoryRange, *, aside: Aside | None, distinct: bool
    ) -> "DataFrame":
        """The rows of a range as `tables.read_rows` describes.

        Raises:
            HistoryError: the store did not answer.
        """
        ...

    def steady(self, act: Callable[[], Result]) -> Result:
        """Result of `act`, called again where files of the store have vanished or are torn."""
        ...

    def replacing(self, kind: Kind) -> Sink | None:
        """Sink whose rows replace those with the same keys.

        None if the store cannot replace single rows.
        """
        ...

    def rollups(self) -> Rollups:
        """Open the store for one run of the roll-ups."""
        ...

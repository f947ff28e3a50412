"""What the jobs need of a store beside what the service does.

Each file or folder here that is named as a driver in `lagwatch/history/drivers` holds a `JOBS`: it
makes the job side of a store from its settings. `registry.py` finds it. Importing it imports no
pyspark: a run looks first what is to be done, and starts Spark only then.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lagwatch.core.record import Kind, Records
from lagwatch.jobs.sources.sink import Sink, Written
from lagwatch.jobs.state import JobState
from lagwatch.jobs.units import Range, Ranges
from lagwatch.ports.history import Compacted, HistoryRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

StartSpark = Callable[[], "SparkSession"]
"""Starts Spark at the first call, and gives the same session at each."""
MakeRows = Callable[[Iterator[Any], list[str]], Iterator[Records]]
"""From Arrow batches that say what is to be done to rows; what had to be set aside is added."""
Aside = Callable[[str, str], None]
"""Called with a file that is set aside, and the reason."""
Result = TypeVar("Result")

Mark = dict[str, Any]
"""What is remembered of one cluster; JSON."""
Weighed = tuple[int, int, Sequence[tuple[str, int]]]
"""From when to when, and how many rows are of which group; () one task takes them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The raw rows of a cluster as they are now."""

    held: Ranges
    """Where there are samples, of partitions or groups; at least five minutes each."""
    changed: Ranges
    """Where rows came since the mark was made."""
    mark: Mark
    """To be remembered once all that is rolled up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """Roll-ups of one kind that are to be made."""

    kind: Kind
    units: "DataFrame"
    """Of `UNIT_TYPE`: what each task makes."""
    make: MakeRows
    ranges: Mapping[str, Ranges]
    """By cluster, the buckets that are made anew: all of them."""
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What became of them."""

    written: Written
    replaced: int = 0
    """Rows that were in these buckets before."""
    problems: tuple[str, ...] = ()
    """Files that were set aside while they were made."""


class Rollups(Protocol):
    """A store as the roll-ups use it, opened for one run. Methods raise `HistoryError`."""

    def clusters(self) -> Sequence[str]:
        """Clusters of which there are raw rows, sorted."""
        ...

    def look(self, cluster: str, mark: Mark) -> Seen:
        """Compare with what was remembered; {} when nothing was.

        What a mark holds is the store's own.
        """
        ...

    def weigh(
        self, kind: Kind, cluster: str, pieces: Sequence[Range], *, step_ms: int, most: int
    ) -> Iterator[Weighed]:
        """Pieces of time with the rows that are in them, together all that is in `pieces`.

        A piece may be put together of several, or cut at multiples of `step_ms`, so that it has
        about `most` rows; its groups are named when it has more.
        """
        ...

    def replace(self, spark: "SparkSession", making: Making) -> Made:
        """Put roll-ups in the place of all that were in the buckets; may be done again.

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


class JobStore(Protocol):
    """The job side of a store."""

    def state(self) -> JobState:
        """What the jobs remember from one run to the next."""
        ...

    def exclusive(self, job: str) -> AbstractContextManager[bool]:
        """Hold what the store offers against a second run beside a note in `state`.

        False: somebody else holds it. A store that offers nothing, or whose `state` swaps in one
        step, gives True.
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
        """What `act` gives, called again where parts of the store have vanished or are torn."""
        ...

    def replacing(self, kind: Kind) -> Sink | None:
        """Where rows go that take the place of those with the same keys; None: not row by row."""
        ...

    def rollups(self) -> Rollups:
        """Opened for one run of the roll-ups."""
        ...

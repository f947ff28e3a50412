"""Questions about the stored history, and the operations of a store."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.record import Kind, Records, Text, Values, schema

# history


EVER_MS: Final = 4_000_000_000_000
"""Later than every instant of the history, and within the range of dates of every store."""

Allowed = Callable[[], None]
"""Called right before written rows are published; an exception stops that."""


def always() -> None:
    """Allow all rows to be published."""


_NAMES: Final = frozenset({"cluster", "level", "group", "topic", "partition"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRange:
    """Rows of one kind: `from_ms` <= instant < `to_ms`, of the names that are given."""

    kind: Kind
    from_ms: int
    to_ms: int
    cluster: str | None = None
    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    level: str | None = None
    """Of roll-ups: partition | topic | group."""
    columns: tuple[str, ...] = ()
    """Columns wanted; () all. The columns of the key always come along."""

    @property
    def chosen(self) -> tuple[str, ...]:
        """The columns to hand out, in the order of the schema."""
        asked = {*self.columns, *self.kind.key} if self.columns else set(schema(self.kind))
        return tuple(name for name in schema(self.kind) if name in asked)

    @property
    def names(self) -> Mapping[str, str | int]:
        """Key columns fixed to one value: {column: value}."""
        given = {name: getattr(self, name) for name in self.kind.key if name in _NAMES}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """One series in buckets; only buckets in which there are samples, in order; equal lengths."""

    bucket_ms: NDArray[np.int64]
    """First instant of each bucket: a multiple of the step."""
    samples: NDArray[np.int64]
    lag_max: NDArray[np.int64]
    """-1 when no sample of the bucket knows its lag."""
    lag_avg: NDArray[np.float64]
    """Over the samples whose lag is known; NaN when there are none."""
    time_lag_max_s: NDArray[np.float64]
    """NaN unknown."""
    status: Text
    """The worst of the bucket, by `record.BY_WORST`."""


class TopBy(StrEnum):
    """By what groups are ranked, greatest first; unknown comes last."""

    LAG = "lag"
    TIME_LAG = "time_lag"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKind:
    """Figures of the rows that a store holds of one kind and cluster."""

    kind: Kind
    cluster: str
    rows: int
    """Stored rows; counts a record twice if two instances, or a backfill, wrote it."""
    size_bytes: int
    parts: int
    """Files or indices."""
    first_ms: int | None
    last_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryGap:
    """A time without any recorded round of a cluster."""

    cluster: str
    from_ms: int
    """The last round before it."""
    to_ms: int
    """The first round after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Result of reading the whole store."""

    rows: Mapping[Kind, int]
    """Distinct records by kind."""
    duplicates: int
    """Records that are stored more than once. Readers see each once.

    Expected where two instances record a cluster, or a backfill meets live rows."""
    gaps: tuple[HistoryGap, ...]
    torn: tuple[str, ...]
    """Published files that cannot be read completely."""
    foreign: tuple[str, ...]
    """Files of another program or another schema version; with the reason."""
    leftovers: tuple[str, ...]
    """Unpublished files of a writer that died; harmless."""
    repeated: int = 0
    """Of the duplicates, those twice in one file: no writer of ours does that."""
    missing: tuple[str, ...] = ()
    """Hours in which rows of partitions are missing that rounds say were written."""

    @property
    def sound(self) -> bool:
        """True if nothing is wrong. Gaps, and records in several files, are not faults."""
        return not (self.repeated or self.torn or self.foreign or self.missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What a compaction did."""

    merged: int = 0
    """Files deleted."""
    written: int = 0
    """Files written in their place."""
    rows: int = 0
    """Rows in these."""

    def __add__(self, other: "Compacted") -> "Compacted":
        return Compacted(
            merged=self.merged + other.merged,
            written=self.written + other.written,
            rows=self.rows + other.rows,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendQuestion:
    """Offsets of partitions whose time of appending is wanted; columns of equal length."""

    cluster: str
    groups: frozenset[str]
    """Groups whose samples have these partitions."""
    topics: tuple[str, ...]
    topic_ids: tuple[str, ...]
    """Kafka's id of each topic: samples of a topic that was deleted since say nothing."""
    topic: NDArray[np.int64]
    """Index into `topics`."""
    partition: NDArray[np.int64]
    offset: NDArray[np.int64]


ReportProgress = Callable[[int, int], None]
"""Called with (done, total); total may grow."""


class HistoryStore(Protocol):
    """Keeps history rows. Every method blocks and may raise `HistoryError`.

    One store object is used from several threads: writing from one, reading from many.
    """

    @property
    def rejected_rows(self) -> int:
        """Rows that the store refused for good since the process began, and that were set aside."""
        ...

    @property
    def set_aside(self) -> Sequence[str]:
        """Parts of the store that could not be used so far, one sentence each, sorted."""
        ...

    def damaged(self, kind: Kind, cluster: str) -> Sequence[tuple[int, int]]:
        """Times of which some rows could not be read so far: begin, and end (not included)."""
        ...

    def write(self, records: Sequence[Records], *, batch: str) -> None:
        """Make these rows durable before returning.

        Writing the same batch again, in part or whole, changes nothing. `batch` names it: letters,
        digits and `-`; the same name always comes with the same rows.
        """
        ...

    def read(self, wanted: HistoryRange) -> Iterator[Records]:
        """Chunks of rows, each record once, in the order of hours; inside an hour in any order.

        Of rows with the same key the one of the better source (`record.SOURCE_RANK`) comes, then
        the one that was written first. A chunk is never empty. A column that an older row lacks
        is unknown there.
        """
        ...

    def read_groups(
        self, wanted: HistoryRange, low: str | None, high: str | None
    ) -> Iterator[Records]:
        """As `read`, of one cluster and of groups with `low <= name < high`; None is no limit."""
        ...

    def aggregate(self, wanted: HistoryRange, step_ms: int) -> Buckets:
        """Kind `group_samples` of one cluster and group in buckets; lag is the `total_lag`."""
        ...

    def top(
        self, at_ms: int, *, within_ms: int, by: TopBy, limit: int, cluster: str | None = None
    ) -> Records:
        """The first `limit` groups at an instant, as `group_samples`.

        Each group by its last row in `at_ms - within_ms < at_ms <= at_ms`. Ties go by cluster,
        then group.
        """
        ...

    def clusters(self) -> tuple[str, ...]:
        """Clusters with any rows, sorted."""
        ...

    def has(self, kind: Kind) -> bool:
        """True if the store has rows of this kind."""
        ...

    def days(self, kind: Kind, cluster: str) -> tuple[str, ...]:
        """Days (UTC, `2026-11-21`) with any rows, sorted."""
        ...

    def stats(self) -> tuple[StoredKind, ...]:
        """Figures per cluster and kind, sorted."""
        ...

    def verify(self, progress: ReportProgress | None = None) -> Verification:
        """Read everything and count."""
        ...

    def delete_before(self, kind: Kind, day: str) -> int:
        """Delete whole days before `day` (UTC) of all clusters; returns how many rows went."""
        ...

    def tidy(self, now_ms: int) -> None:
        """Routine maintenance that keeps reading fast; the writer calls it from time to time."""
        ...

    def compact(self, progress: ReportProgress | None = None) -> Compacted | None:
        """Make few large parts of many small ones, wherever; None: it does so by itself."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryAsk:
    """A question about one series."""

    from_ms: int
    to_ms: int
    step_ms: int | None = None
    """None: chosen to give a few hundred points; 0: the rows as recorded."""
    columns: tuple[str, ...] = ()
    """() means all."""
    limit: int = 1000
    """Points of one page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPage:
    """One page of an answer: columns of equal length, in the order of time."""

    columns: Mapping[str, Values]
    kind: Kind
    """Kind that the points were read from; if several, the coarsest."""
    step_ms: int
    """Distance of the points; 0 for rows as recorded."""
    next_ms: int | None
    """Where the next page begins; None at the end."""

    @property
    def size(self) -> int:
        """Number of points."""
        return int(next(iter(self.columns.values())).size) if self.columns else 0


class HistoryQueries(Protocol):
    """The read side of the history. May raise `HistoryError`; never blocks the event loop.

    A name that was not recorded gives an empty page, not an error: nothing was recorded.
    """

    async def group(self, cluster: str, group: str, ask: HistoryAsk) -> HistoryPage:
        """A group over time; a point on the grid without samples has unknown values."""
        ...

    async def partition(
        self, cluster: str, group: str, topic: str, partition: int, ask: HistoryAsk
    ) -> HistoryPage: ...

    async def events(self, cluster: str, group: str | None, ask: HistoryAsk) -> HistoryPage:
        """Recorded events; `step_ms` is ignored."""
        ...

    async def top(
        self, at_ms: int, *, by: TopBy, limit: int, cluster: str | None = None
    ) -> HistoryPage:
        """The worst groups at a past instant."""
        ...

    def arrow(self, page: HistoryPage) -> bytes:
        """The page as an Arrow IPC stream."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderHealth:
    """State of the recorder, for `/readyz`, metrics and the log."""

    enabled: bool
    problem: str = ""
    """The present problem and its remedy; "" when there is none."""
    rounds: int = 0
    """Regular rounds recorded."""
    rows: int = 0
    """Rows that reached the spool."""
    unchanged: int = 0
    """Rows left out because nothing had changed."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Rows lost, by reason: behind, disk_full, io, spool_full, corrupt, rejected."""
    spool_bytes: int = 0
    spool_segments: int = 0
    oldest_ms: int | None = None
    """Instant of the oldest row not delivered yet."""
    delivered: int = 0
    """Rows acknowledged by the store."""
    retries: int = 0

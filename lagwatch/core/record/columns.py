"""Kinds of history rows and their columns: names, types, units, what may be unknown.

Kind names are also the names of folders and indices; column names are the same in every store.
A row's *key* is its identity: the same key written twice is one record.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final

from lagwatch.core.model import GroupStatus, PartitionStatus

SCHEMA_VERSION: Final = 1
"""Grows when a column changes its meaning; new nullable columns do not count."""


@unique
class Kind(StrEnum):
    """What a row is about."""

    SAMPLES = "samples"
    """One group-partition at one instant."""
    GROUP_SAMPLES = "group_samples"
    """One group at one instant; a regular one also says that its partitions were looked at."""
    EVENTS = "events"
    """Something happened: a verdict changed, a group rebalanced, something was deployed."""
    ROLLUP_5M = "rollup_5m"
    ROLLUP_1H = "rollup_1h"
    ROLLUP_1D = "rollup_1d"

    @property
    def time_column(self) -> str:
        """The instant that ranges, days and order are about."""
        return "bucket_ms" if self in ROLLUP_STEP_MS else "at_ms"

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify a row; the instant is the last of them."""
        return _KEYS[self]


RAW: Final = (Kind.SAMPLES, Kind.GROUP_SAMPLES, Kind.EVENTS)
"""Kinds that roll-ups are made of."""
ROLLUP_STEP_MS: Final[Mapping[Kind, int]] = {
    Kind.ROLLUP_5M: 300_000,
    Kind.ROLLUP_1H: 3_600_000,
    Kind.ROLLUP_1D: 86_400_000,
}
"""Length of a bucket; `bucket_ms` is its first instant, a multiple of this in UTC."""


@unique
class Source(StrEnum):
    """Who wrote a row."""

    LIVE = "live"
    BACKFILL = "backfill"
    TELEGRAF = "telegraf"


SOURCE_RANK: Final[Mapping[str, int]] = {Source.LIVE: 0, Source.TELEGRAF: 1, Source.BACKFILL: 2}
"""Of rows with the same key the one with the lowest rank is kept, then the one written first."""


@unique
class SampleReason(StrEnum):
    """Why a sample was taken."""

    INTERVAL = "interval"
    """Regularly; `at_ms` is a multiple of the sampling interval."""
    CHANGE = "change"
    """The status changed; `at_ms` is the instant of the verdict."""


@unique
class EventName(StrEnum):
    """Names of events."""

    PARTITION_STATUS = "partition_status"
    GROUP_STATUS = "group_status"
    REBALANCE = "rebalance"
    """New generations or epochs: `count` of them."""
    REBALANCE_STORM = "rebalance_storm"
    """`after` is `began` (five rebalances within five minutes) or `ended` (none for as long)."""
    MEMBER_JOINED = "member_joined"
    """`count` members; `detail` is JSON: client id and host of each, the first 20."""
    MEMBER_LEFT = "member_left"
    """As `member_joined`."""
    STATIC_MEMBER_AWAY = "static_member_away"
    """Members with a `group.instance.id` left; `detail` names it, too."""
    STATIC_MEMBER_BACK = "static_member_back"
    """They came back, or restarted before they were missed."""
    UNASSIGNED = "unassigned"
    """No member holds a partition any more; `after` is the group's state."""
    ASSIGNED = "assigned"
    """A member holds one again; `detail` is JSON: after how many seconds (`unassigned_s`)."""
    ASSIGNOR = "assignor"
    """The group's assignor changed from `before` to `after`."""
    PROTOCOL = "protocol"
    """The group's protocol changed from `before` to `after`: `classic`, `consumer`, …"""
    OFFSETS_RESET = "offsets_reset"
    """Offsets of `count` partitions were set while the group had no members; by whom is not known.

    `detail` is JSON: partition, offset before and after, of the first 20.
    """
    TOPIC_RECREATED = "topic_recreated"
    """A topic that the group reads was deleted and made anew."""
    PARTITIONS_ADDED = "partitions_added"
    """A topic that the group reads has `after` partitions instead of `before`."""
    DEPLOYMENT = "deployment"
    RECORDING = "recording"
    """The recorder itself: `after` is `started`, `stopped`, `dropped`, `failed` or `resumed`.

    From `dropped` to `resumed` nothing was recorded, because the data were stale; from `failed`,
    because rows could not be written, as on a full disk. `detail` of both is the reason.

    Also `backfilled`: what was filled afterwards from `at_ms` on; `detail` is JSON and says what
    could not be.
    """
    RECORDS_LOST = "records_lost"
    """Messages were deleted before the group read them: `count` of them, or at most so many.

    `detail` is JSON: `first` and `end` are offsets (`end` is not lost), `exact` says whether all of
    them were lost.
    """
    JOB = "job"
    """A Spark job ended: `after` is `done`, `set_aside` or `failed`; `detail` is JSON."""


@unique
class ColumnType(StrEnum):
    """How a value is stored; the word in brackets is Arrow's."""

    TEXT = "text"
    """Unicode (utf8)."""
    INT32 = "int32"
    INT64 = "int64"
    INSTANT = "instant"
    """Epoch milliseconds, UTC (int64)."""
    FLOAT64 = "float64"
    """(double)"""
    BINARY = "binary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a kind."""

    name: str
    type: ColumnType
    unit: str = ""
    """ms | s | messages | offset | rows | 1/s | share; "" without a unit."""
    nullable: bool = True
    """True if values may be unknown: null outside, -1 or NaN in numpy columns; never 0."""
    meaning: str = ""


def schema(kind: Kind) -> Mapping[str, Column]:
    """The columns of a kind by name, in their order."""
    return _SCHEMAS[kind]


KINDS: Final = tuple(Kind)

BY_WORST: Final = (
    *(GroupStatus.NOTFOUND.name, PartitionStatus.UNKNOWN.name, PartitionStatus.OK.name),
    *(PartitionStatus.WARN.name, GroupStatus.ERR.name, PartitionStatus.STOP.name),
    *(PartitionStatus.STALL.name, PartitionStatus.REWIND.name),
)
"""Status words of partitions and groups, worst last: the status of a bucket is its worst."""


def _text(name: str, meaning: str = "", *, nullable: bool = False) -> Column:
    return Column(name=name, type=ColumnType.TEXT, nullable=nullable, meaning=meaning)


def _count(name: str, unit: str, meaning: str = "", *, nullable: bool = True) -> Column:
    return Column(name=name, type=ColumnType.INT64, unit=unit, nullable=nullable, meaning=meaning)


def _small(name: str, unit: str = "", meaning: str = "", *, nullable: bool = True) -> Column:
    return Column(name=name, type=ColumnType.INT32, unit=unit, nullable=nullable, meaning=meaning)


def _instant(name: str, meaning: str = "", *, nullable: bool = True) -> Column:
    return Column(name=name, type=ColumnType.INSTANT, unit="ms", nullable=nullable, meaning=meaning)


def _real(name: str, unit: str, meaning: str = "", *, nullable: bool = True) -> Column:
    return Column(name=name, type=ColumnType.FLOAT64, unit=unit, nullable=nullable, meaning=meaning)


_CLUSTER = _text("cluster")
_AT = _instant(
    "at_ms", "the instant; for a regular sample the start of its interval", nullable=False
)
_ORIGIN = (
    _text("source", "live | backfill | telegraf"),
    _small("schema_version", nullable=False),
)
_CAUSE = (
    _text("cause", "likeliest cause of WARN or ERR; null: see cause_certainty", nullable=True),
    _text("cause_certainty", "certain | likely | unknown; null: not looked for", nullable=True),
)

_SAMPLES = (
    _CLUSTER,
    _text("group"),
    _text("topic"),
    _small("partition", nullable=False),
    _AT,
    _instant("observed_ms", "when the verdict was given", nullable=False),
    _count("committed_offset", "offset", "the next offset to be read"),
    _instant("commit_ms", "when it was committed"),
    _count("log_end_offset", "offset"),
    _instant("log_end_ms", "when that log end was read, or an earlier time when it was"),
    _text("topic_id", "Kafka's id of the topic: another one after it was made anew", nullable=True),
    _count("log_start_offset", "offset"),
    _count("lag", "messages"),
    _real("time_lag_s", "s", "age of the oldest message not read"),
    _text("time_lag_reason", "how the time lag is known, or why not"),
    _instant("time_lag_at_ms", "the instant that the time lag is as of"),
    _text("status", "OK | WARN | STOP | STALL | REWIND | UNKNOWN"),
    _text("rule", "the rule that decided; null where the source does not say", nullable=True),
    _real("complete", "share", "share of the window that is filled, 0..1"),
    _text("group_status", "NOTFOUND | OK | WARN | ERR | UNKNOWN", nullable=True),
    _text("group_state", "Kafka's word", nullable=True),
    _text("owner", "host of the member that holds the partition", nullable=True),
    _text("client_id", nullable=True),
    _text("reason", "interval | change"),
    _text("method", "how log ends were known: observed, or how it was rebuilt", nullable=True),
    *_ORIGIN,
)

_GROUP_SAMPLES = (
    _CLUSTER,
    _text("group"),
    _AT,
    _instant("observed_ms", "when the verdict was given", nullable=False),
    _text("status", "NOTFOUND | OK | WARN | ERR | UNKNOWN"),
    _text("rule", "the rule that decided for the worst partition", nullable=True),
    _text("state", "Kafka's word", nullable=True),
    _real("complete", "share", "share of the partitions whose window is full, 0..1"),
    _count("total_lag", "messages", "sum over partitions whose lag is known"),
    _count("max_lag", "messages"),
    _text("max_lag_topic", nullable=True),
    _small("max_lag_partition"),
    _real("time_lag_s", "s", "the worst of its partitions"),
    _text("time_lag_reason"),
    _instant("time_lag_at_ms", "the instant that the time lag is as of"),
    _small("partitions", "rows", "all partitions of every topic committed to"),
    _small("unknown_partitions", "rows", "partitions whose lag is not known"),
    _small("not_ok", "rows", "partitions worse than OK"),
    _small("members", "rows", "null when the group could not be described"),
    _small("observed", "rows", "partitions that were looked at"),
    _small("unchanged", "rows", "of these, not written because nothing had changed"),
    _instant("previous_ms", "at_ms of the recorded round before; stale ones are left out"),
    _small("interval_ms", "ms", "the sampling interval in force"),
    _small("rebalances", "rows", "seen since lagwatch started; null: not counted"),
    _text("reason", "interval | change"),
    *_CAUSE,
    _real("catch_up_s", "s", "until it has caught up; null: see catch_up_reason"),
    _text("catch_up_reason", "how that is known, or why not; of WARN and ERR", nullable=True),
    _real("loss_in_s", "s", "until messages are deleted unread; null: see loss_reason"),
    _text("loss_reason", "how that is known, or why not; of WARN and ERR", nullable=True),
    _instant("since_ms", "when the oldest trouble of its partitions began; null: it has none"),
    *_ORIGIN,
)

_EVENTS = (
    _CLUSTER,
    _text("group", "null for what concerns the whole cluster", nullable=True),
    _text("topic", nullable=True),
    _small("partition"),
    _text("event", "what happened: see EventName"),
    _AT,
    _text("before", nullable=True),
    _text("after", nullable=True),
    _text("rule", nullable=True),
    _count("lag", "messages"),
    _count("count", "rows", "how many, of what is counted: rebalances, messages lost"),
    _text("detail", "one sentence, or JSON", nullable=True),
    *_CAUSE,
    *_ORIGIN,
)

_ROLLUP = (
    _CLUSTER,
    _text("level", "partition | topic | group"),
    _text("group", nullable=True),
    _text("topic", nullable=True),
    _small("partition"),
    _instant("bucket_ms", "first instant of the bucket", nullable=False),
    _count("samples", "rows", nullable=False),
    _count("lag_known", "rows", "samples whose lag was known"),
    _count("lag_sum", "messages", "sum over the samples whose lag was known"),
    _count("lag_min", "messages", "above 0: messages waited all the time"),
    _count("lag_max", "messages"),
    _real("lag_avg", "messages"),
    _real("lag_p50", "messages"),
    _real("lag_p95", "messages"),
    _real("lag_p99", "messages"),
    _real("time_lag_max_s", "s", "the greatest; of a time lag that is only bounded, the bound"),
    _real("time_lag_p95_s", "s", "bounds count as in the greatest"),
    _text("status", "the worst of the bucket", nullable=True),
    *(
        _real(f"{status.name.lower()}_s", "s", f"time in {status.name}")
        for status in PartitionStatus
    ),
    _real("err_s", "s", "time in ERR (groups)"),
    _count("produced", "messages", "how far the log end moved on while that was measured"),
    _count("consumed", "messages", "the same of the committed offset, leaps over deleted left out"),
    _real("produced_s", "s", "the time in which it was measured"),
    _real("consumed_s", "s"),
    _real("produced_per_s", "1/s", "`produced / produced_s`, to four digits"),
    _real("consumed_per_s", "1/s", "`consumed / consumed_s`, to four digits"),
    _count("commits", "samples", "with a newer commit than the one before"),
    _count("rebalances", "rows"),
    _text("owner", "the owner of the partition with the greatest lag", nullable=True),
    _count("owner_lag", "messages", "the lag of that partition"),
    Column(name="lag_sketch", type=ColumnType.BINARY, meaning="mergeable quantiles of the lag"),
    Column(name="time_lag_sketch", type=ColumnType.BINARY),
    *_ORIGIN,
)


def _by_name(columns: tuple[Column, ...]) -> Mapping[str, Column]:
    return {column.name: column for column in columns}


_SCHEMAS: Final[Mapping[Kind, Mapping[str, Column]]] = {
    Kind.SAMPLES: _by_name(_SAMPLES),
    Kind.GROUP_SAMPLES: _by_name(_GROUP_SAMPLES),
    Kind.EVENTS: _by_name(_EVENTS),
    Kind.ROLLUP_5M: _by_name(_ROLLUP),
    Kind.ROLLUP_1H: _by_name(_ROLLUP),
    Kind.ROLLUP_1D: _by_name(_ROLLUP),
}
_ROLLUP_KEY: Final = ("cluster", "level", "group", "topic", "partition", "bucket_ms")
_KEYS: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.SAMPLES: ("cluster", "group", "topic", "partition", "at_ms"),
    Kind.GROUP_SAMPLES: ("cluster", "group", "at_ms"),
    Kind.EVENTS: ("cluster", "group", "topic", "partition", "event", "at_ms"),
    Kind.ROLLUP_5M: _ROLLUP_KEY,
    Kind.ROLLUP_1H: _ROLLUP_KEY,
    Kind.ROLLUP_1D: _ROLLUP_KEY,
}

"""Input of a replay: commits, deletions of groups and log ends, as columns in time order."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.record import Text

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Index = NDArray[np.integer] | NDArray[np.bool_] | slice


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommitRows:
    """Commits and removals of commits, by the instant at which they came; equal lengths."""

    at_ms: Int64
    """When the record was written: rising, except for a few milliseconds."""
    group: Text
    topic: Text
    partition: Int32
    offset: Int64
    """-1: the commit was removed."""
    commit_ms: Int64
    order: Int64
    """Offset of the record in its partition of the offsets topic."""
    offsets_partition: Int32
    """The partition of the offsets topic; -1 when the source does not say."""

    @property
    def size(self) -> int:
        return int(self.at_ms.size)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogEndRows:
    """Log ends, by instant; rows of one instant are one round. Equal lengths."""

    at_ms: Int64
    """Rising."""
    topic: Text
    partition: Int32
    log_end: Int64
    """-1 unknown."""
    log_start: Int64
    """-1 unknown."""
    method: Text
    """The source of the log end."""

    @property
    def size(self) -> int:
        return int(self.at_ms.size)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GoneRows:
    """Groups that were deleted, by instant."""

    at_ms: Int64
    group: Text
    order: Int64
    """Commits after this one stay."""

    @property
    def size(self) -> int:
        return int(self.at_ms.size)


def no_commits() -> CommitRows:
    """Nothing was committed."""
    none, small = np.zeros(0, np.int64), np.zeros(0, np.int32)
    return CommitRows(
        at_ms=none,
        group=Text.same(None, 0),
        topic=Text.same(None, 0),
        partition=small,
        offset=none,
        commit_ms=none,
        order=none,
        offsets_partition=small,
    )


def no_log_ends() -> LogEndRows:
    """Nothing is known of log ends."""
    none, small = np.zeros(0, np.int64), np.zeros(0, np.int32)
    return LogEndRows(
        at_ms=none,
        topic=Text.same(None, 0),
        partition=small,
        log_end=none,
        log_start=none,
        method=Text.same(None, 0),
    )


def no_groups_gone() -> GoneRows:
    """No group was deleted."""
    none = np.zeros(0, np.int64)
    return GoneRows(at_ms=none, group=Text.same(None, 0), order=none)

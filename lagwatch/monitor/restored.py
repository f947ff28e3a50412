"""Checks once after a restart whether the state of the earlier process still fits Kafka."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.snapshot import TopicColumns
from lagwatch.ports.reports import Backlog, Commits

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptState:
    """What outlives a restart, beside the columns by row and the history."""

    positions: Mapping[int, int]
    offsets_topic_id: str
    exact_times: bool | None
    first_ms: int
    """When lagwatch first watched the cluster; -1: not yet."""
    unwatched: tuple[tuple[int, int], ...]
    """From and until when no process watched since then."""
    data_ms: int
    judged_ms: int
    """When the cluster was judged last; later than `data_ms` while Kafka is away. -1: never."""
    topics_ms: int
    starts_ms: int
    topics: TopicColumns
    topic_ids: Mapping[str, str]
    missing_since: Mapping[str, int]
    partitions: Mapping[str, Int64]
    """Columns of `PartitionStates`."""
    absences: tuple[Int64, ...]
    """Columns of `KnownCommits`."""
    listed: frozenset[str]
    """Groups that Kafka lists."""


@dataclass(slots=True, kw_only=True)
class Restored:
    """What a checkpoint says that reports of the new collector are compared with."""

    positions: Mapping[int, int]
    """Offsets topic partition → next offset; empty where offsets are polled."""
    exact_times: bool | None
    """As in `Commits` that are not `beside`; None when the earlier process had read none."""
    offsets_topic: str
    offsets_topic_id: str
    """"" unknown."""
    groups: frozenset[str] = field(default_factory=frozenset)
    """Groups that Kafka listed before and has not listed since; empty once they are dropped."""
    lacking_ms: int = UNKNOWN
    """When they were first missing in a list; -1 not yet."""
    compared: bool = False

    def other_topic(self, report: Backlog) -> str:
        """Why the positions are of another offsets topic; "" when they are not, or it is open."""
        if not self.offsets_topic_id or report.topic_id in ("", self.offsets_topic_id):
            return ""
        self.compared = True
        return f"{self.offsets_topic} was replaced, or this is another cluster"

    def misfit(self, report: Commits) -> str:
        """Why the windows cannot go on with these commits; "" when they can, or it is open."""
        if self.compared or report.beside:
            return ""
        if self.exact_times is not None and report.exact_times is not self.exact_times:
            self.compared = True
            return "commits are read in another way now"
        if report.exact_times and not report.positions:
            return ""
        self.compared = True
        if any(report.positions.get(each, at) < at for each, at in self.positions.items()):
            return f"{self.offsets_topic} ends before where it was read to: it was replaced"
        return ""

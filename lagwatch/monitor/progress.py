"""Takes the progress that jobs keep outside of Kafka into the windows, as commits."""

from collections.abc import Collection, Mapping
from typing import Final

from lagwatch.clock import Clock
from lagwatch.core.model import UNKNOWN, EpochMs
from lagwatch.core.snapshot import TopicColumns
from lagwatch.errors import NameTakenError, NotFoundError, PositionError
from lagwatch.monitor.cluster import ClusterMonitor
from lagwatch.ports.progress import Positions, Taken
from lagwatch.ports.reports import Progress

_AHEAD_MS: Final = 300_000
"""So far may the clock of a reporter be ahead, which counts as now; what is later is refused."""
_OF_KAFKA: Final = frozenset({"classic", "connect", "consumer", "share", "simple", "streams"})
"""Kinds of groups that Kafka keeps, which reported progress must not be taken for."""
_MOST_UNSEEN: Final = 10_000
"""Partitions, counted from 0, of all topics that are not visible (yet)."""


class ReportedProgress:
    """`ports.ProgressSink`."""

    def __init__(
        self,
        monitors: Mapping[str, ClusterMonitor],
        clock: Clock,
        *,
        read: Mapping[str, Collection[str]] = {},
    ) -> None:
        """`read`: jobs by cluster whose progress lagwatch reads itself."""
        self._monitors = monitors
        self._clock = clock
        self._read = read
        self._newest_ms: dict[tuple[str, str], int] = {}
        """Instant of the newest report by cluster and name."""

    def report(
        self, cluster: str, group: str, *, kind: str, positions: Positions, at_ms: int | None
    ) -> Taken:
        monitor = self._monitors.get(cluster)
        if monitor is None:
            raise NotFoundError(kind="cluster", name=cluster)
        if group in monitor.groups.info:
            raise NameTakenError(
                f"Kafka has a group {group!r} on {cluster}: report this progress by another name"
            )
        if group in self._read.get(cluster, ()):
            raise NameTakenError(
                f"[clusters.{cluster}.progress.{group}] reads the progress of {group!r}: report by "
                "another name, or remove that section"
            )
        if kind in _OF_KAFKA:
            raise PositionError(
                f"kind {kind!r} is one of Kafka's own groups: name what keeps the progress, as "
                '"flink"'
            )
        now_ms = self._clock.now_ms()
        if at_ms is not None and at_ms > now_ms + _AHEAD_MS:
            raise PositionError(
                f"at_ms {at_ms} is {(at_ms - now_ms) // 1000} s ahead of lagwatch's clock: send "
                "milliseconds since 1970, or no at_ms for now"
            )
        taken_ms = now_ms if at_ms is None else min(at_ms, now_ms)
        kept_ms = monitor.settings.expire_ms
        if taken_ms < now_ms - kept_ms:
            raise PositionError(
                f"at_ms {taken_ms} is older than the {kept_ms // 1000} s for which groups are kept "
                "(windows.expire_group_s): send milliseconds since 1970, or no at_ms for now"
            )
        _check_partitions(monitor.topics, positions)
        places = [
            (topic, partition, offset)
            for topic, offsets in positions.items()
            for partition, offset in offsets.items()
        ]
        topics, partitions, offsets = zip(*places, strict=True) if places else ((), (), ())
        report = Progress(
            group=group,
            kind=kind,
            topic=topics,
            partition=partitions,
            offset=offsets,
            at_ms=EpochMs(taken_ms),
        )
        newest_ms = self._newest_ms.get((cluster, group), UNKNOWN)
        self._newest_ms[cluster, group] = max(taken_ms, newest_ms)
        monitor.apply(report, now_ms)
        return Taken(
            at_ms=taken_ms,
            late=taken_ms < newest_ms,
            not_visible=tuple(sorted(positions.keys() - monitor.topics.index.keys())),
        )


def _check_partitions(topics: TopicColumns, positions: Positions) -> None:
    """Every partition up to the last one is shown: a number that cannot be right makes millions.

    Raises:
        PositionError: a topic has no such partition.
    """
    unseen = 0
    for topic, offsets in positions.items():
        last, index = max(offsets, default=UNKNOWN), topics.index.get(topic)
        if index is None:
            unseen += last + 1
            if unseen > _MOST_UNSEEN:
                raise PositionError(
                    f"positions.{topic}.{last}: topic {topic!r} is not visible, and of all such "
                    f"topics {_MOST_UNSEEN} partitions are taken; send it when the topic is there"
                )
            continue
        number = int(topics.first[index + 1] - topics.first[index])
        if last >= number:
            raise PositionError(
                f"positions.{topic}.{last}: topic {topic!r} has {number} partitions, from 0 to "
                f"{number - 1}"
            )

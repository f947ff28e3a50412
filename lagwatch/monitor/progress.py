"""Takes the progress that jobs keep outside of Kafka into the windows, as commits."""

from collections.abc import Collection, Mapping

from lagwatch.clock import Clock
from lagwatch.core.model import EpochMs
from lagwatch.errors import NameTakenError, NotFoundError
from lagwatch.monitor.cluster import ClusterMonitor
from lagwatch.ports.progress import Positions
from lagwatch.ports.reports import Progress


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

    def report(
        self, cluster: str, group: str, *, kind: str, positions: Positions, at_ms: int | None
    ) -> int:
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
        now_ms = self._clock.now_ms()
        taken_ms = now_ms if at_ms is None else min(at_ms, now_ms)
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
        monitor.apply(report, now_ms)
        return taken_ms

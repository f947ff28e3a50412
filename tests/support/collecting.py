"""Runs a real collector under its supervisor, and keeps what it reports."""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from lagwatch.clock import SystemClock
from lagwatch.collector.supervisor import SILENT_S, CollectorSupervisor
from lagwatch.config import ClusterSettings
from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.ports.reports import (
    Backlog,
    CollectorStarted,
    Commits,
    LogEnds,
    Report,
    SourceHealth,
    SourceKind,
    Topics,
)
from tests.support.waiting import eventually

R = TypeVar("R", bound=Report)
Key = tuple[str, str, int]

QUICK: Mapping[str, Any] = {
    "log_end_interval_s": 0.5,
    "group_interval_s": 1.0,
    "committed_interval_s": 1.0,
}
"""Intervals for tests that wait for a next round."""


@dataclass(frozen=True)
class Row:
    """One commit as reported."""

    offset: int
    commit_ms: int
    order: int
    exact: bool
    only_change: bool
    after_ms: int
    """-1: not reported."""


class Seen:
    """Everything a collector reported so far; any thread may look."""

    def __init__(self, supervisor: CollectorSupervisor) -> None:
        self.supervisor = supervisor
        self.reports: list[Report] = []

    def of(self, kind: type[R]) -> list[R]:
        return [report for report in list(self.reports) if isinstance(report, kind)]

    def last(self, kind: type[R]) -> R | None:
        found = self.of(kind)
        return found[-1] if found else None

    def rounds(self) -> int:
        """How many rounds of log ends were reported."""
        return len(self.of(LogEnds))

    def ready(self) -> bool:
        backlog = self.last(Backlog)
        return backlog is not None and backlog.ready

    def wait_ready(self) -> "Seen":
        eventually(self.ready, "the backlog is read")
        return self

    def commits(self) -> dict[Key, list[Row]]:
        """All commits by group, topic and partition, in the order reported."""
        rows: defaultdict[Key, list[Row]] = defaultdict(list)
        names: list[Key] = []
        for report in list(self.reports):
            if isinstance(report, CollectorStarted):
                names = []
            if isinstance(report, Commits):
                assert report.first_new_id == len(names), "ids are dense"
                new = zip(report.new_groups, report.new_topics, report.new_partitions, strict=True)
                names.extend(new)
                after_ms = (
                    np.full(report.key.size, -1) if report.after_ms is None else report.after_ms
                )
                columns = (report.key, report.offset, report.commit_ms, report.order, after_ms)
                flags = (report.exact_times, report.only_changes)
                for row in zip(*(column.tolist() for column in columns), strict=True):
                    key, offset, at_ms, order, after = row
                    rows[names[key]].append(Row(offset, at_ms, order, *flags, after))
        return rows

    def of_partition(self, group: str, topic: str, partition: int = 0) -> list[Row]:
        return self.commits().get((group, topic, partition), [])

    def offsets(self, group: str, topic: str, partition: int = 0) -> list[int]:
        return [row.offset for row in self.of_partition(group, topic, partition)]

    def log_end(self, topic: str, partition: int = 0) -> tuple[int, int, int] | None:
        """(log start, last stable, log end) of the newest round; None: not in it."""
        topics = {each.version: each for each in self.of(Topics)}
        for ends in reversed(self.of(LogEnds)):
            listing = topics[ends.version]
            if topic not in listing.names:
                return None
            at = listing.names.index(topic)
            row = int(listing.partitions[:at].sum()) + partition
            return int(ends.log_start[row]), int(ends.last_stable[row]), int(ends.log_end[row])
        return None

    def health(self, source: SourceKind) -> SourceHealth | None:
        found = [each for each in self.of(SourceHealth) if each.source is source]
        return found[-1] if found else None

    def healthy_since(self, at_ms: int, *sources: SourceKind) -> bool:
        """Are these sources well, reported after `at_ms`?"""
        lately = [self.health(source) for source in sources]
        return all(each is not None and each.ok and each.at_ms > at_ms for each in lately)


def settings(kafka: EmbeddedKafka, user: str | None = None, **options: Any) -> ClusterSettings:  # noqa: ANN401 - as in a file
    """How to reach this cluster, with quick intervals."""
    client = kafka.client_config(user)
    secure: dict[str, Any] = {}
    if user is not None:
        secure["tls"] = {"enabled": True, "ca_file": str(kafka.ca_file)}
        secure["sasl"] = {
            "mechanism": "SCRAM-SHA-512",
            "username": user,
            "password": client["sasl.password"],
        }
    return ClusterSettings.model_validate(
        {"bootstrap": kafka.bootstrap_servers, **QUICK, **secure, **options}
    )


@contextmanager
def collecting(
    options: ClusterSettings, cluster: str = "test", *, silent_s: float = SILENT_S
) -> Iterator[Seen]:
    """Run a collector until the block ends."""
    supervisor = CollectorSupervisor(
        cluster=cluster, settings=options, clock=SystemClock(), silent_s=silent_s
    )
    seen = Seen(supervisor)
    stop = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_run(seen, stop.is_set)))
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join(30)
        assert not thread.is_alive(), "the supervisor stops when asked"


async def _run(seen: Seen, stopped: Callable[[], bool]) -> None:
    async def keep() -> None:
        async for report in seen.supervisor.reports():
            seen.reports.append(report)

    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(seen.supervisor.run()), tasks.create_task(keep())]
        while not stopped():  # noqa: ASYNC110 a condition, not an event
            await asyncio.sleep(0.02)
        for task in running:
            task.cancel()

"""The cluster that the manual shows: four groups over 45 minutes, at fixed instants."""

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from lagwatch.config.evaluator import EvaluatorSettings, WindowSettings
from lagwatch.core.model import EpochMs, GroupInfo, Member
from lagwatch.monitor import ClusterMonitor
from lagwatch.monitor.settings import monitor_settings
from lagwatch.ports.queries import ClusterHealth
from lagwatch.ports.reports import Backlog, CollectorStarted, Commits, GroupsSeen, LogEnds, Topics
from lagwatch.query import SnapshotQueries

CLUSTER: Final = "prod"
END_MS: Final = 1_795_230_000_000
"""2026-11-21 03:00 UTC"""
_STEP_S: Final = 10
_LENGTH_S: Final = 45 * 60
_TOPICS: Final = {"archive": 2, "clicks": 1, "orders": 3}


@dataclass(frozen=True, kw_only=True)
class _Reader:
    """A group with one member, and how it reads in its trouble."""

    group: str
    topic: str
    trouble_s: int = 0
    """Its trouble began so long before the end."""
    speed: float = 1.0
    """Share of the new messages that it reads in its trouble."""
    commits: bool = True
    """Keeps committing while in trouble."""
    host: str = ""
    """Of its member; "" when it has none in its trouble."""


_READERS: Final = (
    _Reader(group="billing", topic="orders", host="/10.0.3.11"),
    _Reader(group="click-stats", topic="clicks", trouble_s=900, speed=0.6, host="/10.0.3.12"),
    _Reader(group="mailer", topic="archive", trouble_s=720, speed=0.0, host="/10.0.3.14"),
    _Reader(group="reports", topic="archive", trouble_s=1260, speed=0.0, commits=False),
)
_RATES: Final = {"archive": 4, "clicks": 20, "orders": 8}
"""Messages a second and partition."""


@cache
def queries() -> SnapshotQueries:
    """What the cluster's groups look like at the end."""
    monitor = ClusterMonitor(CLUSTER, monitor_settings(WindowSettings(), EvaluatorSettings()))
    start_ms = END_MS - _LENGTH_S * 1000
    monitor.apply(CollectorStarted(incarnation=1), EpochMs(start_ms))
    monitor.apply(_topics(), EpochMs(start_ms))
    monitor.apply(Backlog(read=0, total=0, ready=True), EpochMs(start_ms))
    offsets = {reader.group: 0.0 for reader in _READERS}
    for step in range(_LENGTH_S // _STEP_S + 1):
        after_s = step * _STEP_S
        now_ms = EpochMs(start_ms + after_s * 1000)
        troubled = {reader.group for reader in _READERS if after_s > _LENGTH_S - reader.trouble_s}
        for reader in _READERS:
            speed = reader.speed if reader.group in troubled else 1.0
            read = _RATES[reader.topic] * _STEP_S * speed
            offsets[reader.group] += read if step else 0.0
        monitor.apply(_log_ends(after_s, now_ms), now_ms)
        committing = [
            reader for reader in _READERS if reader.commits or reader.group not in troubled
        ]
        monitor.apply(_commits(committing, offsets, step, now_ms), now_ms)
        monitor.apply(_groups(troubled), now_ms)
        monitor.apply(_log_ends(after_s, now_ms), now_ms)
        monitor.judge(now_ms)
    return SnapshotQueries({CLUSTER: monitor}, health=_health)


def _topics() -> Topics:
    return Topics(
        version=1,
        names=tuple(_TOPICS),
        ids=tuple(f"id-{name}" for name in _TOPICS),
        partitions=np.array(list(_TOPICS.values()), np.int32),
        leader=np.ones(sum(_TOPICS.values()), np.int32),
    )


def _log_ends(after_s: int, now_ms: EpochMs) -> LogEnds:
    ends = [
        _RATES[name] * after_s for name, partitions in _TOPICS.items() for _ in range(partitions)
    ]
    log_end = np.array(ends, np.int64)
    return LogEnds(
        version=1,
        started_ms=now_ms,
        finished_ms=now_ms,
        log_start=np.zeros(log_end.size, np.int64),
        log_end=log_end,
        last_stable=log_end,
    )


def _commits(
    readers: list[_Reader], offsets: dict[str, float], step: int, now_ms: EpochMs
) -> Commits:
    rows = [
        (reader.group, reader.topic, number)
        for reader in _READERS
        for number in range(_TOPICS[reader.topic])
    ]
    groups = {reader.group for reader in readers}
    chosen = [(key, row) for key, row in enumerate(rows) if row[0] in groups]
    new = rows if step == 0 else []
    return Commits(
        first_new_id=0 if new else len(rows),
        new_groups=tuple(row[0] for row in new),
        new_topics=tuple(row[1] for row in new),
        new_partitions=tuple(row[2] for row in new),
        key=np.array([key for key, _ in chosen], np.int32),
        offset=np.array([int(offsets[row[0]]) for _, row in chosen], np.int64),
        commit_ms=np.full(len(chosen), now_ms, np.int64),
        order=np.arange(len(chosen), dtype=np.int64) + step * len(rows) + 1,
        observed_ms=now_ms,
    )


def _groups(troubled: set[str]) -> GroupsSeen:
    infos = tuple(_info(reader, in_trouble=reader.group in troubled) for reader in _READERS)
    return GroupsSeen(groups=infos, complete=True)


def _info(reader: _Reader, *, in_trouble: bool) -> GroupInfo:
    host = reader.host if in_trouble else reader.host or "/10.0.3.15"
    member = Member(
        member_id=f"{reader.group}-1",
        client_id=f"{reader.group}-1",
        host=host,
        instance_id="",
        assignment=((reader.topic, tuple(range(_TOPICS[reader.topic]))),),
    )
    return GroupInfo(
        group=reader.group,
        type="classic",
        state="Stable" if host else "Empty",
        assignor="range" if host else "",
        coordinator=1,
        members=(member,) if host else (),
    )


def _health() -> tuple[ClusterHealth, ...]:
    return (
        ClusterHealth(
            cluster=CLUSTER,
            ready=True,
            age_s=0.0,
            backlog_read=0,
            backlog_total=0,
            commits_mode="offsets-topic",
            collector_restarts=0,
            problems=(),
            unseen=(),
        ),
    )

"""One evaluation round over 100,000 group-partitions, all of them behind."""

import time
from collections.abc import Iterator

import numpy as np

from lagwatch.core.model import EpochMs, RuleSet
from lagwatch.monitor import ClusterMonitor
from lagwatch.monitor.settings import MonitorSettings
from lagwatch.ports.reports import Commits, LogEnds, Topics
from tests.bench.figures import Figure

GROUPS, TOPICS, PARTITIONS = 1000, 20, 50
"""Each group commits to two topics: 1,000 x 2 x 50 rows."""
ROUNDS = 15
START_MS = 1_800_000_000_000


def run() -> Iterator[Figure]:
    monitor, now_ms = filled()
    took_ms = []
    for number in range(ROUNDS):
        started_s = time.thread_time()  # one thread of arithmetic: its own time, not the neighbours
        snapshot = monitor.judge(EpochMs(now_ms + number))
        took_ms.append((time.thread_time() - started_s) * 1000)
        assert (snapshot.rows.lag > 0).all()
    yield Figure(
        name="evaluate_100k_partitions",
        value=float(np.median(took_ms)),
        unit="ms",
        target=60,
    )


def filled(
    groups: int = GROUPS,
    topics: int = TOPICS,
    partitions: int = PARTITIONS,
    *,
    behind: int | None = None,
    most_read: int = 60,
    rules: RuleSet = RuleSet.LAGWATCH,
) -> tuple[ClusterMonitor, int]:
    """A monitor whose windows are full; so many of its groups are behind, None: all.

    These read less than `most_read` messages a step, while 50 are written.
    """
    rng = np.random.default_rng(7)
    monitor = ClusterMonitor(
        "bench",
        MonitorSettings(
            intervals=10,
            min_distance_ms=0,
            expire_ms=7 * 86_400_000,
            allowed_lag=0,
            minimum_complete=0.0,
            history_ms=86_400_000,
            rules=rules,
        ),
    )
    names = tuple(f"topic-{number:03}" for number in range(topics))
    leaders = np.ones(topics * partitions, np.int32)
    sizes = np.full(topics, partitions, np.int32)
    monitor.apply(
        Topics(version=1, names=names, ids=("",) * topics, partitions=sizes, leader=leaders),
        EpochMs(START_MS),
    )
    identities = [
        (f"group-{group:04}", names[(group + side) % topics], partition)
        for group in range(groups)
        for side in range(2)
        for partition in range(partitions)
    ]
    keeps_up = np.arange(len(identities)) >= (groups if behind is None else behind) * 2 * partitions
    committed = rng.integers(0, 1000, len(identities))
    ends = np.full(leaders.size, 2000, np.int64)
    now_ms = START_MS
    for step in range(12):
        now_ms += 5000
        committed = committed + rng.integers(0, most_read, committed.size)
        ends = ends + 50
        committed[keeps_up] = ends[0]
        monitor.apply(
            _commits(identities if step == 0 else [], committed, step, now_ms), EpochMs(now_ms)
        )
        monitor.apply(
            LogEnds(
                version=1,
                started_ms=EpochMs(now_ms),
                finished_ms=EpochMs(now_ms),
                log_start=np.zeros_like(ends),
                log_end=ends,
                last_stable=ends,
            ),
            EpochMs(now_ms),
        )
    return monitor, now_ms


def _commits(
    new: list[tuple[str, str, int]], offset: np.ndarray, step: int, now_ms: int
) -> Commits:
    number = offset.size
    return Commits(
        first_new_id=0,
        new_groups=tuple(identity[0] for identity in new),
        new_topics=tuple(identity[1] for identity in new),
        new_partitions=tuple(identity[2] for identity in new),
        key=np.arange(number, dtype=np.int32),
        offset=offset.astype(np.int64),
        commit_ms=np.full(number, now_ms, np.int64),
        order=np.arange(number, dtype=np.int64) + step * number,
        observed_ms=EpochMs(now_ms),
    )

"""Lags of polled offsets: a group that reads all at once has none, whenever it is judged."""

import numpy as np

from lagwatch.core.model import EpochMs
from lagwatch.monitor import ClusterMonitor
from lagwatch.monitor.settings import MonitorSettings
from lagwatch.ports.reports import (
    Backlog,
    CollectorFacts,
    CollectorStarted,
    Commits,
    CommitsKnown,
    LogEnds,
    Report,
    Topics,
)

START_MS = 1_800_000_000_000
RATE = 200
"""Messages a second; the group commits each at once."""


class Polling:
    """Log ends are read at whole five seconds, offsets are polled at other times."""

    def __init__(self) -> None:
        settings = MonitorSettings(
            intervals=5,
            min_distance_ms=1_000,
            expire_ms=3_600_000,
            allowed_lag=0,
            minimum_complete=0.0,
            history_ms=86_400_000,
        )
        self.monitor = ClusterMonitor("here", settings)
        self._polls = 0
        ones = np.ones(1, np.int32)
        self._apply(CollectorStarted(incarnation=1), 0)
        self._apply(CollectorFacts(commits_mode="admin", reason=""), 0)
        self._apply(Topics(version=1, names=("t",), ids=("id",), partitions=ones, leader=ones), 0)
        self._apply(Backlog(read=0, total=0, ready=True), 0)

    def _apply(self, report: Report, at_s: float) -> None:
        self.monitor.apply(report, EpochMs(START_MS + int(at_s * 1000)))

    def log_ends(self, at_s: float) -> None:
        at_ms, end = EpochMs(START_MS + int(at_s * 1000)), np.array([int(at_s * RATE)])
        zero = np.zeros(1, np.int64)
        report = LogEnds(
            version=1,
            started_ms=at_ms,
            finished_ms=at_ms,
            log_start=zero,
            log_end=end,
            last_stable=end,
        )
        self._apply(report, at_s)

    def poll(self, at_s: float) -> None:
        at_ms, new = START_MS + int(at_s * 1000), self._polls == 0
        self._polls += 1
        report = Commits(
            first_new_id=0,
            new_groups=("g",) if new else (),
            new_topics=("t",) if new else (),
            new_partitions=(0,) if new else (),
            key=np.zeros(1, np.int32),
            offset=np.array([int(at_s * RATE)]),
            commit_ms=np.array([at_ms]),
            order=np.array([self._polls]),
            observed_ms=EpochMs(at_ms),
            exact_times=False,
            only_changes=True,
        )
        self._apply(report, at_s)
        self._apply(CommitsKnown(until_ms=np.array([at_ms])), at_s)

    def lag(self, at_s: float) -> int:
        snapshot = self.monitor.judge(EpochMs(START_MS + int(at_s * 1000)))
        (lag,) = snapshot.rows.lag.tolist()
        return int(lag)


def test_an_offset_that_waits_to_be_admitted_does_not_pass_for_one_that_rests() -> None:
    polling = Polling()
    lags = []
    for second in range(0, 40, 5):
        polling.log_ends(second)
        if second >= 5:
            lags.append(polling.lag(second + 1))
        polling.poll(second + 2.5)
        if second >= 5:
            lags.append(polling.lag(second + 3))

    assert lags == [0] * len(lags)


def test_an_offset_that_rests_gains_lag_with_every_poll() -> None:
    polling = Polling()
    polling.log_ends(0)
    polling.poll(2.5)
    polling.log_ends(5)
    for second in (7.5, 12.5):
        # a poll that finds the same offset reports no commit
        polling.monitor.apply(
            CommitsKnown(until_ms=np.array([START_MS + int(second * 1000)])),
            EpochMs(START_MS + int(second * 1000)),
        )
        polling.log_ends(second + 2.5)

    assert polling.lag(16) == 2_000

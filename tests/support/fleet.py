"""Many groups of one cluster, reported to the real monitor the way a collector does."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from lagwatch.clock import SystemClock
from lagwatch.config.load import load
from lagwatch.config.settings import Settings
from lagwatch.core.model import EpochMs, GroupInfo, RuleSet
from lagwatch.monitor import ClusterMonitor
from lagwatch.monitor.settings import MonitorSettings
from lagwatch.notify.alerts import Alerts
from lagwatch.ports.queries import ClusterHealth
from lagwatch.ports.reports import CollectorStarted, Commits, GroupsSeen, LogEnds, Report, Topics
from lagwatch.query import SnapshotQueries

CLUSTER = "here"
_INTERVALS = 5
_SECOND_MS = 1000
_STOPPED_AFTER_S = {RuleSet.BURROW: 55, RuleSet.LAGWATCH: 310}
"""Burrow: a group that was at the end within the last 50 s (5 intervals) is not stopped yet.

The default rules wait for five minutes while they have seen a group for less than half an hour.
"""


READY: Final = ClusterHealth(
    cluster=CLUSTER,
    ready=True,
    age_s=0.0,
    backlog_read=1,
    backlog_total=1,
    commits_mode="offsets-topic",
    collector_restarts=0,
    problems=(),
    unseen=(),
    offsets_retention_refused=True,
)
_MINUTE_MS: Final = 60_000
_SOON_MS: Final = 5_000


class ShiftedClock(SystemClock):
    """The machine's clock, put forward as a test wants it; it begins soon after a full minute.

    So no minute ends while a test runs.
    """

    def __init__(self) -> None:
        self.ahead_ms = _MINUTE_MS + _SOON_MS - super().now_ms() % _MINUTE_MS

    def now_ms(self) -> EpochMs:
        return EpochMs(super().now_ms() + self.ahead_ms)


class Fleet:
    """Groups that all read one topic; each has one partition of it.

    At the end of every `pass_time` all groups but the failing have committed each second and are
    at the log end; the failing ones commit nothing while the log end moves on.

    Judged by Burrow's rules unless another set is given: they find a failure within a minute.
    """

    def __init__(
        self,
        groups: Iterable[str],
        clock: ShiftedClock,
        *,
        topic: str = "orders",
        rules: RuleSet = RuleSet.BURROW,
        intervals: int = _INTERVALS,
    ) -> None:
        self.groups = tuple(groups)
        self.failing: set[str] = set()
        self.slow: set[str] = set()
        """Commit, but fall behind: WARN."""
        self.steady: set[str] = set()
        """Read as fast as is written, and stay as far behind as they are."""
        self.catching_up: set[str] = set()
        """Read two messages a second more than are written, until they are at the end."""
        self.leaderless: set[str] = set()
        """The log ends of their partitions cannot be read."""
        self.log_start = 0
        self.ready = True
        self._clock = clock
        self._topic = topic
        self._end = 1000
        self._order = 0
        self._offsets = dict.fromkeys(self.groups, self._end)
        self.monitor = ClusterMonitor(
            CLUSTER,
            MonitorSettings(
                intervals=intervals,
                min_distance_ms=0,
                expire_ms=86_400_000,
                allowed_lag=0,
                minimum_complete=0.0,
                history_ms=3_600_000,
                rules=rules,
            ),
        )
        self.queries = SnapshotQueries({CLUSTER: self.monitor}, health=self._health)
        self._announced = False
        self._report(CollectorStarted(incarnation=1))
        self._report(
            Topics(
                version=1,
                names=(topic,),
                ids=("id",),
                partitions=np.array([len(self.groups)], np.int32),
                leader=np.ones(len(self.groups), np.int32),
            )
        )
        self.pass_time(intervals + 3)

    def pass_time(self, seconds: int) -> None:
        """Let so many seconds pass, and judge."""
        for _ in range(seconds):
            self._clock.ahead_ms += _SECOND_MS
            self._end += 10
            self._log_end()
            self._commit([name for name in self.groups if name not in self.failing])
            self._log_end()
            if self.monitor.settings.rules is RuleSet.LAGWATCH:
                self.judge()  # how lags rise is learned from round to round
        self.judge()

    def judge(self) -> None:
        self.monitor.judge(self._clock.now_ms())

    def fail(self, *groups: str) -> None:
        """They commit no more, and have stopped for long enough to be seen."""
        self.failing |= set(groups)
        self.pass_time(_STOPPED_AFTER_S[self.monitor.settings.rules])

    def describe(self, group: str, *, state: str) -> None:
        """Kafka says that a group without members is in this state."""
        info = GroupInfo(
            group=group, type="classic", state=state, assignor="", coordinator=1, members=()
        )
        self._report(GroupsSeen(groups=(info,), complete=False))
        self.pass_time(1)

    def lists(self, *groups: str) -> None:
        """Kafka lists these groups, all without members, and no other."""
        infos = tuple(
            GroupInfo(
                group=group, type="classic", state="Empty", assignor="", coordinator=1, members=()
            )
            for group in groups
        )
        self._report(GroupsSeen(groups=infos, complete=True))

    def delete_before(self, offset: int) -> None:
        """Delete the records below an offset of all partitions."""
        self.log_start = offset
        self.pass_time(1)

    def committed(self, group: str) -> int:
        return self._offsets[group]

    def heal(self, *groups: str) -> None:
        self.failing -= set(groups)
        self.pass_time(1)

    def delete(self, group: str) -> None:
        """Remove its commits, as Kafka does when they expire or the group is deleted."""
        self.failing.add(group)
        self._order += 1
        self._report(
            Commits(
                first_new_id=len(self.groups),
                new_groups=(),
                new_topics=(),
                new_partitions=(),
                key=np.array([self.groups.index(group)], np.int32),
                offset=np.array([-1], np.int64),
                commit_ms=np.array([self._clock.now_ms()], np.int64),
                order=np.array([self._order], np.int64),
                observed_ms=self._clock.now_ms(),
            )
        )
        self.pass_time(1)

    def shown_to(self, alerts: Alerts) -> None:
        """One round, as the service makes it, but without a break."""
        self.judge()
        self.decided_by(alerts)
        while alerts.unfinished:
            self.decided_by(alerts)

    def decided_by(self, alerts: Alerts) -> None:
        """The newest snapshot, once."""
        assert self.monitor.snapshot is not None
        alerts.observe(self.monitor.snapshot, self.queries, self._clock.now_ms())

    def _commit(self, groups: list[str]) -> None:
        numbers = {group: number for number, group in enumerate(self.groups)}
        for group in groups:
            self._offsets[group] = self._next_offset(group)
        orders = np.arange(self._order + 1, self._order + 1 + len(groups), dtype=np.int64)
        self._order += len(groups)
        new = () if self._announced else self.groups
        self._announced = True
        self._report(
            Commits(
                first_new_id=0 if new else len(self.groups),
                new_groups=new,
                new_topics=(self._topic,) * len(new),
                new_partitions=tuple(range(len(new))),
                key=np.array([numbers[group] for group in groups], np.int32),
                offset=np.array([self._offsets[group] for group in groups], np.int64),
                commit_ms=np.full(len(groups), self._clock.now_ms(), np.int64),
                order=orders,
                observed_ms=self._clock.now_ms(),
            )
        )

    def _next_offset(self, group: str) -> int:
        """What a group commits after another second."""
        for groups, read in ((self.slow, 1), (self.steady, 10), (self.catching_up, 12)):
            if group in groups:
                return min(self._offsets[group] + read, self._end)
        return self._end

    def _log_end(self) -> None:
        known = [group not in self.leaderless for group in self.groups]
        ends = np.where(known, np.int64(self._end), -1)
        now_ms = self._clock.now_ms()
        self._report(
            LogEnds(
                version=1,
                started_ms=now_ms,
                finished_ms=now_ms,
                log_start=np.full(len(self.groups), self.log_start, np.int64),
                log_end=ends,
                last_stable=ends,
            )
        )

    def _report(self, report: Report) -> None:
        self.monitor.apply(report, self._clock.now_ms())

    def _health(self) -> tuple[ClusterHealth, ...]:
        return (replace(READY, ready=self.ready),)


def alert_settings(folder: Path, text: str) -> Settings:
    """Settings with this `[alerts]`, whose file lies in the folder."""
    path = folder / "lagwatch.toml"
    file = folder / "alerts.sqlite"
    path.write_text(
        f'[clusters.{CLUSTER}]\nbootstrap = ["localhost:1"]\n[alerts]\nfile = "{file}"\n{text}',
        encoding="utf-8",
    )
    return load(path, {})

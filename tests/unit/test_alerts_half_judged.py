"""An open incident outlives the time in which its group cannot be judged."""

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from lagwatch.config.alerts import AlertsSettings
from lagwatch.core.incident import Act, Incident, State
from lagwatch.core.model import EpochMs, GroupStatus, Rule, TimeLagReason
from lagwatch.core.snapshot import GroupTimes, RowTimes
from lagwatch.notify.alerts import Alerts
from lagwatch.notify.database import Database
from lagwatch.notify.observed import of_group, of_topics
from lagwatch.notify.policies import PolicyBook
from lagwatch.notify.store import IncidentStore, Kept
from lagwatch.notify.watch import Decided, Watch
from lagwatch.ports.reports import Backlog, GroupsGone
from lagwatch.query import SnapshotQueries
from tests.support.fleet import READY, alert_settings
from tests.support.history import NOON_MS, Live, SetClock

pytestmark = pytest.mark.slow


def _watch(
    opened_ms: int = NOON_MS - 3_600_000,
    started_ms: int = 0,
    *,
    error_ms: int | None = None,
    bad_ms: int | None = None,
    close_for_s: int = 0,
) -> Watch:
    """One whose group `a` had an open incident when lagwatch was restarted, by default long ago.

    `error_ms`: since when it is an ERROR. `bad_ms`: when its partition was last known to be bad.
    """
    at_ms = EpochMs(opened_ms)
    incident = Incident(
        since_ms=at_ms,
        opened_ms=at_ms,
        severity=GroupStatus.ERR,
        error_ms=None if error_ms is None else EpochMs(error_ms),
    )
    kept = Kept(
        cluster="here",
        group="a",
        incident="i1",
        policy="default",
        complete=0.0,
        state=State(incident=incident),
        bad={} if bad_ms is None else {("orders", 0): bad_ms},
    )
    book = PolicyBook(AlertsSettings(policies={"default": {"close_for_s": close_for_s}}))
    return Watch("here", book, [kept], {}, started_ms=started_ms)


def _decided(watch: Watch, live: Live) -> list[Decided]:
    queries = SnapshotQueries({"here": live.monitor}, health=tuple)
    outlook = partial(queries.outlook, "here")
    return watch.decide(live.judge(), EpochMs(live.now_ms), lambda _: False, outlook)


def test_an_incident_stays_open_while_a_partition_of_its_group_is_warming_up() -> None:
    live = Live()
    live.topics(orders=2)
    live.wait(1)
    live.produce("orders", 1, 50)
    live.commit(("a", "orders", 0, 100), ("a", "orders", 1, 100))
    live.wait(1)
    watch = _watch()

    assert live.judge().group.status.tolist() == [GroupStatus.OK]
    assert _decided(watch, live) == []
    assert watch.open_incidents == 1


def test_it_closes_when_every_partition_is_judged_and_good() -> None:
    live = Live()
    live.topics(orders=2)
    live.wait(1)
    live.commit(("a", "orders", 0, 100), ("a", "orders", 1, 100))
    live.wait(1)

    (decided,) = _decided(_watch(), live)

    assert decided.decision.act is Act.CLOSE


def test_it_stays_open_where_it_is_not_known_since_when_the_group_is_silent() -> None:
    """Lagwatch began anew, without a checkpoint: a stop looks like a batch job between runs."""
    live = Live()
    live.topics(orders=1)
    live.commit(("a", "orders", 0, 50))
    live.now_ms += 2 * 3_600_000
    live.monitor.apply(Backlog(read=1, total=1, ready=True), EpochMs(live.now_ms))
    for _ in range(64):
        live.wait(5)
        live.judge()
    watch = _watch()

    assert live.judge().rows.rule.tolist() == [Rule.SILENT_BEFORE_START]
    assert _decided(watch, live) == []
    assert watch.open_incidents == 1


def _silent_since_a_minute(
    started_ago_s: int, opened_ago_s: int, *, error_ago_s: int | None = None
) -> tuple[Live, Watch]:
    """A group that has read for a while and nothing more for 80 s; what pauses is no stop yet."""
    live = Live()
    live.topics(orders=1)
    for number in range(20):
        live.produce("orders", 0, 10)
        live.wait(5)
        live.commit(("a", "orders", 0, 110 + 10 * number))
    for _ in range(16):
        live.produce("orders", 0, 10)
        live.wait(5)
        live.judge()
    opened_ms = live.now_ms - opened_ago_s * 1000
    error_ms = None if error_ago_s is None else live.now_ms - error_ago_s * 1000
    return live, _watch(opened_ms, live.now_ms - started_ago_s * 1000, error_ms=error_ms)


def test_after_a_crash_a_group_that_has_read_nothing_since_has_not_healed() -> None:
    live, watch = _silent_since_a_minute(started_ago_s=20, opened_ago_s=40)

    paused = live.judge().rows.rule.tolist()
    before = _decided(watch, live)
    live.commit(("a", "orders", 0, live.ends["orders", 0]))
    live.wait(1)
    (after,) = _decided(watch, live)

    assert paused == [Rule.PAUSED]
    assert before == []
    assert after.decision.act is Act.CLOSE


def test_nor_one_that_has_read_since_its_incident_opened_and_stopped_then() -> None:
    live, watch = _silent_since_a_minute(started_ago_s=20, opened_ago_s=300, error_ago_s=40)

    assert live.judge().rows.rule.tolist() == [Rule.PAUSED]
    assert _decided(watch, live) == []


@pytest.mark.parametrize(("bad_ago_s", "closes"), [(170, False), (220, True)])
def test_nor_one_that_moved_only_shortly_after_it_was_known_to_be_bad(
    bad_ago_s: int,
    *,
    closes: bool,
) -> None:
    live, _ = _silent_since_a_minute(started_ago_s=20, opened_ago_s=300)
    watch = _watch(
        live.now_ms - 300_000,
        live.now_ms - 20_000,
        bad_ms=live.now_ms - bad_ago_s * 1000,
        close_for_s=60,
    )
    decided = []
    for _ in range(13):
        decided += _decided(watch, live)
        live.produce("orders", 0, 10)
        live.wait(5)

    assert [each.decision.act for each in decided] == [Act.CLOSE] * closes


def test_a_group_that_has_read_since_may_pause() -> None:
    live, watch = _silent_since_a_minute(started_ago_s=20, opened_ago_s=100)

    (decided,) = _decided(watch, live)

    assert live.judge().rows.rule.tolist() == [Rule.PAUSED]
    assert decided.decision.act is Act.CLOSE


def test_a_group_that_pauses_for_longer_than_its_limit_after_a_start_has_healed() -> None:
    live, watch = _silent_since_a_minute(started_ago_s=7200, opened_ago_s=40)

    (decided,) = _decided(watch, live)

    assert decided.decision.act is Act.CLOSE


def test_it_is_not_called_better_while_windows_fill_after_a_start() -> None:
    """Without a checkpoint a group that was in ERROR may look like WARN at first."""
    live = Live()
    live.topics(orders=1)
    live.wait(1)
    live.commit(("a", "orders", 0, 100))
    live.wait(1)
    snapshot = live.judge()
    snapshot.group.status[:] = GroupStatus.WARN
    snapshot.rows.rule[:] = Rule.FALLING_BEHIND
    snapshot.group.complete[:] = 0.2
    at_ms = EpochMs(live.now_ms)
    incident = Incident(
        since_ms=at_ms, opened_ms=at_ms, severity=GroupStatus.ERR, notified=GroupStatus.ERR
    )
    kept = Kept(
        cluster="here",
        group="a",
        incident="i1",
        policy="all",
        complete=1.0,
        state=State(incident=incident),
    )
    book = PolicyBook(AlertsSettings(policies={"all": {"threshold": "warning", "close_for_s": 0}}))
    watch = Watch("here", book, [kept], {}, started_ms=live.now_ms)
    queries = SnapshotQueries({"here": live.monitor}, health=tuple)

    def acts() -> list[Act]:
        outlook = partial(queries.outlook, "here")
        decided = watch.decide(snapshot, EpochMs(live.now_ms), lambda _: False, outlook)
        return [decision.decision.act for decision in decided]

    assert acts() == []
    snapshot.group.complete[:] = 1.0
    assert acts() == [Act.DE_ESCALATE]


class Falling:
    """A group under a policy for warnings that reads 5/s of 20/s until it has fallen behind."""

    def __init__(self, *, partitions: int = 1, close_for_s: float = 60) -> None:
        self.live = Live()
        self.live.topics(orders=partitions)
        policy = {"threshold": "warning", "close_for_s": close_for_s}
        self.book = PolicyBook(AlertsSettings(policies={"all": policy}))
        self.watch = self.new_watch()
        self.committed = [0] * partitions
        self.acts: list[Act] = []
        self.rules: list[Rule] = []
        """Of partition 0."""
        self.reads(900, *[5] * partitions)

    def new_watch(self) -> Watch:
        return Watch("here", self.book, [], {}, started_ms=self.live.now_ms)

    def reads(self, for_s: int, *per_s: int, watched: bool = True) -> None:
        for _ in range(0, for_s, 5):
            self.live.wait(5)
            for partition, speed in enumerate(per_s):
                self.live.produce("orders", partition, 100)
                end = self.live.ends["orders", partition]
                if speed:
                    self.committed[partition] = min(self.committed[partition] + speed * 5, end)
                    self.live.commit(("a", "orders", partition, self.committed[partition]))
            self.rules.append(Rule(int(self.live.judge().rows.rule[0])))
            decided = _decided(self.watch, self.live) if watched else []
            self.watch.apply(decided)
            self.acts += [each.decision.act for each in decided]


def test_it_stays_open_where_the_group_was_seen_bad_only_once() -> None:
    group = Falling()
    group.watch = group.new_watch()
    group.acts.clear()
    group.reads(5, 5)
    group.reads(110, 0, watched=False)

    group.reads(90, 0)

    assert group.rules[-1] is Rule.FALLING_BEHIND
    assert group.acts == [Act.OPEN]


def test_an_incident_stays_open_while_a_group_that_was_behind_is_not_yet_a_stop() -> None:
    group = Falling()
    before = len(group.rules)

    group.reads(900, 0)

    assert list(dict.fromkeys(group.rules[before:])) == [Rule.FALLING_BEHIND, Rule.STOPPED]
    assert group.acts == [Act.OPEN, Act.ESCALATE], "one incident, with one beginning"


def test_it_ends_when_the_quiet_group_reads_all() -> None:
    group = Falling()
    group.reads(150, 0)
    quiet, acts = group.rules[-1], list(group.acts)

    group.reads(400, 100)

    assert (quiet, acts) == (Rule.FALLING_BEHIND, [Act.OPEN])
    assert group.acts == [Act.OPEN, Act.CLOSE]


def test_it_stays_open_when_the_group_dies_soon_after_it_read_again() -> None:
    group = Falling()
    group.reads(75, 150)
    again = group.rules[-1]

    group.reads(150, 0)

    assert (again, group.rules[-1]) == (Rule.PROGRESSING, Rule.PAUSED)
    assert group.acts == [Act.OPEN]


def test_a_partition_that_has_read_well_for_long_enough_may_pause() -> None:
    group = Falling(partitions=2)
    group.reads(500, 30, 5)
    well = group.rules[-1]
    group.reads(100, 0, 150)
    before = len(group.rules)

    group.reads(60, 0, 150)

    assert well is Rule.PROGRESSING
    assert set(group.rules[before:]) == {Rule.PAUSED}
    assert group.acts == [Act.OPEN, Act.CLOSE]


def test_an_upper_bound_of_a_time_lag_is_not_taken_for_a_measurement() -> None:
    live = Live()
    live.topics(orders=2)
    live.commit(("a", "orders", 0, 90), ("a", "orders", 1, 90))
    live.wait(5)
    snapshot = live.judge()
    lags_ms = np.array([200_000, 4_000])
    reasons = np.array([TimeLagReason.EARLIER_OFFSET, TimeLagReason.MEASURED], np.int8)
    errors_ms = np.full(2, np.nan)
    rows = RowTimes(lags_ms, reasons, errors_ms)
    groups = GroupTimes(lags_ms[:1], reasons[:1], errors_ms[:1], np.array([0]))
    bounded = replace(
        snapshot,
        rows=replace(snapshot.rows, times=rows.part),
        group=replace(snapshot.group, times=groups.part),
    )

    for seen in (of_group(bounded, 0), of_topics(bounded, 0, frozenset({"orders"}))):
        assert (seen.time_lag_ms, seen.time_lag_most_ms) == (4_000, 200_000)
        assert not seen.time_lag_open


def test_an_incident_stays_open_while_its_group_may_not_be_described() -> None:
    live = Live()
    live.topics(orders=1)
    live.wait(1)
    live.commit(("a", "orders", 0, 100), ("b", "orders", 0, 100))
    live.wait(1)
    watch = _watch()
    live.monitor.apply(
        GroupsGone(groups=("a",), orders=(1_000,), hidden=frozenset("a")), EpochMs(live.now_ms)
    )
    live.wait(700)
    hidden = _decided(watch, live)
    rows = live.judge().groups
    live.monitor.apply(GroupsGone(groups=(), orders=(), hidden=frozenset()), EpochMs(live.now_ms))
    (gone,) = _decided(watch, live)

    assert list(rows) == ["b"]
    assert hidden == []
    assert (gone.decision.act, gone.number) == (Act.CLOSE, None)


def test_a_group_is_in_trouble_since_that_of_its_worst_partition_began() -> None:
    """Another partition fell behind long before."""
    group = Falling(partitions=2)
    behind_ms = of_group(group.live.judge(), 0).since_ms
    stopped_ms = group.live.now_ms
    group.reads(1200, 5, 0)
    snapshot = group.live.judge()

    assert group.rules[-1] is Rule.FALLING_BEHIND
    assert snapshot.rows.rule.tolist() == [Rule.FALLING_BEHIND, Rule.STOPPED]
    assert behind_ms < stopped_ms - 60_000
    for seen in (of_group(snapshot, 0), of_topics(snapshot, 0, frozenset({"orders"}))):
        assert abs(seen.since_ms - stopped_ms) < 10_000


def test_what_an_incident_named_is_known_to_be_bad_after_a_crash_that_comes_at_once(
    tmp_path: Path,
) -> None:
    clock = SetClock()
    settings = alert_settings(tmp_path, '[alerts.webhook.hook]\nurl = "http://127.0.0.1:9/"\n')
    live = Live()
    live.topics(orders=1)
    queries = SnapshotQueries({"here": live.monitor}, health=lambda: (READY,))
    alerts = Alerts(settings, clock)
    for number in range(3600):
        live.produce("orders", 0, 10)
        live.wait(5)
        if number < 100:
            live.commit(("a", "orders", 0, live.ends["orders", 0]))
        clock.ms = live.now_ms
        alerts.observe(live.judge(), queries, clock.now_ms())
        if alerts.groups_in_trouble("here"):
            break
    shutil.copytree(tmp_path, tmp_path / "crashed")
    alerts.close()
    database = Database(tmp_path / "crashed" / "alerts.sqlite", now_ms=clock.now_ms())
    (kept,) = IncidentStore(database).kept(clock.ms)
    database.close()

    assert kept.bad == {("orders", 0): clock.ms}

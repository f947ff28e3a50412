"""Members that come and go between two looks at their group."""

from dataclasses import replace

import pytest

from lagwatch.core.model import EpochMs, GroupInfo, Member, Membership, PartitionStatus, Rule
from lagwatch.ports.queries import Partitions
from lagwatch.ports.reports import GroupsSeen
from lagwatch.query import SnapshotQueries
from tests.support.history import Live

EMPTY = GroupInfo(group="a", type="classic", state="Empty", assignor="", coordinator=1, members=())


def _visit(live: Live) -> None:
    report = GroupsSeen(groups=(EMPTY,), complete=True, rebalances={"a": 2})
    live.monitor.apply(report, EpochMs(live.now_ms))


@pytest.mark.parametrize("reads_on", [True, False])
def test_runs_of_another_job_of_the_group_are_not_taken_for_crashes_of_this_one(
    *, reads_on: bool
) -> None:
    """Two jobs share a group id: one reads `often` on each run, the other `seldom` later."""
    live = Live(intervals=10)
    live.topics(often=1, seldom=1)
    live.describe("a", kind="classic", members=0)
    seldom = []
    for run in range(20):
        live.produce("often", 0, 50)
        live.produce("seldom", 0, 50)
        if run <= 1:
            live.commit(("a", "seldom", 0, 25 + 50 * run))
        if run <= 1 or reads_on:
            live.commit(("a", "often", 0, 50 + 50 * run))
        live.wait(20)
        _visit(live)
        live.judge()
        verdict = SnapshotQueries({"here": live.monitor}, health=tuple).verdict(
            "here", "a", Partitions.ALL
        )
        seldom += [each.status for each in verdict.partitions if each.topic == "seldom"]

    assert (PartitionStatus.STOP in seldom) is not reads_on
    assert live.monitor.groups.membership[0] == Membership.EMPTY


def _members(live: Live, *names: int) -> None:
    members = tuple(
        Member(
            member_id=f"a-{name}",
            client_id="a",
            host="/10.0.0.7",
            instance_id="",
            assignment=(),
        )
        for name in names
    )
    state = "PreparingRebalance" if members else "Empty"
    info = replace(EMPTY, state=state, members=members)
    report = GroupsSeen(groups=(info,), complete=True, rebalances={})
    live.monitor.apply(report, EpochMs(live.now_ms))


@pytest.mark.parametrize("dies", [True, False])
def test_members_that_die_and_are_started_again_leave_no_job_between_two_runs(
    *, dies: bool
) -> None:
    """A first run ends well. Then members die every 12 s, and stay listed until 45 s later."""
    live = Live(intervals=10)
    live.topics(orders=1)
    for step in range(6):
        live.produce("orders", 0, 50)
        live.commit(("a", "orders", 0, 40 + 50 * step))
        live.wait(5)
        _members(live, 0)
    _members(live)

    live.produce("orders", 0, 50)
    for step in range(40):
        live.wait(12)
        if dies:
            _members(live, *range(max(step - 3, 1), step + 1))
        live.judge()
    queries = SnapshotQueries({"here": live.monitor}, health=tuple)
    verdict = queries.verdict("here", "a", Partitions.ALL).partitions[0]

    assert verdict.rule is (Rule.STOPPED if dies else Rule.SILENT_BEFORE_START)


def test_a_group_that_dies_again_and_again_from_its_first_start_is_stopped_within_minutes() -> None:
    """It commits once. Then members die every 12 s, and stay listed until 45 s later."""
    live = Live(intervals=10)
    live.topics(orders=1)
    live.produce("orders", 0, 50)
    live.commit(("a", "orders", 0, 10))
    queries = SnapshotQueries({"here": live.monitor}, health=tuple)
    stopped_s = None
    for step in range(80):
        _members(live, *range(max(step - 3, 0), step + 1))
        live.wait(12)
        live.judge()
        verdict = queries.verdict("here", "a", Partitions.ALL).partitions[0]
        if stopped_s is None and verdict.status is PartitionStatus.STOP:
            stopped_s = 12 * (step + 1)

    assert stopped_s is not None
    assert 300 <= stopped_s <= 330


@pytest.mark.parametrize("side_by_side", [True, False])
def test_workers_of_one_run_are_one_visit(*, side_by_side: bool) -> None:
    live = Live(intervals=10)
    live.topics(orders=1)
    live.commit(("a", "orders", 0, 10))
    _members(live)
    runs = [(1, 2, 3), (2, 3), (3,), ()] if side_by_side else [(1,), (2,), (3,), ()]
    for listed in runs:
        live.wait(20)
        _members(live, *listed)
        live.judge()

    visits = live.monitor.groups.visited_ms

    assert (visits is not None and visits[0] >= 0) is not side_by_side

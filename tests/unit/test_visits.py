"""Members that come and go between two looks at their group."""

import pytest

from lagwatch.core.model import EpochMs, GroupInfo, Membership, PartitionStatus
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

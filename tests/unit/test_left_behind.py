"""A topic that a group has left behind: its lag is named, and says nothing about how late it is."""

import pytest

from lagwatch.core.model import Rule
from lagwatch.core.scale import Goal
from lagwatch.monitor.scaling import FollowedGroups
from lagwatch.ports.queries import Partitions
from lagwatch.query import SnapshotQueries
from lagwatch_api.v1.trends import with_topics_left_behind
from tests.support.history import Live, SetClock


def _queries(live: Live) -> SnapshotQueries:
    return SnapshotQueries({"here": live.monitor}, health=lambda: ())


@pytest.fixture
def live() -> Live:
    """A group reads 4 of the 10 messages a second in one topic, and left the other long ago."""
    live = Live()
    live.topics(kept=1, left=1)
    live.wait(1)
    live.commit(("g", "kept", 0, 100), ("g", "left", 0, 40))
    live.judge()
    live.assign("g", ("kept", 0))
    for round_ in range(1, 40):
        live.produce("kept", 0, 50)
        live.produce("left", 0, 500)
        live.commit(("g", "kept", 0, 100 + 20 * round_))
        live.wait(5)
        live.judge()
    return live


def test_its_lag_is_part_of_the_groups_and_named(live: Live) -> None:
    verdict = _queries(live).verdict("here", "g", Partitions.ALL)

    kept, left = verdict.partitions
    assert left.rule is Rule.NOT_SUBSCRIBED
    assert verdict.total_lag == (kept.current_lag or 0) + (left.current_lag or 0)
    assert verdict.left_behind_lag == left.current_lag == 60 + 39 * 500


def test_a_list_says_how_much_of_the_lag_it_is(live: Live) -> None:
    found = with_topics_left_behind(live.judge(), ["g", "unknown"])

    assert list(found) == ["g"]
    assert found["g"]["left_behind"] == 60 + 39 * 500
    assert found["g"]["words"] == "19,560 of the lag in topics left behind"


def test_it_counts_neither_in_time_lag_nor_in_rates_nor_in_the_forecast(live: Live) -> None:
    verdict = _queries(live).verdict("here", "g", Partitions.ALL)
    outlook = _queries(live).outlook("here", "g")

    assert verdict.time_lag_partition == ("kept", 0)
    assert outlook.whole.produced_per_s == pytest.approx(10, rel=0.1)
    assert outlook.whole.consumed_per_s == pytest.approx(4, rel=0.1)
    assert outlook.slowest == ("kept", 0)
    assert outlook.partitions["left", 0].produced_per_s != 0, "each keeps its own numbers"


def test_it_asks_for_no_consumers(live: Live) -> None:
    scaling = FollowedGroups(_queries(live), SetClock())
    goal = Goal(time_lag_s=60)
    scaling.advice("here", "g", goal)
    for round_ in range(40, 60):
        live.produce("kept", 0, 50)
        live.produce("left", 0, 500)
        live.commit(("g", "kept", 0, 100 + 20 * round_))
        live.wait(5)
        scaling.observe(live.judge())

    assert scaling.advice("here", "g", goal).lag == 59 * 30


def test_a_group_that_left_nothing_behind_says_so() -> None:
    live = Live()
    live.topics(kept=1)
    live.wait(1)
    live.commit(("g", "kept", 0, 40))
    live.judge()

    assert _queries(live).verdict("here", "g", Partitions.ALL).left_behind_lag == 0

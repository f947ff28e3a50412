"""Lags of the last hour, what groups read, and the routes that answer both."""

from dataclasses import replace

import numpy as np
import pytest

from lagwatch.core.trail import POINTS, STEP_MS, Trail
from lagwatch.query import SnapshotQueries
from lagwatch_api import create_app
from lagwatch_api.v1.trends import smallest, speeds_and_causes, unknown_because
from tests.support.api_doubles import GivenQueries, GivenSettings, RecordingCommands
from tests.support.fleet import CLUSTER, Fleet, ShiftedClock
from tests.support.history import Live
from tests.support.serving import ask


def taken(fleet: Fleet, clock: ShiftedClock, minutes: int) -> Trail:
    trail = Trail()
    for _ in range(minutes):
        take(trail, fleet)
        clock.ahead_ms += STEP_MS - 1000  # `take` lets a second pass
    return trail


def take(trail: Trail, fleet: Fleet) -> None:
    fleet.pass_time(1)
    assert fleet.monitor.snapshot is not None
    trail.take(fleet.monitor.snapshot)


class TestTrail:
    def test_a_minute_has_one_point_and_the_newest_is_last(self) -> None:
        clock = ShiftedClock()
        fleet = Fleet(["good", "bad"], clock)
        fleet.failing.add("bad")

        trail = taken(fleet, clock, 3)

        assert trail.of("good") == [None] * (POINTS - 3) + [0, 0, 0]
        assert trail.of("bad") == [None] * (POINTS - 3) + [10, 20, 30]
        assert fleet.monitor.snapshot is not None
        assert trail.at_ms == fleet.monitor.snapshot.at_ms
        assert trail.end_ms <= trail.at_ms < trail.end_ms + STEP_MS

    def test_an_hour_later_the_oldest_are_gone(self) -> None:
        clock = ShiftedClock()
        fleet = Fleet(["bad"], clock)
        fleet.failing.add("bad")

        trail = taken(fleet, clock, POINTS + 2)

        assert trail.of("bad") == [10 * number for number in range(3, POINTS + 3)]

    def test_minutes_without_a_round_are_gaps(self) -> None:
        clock = ShiftedClock()
        fleet = Fleet(["bad"], clock)
        fleet.failing.add("bad")
        trail = taken(fleet, clock, 1)
        clock.ahead_ms += 2 * STEP_MS

        take(trail, fleet)

        assert trail.of("bad")[-4:] == [10, None, None, 20]

    def test_a_lag_of_which_a_part_is_unknown_is_a_gap_and_not_a_fall(self) -> None:
        clock = ShiftedClock()
        snapshot = Fleet(["dark", "light"], clock).monitor.snapshot
        assert snapshot is not None
        trail = Trail()

        trail.take(replace(snapshot, group=replace(snapshot.group, unknown=np.array([1, 0]))))

        assert trail.of("dark") == [None] * POINTS
        assert trail.of("light") == [None] * (POINTS - 1) + [0]

    def test_a_group_that_comes_later_moves_no_other_groups_past(self) -> None:
        clock = ShiftedClock()
        few, many = Fleet(["m"], clock), Fleet(["a", "m", "z"], clock)
        few.failing.add("m")
        many.failing.add("m")
        trail = taken(few, clock, 1)

        take(trail, many)

        assert trail.of("m")[-2:] == [10, 10]
        assert trail.of("a")[-2:] == [None, 0]

    def test_of_a_group_that_was_never_taken_nothing_is_known(self) -> None:
        assert Trail().of("nobody") == []


def app_of(fleet: Fleet, trail: Trail):
    return create_app(
        fleet.queries,
        RecordingCommands(),
        GivenSettings(),
        trails={CLUSTER: trail},
        hostname="h",
        version="0",
    )


class TestRoutes:
    def test_only_the_groups_that_were_asked_for_are_reported(self) -> None:
        clock = ShiftedClock()
        fleet = Fleet(["a", "b", "c"], clock)
        app = app_of(fleet, taken(fleet, clock, 1))

        answer = ask(app, f"/api/v1/clusters/{CLUSTER}/trends?group=a&group=c&group=nobody").json

        assert set(answer["groups"]) == {"a", "c"}
        assert answer["groups"]["a"][-1] == 0
        assert answer["step_ms"] == STEP_MS

    def test_a_group_in_trouble_has_its_cause(self) -> None:
        clock = ShiftedClock()
        fleet = Fleet(["a", "b"], clock)
        fleet.fail("b")
        app = app_of(fleet, Trail())

        answer = ask(app, f"/api/v1/clusters/{CLUSTER}/trends?group=a&group=b").json

        assert answer["causes"].keys() == {"b"}
        cause = answer["causes"]["b"]
        assert cause["sentence"].startswith("Cause")
        assert cause["words"] == (cause["name"] or "").replace("_", " ")

    def test_a_group_keeps_its_cause_while_its_data_are_old(self) -> None:
        clock = ShiftedClock()
        fleet = Fleet(["b"], clock)
        fleet.fail("b")
        clock.ahead_ms += 120_000
        fleet.judge()
        path = f"/api/v1/clusters/{CLUSTER}/trends?group=b"

        answer = ask(app_of(fleet, Trail()), path).json

        assert fleet.monitor.snapshot is not None
        assert fleet.monitor.snapshot.stale
        assert answer["causes"].keys() == {"b"}

    def test_a_group_with_unknown_partitions_says_why(self) -> None:
        live = Live()
        live.topics(audit=1, orders=1)
        for step in range(8):
            live.produce("orders", 0, 10)
            live.wait(5)
            live.commit(("a", "orders", 0, 110 + 10 * step), ("a", "audit", 0, 100))
            live.commit(("b", "orders", 0, 110 + 10 * step))
            live.judge()
        live.topics("audit", orders=1)
        live.wait(5)
        live.judge()
        queries = SnapshotQueries({CLUSTER: live.monitor}, health=lambda: ())

        found = unknown_because(queries, CLUSTER, ["a", "b", "nobody"])

        hidden = "the topic was deleted, or lagwatch may not describe it"
        assert found == {"a": f"1 of 2 partitions unknown: {hidden}"}

    def test_partitions_unknown_for_the_same_reason_are_counted_together(self) -> None:
        live = Live()
        live.topics(orders=3)
        for partition in range(3):
            live.produce("orders", partition, 100)
        for ahead in (50, 70):
            live.wait(60)
            live.commit(
                *(("a", "orders", partition, 400 + ahead * partition) for partition in range(2)),
                ("a", "orders", 2, 100),
            )
            live.judge()
        live.wait(60)
        live.judge()
        queries = SnapshotQueries({CLUSTER: live.monitor}, health=lambda: ())

        found = unknown_because(queries, CLUSTER, ["a"])

        assert found["a"].startswith("2 of 3 partitions unknown: the committed offset 4")

    def test_causes_are_looked_for_as_long_as_partitions_fit(self) -> None:
        fleet = Fleet(["a", "b"], ShiftedClock())
        fleet.fail("a", "b")

        speeds, causes = speeds_and_causes(fleet.queries, CLUSTER, ["a", "b"], most_partitions=1)

        assert speeds.keys() == {"a", "b"}
        assert causes.keys() == {"a"}

    def test_a_large_group_does_not_take_the_causes_of_small_ones_away(self) -> None:
        partitions = {"large": 250, "larger": 260, "small": 2}

        assert list(smallest(partitions, 500)) == ["small", "large"]

    def test_each_group_has_its_topics_and_clients(self) -> None:
        fleet = Fleet(["a", "b"], ShiftedClock(), topic="orders")

        answer = ask(app_of(fleet, Trail()), f"/api/v1/clusters/{CLUSTER}/subscriptions").json

        assert answer["groups"] == {
            "a": {"topics": ["orders"], "clients": [], "teams": []},
            "b": {"topics": ["orders"], "clients": [], "teams": []},
        }

    def test_more_groups_than_are_answered_at_a_time_are_refused(self) -> None:
        fleet = Fleet(["a"], ShiftedClock())
        app = app_of(fleet, Trail())
        path = f"/api/v1/clusters/{CLUSTER}/trends?" + "&".join(["group=a"] * 100)

        assert ask(app, path).status == 200
        refused = ask(app, f"{path}&group=a")

        assert refused.status == 400
        assert "101 groups are asked for; ask for 100 at a time" in refused.json["message"]

    @pytest.mark.parametrize("route", ["trends", "subscriptions"])
    def test_an_unknown_cluster_is_not_found(self, route: str) -> None:
        app = create_app(
            GivenQueries({}), RecordingCommands(), GivenSettings(), hostname="h", version="0"
        )

        assert ask(app, f"/api/v1/clusters/nowhere/{route}").status == 404

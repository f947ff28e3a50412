"""Rates and forecasts of many groups at once are those of each alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.forecast import CatchUpReason, Outlook
from lagwatch.core.model import GroupStatus, Rule, RuleSet
from lagwatch.metrics.explained import MOST_PARTITIONS, explained
from lagwatch.ports.queries import Partitions
from lagwatch.query import SnapshotQueries
from lagwatch_api.v1.trends import speeds_and_causes, unknown_because
from tests.support.fleet import Fleet, ShiftedClock
from tests.support.history import Live
from tests.support.stepped_cluster import SteppedCluster

CLUSTER = "here"
_GROUPS = 8
_TOPICS = {"a": 1, "b": 3, "c": 2}


def _drawn(seed: int) -> Live:
    """Groups that read some partitions at speeds of their own, pause, and begin late."""
    draw = np.random.default_rng(seed)
    live = Live(rules=RuleSet.BURROW)
    live.topics(**_TOPICS)
    read = {
        (f"g{group}", topic, partition): 100
        for group in range(_GROUPS)
        for topic, partitions in _TOPICS.items()
        for partition in range(partitions)
        if draw.random() < 0.6
    }
    speed = {row: draw.integers(0, 15) for row in read}
    begins = {row: draw.integers(0, 14) for row in read}
    for step in range(15):
        for topic, partition in live.ends:
            live.produce(topic, partition, int(draw.integers(0, 20)))
        now = [row for row in read if step >= begins[row] and draw.random() < 0.8]
        for row in now:
            read[row] = min(read[row] + int(speed[row]), live.ends[row[1:]])
        live.wait(10)
        if now:
            live.commit(*((*row, read[row]) for row in now))
        live.judge()
    return live


@given(st.integers(0, 2**32))
def test_many_at_once_have_the_outlook_of_each_alone(seed: int) -> None:
    queries = SnapshotQueries({CLUSTER: _drawn(seed).monitor}, health=lambda: ())
    groups = queries.groups(CLUSTER)

    found = queries.outlooks(CLUSTER, reversed(groups))

    assert found == {group: queries.outlook(CLUSTER, group) for group in groups}


def test_groups_of_which_no_topic_may_be_seen_any_more_are_answered() -> None:
    live = Live()
    live.topics(orders=2)
    for step in range(8):
        live.produce("orders", 0, 10)
        live.wait(5)
        live.commit(("a", "orders", 0, 100 + 8 * step), ("a", "orders", 1, 100))
        live.judge()
    before_ms = live.monitor.known.log_ends_ms
    live.topics("orders")
    live.wait(5)
    live.judge()
    queries = SnapshotQueries({CLUSTER: live.monitor}, health=lambda: ())

    verdict = queries.verdict(CLUSTER, "a", Partitions.ALL)
    outlook = queries.outlook(CLUSTER, "a")
    queries.cause(verdict, outlook)
    queries.detail(CLUSTER, "a")
    explained(queries, live.judge())

    assert [partition.current_lag for partition in verdict.partitions] == [None, None]
    assert outlook.whole.produced_per_s is None
    assert live.monitor.known.log_ends_ms == before_ms, "what is not read is not fresh"


@pytest.mark.parametrize("members", [0, 1])
def test_a_group_that_was_set_back_while_it_had_no_members_reads_nothing(members: int) -> None:
    live = Live()
    live.topics(orders=1)
    live.produce("orders", 0, 400)
    for offset in (100, 300, 500):
        live.wait(5)
        live.commit(("a", "orders", 0, offset))
    live.wait(30)
    live.describe("a", kind="classic", members=members)
    live.commit(("a", "orders", 0, 400))
    live.wait(5)
    live.judge()
    queries = SnapshotQueries({CLUSTER: live.monitor}, health=lambda: ())

    found = queries.outlook(CLUSTER, "a").whole

    assert (found.consumed_per_s == 0) is (members == 0)
    assert (found.catch_up_reason is CatchUpReason.NOT_MOVING) is (members == 0)


def test_a_group_that_has_not_committed_since_kafka_came_back_is_not_said_to_read_nothing() -> None:
    live = Live()
    live.topics(orders=1)
    live.describe("a", kind="classic", members=1)
    queries = SnapshotQueries({CLUSTER: live.monitor}, health=lambda: ())

    def step() -> float | None:
        live.produce("orders", 0, 50)
        live.wait(5)
        live.judge()
        return queries.outlook(CLUSTER, "a").whole.consumed_per_s

    for number in range(12):
        live.commit(("a", "orders", 0, 100 + 10 * number))
        step()
    live.wait(120)
    after = [step() for _ in range(20)]
    later = [step() for _ in range(6)]

    assert 0 not in after
    assert later[-1] == 0, "it has had time to come back"


def test_a_group_that_is_without_members_a_minute_after_kafka_came_back_reads_nothing() -> None:
    live = Live()
    live.topics(orders=1)
    live.describe("a", kind="classic", members=1)
    queries = SnapshotQueries({CLUSTER: live.monitor}, health=lambda: ())

    def step() -> Outlook:
        live.produce("orders", 0, 50)
        live.wait(5)
        live.judge()
        return queries.outlook(CLUSTER, "a").whole

    for number in range(12):
        live.commit(("a", "orders", 0, 50 + 50 * number))
        step()
    live.wait(120)
    live.describe("a", kind="classic", members=0)
    back = [step().consumed_per_s for _ in range(12)]
    later = [step() for _ in range(6)]

    assert back == [None] * 12
    assert later[-1].consumed_per_s == 0
    assert later[-1].catch_up_reason is CatchUpReason.NOT_MOVING


@pytest.mark.parametrize("away_s", [0, 60])
def test_who_reads_on_after_an_absence_is_as_fast_as_before(away_s: int) -> None:
    """What was read around it was not read within the few seconds before the next commit."""
    live = Live(intervals=10)
    live.topics(orders=2)
    live.describe("a", kind="classic", members=1)
    queries = SnapshotQueries({CLUSTER: live.monitor}, health=lambda: ())
    offset, speeds = 100, []

    def step(seconds: int) -> None:
        nonlocal offset
        for partition in range(2):
            live.produce("orders", partition, 10 * seconds)
        live.wait(seconds)
        offset += 10 * seconds
        live.commit(("a", "orders", 0, offset), ("a", "orders", 1, offset))
        live.judge()
        speeds.append(queries.outlook(CLUSTER, "a").whole.consumed_per_s)

    for partition in range(2):
        live.produce("orders", partition, 500)
    for _ in range(12):
        step(5)
    step(away_s or 5)
    for _ in range(12):
        step(5)

    assert speeds[-13:] == pytest.approx([20] * 13, rel=0.1)


@pytest.mark.parametrize("reads_on", [True, False])
def test_a_partition_that_is_not_read_since_kafka_came_back_is_known_by_the_others(
    *, reads_on: bool
) -> None:
    live = Live()
    live.topics(orders=2)
    live.describe("a", kind="classic", members=1)
    queries = SnapshotQueries({CLUSTER: live.monitor}, health=lambda: ())

    def step(*partitions: int, number: int) -> Outlook:
        live.produce("orders", 0, 50)
        live.produce("orders", 1, 50)
        live.wait(5)
        live.commit(*(("a", "orders", each, 50 + 50 * number) for each in partitions))
        live.judge()
        return queries.outlook(CLUSTER, "a").whole

    for number in range(12):
        step(0, 1, number=number)
    live.wait(120)
    others = (0,) if reads_on else ()
    found = [step(*others, number=number) for number in range(12, 30)]

    assert found[5].consumed_per_s is None
    assert found[-1].consumed_per_s == (pytest.approx(10, rel=0.2) if reads_on else None)


def _moved_after_its_members_left(*, commits: int) -> Live:
    """A group reads 8/s of 10/s; its members leave, and offsets are committed two minutes later."""
    live = Live()
    live.topics(orders=1)
    live.describe("a", kind="classic", members=1)
    for step in range(12):
        live.produce("orders", 0, 50)
        live.wait(5)
        live.commit(("a", "orders", 0, 100 + 40 * step))
        live.judge()
    live.describe("a", kind="classic", members=0)
    for _ in range(24):
        live.produce("orders", 0, 50)
        live.wait(5)
        live.judge()
    for step in range(commits):
        live.produce("orders", 0, 50)
        live.commit(("a", "orders", 0, 1000 + 50 * step))
        live.wait(5)
        live.judge()
    return live


def test_a_dead_group_that_a_tool_moved_forward_reads_nothing() -> None:
    live = _moved_after_its_members_left(commits=1)
    queries = SnapshotQueries({CLUSTER: live.monitor}, health=lambda: ())

    found = queries.outlook(CLUSTER, "a").whole

    assert found.consumed_per_s == 0
    assert found.lag_trend_per_s == pytest.approx(10, rel=0.1)


def test_who_commits_again_and_again_reads_also_without_members() -> None:
    live = _moved_after_its_members_left(commits=6)
    queries = SnapshotQueries({CLUSTER: live.monitor}, health=lambda: ())

    assert (queries.outlook(CLUSTER, "a").whole.consumed_per_s or 0) > 0


def test_what_producers_held_back_while_kafka_was_away_is_not_taken_for_a_burst() -> None:
    live, read = Live(), 100
    live.topics(orders=1)
    queries = SnapshotQueries({CLUSTER: live.monitor}, health=lambda: ())
    for step in range(240):
        if step == 200:
            live.now_ms += 600_000
        live.produce("orders", 0, 40 if step < 200 else 160)
        live.wait(10)
        read = min(read + 50, live.ends["orders", 0])
        live.commit(("a", "orders", 0, read))
        live.describe("a", kind="classic", members=1)
        live.judge()

    verdict = queries.verdict(CLUSTER, "a", Partitions.ALL)
    cause = queries.cause(verdict, queries.outlook(CLUSTER, "a"))

    assert verdict.rule is Rule.FALLING_BEHIND
    assert cause is not None
    assert cause.name is None
    assert "Kafka was away" in cause.text


def test_nor_what_they_held_back_while_the_leader_of_a_partition_was_away() -> None:
    live = Live()
    live.topics(orders=2)
    away = ("orders", 1)
    read = dict.fromkeys(live.ends, 100)
    queries = SnapshotQueries({CLUSTER: live.monitor}, health=lambda: ())
    for step in range(300):
        live.silent = {away} if 200 <= step < 260 else set()
        live.produce("orders", 0, 40)
        if not live.silent:
            live.produce(*away, 40 if step < 200 else 160)
        live.wait(10)
        for topic, partition in [("orders", 0)] if live.silent else list(read):
            offset = min(read[topic, partition] + 50, live.ends[topic, partition])
            read[topic, partition] = offset
            live.commit(("a", topic, partition, offset))
        live.assign("a", *read)
        live.judge()

    verdict = queries.verdict(CLUSTER, "a", Partitions.ALL)
    cause = queries.cause(verdict, queries.outlook(CLUSTER, "a"))

    assert verdict.rule is Rule.FALLING_BEHIND
    assert cause is not None
    assert cause.name is None
    assert "or one of its brokers" in cause.text


@dataclass(frozen=True, slots=True)
class _Seen:
    at_s: int
    whole: Outlook
    lag: int


def _one_after_another(
    turns: Sequence[Sequence[int]], *, turn_s: int, every_s: int = 5, dead: int = -1
) -> list[_Seen]:
    """What is said of a group that reads 300/s of 12/s, some of its partitions in each turn.

    It commits only what it reads, as librdkafka does. Nobody holds
    `dead`, which is read in the first minute only.
    """
    live, partitions = Live(intervals=10), 3
    live.topics(orders=partitions)
    live.assign("a", *(place for place in live.ends if place[1] != dead))
    read = dict.fromkeys(range(partitions), 100)
    for partition in range(partitions):
        live.produce("orders", partition, 300_000)
    queries = SnapshotQueries({CLUSTER: live.monitor}, health=lambda: ())
    found: list[_Seen] = []
    for step in range(60 // every_s + len(turns) * turn_s // every_s):
        at_s = step * every_s
        now = range(partitions) if at_s < 60 else turns[(at_s - 60) // turn_s]
        for partition in range(partitions):
            live.produce("orders", partition, 4 * every_s)
        live.wait(every_s)
        for partition in set(now) - ({dead} if at_s >= 60 else set()):
            read[partition] += 300 * every_s // len(now)
        live.commit(*(("a", "orders", each, read[each]) for each in now))
        live.judge()
        lag = sum(live.ends["orders", each] - read[each] for each in read)
        found.append(_Seen(at_s, queries.outlook(CLUSTER, "a").whole, lag))
    return found


@pytest.mark.parametrize("every_s", [1, 5])
@pytest.mark.parametrize("turns", [[[0], [1], [2], [0]], [[0], [1, 2], [1], [2, 0]]])
def test_a_group_that_reads_its_partitions_one_after_another_catches_up_by_its_whole_lag(
    turns: Sequence[Sequence[int]], every_s: int
) -> None:
    seen = [
        each for each in _one_after_another(turns, turn_s=180, every_s=every_s) if each.at_s >= 120
    ]

    known = [each for each in seen if each.whole.consumed_per_s is not None]
    assert {each.whole.catch_up_reason for each in known} == {CatchUpReason.CATCHING_UP}
    assert [each.whole.consumed_per_s for each in known] == pytest.approx([300] * len(known), 0.15)
    for each in known:
        assert each.whole.catch_up_s == pytest.approx(each.lag / 288, rel=0.2), each.at_s
    assert len(known) * every_s >= len(seen) * every_s - 3 * 20, "unknown for a few commits"


def test_it_does_not_catch_up_while_a_partition_has_stopped() -> None:
    last = _one_after_another([[0, 1]] * 5, turn_s=180, dead=2)[-1].whole

    assert last.consumed_per_s == pytest.approx(300, rel=0.1)
    assert last.catch_up_reason is CatchUpReason.NOT_MOVING


@pytest.mark.slow
def test_so_have_groups_of_more_partitions_than_are_computed_at_once() -> None:
    live, partitions, groups = Live(), 3000, ("a", "b", "c")
    live.topics(t=partitions)
    for step in range(4):
        live.wait(10)
        for partition in range(partitions):
            live.produce("t", partition, 20)
        read = [(group, each) for group in groups for each in range(partitions)]
        live.commit(*((group, "t", each, 100 + step * (each % 19)) for group, each in read))
        live.judge()
    queries = SnapshotQueries({CLUSTER: live.monitor}, health=lambda: ())

    found = queries.outlooks(CLUSTER, groups)

    assert list(found) == list(groups)
    assert {len(each.partitions) for each in found.values()} == {partitions}
    assert found == {group: queries.outlook(CLUSTER, group) for group in groups}


def test_a_group_that_is_not_known_is_left_out() -> None:
    queries = SnapshotQueries({CLUSTER: _drawn(7).monitor}, health=lambda: ())

    assert list(queries.outlooks(CLUSTER, ("no-such", "g1"))) == ["g1"]
    assert queries.outlooks(CLUSTER, ()) == {}


def test_groups_are_explained_by_the_newest_round_when_it_changes_meanwhile() -> None:
    live = _drawn(7)
    queries = SnapshotQueries({CLUSTER: live.monitor}, health=lambda: ())
    snapshot = live.monitor.snapshot
    assert snapshot is not None
    bad = [
        group
        for group in snapshot.groups
        if queries.verdict(CLUSTER, group, Partitions.BAD).status is not GroupStatus.OK
    ]
    assert len(bad) > 1
    turns = explained(queries, snapshot)

    before, first = queries.outlooks(CLUSTER, bad), next(turns)
    assert first.outlook == before[first.group].whole
    live.produce("b", 0, 5000)
    live.wait(10)
    live.judge()

    after, rest = queries.outlooks(CLUSTER, bad), list(turns)
    assert len(rest) == len(bad) - 1
    assert after != before
    for each in rest:
        assert each.outlook == after[each.group].whole


def test_partitions_of_a_wide_topic_that_a_group_never_committed_leave_room_for_others() -> None:
    fleet = Fleet([f"g{number}" for number in range(120)], ShiftedClock())
    fleet.fail(*fleet.groups)
    snapshot = fleet.monitor.snapshot
    assert snapshot is not None
    assert snapshot.group.partition_count.sum() > MOST_PARTITIONS

    assert len(list(explained(fleet.queries, snapshot))) == len(fleet.groups)
    assert len(speeds_and_causes(fleet.queries, "here", fleet.groups)[1]) == len(fleet.groups)
    verdict = fleet.queries.verdict(CLUSTER, "g7", Partitions.COMMITTED)
    assert [each.partition for each in verdict.partitions] == [7]


def test_what_a_group_has_not_come_to_yet_is_part_of_its_lag_and_not_known() -> None:
    """A client works off the backlog of one partition before it goes on with the next."""
    cluster = SteppedCluster(intervals=10)
    cluster.partitions = 4
    cluster.create("t")
    queries = SnapshotQueries({CLUSTER: cluster.monitor}, health=lambda: ())
    seen = []
    for step in range(60):
        cluster.grow("t", 10_000 if step == 0 else 20)
        cluster.groups_hold("g", "t", 0, 1, 2, 3)
        for partition in (0,) if step < 40 else range(4):
            cluster.commit("g", "t", partition, 100 + 50 * step)
        cluster.ends()
        cluster.judge()
        cluster.wait(5)
        if step < 3:
            continue
        verdict = queries.verdict(CLUSTER, "g", Partitions.ALL)
        catch_up = queries.outlook(CLUSTER, "g").whole.catch_up_reason
        unknown = unknown_because(queries, CLUSTER, ["g"]).get("g", "")
        seen.append((verdict.unknown_partitions, catch_up, unknown))

    behind, after = seen[17:36], seen[40:]
    assert {number for number, *_ in behind} == {3}
    assert {reason for _, reason, _ in behind} == {CatchUpReason.LAG_UNKNOWN}
    assert behind[-1][2].startswith("3 of 4 partitions unknown: the group works off the backlog")
    assert {(number, text) for number, _, text in after} == {(0, "")}
    assert CatchUpReason.LAG_UNKNOWN not in {reason for _, reason, _ in after}

"""What a monitor knows is the same after a restart, and Kafka has the last word on the rest."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from lagwatch.core.model import EpochMs, PartitionStatus, Rule, RuleSet, TimeLagBound, TimeLagReason
from lagwatch.monitor import ClusterMonitor
from lagwatch.monitor.checkpoint import Part, Slice, Slices, capture, captured_since
from lagwatch.ports.queries import GroupEvent, Partitions
from lagwatch.ports.reports import CollectorFacts, Commits
from lagwatch.query import SnapshotQueries
from tests.support.stepped_cluster import OFFSETS_TOPIC, SteppedCluster

GROUPS, TOPICS = ("g", "h"), ("s", "t")

operations = st.lists(
    st.one_of(
        st.tuples(
            st.just("commit"),
            st.sampled_from(GROUPS),
            st.sampled_from(TOPICS),
            st.integers(0, 1),
            st.integers(0, 400),
        ),
        st.tuples(
            st.just("remove"),
            st.sampled_from(GROUPS),
            st.sampled_from(TOPICS),
            st.integers(0, 1),
        ),
        st.tuples(st.just("ends"), st.integers(0, 200), st.integers(0, 200)),
        st.tuples(st.just("wait"), st.sampled_from([0.4, 3, 14, 70])),
        st.tuples(st.just("forget"), st.sampled_from(GROUPS)),
        st.tuples(st.just("recreate"), st.sampled_from(TOPICS)),
        st.tuples(st.just("list"), st.booleans()),
        st.tuples(st.just("judge")),
    ),
    max_size=40,
)


def apply_step(cluster: SteppedCluster, operation) -> None:
    match operation:
        case ("commit", group, topic, partition, offset):
            cluster.commit(group, topic, partition, offset)
        case ("remove", group, topic, partition):
            cluster.commit(group, topic, partition, -1)
        case ("ends", messages, log_start):
            for topic in TOPICS:
                cluster.grow(topic, messages)
            cluster.ends(log_start=log_start)
        case ("wait", seconds):
            cluster.wait(seconds)
        case ("forget", group):
            cluster.monitor.forget(group, None)
        case ("recreate", topic):
            cluster.create(topic, cluster.now_ms)
        case ("list", whole):
            cluster.list_groups(*(GROUPS if whole else GROUPS[:1]))
        case ("judge",):
            cluster.judge()


def known(monitor: ClusterMonitor) -> dict[str, object]:
    """All that a restart must keep, by name; rows by identity."""
    rows = {}
    table, windows = monitor.table, monitor.windows
    for row in table.used(0, windows.rows).tolist():
        each = np.array([row])
        columns = {
            **monitor.pace.copied(each),
            **monitor.setbacks.copied(each),
            **monitor.groups.copied(each),
        }
        values = {name: column.tolist() for name, column in columns.items()}
        rows[table.identity(row)] = (windows.entries(row), values)
    kept = monitor.kept()
    return {
        "rows": rows,
        "ends": monitor.history.ends.tolist(),
        "at_ms": monitor.history.at_ms.tolist(),
        "gaps": monitor.history.gaps,
        "positions": kept.positions,
        "topic_ids": kept.topic_ids,
        "missing": kept.missing_since,
        "clocks": monitor.pace.clocks,
        "skew": monitor.skew.seen,
        "log_start": kept.topics.log_start.tolist(),
        "unwatched": kept.unwatched,
    }


def begun(**changes) -> SteppedCluster:
    cluster = SteppedCluster(**changes)
    for topic in TOPICS:
        cluster.create(topic)
    return cluster


@settings(deadline=None)
@given(operations)
def test_what_is_restored_is_what_was_saved(steps) -> None:
    cluster = begun()
    for step in steps:
        apply_step(cluster, step)
    cluster.ends()  # what waits for log ends is read again, not kept
    before = known(cluster.monitor)

    cluster.restart(collects=False)

    assert known(cluster.monitor) == before


@settings(deadline=None)
@given(operations, operations, st.integers(1, 3))
def test_a_capture_between_commits_loses_none_and_doubles_none(before, meanwhile, slices) -> None:
    # the rows are copied one by one, and between two of them the monitor goes on
    lasting = [step for step in meanwhile if step[0] not in {"forget", "recreate", "list"}]
    cluster = begun()
    for step in before:
        apply_step(cluster, step)
    parts = list(_alternating(capture(cluster.monitor, slice_rows=slices), cluster, lasting))
    cluster.ends()
    expected = _windows(cluster.monitor)

    cluster.restart(parts)
    cluster.ends()

    assert _windows(cluster.monitor) == expected


@settings(deadline=None)
@given(st.lists(operations, min_size=2, max_size=4), st.integers(1, 3))
def test_slices_that_did_not_change_hold_still(rounds, slice_rows) -> None:
    cluster, slices = begun(), Slices()
    held: dict[int, Part] = {}
    parts: list[Part] = []
    for steps in rounds:
        for step in steps:
            apply_step(cluster, step)
        cluster.ends()
        parts.clear()
        before_it, held = held, {}
        for piece in captured_since(slices, cluster.monitor, slice_rows=slice_rows):
            if not isinstance(piece, Slice):
                parts.append(piece)
            elif part := before_it.get(piece.first) if piece.part is None else piece.part:
                held[piece.first] = part
                parts.append(part)
    before = known(cluster.monitor)

    cluster.restart(parts, collects=False)

    assert known(cluster.monitor) == before


def test_a_group_that_goes_while_slices_hold_still_takes_no_name_with_it() -> None:
    cluster, slices = begun(), Slices()
    for group in GROUPS:
        cluster.commit(group, "s", 0, 5)
    cluster.ends()
    held: dict[int, Part] = {}
    parts: list[Part] = []
    for goes in (False, False, True):
        parts.clear()
        for piece in captured_since(slices, cluster.monitor, slice_rows=1):
            if not isinstance(piece, Slice):
                parts.append(piece)
                continue
            held[piece.first] = held[piece.first] if piece.part is None else piece.part
            parts.append(held[piece.first])
            if goes and piece.first == 0:
                cluster.monitor.forget("g", None)
    expected = _windows(cluster.monitor)

    cluster.restart(parts, collects=False)

    restored = _windows(cluster.monitor)
    assert set(restored) == {("g", "s", 0), ("h", "s", 0)}
    assert {name: restored[name] for name in expected} == expected


def test_only_slices_that_changed_are_captured_again() -> None:
    cluster, slices = begun(), Slices()
    for group in GROUPS:
        cluster.commit(group, "s", 0, 5)
    cluster.ends()

    def captured() -> list[int]:
        pieces = captured_since(slices, cluster.monitor, slice_rows=1)
        found = [piece for piece in pieces if isinstance(piece, Slice)]
        return [piece.first for piece in found if piece.part is not None]

    twice = [captured(), captured()]
    at_rest = captured()
    cluster.commit("h", "s", 0, 6)
    cluster.wait(5)
    cluster.ends()

    assert twice == [[0, 1], [0, 1]]
    assert at_rest == []
    assert captured() == [1]


def _alternating(parts: Iterator[Part], cluster: SteppedCluster, steps) -> Iterator[Part]:
    left = list(steps)
    for part in parts:
        yield part
        if left:
            apply_step(cluster, left.pop(0))
    for step in left:
        apply_step(cluster, step)


def _windows(monitor: ClusterMonitor) -> dict[object, object]:
    rows = monitor.table.used(0, monitor.windows.rows).tolist()
    windows = {monitor.table.identity(row): monitor.windows.entries(row) for row in rows}
    return {name: (each.offset, each.commit_ms, each.order) for name, each in windows.items()}


# verdicts


@pytest.mark.slow
def test_a_stopped_group_stays_stopped_since_the_same_instant() -> None:
    cluster = _stopped()
    before = _row(cluster)

    cluster.restart(away_s=30)
    cluster.ends()
    cluster.list_groups("g")
    after = _row(cluster)

    assert before == after
    assert after[0] is PartitionStatus.STOP


@pytest.mark.slow
def test_the_lag_of_the_last_hour_goes_on_after_a_restart_with_a_gap_between() -> None:
    cluster = _stopped()
    cluster.monitor.trail.take(cluster.judge())
    (before,) = set(cluster.monitor.trail.of("g")) - {None}

    cluster.restart(away_s=120)
    cluster.ends()
    cluster.list_groups("g")
    cluster.monitor.trail.take(cluster.judge())

    lags = cluster.monitor.trail.of("g")
    assert before
    assert lags[-4:] == [None, before, None, before]


def test_a_cluster_that_does_not_answer_after_a_restart_was_last_seen_before_it() -> None:
    cluster = _steady(60)
    seen_ms = cluster.monitor.last_data_ms

    cluster.restart(away_s=600, collects=False)

    assert seen_ms > 0
    assert cluster.monitor.last_data_ms == seen_ms


def test_how_long_kafka_keeps_offsets_is_known_before_brokers_answer_after_a_restart() -> None:
    cluster = _steady(60)
    facts = CollectorFacts(commits_mode="admin", reason="", offsets_retention_ms=480_000)
    cluster.monitor.apply(facts, EpochMs(cluster.now_ms))

    cluster.restart(away_s=10)
    not_asked = replace(facts, offsets_retention_ms=None)
    cluster.monitor.apply(not_asked, EpochMs(cluster.now_ms))

    assert cluster.monitor.offsets_retention_ms == 480_000


def test_what_happened_to_a_group_is_still_known_and_recorded_once() -> None:
    cluster = _steady(60)
    happened = [
        GroupEvent(at_ms=EpochMs(cluster.now_ms + number), group=group, event="rebalance", count=1)
        for number in range(30)
        for group in ("g", "h")
    ]
    for event in happened:
        cluster.monitor.story.add(event)

    cluster.restart(away_s=30)

    for group in ("g", "h"):
        known = [replace(event, to_record=False) for event in happened if event.group == group]
        assert list(cluster.monitor.story.of(group)) == known[-20:]
    assert cluster.monitor.story.take() == ()


def _resting() -> SteppedCluster:
    """A group whose member has committed 80 of 100 and left."""
    cluster = begun()
    cluster.grow("t", 100)
    cluster.groups_hold("g", "t", 0)
    cluster.commit("g", "t", 0, 80)
    cluster.ends()
    cluster.judge()
    cluster.wait(5)
    cluster.list_groups("g")
    cluster.ends()
    cluster.judge()
    cluster.wait(5)
    return cluster


def _killed_after(cluster: SteppedCluster, offset: int, *, membership: int) -> list[str]:
    """A commit that only the restarted process takes in; the names of the events then.

    `membership` records are of the same time.
    """
    parts = list(capture(cluster.monitor))
    cluster.wait(5)
    cluster.commit("g", "t", 0, offset)
    cluster.restart(parts, away_s=20)
    for _ in range(3):
        cluster.ends()
        cluster.list_groups("g", rebalances=dict.fromkeys(["g"] * membership, 0))
        cluster.judge()
        cluster.wait(5)
    return [event.event for event in cluster.monitor.story.of("g")]


@pytest.mark.parametrize("offset", [10, 95])
def test_a_reset_shortly_before_a_kill_is_in_the_story(offset: int) -> None:
    assert _killed_after(_resting(), offset, membership=0).count("offsets_reset") == 1


def test_members_that_came_and_left_around_a_kill_are_no_reset() -> None:
    events = _killed_after(_resting(), 95, membership=1)

    assert "offsets_reset" not in events
    assert "rebalance" not in events, "it is not known how many"


def test_a_verdict_that_changed_while_lagwatch_did_not_run_is_in_the_story_and_recorded() -> None:
    cluster = _steady(60)
    parts = list(capture(cluster.monitor))
    cluster.wait(5)
    cluster.commit("g", "t", 0, 1)  # it goes back
    cluster.restart(parts, away_s=40)
    for _ in range(2):
        cluster.wait(10)
        cluster.ends()
        cluster.judge()

    changes = [
        (event.before, event.after)
        for event in cluster.monitor.story.take()
        if event.event == "group_status"
    ]
    story = [e.after for e in cluster.monitor.story.of("g") if e.event == "group_status"]
    assert (changes, story) == ([("OK", "ERR")], ["ERR"])


def test_a_verdict_that_lasted_through_a_restart_is_no_event() -> None:
    cluster = _steady(60)
    cluster.commit("g", "t", 0, 1)
    for _ in range(5):
        cluster.wait(10)
        cluster.ends()
        cluster.judge()

    cluster.restart(away_s=30)
    for _ in range(2):
        cluster.wait(10)
        cluster.ends()
        cluster.judge()

    assert cluster.monitor.story.take() == ()


def _losing(lossy: SteppedCluster, *log_starts: int) -> None:
    for log_start in log_starts:
        lossy.wait(5)
        lossy.ends(log_start=log_start)
        lossy.monitor.take_losses()
        lossy.judge()


@pytest.mark.parametrize("acknowledged", [False, True])
def test_a_loss_found_while_a_checkpoint_was_captured_is_once_in_the_story(acknowledged) -> None:
    cluster = begun()
    cluster.commit("g", "t", 0, 10)
    cluster.grow("t", 100)
    cluster.ends()
    if acknowledged:
        _losing(cluster, 20, 20)
        cluster.monitor.acknowledge_losses("g")
    captured = capture(cluster.monitor, slice_rows=1)
    parts = []
    for part in captured:
        parts.append(part)
        if "group" in part:
            break
    _losing(cluster, 40, 40)  # after the row was captured, before the story is
    parts += captured

    cluster.restart(parts, away_s=5)
    _losing(cluster, 40, 40)

    losses = [e.count or 0 for e in cluster.monitor.story.of("g") if e.event == "records_lost"]
    (row,) = cluster.monitor.table.of_group("g")
    assert sum(losses) == cluster.monitor.setbacks.lost(np.array([row]))[0] == 30


def _pass_10_s(cluster: SteppedCluster, offset: int | None) -> None:
    """Ten seconds in which 200 messages come, and the group commits this offset, if any."""
    cluster.wait(10)
    if offset is not None:
        cluster.commit("g", "t", 0, offset)
    cluster.grow("t", 200)
    cluster.ends()
    cluster.judge()


@pytest.mark.slow
def test_a_group_that_falls_behind_does_so_still() -> None:
    cluster = begun()
    for second in range(0, 1200, 10):
        _pass_10_s(cluster, 10 * second)
    before = _row(cluster)

    cluster.restart(away_s=30)
    cluster.ends()
    after = _row(cluster)

    assert before[:2] == after[:2] == (PartitionStatus.WARN, Rule.FALLING_BEHIND)
    assert after[2] == before[2]


@pytest.mark.slow
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(("outage_s", "first_commit_s"), [(60, 20), (120, 40), (280, 40)])
def test_a_group_that_falls_behind_does_so_after_an_outage_before_it_commits_again(
    restarted, outage_s, first_commit_s
) -> None:
    cluster = begun()
    cluster.groups_hold("g", "t", 0)
    offsets = itertools.count(0, 100)

    for _ in range(120):
        _pass_10_s(cluster, next(offsets))
    before = _row(cluster)
    if restarted:
        cluster.wait(30)
        cluster.judge()
        cluster.restart(away_s=2, collects=False)
    cluster.wait(outage_s)
    cluster.judge()
    cluster.begin(cluster.monitor.positions.get(0, 0))
    shown = []
    for second in range(0, 300, 10):
        _pass_10_s(cluster, next(offsets) if second >= first_commit_s else None)
        shown.append(_row(cluster))

    assert before[:2] == (PartitionStatus.WARN, Rule.FALLING_BEHIND)
    assert set(shown) == {before}


@pytest.mark.slow
@pytest.mark.parametrize("held", [False, True])
def test_a_group_that_falls_behind_and_dies_is_not_ok_until_it_counts_as_stopped(held) -> None:
    cluster = begun()
    if held:
        cluster.groups_hold("g", "t", 0)
    shown = []
    for second in range(0, 1800, 10):
        _pass_10_s(cluster, 10 * second if second < 1200 else None)
        shown.append(_row(cluster)[1])

    fell_behind = shown.index(Rule.FALLING_BEHIND)
    stopped = shown.index(Rule.STOPPED)
    assert set(shown[fell_behind:stopped]) == {Rule.FALLING_BEHIND}
    assert set(shown[stopped:]) == {Rule.STOPPED}


@pytest.mark.slow
def test_a_stalled_group_is_not_called_stopped_before_its_members_can_be_back() -> None:
    cluster = begun()
    cluster.groups_hold("g", "t", 0)

    for second in range(0, 1200, 10):
        _pass_10_s(cluster, min(second, 200))
    before = _row(cluster)
    cluster.wait(30)
    cluster.judge()
    cluster.restart(away_s=40)  # Kafka is away from before the restart until after it
    shown = []
    for second in range(0, 400, 10):
        _pass_10_s(cluster, 200 if second >= 60 else None)
        shown.append(_row(cluster))

    assert before[:2] == (PartitionStatus.STALL, Rule.STALLED)
    assert set(shown) == {before}


@pytest.mark.slow
def test_a_group_whose_lag_rises_is_found_although_lagwatch_is_restarted_every_two_minutes() -> (
    None
):
    cluster = begun()
    for second in range(0, 1200, 10):
        cluster.wait(10)
        cluster.commit("g", "t", 0, 10 * second)
        cluster.grow("t", 200)
        if second % 130 == 0:
            cluster.restart(away_s=3)
        cluster.ends()
        cluster.judge()

    assert _row(cluster)[:2] == (PartitionStatus.WARN, Rule.FALLING_BEHIND)


@pytest.mark.slow
def test_a_reader_that_waited_for_a_transaction_is_still_excused() -> None:
    cluster = _steady(2400)
    end = cluster.topics["t"][1]
    cluster.grow("t", 100)
    for _ in range(120):
        cluster.wait(10)
        cluster.ends(stable=end)
        cluster.judge()

    cluster.restart(away_s=30)
    cluster.ends()  # the transaction ended meanwhile

    assert _row(cluster)[0] is PartitionStatus.OK


@pytest.mark.slow
def test_members_of_a_group_are_not_forgotten_before_they_are_described_again() -> None:
    cluster = _steady(2400)
    cluster.groups_hold("g", "t", 0)
    _be_quiet(cluster, 240)
    before = _row(cluster)

    cluster.restart(away_s=5)
    cluster.ends()
    after = _row(cluster)

    # members that are there get 300 s; of a group that cannot be described it would be 180 s
    assert before[1] is after[1] is Rule.PAUSED


@pytest.mark.slow
def test_a_pause_is_shown_from_when_a_member_came_as_it_is_judged() -> None:
    cluster = _steady(2400)
    _be_quiet(cluster, 160)
    cluster.groups_hold("g", "t", 0)
    _be_quiet(cluster, 200)

    paused = _verdict(cluster)

    assert paused.rule is Rule.PAUSED
    assert paused.evidence["counted_ms"] <= paused.evidence["limit_ms"]
    assert 190_000 <= paused.evidence["quiet_ms"] <= 210_000


@pytest.mark.slow
def test_what_stopped_before_a_kill_stopped_when_it_committed_last() -> None:
    cluster = _steady(2400)
    saved = list(capture(cluster.monitor))
    cluster.wait(10)
    cluster.grow("t", 100)
    cluster.ends()
    cluster.commit("g", "t", 0, cluster.topics["t"][1])
    died_ms = cluster.now_ms
    cluster.wait(30)
    cluster.grow("t", 300)

    cluster.restart(saved, away_s=60)
    cluster.grow("t", 600)
    _be_quiet(cluster, 700)
    status, rule, since_ms = _row(cluster)

    assert (status, rule) == (PartitionStatus.STOP, Rule.STOPPED)
    assert since_ms == died_ms


def test_losses_go_on_being_counted() -> None:
    cluster = begun()
    cluster.commit("g", "t", 0, 10)
    cluster.grow("t", 100)
    cluster.ends()
    cluster.wait(5)
    cluster.ends(log_start=40)
    cluster.wait(5)
    cluster.ends(log_start=40)

    cluster.restart(away_s=5)
    for log_start in (40, 60, 60):
        cluster.wait(5)
        cluster.ends(log_start=log_start)

    (row,) = cluster.monitor.table.of_group("g")
    assert cluster.monitor.setbacks.lost(np.array([row])).tolist() == [50]
    assert _row(cluster)[1] is Rule.RECORDS_LOST


@pytest.mark.parametrize("by", ["this version", "an earlier version"])
def test_what_was_acknowledged_before_a_restart_is_not_shown_with_the_next_loss(by: str) -> None:
    cluster = begun()
    cluster.commit("g", "t", 0, 10)
    cluster.grow("t", 100)
    cluster.ends()
    _losing(cluster, 40, 40)
    cluster.monitor.acknowledge_losses("g")
    parts = list(capture(cluster.monitor))
    if by == "an earlier version":
        parts = [
            {name: column for name, column in part.items() if name != "setback.lost_acknowledged"}
            for part in parts
        ]

    cluster.restart(parts, away_s=5)
    _losing(cluster, 40, 60, 60)
    verdict = _verdict(cluster)

    assert verdict.evidence["lost_messages"] == 20
    assert verdict.evidence["acknowledged_messages"] == 30
    assert (verdict.lost, verdict.lost_unacknowledged) == (50, 20)


# what happened meanwhile


def test_a_commit_removed_meanwhile_takes_its_row_away() -> None:
    cluster = begun()
    cluster.commit("g", "t", 0, 10)
    cluster.commit("g", "t", 1, 10)
    cluster.ends()
    parts = list(capture(cluster.monitor))
    cluster.commit("g", "t", 0, -1)

    cluster.restart(parts)

    assert list(_windows(cluster.monitor)) == [("g", "t", 1)]


def test_a_group_that_is_not_listed_any_more_goes_although_its_tombstone_is_gone() -> None:
    cluster = begun()
    for group in GROUPS:
        cluster.commit(group, "t", 0, 10)
    cluster.list_groups(*GROUPS)
    cluster.ends()

    cluster.restart(away_s=5)
    cluster.list_groups("h")
    after_start = list(_windows(cluster.monitor))
    cluster.wait(120)
    cluster.list_groups("h")

    assert after_start == [(group, "t", 0) for group in GROUPS]  # Kafka may not have loaded it yet
    assert list(_windows(cluster.monitor)) == [("h", "t", 0)]


def test_groups_that_a_starting_coordinator_lists_late_stay() -> None:
    cluster = begun()
    for group in GROUPS:
        cluster.commit(group, "t", 0, 10)
    cluster.list_groups(*GROUPS)
    cluster.ends()

    cluster.restart(away_s=5)
    cluster.list_groups("h")
    cluster.wait(60)
    cluster.list_groups(*GROUPS)
    cluster.wait(120)
    cluster.list_groups("h")  # deleted since: its tombstones are still to be read

    assert list(_windows(cluster.monitor)) == [(group, "t", 0) for group in GROUPS]


def test_a_group_that_was_never_listed_stays() -> None:
    cluster = begun()
    cluster.commit("g", "t", 0, 10)
    cluster.list_groups("h")
    cluster.ends()

    cluster.restart(away_s=5)
    cluster.list_groups("h")

    assert list(_windows(cluster.monitor)) == [("g", "t", 0)]


def test_a_topic_created_anew_meanwhile_begins_anew() -> None:
    cluster = begun()
    for topic in TOPICS:
        cluster.commit("g", topic, 0, 10)
    cluster.grow("t", 50)
    cluster.ends()
    cluster.topics["t"] = ("t-another", 3)
    parts = list(capture(cluster.monitor))

    cluster.restart(parts, away_s=5)
    cluster.ends()

    assert list(_windows(cluster.monitor)) == [("g", "s", 0)]
    index = cluster.monitor.kept().topics.names.index("t")
    assert cluster.monitor.history.ends[:, 2 * index].tolist() == [-1, 3]


def test_a_topic_deleted_meanwhile_goes() -> None:
    cluster = begun()
    for topic in TOPICS:
        cluster.commit("g", topic, 0, 10)
    cluster.ends()
    parts = list(capture(cluster.monitor))
    del cluster.topics["t"]

    cluster.restart(parts, away_s=5)
    cluster.ends()
    cluster.wait(31)
    cluster.ends()
    cluster.judge()

    assert list(_windows(cluster.monitor)) == [("g", "s", 0)]


@pytest.mark.parametrize("how", ["shorter", "another id", "another id, not listed"])
def test_another_offsets_topic_makes_all_begin_anew(how) -> None:
    cluster = begun()
    if how == "another id, not listed":
        cluster.offsets_topic_id = "first"
        cluster.begin()
    else:
        cluster.create(OFFSETS_TOPIC)
    for offset in range(10):
        cluster.wait(2)
        cluster.commit("g", "t", 0, offset)
    cluster.ends()
    now_ms = EpochMs(cluster.now_ms)
    cluster.monitor.story.add(GroupEvent(at_ms=now_ms, group="g", event="rebalance"))
    parts = list(capture(cluster.monitor))
    del cluster.records[:]
    if how == "another id":
        cluster.topics[OFFSETS_TOPIC] = ("another", 0)
    if how == "another id, not listed":
        cluster.offsets_topic_id = "second"

    with capture_logs() as logs:
        cluster.restart(parts, away_s=5)
        cluster.commit("h", "t", 0, 7)
        cluster.ends()

    assert list(_windows(cluster.monitor)) == [("h", "t", 0)]
    assert cluster.monitor.story.of("g") == ()
    (line,) = [each for each in logs if each["event"] == "checkpoint_forgotten"]
    assert OFFSETS_TOPIC in line["reason"]


def test_commits_that_are_polled_now_do_not_go_on_with_those_that_were_read() -> None:
    cluster = begun()
    cluster.commit("g", "t", 0, 10)
    cluster.ends()
    cluster.restart(away_s=5)

    cluster.apply(
        Commits(
            first_new_id=0,
            new_groups=("h",),
            new_topics=("t",),
            new_partitions=(0,),
            key=np.array([0], np.int32),
            offset=np.array([3], np.int64),
            commit_ms=np.array([cluster.now_ms], np.int64),
            order=np.array([cluster.now_ms], np.int64),
            observed_ms=EpochMs(cluster.now_ms),
            exact_times=False,
        )
    )
    cluster.wait(1)
    cluster.ends()

    assert list(_windows(cluster.monitor)) == [("h", "t", 0)]


def test_an_open_transaction_around_a_restart_makes_nothing_begin_anew() -> None:
    # its partition of the offsets topic is held back, and the groups of that are polled meanwhile
    cluster = begun()
    cluster.commit("g", "t", 0, 10)
    cluster.commit("quiet", "t", 0, 7)
    cluster.ends()
    cluster.apply(cluster.beside(11))
    cluster.wait(1)
    cluster.ends()

    with capture_logs() as logs:
        cluster.restart(away_s=5)
        cluster.apply(cluster.beside(13, new=True))
        cluster.wait(1)
        cluster.ends()

    assert not [each for each in logs if each["event"] == "checkpoint_forgotten"]
    assert set(_windows(cluster.monitor)) == {("g", "t", 0), ("quiet", "t", 0)}
    assert cluster.monitor.kept().exact_times is True


def test_commits_that_waited_behind_a_transaction_teach_no_pause() -> None:
    cluster = begun()
    cluster.grow("t", 1000)
    for offset in range(20):
        cluster.wait(5)
        cluster.commit("g", "t", 0, offset)
        cluster.ends()
    (row,) = cluster.monitor.table.of_group("g")
    usual_ms = cluster.monitor.pace.pause_ms(np.array([row]))

    # it commits on, unseen, until its partition of the offsets topic is polled
    for _ in range(14):
        cluster.wait(10)
        cluster.ends()
    cluster.apply(cluster.beside(48))
    cluster.wait(1)
    cluster.ends()

    assert cluster.monitor.windows.entries(row).offset[-1] == 48
    assert cluster.monitor.pace.pause_ms(np.array([row])) == usual_ms


def test_states_of_share_groups_beside_polled_offsets_make_nothing_begin_anew() -> None:
    cluster = begun()
    cluster.apply(replace(cluster.beside(11, new=True), beside=False))
    cluster.apply(cluster.beside(12, exact_times=True))
    cluster.wait(1)
    cluster.ends()

    cluster.restart(away_s=5)
    cluster.apply(cluster.beside(13, exact_times=True, new=True))
    cluster.wait(1)
    cluster.ends()

    assert cluster.monitor.kept().exact_times is False
    assert list(_windows(cluster.monitor)) == [("g", "t", 0)]


# the gap


def test_a_message_of_a_long_gap_has_no_measured_age() -> None:
    cluster = begun()
    cluster.grow("t", 10)
    cluster.ends()
    cluster.commit("g", "t", 0, 10)
    cluster.wait(1)
    cluster.ends()

    cluster.restart(away_s=900)
    cluster.grow("t", 5)
    cluster.ends()
    verdict = _verdict(cluster)

    assert verdict.time_lag_s == 0.0
    assert verdict.time_lag_reason is TimeLagReason.NOT_SAMPLED
    assert verdict.time_lag_bound is TimeLagBound.AT_LEAST
    assert 900 <= verdict.time_lag_error_s < 910
    assert verdict.current_lag == 5


def test_the_silence_of_a_group_begins_at_the_end_of_the_gap() -> None:
    cluster = _steady(600)

    cluster.restart(away_s=900)
    cluster.grow("t", 5)
    cluster.ends()
    cluster.wait(100)
    cluster.ends()

    # it moved last fifteen minutes ago; something to read may have come a moment before the end
    assert _row(cluster)[0] is PartitionStatus.OK


def test_over_a_short_gap_the_age_is_between_its_ends() -> None:
    cluster = _steady(600)

    cluster.restart(away_s=40)
    cluster.grow("t", 4)
    cluster.ends()
    verdict = _verdict(cluster)

    assert verdict.time_lag_reason is TimeLagReason.SAMPLES_APART
    assert verdict.time_lag_s == 0.0
    assert 40 <= verdict.time_lag_error_s < 50


def test_the_lag_of_a_commit_within_a_long_gap_is_unknown() -> None:
    cluster = _steady(600)
    parts = list(capture(cluster.monitor))
    cluster.wait(300)
    cluster.commit("g", "t", 0, 100_000)

    cluster.restart(parts, away_s=300)
    cluster.grow("t", 200_000)
    cluster.ends()

    (row,) = cluster.monitor.table.of_group("g")
    assert cluster.monitor.windows.entries(row).lag[-1] == -1
    assert _verdict(cluster).current_lag > 0


def test_commits_admitted_before_the_first_log_ends_have_no_lag_of_before() -> None:
    cluster = _steady(600)
    parts = list(capture(cluster.monitor))
    cluster.wait(5)
    cluster.commit("g", "t", 0, 100_000)

    cluster.restart(parts, away_s=5)
    cluster.wait(61)  # log ends cannot be read: commits do not wait any longer
    cluster.commit("g", "t", 0, 100_001)

    (row,) = cluster.monitor.table.of_group("g")
    assert cluster.monitor.windows.entries(row).lag[-1] == -1


@pytest.mark.slow
@pytest.mark.parametrize("away_s", [5, 40, 90, 900])
def test_a_group_near_the_log_end_is_not_late_because_of_a_gap(away_s) -> None:
    cluster = begun()
    behind = 5
    for second in range(0, 900, 10):
        cluster.wait(10)
        cluster.grow("t", 100)
        cluster.ends()
        behind = 5 + max(second - 300, 0) // 60
        cluster.commit("g", "t", 0, cluster.topics["t"][1] - behind)
        cluster.wait(0.5)
        cluster.ends()
        cluster.judge()
    assert _row(cluster)[0] is PartitionStatus.OK

    parts = list(capture(cluster.monitor))
    cluster.wait(away_s)
    cluster.grow("t", 10 * away_s)
    cluster.commit("g", "t", 0, cluster.topics["t"][1] - behind - 5)
    cluster.restart(parts, away_s=1)
    for _ in range(6):
        cluster.ends()
        assert _row(cluster)[0] is not PartitionStatus.WARN
        cluster.wait(5)
        cluster.grow("t", 50)
        cluster.commit("g", "t", 0, cluster.topics["t"][1] - behind - 5)


def test_a_gap_no_longer_counts_when_samples_of_its_age_are_as_far_apart() -> None:
    cluster = begun()
    cluster.ends()
    cluster.restart(away_s=120)
    cluster.ends()
    gaps = [cluster.monitor.history.gaps]
    for _ in range(400):
        cluster.wait(10)
        cluster.ends()
    gaps.append(cluster.monitor.history.gaps)

    assert [len(each) for each in gaps] == [1, 0]


def test_a_group_that_never_commits_is_warned_of_since_the_same_instant() -> None:
    cluster = begun()
    cluster.groups_hold("g", "t", 0)
    cluster.ends()
    cluster.judge()
    for _ in range(40):
        cluster.wait(10)
        cluster.grow("t", 5)
        cluster.ends()
        cluster.judge()
    before = _row(cluster)

    cluster.restart(away_s=5)
    cluster.ends()
    after = _row(cluster)

    assert before == after
    assert after[1] is Rule.NEVER_COMMITS


def test_what_burrows_rules_found_is_restored_as_well() -> None:
    cluster = begun(rules=RuleSet.BURROW)
    cluster.grow("t", 500)
    cluster.ends()
    for offset in range(4):
        cluster.wait(5)
        cluster.commit("g", "t", 0, offset)
        cluster.grow("t", 50)
        cluster.ends()
    before = _row(cluster)

    cluster.restart(away_s=1)
    cluster.ends()

    assert _row(cluster) == before
    assert before[1] is Rule.LAG_NOT_DECREASING


def _steady(seconds: int) -> SteppedCluster:
    """A group that reads all there is, every ten seconds."""
    cluster = begun()
    for _ in range(0, seconds, 10):
        cluster.wait(10)
        cluster.grow("t", 100)
        cluster.ends()
        cluster.commit("g", "t", 0, cluster.topics["t"][1])
        cluster.wait(0.5)
        cluster.ends()
        cluster.judge()
    return cluster


def _be_quiet(cluster: SteppedCluster, seconds: int) -> None:
    cluster.grow("t", 100)
    for _ in range(0, seconds, 10):
        cluster.wait(10)
        cluster.ends()
        cluster.judge()


def _stopped() -> SteppedCluster:
    cluster = _steady(2400)
    _be_quiet(cluster, 400)
    cluster.list_groups("g")
    return cluster


def _row(cluster: SteppedCluster):
    snapshot = cluster.judge()
    (place,) = np.flatnonzero(
        snapshot.rows.window == cluster.monitor.table.of_group("g")[0]
    ).tolist()
    rows = snapshot.rows
    return PartitionStatus(rows.status[place]), Rule(rows.rule[place]), int(rows.since_ms[place])


def _verdict(cluster: SteppedCluster):
    cluster.judge()
    queries = SnapshotQueries({"here": cluster.monitor}, health=tuple)
    return queries.verdict("here", "g", Partitions.ALL).partitions[0]


@pytest.mark.slow
@pytest.mark.parametrize("commits_on", [False, True])
def test_without_a_checkpoint_a_silence_is_as_long_as_it_is_and_not_as_long_as_it_was_watched(
    commits_on,
) -> None:
    cluster = begun()
    for second in range(0, 700, 10):
        cluster.wait(10)
        cluster.commit("g", "t", 0, min(second, 300))
        cluster.grow("t", 200)
    cluster.monitor = ClusterMonitor("here", cluster.settings)
    cluster.begin()
    began_ms = cluster.now_ms
    cluster.groups_hold("g", "t", 0)
    for _ in range(100):
        _pass_10_s(cluster, 300 if commits_on else None)

    _, rule, since_ms = _row(cluster)
    quiet_ms = cluster.now_ms - since_ms

    assert rule is (Rule.STALLED if commits_on else Rule.STOPPED)
    assert quiet_ms == cluster.now_ms - began_ms + 390_000

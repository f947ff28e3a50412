"""What a monitor knows is the same after a restart, and Kafka has the last word on the rest."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from lagwatch.core.model import EpochMs, PartitionStatus, Rule, RuleSet, TimeLagBound, TimeLagReason
from lagwatch.monitor import ClusterMonitor
from lagwatch.monitor.checkpoint import Part, capture
from lagwatch.ports.reports import Commits
from lagwatch.query import SnapshotQueries
from tests.support.told import OFFSETS_TOPIC, Told

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


def tell(told: Told, operation) -> None:
    match operation:
        case ("commit", group, topic, partition, offset):
            told.commit(group, topic, partition, offset)
        case ("remove", group, topic, partition):
            told.commit(group, topic, partition, -1)
        case ("ends", messages, log_start):
            for topic in TOPICS:
                told.grow(topic, messages)
            told.ends(log_start=log_start)
        case ("wait", seconds):
            told.wait(seconds)
        case ("forget", group):
            told.monitor.forget(group, None)
        case ("recreate", topic):
            told.create(topic, told.now_ms)
        case ("list", whole):
            told.list_groups(*(GROUPS if whole else GROUPS[:1]))
        case ("judge",):
            told.judge()


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
    }


def begun(**changes) -> Told:
    told = Told(**changes)
    for topic in TOPICS:
        told.create(topic)
    return told


@settings(deadline=None)
@given(operations)
def test_what_is_restored_is_what_was_saved(steps) -> None:
    told = begun()
    for step in steps:
        tell(told, step)
    told.ends()  # what waits for log ends is read again, not kept
    before = known(told.monitor)

    told.restart(collects=False)

    assert known(told.monitor) == before


@settings(deadline=None)
@given(operations, operations, st.integers(1, 3))
def test_a_capture_between_commits_loses_none_and_doubles_none(before, meanwhile, slices) -> None:
    # the rows are copied one by one, and between two of them the monitor goes on
    lasting = [step for step in meanwhile if step[0] not in {"forget", "recreate", "list"}]
    told = begun()
    for step in before:
        tell(told, step)
    parts = list(_alternating(capture(told.monitor, slice_rows=slices), told, lasting))
    told.ends()
    expected = _windows(told.monitor)

    told.restart(parts)
    told.ends()

    assert _windows(told.monitor) == expected


def _alternating(parts: Iterator[Part], told: Told, steps) -> Iterator[Part]:
    left = list(steps)
    for part in parts:
        yield part
        if left:
            tell(told, left.pop(0))
    for step in left:
        tell(told, step)


def _windows(monitor: ClusterMonitor) -> dict[object, object]:
    rows = monitor.table.used(0, monitor.windows.rows).tolist()
    windows = {monitor.table.identity(row): monitor.windows.entries(row) for row in rows}
    return {name: (each.offset, each.commit_ms, each.order) for name, each in windows.items()}


# verdicts


@pytest.mark.slow
def test_a_stopped_group_stays_stopped_since_the_same_instant() -> None:
    told = _stopped()
    before = _row(told)

    told.restart(away_s=30)
    told.ends()
    told.list_groups("g")
    after = _row(told)

    assert before == after
    assert after[0] is PartitionStatus.STOP


def test_a_group_that_falls_behind_does_so_still() -> None:
    told = begun()
    for second in range(0, 1200, 10):
        told.wait(10)
        told.commit("g", "t", 0, 10 * second)
        told.grow("t", 200)
        told.ends()
        told.judge()
    before = _row(told)

    told.restart(away_s=30)
    told.ends()
    after = _row(told)

    assert before[:2] == after[:2] == (PartitionStatus.WARN, Rule.FALLING_BEHIND)
    assert after[2] == before[2]


@pytest.mark.slow
def test_a_group_whose_lag_rises_is_found_although_lagwatch_is_restarted_every_two_minutes() -> (
    None
):
    told = begun()
    for second in range(0, 1200, 10):
        told.wait(10)
        told.commit("g", "t", 0, 10 * second)
        told.grow("t", 200)
        if second % 130 == 0:
            told.restart(away_s=3)
        told.ends()
        told.judge()

    assert _row(told)[:2] == (PartitionStatus.WARN, Rule.FALLING_BEHIND)


@pytest.mark.slow
def test_a_reader_that_waited_for_a_transaction_is_still_excused() -> None:
    told = _steady(2400)
    end = told.topics["t"][1]
    told.grow("t", 100)
    for _ in range(120):
        told.wait(10)
        told.ends(stable=end)
        told.judge()

    told.restart(away_s=30)
    told.ends()  # the transaction ended meanwhile

    assert _row(told)[0] is PartitionStatus.OK


def test_members_of_a_group_are_not_forgotten_before_they_are_described_again() -> None:
    told = _steady(2400)
    told.groups_hold("g", "t", 0)
    _be_quiet(told, 240)
    before = _row(told)

    told.restart(away_s=5)
    told.ends()
    after = _row(told)

    # members that are there get 300 s; of a group that cannot be described it would be 180 s
    assert before[1] is after[1] is Rule.PAUSED


def test_losses_go_on_being_counted() -> None:
    told = begun()
    told.commit("g", "t", 0, 10)
    told.grow("t", 100)
    told.ends()
    told.wait(5)
    told.ends(log_start=40)
    told.wait(5)
    told.ends(log_start=40)

    told.restart(away_s=5)
    for log_start in (40, 60, 60):
        told.wait(5)
        told.ends(log_start=log_start)

    (row,) = told.monitor.table.of_group("g")
    assert told.monitor.setbacks.lost(np.array([row])).tolist() == [50]
    assert _row(told)[1] is Rule.RECORDS_LOST


# what happened meanwhile


def test_a_commit_removed_meanwhile_takes_its_row_away() -> None:
    told = begun()
    told.commit("g", "t", 0, 10)
    told.commit("g", "t", 1, 10)
    told.ends()
    parts = list(capture(told.monitor))
    told.commit("g", "t", 0, -1)

    told.restart(parts)

    assert list(_windows(told.monitor)) == [("g", "t", 1)]


def test_a_group_that_is_not_listed_any_more_goes_although_its_tombstone_is_gone() -> None:
    told = begun()
    for group in GROUPS:
        told.commit(group, "t", 0, 10)
    told.list_groups(*GROUPS)
    told.ends()

    told.restart(away_s=5)
    told.list_groups("h")
    after_start = list(_windows(told.monitor))
    told.wait(120)
    told.list_groups("h")

    assert after_start == [(group, "t", 0) for group in GROUPS]  # Kafka may not have loaded it yet
    assert list(_windows(told.monitor)) == [("h", "t", 0)]


def test_groups_that_a_starting_coordinator_lists_late_stay() -> None:
    told = begun()
    for group in GROUPS:
        told.commit(group, "t", 0, 10)
    told.list_groups(*GROUPS)
    told.ends()

    told.restart(away_s=5)
    told.list_groups("h")
    told.wait(60)
    told.list_groups(*GROUPS)
    told.wait(120)
    told.list_groups("h")  # deleted since: its tombstones are still to be read

    assert list(_windows(told.monitor)) == [(group, "t", 0) for group in GROUPS]


def test_a_group_that_was_never_listed_stays() -> None:
    told = begun()
    told.commit("g", "t", 0, 10)
    told.list_groups("h")
    told.ends()

    told.restart(away_s=5)
    told.list_groups("h")

    assert list(_windows(told.monitor)) == [("g", "t", 0)]


def test_a_topic_created_anew_meanwhile_begins_anew() -> None:
    told = begun()
    for topic in TOPICS:
        told.commit("g", topic, 0, 10)
    told.grow("t", 50)
    told.ends()
    told.topics["t"] = ("t-another", 3)
    parts = list(capture(told.monitor))

    told.restart(parts, away_s=5)
    told.ends()

    assert list(_windows(told.monitor)) == [("g", "s", 0)]
    index = told.monitor.kept().topics.names.index("t")
    assert told.monitor.history.ends[:, 2 * index].tolist() == [-1, 3]


def test_a_topic_deleted_meanwhile_goes() -> None:
    told = begun()
    for topic in TOPICS:
        told.commit("g", topic, 0, 10)
    told.ends()
    parts = list(capture(told.monitor))
    del told.topics["t"]

    told.restart(parts, away_s=5)
    told.ends()
    told.wait(31)
    told.ends()
    told.judge()

    assert list(_windows(told.monitor)) == [("g", "s", 0)]


@pytest.mark.parametrize("how", ["shorter", "another id", "another id, not listed"])
def test_another_offsets_topic_makes_all_begin_anew(how) -> None:
    told = begun()
    if how == "another id, not listed":
        told.offsets_topic_id = "first"
        told.begin()
    else:
        told.create(OFFSETS_TOPIC)
    for offset in range(10):
        told.wait(2)
        told.commit("g", "t", 0, offset)
    told.ends()
    parts = list(capture(told.monitor))
    del told.records[:]
    if how == "another id":
        told.topics[OFFSETS_TOPIC] = ("another", 0)
    if how == "another id, not listed":
        told.offsets_topic_id = "second"

    with capture_logs() as logs:
        told.restart(parts, away_s=5)
        told.commit("h", "t", 0, 7)
        told.ends()

    assert list(_windows(told.monitor)) == [("h", "t", 0)]
    (line,) = [each for each in logs if each["event"] == "checkpoint_forgotten"]
    assert OFFSETS_TOPIC in line["reason"]


def test_commits_that_are_polled_now_do_not_go_on_with_those_that_were_read() -> None:
    told = begun()
    told.commit("g", "t", 0, 10)
    told.ends()
    told.restart(away_s=5)

    told.apply(
        Commits(
            first_new_id=0,
            new_groups=("h",),
            new_topics=("t",),
            new_partitions=(0,),
            key=np.array([0], np.int32),
            offset=np.array([3], np.int64),
            commit_ms=np.array([told.now_ms], np.int64),
            order=np.array([told.now_ms], np.int64),
            observed_ms=EpochMs(told.now_ms),
            exact_times=False,
        )
    )
    told.wait(1)
    told.ends()

    assert list(_windows(told.monitor)) == [("h", "t", 0)]


# the gap


def test_a_message_of_a_long_gap_has_no_measured_age() -> None:
    told = begun()
    told.grow("t", 10)
    told.ends()
    told.commit("g", "t", 0, 10)
    told.wait(1)
    told.ends()

    told.restart(away_s=900)
    told.grow("t", 5)
    told.ends()
    verdict = _verdict(told)

    assert verdict.time_lag_s == 0.0
    assert verdict.time_lag_reason is TimeLagReason.NOT_SAMPLED
    assert verdict.time_lag_bound is TimeLagBound.AT_LEAST
    assert 900 <= verdict.time_lag_error_s < 910
    assert verdict.current_lag == 5


def test_the_silence_of_a_group_begins_at_the_end_of_the_gap() -> None:
    told = _steady(600)

    told.restart(away_s=900)
    told.grow("t", 5)
    told.ends()
    told.wait(100)
    told.ends()

    # it moved last fifteen minutes ago; something to read may have come a moment before the end
    assert _row(told)[0] is PartitionStatus.OK


def test_over_a_short_gap_the_age_is_between_its_ends() -> None:
    told = _steady(600)

    told.restart(away_s=40)
    told.grow("t", 4)
    told.ends()
    verdict = _verdict(told)

    assert verdict.time_lag_reason is TimeLagReason.SAMPLES_APART
    assert verdict.time_lag_s == 0.0
    assert 40 <= verdict.time_lag_error_s < 50


def test_the_lag_of_a_commit_within_a_long_gap_is_unknown() -> None:
    told = _steady(600)
    parts = list(capture(told.monitor))
    told.wait(300)
    told.commit("g", "t", 0, 100_000)

    told.restart(parts, away_s=300)
    told.grow("t", 200_000)
    told.ends()

    (row,) = told.monitor.table.of_group("g")
    assert told.monitor.windows.entries(row).lag[-1] == -1
    assert _verdict(told).current_lag > 0


def test_commits_admitted_before_the_first_log_ends_have_no_lag_of_before() -> None:
    told = _steady(600)
    parts = list(capture(told.monitor))
    told.wait(5)
    told.commit("g", "t", 0, 100_000)

    told.restart(parts, away_s=5)
    told.wait(61)  # log ends cannot be read: commits do not wait any longer
    told.commit("g", "t", 0, 100_001)

    (row,) = told.monitor.table.of_group("g")
    assert told.monitor.windows.entries(row).lag[-1] == -1


def test_a_gap_no_longer_counts_when_samples_of_its_age_are_as_far_apart() -> None:
    told = begun()
    told.ends()
    told.restart(away_s=120)
    told.ends()
    gaps = [told.monitor.history.gaps]
    for _ in range(400):
        told.wait(10)
        told.ends()
    gaps.append(told.monitor.history.gaps)

    assert [len(each) for each in gaps] == [1, 0]


def test_a_group_that_never_commits_is_warned_of_since_the_same_instant() -> None:
    told = begun()
    told.groups_hold("g", "t", 0)
    told.ends()
    told.judge()
    for _ in range(40):
        told.wait(10)
        told.grow("t", 5)
        told.ends()
        told.judge()
    before = _row(told)

    told.restart(away_s=5)
    told.ends()
    after = _row(told)

    assert before == after
    assert after[1] is Rule.NEVER_COMMITS


def test_what_burrows_rules_found_is_restored_as_well() -> None:
    told = begun(rules=RuleSet.BURROW)
    told.grow("t", 500)
    told.ends()
    for offset in range(4):
        told.wait(5)
        told.commit("g", "t", 0, offset)
        told.grow("t", 50)
        told.ends()
    before = _row(told)

    told.restart(away_s=1)
    told.ends()

    assert _row(told) == before
    assert before[1] is Rule.LAG_NOT_DECREASING


def _steady(seconds: int) -> Told:
    """A group that reads all there is, every ten seconds."""
    told = begun()
    for _ in range(0, seconds, 10):
        told.wait(10)
        told.grow("t", 100)
        told.ends()
        told.commit("g", "t", 0, told.topics["t"][1])
        told.wait(0.5)
        told.ends()
        told.judge()
    return told


def _be_quiet(told: Told, seconds: int) -> None:
    told.grow("t", 100)
    for _ in range(0, seconds, 10):
        told.wait(10)
        told.ends()
        told.judge()


def _stopped() -> Told:
    told = _steady(2400)
    _be_quiet(told, 400)
    told.list_groups("g")
    return told


def _row(told: Told):
    snapshot = told.judge()
    (place,) = np.flatnonzero(snapshot.rows.window == told.monitor.table.of_group("g")[0]).tolist()
    rows = snapshot.rows
    return PartitionStatus(rows.status[place]), Rule(rows.rule[place]), int(rows.since_ms[place])


def _verdict(told: Told):
    told.judge()
    queries = SnapshotQueries({"here": told.monitor}, health=tuple)
    return queries.verdict("here", "g", show_all=True).partitions[0]

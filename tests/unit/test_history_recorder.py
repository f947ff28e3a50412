"""Recording: when samples are taken, what is left out, and that it can be put back."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lagwatch.core.model import EpochMs, PartitionStatus, RuleSet
from lagwatch.core.record import (
    Capture,
    Kind,
    Records,
    SampleReason,
    Text,
    concat,
    from_rows,
    samples,
    status_events,
)
from lagwatch.core.record.records import plain_values
from lagwatch.errors import HistoryError
from lagwatch.history.changes import as_events
from lagwatch.history.grid import expand
from lagwatch.history.match import group_of_rows
from lagwatch.history.recorder import Recorder, RecorderSettings
from lagwatch.history.spool import Spool
from lagwatch.history.unchanged import unchanged
from lagwatch.ports.queries import Loss
from tests.support.history import NOON_MS, Live, SetClock, in_order

INTERVAL_MS = 30_000


class Kept(Spool):
    """A real spool that also remembers every row; a test can make it full."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, max_bytes=100_000_000, spool_id="test")
        self.records: list[Records] = []
        self.fails: HistoryError | None = None

    def append(self, records, *, series="") -> int:
        if self.fails:
            raise self.fails
        records = list(records)
        self.records += records
        return super().append(records, series=series)

    def rows(self, kind: Kind) -> list[dict]:
        return in_order((row for part in self.of(kind) for row in part.rows()), kind)

    def of(self, kind: Kind) -> list[Records]:
        return [part for part in self.records if part.kind is kind]

    def all(self, kind: Kind) -> Records:
        found = self.of(kind)
        return concat(found) if found else from_rows(kind, ())


def recorder(spool: Spool, *, full_every: int = 20) -> Recorder:
    return Recorder(
        spool,
        RecorderSettings(interval_ms=INTERVAL_MS, full_every=full_every),
        SetClock(),
        appended=lambda: None,
    )


@pytest.fixture
def live() -> Live:
    """Two groups on a topic of two partitions, at the log end."""
    live = Live()
    live.topics(orders=2)
    live.wait(1)
    live.commit(*((group, "orders", number, 100) for group in ("a", "b") for number in (0, 1)))
    live.wait(1)
    return live


@pytest.fixture
def spool(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "spool")


def test_samples_are_taken_once_in_every_interval(live: Live, spool: Kept) -> None:
    recording = recorder(spool, full_every=1)

    for _ in range(45):
        live.wait(2)
        live.shown_to(recording)

    rounds = {row["at_ms"] for row in spool.rows(Kind.SAMPLES)}
    assert rounds == {NOON_MS + number * INTERVAL_MS for number in range(4)}
    assert len(spool.rows(Kind.SAMPLES)) == 4 * 4
    assert len(spool.rows(Kind.GROUP_SAMPLES)) == 4 * 2
    assert recording.counts.rounds == 4


def test_the_instant_is_the_same_for_instances_that_judge_at_other_moments(
    live: Live, tmp_path: Path
) -> None:
    this, other = Kept(tmp_path / "one"), Kept(tmp_path / "other")
    first, second = recorder(this), recorder(other)

    live.shown_to(first)
    live.wait(1.3)
    live.shown_to(second)

    keys = [
        [tuple(row[name] for name in Kind.SAMPLES.key) for row in spool.rows(Kind.SAMPLES)]
        for spool in (this, other)
    ]
    assert keys[0] == keys[1]


def test_a_change_of_status_is_recorded_at_once_with_its_event(lagging: Live, spool: Kept) -> None:
    recording = recorder(spool)
    lagging.shown_to(recording)
    _fall_silent(lagging)
    lagging.shown_to(recording)

    changed = [row for row in spool.rows(Kind.SAMPLES) if row["reason"] == "change"]
    events = [row for row in spool.rows(Kind.EVENTS) if row["event"] != "recording"]

    assert [(row["group"], row["partition"], row["status"]) for row in changed] == [
        ("a", 0, "STOP")
    ]
    assert changed[0]["at_ms"] == lagging.now_ms
    assert [(row["event"], row["before"], row["after"]) for row in events] == [
        ("group_status", "OK", "ERR"),
        ("partition_status", "OK", "STOP"),
    ]
    assert events[1]["rule"] == "stopped"
    assert events[1]["lag"] == 30


def test_by_the_default_rules_a_silence_is_an_event_once_it_is_longer_than_usual(
    spool: Kept,
) -> None:
    recording, lagging = recorder(spool), _lagging(RuleSet.LAGWATCH)
    lagging.shown_to(recording)
    _fall_silent(lagging)
    lagging.shown_to(recording)
    early = [row for row in spool.rows(Kind.EVENTS) if row["event"] == "partition_status"]
    for _ in range(30):
        lagging.wait(10)
        lagging.shown_to(recording)

    late = [row for row in spool.rows(Kind.EVENTS) if row["event"] == "partition_status"]
    assert early == []
    assert [(row["before"], row["after"], row["rule"]) for row in late] == [
        ("OK", "STOP", "stopped")
    ]


def test_nothing_is_recorded_between_rounds_as_long_as_nothing_changes(
    live: Live, spool: Kept
) -> None:
    recording = recorder(spool)
    live.shown_to(recording)
    before = len(spool.records)

    live.wait(2)
    live.produce("orders", 0)
    live.shown_to(recording)

    assert len(spool.records) == before


def test_rebalances_become_events(live: Live, spool: Kept) -> None:
    recording = recorder(spool)
    live.shown_to(recording)
    live.assign("a", ("orders", 0), ("orders", 1), rebalances=2)
    live.wait(1)
    live.shown_to(recording)

    [event] = [row for row in spool.rows(Kind.EVENTS) if row["event"] == "rebalance"]

    assert (event["group"], event["count"]) == ("a", 2)


def test_a_group_that_goes_and_one_that_comes_are_events(live: Live, spool: Kept) -> None:
    recording = recorder(spool)
    live.shown_to(recording)
    live.forget("a")
    live.commit(("new", "orders", 0, 100))
    live.wait(1)
    live.shown_to(recording)

    events = [row for row in spool.rows(Kind.EVENTS) if row["event"] == "group_status"]

    assert [(row["group"], row["before"], row["after"]) for row in events] == [
        ("a", "OK", "NOTFOUND"),
        ("new", None, "OK"),
    ]


def test_a_group_that_comes_back_between_rounds_has_its_status_from_then_on(
    live: Live, spool: Kept
) -> None:
    recording = recorder(spool)
    live.shown_to(recording)
    live.forget("a")
    live.wait(1)
    live.shown_to(recording)
    live.topics(orders=2, other=1)
    live.silent.add(("other", 0))
    live.commit(("a", "other", 0, 5))
    live.wait(1)
    live.shown_to(recording)

    came = [row for row in spool.rows(Kind.GROUP_SAMPLES) if row["reason"] == "change"]
    of_partitions = [row for row in spool.rows(Kind.SAMPLES) if row["reason"] == "change"]
    events = [row for row in spool.rows(Kind.EVENTS) if row["group"] == "a"]

    assert [(row["group"], row["at_ms"], row["status"]) for row in came] == [
        ("a", live.now_ms, "UNKNOWN")
    ]
    assert [(row["group"], row["topic"], row["status"]) for row in of_partitions] == [
        ("a", "other", "UNKNOWN")
    ]
    assert [(row["before"], row["after"], row["lag"]) for row in events] == [
        ("OK", "NOTFOUND", None),
        (None, "UNKNOWN", None),
    ]


def test_what_did_not_change_is_left_out_and_counted(live: Live, spool: Kept) -> None:
    recording = recorder(spool, full_every=1000)
    live.shown_to(recording)
    live.wait(30)
    live.produce("orders", 1)
    live.wait(1)
    live.shown_to(recording)

    second = [row for row in spool.rows(Kind.SAMPLES) if row["at_ms"] == NOON_MS + INTERVAL_MS]
    groups = [
        row for row in spool.rows(Kind.GROUP_SAMPLES) if row["at_ms"] == NOON_MS + INTERVAL_MS
    ]

    assert [(row["group"], row["partition"]) for row in second] == [("a", 1), ("b", 1)]
    assert [(row["observed"], row["unchanged"], row["previous_ms"]) for row in groups] == [
        (2, 1, NOON_MS),
        (2, 1, NOON_MS),
    ]
    assert recording.counts.unchanged == 2


def test_snapshots_from_stale_log_ends_are_a_gap(live: Live, spool: Kept) -> None:
    recording = recorder(spool)
    live.now_ms += 61_000
    live.shown_to(recording)

    assert spool.records == []


def test_a_round_is_not_recorded_again_after_a_restart(
    live: Live, spool: Kept, tmp_path: Path
) -> None:
    live.shown_to(recorder(spool))

    again = Kept(tmp_path / "spool")
    live.wait(1)
    live.shown_to(recorder(again))

    assert again.rows(Kind.SAMPLES) == []


def test_a_round_that_was_delivered_is_not_recorded_again_either(
    live: Live, spool: Kept, tmp_path: Path
) -> None:
    live.shown_to(recorder(spool))
    plan = spool.plan(max_rows=1000)
    assert plan is not None
    spool.acknowledge(plan)

    again = Kept(tmp_path / "spool")
    live.shown_to(recorder(again))

    assert again.rows(Kind.SAMPLES) == []


def test_recording_goes_on_after_the_clock_was_set_back(live: Live, spool: Kept) -> None:
    recording = recorder(spool)
    live.wait(86_400)
    live.shown_to(recording)

    back = Live(now_ms=NOON_MS)
    back.topics(orders=1)
    back.wait(1)
    back.commit(("a", "orders", 0, 100))
    back.wait(1)
    back.shown_to(recording)

    assert NOON_MS in {row["at_ms"] for row in spool.rows(Kind.SAMPLES)}


def test_a_full_disk_costs_rounds_says_so_and_the_next_one_is_whole(
    live: Live, spool: Kept
) -> None:
    recording = recorder(spool)
    live.shown_to(recording)
    spool.fails = HistoryError(store="spool", kind="disk_full", message="full", retryable=True)
    live.wait(30)
    live.shown_to(recording)
    problem = recording.problem
    spool.fails = None
    live.wait(30)
    live.shown_to(recording)

    last = [row for row in spool.rows(Kind.GROUP_SAMPLES) if row["at_ms"] > NOON_MS]

    assert problem == "full"
    assert recording.problem == ""
    assert recording.counts.dropped["disk_full"] > 0
    assert [(row["unchanged"], row["previous_ms"]) for row in last] == [(0, None)] * 2
    gap = [row for row in spool.rows(Kind.EVENTS) if row["event"] == "recording"]
    assert [(row["after"], row["at_ms"], row["detail"]) for row in gap[1:]] == [
        ("failed", NOON_MS + 30_000, "full"),
        ("resumed", NOON_MS + 60_000, "full"),
    ]


def test_a_change_that_could_not_be_written_is_reported_later(lagging: Live, spool: Kept) -> None:
    recording = recorder(spool)
    lagging.shown_to(recording)
    spool.fails = HistoryError(store="spool", kind="disk_full", message="full", retryable=True)
    _fall_silent(lagging)
    lagging.shown_to(recording)
    spool.fails = None
    lagging.wait(30)
    lagging.shown_to(recording)

    events = [row for row in spool.rows(Kind.EVENTS) if row["event"] == "partition_status"]

    assert [row["after"] for row in events] == ["STOP"]


def test_captures_that_pile_up_are_dropped_oldest_first_and_counted(
    live: Live, spool: Kept
) -> None:
    recording = recorder(spool)
    for _ in range(10):
        live.wait(30)
        recording.offer(live.judge(), live.monitor.rebalances)

    recording.work()

    rounds = {row["at_ms"] for row in spool.rows(Kind.GROUP_SAMPLES)}
    assert rounds == {NOON_MS + number * INTERVAL_MS for number in range(3, 11)}
    assert recording.counts.dropped["behind"] == 2 * 4


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.integers(0, 2)),
        st.tuples(st.just("commit"), st.integers(0, 2), st.integers(0, 5), st.booleans()),
        st.tuples(st.just("forget"), st.integers(0, 2)),
        st.tuples(st.just("topic"), st.booleans()),
        st.tuples(st.just("assign"), st.integers(0, 2)),
        st.tuples(st.just("lose"), st.just(0)),
        st.tuples(st.just("wait"), st.sampled_from([1, 7, 29, 30, 30, 30, 31, 95])),
    ),
    max_size=40,
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(OPERATIONS, st.integers(2, 6))
@example([("commit", 0, 0, False), ("wait", 29)], 3)
def test_what_was_left_out_can_be_put_back(tmp_path_factory, operations, full_every) -> None:
    folder = tmp_path_factory.mktemp("spools")
    whole, thinned = Kept(folder / "whole"), Kept(folder / "thinned")
    recorders = recorder(whole, full_every=1), recorder(thinned, full_every=full_every)
    live = Live()
    live.topics(orders=3)
    live.wait(1)

    for operation, *values in operations:
        _perform(live, recorders, operation, values)
        for each in recorders:
            live.shown_to(each)

    for group in ("g0", "g1", "g2"):
        put_back, written = _put_back(thinned, group), _put_back(whole, group)
        # a log end that did not move was read in the earlier round as well
        for earlier, later in zip(put_back, written, strict=True):
            assert _read_ms(earlier) <= _read_ms(later)
        assert put_back == written, group
    assert len(thinned.rows(Kind.SAMPLES)) <= len(whole.rows(Kind.SAMPLES))


def _read_ms(row: dict) -> int:
    """Take out when the log end was read; -1 never."""
    return row.pop("log_end_ms") or -1


SAYS_WHEN = {"at_ms", "observed_ms", "log_end_ms", "time_lag_at_ms", "reason"}


@settings(max_examples=60, deadline=None)
@given(OPERATIONS, st.data())
def test_rows_are_unchanged_whose_samples_say_the_same(operations, data) -> None:
    live = Live()
    live.topics(orders=3)
    live.wait(1)
    captures = []
    for operation, *values in operations:
        _perform(live, (), operation, values)
        captures.append(Capture(snapshot=live.judge(), rebalances={}))
    captures.append(Capture(snapshot=live.judge(), rebalances={}))
    first, second = sorted(data.draw(st.integers(0, len(operations))) for _ in range(2))
    before, after = captures[first], captures[second]

    same = unchanged(before, after)

    known = {_place(row): _says(row) for row in _samples(before)}
    assert same.tolist() == [_says(row) == known.get(_place(row)) for row in _samples(after)]


def _samples(taken: Capture) -> list[dict]:
    every = np.arange(taken.snapshot.rows.lag.size)
    return list(samples(taken, every, at_ms=NOON_MS, reason=SampleReason.INTERVAL).rows())


def _place(row: dict) -> tuple:
    return row["group"], row["topic"], row["partition"]


def _says(row: dict) -> dict:
    return {name: value for name, value in row.items() if name not in SAYS_WHEN}


def test_a_lost_segment_leaves_a_gap_and_never_a_wrong_value(live: Live, spool: Kept) -> None:
    recording = recorder(spool, full_every=100)
    live.shown_to(recording)
    for _ in range(4):
        live.wait(30)
        live.produce("orders", 0)
        live.wait(0)
        live.shown_to(recording)
        live.wait(30)
        live.shown_to(recording)
    rounds = sorted({row["at_ms"] for row in spool.rows(Kind.GROUP_SAMPLES)})
    truth = {(row["at_ms"], row["partition"]): row["lag"] for row in _put_back(spool, "a")}

    for lost in rounds:
        left = [_without(spool.all(kind), lost) for kind in (Kind.SAMPLES, Kind.GROUP_SAMPLES)]
        for row in expand(*(_of(part, "a") for part in left)).rows():
            assert truth[row["at_ms"], row["partition"]] == row["lag"], (lost, row)


def _perform(live: Live, recorders, operation: str, values) -> None:  # noqa: C901 one per case
    match operation, values:
        case "produce", [partition]:
            if ("orders", partition) in live.ends:
                live.produce("orders", partition, 10)
        case "commit", [group, behind, everywhere]:
            partitions = [partition for topic, partition in live.ends if topic == "orders"]
            for partition in partitions if everywhere else partitions[:1]:
                offset = max(live.ends["orders", partition] - behind, 0)
                live.commit((f"g{group}", "orders", partition, offset))
        case "forget", [group]:
            live.forget(f"g{group}")
        case "topic", [more]:
            live.topics(**({"orders": 3, "audit": 1} if more else {"orders": 3}))
        case "assign", [group]:
            live.assign(f"g{group}", ("orders", 0), ("orders", 2))
        case "lose", _:
            for recorder in recorders:
                for state in recorder._clusters.values():  # noqa: SLF001 as after a loss in the spool
                    state.thinner.reset()
        case "wait", [seconds]:
            live.wait(seconds)


def _put_back(spool: Kept, group: str) -> list[dict]:
    found = expand(_of(spool.all(Kind.SAMPLES), group), _of(spool.all(Kind.GROUP_SAMPLES), group))
    return in_order(found.rows(), Kind.SAMPLES)


def _of(rows: Records, group: str) -> Records:
    chosen = [index for index, name in enumerate(rows.text("group").tolist()) if name == group]
    return rows.take(np.array(chosen, np.int64))


def _without(rows: Records, at_ms: int) -> Records:
    return rows.take(rows.at_ms() != at_ms)


@pytest.fixture
def lagging() -> Live:
    """One group that is behind and catching up on partition 0, and at the end of partition 1."""
    return _lagging(RuleSet.BURROW)


def _lagging(rules: RuleSet) -> Live:
    live = Live(rules=rules)
    live.topics(orders=2)
    for offset in (50, 60, 70):
        live.wait(1)
        live.commit(("a", "orders", 0, offset), ("a", "orders", 1, 100))
    live.wait(1)
    return live


def _fall_silent(live: Live) -> None:
    """For longer than the window spans: STOP where there is lag."""
    live.wait(7.137)


def test_stale_data_are_not_recorded_and_the_gap_is_reported_once_at_its_end(
    live: Live, spool: Kept
) -> None:
    recording = recorder(spool)
    live.shown_to(recording)
    paused_ms = _freeze(live, recording)
    before = len(spool.rows(Kind.SAMPLES))
    assert _said(spool) == [("started", None)]

    live.wait(40)
    live.shown_to(recording)

    rows = [row for row in spool.rows(Kind.EVENTS) if row["after"] in ("dropped", "resumed")]
    assert [(row["after"], row["at_ms"], row["detail"]) for row in rows] == [
        ("dropped", paused_ms, "log_ends: no broker answers"),
        ("resumed", live.now_ms, "log_ends: no broker answers"),
    ]
    assert len(spool.rows(Kind.SAMPLES)) > before


def test_a_gap_outlives_a_restart_and_is_reported_once(
    live: Live, spool: Kept, tmp_path: Path
) -> None:
    live.shown_to(recorder(spool))
    paused_ms = _freeze(live, recorder(spool))

    again = Kept(tmp_path / "spool")
    restarted = recorder(again)
    live.wait(40)
    live.shown_to(restarted)
    live.wait(40)
    live.shown_to(restarted)

    assert _said(again) == [
        ("dropped", "log_ends: no broker answers"),
        ("resumed", "log_ends: no broker answers"),
    ]
    assert spool.rows(Kind.EVENTS)[0]["at_ms"] < paused_ms


def test_a_gap_that_could_not_be_written_is_reported_later_with_the_same_instants(
    live: Live, spool: Kept, tmp_path: Path
) -> None:
    recording = recorder(spool)
    live.shown_to(recording)
    paused_ms = _freeze(live, recording)
    live.wait(40)
    resumed_ms = live.now_ms
    spool.fails = HistoryError(store="spool", kind="io", message="broken", retryable=True)
    live.shown_to(recording)

    again = Kept(tmp_path / "spool")
    live.wait(40)
    live.shown_to(recorder(again))

    assert [row["at_ms"] for row in again.rows(Kind.EVENTS)] == [paused_ms, resumed_ms]


def test_lost_messages_become_one_event_for_each_partition_and_instant() -> None:
    first = Loss(
        group="g", topic="t", partition=3, at_ms=EpochMs(NOON_MS), first=10, end=15, exact=True
    )
    second = replace(first, first=20, end=22, exact=False)

    rows = list(as_events("here", [first, second]).rows())

    assert [(row["event"], row["group"], row["partition"], row["count"]) for row in rows] == [
        ("records_lost", "g", 3, 7)
    ]
    assert json.loads(str(rows[0]["detail"])) == {"first": 10, "end": 22, "exact": False}


def _freeze(live: Live, recording: Recorder) -> int:
    """Let the data grow stale and show that; the instant of the first stale round."""
    live.now_ms += 61_000
    paused_ms = live.now_ms
    for _ in range(3):
        recording.pause("here", live.now_ms, "log_ends: no broker answers")
        live.shown_to(recording)
        live.now_ms += 2_000
    return paused_ms


def _said(spool: Kept) -> list[tuple[str, str | None]]:
    rows = [row for row in spool.rows(Kind.EVENTS) if row["event"] == "recording"]
    return [(row["after"], row["detail"]) for row in rows]


def test_events_made_as_columns_are_the_rows_that_they_stand_for(lagging: Live) -> None:
    snapshot = lagging.judge()
    rows = np.arange(snapshot.rows.status.size)
    taken = Capture(snapshot=snapshot, rebalances={})

    made = status_events(taken, rows, np.full(rows.size, PartitionStatus.WARN, np.int8))

    written = list(made.rows())
    again = from_rows(Kind.EVENTS, written)
    assert list(made.columns) == list(again.columns)
    assert {each["before"] for each in written} == {"WARN"}
    assert [(each["group"], each["topic"], each["partition"]) for each in written] == [
        (snapshot.groups[group], snapshot.topic_names[topic], partition)
        for group, topic, partition in zip(
            group_of_rows(snapshot).tolist(),
            snapshot.rows.topic.tolist(),
            snapshot.rows.partition.tolist(),
            strict=True,
        )
    ]
    for name, column in made.columns.items():
        other = again.columns[name]
        assert plain_values(column) == plain_values(other)
        assert isinstance(column, Text) == isinstance(other, Text)
        if not (isinstance(column, Text) or isinstance(other, Text)):
            assert column.dtype == other.dtype, name

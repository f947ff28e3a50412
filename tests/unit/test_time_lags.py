"""Time lags as they are shown: bounds, methods, errors, and a group's worst partition."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.log_end import LogEndHistory
from lagwatch.core.model import EpochMs, Rule, TimeLagBound, TimeLagMethod, TimeLagReason
from lagwatch.core.pace import Pace
from lagwatch.core.rows import (
    Around,
    Limits,
    OffsetTimes,
    PartitionColumns,
    RowFacts,
    StoredTimes,
)
from lagwatch.core.snapshot import RowTimes
from lagwatch.core.time_lags import NOTHING_UNREAD, TimesOfRows, Waits, of_groups, shown
from tests.bench.bench_evaluate import filled
from tests.support.history import Live

R = TimeLagReason


def _history(*samples: tuple[int, int]) -> LogEndHistory:
    """Samples as (second, log end)."""
    history = LogEndHistory(horizon_ms=86_400_000)
    history.remap(np.array([-1]))
    for at_s, end in samples:
        history.add(at_s * 1000, np.array([end], np.int64))
    return history


def _steady(first_s: int, last_s: int, *, every_s: int = 5) -> list[tuple[int, int]]:
    """The log end grows by one a second."""
    return [(at_s, at_s) for at_s in range(first_s, last_s + 1, every_s)]


def _times(offset: int, low_s: float, high_s: float, *, by_broker: bool) -> OffsetTimes:
    return OffsetTimes(
        row=np.zeros(1, np.int32),
        offset=np.array([offset], np.int64),
        low_ms=np.array([low_s * 1000], np.int64),
        high_ms=np.array([high_s * 1000], np.int64),
        by_broker=np.array([by_broker]),
    )


def _stored(offset: int, low_s: float, high_s: float, share: float = 0.5) -> StoredTimes:
    return StoredTimes(
        row=np.zeros(1, np.int32),
        offset=np.array([offset], np.int64),
        low_ms=np.array([low_s * 1000 if low_s >= 0 else -1], np.int64),
        high_ms=np.array([high_s * 1000 if high_s >= 0 else -1], np.int64),
        share=np.array([share], np.float32),
    )


def _shown(
    history: LogEndHistory,
    committed: int,
    now_s: float,
    *,
    times: OffsetTimes | None = None,
    stored: StoredTimes | None = None,
    away_s: tuple[int, int] | None = None,
    skew_s: int = 0,
    log_start: int = 0,
) -> tuple[float, TimeLagReason, float]:
    """Value in seconds, reason, error in seconds."""
    columns = {"log_start": np.array([log_start], np.int64)}
    if away_s is not None:
        columns |= {
            name: np.array([at_s * 1000], np.int64)
            for name, at_s in zip(("away_ms", "back_ms"), away_s, strict=True)
        }
    facts = RowFacts.none(1)
    around = Around(
        pace=Pace(step_ms=60_000),
        facts=RowFacts(
            **{
                name: getattr(facts, name)
                for name in facts.__slots__
                if name not in {"times", "stored"}
            },
            times=times,
            stored=stored,
        ),
        partitions=PartitionColumns.of(history.latest(), **columns),
        limits=Limits(),
        skew_ms=skew_s * 1000,
    )
    now_ms = int(now_s * 1000)
    zero, offset = np.zeros(1, np.int64), np.array([committed], np.int64)
    found = shown(
        history.age(zero, offset, now_ms),
        at=zero.astype(np.int32),
        row=zero,
        committed=offset,
        read_ms=now_ms,
        around=around,
        restored_ms=history.restored_ms,
        spacing_ms=history.spacing_ms,
    )
    return (
        int(found.lag_ms[0]) / 1000 if found.lag_ms[0] >= 0 else -1,
        TimeLagReason(found.reason[0]),
        float(found.error_ms[0]) / 1000,
    )


def test_between_two_close_samples_the_age_is_exact_to_their_distance() -> None:
    value_s, reason, error_s = _shown(_history(*_steady(0, 100)), 42, 100)

    assert reason is R.MEASURED
    assert abs(value_s - 58) < 1
    assert 2 < error_s <= 5.25


def test_a_slow_round_of_log_ends_widens_the_error() -> None:
    history = _history((0, 0))
    for at_s in (5, 10, 15):
        history.add(at_s * 1000, np.array([at_s], np.int64), half_ms=2000)

    _, reason, error_s = _shown(history, 7, 15)

    assert reason is R.MEASURED
    # appended between 3 and 12 s, and not within 5 and 10 s
    assert error_s > 4


def test_a_partition_that_was_not_asked_for_may_have_unread_messages_since_then() -> None:
    zero, far = np.zeros(1, np.int64), np.full(1, -1, np.int64)
    history = _history((0, 50))
    times = TimesOfRows(
        waits=Waits(
            since_ms=np.full(1, NOTHING_UNREAD),
            reason=np.array([R.CAUGHT_UP], np.int8),
            after_ms=far,
            before_ms=far,
        ),
        at=zero.astype(np.int32),
        window=zero.astype(np.int32),
        committed=np.array([50], np.int64),
        asked_ms=np.array([75_000], np.int64),
        read_ms=100_000,
        around=Around(
            pace=Pace(step_ms=60_000),
            facts=RowFacts.none(1),
            partitions=PartitionColumns.of(history.latest()),
            limits=Limits(),
        ),
        restored_ms=-1,
        spacing_ms=5000,
    )

    found = times(slice(None))

    assert (int(found.lag_ms[0]), float(found.error_ms[0])) == (0, 25_000)


def test_a_pause_of_the_collector_makes_no_value_measured() -> None:
    # of 53 s without a sample only the last 7 s had records
    history = _history(*_steady(0, 100), (153, 107))

    value_s, reason, error_s = _shown(history, 100, 157)

    assert reason is R.SAMPLES_APART
    assert reason.bound is TimeLagBound.AT_LEAST
    assert (value_s, error_s) == (4.0, 53.25)


def test_samples_that_are_far_apart_by_rule_give_an_estimate_of_what_lies_between_them() -> None:
    # a grid of thirty seconds, as a backfill asks for it; all records may have come at its end
    value_s, reason, error_s = _shown(_history((0, 100), (30, 160)), 130, 30)

    assert (reason, reason.bound) == (R.BETWEEN_ROUNDS, TimeLagBound.ESTIMATE)
    assert 14 < value_s < 16
    assert 15 < error_s < 16


@given(
    every_s=st.sampled_from([5, 10, 20, 30, 60]),
    bursts=st.lists(st.tuples(st.integers(1, 90), st.integers(1, 40)), min_size=30, max_size=60),
    unread=st.integers(1, 400),
)
def test_of_bursts_a_time_lag_is_exact_only_to_a_third_of_a_minute_or_an_eighth(
    every_s: int, bursts: list[tuple[int, int]], unread: int
) -> None:
    """Each burst comes so many seconds after the one before, with so many records."""
    came_s = np.repeat(np.cumsum([pause_s for pause_s, _ in bursts]), [size for _, size in bursts])
    end_s = (int(came_s[-1]) // every_s + 1) * every_s
    samples = [(at_s, int((came_s <= at_s).sum())) for at_s in range(0, end_s + 1, every_s)]
    committed = max(came_s.size - unread, 0)

    value_s, reason, error_s = _shown(_history(*samples), committed, end_s)

    off_s = abs(value_s - (end_s - int(came_s[committed])))
    assert off_s <= error_s
    assert reason in {R.MEASURED, R.BETWEEN_ROUNDS}
    assert reason.bound is TimeLagBound.ESTIMATE or off_s <= max(20.25, value_s / 8 + 0.25)


def test_the_age_of_records_that_were_deleted_unread_is_an_upper_bound() -> None:
    value_s, reason, error_s = _shown(_history(*_steady(0, 100)), 42, 100, log_start=70)

    assert (reason, reason.bound) == (R.DELETED_UNREAD, TimeLagBound.AT_MOST)
    assert 58 <= value_s < 65, "what is left to read came 30 s ago"
    assert value_s - error_s <= 30


def test_nothing_is_known_of_what_is_left_where_deleted_records_are_older_than_the_history() -> (
    None
):
    value_s, reason, _ = _shown(_history(*_steady(1000, 1100)), 400, 1100, log_start=1050)

    assert (value_s, reason) == (-1, R.DELETED_UNREAD)


STARTED = _steady(10_000, 10_100)
"""It runs since 10,000 s; offset 42 is older than that."""


def test_stored_samples_measure_what_is_older_than_the_process() -> None:
    found = _shown(_history(*STARTED), 42, 10_100, stored=_stored(42, 40, 80, 0.25))

    assert found == (10_100 - 50, R.RECORDED, 30.25)


def test_what_came_between_the_last_stored_sample_and_the_first_of_now_is_bounded_by_both() -> None:
    value_s, reason, error_s = _shown(
        _history(*STARTED), 9_980, 10_100, stored=_stored(9_980, 9_960, -1)
    )

    assert (value_s, reason, error_s) == (120, R.RECORDED, 20.25)


def test_with_the_later_stored_sample_alone_it_is_at_least_so_old() -> None:
    value_s, reason, error_s = _shown(_history(*STARTED), 42, 10_100, stored=_stored(42, -1, 100))

    assert (value_s, reason, reason.bound) == (10_000, R.RECORDED_APART, TimeLagBound.AT_LEAST)
    assert np.isnan(error_s)


def test_stored_samples_that_are_far_apart_give_a_lower_bound() -> None:
    found = _shown(_history(*STARTED), 42, 10_100, stored=_stored(42, 100, 5_100))

    assert found == (5_000, R.RECORDED_APART, 5_000.25)


def test_of_an_offset_read_since_the_stored_sample_before_it_bounds_the_age() -> None:
    found = _shown(_history(*STARTED), 60, 10_100, stored=_stored(42, 40, 100))

    # it came after 40 s, and before lagwatch ran
    assert found == (100, R.RECORDED_APART, 10_060 - 100 + 0.25)


def test_stored_samples_narrow_the_times_that_producers_gave() -> None:
    # made at 10 s, appended between 40 and 100 s
    times, stored = _times(42, 10, 11, by_broker=False), _stored(42, 40, 100)

    alone = _shown(_history(*STARTED), 42, 10_100, times=times)
    found = _shown(_history(*STARTED), 42, 10_100, times=times, stored=stored)

    assert [alone, found] == [(10_090, R.RECORD_TIME, 9_990.25), (10_060, R.RECORD_TIME, 60.25)]


def test_stored_samples_that_contradict_a_broker_change_nothing() -> None:
    times = _times(42, 5_000, 5_001, by_broker=False)

    alone = _shown(_history(*STARTED), 42, 10_100, times=times)
    found = _shown(_history(*STARTED), 42, 10_100, times=times, stored=_stored(42, 40, 100))

    assert alone == found


def test_stored_samples_replace_neither_a_broker_nor_the_history_of_log_ends() -> None:
    stored = _stored(42, 40, 100)
    times = _times(42, 70, 71, by_broker=True)

    assert _shown(_history(*STARTED), 42, 10_100, times=times, stored=stored)[1] is R.OFFSET_TIME
    assert _shown(_history(*_steady(0, 100)), 42, 100, stored=stored)[1] is R.MEASURED


@given(
    came_s=st.integers(0, 9_999),
    before_s=st.integers(0, 500),
    behind_s=st.integers(0, 500),
    known=st.sampled_from(["both", "low", "high"]),
    read=st.integers(-1, 1),
)
def test_stored_samples_that_enclose_a_record_enclose_its_age(
    came_s: int, before_s: int, behind_s: int, known: str, read: int
) -> None:
    """The record at offset 42 came at `came_s`; `read`: asked of an earlier or a later one."""
    low_s = max(came_s - before_s, 0) if known != "high" else -1
    high_s = min(came_s + behind_s, 10_000) if known != "low" else -1
    stored = _stored(42 + read, low_s if read <= 0 else -1, high_s if read >= 0 else -1)

    value_s, reason, error_s = _shown(_history(*STARTED), 42, 10_100, stored=stored)

    age_s = 10_100 - came_s
    if value_s >= 0:
        assert reason.bound is TimeLagBound.AT_LEAST or value_s - error_s <= age_s
        assert reason.bound is not TimeLagBound.AT_LEAST or value_s <= age_s + 0.25
        assert np.isnan(error_s) or age_s <= value_s + error_s


def test_an_absence_of_the_partition_counts_as_a_pause() -> None:
    # its broker did not answer from 50 s to 90 s: its log end was repeated
    samples = [(at_s, at_s if at_s <= 50 or at_s >= 90 else 50) for at_s in range(0, 101, 5)]

    value_s, reason, error_s = _shown(_history(*samples), 60, 100, away_s=(50, 90))

    assert reason is R.SAMPLES_APART
    assert (value_s, error_s) == (10.0, 40.25)


def test_beyond_the_history_the_age_of_its_first_sample_is_a_lower_bound() -> None:
    value_s, reason, error_s = _shown(_history(*_steady(1000, 1100)), 400, 1100)

    assert reason is R.BEYOND_HISTORY
    assert value_s == 100.0
    assert np.isnan(error_s)


def test_at_least_no_time_at_all_says_nothing() -> None:
    assert _shown(_history((1000, 1000)), 400, 1000)[0] == -1


def test_what_an_earlier_process_sampled_is_named_so() -> None:
    history = _history(*_steady(0, 100))
    later = LogEndHistory(horizon_ms=86_400_000)
    later.restore(history.at_ms.copy(), history.ends.copy(), ())
    later.add(130_000, np.array([130], np.int64))

    assert _shown(later, 42, 130)[1] is R.STORED
    assert R.STORED.method is TimeLagMethod.STORED_HISTORY


def test_the_time_that_the_broker_gave_an_offset_is_exact() -> None:
    history = _history(*_steady(1000, 1100))

    found = _shown(history, 400, 1100, times=_times(400, 400, 400, by_broker=True))

    assert found == (700.0, R.OFFSET_TIME, 0.25)


def test_the_time_of_a_producer_is_an_upper_bound_down_to_what_was_sampled() -> None:
    history = _history(*_steady(1000, 1100))

    value_s, reason, error_s = _shown(
        history, 400, 1100, times=_times(400, 395, 395, by_broker=False)
    )

    assert (value_s, reason) == (705.0, R.RECORD_TIME)
    assert reason.bound is TimeLagBound.AT_MOST
    assert error_s == 605.25


def test_the_time_of_an_offset_that_was_read_since_is_an_upper_bound() -> None:
    history = _history(*_steady(1000, 1100))

    value_s, reason, _ = _shown(history, 450, 1100, times=_times(400, 400, 400, by_broker=True))

    assert (value_s, reason) == (700.0, R.EARLIER_OFFSET)


def test_the_time_of_a_later_offset_says_nothing() -> None:
    history = _history(*_steady(1000, 1100))

    _, reason, _ = _shown(history, 300, 1100, times=_times(400, 400, 400, by_broker=True))

    assert reason is R.BEYOND_HISTORY


@pytest.mark.parametrize("by_broker", [False, True])
@pytest.mark.parametrize("made_s", [1_002, 1_090, 5_000])
def test_a_time_after_the_sample_that_holds_the_message_is_no_bound(
    made_s: int, *, by_broker: bool
) -> None:
    history = _history(*_steady(1000, 1100))

    value_s, reason, error_s = _shown(
        history, 400, 1100, times=_times(400, made_s, made_s, by_broker=by_broker)
    )

    assert (value_s, reason) == (100.0, R.BEYOND_HISTORY)
    assert np.isnan(error_s)


def test_the_time_of_a_broker_from_before_the_last_sample_without_the_message_is_not_exact() -> (
    None
):
    history = _history(*_steady(0, 100), (153, 107))

    value_s, reason, error_s = _shown(history, 100, 157, times=_times(100, 10, 10, by_broker=True))

    assert (value_s, reason, error_s) == (57.0, R.RECORD_TIME, 53.25)


def test_the_error_of_a_great_age_is_not_rounded_down() -> None:
    start_s = 1_800_000_001
    history = _history(*((start_s + at_s, at_s + 1000) for at_s in range(0, 101, 5)))

    value_s, _, error_s = _shown(
        history, 400, start_s + 143.3, times=_times(400, 7, 7, by_broker=False)
    )

    assert abs(value_s - error_s - (143.3 - 0.25)) < 0.01


def test_times_of_kafka_are_compared_on_its_clock() -> None:
    history = _history(*_steady(1000, 1100))

    value_s, _, _ = _shown(
        history, 400, 1100, times=_times(400, 390, 390, by_broker=True), skew_s=10
    )

    assert value_s == 700.0


@given(st.data())
def test_the_truth_is_always_within_the_bounds(data: st.DataObject) -> None:
    """Any traffic and pauses: value, bound and error enclose the known append time."""
    steps = data.draw(
        st.lists(st.tuples(st.integers(1, 60), st.integers(0, 5)), min_size=3, max_size=60)
    )
    appended: list[int] = []
    samples, at_s = [], 0
    for passed_s, records in steps:
        appended += sorted(
            data.draw(
                st.lists(st.integers(at_s, at_s + passed_s), min_size=records, max_size=records)
            )
        )
        at_s += passed_s
        samples.append((at_s, sum(each <= at_s for each in appended)))
    first = data.draw(st.integers(0, len(samples) - 1))
    history = _history(*samples[first:])
    if samples[-1][1] == 0:
        return
    committed = data.draw(st.integers(0, samples[-1][1] - 1))
    truth_s = at_s - appended[committed]
    times = None
    if data.draw(st.booleans()):
        times = _times(committed, appended[committed], appended[committed], by_broker=True)

    value_s, reason, error_s = _shown(history, committed, at_s, times=times)

    if value_s < 0:
        return
    error_s = np.inf if np.isnan(error_s) else error_s
    assert value_s <= truth_s + (0 if reason.bound is TimeLagBound.AT_LEAST else error_s)
    assert value_s >= truth_s - error_s


def _groups(
    *groups: Sequence[tuple[float, TimeLagReason, float]],
    uncommitted: Rule = Rule.NEVER_COMMITTED,
) -> list[tuple[float, R, float, int]]:
    """Value, reason, error and row of each; `uncommitted`: the rule of rows without a commit."""
    cells = [cell for group in groups for cell in group]
    lag_ms = np.array([round(value * 1000) if value >= 0 else -1 for value, _, _ in cells])
    times = RowTimes(
        lag_ms,
        np.array([reason for _, reason, _ in cells], np.int8),
        np.array([error * 1000 for _, _, error in cells], np.float32),
    )
    commits = np.array([reason is not R.NEVER_COMMITTED for _, reason, _ in cells], np.int8)
    rule = np.where(commits > 0, Rule.PROGRESSING, uncommitted).astype(np.int8)
    sizes = [len(group) for group in groups]
    heads = np.cumsum([0, *sizes[:-1]])
    group = np.repeat(np.arange(len(groups)), sizes)
    found = of_groups(times, rule, commits, heads=heads, group=group)
    return [
        (lag / 1000 if lag >= 0 else -1, R(reason), float(error) / 1000, row)
        for lag, reason, error, row in zip(
            found.lag_ms.tolist(),
            found.reason.tolist(),
            found.error_ms,
            found.row.tolist(),
            strict=True,
        )
    ]


def test_a_group_is_as_old_as_its_oldest_partition() -> None:
    found = _groups([(5, R.MEASURED, 1), (60, R.STORED, 3), (0, R.CAUGHT_UP, 0)])

    assert found == [(60, R.STORED, 3, 1)]


def test_a_partition_that_may_be_older_within_its_error_widens_that_of_the_group() -> None:
    # the second has caught up, as far as was asked 25 s ago
    found = _groups([(3, R.MEASURED, 1), (0, R.CAUGHT_UP, 25)])
    (upper,) = _groups([(10, R.RECORD_TIME, 4), (9, R.MEASURED, 3)])

    assert found == [(3, R.BETWEEN_ROUNDS, 22, 0)], "so far off it is no exact one"
    assert upper == (12, R.RECORD_TIME, 6, 0)


def test_a_partition_that_may_be_older_makes_it_a_lower_bound() -> None:
    nan = float("nan")

    ((value_s, reason, error_s, row),) = _groups([(23, R.MEASURED, 1), (5, R.BEYOND_HISTORY, nan)])

    assert (value_s, reason, row) == (23, R.BEYOND_HISTORY, 0)
    assert reason.bound is TimeLagBound.AT_LEAST
    assert np.isnan(error_s)


def test_a_partition_that_is_held_and_never_committed_may_be_older_than_all() -> None:
    nan = float("nan")
    cells = [(392, R.EARLIER_OFFSET, 100), (-1, R.NEVER_COMMITTED, nan)]

    ((value_s, reason, error_s, row),) = _groups(cells, uncommitted=Rule.NEVER_COMMITS)

    assert (value_s, reason, row) == (292, R.NEVER_COMMITTED, 0)
    assert reason.bound is TimeLagBound.AT_LEAST
    assert np.isnan(error_s)
    assert _groups(cells) == [(392, R.EARLIER_OFFSET, 100, 0)], "none is waiting there"


def test_how_much_older_it_may_be_is_known_where_all_have_an_upper_bound() -> None:
    found = _groups([(23, R.MEASURED, 1), (5, R.SAMPLES_APART, 53)])

    assert found == [(23, R.SAMPLES_APART, 35, 0)]


def test_an_upper_bound_is_no_proof_beside_an_open_one() -> None:
    ((value_s, reason, _, _),) = _groups(
        [(700, R.RECORD_TIME, 600), (5, R.BEYOND_HISTORY, float("nan"))]
    )

    assert (value_s, reason) == (100, R.BEYOND_HISTORY)


def test_a_partition_without_a_log_end_may_be_older_than_the_others() -> None:
    ((value_s, reason, _, _),) = _groups(
        [(7, R.MEASURED, 1), (-1, R.LOG_END_UNKNOWN, float("nan"))]
    )

    assert (value_s, reason, reason.bound) == (7, R.LOG_END_UNKNOWN, TimeLagBound.AT_LEAST)


def test_nothing_is_known_of_a_group_but_that_others_have_caught_up() -> None:
    nan = float("nan")

    ((value_s, reason, error_s, row),) = _groups([(0, R.CAUGHT_UP, 0), (-1, R.BEYOND_HISTORY, nan)])
    bounded = _groups([(0, R.CAUGHT_UP, 0), (0, R.SAMPLES_APART, 53)])

    assert (value_s, reason, row) == (-1, R.BEYOND_HISTORY, -1), "at least 0 s says nothing"
    assert np.isnan(error_s)
    assert bounded[0][:3] == (0, R.SAMPLES_APART, 53)


def test_a_partition_never_committed_counts_for_nothing() -> None:
    found = _groups([(7, R.MEASURED, 1), (-1, R.NEVER_COMMITTED, float("nan"))], [(3, R.STORED, 1)])

    assert found == [(7, R.MEASURED, 1, 0), (3, R.STORED, 1, 2)]


@pytest.mark.parametrize("reason", list(TimeLagReason))
def test_every_reason_has_a_method_unless_nothing_is_known(reason: TimeLagReason) -> None:
    nothing = reason in (R.LOG_END_UNKNOWN, R.NEVER_COMMITTED, R.AHEAD_OF_LOG_END)

    assert (reason.method is TimeLagMethod.NONE) is nothing


@pytest.mark.slow
def test_time_lags_of_many_rows_are_those_of_their_parts() -> None:
    monitor, now_ms = filled()
    snapshot = monitor.judge(EpochMs(now_ms))
    rows, groups = snapshot.rows, snapshot.group
    assert rows.lag.size == 100_000

    every = (rows.every_time, groups.every_time)

    for times, whole, step in ((rows.times, every[0], 999), (groups.times, every[1], 7)):
        parts = [times(slice(first, first + step)) for first in range(0, whole.lag_ms.size, step)]
        for name, column in whole._asdict().items():
            joined = np.concatenate([getattr(part, name) for part in parts])
            assert joined.dtype == column.dtype
            np.testing.assert_array_equal(joined, column, err_msg=name)
        some = np.arange(0, whole.lag_ms.size, 3)
        for name, column in times(some)._asdict().items():
            np.testing.assert_array_equal(column, getattr(whole, name)[some], err_msg=name)


def test_after_the_clock_was_an_hour_ahead_a_time_lag_is_a_lower_bound_and_then_right() -> None:
    live, committed = Live(), 100
    live.topics(orders=1)
    found: dict[int, tuple[float, str, int]] = {}
    for second in range(0, 1500, 5):
        live.produce("orders", 0, 20)
        live.now_ms += {600: 3_600_000, 645: -3_600_000}.get(second, 0)
        live.wait(5)
        committed += 10
        live.commit(("a", "orders", 0, committed))
        snapshot = live.judge()
        reason = TimeLagReason(int(snapshot.rows.time_lag_reason[0]))
        true_s = second + 5 - (committed - 100) // 20 * 5
        found[second] = snapshot.rows.time_lag_ms[0] / 1000, reason.bound.value, true_s

    after = [each for second, each in found.items() if second >= 645]
    assert all(bound == "at_least" and said <= true for said, bound, true in after[:100])
    said, bound, true = found[1495]
    assert bound == "exact"
    assert said == pytest.approx(true, abs=5)

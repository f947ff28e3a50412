"""Time lags as they are shown: bounds, methods, errors, and a group's worst partition."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.log_end import LogEndHistory
from lagwatch.core.model import Rule, TimeLagBound, TimeLagMethod, TimeLagReason
from lagwatch.core.pace import Pace
from lagwatch.core.rows import Around, Limits, OffsetTimes, PartitionColumns, RowFacts
from lagwatch.core.snapshot import RowTimes
from lagwatch.core.time_lags import of_groups, shown

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


def _shown(
    history: LogEndHistory,
    committed: int,
    now_s: float,
    *,
    times: OffsetTimes | None = None,
    away_s: tuple[int, int] | None = None,
    skew_s: int = 0,
) -> tuple[float, TimeLagReason, float]:
    """Value in seconds, reason, error in seconds."""
    columns = {}
    if away_s is not None:
        columns = {
            name: np.array([at_s * 1000], np.int64)
            for name, at_s in zip(("away_ms", "back_ms"), away_s, strict=True)
        }
    facts = RowFacts.none(1)
    around = Around(
        pace=Pace(step_ms=60_000),
        facts=RowFacts(
            **{name: getattr(facts, name) for name in facts.__slots__ if name != "times"},
            times=times,
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


def test_a_pause_of_the_collector_makes_no_value_measured() -> None:
    # of 53 s without a sample only the last 7 s had records
    history = _history(*_steady(0, 100), (153, 107))

    value_s, reason, error_s = _shown(history, 100, 157)

    assert reason is R.SAMPLES_APART
    assert reason.bound is TimeLagBound.AT_LEAST
    assert (value_s, error_s) == (4.0, 53.25)


def test_samples_that_are_far_apart_by_rule_measure_what_lies_between_them() -> None:
    # a grid of thirty seconds, as a backfill asks for it
    value_s, reason, _ = _shown(_history((0, 100), (30, 160)), 130, 30)

    assert reason is R.MEASURED
    assert 14 < value_s < 16


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


def test_a_producer_whose_clock_is_ahead_moves_no_message_past_the_sample_that_holds_it() -> None:
    history = _history(*_steady(1000, 1100))

    value_s, _, _ = _shown(history, 400, 1100, times=_times(400, 5000, 5000, by_broker=False))

    assert value_s == 100.0


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
) -> list[tuple[float, R, float, int]]:
    cells = [cell for group in groups for cell in group]
    size = len(cells)
    lag_ms = np.array([round(value * 1000) if value >= 0 else -1 for value, _, _ in cells])
    times = RowTimes(
        lag_ms,
        np.array([reason for _, reason, _ in cells], np.int8),
        np.array([error * 1000 for _, _, error in cells], np.float32),
    )
    rule = np.full(size, Rule.PROGRESSING, np.int8)
    commits = np.array([reason is not R.NEVER_COMMITTED for _, reason, _ in cells], np.int8)
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


def test_a_partition_that_may_be_older_makes_it_a_lower_bound() -> None:
    nan = float("nan")

    ((value_s, reason, error_s, row),) = _groups([(23, R.MEASURED, 1), (5, R.BEYOND_HISTORY, nan)])

    assert (value_s, reason, row) == (23, R.BEYOND_HISTORY, 0)
    assert reason.bound is TimeLagBound.AT_LEAST
    assert np.isnan(error_s)


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


def test_a_partition_never_committed_counts_for_nothing() -> None:
    found = _groups([(7, R.MEASURED, 1), (-1, R.NEVER_COMMITTED, float("nan"))], [(3, R.STORED, 1)])

    assert found == [(7, R.MEASURED, 1, 0), (3, R.STORED, 1, 2)]


@pytest.mark.parametrize("reason", list(TimeLagReason))
def test_every_reason_has_a_method_unless_nothing_is_known(reason: TimeLagReason) -> None:
    nothing = reason in (R.LOG_END_UNKNOWN, R.NEVER_COMMITTED)

    assert (reason.method is TimeLagMethod.NONE) is nothing

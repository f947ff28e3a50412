"""Rates from windows and log ends, and the forecasts made of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.forecast import CatchUpReason, GroupOutlook, Outlook, of_group, outlooks
from lagwatch.core.log_end import LogEndHistory
from lagwatch.core.rates import Rates, produced_around, rates
from lagwatch.core.rows import WindowColumns

R = CatchUpReason


def _history(per_s: float, *, until_s: int = 100, size: int = 1000) -> LogEndHistory:
    history = LogEndHistory(horizon_ms=86_400_000)
    history.remap(np.array([-1]))
    for second in range(0, until_s + 1, 5):
        history.add(second * 1000, np.array([size + round(per_s * second)]))
    return history


def _window(*commits: tuple[int, int], ends: LogEndHistory | None = None) -> WindowColumns:
    """Commits as (second, offset), the oldest first."""
    offset = np.array([[each] for _, each in commits], np.int64)
    commit_ms = np.array([[second * 1000] for second, _ in commits], np.int64)
    lag = np.full(offset.shape, -1, np.int64)
    if ends is not None:
        lag = ends.at(np.zeros(len(commits), np.int64), commit_ms.ravel())[:, None] - offset
    return WindowColumns(
        offset=offset,
        commit_ms=commit_ms,
        lag=lag,
        count=np.array([len(commits)]),
        oldest=np.array([0]),
        newest=np.array([len(commits) - 1]),
    )


def _rates(window: WindowColumns, history: LogEndHistory, now_s: float) -> tuple[float, float]:
    found = rates(window, np.zeros(1, np.int64), history, now_ms=int(now_s * 1000), skew_ms=0)
    return float(found.produced_per_s[0]), float(found.consumed_per_s[0])


def test_rates_are_those_of_the_windows_time() -> None:
    window = _window((80, 200), (85, 250), (90, 300), (95, 350), (100, 400))

    assert _rates(window, _history(4), 100) == (4.0, 10.0)


def test_a_silence_longer_than_usual_counts_as_reading_nothing() -> None:
    window = _window((20, 200), (25, 250), (30, 300))

    _, consumed = _rates(window, _history(4), 100)

    # 100 messages in 10 s, then 65 s more than the usual 5
    assert consumed == pytest.approx(100 / 75)


def test_a_rewind_is_no_negative_reading() -> None:
    window = _window((80, 200), (85, 250), (90, 100), (95, 150), (100, 200))

    assert _rates(window, _history(4), 100)[1] == pytest.approx(150 / 20)


def test_what_was_written_before_an_instant_and_since_is_compared() -> None:
    history = _history(4, until_s=50)
    for second in range(55, 101, 5):
        history.add(second * 1000, np.array([1200 + 40 * (second - 50)]))

    assert produced_around(np.zeros(1, np.int64), history, 50_000) == (4.0, 40.0)


def test_what_was_written_is_not_known_from_a_few_seconds_or_for_a_hidden_topic() -> None:
    history, here = _history(4), np.zeros(1, np.int64)

    assert produced_around(here, history, 8_000) == (None, 4.0)
    assert produced_around(here, history, 95_000) == (4.0, None)
    assert produced_around(np.array([0, -1]), history, 50_000) == (None, None)


def test_a_partition_that_is_new_was_not_written_slowly_before_it_was_there() -> None:
    history = LogEndHistory(horizon_ms=86_400_000)
    history.remap(np.array([-1, -1]))
    for second in range(0, 201, 5):
        new = 10 * (second - 100) if second >= 100 else -1
        history.add(second * 1000, np.array([4 * second, new]))

    assert produced_around(np.array([0, 1]), history, 150_000) == (14.0, 14.0)
    assert produced_around(np.array([0, 1]), history, 108_000) == (None, 14.0)


def test_what_was_written_hours_before_does_not_count() -> None:
    history = LogEndHistory(horizon_ms=86_400_000)
    history.remap(np.array([-1]))
    for minute in range(600):  # at night nothing is written
        history.add(minute * 60_000, np.array([max(0, minute - 480) * 600]))

    assert produced_around(np.zeros(1, np.int64), history, 570 * 60_000) == (10.0, 10.0)


def test_two_commits_tell_no_speed() -> None:
    assert np.isnan(_rates(_window((90, 1), (100, 9)), _history(4), 100)).all()


def test_what_was_not_sampled_is_unknown_and_not_zero() -> None:
    history = _history(4)
    later = LogEndHistory(horizon_ms=86_400_000)
    later.restore(history.at_ms.copy(), history.ends.copy(), ())
    later.add(400_000, np.array([9000]))
    window = _window((200, 200), (205, 250), (210, 300))

    assert np.isnan(_rates(window, later, 400)[0])


def _outlook(
    produced: float,
    consumed: float,
    lag: int,
    *,
    committed: int = 5000,
    log_start: int = 0,
    error: float = 0.0,
) -> Outlook:
    columns = [np.array([each]) for each in (produced, consumed, error, 60.0, 9)]
    found = outlooks(
        Rates(
            produced_per_s=columns[0],
            consumed_per_s=columns[1],
            spread_per_s=columns[2],
            span_s=columns[3],
            steps=columns[4],
        ),
        lag=np.array([lag]),
        committed=np.array([committed]),
        log_start=np.array([log_start]),
        log_end=np.array([committed + max(lag, 0)]),
    )
    return found[0]


@pytest.mark.parametrize(
    ("produced", "consumed", "lag", "reason", "catch_up_s"),
    [
        (10.0, 30.0, 1000, R.CATCHING_UP, 50.0),
        (10.0, 10.0, 1000, R.FALLING_BEHIND, None),
        (30.0, 10.0, 1000, R.FALLING_BEHIND, None),
        (30.0, 0.0, 1000, R.NOT_MOVING, None),
        (0.0, 0.0, 1000, R.NOT_MOVING, None),
        (10.0, 10.00001, 10_000_000, R.TOO_SLOW, None),
        (10.0, 30.0, 0, R.CAUGHT_UP, 0.0),
        (10.0, 0.0, 0, R.CAUGHT_UP, 0.0),
        (np.nan, 30.0, 1000, R.RATES_UNKNOWN, None),
        (10.0, 30.0, -1, R.LAG_UNKNOWN, None),
    ],
)
def test_the_time_to_catch_up_or_why_there_is_none(
    produced: float, consumed: float, lag: int, reason: CatchUpReason, catch_up_s: float | None
) -> None:
    found = _outlook(produced, consumed, lag)

    assert (found.catch_up_reason, found.catch_up_s) == (reason, catch_up_s)


@given(
    produced=st.floats(0, 1e4),
    consumed=st.floats(0, 1e4),
    lag=st.integers(0, 10**7),
    error=st.floats(0, 100),
)
def test_a_forecast_lies_within_its_interval(
    produced: float, consumed: float, lag: int, error: float
) -> None:
    found = _outlook(produced, consumed, lag, error=error)

    if found.catch_up_s is None:
        assert found.catch_up_high_s is None
        return
    assert found.catch_up_low_s is not None
    assert found.catch_up_low_s <= found.catch_up_s
    assert found.catch_up_high_s is None or found.catch_up_s <= found.catch_up_high_s


def test_a_speed_that_is_hardly_known_makes_the_upper_end_unknown() -> None:
    assert _outlook(10.0, 12.0, 1000, error=5.0).catch_up_high_s is None


def test_loss_is_near_when_the_log_start_comes_closer() -> None:
    found = _outlook(30.0, 10.0, 8000, committed=5000, log_start=3000)

    assert found.loss_in_s == 100.0
    assert found.retention_used == 0.8


@pytest.mark.parametrize(
    ("consumed", "log_start"), [(40.0, 3000), (10.0, 0)], ids=["it gets away", "nothing removed"]
)
def test_otherwise_no_loss_is_foretold(consumed: float, log_start: int) -> None:
    assert _outlook(30.0, consumed, 8000, log_start=log_start).loss_in_s is None


def _group(**partitions: Outlook) -> GroupOutlook:
    places = {("t", int(name[1:])): outlook for name, outlook in partitions.items()}
    lags: dict[tuple[str, int], int | None] = {
        place: {R.CAUGHT_UP: 0, R.LAG_UNKNOWN: None}.get(outlook.catch_up_reason, 1000)
        for place, outlook in places.items()
    }
    return of_group(places, lags)


def test_a_group_is_as_slow_as_its_slowest_partition() -> None:
    found = _group(p0=_outlook(10, 30, 1000), p1=_outlook(10, 15, 1000), p2=_outlook(10, 10.0, 0))

    assert (found.whole.catch_up_s, found.slowest) == (200.0, ("t", 1))
    assert (found.whole.produced_per_s, found.whole.consumed_per_s) == (30.0, 55.0)
    assert found.lag_skew == 1.5


def test_it_never_catches_up_while_one_partition_does_not() -> None:
    found = _group(p0=_outlook(10, 30, 1000), p1=_outlook(10, 0, 1000))

    assert found.whole.catch_up_s is None
    assert (found.whole.catch_up_reason, found.slowest) == (R.NOT_MOVING, ("t", 1))


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    found = _group(p0=_outlook(10, 30, 1000), p1=_outlook(np.nan, 30, 1000))

    assert found.whole.produced_per_s is None
    assert found.whole.consumed_per_s == 60.0


def test_a_group_without_partitions_has_no_outlook() -> None:
    found = of_group({}, {})

    assert (found.whole.catch_up_s, found.slowest, found.lag_skew) == (None, None, None)

"""The log end history: lag at an instant, time lag, thinning."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.log_end import LogEndHistory
from lagwatch.core.model import UNKNOWN, TimeLagReason

DAY_MS = 86_400_000
ONE = np.zeros(1, np.int64)


def _history(*samples: tuple[int, int]) -> LogEndHistory:
    history = LogEndHistory(horizon_ms=DAY_MS)
    history.remap(np.array([-1]))
    for at_ms, end in samples:
        history.add(at_ms, np.array([end], np.int64))
    return history


def _at(history: LogEndHistory, at_ms: int) -> int:
    return int(history.at(ONE, np.array([at_ms]))[0])


def _time_lag(history: LogEndHistory, committed: int, now_ms: int) -> tuple[int, TimeLagReason]:
    lag_ms, reason = history.time_lag(ONE, np.array([committed]), now_ms)
    return int(lag_ms[0]), TimeLagReason(reason[0])


def test_between_two_samples_the_log_end_lies_on_their_line() -> None:
    history = _history((1000, 100), (2000, 200))

    assert [_at(history, at_ms) for at_ms in (1000, 1500, 2000)] == [100, 150, 200]


def test_outside_the_samples_the_nearest_one_holds() -> None:
    history = _history((1000, 100), (2000, 200))

    assert [_at(history, at_ms) for at_ms in (0, 9000)] == [100, 200]


def test_a_partition_without_leader_keeps_its_log_end() -> None:
    history = _history((1000, 100), (2000, -1), (3000, 100))

    assert _at(history, 2000) == 100


def test_a_log_that_was_cut_loses_its_past() -> None:
    history = _history((1000, 100), (2000, 200), (3000, 5))

    assert _at(history, 1500) == 5
    assert _time_lag(history, 3, 4000) == (-1, TimeLagReason.BEYOND_HISTORY)


def test_the_time_lag_is_the_age_of_the_oldest_unread_message() -> None:
    history = _history((0, 0), (10_000, 1000), (20_000, 2000))

    lag_ms, reason = _time_lag(history, 500, 20_000)

    assert reason is TimeLagReason.MEASURED
    assert abs(lag_ms - 15_000) <= 10


def test_one_message_after_a_silence_is_not_as_old_as_the_silence() -> None:
    history = _history((0, 50), (5000, 50), (10_000, 50), (15_000, 51))

    lag_ms, _ = _time_lag(history, 50, 15_000)

    assert lag_ms == 2500


def test_nothing_to_read_is_no_time_lag() -> None:
    assert _time_lag(_history((0, 7), (1000, 7)), 7, 9000) == (0, TimeLagReason.CAUGHT_UP)


def test_before_the_first_sample_nothing_is_extrapolated() -> None:
    history = _history((1000, 100), (2000, 200))

    assert _time_lag(history, 40, 3000) == (-1, TimeLagReason.BEYOND_HISTORY)


def test_a_partition_never_seen_has_no_time_lag() -> None:
    assert _time_lag(_history((1000, -1)), 4, 2000) == (-1, TimeLagReason.LOG_END_UNKNOWN)


def test_the_lowest_recent_log_end_is_that_of_the_first_sample_in_the_span() -> None:
    history = _history((1000, 10), (2000, 20), (3000, 30))

    assert history.since(1500).tolist() == [20]
    assert history.since(0).tolist() == [10]


def test_renumbering_carries_each_partition_along() -> None:
    history = LogEndHistory(horizon_ms=DAY_MS)
    history.remap(np.array([-1, -1]))
    history.add(1000, np.array([10, 20]))

    history.remap(np.array([1, -1, 0]))

    assert history.latest().tolist() == [20, -1, 10]


def test_a_day_of_samples_is_thinned_and_still_says_the_time_within_six_per_cent() -> None:
    history = _history()
    for at_ms in range(0, DAY_MS, 5000):
        history.add(at_ms, np.array([at_ms // 10], np.int64))
    now_ms = DAY_MS

    ages = [60_000, 600_000, 3_600_000, 12 * 3_600_000]
    read = [_time_lag(history, (now_ms - age_ms) // 10, now_ms)[0] for age_ms in ages]

    assert history.at_ms.size < 200
    for age_ms, lag_ms in zip(ages, read, strict=True):
        assert abs(lag_ms - age_ms) <= 0.06 * age_ms + 5000


def test_a_burst_hidden_by_thinning_is_placed_within_the_distance_of_its_neighbours() -> None:
    history = _history()
    burst_ms = DAY_MS - 3_600_000
    for at_ms in range(0, DAY_MS, 5000):
        history.add(at_ms, np.array([1000 if at_ms >= burst_ms else 0], np.int64))

    lag_ms, _ = _time_lag(history, 500, DAY_MS)

    assert abs(lag_ms - 3_600_000) <= 0.07 * 3_600_000


@given(st.lists(st.tuples(st.integers(1, 9000), st.integers(0, 40)), min_size=1, max_size=60))
def test_samples_never_fall_and_first_above_finds_the_first(steps) -> None:
    history = _history()
    at_ms = end = 0
    for gap, growth in steps:
        at_ms, end = at_ms + gap, end + growth
        history.add(at_ms, np.array([end], np.int64))

    ends = history.ends[:, 0]
    for offset in range(-1, end + 2, 5):
        found = int(history.first_above(ONE, np.array([offset]))[0])
        assert found == int(np.searchsorted(ends, offset, side="right"))
    assert (np.diff(ends) >= 0).all()


# gaps: the time between the last sample before a restart and the first one after it


def _restarted(history: LogEndHistory, *samples: tuple[int, int]) -> LogEndHistory:
    again = LogEndHistory(horizon_ms=DAY_MS)
    again.restore(history.at_ms.copy(), history.ends.copy(), history.gaps)
    for at_ms, end in samples:
        again.add(at_ms, np.array([end], np.int64))
    return again


def test_what_came_in_a_gap_has_no_measured_age() -> None:
    history = _restarted(_history((0, 100), (1000, 100)), (121_000, 200), (122_000, 300))

    assert _time_lag(history, 150, 130_000) == (-1, TimeLagReason.NOT_SAMPLED)
    assert history.appended_by(ONE, np.array([150])).tolist() == [121_000]
    assert _time_lag(history, 250, 130_000)[1] is TimeLagReason.MEASURED


def test_the_log_end_within_a_gap_is_unknown_unless_nothing_came() -> None:
    grown = _restarted(_history((0, 100), (1000, 100)), (121_000, 200))
    still = _restarted(_history((0, 100), (1000, 100)), (121_000, 100))

    assert [_at(grown, at_ms) for at_ms in (1000, 60_000, 121_000)] == [100, -1, 200]
    assert _at(still, 60_000) == 100


def test_within_a_gap_the_lowest_log_end_is_that_of_before_it() -> None:
    history = _restarted(_history((0, 90), (1000, 100)), (121_000, 200))

    assert history.since(60_000).tolist() == [100]
    assert history.since(121_000).tolist() == [200]


def test_over_a_minute_the_line_is_drawn_all_the_same() -> None:
    history = _restarted(_history((0, 100), (1000, 100)), (61_000, 200))

    assert history.gaps == ()
    assert _at(history, 31_000) == 150


def test_a_gap_survives_the_next_restart() -> None:
    once = _restarted(_history((0, 100)), (100_000, 200))

    twice = _restarted(once, (110_000, 210), (120_000, 220))

    assert twice.gaps == ((0, 100_000),)


def test_a_gap_counts_until_samples_of_its_age_are_as_far_apart() -> None:
    history = _restarted(_history((0, 100)), (100_000, 200))
    for at_ms in range(110_000, 1_600_000, 10_000):
        history.add(at_ms, np.array([300]))
    before = _time_lag(history, 150, 1_600_000)

    for at_ms in range(1_600_000, 2_000_000, 10_000):
        history.add(at_ms, np.array([300]))
    after = _time_lag(history, 150, 2_000_000)

    assert before[1] is TimeLagReason.NOT_SAMPLED
    assert after[1] is TimeLagReason.MEASURED


def _asked_now_and_then(*samples: tuple[int, int, bool]) -> LogEndHistory:
    history = LogEndHistory(horizon_ms=DAY_MS)
    history.remap(np.array([-1]))
    for at_ms, end, asked in samples:
        history.add(at_ms, np.array([end]), np.array([asked]))
    return history


def test_what_grew_without_being_asked_grew_on_the_line_since_it_was_asked() -> None:
    history = _asked_now_and_then(
        (0, 50, True),
        (5000, 50, True),
        (10_000, 50, False),
        (15_000, 50, False),
        (20_000, 80, True),
    )

    assert [_at(history, at_ms) for at_ms in (5000, 10_000, 12_500, 15_000)] == [50, 60, 65, 70]


def test_the_samples_around_a_message_are_those_for_which_its_partition_was_asked() -> None:
    history = _asked_now_and_then(
        (0, 50, True),
        (5000, 50, False),
        (10_000, 50, False),
        (15_000, 80, True),
        (20_000, 90, True),
    )

    leap, later = (history.age(ONE, np.array([offset]), 20_000) for offset in (60, 85))

    assert (int(leap.after_ms[0]), int(leap.before_ms[0])) == (0, 15_000)
    assert (int(later.after_ms[0]), int(later.before_ms[0])) == (15_000, 20_000)


def test_the_last_value_of_a_partition_that_is_not_asked_holds() -> None:
    history = _asked_now_and_then((0, 50, True), (5000, 7, False))

    assert (_at(history, 5000), int(history.latest()[0])) == (50, 50)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.booleans()), min_size=2, max_size=14),
    st.integers(0, 70_000),
)
def test_rounds_for_which_it_was_not_asked_change_nothing(
    rounds: list[tuple[int, bool]], at_ms: int
) -> None:
    grown = np.cumsum([growth for growth, _ in rounds]).tolist()
    asked = [True, *(flag for _, flag in rounds[1:-1]), True]
    samples = [
        (number * 5000, end, flag)
        for number, (end, flag) in enumerate(zip(grown, asked, strict=True))
    ]

    thinned = _history(*((at, end) for at, end, flag in samples if flag))

    assert abs(_at(_asked_now_and_then(*samples), at_ms) - _at(thinned, at_ms)) <= 1


def test_a_clock_that_was_an_hour_ahead_leaves_no_samples_of_that_time() -> None:
    history = LogEndHistory(horizon_ms=86_400_000)
    history.remap(np.full(1, UNKNOWN))
    hour_ms = 3_600_000
    for at_s in range(0, 600, 10):
        history.add(at_s * 1000, np.array([at_s]))
    for at_s in range(600, 700, 10):
        history.add(at_s * 1000 + hour_ms, np.array([at_s]))
    for at_s in range(700, 800, 10):
        history.add(at_s * 1000, np.array([at_s]))

    age = history.age(np.array([0]), np.array([720]), 790_000)

    assert history.at_ms.tolist()[-10:] == [*range(700_000, 800_000, 10_000)]
    assert history.at_ms.tolist()[-11] == 590_000
    assert history.gaps == ((590_000, 700_000),)
    assert 60_000 <= int(age.lag_ms[0]) <= 70_000
    assert history.latest().tolist() == [790]


def test_a_clock_that_was_ahead_all_the_time_leaves_none_at_all() -> None:
    history = LogEndHistory(horizon_ms=86_400_000)
    history.remap(np.full(1, UNKNOWN))
    for at_s in range(3600, 3700, 10):
        history.add(at_s * 1000, np.array([at_s]), np.array([at_s < 3650]))

    history.add(1_000, np.array([4000]), np.array([False]))
    history.add(2_000, np.array([4010]))

    assert history.at_ms.tolist() == [1_000, 2_000]
    assert history.latest().tolist() == [4010]


def test_samples_before_the_clock_was_set_ahead_are_put_on_the_new_one() -> None:
    hour_ms = 3_600_000
    set_at = _history(
        *((at_s * 1000, at_s) for at_s in range(0, 60, 10)),
        *((at_s * 1000 + hour_ms, at_s) for at_s in range(60, 70, 10)),
    )
    never_set = _history(*((at_s * 1000 + hour_ms, at_s) for at_s in range(0, 70, 10)))
    revision = set_at.revision

    set_at.set_ahead(55_000, hour_ms)

    assert set_at.at_ms.tolist() == never_set.at_ms.tolist()
    assert set_at.revision > revision
    assert _time_lag(set_at, 10, 60_000 + hour_ms) == _time_lag(never_set, 10, 60_000 + hour_ms)

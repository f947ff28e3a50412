"""Rates from windows and log ends, and the forecasts made of them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lagwatch.core.forecast import (
    CatchUpReason,
    GroupOutlook,
    Outlook,
    of_group,
    outlooks,
    remaining_s,
)
from lagwatch.core.judged import window_columns
from lagwatch.core.lags import POINTS, STEP_MS, PastLags, no_lags
from lagwatch.core.log_end import LogEndHistory
from lagwatch.core.rates import Rates, Turn, produced_around, rates, reading, turn, with_outage
from lagwatch.core.rows import WindowColumns
from lagwatch.notify.verdict import forecast_json
from tests.support.history import Live

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


def _resting(rests_s: int, *, every_s: int) -> float:
    """What is produced, of a topic that was written to every so often, and then not any more."""
    history = LogEndHistory(horizon_ms=86_400_000)
    history.remap(np.array([-1]))
    end, until_s = 1000, 1200 + rests_s
    for second in range(0, until_s + 1, 5):
        end += 100 if second <= 1200 and second % every_s == 0 else 0
        history.add(second * 1000, np.array([end]))
    window = _window(*((second, 1000 + second) for second in range(600, 700, 10)))
    return _rates(window, history, until_s)[0]


@pytest.mark.parametrize("every_s", [5, 60, 200])
def test_a_topic_that_has_rested_for_longer_than_it_paused_is_not_written(every_s: int) -> None:
    assert _resting(660, every_s=every_s) == 0.0


@pytest.mark.parametrize(("rests_s", "every_s"), [(50, 5), (180, 200), (290, 300)])
def test_between_two_bursts_it_is_written_as_on_average(rests_s: int, every_s: int) -> None:
    assert _resting(rests_s, every_s=every_s) > 0


def test_a_silence_longer_than_usual_counts_as_reading_nothing() -> None:
    window = _window((20, 200), (25, 250), (30, 300))

    # 100 messages in 10 s, then 45 s more than the usual 5
    assert _rates(window, _history(4), 80)[1] == pytest.approx(100 / 55)
    assert _rates(window, _history(4), 100) == (4.0, 0.0), "silent for a minute more than usual"


def test_who_is_known_to_have_stopped_reads_nothing_however_short_the_silence_is() -> None:
    window = _window((20, 200), (25, 250), (30, 300))

    found = rates(
        window,
        np.zeros(1, np.int64),
        _history(4),
        now_ms=60_000,
        skew_ms=0,
        stopped=np.array([True]),
    )

    assert (float(found.consumed_per_s[0]), float(found.trend_per_s[0])) == (0.0, 4.0)


@pytest.mark.parametrize("commits", [[(20, 200)], [(20, 200), (22, 210)]])
@pytest.mark.parametrize(
    ("known", "now_s", "expected"),
    [
        ("stopped", 60, 0.0),
        ("stopped", 23, None),  # of which the log ends say nothing either
        ("caught_up", 90, 0.0),
        ("caught_up", 60, None),  # it may have been about to commit
        ("", 90, None),  # one that is behind may be between two runs
    ],
)
def test_few_commits_are_enough_to_know_that_nothing_is_read(
    commits: list[tuple[int, int]], known: str, now_s: int, expected: float | None
) -> None:
    facts: dict[str, Any] = {known: np.array([True])} if known else {}

    found = rates(
        _window(*commits),
        np.zeros(1, np.int64),
        _history(4),
        now_ms=now_s * 1000,
        skew_ms=0,
        **facts,
    )

    consumed = float(found.consumed_per_s[0])
    assert (None if np.isnan(consumed) else consumed) == expected
    assert np.isnan(found.produced_per_s[0]) == (expected is None)


@pytest.mark.parametrize("now_s", range(80, 88))
def test_rates_are_known_at_any_moment_between_two_readings_of_log_ends(now_s: int) -> None:
    """Ten commits in nine seconds, and a log end of up to seven seconds ago."""
    window = _window(*((now_s - 9 + each, 10 * each) for each in range(10)))

    assert _rates(window, _history(4, until_s=80), now_s) == (4.0, 10.0)


def test_a_rewind_is_no_negative_reading() -> None:
    window = _window((80, 200), (85, 250), (90, 100), (95, 150), (100, 200))

    assert _rates(window, _history(4), 100)[1] == pytest.approx(150 / 20)


def test_what_was_written_before_an_instant_and_since_is_compared() -> None:
    history = _history(4, until_s=50)
    for second in range(55, 101, 5):
        history.add(second * 1000, np.array([1200 + 40 * (second - 50)]))

    assert produced_around(np.zeros(1, np.int64), history, 50_000) == (4.0, 40.0)


@pytest.mark.parametrize("late_s", [0, 40, 100])
def test_what_producers_held_back_during_an_outage_is_no_burst(late_s: int) -> None:
    """4/s; two minutes without Kafka; then 8/s until all is written."""
    history = _history(4, until_s=600)
    for second in range(720, 841, 5):
        history.add(second * 1000, np.array([1000 + 4 * 600 + 8 * (second - 720)]))

    before, since = produced_around(np.zeros(1, np.int64), history, (720 + late_s) * 1000)

    assert before == 4.0
    assert since == pytest.approx(4.0, abs=0.1)


@pytest.mark.parametrize("late_s", [0, 40, 100])
@pytest.mark.parametrize("asked_while_away", [True, False])
def test_what_producers_held_back_for_one_partition_is_no_burst(
    late_s: int, *, asked_while_away: bool
) -> None:
    """4/s each; the leader of one is away for two minutes; then 8/s until all is written."""
    history = LogEndHistory(horizon_ms=86_400_000)
    history.remap(np.array([-1, -1]))
    for second in range(0, 601, 5):
        history.add(second * 1000, np.array([4 * second, 4 * second]))
    for second in range(605, 720, 5):
        every = second == 605 or asked_while_away
        history.add(second * 1000, np.array([4 * second, -1]), np.array([True, every]))
    for second in range(720, 841, 5):
        history.add(second * 1000, np.array([4 * second, 4 * 600 + 8 * (second - 720)]))

    both = np.array([0, 1])
    before, since = produced_around(both, history, (720 + late_s) * 1000)
    begins_ms = with_outage(both, history, (720 + late_s) * 1000)

    assert before == pytest.approx(8.0, abs=0.1)
    assert since == pytest.approx(8.0, abs=0.2)
    assert begins_ms.tolist() == [(720 + late_s) * 1000, 600_000]


@pytest.mark.parametrize("short", ["blip", "rest"])
def test_a_missed_round_or_a_rest_of_a_partition_is_no_outage(short: str) -> None:
    history = LogEndHistory(horizon_ms=86_400_000)
    history.remap(np.array([-1, -1]))
    for second in range(0, 301, 5):
        here = second <= 100 or second > (110 if short == "blip" else 200)
        asked = None if short == "blip" else np.array([True, here])
        history.add(second * 1000, np.array([4 * second, 4 * second if here else -1]), asked)

    begins_ms = with_outage(np.array([0, 1]), history, 205_000)

    assert begins_ms.tolist() == [205_000, 205_000]


def test_outages_of_partitions_follow_them_when_they_are_renumbered() -> None:
    history = LogEndHistory(horizon_ms=86_400_000)
    history.remap(np.array([-1]))
    for second in range(0, 201, 5):
        history.add(second * 1000, np.array([-1 if 50 < second < 100 else 4 * second]))

    history.remap(np.array([-1, 0]))

    assert [each.tolist() for each in history.away(np.array([0, 1]))] == [
        [-1, 50_000],
        [-1, 100_000],
    ]


def test_a_burst_that_begins_long_after_an_outage_is_one() -> None:
    history = _history(4, until_s=600)
    for second in range(720, 1200, 5):
        history.add(second * 1000, np.array([1000 + 4 * 720 + 4 * (second - 720)]))
    for second in range(1200, 1301, 5):
        history.add(second * 1000, np.array([1000 + 4 * 1200 + 40 * (second - 1200)]))

    before, since = produced_around(np.zeros(1, np.int64), history, 1_200_000)

    assert before == pytest.approx(4.0, abs=0.1)
    assert since == pytest.approx(40.0, abs=0.5)


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
    turn: tuple[float, float] = (np.nan, np.nan),
    gap_s: float = 0.0,
    since_s: float = 0.0,
    past: PastLags | None = None,
    waits: bool = False,
) -> Outlook:
    columns = [np.array([each]) for each in (produced, consumed, error, 60.0, 9)]
    slope, error_of_slope = (np.array([each]) for each in turn)
    found = outlooks(
        Rates(
            produced_per_s=columns[0],
            consumed_per_s=columns[1],
            spread_per_s=columns[2],
            span_s=columns[3],
            steps=columns[4],
            turn=Turn(slope, error_of_slope**2, np.array([60.0])),
            gap_s=np.array([gap_s]),
            since_s=np.array([since_s]),
        ),
        lag=np.array([lag]),
        waits=np.array([waits]),
        committed=np.array([committed]),
        log_start=np.array([log_start]),
        log_end=np.array([committed + max(lag, 0)]),
        past=no_lags(1) if past is None else past,
    )
    return found.every()[0]


def test_a_group_behind_an_open_transaction_has_not_caught_up() -> None:
    held = _outlook(10.0, 10.0, 0, waits=True)
    assert (held.catch_up_s, held.catch_up_reason) == (None, R.WAITS_FOR_TRANSACTION)
    assert (held.catch_up_low_s, held.catch_up_high_s) == (None, None)
    reads_up_to_it = _outlook(10.0, 30.0, 1000, waits=True)
    assert reads_up_to_it.catch_up_reason is R.CATCHING_UP

    places = {("t", 0): _outlook(10.0, 10.0, 0), ("t", 1): held}
    group = of_group(places, dict.fromkeys(places, 0))
    assert (group.whole.catch_up_reason, group.slowest) == (R.WAITS_FOR_TRANSACTION, ("t", 1))


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


@pytest.mark.parametrize(
    ("consumed", "lag", "reason"),
    [
        (9.9, 100, R.KEEPS_UP),  # what comes within two gaps of 5 s
        (9.9, 101, R.FALLING_BEHIND),
        (10.0, 100, R.KEEPS_UP),
        (0.0, 100, R.NOT_MOVING),
        (11.9, 100, R.KEEPS_UP),  # it seems to fall by a fifth of what is produced at most
        (11.9, 101, R.CATCHING_UP),
        (12.1, 100, R.CATCHING_UP),
        (30.0, 100, R.CATCHING_UP),
    ],
)
def test_a_lag_of_what_comes_between_commits_is_that_of_a_group_that_keeps_up(
    consumed: float, lag: int, reason: CatchUpReason
) -> None:
    found = _outlook(10.0, consumed, lag, gap_s=5.0)

    assert found.catch_up_reason is reason
    if reason is R.KEEPS_UP:
        assert found.catch_up_s is None
        assert remaining_s([found]) == 0.0


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


def _past(*lags: float) -> PastLags:
    """The newest lags, ten seconds apart."""
    past = no_lags(1)
    past.lag[POINTS - len(lags) :, 0] = lags
    past.commit_ms[:, 0] = STEP_MS * np.arange(POINTS)
    return past


def _interval(outlook: Outlook) -> tuple[float, float]:
    assert outlook.catch_up_low_s is not None
    high_s = outlook.catch_up_high_s
    return outlook.catch_up_low_s, np.inf if high_s is None else high_s


def test_the_interval_is_as_wide_as_past_forecasts_were_wrong() -> None:
    calm = _past(*np.arange(40, 0, -1) * 100 + 1000)
    # it rests for 40 of each 80 seconds, longer than the window shows
    reads = np.cumsum(np.where(np.arange(40) % 8 < 4, 0, -200)) + 10_000
    restless = _past(*reads)

    told = {
        name: _interval(_outlook(10.0, 20.0, 1000, past=past))
        for name, past in (("none", no_lags(1)), ("calm", calm), ("restless", restless))
    }

    assert told["calm"][0] > told["none"][0]
    assert told["calm"][1] < told["none"][1]
    assert told["restless"][0] < told["none"][0]
    assert told["restless"][1] > told["none"][1]


def test_lags_before_it_was_last_caught_up_do_not_count() -> None:
    reads = np.cumsum(np.where(np.arange(40) % 8 < 4, 0, -200)) + 10_000
    broken = _past(*reads, np.nan)

    assert _outlook(10.0, 20.0, 1000, past=broken) == _outlook(10.0, 20.0, 1000)


def test_a_speed_that_falls_or_grows_moves_one_end_of_the_interval() -> None:
    usual = _interval(_outlook(10.0, 30.0, 1000))
    falls = _interval(_outlook(10.0, 30.0, 1000, turn=(-0.1, 0.01)))
    grows = _interval(_outlook(10.0, 30.0, 1000, turn=(0.1, 0.01)))
    chance = _interval(_outlook(10.0, 30.0, 1000, turn=(0.1, 0.2)))

    assert falls[0] == usual[0]
    assert falls[1] > usual[1] + 5
    assert grows[1] == usual[1]
    assert grows[0] < usual[0] - 5
    assert chance == usual


def test_past_lags_show_what_the_window_is_too_short_for() -> None:
    # 300 messages less in the first ten seconds, then 5 fewer of them in each
    falls = _past(*(20_000 - np.cumsum(300 - 5 * np.arange(30))))

    usual, told = (_interval(_outlook(10.0, 26.0, 1000, past=past)) for past in (no_lags(1), falls))

    assert told[1] > usual[1] * 1.1


def test_what_was_probably_read_since_the_last_commit_is_not_left() -> None:
    assert _outlook(10.0, 30.0, 1000, since_s=10.0).catch_up_s == 35.0
    assert _outlook(10.0, 30.0, 100, since_s=10.0).catch_up_s == 0.0


def test_that_it_has_caught_up_shows_at_the_next_commit() -> None:
    at_once, later = (_interval(_outlook(10.0, 30.0, 1000, gap_s=gap_s)) for gap_s in (0.0, 60.0))

    assert later == pytest.approx((at_once[0], at_once[1] + 60.0))


def test_the_line_through_speeds_has_its_slope_and_error() -> None:
    at_s = np.arange(0, 50, 5.0)[:, None]
    known = np.ones(at_s.shape, np.bool_)

    exact = turn(3 - 0.2 * at_s, at_s, known)
    noise = turn(np.where(np.arange(10) % 2, 5.0, -5.0)[:, None], at_s, known)

    assert exact.per_s2 == pytest.approx([-0.2])
    assert exact.beyond_chance == pytest.approx([-0.2])
    assert noise.beyond_chance == 0.0
    assert np.isnan(turn(3 - 0.2 * at_s[:4], at_s[:4], known[:4]).per_s2).all()


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


@pytest.mark.parametrize(
    ("produced", "consumed", "steady"),
    [
        (100.0, 103.0, True),
        (103.0, 100.0, True),
        (100.0, 160.0, False),
        (160.0, 100.0, False),
        (100.0, 0.0, False),
    ],
)
def test_a_lag_that_changes_by_no_more_than_chance_is_steady(produced, consumed, steady) -> None:
    """Speeds vary by 20 messages per second from commit to commit."""
    found = _outlook(produced, consumed, 10_000, error=20.0, log_start=1)
    group = of_group({("orders", 0): found}, {("orders", 0): 10_000})

    said = forecast_json(group)

    assert found.steady is steady
    assert said.get("lag_steady", False) is steady
    if steady:
        assert (said["catch_up_s"], said["loss_in_s"]) == (None, None)


def test_a_lag_that_grows_by_most_of_what_is_written_is_not_steady_however_small() -> None:
    found = _outlook(4.96, 1.04, 119, error=20.0)

    assert found.catch_up_reason is CatchUpReason.FALLING_BEHIND
    assert not found.steady


@pytest.mark.parametrize(("lag", "steady"), [(9465, False), (900, True)])
def test_a_lag_that_rises_by_a_quarter_of_what_is_written_is_not_steady(lag, steady) -> None:
    """Where it is more than what comes in a minute, however much speeds vary."""
    found = _outlook(19.9, 15.1, lag, error=20.0)

    assert found.catch_up_reason is CatchUpReason.FALLING_BEHIND
    assert found.steady is steady


def _never_away(from_ms: NDArray[np.int64], until_ms: NDArray[np.int64]) -> NDArray[np.bool_]:
    return from_ms > until_ms


def test_what_was_committed_after_the_last_whole_round_was_read_until_then() -> None:
    """Commits of ten seconds are a rate also where all commits are known up to four before only."""
    live = Live(intervals=10)
    live.topics(orders=2)
    live.wait(1)
    for step in range(10):
        live.wait(1)
        live.commit(("a", "orders", 0, 10 + 6 * step), ("a", "orders", 1, 10))
    live.judge()
    columns = window_columns(live.monitor.windows)

    found = reading(columns, int(columns.newest_ms.max()) - 4_500, _never_away)

    assert found.end_ms.tolist() == columns.newest_ms.tolist()
    assert found.until(found.end_ms.astype(np.float64)).tolist() == [54.0, 0.0]

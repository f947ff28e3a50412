"""What is usual for a row: pauses and rises, learned and forgotten."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagwatch.core.pace import KNOWN_AFTER, UNIT_MS, Pace

ROW = np.array([0])
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


@pytest.fixture
def pace() -> Pace:
    pace = Pace()
    pace.make_room(2)
    pace.moved_ms[:] = 24 * HOUR_MS  # no row is young
    return pace


def pause(pace: Pace, *minutes: float) -> float:
    """The row moves after pauses of so many minutes; returns its usual pause in minutes."""
    for each in minutes:
        at_ms = pace.moved_ms[ROW] + round(each * MINUTE_MS)
        pace.move(ROW, at_ms, np.array([round(each * MINUTE_MS)]))
    return pace.pauses.length_ms(ROW)[0] / MINUTE_MS


def see(
    pace: Pace, lag: int, minute: float, *, row: int = 0, late: bool = True, shown: bool = False
) -> None:
    now_ms, rows = round(minute * MINUTE_MS), np.array([row])
    if pace.see_lags(rows, np.array([lag]), now_ms):
        pace.follow_rises(now_ms, late=rows[[late]], shown=ROW[[shown]])


def test_a_long_pause_is_noted_first_and_believed_when_it_recurs(pace) -> None:
    assert pause(pace, 60) == 0
    assert pause(pace, 55) == 55


def test_the_first_pause_of_a_young_row_is_believed_unless_it_was_a_stop(pace: Pace) -> None:
    pace.begin(np.array([0, 1]), np.full(2, 24 * HOUR_MS))
    pace.down[1] = True
    rows, at_ms = np.array([0, 1]), np.full(2, 24 * HOUR_MS + 6 * MINUTE_MS)
    pace.move(rows, at_ms, np.full(2, 5 * MINUTE_MS))

    assert (pace.pauses.length_ms(rows) / MINUTE_MS).tolist() == [5, 0]


def test_steps_in_which_a_group_was_away_are_no_rise(pace: Pace) -> None:
    for minute in range(5):
        see(pace, 100, minute)
    for minute in range(5, 10):  # it pauses: its lag is not looked at
        see(pace, 0, minute, row=1)
    for minute, lag in (10, 5_000), (11, 6_000):
        see(pace, lag, minute)

    assert pace.rising[0] <= 2


def test_members_that_are_not_known_for_a_while_have_not_left(pace: Pace) -> None:
    held, none = np.array([True]), np.array([False])
    pace.see_members(held, 1 * HOUR_MS, unknown=none)
    pace.see_members(none, 2 * HOUR_MS, unknown=np.array([True]))

    assert (pace.held_s[0], pace.left_s[0]) == (3600, 0)


def test_members_that_come_back_soon_have_held_all_the_time(pace: Pace) -> None:
    held, none = np.array([True]), np.array([False])
    pace.see_members(held, 1 * HOUR_MS, unknown=none)
    pace.see_members(none, 2 * HOUR_MS, unknown=none)
    left_s = int(pace.left_s[0])
    pace.see_members(held, 2 * HOUR_MS + 20_000, unknown=none)
    soon_s = int(pace.held_s[0])
    pace.see_members(none, 3 * HOUR_MS, unknown=none)
    pace.see_members(held, 4 * HOUR_MS, unknown=none)

    assert (left_s, soon_s) == (2 * 3600, 3600)
    assert (pace.held_s[0], pace.left_s[0]) == (4 * 3600, 0)


def test_a_pause_much_longer_than_the_one_noted_is_noted_anew(pace) -> None:
    pause(pace, 10)

    assert pause(pace, 60) == 0
    assert pause(pace, 60) == 60


def test_a_pause_much_shorter_than_the_one_noted_is_believed_only_when_it_recurs(pace) -> None:
    pause(pace, 540)

    assert pause(pace, 240, 250) == 0
    assert pause(pace, 245) == 245


def test_a_long_pause_is_remembered_over_a_much_shorter_one(pace) -> None:
    pause(pace, 540)

    assert pause(pace, 240) == 0
    assert pause(pace, 540) == 540


def test_after_a_night_down_short_pauses_become_usual_all_the_same(pace) -> None:
    pause(pace, 600)

    assert pause(pace, *[10] * 9) == 10


def test_pauses_of_which_no_two_in_a_row_are_alike_become_usual(pace) -> None:
    # an hourly job whose runs take 20 to 28 minutes of its 30: seen by seconds
    assert pause(pace, 330 / 60, 516 / 60, 78 / 60) == 0
    assert pause(pace, 443 / 60) >= 440 / 60


def test_pauses_that_grow_slowly_are_usual_at_once(pace) -> None:
    assert pause(pace, 1, 2, 4, 8) == 8


def test_one_night_down_does_not_excuse_the_next_days_pauses(pace) -> None:
    pause(pace, 5, 5)

    assert pause(pace, 480) == 5
    assert pause(pace, 5) == 5


def test_several_pauses_of_a_row_in_one_batch_are_learned_in_turn(pace) -> None:
    pauses_ms = np.array([-1, 60, 60]) * MINUTE_MS

    pace.move(np.zeros(3, np.int64), np.array([0, 60, 120]) * MINUTE_MS, pauses_ms)

    assert pace.pauses.length_ms(ROW)[0] == HOUR_MS
    assert pace.moves[0] == KNOWN_AFTER


def test_a_usual_pause_is_forgotten_after_24_times_its_length(pace) -> None:
    pause(pace, 60, 60)
    see(pace, 0, 0)

    see(pace, 0, 12 * 60)
    assert pause(pace) == 30
    see(pace, 0, 24 * 60)

    assert pause(pace) == 0


def daily(pace: Pace, hours: float, *, days: int = 6) -> list[float]:
    """The row pauses for so long each day; its usual pause in hours right after each."""
    usual = []
    for day in range(days):
        usual.append(pause(pace, 60 * hours) / 60)
        for hour in range(25):
            see(pace, 0, (24 * day + hour) * 60)
    return usual


@pytest.mark.parametrize("hours", [4, 3, 2, 1])
def test_a_daily_pause_is_known_when_it_recurs_within_24_times_its_length(pace, hours) -> None:
    assert daily(pace, hours) == [0] + [hours] * 5


def test_a_pause_that_recurs_after_more_than_72_times_its_length_is_not_learned(pace) -> None:
    assert daily(pace, 1 / 4) == [0] * 6


def test_a_clock_that_is_set_back_forgets_nothing(pace) -> None:
    pause(pace, 60, 60)
    see(pace, 0, 600)

    see(pace, 0, 0)

    assert pause(pace) == 60


def test_a_lag_rises_while_its_lowest_of_each_minute_grows(pace) -> None:
    for tick in range(40):
        see(pace, 100 * tick + (50 if tick % 2 else 0), tick / 4)

    assert pace.rising[0] >= 7


def test_a_lag_that_falls_back_within_each_minute_does_not_rise(pace) -> None:
    for tick in range(60):
        see(pace, 100 * (tick % 4), tick / 4)

    assert pace.rising[0] == 0


def test_a_small_dip_does_not_end_a_rise(pace) -> None:
    for minute in range(20):
        see(pace, 100 * minute - (150 if minute == 15 else 0), minute)

    assert pace.rising[0] == 18


def test_a_rise_has_ended_when_no_higher_peak_follows(pace) -> None:
    for minute in range(40):
        see(pace, min(100 * minute, 1000), minute)
        if minute == 20:
            assert (pace.rising[0], pace.level[0]) == (9, 10)

    assert (pace.rising[0], pace.level[0]) == (0, 0)


def test_a_rise_that_ended_is_learned_when_it_recurs(pace) -> None:
    for minute in range(60):
        see(pace, 100 * (minute % 15), minute)

    assert 10 <= pace.rises.length_ms(ROW)[0] / MINUTE_MS <= 16


def test_a_rise_that_made_nothing_late_teaches_nothing(pace) -> None:
    for minute in range(90):
        see(pace, 100 * (minute % 15), minute, late=False)

    assert pace.rises.length_ms(ROW)[0] == 0
    assert not pace.rises.noted[ROW].any()


def test_what_a_lag_does_during_a_stop_is_no_rise(pace) -> None:
    for minute in range(5):
        see(pace, 100, minute)
    pace.down[ROW] = True
    for minute in range(60):  # the lag of a stopped row is not looked at
        see(pace, 0, minute, row=1)
    pause(pace, 60)
    for minute, lag in (60, 9_000), (61, 8_900), (62, 8_800):
        see(pace, lag, minute)

    assert pace.rising[0] == 0


def test_the_lag_of_a_slow_committer_does_not_rise_between_its_commits(pace) -> None:
    for minute in range(90):
        see(pace, 100 * (minute % 5), minute)
        if minute % 5 == 0:
            pause(pace, 5)
        if minute > 30:  # its pause is known, and what was taken for a rise has ended
            assert pace.rising[0] == 0


def test_movement_ends_being_down(pace) -> None:
    pace.down[0] = True

    pause(pace, 1)

    assert not pace.down[0]


def test_a_row_that_is_given_up_leaves_nothing_to_its_next_owner(pace) -> None:
    pause(pace, 60, 60, 60)
    pace.begin(ROW, np.array([5000]))
    pace.down[0] = True

    pace.clear(ROW)
    pace.make_room(5)

    assert (pace.moved_ms[[0, 2, 3, 4]] == -1).all()
    for column in (pace.since_s, pace.moves, pace.down, pace.rising, pace.pauses.known):
        assert column.size == 5
        assert not column.any()


@settings(deadline=None)
@given(
    noise=st.lists(st.integers(0, 12), min_size=5, max_size=40),
    slope=st.integers(200, 5000),
    within_s=st.integers(0, 59),
)
def test_a_rise_does_not_begin_before_its_lag_rises(
    noise: list[int], slope: int, within_s: int
) -> None:
    pace = Pace()
    pace.make_room(1)
    began_ms = HOUR_MS + len(noise) * MINUTE_MS + within_s * 1000
    for at_ms in range(HOUR_MS, began_ms + 8 * MINUTE_MS, 5_000):
        minute = (at_ms - HOUR_MS) // MINUTE_MS
        calm = 60 + noise[min(minute, len(noise) - 1)] + at_ms // 5_000 % 3
        risen = slope * max(at_ms - began_ms, 0) // MINUTE_MS
        see(pace, calm + risen, at_ms / MINUTE_MS)

    assert pace.rising[0] >= 5
    assert pace.rose_ms(ROW)[0] <= 9 * MINUTE_MS
    # a higher peak of the minute before cannot be told from the rise
    assert -65_000 <= pace.rises_since_ms(ROW)[0] - began_ms <= 90_000


def test_a_gap_in_which_the_lag_was_not_known_is_no_part_of_a_rise(pace) -> None:
    for minute in range(12):
        see(pace, 50 + minute, minute)
    assert pace.rising[0] > 5
    assert pace.resume(16 * MINUTE_MS).tolist() == [0]
    see(pace, 3000, 16)
    see(pace, 3100, 17)

    assert pace.rising[0] <= 2
    assert pace.rises_since_ms(ROW)[0] >= 15 * MINUTE_MS


def test_a_lag_that_is_seen_every_three_minutes_rises(pace) -> None:
    for minute in range(3, 20, 3):
        see(pace, 100 * minute, minute)

    assert pace.rising[0] >= 12
    assert 3 * MINUTE_MS <= pace.rises_since_ms(ROW)[0] <= 6 * MINUTE_MS


def test_a_rise_that_is_shown_keeps_its_beginning(pace) -> None:
    for minute in range(2, 12):
        see(pace, 10 * minute, minute)
    began_ms = pace.rises_since_ms(ROW)[0]
    for minute in range(12, 20):
        see(pace, 10_000 * minute, minute, shown=True)

    assert pace.rises_since_ms(ROW)[0] == began_ms


def test_a_rise_begins_at_one_instant_whatever_goes_by_meanwhile(pace) -> None:
    for minute in range(1, 10):
        see(pace, 100 * minute, minute)
    began_ms = pace.rises_since_ms(ROW)[0]
    see(pace, 950, 10)  # a small dip
    see(pace, 940, 11)
    after_dip_ms = pace.rises_since_ms(ROW)[0]
    see(pace, 0, 15, row=1, shown=True)  # its own lag is not known
    unknown_ms = pace.rises_since_ms(ROW)[0]
    restored = Pace()
    restored.make_room(2)
    restored.put(0, pace.copied(np.array([0, 1])))
    restored.clocks = pace.clocks
    restored.behind[ROW] = True
    assert restored.resume(47 * MINUTE_MS).size == 0  # lagwatch did not run for half an hour
    for at_min, lag in (47.5, 3000), (48.0, 4000):
        see(restored, lag, at_min, shown=True)

    assert pace.rising[0] > 5
    assert began_ms == after_dip_ms == unknown_ms == restored.rises_since_ms(ROW)[0]
    assert MINUTE_MS <= began_ms <= 2 * MINUTE_MS


def stop(pace: Pace, *, worked_h: float, length_h: float) -> float:
    """The row works, then is judged stopped until it moves again; its usual pause in hours."""
    pace.moved_ms[ROW] += round(worked_h * HOUR_MS)
    pace.down[ROW] = True
    return pause(pace, length_h * 60) / 60


@pytest.mark.parametrize(
    ("worked_h", "length_h", "learned"),
    [
        (0.2, 23.8, True),  # a nightly batch
        (15, 9, True),  # nothing is read at night
        (23, 1, True),  # an hour of maintenance a day
        (3.5, 0.5, True),  # every four hours
        (5, 0.15, True),  # nine minutes: to wait for so long again costs little
        (30, 1, False),
        (5, 0.5, False),
        (2.4, 0.3, False),
    ],
)
def test_a_stop_of_a_known_length_is_usual_only_where_it_comes_as_rests_do(
    pace, worked_h, length_h, learned
) -> None:
    stop(pace, worked_h=10, length_h=length_h)

    usual_h = stop(pace, worked_h=worked_h, length_h=length_h)

    assert bool(usual_h > 0) is learned


def test_an_ordinary_pause_is_usual_at_its_second_time_after_however_much_work(pace) -> None:
    pause(pace, 20)
    pace.moved_ms[ROW] += 5 * HOUR_MS

    assert pause(pace, 20) == 20


def runs(pace: Pace, *begin_min: float, length_min: float = 30, stopped: bool = False) -> None:
    """A job runs for half an hour from each of these instants on, with a commit a minute."""
    for begins in begin_min:
        at_ms = round(begins * MINUTE_MS)
        pace.down[ROW] = stopped
        pace.move(ROW, np.array([at_ms]), at_ms - pace.moved_ms[ROW])
        for minute in range(1, round(length_min) + 1):
            pace.move(ROW, np.array([at_ms + minute * MINUTE_MS]), np.array([MINUTE_MS]))
        see(pace, 0, begins, late=False)  # time passes: what is usual is forgotten


def due_min(pace: Pace) -> float:
    """Until when the job's next run is to begin, in minutes; -1 / 60000: it is no job."""
    return pace.next_run_ms(ROW, pace.moved_ms[ROW])[0] / MINUTE_MS


@given(st.lists(st.floats(0, 90), min_size=6, max_size=30))
def test_no_nightly_run_comes_later_than_its_period_says(late_min) -> None:
    pace = Pace()
    pace.make_room(1)
    runs(pace, *(1440 * night for night in range(1, 9)))

    for night, late in enumerate(late_min, start=9):
        # lengths are learned to ten seconds
        assert due_min(pace) >= 1440 * night + late - 1 / 6
        runs(pace, 1440 * night + late)

    # and it is missed soon enough
    assert due_min(pace) < 1440 * (9 + len(late_min)) + 4 * 60


def members(pace: Pace, at_min: float, *, held: bool) -> None:
    """Members hold the row from this instant on, or none does."""
    pace.see_members(np.array([held]), round(at_min * MINUTE_MS), unknown=np.zeros(1, np.bool_))


def stays(pace: Pace, begins_min: float, *read_min: float, length_min: float = 20) -> None:
    """A member comes, reads something after so many minutes each, and goes at the end."""
    members(pace, begins_min, held=True)
    for after_min in read_min:
        at_ms = round((begins_min + after_min) * MINUTE_MS)
        pace.move(ROW, np.array([at_ms]), at_ms - pace.moved_ms[ROW])
    members(pace, begins_min + length_min, held=False)
    see(pace, 0, begins_min + length_min, late=False)


def period_min(pace: Pace) -> float:
    return float(pace.periods.length_ms(ROW)[0] / MINUTE_MS)


@pytest.fixture
def half_hourly() -> Pace:
    """A job of which members come every half hour for twenty minutes, twenty times until now."""
    pace = Pace()
    pace.make_room(1)
    members(pace, 1, held=False)
    for number in range(20):
        stays(pace, 30 * number, 0.5, 10, 19)
    assert period_min(pace) == pytest.approx(30, abs=1)
    return pace


def test_pauses_of_members_that_stay_are_no_beginnings_of_runs(half_hourly: Pace) -> None:
    for number in range(20, 30):
        stays(half_hourly, 30 * number, 0.5, 9, 18.5)

    assert period_min(half_hourly) == pytest.approx(30, abs=1)


def test_members_that_are_seen_after_their_first_commit_begin_one_run(half_hourly: Pace) -> None:
    for number in range(20, 24):
        for read_min in (0, 2):
            at_ms = round((30 * number + read_min) * MINUTE_MS)
            half_hourly.move(ROW, np.array([at_ms]), at_ms - half_hourly.moved_ms[ROW])
            members(half_hourly, 30 * number + 0.5, held=True)
        members(half_hourly, 30 * number + 20, held=False)

    assert period_min(half_hourly) == pytest.approx(30, abs=1)


def test_a_period_that_is_half_of_the_true_one_is_mended_by_the_second_run(half_hourly) -> None:
    half_hourly.periods.known[ROW] = 15 * MINUTE_MS // UNIT_MS

    for number in (20, 21):
        stays(half_hourly, 30 * number, 0.5, 19)

    assert period_min(half_hourly) == pytest.approx(30, abs=1)


def test_a_run_that_was_not_seen_after_one_that_came_late_does_not_double_the_period(
    half_hourly: Pace,
) -> None:
    stays(half_hourly, 611, 0.5, 18)
    stays(half_hourly, 630, 0.5, 18)  # follows so soon that it is no beginning
    for begins in (690, 720):
        stays(half_hourly, begins, 0.5, 18)
        assert period_min(half_hourly) == pytest.approx(30, abs=4)


def test_a_period_that_became_too_long_is_mended_by_the_second_run(half_hourly: Pace) -> None:
    half_hourly.periods.known[ROW] = 60 * MINUTE_MS // UNIT_MS

    for number in (20, 21):
        stays(half_hourly, 30 * number, 0.5, 18)

    assert period_min(half_hourly) == pytest.approx(30, abs=1)


def test_a_job_that_has_little_to_read_rests_while_its_members_are_away(half_hourly: Pace) -> None:
    half_hourly.pauses.known[ROW] = 0
    members(half_hourly, 600, held=True)
    at_ms = round(600.5 * MINUTE_MS)
    # what it reads came just before
    half_hourly.move(ROW, np.array([at_ms]), np.array([MINUTE_MS // 2]))
    members(half_hourly, 620, held=False)

    assert 645 <= due_min(half_hourly) <= 660


def test_a_row_first_seen_at_rest_is_a_job_for_certain_when_a_run_comes_as_due(
    half_hourly: Pace,
) -> None:
    half_hourly.may_be_job[ROW] = True

    stays(half_hourly, 600, 0.5, 10)

    assert not half_hourly.may_be_job[0]


def test_a_job_stays_one_while_its_runs_reach_into_the_next(half_hourly: Pace) -> None:
    for number in range(20, 40):
        stays(half_hourly, 30 * number, 0.5, 10, 20, 28, length_min=28)

    assert 1200 < due_min(half_hourly) <= 1217


@pytest.mark.parametrize(("busy_h", "is_job"), [(12, True), (26, False)])
def test_a_job_whose_runs_follow_one_another_is_one_for_a_day(
    half_hourly: Pace, busy_h: int, *, is_job: bool
) -> None:
    """Where there is much to read it rests for five seconds only."""
    for number in range(20, 20 + 2 * busy_h):
        stays(half_hourly, 30 * number, *np.arange(0.1, 29.8, 0.9).tolist(), length_min=29.9)

    assert bool(due_min(half_hourly) > 0) is is_job


def test_a_night_before_the_start_is_no_number_of_short_periods(pace: Pace) -> None:
    pace.moved_ms[ROW] = 0
    for minute in (15, 30, 45, 60, 75):
        at_ms = np.array([minute * MINUTE_MS])
        pace.move(ROW, at_ms, at_ms - pace.moved_ms[ROW], past=True)
    assert period_min(pace) == pytest.approx(15, abs=1)

    night_ms = 4 * 21 * 15 * MINUTE_MS
    pace.move(ROW, pace.moved_ms[ROW] + night_ms, np.array([night_ms]), past=True)

    assert pace.past.length_ms(ROW)[0] == night_ms


@pytest.mark.parametrize(("others_read", "kept"), [(True, True), (False, False)])
def test_pauses_of_the_past_are_forgotten_where_members_read_nothing_at_all(
    pace: Pace, *, others_read: bool, kept: bool
) -> None:
    """A partition without messages says nothing while its members read others."""
    now_ms = 30 * HOUR_MS
    pace.past.known[ROW] = 100
    members(pace, (now_ms - 40 * MINUTE_MS) / MINUTE_MS, held=True)
    moved_ms = np.array([now_ms - MINUTE_MS if others_read else pace.moved_ms[0]])

    pace.forget_past(np.ones(1, np.bool_), now_ms, moved_ms=moved_ms)

    assert bool(pace.past.known[0] > 0) is kept


def test_members_that_are_replaced_in_a_moment_every_hour_are_no_job(pace: Pace) -> None:
    for minute in range(1, 600):
        if minute % 60 == 0:
            members(pace, minute, held=False)
            members(pace, minute + 1.5, held=True)
        elif minute % 60 > 2:
            at_ms = minute * MINUTE_MS
            pace.move(ROW, np.array([at_ms]), at_ms - pace.moved_ms[ROW])

    assert due_min(pace) < 0


@pytest.mark.parametrize(
    ("stalled", "stopped_h", "learned"), [(True, 7, False), (False, 7, True), (False, 14, False)]
)
def test_a_stall_and_an_end_of_like_length_are_no_rests(pace, stalled, stopped_h, learned) -> None:
    at_h = 10.0
    for held, length_h in ((stalled, 6), (False, stopped_h)):
        members(pace, (at_h - 1) * 60, held=True)
        pace.moved_ms[ROW] = round(at_h * HOUR_MS)
        members(pace, at_h * 60, held=held)
        since_ms = pace.moved_ms[ROW].copy()
        pace.go_down(ROW, since_ms, np.zeros(1, np.int64), leave_ms=6_000)
        pace.down[ROW] = True
        pause(pace, length_h * 60)
        at_h += length_h + 5.3

    assert bool(pace.pauses.known[0] > 0) is learned


def test_runs_that_fail_neither_change_the_period_nor_lengthen_the_usual_pause() -> None:
    pace = Pace()
    pace.make_room(1)
    runs(pace, *(1440 * night for night in range(1, 9)))
    period_ms = pace.periods.length_ms(ROW)[0]

    for night in (10, 12):
        runs(pace, 1440 * night - 60, stopped=True)
        runs(pace, 1440 * (night + 1))

    assert pace.periods.length_ms(ROW)[0] == pytest.approx(period_ms, abs=20 * MINUTE_MS)
    assert pace.pause_ms(ROW)[0] <= 25 * HOUR_MS
    assert 1440 * 14 < due_min(pace) < 1440 * 14 + 150


def test_a_period_follows_a_new_schedule() -> None:
    pace = Pace()
    pace.make_room(1)
    runs(pace, *(120 * number for number in range(1, 9)), length_min=5)
    runs(pace, *(8 * 120 + 60 * number for number in range(1, 40)), length_min=5)

    assert pace.periods.length_ms(ROW)[0] / MINUTE_MS == pytest.approx(60, abs=3)


@pytest.mark.parametrize(("away_min", "back_min", "next_run"), [(58, 62, 2), (58, 125, 3)])
def test_a_run_that_was_due_while_kafka_was_away_is_not_waited_for(
    pace: Pace, away_min: float, back_min: float, next_run: int
) -> None:
    runs(pace, *(1500 + 60 * number for number in range(1, 9)), length_min=5)
    last_min = 1500 + 60 * 8
    (late_ms,) = pace.next_run_ms(ROW, pace.moved_ms[ROW]) - (last_min + 60) * MINUTE_MS
    away, back = (np.array([(last_min + each) * MINUTE_MS]) for each in (away_min, back_min))

    (due_ms,) = pace.next_run_ms(ROW, pace.moved_ms[ROW], absences=[(away, back)])

    assert due_ms - late_ms == pytest.approx((last_min + next_run * 60) * MINUTE_MS, abs=MINUTE_MS)
    # an absence that was over before then, or never was, changes nothing
    over = [(away - 30 * MINUTE_MS, away - 20 * MINUTE_MS), (np.array([-1]), np.array([-1]))]
    # nor one that began when the run was late already
    over += [(away + 15 * MINUTE_MS, away + 20 * MINUTE_MS)]
    (usual_ms,) = pace.next_run_ms(ROW, pace.moved_ms[ROW], absences=over)
    assert usual_ms == (last_min + 60) * MINUTE_MS + late_ms


def test_runs_that_found_nothing_to_read_are_counted(pace: Pace) -> None:
    runs(pace, *(1500 + 60 * number for number in range(1, 9)), length_min=5)
    waits_since_ms = np.array([round((1500 + 60 * 10 + 20) * MINUTE_MS)])

    # two runs had nothing to read before this message came
    assert pace.next_run_ms(ROW, waits_since_ms)[0] >= (1500 + 60 * 11) * MINUTE_MS


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 120)), max_size=12))
def test_movements_taken_in_together_teach_what_they_teach_one_by_one(moves) -> None:
    moves = sorted(moves, key=lambda move: move[0])
    rows = np.array([row for row, _ in moves], np.int64)
    pause_ms = np.array([minutes * MINUTE_MS for _, minutes in moves], np.int64)
    at_ms = np.cumsum(pause_ms)
    together, apart = Pace(), Pace()
    for each in (together, apart):
        each.make_room(3)

    together.move(rows, at_ms, pause_ms)
    for place in range(rows.size):
        nth = slice(place, place + 1)
        apart.move(rows[nth], at_ms[nth], pause_ms[nth])

    everything = np.arange(3)
    for name, column in together.copied(everything).items():
        np.testing.assert_array_equal(column, apart.copied(everything)[name], err_msg=name)


class _LearnsAll(Pace):
    """Learns every pause, also those that change nothing."""

    def _to_learn(self, rows, pause_ms, usual):
        return np.flatnonzero((pause_ms > UNIT_MS) & (usual.known[rows] >= 0))


@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(0, 2), st.sampled_from([2, 15, 31, 59, 75, 80, 400])),
            min_size=1,
            max_size=12,
        ),
        max_size=12,
    ),
    st.sets(st.integers(0, 11)),
)
def test_pauses_that_are_left_out_would_change_nothing(rounds, down) -> None:
    paces = Pace(), _LearnsAll()
    for pace in paces:
        pace.make_room(3)
        pace.moved_ms[:] = 24 * HOUR_MS  # no row is young
        for number, moves in enumerate(rounds):
            ordered = sorted(moves, key=lambda move: move[0])
            rows = np.array([row for row, _ in ordered])
            pause_ms = np.array([1000 * seconds for _, seconds in ordered])
            at_ms = pace.moved_ms[rows]
            for row in range(3):
                at_ms[rows == row] += np.cumsum(pause_ms[rows == row])
            pace.down[0] |= number in down
            pace.move(rows, at_ms, pause_ms)
            pace.follow_rises(int(pace.moved_ms.max()), late=ROW[:0], shown=ROW[:0])

    known, all_known = (pace.copied(np.arange(3)) for pace in paces)
    for name, column in known.items():
        np.testing.assert_array_equal(column, all_known[name], err_msg=name)


@given(st.lists(st.lists(st.integers(0, 100), min_size=3, max_size=3), min_size=2, max_size=40))
def test_only_rows_that_may_rise_do(rounds) -> None:
    pace, rows = Pace(), np.arange(3)
    pace.make_room(3)
    for number, lags in enumerate(rounds):
        pace.see_lags(rows, np.array(lags), number * MINUTE_MS)
        may = pace.may_rise(rows)
        pace.follow_rises(number * MINUTE_MS, late=ROW[:0], shown=ROW[:0])

        assert not (pace.rising[rows] > 0)[~may].any()

"""Lags of rows that are behind, every ten seconds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core import lags as module
from lagwatch.core.lags import POINTS, STEP_MS, Lags
from tests.support.history import Live


def _take(lags: Lags, step: int, **by_row: int) -> None:
    """At a step: lags by row, as `r3=40`; commits are a second old."""
    row = np.array([int(name[1:]) for name in by_row], np.int64)
    now_ms = step * STEP_MS
    lags.take(row, np.array([*by_row.values()], np.int64), np.full(row.size, now_ms - 1000), now_ms)


def _lags(lags: Lags, row: int) -> list[float | None]:
    """From the first known one on."""
    column = lags.of(np.array([row])).lag[:, 0].tolist()
    found = [None if np.isnan(lag) else lag for lag in column]
    while found and found[0] is None:
        found.pop(0)
    return found


def test_lags_of_a_row_are_kept_with_the_instants_of_its_commits() -> None:
    lags = Lags()
    for step in range(100, 103):
        _take(lags, step, r7=step, r3=5)

    assert _lags(lags, 7) == [100, 101, 102]
    assert _lags(lags, 3) == [5, 5, 5]
    assert lags.of(np.array([7])).commit_ms[-3:, 0].tolist() == [
        step * STEP_MS - 1000 for step in range(100, 103)
    ]


def test_commits_ahead_of_our_clock_and_very_old_ones_keep_their_order() -> None:
    lags, now_ms = Lags(), 10**6 * STEP_MS
    rows, days_ms = np.arange(3), 86_400_000
    commit_ms = now_ms + np.array([30_000, -40 * days_ms, -400 * days_ms])

    lags.take(rows, np.ones(3, np.int64), commit_ms, now_ms)

    ahead_ms, old_ms, ancient_ms = lags.of(rows).commit_ms[-1].tolist()
    assert (ahead_ms, old_ms) == (now_ms + 30_000, now_ms - 40 * days_ms)
    assert ancient_ms < old_ms


def test_of_ten_seconds_the_first_lag_counts() -> None:
    lags = Lags()
    _take(lags, 100, r1=10)

    assert not lags.due(100 * STEP_MS + 9_999)
    assert lags.due(101 * STEP_MS)
    _take(lags, 100, r1=20)
    assert _lags(lags, 1) == [10]


def test_a_row_that_was_not_behind_has_a_gap() -> None:
    lags = Lags()
    _take(lags, 1, r1=10, r2=20)
    _take(lags, 2, r2=21)
    _take(lags, 3, r1=12, r2=22)

    assert _lags(lags, 2) == [20, 21, 22]
    # what was before it had caught up is forgotten
    assert _lags(lags, 1) == [12]
    assert _lags(lags, 5) == []


def test_rounds_that_were_left_out_are_gaps_and_a_clock_set_back_begins_anew() -> None:
    lags = Lags()
    _take(lags, 10, r1=1)
    _take(lags, 13, r1=4)
    assert _lags(lags, 1) == [1, None, None, 4]

    _take(lags, 5, r1=9)
    assert _lags(lags, 1) == [9]


def test_only_the_last_ten_minutes_are_kept() -> None:
    lags = Lags()
    for step in range(POINTS + 20):
        _take(lags, step, r1=step)

    assert _lags(lags, 1) == list(range(20, POINTS + 20))


def test_freed_rows_are_forgotten_and_unknown_lags_are_not_kept() -> None:
    lags = Lags()
    _take(lags, 1, r1=10, r2=-1, r3=30)
    lags.clear(np.array([1]))

    assert [_lags(lags, row) for row in (1, 2, 3)] == [[], [], [30]]


def test_the_memory_is_bounded_by_following_the_greatest_lags() -> None:
    most = module._MOST  # noqa: SLF001 the bound is what is shown
    lags, rows = Lags(), np.arange(most + 10)

    lags.take(rows, rows + 1, np.zeros(rows.size, np.int64), STEP_MS)

    assert np.isnan(lags.of(rows).lag[-1]).sum() == 10
    assert _lags(lags, 9) == []
    assert _lags(lags, 10) == [11]


def test_the_monitor_keeps_the_lags_of_rows_that_are_behind() -> None:
    live = Live()
    live.topics(orders=1)
    live.produce("orders", 0, 100_000)
    offset = 0
    for step in range(60):
        live.wait(10)
        live.produce("orders", 0, 100)
        if step % 12 < 6:
            offset += 1000
        live.commit(("billing", "orders", 0, offset))
        live.judge()

    row = int(live.judge().rows.window[0])
    past = live.monitor.past_lags.of(np.array([row]))

    known = past.lag[~np.isnan(past.lag[:, 0]), 0]
    assert known.size >= 50
    # the newest commit waits for the log ends after it
    assert abs(known[-1] - (live.ends["orders", 0] - offset)) <= 100
    assert (np.diff(known) > 0).any()
    assert (np.diff(known) < 0).any()
    live.monitor.forget("billing", None)
    live.judge()
    live.judge()
    assert np.isnan(live.monitor.past_lags.of(np.array([row])).lag).all()


@given(
    rounds=st.lists(
        st.tuples(
            st.integers(0, 3),  # steps since the round before
            st.dictionaries(st.integers(0, 9), st.integers(0, 1000), max_size=6),
            st.sets(st.integers(0, 9), max_size=2),
        ),
        max_size=80,
    )
)
def test_each_row_has_its_own_lags_however_others_come_and_go(
    rounds: list[tuple[int, dict[int, int], set[int]]],
) -> None:
    lags, expected, step = Lags(), dict[int, dict[int, int]](), 1000
    for passed, behind, freed in rounds:
        step += passed
        if passed:
            _take(lags, step, **{f"r{row}": lag for row, lag in behind.items()})
            expected = {row: expected.get(row, {}) | {step: lag} for row, lag in behind.items()}
        lags.clear(np.array([*freed], np.int64))
        expected = {row: known for row, known in expected.items() if row not in freed}

    past = lags.of(np.arange(10)).lag
    steps = range(step - POINTS + 1, step + 1)
    for row in range(10):
        known = [expected.get(row, {}).get(each) for each in steps]
        assert [None if np.isnan(lag) else lag for lag in past[:, row].tolist()] == known

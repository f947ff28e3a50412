"""Windows: Burrow's storage semantics, in batches as one by one."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagwatch.core.explain import Operation, Replayed, replay
from lagwatch.core.window import CommitColumns, Windows

VECTORS = Path(__file__).parents[2] / "vectors"


def _read(name: str):
    return json.loads((VECTORS / name).read_text())


def _replay(case) -> Replayed:
    return replay(
        intervals=case["intervals"],
        min_distance_ms=case["min_distance_s"] * 1000,
        operations=[
            Operation(
                op=step["op"],
                offset=step.get("offset", 0),
                order=step.get("order", 0),
                at_ms=step.get("ts_ms_after_base", 0),
            )
            for step in case["ops"]
        ],
    )


def _shape(window):
    return window and [
        entry
        and {
            "offset": entry.offset,
            "order": entry.order,
            "ts_ms_after_base": entry.at_ms,
            "lag": entry.lag,
        }
        for entry in window
    ]


@pytest.mark.parametrize(
    ("number", "case"), list(enumerate(_read("window_operations.json"))), ids=lambda _: ""
)
def test_operations_leave_the_window_that_burrow_leaves(number, case) -> None:
    result = _replay(case)

    assert result.group_found == case["group_found"], number
    assert _shape(result.window) == case["window"]
    assert (list(result.broker_offsets) if result.broker_offsets else None) == case[
        "broker_offsets"
    ]
    assert result.current_lag == case["current_lag"]
    assert result.last_commit_ms == case["last_commit_ms_after_base"]


@pytest.mark.parametrize(
    "case", _read("evaluator_cases.json")["storage_cases"], ids=lambda case: case["name"]
)
def test_storage_case(case) -> None:
    steps = [{"op": "broker", "offset": case["broker_offset"]}] + [
        {
            "op": "commit",
            "offset": each["offset"],
            "order": each["order"],
            "ts_ms_after_base": each["ts_ms_after_start"],
        }
        for each in case["inputs"]
    ]

    result = _replay(
        {"intervals": case["intervals"], "min_distance_s": case["min_distance_s"], "ops": steps}
    )

    expected = [
        {
            "offset": each["offset"],
            "order": each["order"],
            "ts_ms_after_base": each["ts_ms_after_start"],
            "lag": each["lag"],
        }
        for each in case["window"]
    ]
    assert [entry for entry in _shape(result.window) if entry] == expected, case["why"]


def _columns(commits) -> CommitColumns:
    rows, offsets, times, orders = ([each[index] for each in commits] for index in range(4))
    return CommitColumns(
        row=np.array(rows, np.int32),
        offset=np.array(offsets, np.int64),
        commit_ms=np.array(times, np.int64),
        order=np.array(orders, np.int64),
        lag=np.array(offsets, np.int64) % 7,
        observed_s=np.array(orders, np.int64).astype(np.uint32),
    )


@st.composite
def commit_streams(draw, *, late: bool):
    """(row, offset, time, order) with times and orders mostly rising per row; or a burst."""
    burst = draw(st.booleans())
    size = draw(st.integers(60 if burst else 1, 120))
    rows = draw(st.lists(st.integers(0, 0 if burst else 3), min_size=size, max_size=size))
    between = (0, 1, 20) if burst else (0, 1, 300, 999, 1000, 5000, -200)
    gaps = draw(st.lists(st.sampled_from(between), min_size=size, max_size=size))
    clock, stream = 0, []
    for order, (row, gap) in enumerate(zip(rows, gaps, strict=True), 1):
        clock += gap
        back = draw(st.integers(0, 12)) if late else 0
        stream.append((row, order * 3 % 50, clock, max(1, order - back)))
    return stream


def _filled(stream, cuts, *, intervals: int, min_distance_ms: int) -> list:
    windows = Windows(intervals=intervals, min_distance_ms=min_distance_ms)
    windows.add_rows(4)
    arrived = []
    bounds = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    for start, end in itertools.pairwise(bounds):
        arrived += windows.insert(_columns(stream[start:end])).tolist()
    return [windows.entries(row) for row in range(4)] + arrived


@settings(deadline=None)
@given(
    st.booleans().flatmap(lambda late: commit_streams(late=late)),
    st.lists(st.integers(0, 1000), max_size=4),
    st.integers(2, 7),
    st.sampled_from([0, 1000]),
)
def test_batches_however_cut_fill_the_same_windows_as_single_commits(
    stream, cuts, intervals, min_distance_ms
) -> None:
    alone = _filled(
        stream, range(len(stream)), intervals=intervals, min_distance_ms=min_distance_ms
    )

    together = _filled(stream, cuts, intervals=intervals, min_distance_ms=min_distance_ms)

    assert together == alone


def test_a_row_that_commits_very_often_in_one_batch_keeps_its_slots_apart() -> None:
    stream = [(0, order, order * 100, order) for order in range(1, 5001)]

    windows = Windows(intervals=10, min_distance_ms=1000)
    windows.add_rows(1)
    windows.insert(_columns(stream))

    held = windows.entries(0)
    assert held.offset[-1] == 5000
    assert np.diff(held.commit_ms).tolist() == [1000] * 9


def test_a_burst_right_after_a_commit_leaves_its_last_offset_in_the_slot_of_that_commit() -> None:
    windows = Windows(intervals=10, min_distance_ms=1000)
    windows.add_rows(1)
    windows.insert(_columns([(0, 1, 5000, 1)]))

    windows.insert(_columns([(0, order, 5000 + order, order) for order in range(2, 102)]))

    held = windows.entries(0)
    assert (held.offset, held.commit_ms) == ([101], [5000])


@given(st.lists(st.sampled_from([-1, 0, 7, 2**31 - 1, 2**31, 2**63 - 1]), min_size=1, max_size=8))
def test_lags_of_any_size_are_kept_through_a_copy_and_growth(lags) -> None:
    windows, other = (Windows(intervals=4, min_distance_ms=0) for _ in range(2))
    windows.add_rows(1)
    other.add_rows(1)
    for order, lag in enumerate(lags, 1):
        commits = _columns([(0, order, order * 1000, order)])
        windows.insert(replace(commits, lag=np.array([lag], np.int64)))
    windows.add_rows(5000)
    other.put(0, windows.copied(np.array([0])))

    assert windows.entries(0).lag == lags[-4:]
    assert other.entries(0).lag == lags[-4:]


def test_an_unknown_lag_that_is_filled_may_be_of_any_size() -> None:
    windows = Windows(intervals=4, min_distance_ms=0)
    windows.add_rows(1)
    commits = _columns([(0, 5, 1000, 1), (0, 6, 2000, 2)])
    windows.insert(replace(commits, lag=np.array([-1, 3], np.int64)))

    windows.fill_lags(np.array([0]), np.array([2**40]))

    assert windows.entries(0).lag == [2**40 - 5, 3]


def test_growing_keeps_every_window() -> None:
    windows = Windows(intervals=3, min_distance_ms=0)
    windows.add_rows(1)
    windows.insert(_columns([(0, 5, 1000, 1), (0, 6, 2000, 2)]))

    windows.add_rows(50_000)

    assert windows.entries(0).offset == [5, 6]
    assert windows.entries(49_999).offset == []


def test_a_window_needs_a_slot() -> None:
    with pytest.raises(ValueError, match=r"intervals must be 1\.\.100, not 0"):
        Windows(intervals=0, min_distance_ms=0)


@pytest.mark.parametrize("base", [0, 2**31 - 2, 2**32 - 3, 7 * 2**40 - 2])
def test_orders_are_reported_apart_wherever_their_lower_bits_wrap(base) -> None:
    windows = Windows(intervals=3, min_distance_ms=0)
    windows.add_rows(1)

    arrived = windows.insert(
        _columns([(0, step, step * 1000, base + step) for step in (1, 2, 5, 4, 5, 6)])
    )

    assert arrived.tolist() == [True, True, True, False, False, True]
    assert windows.entries(0).offset == [4, 5, 6]
    assert windows.newer_than(base + 5, np.array([0])).tolist() == [True]
    assert windows.newer_than(base + 6, np.array([0])).tolist() == [False]

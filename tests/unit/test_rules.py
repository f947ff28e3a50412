"""Every window whose verdict Burrow's own rules gave, through the columns."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.explain import Explained, WindowInput, explain
from lagwatch.core.model import PartitionStatus, Rule

VECTORS = Path(__file__).parents[1] / "vectors"


def _read(name: str):
    return json.loads((VECTORS / name).read_text())


def _input(case) -> WindowInput:
    now_s = case["time_now_s"] if "time_now_s" in case else case["time_now"]
    return WindowInput(
        offset=[entry["offset"] for entry in case["offsets"]],
        commit_ms=[entry["timestamp"] for entry in case["offsets"]],
        lag=[entry["lag"] for entry in case["offsets"]],
        broker_offsets=case["broker_offsets"],
        current_lag=case["current_lag"],
        now_ms=now_s * 1000,
        allowed_lag=case["allowed_lag"],
    )


def test_all_random_windows_judged_together_get_burrows_verdicts() -> None:
    cases = _read("evaluator_windows.json")

    verdicts = explain([_input(case) for case in cases])

    assert [each.status.name for each in verdicts] == [case["status"] for case in cases]


@pytest.mark.parametrize(
    "case", _read("evaluator_cases.json")["rule_cases"], ids=lambda case: case["name"]
)
def test_each_rule_case_gets_burrows_verdict(case) -> None:
    (verdict,) = explain([_input(case)])

    assert verdict.status.name == case["expect"]["status"], case["why"]


def _judged(offsets, lags, *, now_ms=10_000, step_ms=1000, current_lag=None, ends=()) -> Explained:
    return explain(
        [
            WindowInput(
                offset=offsets,
                commit_ms=[index * step_ms for index in range(len(offsets))],
                lag=lags,
                broker_offsets=ends,
                current_lag=lags[-1] if current_lag is None else current_lag,
                now_ms=now_ms,
            )
        ]
    )[0]


def test_the_rule_and_the_numbers_it_saw_are_named() -> None:
    verdict = _judged([100, 100, 100], [10, 20, 30], now_ms=2500)

    assert verdict.rule is Rule.STALLED
    assert verdict.evidence == {
        "current_lag": 30,
        "start_offset": 100,
        "end_offset": 100,
        "start_lag": 10,
        "end_lag": 30,
        "window_span_ms": 2000,
        "commits": 3,
    }


def test_silence_as_long_as_the_window_is_not_yet_a_stop() -> None:
    assert _judged([1, 2, 3], [9, 8, 7], now_ms=4000).status is PartitionStatus.OK
    assert _judged([1, 2, 3], [9, 8, 7], now_ms=4001).status is PartitionStatus.STOP


def test_a_rewind_names_the_offsets_around_the_fall() -> None:
    verdict = _judged([50, 60, 20, 30], [5, 5, 45, 35], now_ms=3500)

    assert verdict.status is PartitionStatus.REWIND
    assert (verdict.evidence["offset_before"], verdict.evidence["offset_after"]) == (60, 20)


def test_an_unknown_log_end_is_neither_good_nor_bad() -> None:
    verdict = _judged([1, 2, 3], [5, 5, 5], current_lag=-1)

    assert (verdict.status, verdict.rule) == (PartitionStatus.UNKNOWN, Rule.LOG_END_UNKNOWN)


WINDOWS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 2000), st.none() | st.integers(0, 30)),
    min_size=1,
    max_size=10,
)


def _window(entries, *, shift: int = 0, current_lag: int = 5, now_ms: int = 9000) -> WindowInput:
    times = [sum(entry[1] for entry in entries[: index + 1]) for index in range(len(entries))]
    return WindowInput(
        offset=[entry[0] + shift for entry in entries],
        commit_ms=times,
        lag=[entry[2] for entry in entries],
        broker_offsets=[entries[-1][0] + shift + current_lag],
        current_lag=current_lag,
        now_ms=now_ms,
    )


@given(WINDOWS, st.integers(0, 10**12), st.integers(0, 20), st.integers(0, 30_000))
def test_shifting_all_offsets_changes_no_verdict(entries, shift, current_lag, now_ms) -> None:
    here = _window(entries, current_lag=current_lag, now_ms=now_ms)
    there = _window(entries, shift=shift, current_lag=current_lag, now_ms=now_ms)

    verdicts = explain([here, there])

    assert verdicts[0].rule is verdicts[1].rule


@given(st.lists(WINDOWS, min_size=1, max_size=20))
def test_windows_judged_together_or_alone_get_the_same_verdict(windows) -> None:
    inputs = [_window(entries) for entries in windows]

    assert explain(inputs) == tuple(explain([each])[0] for each in inputs)

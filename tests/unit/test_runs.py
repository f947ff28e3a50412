"""Rates of a version are of the time in which it was live, however short that was."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pytest

from lagwatch.core.record import Kind, Records, from_rows
from lagwatch.history.runs import RecordingIntervals, measured
from lagwatch.ports.deployments import Deployment, Run
from lagwatch.ports.history import HistoryRange, HistoryStore
from tests.support.history import NOON_MS, group_sample, sample

_EVERY_MS = 30_000
_BEGIN_MS = NOON_MS // _EVERY_MS * _EVERY_MS
_BEFORE_PER_S, _LIVE_PER_S = 50, 200


class _Rows:
    """Plain rows as a store."""

    def __init__(self, rows: Mapping[Kind, Sequence[dict[str, Any]]]) -> None:
        self._rows = rows

    def read(self, wanted: HistoryRange) -> Iterator[Records]:
        found = [
            row
            for row in self._rows.get(wanted.kind, ())
            if wanted.from_ms <= row["at_ms"] < wanted.to_ms
        ]
        yield from_rows(wanted.kind, found, wanted.chosen)


def _run(*, live_s: int, after_round_s: int) -> Run:
    """A version reads 200 a second in each of two partitions, the one before 50, the next none."""
    from_ms = _BEGIN_MS + 600_000 + after_round_s * 1000
    to_ms = from_ms + live_s * 1000
    samples, rounds = [], []
    for at_ms in range(_BEGIN_MS, _BEGIN_MS + 1_800_000, _EVERY_MS):
        before_ms = min(at_ms, from_ms) - _BEGIN_MS
        live_ms = max(0, min(at_ms, to_ms) - from_ms)
        offset = (before_ms * _BEFORE_PER_S + live_ms * _LIVE_PER_S) // 1000
        rounds.append(group_sample(at_ms=at_ms, previous_ms=at_ms - _EVERY_MS, observed=2))
        samples += [
            sample(
                at_ms=at_ms,
                partition=partition,
                committed_offset=offset,
                log_end_offset=offset + 1000,
                lag=1000,
            )
            for partition in range(2)
        ]
    rows = _Rows({Kind.SAMPLES: samples, Kind.GROUP_SAMPLES: rounds})
    deployment = Deployment(
        cluster="here", group="billing", at_ms=from_ms, version="2", note="", offsets={}
    )
    intervals = RecordingIntervals(interval_ms=_EVERY_MS, back_ms=600_000)
    return measured(cast("HistoryStore", rows), deployment, from_ms, to_ms, intervals)


@pytest.mark.parametrize("after_round_s", [0, 13])
@pytest.mark.parametrize("live_s", [45, 60, 100, 290, 310, 900])
def test_rates_are_of_the_time_in_which_the_version_was_live(
    live_s: int, after_round_s: int
) -> None:
    run = _run(live_s=live_s, after_round_s=after_round_s)

    if run.rates_over_s is None:
        # fewer than two samples while it was live
        assert live_s < 2 * _EVERY_MS / 1000
        assert run.consumed_per_s is None
    else:
        assert run.rates_over_s <= live_s
        assert run.consumed_per_s == pytest.approx(2 * _LIVE_PER_S)
        assert run.produced_per_s == pytest.approx(2 * _LIVE_PER_S)
    assert run.lived_s == live_s
    assert run.recorded_s == pytest.approx(live_s)

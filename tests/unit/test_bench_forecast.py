"""Moments of traces: what is known then, what came, and whether the forecast held."""

import json
from pathlib import Path

import numpy as np
import pytest

from lagwatch.core.lags import no_lags
from tests.bench.forecasts import month, recorded
from tests.bench.forecasts.replay import INTERVALS, Moment, replayed
from tests.bench.month.plan import Size


def moment(truth_s: float, *, read_per_s: int = 30) -> Moment:
    """10 messages a second are written; 1,000 wait, of which 20 a second are caught up."""
    seconds = np.arange(0, 601, 5)
    ends = 10 * seconds + 100_000
    commits = np.arange(600 - 5 * (INTERVALS - 1), 601, 5)
    return Moment(
        ends_ms=seconds * 1000,
        ends=ends,
        commits_ms=commits * 1000,
        offsets=ends[-1] - 1000 - read_per_s * (600 - commits),
        past=no_lags(1),
        truth_s=truth_s,
    )


def test_a_forecast_holds_when_the_truth_is_within_its_interval() -> None:
    right, wrong = replayed(moment(50)), replayed(moment(500))

    assert right is not None
    assert right.within
    assert right.off == pytest.approx(0, abs=0.02)
    assert wrong is not None
    assert not wrong.within
    assert wrong.off == pytest.approx(0.9, abs=0.02)


def test_of_a_group_that_falls_behind_there_is_no_forecast() -> None:
    assert replayed(moment(50, read_per_s=5)) is None


def test_who_never_caught_up_was_not_within_a_finite_interval() -> None:
    found = replayed(moment(float("inf")))

    assert found is not None
    assert not found.within


def test_a_recorded_trace_gives_moments_until_it_has_caught_up(tmp_path: Path) -> None:
    file = tmp_path / "steady.json"
    ends = [[second * 1000, 3000 + 10 * second] for second in range(0, 201, 2)]
    commits = [[second * 1000, 40 * second] for second in range(0, 201, 1)]
    file.write_text(json.dumps({"kind": "steady", "log_ends": ends, "commits": commits}))

    found = list(recorded.moments(file))

    # 3,000 messages at 30 a second
    assert [each.truth_s + each.ends_ms[-1] / 1000 for each in found] == pytest.approx(
        [100] * len(found), abs=2.5
    )
    assert len(found) > 10
    assert all(told.within for each in found if (told := replayed(each)) is not None)


def test_moments_of_the_month_know_nothing_of_what_comes() -> None:
    found = list(month.moments(Size(groups=60, days=0.25, shards=1, seed=5)))

    assert found
    for each in found:
        now_ms = each.ends_ms[-1]
        assert (each.commits_ms <= now_ms).all()
        assert (np.diff(each.ends) >= 0).all()
        assert each.truth_s > 0

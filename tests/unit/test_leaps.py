"""Leaps over deleted messages: skipped, or read by a consumer that became faster?"""

import pytest

from lagwatch.monitor.leaps import Leap

STEP_MS = 5_000


def verdict(*steps: int, lag: int = 5_000, passes: bool = False) -> bool | None:
    """After a leap of 3,000 messages in the place of 100: what `steps` say, one a commit."""
    leap = Leap(before=0, end=2_500, offset=3_000, took_ms=STEP_MS, usual=100, at_ms=0)
    found, offset = None, 3_000
    for number, step in enumerate(steps, start=1):
        assert found is None
        offset += step
        found = leap.is_skip(offset, number * STEP_MS, lag, passes=passes)
    return found


@pytest.mark.parametrize("step", [0, 50, 100, 300, 500])
def test_who_reads_on_as_slowly_as_before_has_skipped_messages(step: int) -> None:
    assert verdict(step) is True


@pytest.mark.parametrize("step", [600, 1_500, 3_000, 9_000])
def test_who_reads_on_faster_than_before_has_become_faster(step: int) -> None:
    assert verdict(step) is False


def test_at_the_log_end_there_is_nothing_to_read_fast() -> None:
    assert verdict(100, 100, 100, lag=0) is None
    assert verdict(100, 100, 100, 100, lag=0) is False


def test_who_leaps_over_one_log_start_after_the_other_far_from_the_log_end_skips_messages() -> None:
    assert verdict(3_000, 3_000, 3_000, passes=True) is None
    assert verdict(3_000, 3_000, 3_000, 3_000, passes=True) is True
    assert verdict(3_000, 3_000, 3_000, 3_000, passes=True, lag=100) is False

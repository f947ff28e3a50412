"""What counts of a silence through restarts of lagwatch."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.watching import Unwatched
from tests.support.any_rows import any_rows

LIMITS_S = (30, 180, 360, 1200)


@given(st.lists(st.integers(0, 60), unique=True, max_size=8), st.integers(0, 60))
def test_the_time_without_a_process_is_counted_second_by_second(bounds, since) -> None:
    ordered = sorted(bounds)
    stretches = [*zip(ordered[::2], ordered[1::2], strict=False)]
    gone = [second for begins, ends in stretches for second in range(begins, ends)]

    found = Unwatched.of(stretches).after_ms(np.array([since]))

    assert found.tolist() == [sum(second >= since for second in gone)]


@given(st.integers(0, 10_000), st.booleans(), st.sampled_from(LIMITS_S))
def test_a_silence_is_longer_than_a_limit_when_more_than_that_of_it_counts(
    seed, beginning, limit_s
) -> None:
    rows = any_rows(seed, 60, beginning=beginning)

    longer = rows.quiet_longer(limit_s * 1000)

    assert longer.tolist() == (rows.quiet_ms > limit_s * 1000).tolist()


@given(st.integers(0, 10_000))
def test_a_silence_counts_no_more_than_it_lasted(seed) -> None:
    rows = any_rows(seed, 60, beginning=True)

    assert (rows.quiet_ms <= np.maximum(rows.now_ms - rows.quiet_since_ms, 0)).all()

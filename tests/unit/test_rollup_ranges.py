"""Sets of instants, and which buckets are due."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.record import Kind
from lagwatch.core.record.columns import ROLLUP_STEP_MS
from lagwatch.jobs.rollup.plan import buckets, due, end_of, pieces
from lagwatch.jobs.stores.base import RawRows
from lagwatch.jobs.units import Ranges, common, contains, union, widened

FIVE_MS = 300_000
HOUR_MS = 3_600_000
RANGES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda pair: (pair[0], sum(pair))),
    max_size=6,
)


def members(ranges: Ranges) -> set[int]:
    return {number for begin, end in ranges for number in range(begin, end)}


@given(ranges=RANGES, other=RANGES, step=st.integers(1, 9))
def test_ranges_behave_like_the_sets_they_stand_for(ranges, other, step) -> None:
    first, second = union(ranges), union(other)

    assert members(first) == {number for begin, end in ranges for number in range(begin, end)}
    assert all(before[1] < after[0] for before, after in pairwise(first))
    assert members(common(first, second)) == members(first) & members(second)
    whole = members(widened(first, step))
    assert whole == {
        number
        for held in members(first)
        for number in range(held - held % step, held - held % step + step)
    }
    for begin, end in ranges:
        assert begin == end or contains(first, begin, end)
        assert union(pieces((begin, end), step)) == union([(begin, end)])


def test_buckets_that_are_not_over_are_not_due() -> None:
    held = ((0, 2 * HOUR_MS),)
    now_ms = HOUR_MS + 700_000

    wanted = due(RawRows(held=held, changed=(), mark={}), 0, now_ms, back_ms=0)

    assert end_of(Kind.ROLLUP_5M, now_ms) == HOUR_MS + FIVE_MS
    assert buckets(Kind.ROLLUP_5M, wanted, held, now_ms) == ((0, HOUR_MS + FIVE_MS),)
    assert buckets(Kind.ROLLUP_1H, wanted, held, now_ms) == ((0, HOUR_MS),)
    assert buckets(Kind.ROLLUP_1D, wanted, held, now_ms) == ()


def test_an_hour_that_was_not_over_last_time_is_due_although_recording_has_stopped() -> None:
    held = ((0, 600_000),)

    wanted = due(RawRows(held=held, changed=(), mark={}), 900_000, 9 * HOUR_MS, back_ms=0)

    assert buckets(Kind.ROLLUP_5M, wanted, held, 9 * HOUR_MS) == ()
    assert buckets(Kind.ROLLUP_1H, wanted, held, 9 * HOUR_MS) == ((0, HOUR_MS),)


@given(
    held=RANGES,
    now_min=st.integers(0, 90),
    kind=st.sampled_from([Kind.ROLLUP_5M, Kind.ROLLUP_1H]),
)
def test_buckets_are_always_whole(held, now_min, kind) -> None:
    def minutes(ranges: Ranges) -> Ranges:
        return union((begin * 60_000 + 10_000, end * 60_000 + 20_000) for begin, end in ranges)

    recorded = minutes(union(held))

    found = buckets(kind, recorded, recorded, now_min * 60_000)

    step = ROLLUP_STEP_MS[kind]
    assert all(begin % step == end % step == 0 for begin, end in found)

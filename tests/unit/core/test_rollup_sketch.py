"""Laws of the quantile sketches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.rollup.encode import Ends, decode, encode
from lagwatch.core.rollup.sketch import (
    MOST,
    Sketches,
    bin_middles,
    bin_numbers,
    bins,
    concat_sketches,
    kept,
    merge_sketches,
    sketch,
)

LAGS = st.integers(0, 60) | st.integers(0, 5000) | st.integers(0, 2**62 - 1)
PARTS = st.lists(st.lists(LAGS, max_size=60), min_size=1, max_size=6)


def of(parts: list[list[int]]) -> Sketches:
    """One sketch for each list."""
    place = [number for number, part in enumerate(parts) for _ in part]
    values = [value for part in parts for value in part]
    return kept(sketch(np.array(place, np.int64), np.array(values, np.int64), len(parts)))


def ends_of(sketches: Sketches) -> Ends:
    """The least and greatest of the values that are kept, as rows have them."""
    least, greatest = np.full(sketches.size, -1), np.full(sketches.size, -1)
    some = np.diff(sketches.first) > 0
    least[some] = sketches.value[sketches.first[:-1][some]]
    greatest[some] = sketches.value[sketches.first[1:][some] - 1]
    return Ends(least=least, greatest=greatest)


def no_ends(size: int) -> Ends:
    return Ends(least=np.full(size, -1), greatest=np.full(size, -1))


def same(sketches: Sketches, other: Sketches) -> bool:
    names = ("first", "value", "count", "binned")
    return all(np.array_equal(getattr(sketches, name), getattr(other, name)) for name in names)


@given(parts=PARTS, sums=st.randoms(use_true_random=False))
def test_sketches_of_parts_make_the_sketch_of_all_in_whatever_order_and_steps(parts, sums) -> None:
    whole = of([[value for part in parts for value in part]])
    order = list(range(len(parts)))
    sums.shuffle(order)
    middle = np.array([sums.randrange(2) for _ in order], np.int64)

    shuffled = of([parts[number] for number in order])
    at_once = merge_sketches(shuffled, np.zeros(len(parts), np.int64), 1)
    in_two_steps = merge_sketches(merge_sketches(shuffled, middle, 2), np.zeros(2, np.int64), 1)

    assert same(at_once, whole)
    assert same(in_two_steps, whole)


@given(parts=PARTS, has=st.tuples(st.booleans(), st.booleans()), data=st.data())
def test_a_sketch_comes_back_from_its_bytes_and_its_row_as_it_was(parts, has, data) -> None:
    sketches = of(parts)
    ends = ends_of(sketches) if has[1] else no_ends(len(parts))
    ends = Ends(least=ends.least if has[0] else no_ends(len(parts)).least, greatest=ends.greatest)
    row = data.draw(st.integers(0, len(parts) - 1), label="a row whose greatest is another")
    ends.greatest[row] += data.draw(st.sampled_from([0, 0, 1, 1000]), label="by so much")

    column = encode(sketches, ends)

    assert [value is None for value in column] == [not part for part in parts]
    assert same(decode(column, ends), sketches)


def test_many_sketches_come_back_from_their_bytes_as_they_were() -> None:
    rng = np.random.default_rng(1)
    size = 20_000
    place = rng.integers(0, size, 5 * size)  # some hold nothing
    sketches = kept(sketch(place, rng.integers(0, 10 ** rng.integers(1, 9, place.size)), size))
    ends = ends_of(sketches)

    assert same(decode(encode(sketches, ends), ends), sketches)


def test_bytes_leave_out_the_least_and_greatest_value_that_their_row_has() -> None:
    sketches = of([[900, 910, 910, 5_000], [900, 900], [7]])
    ends = ends_of(sketches)

    column = encode(sketches, ends)

    assert [list(value) for value in column] == [
        [4 + 4, 0xF5, 0x3F, 0],  # 910 twice, 4,090 below the last
        [4 + 4 + 2, 0],
        [4 + 4],
    ]
    of_row = encode(sketches, Ends(least=no_ends(3).least, greatest=ends.greatest))
    assert list(of_row[0]) == [4, 10 * 2, 0xF5, 0x3F, 0]


@given(values=st.lists(LAGS, min_size=1, max_size=200), percent=st.sampled_from([50, 95, 99]))
def test_quantiles_are_exact_for_few_values_and_within_a_percent_for_many(values, percent) -> None:
    exact = sorted(values)[-(-len(values) * percent // 100) - 1]

    found = int(of([values]).quantile(percent)[0])

    if len(set(values)) <= MOST:
        assert found == exact
    else:
        assert abs(found - exact) <= exact / 100


@given(values=st.lists(LAGS, min_size=2, max_size=50))
def test_bins_stay_where_they_are_and_keep_the_order(values) -> None:
    value = np.sort(np.array(values, np.int64))

    middle = bins(value)

    assert np.array_equal(bins(middle), middle)
    assert bool(np.all(np.diff(middle) >= 0))


@given(values=st.lists(LAGS, min_size=1, max_size=50))
def test_a_bin_has_a_number_and_numbers_have_no_holes(values) -> None:
    middle = bins(np.array(values, np.int64))

    assert np.array_equal(bin_middles(bin_numbers(middle)), middle)
    number = np.arange(3600)  # beyond are no numbers of 63 bits
    assert np.array_equal(bin_numbers(bin_middles(number)), number)


@given(values=st.lists(LAGS, min_size=1, max_size=200), percent=st.sampled_from([50, 95, 99]))
def test_a_sketch_that_is_not_kept_is_exact(values, percent) -> None:
    whole = sketch(np.zeros(len(values), np.int64), np.array(values, np.int64), 1)

    assert int(whole.quantile(percent)[0]) == sorted(values)[-(-len(values) * percent // 100) - 1]


def test_bytes_of_earlier_releases_are_read_and_merged() -> None:
    exact = bytes([0, 5, 1, 3, 2])  # 5 once, 8 twice
    binned = bytes([1, 0x81, 1, 4, 2, 1])  # middles 129 four times, 131 once

    old = decode([exact, None, binned], no_ends(3))

    assert (old.value.tolist(), old.count.tolist()) == ([5, 8, 129, 131], [1, 2, 4, 1])
    assert old.binned.tolist() == [False, False, True]
    both = concat_sketches([old, decode(encode(old, ends_of(old)), ends_of(old))])
    merged = merge_sketches(both, np.zeros(6, np.int64), 1)
    assert merged.totals().tolist() == [16]


def test_bytes_with_all_entries_are_read_whatever_the_row_has() -> None:
    exact = bytes([2, 10, 7, 0])  # 5 once, 8 twice
    binned = bytes([3, 0x83, 2, 2, 2])  # numbers of bins 129 four times, 130 once

    found = decode([exact, binned], Ends(least=np.array([5, -1]), greatest=np.array([8, -1])))

    assert found.value.tolist() == [5, 8, *bin_middles(np.array([129, 130])).tolist()]
    assert found.count.tolist() == [1, 2, 4, 1]
    assert found.binned.tolist() == [False, True]


def test_a_sketch_of_nothing_knows_no_quantile() -> None:
    assert of([[], [7]]).quantile(50).tolist() == [-1, 7]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x00\x01", "ends within an entry"),
        (b"\x02\x01", "ends within an entry"),
        (b"\x03\x02\x01", "ends within an entry"),
        (b"\x00\x01\x80", "ends within a number"),
        (b"\x14\x01\x01", "unknown form"),
        (b"\x04\x01", "ends within an entry"),
        (b"\x06", "ends within an entry"),
        (b"\x0e\x01", "ends within an entry"),
        (b"\x04\x16", "does not fit"),  # 11 below the greatest
        (b"\x08\x10", "does not fit"),  # not above the least
        (b"\x00\x01" + b"\xff" * 10 + b"\x01", "too large"),
    ],
)
def test_bytes_that_are_no_sketch_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode([data], Ends(least=np.array([2]), greatest=np.array([10])))


def test_a_sketch_without_the_values_of_its_row_is_refused() -> None:
    with pytest.raises(ValueError, match="without the least or greatest value"):
        decode([b"\x04"], no_ends(1))
    with pytest.raises(ValueError, match="without the least or greatest value"):
        decode([b"\x08"], Ends(least=np.array([-1]), greatest=np.array([10])))

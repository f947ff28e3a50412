"""Laws of the quantile sketches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.rollup.encode import decode, encode
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


@given(parts=PARTS)
def test_a_sketch_comes_back_from_its_bytes_as_it_was(parts) -> None:
    sketches = of(parts)

    column = encode(sketches)

    assert [value is None for value in column] == [not part for part in parts]
    assert same(decode(column), sketches)


def test_many_sketches_come_back_from_their_bytes_as_they_were() -> None:
    rng = np.random.default_rng(1)
    size = 20_000
    place = rng.integers(0, size, 5 * size)  # some hold nothing
    sketches = kept(sketch(place, rng.integers(0, 10 ** rng.integers(1, 9, place.size)), size))

    assert same(decode(encode(sketches)), sketches)


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

    old = decode([exact, None, binned])

    assert (old.value.tolist(), old.count.tolist()) == ([5, 8, 129, 131], [1, 2, 4, 1])
    assert old.binned.tolist() == [False, False, True]
    both = concat_sketches([old, decode(encode(old))])
    merged = merge_sketches(both, np.zeros(6, np.int64), 1)
    assert merged.totals().tolist() == [16]
    assert same(decode(encode(old)), old)


def test_a_sketch_of_nothing_knows_no_quantile() -> None:
    assert of([[], [7]]).quantile(50).tolist() == [-1, 7]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x00\x01", "ends within an entry"),
        (b"\x02\x01", "ends within an entry"),
        (b"\x03\x02\x01", "ends within an entry"),
        (b"\x00\x01\x80", "ends within a number"),
        (b"\x04\x01\x01", "unknown form"),
        (b"\x00\x01" + b"\xff" * 10 + b"\x01", "too large"),
    ],
)
def test_bytes_that_are_no_sketch_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode([data])

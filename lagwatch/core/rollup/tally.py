"""Counts of a bucket, in a form that adds up exactly to longer buckets.

Everything is integers: sums do not depend on their order. -1 is unknown; a sum is unknown
only when all its parts are.
"""

from dataclasses import dataclass, fields
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.record import BY_WORST, Text
from lagwatch.core.rollup.sketch import (
    Sketches,
    concat_sketches,
    merge_sketches,
    sketch,
    take_sketches,
)

Int64 = NDArray[np.int64]
Index = NDArray[np.intp]

STATUSES: Final = len(BY_WORST)
_GREATEST: Final = np.iinfo(np.int64).max
_SUMMED: Final = (
    *("samples", "lag_known", "lag_sum", "produced", "produced_ms", "consumed", "consumed_ms"),
    "commits",
)
_WORST: Final = ("lag_max", "time_lag_max_ms", "worst", "source")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Counts of many buckets; every column is [buckets] unless it says otherwise."""

    samples: Int64
    """Rounds in which there was a sample."""
    lag_known: Int64
    lag_sum: Int64
    lag_min: Int64
    lag_max: Int64
    time_lag_max_ms: Int64
    worst: Int64
    """Place of the worst status in `BY_WORST`."""
    held_ms: Int64
    """[buckets, statuses of `BY_WORST`]: time in each."""
    produced: Int64
    produced_ms: Int64
    """The time in which that was measured."""
    consumed: Int64
    consumed_ms: Int64
    commits: Int64
    rebalances: Int64
    owner_lag: Int64
    """The greatest lag of a partition whose owner is known."""
    owner: Text
    """The owner of that partition; of several the first by name."""
    source: Int64
    """The greatest `SOURCE_RANK` of its samples."""
    lag: Sketches
    time_lag: Sketches
    """Whole milliseconds."""

    @property
    def size(self) -> int:
        """Number of buckets."""
        return int(self.samples.size)

    def take(self, index: Index) -> "Tally":
        """The buckets at these positions, in this order."""
        return Tally(
            **{name: getattr(self, name)[index] for name in _NUMBERS},
            owner=self.owner.take(index),
            lag=take_sketches(self.lag, index),
            time_lag=take_sketches(self.time_lag, index),
        )


_NUMBERS: Final = tuple(
    field.name for field in fields(Tally) if field.name not in {"owner", "lag", "time_lag"}
)


def nothing(size: int) -> Tally:
    """Buckets of which nothing is known."""
    zeros, unknown = np.zeros(size, np.int64), np.full(size, UNKNOWN, np.int64)
    none = np.zeros(0, np.int64)
    return Tally(
        samples=zeros,
        lag_known=zeros,
        lag_sum=zeros,
        lag_min=unknown,
        lag_max=unknown,
        time_lag_max_ms=unknown,
        worst=unknown,
        held_ms=np.full((size, STATUSES), UNKNOWN, np.int64),
        produced=unknown,
        produced_ms=unknown,
        consumed=unknown,
        consumed_ms=unknown,
        commits=unknown,
        rebalances=unknown,
        owner_lag=unknown,
        owner=Text.same(None, size),
        source=unknown,
        lag=sketch(none, none, size),
        time_lag=sketch(none, none, size),
    )


def concat_tallies(parts: list[Tally]) -> Tally:
    """One after another."""
    return Tally(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in _NUMBERS},
        owner=_joined([part.owner for part in parts]),
        lag=concat_sketches([part.lag for part in parts]),
        time_lag=concat_sketches([part.time_lag for part in parts]),
    )


def merge_tallies(tally: Tally, place: Int64, size: int) -> Tally:
    """`size` buckets: each of `tally` goes into the one at its `place`."""
    summed = {name: sums(getattr(tally, name), place, size) for name in _SUMMED}
    worst = {name: greatest(getattr(tally, name), place, size) for name in _WORST}
    held = [sums(tally.held_ms[:, status], place, size) for status in range(STATUSES)]
    owner_lag, owner = worst_owner(tally.owner_lag, tally.owner, place, size)
    return Tally(
        **summed,
        **worst,
        held_ms=np.stack(held, axis=1),
        lag_min=least(tally.lag_min, place, size),
        rebalances=sums(tally.rebalances, place, size),
        owner_lag=owner_lag,
        owner=owner,
        lag=merge_sketches(tally.lag, place, size),
        time_lag=merge_sketches(tally.time_lag, place, size),
    )


def sums(values: Int64, place: Int64, size: int) -> Int64:
    """Sums of what is known, by place; unknown where nothing is."""
    known = values >= 0
    if not known.all():
        values, place = values[known], place[known]
    total = np.zeros(size, np.int64)
    # `add.at` counts repeated places, which `total[place] += values` would not
    np.add.at(total, place, values)
    seen = np.zeros(size, np.bool_)
    seen[place] = True
    total[~seen] = UNKNOWN
    return total


def greatest(values: Int64, place: Int64, size: int) -> Int64:
    """The greatest value, by place; unknown where nothing is known."""
    most = np.full(size, UNKNOWN, np.int64)
    np.maximum.at(most, place, values)
    return most


def least(values: Int64, place: Int64, size: int) -> Int64:
    """The least value that is known, by place; unknown where nothing is."""
    known = values >= 0
    smallest = np.full(size, _GREATEST, np.int64)
    np.minimum.at(smallest, place[known], values[known])
    smallest[smallest == _GREATEST] = UNKNOWN
    return smallest


def worst_owner(lag: Int64, owner: Text, place: Int64, size: int) -> tuple[Int64, Text]:
    """The greatest lag of those whose owner is known, and its owner, by place."""
    owner = in_order(owner)
    lag = np.where(owner.codes < 0, UNKNOWN, lag)
    most = greatest(lag, place, size)
    # of equal lags the first name decides, whatever the order in which buckets are merged
    theirs = np.flatnonzero((lag >= 0) & (lag == most[place]))
    no_owner = len(owner.words)
    first = np.full(size, no_owner, np.int64)
    np.minimum.at(first, place[theirs], owner.codes[theirs].astype(np.int64))
    first[first == no_owner] = UNKNOWN
    return most, Text(first.astype(np.int32), owner.words)


def in_order(text: Text) -> Text:
    """The text with its dictionary sorted: codes compare as words do."""
    words = tuple(sorted(set(text.words)))
    return text if words == text.words else Text(text.ranks().astype(np.int32), words)


def _joined(texts: list[Text]) -> Text:
    first = np.cumsum([0, *(len(text.words) for text in texts)])
    codes = [
        np.where(text.codes < 0, UNKNOWN, text.codes + start)
        for text, start in zip(texts, first[:-1].tolist(), strict=True)
    ]
    words = [word for text in texts for word in text.words]
    return Text.coded(np.concatenate(codes).astype(np.int32), words)

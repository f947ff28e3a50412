"""Between tallies and the rows of a roll-up as they are stored."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.record import BY_WORST, SCHEMA_VERSION, SOURCE_RANK, Kind, Records, Text, Values
from lagwatch.core.record import schema as columns_of
from lagwatch.core.record.columns import ROLLUP_STEP_MS
from lagwatch.core.rollup.encode import Ends, decode, encode
from lagwatch.core.rollup.sketch import kept
from lagwatch.core.rollup.tally import Tally

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketSpan:
    """Buckets of a kind of roll-up, from the begin of one to the begin of another."""

    kind: Kind
    from_ms: int
    to_ms: int

    @property
    def step_ms(self) -> int:
        """Length of a bucket."""
        return ROLLUP_STEP_MS[self.kind]

    @property
    def finest(self) -> "BucketSpan":
        """The same time in buckets of five minutes."""
        return BucketSpan(kind=Kind.ROLLUP_5M, from_ms=self.from_ms, to_ms=self.to_ms)

    @property
    def buckets(self) -> int:
        """Number of buckets."""
        return (self.to_ms - self.from_ms) // self.step_ms

    def within(self, at_ms: Int64) -> NDArray[np.bool_]:
        """Mask of the instants in the span."""
        return (at_ms >= self.from_ms) & (at_ms < self.to_ms)

    def cells(self, series: Int64, at_ms: Int64) -> Int64:
        """One number for series and bucket; sorted as these are."""
        return series * self.buckets + (at_ms - self.from_ms) // self.step_ms

    def moved_cells(self, cell: Int64, series: Int64) -> Int64:
        """The cells of the same buckets in other series: `series[n]` in the place of n."""
        return series[cell // self.buckets] * self.buckets + cell % self.buckets


Float64 = NDArray[np.float64]

GROUP: Final = "group"
PARTITION: Final = "partition"
TOPIC: Final = "topic"

_NUMBERS: Final = (
    *("samples", "lag_known", "lag_sum", "lag_min", "lag_max", "produced", "consumed"),
    *("commits", "rebalances", "owner_lag"),
)
_SOURCES: Final = tuple(map(str, sorted(SOURCE_RANK, key=SOURCE_RANK.__getitem__)))
_HELD: Final = {
    name: place
    for place, word in enumerate(BY_WORST)
    if (name := f"{word.lower()}_s") in columns_of(Kind.ROLLUP_5M)
}
"""Column of each status that has one, and its place in `held_ms`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Keys of the rows; all [rows]."""

    cluster: Text
    level: Text
    group: Text
    topic: Text
    partition: NDArray[np.int32]
    bucket_ms: Int64


def to_records(kind: Kind, keys: Keys, tally: Tally) -> Records:
    """Rows as they are stored, with all that follows from what was counted.

    Quantiles of five minutes are of all values; those of longer buckets of what is kept of them.
    """
    lag, time_lag = kept(tally.lag), kept(tally.time_lag)
    if kind is not Kind.ROLLUP_5M:
        tally = replace(tally, lag=lag, time_lag=time_lag)
    seconds = {name: _seconds(tally.held_ms[:, place]) for name, place in _HELD.items()}
    columns: dict[str, Values] = {
        "cluster": keys.cluster,
        "level": keys.level,
        "group": keys.group,
        "topic": keys.topic,
        "partition": keys.partition,
        "bucket_ms": keys.bucket_ms,
        **{name: getattr(tally, name) for name in _NUMBERS},
        "lag_avg": _ratio(tally.lag_sum, tally.lag_known.astype(np.float64)),
        **{
            f"lag_p{percent}": _real(
                np.clip(tally.lag.quantile(percent), tally.lag_min, tally.lag_max)
            )
            for percent in (50, 95, 99)
        },
        "time_lag_max_s": _seconds(tally.time_lag_max_ms),
        "time_lag_p95_s": _seconds(np.minimum(tally.time_lag.quantile(95), tally.time_lag_max_ms)),
        "status": Text(tally.worst.astype(np.int32), BY_WORST),
        **seconds,
        "produced_s": _seconds(tally.produced_ms),
        "consumed_s": _seconds(tally.consumed_ms),
        "produced_per_s": _rounded(_ratio(tally.produced, _seconds(tally.produced_ms))),
        "consumed_per_s": _rounded(_ratio(tally.consumed, _seconds(tally.consumed_ms))),
        "owner": tally.owner,
        "lag_sketch": encode(lag, _ends_of_lag(tally.lag_min, tally.lag_max)),
        "time_lag_sketch": encode(time_lag, _ends_of_time_lag(tally.time_lag_max_ms)),
        "source": Text(tally.source.astype(np.int32), _SOURCES),
        "schema_version": np.full(tally.size, SCHEMA_VERSION, np.int32),
    }
    return Records(kind=kind, columns={name: columns[name] for name in columns_of(kind)})


def from_records(rows: Records) -> tuple[Keys, Tally]:
    """The inverse, of rows with all their columns.

    Raises:
        ValueError: a sketch cannot be decoded.
    """
    keys = Keys(
        cluster=rows.text("cluster"),
        level=rows.text("level"),
        group=rows.text("group"),
        topic=rows.text("topic"),
        partition=rows.numbers("partition").astype(np.int32),
        bucket_ms=rows.at_ms(),
    )
    held = np.full((rows.size, len(BY_WORST)), UNKNOWN, np.int64)
    for name, place in _HELD.items():
        held[:, place] = _milliseconds(rows.reals(name))
    numbers = {name: rows.numbers(name) for name in _NUMBERS}
    time_lag_max_ms = _milliseconds(rows.reals("time_lag_max_s"))
    of_lag = _ends_of_lag(numbers["lag_min"], numbers["lag_max"])
    tally = Tally(
        **numbers,
        time_lag_max_ms=time_lag_max_ms,
        worst=coded(rows.text("status"), BY_WORST),
        produced_ms=_measured_ms(rows, "produced", held),
        consumed_ms=_measured_ms(rows, "consumed", held),
        held_ms=held,
        owner=rows.text("owner"),
        source=coded(rows.text("source"), _SOURCES),
        lag=decode(_objects(rows, "lag_sketch"), of_lag),
        time_lag=decode(_objects(rows, "time_lag_sketch"), _ends_of_time_lag(time_lag_max_ms)),
    )
    return keys, tally


def coded(text: Text, words: tuple[str, ...]) -> Int64:
    """The place of each row's word among `words`; -1 for none and for one that is not there."""
    place = {word: index for index, word in enumerate(words)}
    table = np.array([*(place.get(word, UNKNOWN) for word in text.words), UNKNOWN], np.int64)
    return table[text.codes]


def _ends_of_lag(lag_min: Int64, lag_max: Int64) -> Ends:
    return Ends(least=lag_min, greatest=lag_max)


def _ends_of_time_lag(time_lag_max_ms: Int64) -> Ends:
    return Ends(least=np.full(time_lag_max_ms.size, UNKNOWN), greatest=time_lag_max_ms)


def _measured_ms(rows: Records, name: str, held_ms: Int64) -> Int64:
    """Time in which advances were measured.

    Rows of earlier releases lack it; they divided by the whole observed time.
    """
    measured_ms = _milliseconds(rows.reals(f"{name}_s"))
    silent = (measured_ms < 0) & (rows.numbers(name) >= 0)
    measured_ms[silent] = np.maximum(held_ms[silent], 0).sum(axis=1)
    return measured_ms


def _objects(rows: Records, name: str) -> NDArray[np.object_]:
    column = rows.columns[name]
    if isinstance(column, Text) or column.dtype.kind != "O":
        raise TypeError(f"{rows.kind}.{name} holds no bytes")
    return column.astype(np.object_, copy=False)


def _real(values: Int64) -> Float64:
    return np.where(values < 0, np.nan, values.astype(np.float64))


def _seconds(values_ms: Int64) -> Float64:
    return _real(values_ms) / 1000


def _milliseconds(values_s: Float64) -> Int64:
    return np.where(np.isnan(values_s), UNKNOWN, np.rint(np.nan_to_num(values_s) * 1000)).astype(
        np.int64
    )


def _ratio(value: Int64, by: Float64) -> Float64:
    """Unknown where either is, or where there is nothing to divide by."""
    known = (value >= 0) & (by > 0)
    ratio: Float64 = np.full(value.size, np.nan)
    np.divide(value, by, out=ratio, where=known)
    return ratio


def _rounded(rates: Float64) -> Float64:
    """To four digits: all the digits of a quotient take as much disk as three other columns."""
    some = rates > 0
    places = _RATE_DIGITS - 1 - np.floor(np.log10(rates, where=some, out=np.zeros(rates.size)))
    # to multiply by 0.01 would not give the nearest number to a decimal
    up, down = 10.0 ** np.maximum(places, 0), 10.0 ** np.maximum(-places, 0)
    found: Float64 = np.rint(rates * up / down) * down / up
    return found


_RATE_DIGITS: Final = 4
_WIDEST: Final = 2**62


def sorted_by(*columns: Int64) -> NDArray[np.intp] | None:
    """The stable order by the first column, then the second, and so on; None: it is that already.

    The columns together mostly fit one number, and sorting that is several times faster.
    """
    if columns[0].size == 0:
        return None
    packed = np.zeros(columns[0].size, np.int64)
    room = _WIDEST
    for column in columns:
        least = int(column.min())
        width = int(column.max()) - least + 1
        room //= width
        if room == 0:
            return np.lexsort(tuple(reversed(columns)))
        packed = packed * width + (column - least)
    if bool(np.all(packed[1:] >= packed[:-1])):
        return None
    return np.argsort(packed, kind="stable")


def changes(*columns: Int64) -> NDArray[np.bool_]:
    """Mask of rows in which any of these columns differs from the row before."""
    new = np.ones(columns[0].size, np.bool_)
    new[1:] = False
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return new

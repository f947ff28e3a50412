"""Chooses between buckets made anew and earlier ones when some of the source is missing."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.record import Records, SampleReason, Source, concat, is_word
from lagwatch.core.rollup.rows import coded

Int64 = NDArray[np.int64]


def lacks_rows(samples: Iterable[Records], rounds: Records, from_ms: int) -> bool:
    """Are some rows of partitions missing that the rounds from then on say were written?

    Or all rounds of an instant of which there are such rows. Of one cluster, the samples in parts.
    """
    regular = of_whole_rounds(rounds) & (rounds.at_ms() >= from_ms)
    instants = np.unique(rounds.at_ms()[regular])
    there = 0
    for rows in samples:
        at_ms = rows.at_ms()[of_whole_rounds(rows) & (rows.at_ms() >= from_ms)]
        if not np.isin(np.unique(at_ms), instants).all():
            return True
        there += at_ms.size
    return int(rows_written(rounds)[regular].sum()) > there


def rows_written(rounds: Records) -> Int64:
    """How many rows of partitions were written with each row of a group."""
    written = rounds.numbers("observed") - np.maximum(rounds.numbers("unchanged"), 0)
    return np.maximum(written, 0).astype(np.int64)


def of_whole_rounds(rows: Records) -> NDArray[np.bool_]:
    """Mask of rows of regular rounds, which are written whole.

    Of Telegraf's rounds groups and partitions come in documents of their own: some may be lost, or
    fall into the next round.
    """
    regular: NDArray[np.bool_] = is_word(rows.text("reason"), SampleReason.INTERVAL)
    return regular & ~is_word(rows.text("source"), Source.TELEGRAF)


def keep_fuller(
    made: Records, earlier: Records, *, of_equal: bool = True
) -> tuple[Records, Records]:
    """Of every bucket of a group, all its levels as made anew or as made earlier.

    Those made from more samples stay, and of equal ones the earlier unless `of_equal` is false,
    since some of the source may be missing now. Both have all columns and are of the same cluster
    and kind.

    Returns: all rows that stay, in no order; the earlier ones among them.
    """
    names = tuple(sorted({*made.text("group").words, *earlier.text("group").words}))
    begins = np.unique(np.concatenate([_begins(made), _begins(earlier)]))
    size = len(names) * begins.size
    of_made, of_earlier = (_places(rows, names, begins) for rows in (made, earlier))
    stays = np.bincount(of_earlier, minlength=size) > 0
    before, now = _samples(earlier, of_earlier, size), _samples(made, of_made, size)
    stays &= (before >= now) if of_equal else (before > now)
    kept = earlier.take(stays[of_earlier])
    return concat([made.take(~stays[of_made]), kept]), kept


def _begins(rows: Records) -> Int64:
    return rows.numbers("bucket_ms").astype(np.int64)


def _places(rows: Records, names: tuple[str, ...], begins: Int64) -> Int64:
    """The group and bucket of each row as one number."""
    group = coded(rows.text("group"), names)
    return group * begins.size + np.searchsorted(begins, _begins(rows))


def _samples(rows: Records, place: Int64, size: int) -> Int64:
    total = np.zeros(size, np.int64)
    # `add.at` counts repeated places, which `total[place] += …` would not
    np.add.at(total, place, np.maximum(rows.numbers("samples"), 0))
    return total

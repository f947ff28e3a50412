"""Roll-ups of roll-ups: the same, bit for bit, as roll-ups of the samples themselves."""

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.record import Kind, Records
from lagwatch.core.record.columns import ROLLUP_STEP_MS
from lagwatch.core.rollup.rows import Keys, changes, from_records, sorted_by, to_records
from lagwatch.core.rollup.tally import in_order, merge_tallies

Int64 = NDArray[np.int64]


def merge(rows: Records, kind: Kind) -> Records:
    """Rows of a roll-up, in any order, put into the buckets of `kind`; sorted by key.

    Raises:
        ValueError: a sketch cannot be decoded.
    """
    keys, tally = from_records(rows)
    bucket_ms = keys.bucket_ms - keys.bucket_ms % ROLLUP_STEP_MS[kind]
    first, place = _places(keys, bucket_ms)
    merged = merge_tallies(tally, place, first.size)
    found = Keys(
        cluster=keys.cluster.take(first),
        level=keys.level.take(first),
        group=keys.group.take(first),
        topic=keys.topic.take(first),
        partition=keys.partition[first],
        bucket_ms=bucket_ms[first],
    )
    return to_records(kind, found, merged)


def _places(keys: Keys, bucket_ms: Int64) -> tuple[NDArray[np.intp], Int64]:
    """A row of each bucket, by key, and for every row the number of its bucket."""
    words = (keys.cluster, keys.level, keys.group, keys.topic)
    columns: list[Int64] = [in_order(text).codes.astype(np.int64) for text in words]
    columns += [keys.partition.astype(np.int64), bucket_ms]
    order = sorted_by(*columns)
    if order is None:
        order = np.arange(bucket_ms.size)
    new = changes(*(column[order] for column in columns))
    place = np.empty(order.size, np.int64)
    place[order] = np.cumsum(new) - 1
    return order[new], place

"""Putting back the samples that thinning left out (`lagwatch.history.thinning`)."""

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.record import Reason, Records, Values, concat
from lagwatch.history.rows import in_time_order, is_word

Int64 = NDArray[np.int64]

ROUND_COLUMNS = ("at_ms", "observed_ms", "unchanged", "previous_ms", "reason")
"""What `expand` needs of `group_samples`."""


def expand(samples: Records, rounds: Records) -> Records:
    """Samples of partitions of one group, with those that were left out, by time.

    `rounds` are the group's own samples. Both must reach back to a round in which the group was
    written whole: what cannot be put back for want of it stays unknown, that is: left out.
    """
    regular = in_time_order(rounds.take(is_word(rounds.text("reason"), Reason.INTERVAL)))
    if samples.size == 0 or regular.size == 0:
        return in_time_order(samples) if samples.size else samples
    topic, partition = samples.text("topic").ranks(), samples.numbers("partition")
    order = np.lexsort((samples.at_ms(), partition, topic))
    ordered = samples.take(order)
    topic, partition = topic[order], partition[order]
    heads = np.flatnonzero(np.append(True, (np.diff(topic) != 0) | (np.diff(partition) != 0)))
    begin = _run_starts(regular)
    parts = [ordered]
    for first, last in zip(heads.tolist(), [*heads[1:].tolist(), ordered.size], strict=True):
        at_ms = ordered.at_ms()[first:last]
        row, number = _left_out(at_ms, regular, begin)
        if row.size:
            parts.append(_moved(ordered.take(first + row), regular.take(number)))
    return in_time_order(concat(parts))


def _run_starts(rounds: Records) -> Int64:
    """Per round the instant from which on rows still hold: that of the first of its run.

    A run begins with a round that is whole, or not linked to the one before.
    """
    at_ms = rounds.at_ms()
    previous = rounds.numbers("previous_ms")
    begins = rounds.numbers("unchanged") <= 0
    begins[0] = True
    begins[1:] |= previous[1:] != at_ms[:-1]
    first = np.maximum.accumulate(np.where(begins, np.arange(at_ms.size), 0))
    starts: Int64 = at_ms[first]
    return starts


def _left_out(at_ms: Int64, rounds: Records, begin: Int64) -> tuple[Int64, Int64]:
    """Of one partition: which of its rows stand for which rounds that have none of their own."""
    instant = rounds.at_ms()
    row = np.searchsorted(at_ms, instant, side="right") - 1
    last = np.where(row >= 0, at_ms[row], UNKNOWN)
    stands = (last >= begin) & (last != instant) & (rounds.numbers("unchanged") > 0)
    return row[stands], np.flatnonzero(stands)


def _moved(rows: Records, rounds: Records) -> Records:
    """Rows as they would have been written in these rounds."""
    columns: dict[str, Values] = dict(rows.columns)
    columns["at_ms"] = rounds.at_ms()
    if "observed_ms" in columns:
        columns["observed_ms"] = rounds.numbers("observed_ms")
    if "reason" in columns:
        columns["reason"] = rounds.text("reason")
    return Records(kind=rows.kind, columns=columns)

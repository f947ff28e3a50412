"""Which partition is in which row after the topics have been listed anew."""

from collections.abc import Iterable

import numpy as np

from lagwatch.core.model import UNKNOWN
from lagwatch.pollers.loop import Int64
from lagwatch.ports.kafka import TopicListing


def rows_before(before: TopicListing | None, now: TopicListing) -> Int64:
    """By row of `now`: the row of the same partition in `before`, or -1."""
    source = np.full(int(now.partitions.sum()), UNKNOWN, np.int64)
    if before is None:
        return source
    spans = dict(zip(before.names, _spans(before), strict=True))
    for name, span in zip(now.names, _spans(now), strict=True):
        old = spans.get(name)
        if old is not None:
            size = min(len(span), len(old))
            source[span.start : span.start + size] = np.arange(old.start, old.start + size)
    return source


def _spans(listing: TopicListing) -> Iterable[range]:
    ends = np.cumsum(listing.partitions.astype(np.int64)).tolist()
    return [
        range(end - size, end) for end, size in zip(ends, listing.partitions.tolist(), strict=True)
    ]

"""Ranks groups at an instant."""

from collections.abc import Iterable

import numpy as np

from lagwatch.core.record import Kind, Records, concat, from_rows
from lagwatch.ports.history import TopBy


def last_of_each(parts: Iterable[Records]) -> Records:
    """Of every cluster and group its last row."""
    found = list(parts)
    if not found:
        return from_rows(Kind.GROUP_SAMPLES, ())
    rows = concat(found)
    cluster, group = rows.text("cluster").ranks(), rows.text("group").ranks()
    order = np.lexsort((rows.at_ms(), group, cluster))
    last = np.ones(order.size, np.bool_)
    last[:-1] = (np.diff(cluster[order]) != 0) | (np.diff(group[order]) != 0)
    return rows.take(order[last])


def ranked(rows: Records, *, by: TopBy, limit: int) -> Records:
    """The first `limit` rows, greatest first, unknown last; ties by cluster, then group."""
    value = rows.reals("total_lag" if by is TopBy.LAG else "time_lag_s")
    descending = np.where(np.isnan(value), np.inf, -value)
    order = np.lexsort((rows.text("group").ranks(), rows.text("cluster").ranks(), descending))
    return rows.take(order[:limit])

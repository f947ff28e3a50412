"""From rows to groups: a group is as bad as its worst partition."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.layout import Layout
from lagwatch.core.model import UNKNOWN, GroupStatus, PartitionStatus, Rule
from lagwatch.core.snapshot import GroupColumns, GroupTimes, RowColumns
from lagwatch.core.time_lags import NOT_READ, TimesOfGroups, first_of

Int64 = NDArray[np.int64]
Int8 = NDArray[np.int8]

_SEVERITY: Int8 = np.arange(max(PartitionStatus) + 1, dtype=np.int8)
_SEVERITY[PartitionStatus.UNKNOWN] = GroupStatus.NOTFOUND  # makes no group worse
_NO_RANK: Final = UNKNOWN - 1


class Grouped:
    """The groups of a cluster from round to round: only those whose rows changed are rolled up."""

    def __init__(self) -> None:
        self._layout: Layout | None = None
        self.columns = _no_groups()

    def round(
        self,
        layout: Layout,
        rows: RowColumns,
        *,
        intervals: int,
        changed: NDArray[np.intp] | None,
        unread: Iterable[str] = (),
        to_come: Mapping[str, int] = {},
    ) -> GroupColumns:
        """The groups after these rows changed; None: all of them.

        `unread`: groups whose members hold partitions with messages, and have not committed there;
        `to_come`: how many of these they have not come to yet, of groups that work off a backlog.
        """
        if not layout.groups:
            self._layout, self.columns = layout, _no_groups()
            return self.columns
        if layout is not self._layout or changed is None or 2 * changed.size > rows.rule.size:
            self._roll_up_all(layout, rows, intervals)
        elif changed.size:
            self._roll_up(layout, rows, intervals, changed)
        self._layout = layout
        numbers = [layout.group_index[group] for group in unread if group in layout.group_index]
        times = TimesOfGroups(
            rows=rows, first=layout.group_first, unread=np.array(numbers, np.intp)
        )
        self.columns = replace(self.columns, times=times)
        index = layout.group_index
        known = {index[group]: count for group, count in to_come.items() if group in index}
        if not known:
            return self.columns
        unknown = self.columns.unknown.copy()
        unknown[list(known)] += list(known.values())
        return replace(self.columns, unknown=unknown)

    def _roll_up_all(self, layout: Layout, rows: RowColumns, intervals: int) -> None:
        every = np.arange(rows.rule.size)
        found = _rolled_up(rows, intervals, every, layout.group_first[:-1])
        self.columns = GroupColumns(
            first=layout.group_first,
            partition_count=layout.partition_count,
            complete=(found.pop("full") / layout.partition_count).astype(np.float32),
            status=found.pop("status").astype(np.int8),
            times=self.columns.times,
            **found,
        )

    def _roll_up(
        self,
        layout: Layout,
        rows: RowColumns,
        intervals: int,
        changed: NDArray[np.intp],
    ) -> None:
        first = layout.group_first
        groups = np.unique(np.searchsorted(first, changed, side="right") - 1)
        sizes = first[groups + 1] - first[groups]
        heads = np.cumsum(sizes) - sizes
        # the rows of these groups, one group after the other
        chosen = np.repeat(first[groups] - heads, sizes) + np.arange(int(sizes.sum()))
        found = _rolled_up(rows, intervals, chosen, heads)
        complete = self.columns.complete.copy()
        complete[groups] = found.pop("full") / layout.partition_count[groups]
        # a snapshot holds the columns: they are not written to any more
        columns = {name: getattr(self.columns, name).copy() for name in found}
        for name, values in found.items():
            columns[name][groups] = values
        self.columns = replace(self.columns, complete=complete, **columns)


def _rolled_up(rows: RowColumns, intervals: int, chosen: Int64, heads: Int64) -> dict[str, Int64]:
    """Columns of groups by name; `chosen` are their rows, each group's beginning at its head."""
    group = np.repeat(np.arange(heads.size), np.diff(heads, append=chosen.size))
    lag, readable = rows.lag[chosen], rows.readable_lag[chosen]
    commits = rows.commits[chosen]
    severity = _SEVERITY[rows.status[chosen]]
    worst = np.maximum.reduceat(severity, heads)
    # of equally bad partitions the one with the greatest lag decides rule and evidence
    rank = np.where(severity == worst[group], readable, _NO_RANK)
    status = np.minimum(worst, GroupStatus.ERR).astype(np.int64)
    status[worst == GroupStatus.NOTFOUND] = GroupStatus.UNKNOWN
    max_lag = np.maximum.reduceat(lag, heads)
    max_lag_row = chosen[first_of(lag, max_lag, group)]
    # a partition that was never committed has no lag that could be known, unless it is read
    unknown = (lag < 0) & ((commits > 0) | (rows.rule[chosen] == Rule.NEVER_COMMITS))
    return {
        "status": status,
        "worst_row": chosen[first_of(rank, np.maximum.reduceat(rank, heads), group)],
        "max_lag_row": np.where(max_lag >= 0, max_lag_row, UNKNOWN),
        # unknown lags (-1) must not take one away from the sum
        "total_lag": np.add.reduceat(np.maximum(lag, 0), heads),
        "readable_lag": np.add.reduceat(np.maximum(readable, 0), heads),
        "left_behind_lag": np.add.reduceat(
            np.where(NOT_READ[rows.rule[chosen]], np.maximum(lag, 0), 0), heads
        ),
        "since_ms": _oldest(rows.since_ms[chosen], heads),
        "full": np.add.reduceat((commits == intervals).astype(np.int64), heads),
        "unknown": np.add.reduceat(unknown.astype(np.int64), heads),
    }


def _oldest(since_ms: Int64, heads: Int64) -> Int64:
    """Per group: the earliest known instant; -1 when there is none."""
    never = np.iinfo(np.int64).max
    oldest: Int64 = np.minimum.reduceat(np.where(since_ms >= 0, since_ms, never), heads)
    return np.where(oldest == never, UNKNOWN, oldest)


def _no_groups() -> GroupColumns:
    none, small = np.zeros(0, np.int64), np.zeros(0, np.int8)
    return GroupColumns(
        first=np.zeros(1, np.int64),
        status=small,
        worst_row=none,
        max_lag_row=none,
        total_lag=none,
        readable_lag=none,
        left_behind_lag=none,
        since_ms=none,
        complete=np.zeros(0, np.float32),
        partition_count=none,
        unknown=none,
        times=lambda _: GroupTimes(none, small, none.astype(np.float32), none),
    )

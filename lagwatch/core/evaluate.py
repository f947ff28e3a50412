"""From windows and log ends to one immutable snapshot: partition verdicts, then group verdicts."""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.grouped import Grouped
from lagwatch.core.judged import Follow, Inputs, Judged, window_columns
from lagwatch.core.layout import Layout, RowIds, lay_out
from lagwatch.core.model import EpochMs, GroupInfo, Member
from lagwatch.core.snapshot import ClusterSnapshot, GroupColumns, RowColumns, TopicColumns

Rows = NDArray[np.integer]


class Evaluation:
    """The verdicts of one cluster from round to round. One owner calls."""

    def __init__(self) -> None:
        self._judged = Judged()
        self._grouped = Grouped()
        self._number = 0

    @property
    def changed(self) -> NDArray[np.intp] | None:
        """Positions of the rows that the last round judged; None: all."""
        return self._judged.changed

    def round(
        self, seen: Inputs, *, touched: Rows, whole: bool, follow: Follow
    ) -> Generator[None, None, Inputs]:
        """Judge as of `seen.now_ms`; pauses between blocks of rows, see `Judged.round`.

        Args:
            seen: the inputs of the round.
            touched: stored rows that changed since the last round.
            whole: judge all rows.
            follow: adds what follows from the verdicts.

        Returns:
            The inputs with that.
        """
        self._number += 1
        return self._judged.round(seen, touched=touched, whole=whole, follow=follow)

    def snapshot(
        self,
        cluster: str,
        seen: Inputs,
        *,
        at_ms: EpochMs,
        data_ms: EpochMs,
        topics: TopicColumns,
        info: Mapping[str, GroupInfo],
        owners: Mapping[str, Mapping[tuple[str, int], Member]],
        unread: Iterable[str] = (),
        to_come: Mapping[str, int] = {},
    ) -> ClusterSnapshot:
        """The verdicts of the round that ended, as of `seen.now_ms`: at most `at_ms`.

        `unread`: groups whose members hold partitions with messages, and have not committed there;
        `to_come`: how many of these they have not come to yet, of groups that work off a backlog.
        """
        rows, layout = self._judged.rows(seen, topics.read_ms), seen.layout
        group = self._grouped.round(
            layout,
            rows,
            intervals=seen.windows.intervals,
            changed=self._judged.changed,
            unread=unread,
            to_come=to_come,
        )
        if self._judged.compared:
            self._compare(layout, rows, seen.windows.intervals)
        return ClusterSnapshot(
            cluster=cluster,
            at_ms=at_ms,
            judged_ms=seen.now_ms,
            data_ms=data_ms,
            time_lags_ms=EpochMs(seen.read_ms),
            round=self._number,
            intervals=seen.windows.intervals,
            allowed_lag=seen.around.limits.allowed_lag,
            groups=layout.groups,
            group_index=layout.group_index,
            topic_names=layout.topic_names,
            topics=topics,
            rows=rows,
            group=group,
            info=info,
            owners=owners,
            rules=seen.rules,
            around=seen.around,
            to_come=to_come,
        )

    def _compare(self, layout: Layout, rows: RowColumns, intervals: int) -> None:
        afresh = Grouped().round(layout, rows, intervals=intervals, changed=None)
        for each in fields(GroupColumns):
            known, new = getattr(self._grouped.columns, each.name), getattr(afresh, each.name)
            if each.name != "times" and not np.array_equal(known, new):
                raise AssertionError(f"{each.name} of groups: {known}, now {new}")


__all__ = ["Evaluation", "Inputs", "Layout", "RowIds", "lay_out", "window_columns"]

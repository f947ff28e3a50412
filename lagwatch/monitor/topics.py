"""Compares lists of topics: finds new, deleted and re-created ones."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.snapshot import REPEATED, TopicColumns
from lagwatch.ports.reports import LogEnds, Topics

Int64 = NDArray[np.int64]


def no_topics() -> TopicColumns:
    """Before the first report."""
    none = np.zeros(0, np.int64)
    return TopicColumns(
        names=(),
        index={},
        first=np.zeros(1, np.int64),
        log_start=none,
        log_end=none,
        last_stable=none,
        leader=np.zeros(0, np.int32),
        ids=(),
        read_ms=none,
        removals=none,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChange:
    """Differences between two lists of topics."""

    columns: TopicColumns
    source: Int64
    """By new topic-partition: the old one it is, -1 for a new one."""
    recreated: tuple[str, ...]
    """Same name, another topic id."""
    gone: tuple[str, ...]


def change(before: TopicColumns, ids: dict[str, str], report: Topics) -> TopicChange:
    """Compare a report with the topics before; `ids` are the topic ids known so far, by name."""
    first = np.concatenate(([0], np.cumsum(report.partitions, dtype=np.int64)))
    index_of = {name: index for index, name in enumerate(report.names)}
    source = np.full(report.leader.size, UNKNOWN, np.int64)
    recreated = []
    for index, (name, topic_id) in enumerate(zip(report.names, report.ids, strict=True)):
        old = before.index.get(name, UNKNOWN)
        if topic_id and ids.get(name, topic_id) != topic_id:
            recreated.append(name)
        elif old >= 0:
            kept = min(first[index + 1] - first[index], before.first[old + 1] - before.first[old])
            source[first[index] : first[index] + kept] = before.first[old] + np.arange(kept)
    columns = TopicColumns(
        names=report.names,
        index=index_of,
        first=first,
        log_start=_carry(before.log_start, source),
        log_end=_carry(before.log_end, source),
        last_stable=_carry(before.last_stable, source),
        leader=report.leader,
        ids=tuple(
            topic_id or ids.get(name, "")
            for name, topic_id in zip(report.names, report.ids, strict=True)
        ),
        read_ms=_carry(before.read_ms, source),
        removals=_carry(before.removals, source),
    )
    return TopicChange(
        columns=columns,
        source=source,
        recreated=tuple(recreated),
        gone=tuple(name for name in before.names if name not in index_of),
    )


def _carry(column: Int64, source: Int64) -> Int64:
    """Old values at their new places; -1 for new partitions."""
    return np.append(column, UNKNOWN)[source]


def with_offsets(
    columns: TopicColumns, ends: LogEnds, log_end: Int64, read_ms: Int64
) -> TopicColumns:
    """The same topics with a new round of offsets; `log_end` as carried by the history."""
    log_start = np.where(ends.log_start >= 0, ends.log_start, columns.log_start)
    return TopicColumns(
        names=columns.names,
        index=columns.index,
        first=columns.first,
        log_start=log_start,
        log_end=log_end.copy(),
        last_stable=np.where(ends.last_stable >= 0, ends.last_stable, columns.last_stable),
        leader=columns.leader,
        ids=columns.ids,
        read_ms=read_ms.copy(),
        removals=_removals(columns, log_start),
    )


def _removals(before: TopicColumns, log_start: Int64) -> Int64:
    rose = np.minimum(before.removals + (log_start > before.log_start), REPEATED)
    # also of a log that begins anew, there is no knowing how often it rose before
    new = (before.log_start < 0) | (log_start < before.log_start)
    return np.where(new, removals_at_first(log_start), rose)


def removals_at_first(log_start: Int64) -> Int64:
    """How often log starts rose that are seen for the first time; -1 unknown."""
    return np.where(log_start > 0, REPEATED, np.minimum(log_start, 0))

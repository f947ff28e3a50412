"""What happened between two snapshots: verdicts changed, groups came, went or rebalanced."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN, GroupStatus, Rule
from lagwatch.core.record import (
    SCHEMA_VERSION,
    Capture,
    EventName,
    Kind,
    Records,
    SampleReason,
    Source,
    concat,
    from_rows,
    group_samples,
    samples,
    status_events,
)
from lagwatch.core.record.records import Value
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.history.match import group_of_rows, group_positions, positions, same_rows
from lagwatch.ports.queries import GroupEvent, Loss

Int64 = NDArray[np.int64]
Row = Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Rows to write at once; those of partitions and groups are made when they are asked for."""

    events: Records
    after: Capture
    interval_ms: int
    rows: NDArray[np.intp]
    """Partitions whose status changed, by row of the later snapshot."""
    group_rows: NDArray[np.intp]
    """Groups whose status changed."""

    @property
    def samples(self) -> Records:
        at_ms = self.after.snapshot.at_ms
        return samples(self.after, self.rows, at_ms=at_ms, reason=SampleReason.CHANGE)

    @property
    def groups(self) -> Records:
        return group_samples(
            self.after,
            self.group_rows,
            at_ms=self.after.snapshot.at_ms,
            reason=SampleReason.CHANGE,
            interval_ms=self.interval_ms,
        )

    @property
    def changed_groups(self) -> tuple[str, ...]:
        """Groups of the samples."""
        snapshot = self.after.snapshot
        numbers = np.unique(group_of_rows(snapshot)[self.rows]).tolist()
        return tuple(snapshot.groups[number] for number in numbers)

    @property
    def records(self) -> list[Records]:
        return [part for part in (self.samples, self.groups, self.events) if part.size]


def differ(before: Capture, new: ClusterSnapshot, rebalances: Mapping[str, int] | None) -> bool:
    """True if anything may have changed since. Cheap; True when in doubt."""
    old = before.snapshot
    return (
        not same_rows(old, new)
        or not np.array_equal(old.rows.status, new.rows.status)
        or not np.array_equal(old.group.status, new.group.status)
        or before.rebalances != rebalances
    )


def changed_status(old: ClusterSnapshot | None, new: ClusterSnapshot) -> frozenset[str]:
    """Groups that are new or have another status than before."""
    if old is None:
        return frozenset(new.groups)
    was = np.append(old.group.status, UNKNOWN)[group_positions(old, new)]
    return frozenset(new.groups[number] for number in np.flatnonzero(was != new.group.status))


def changes(before: Capture, after: Capture, *, interval_ms: int) -> Changes:
    """Changes between two captures of a cluster, at the instant of the later one."""
    old, new = before.snapshot, after.snapshot
    place = positions(old, new)
    rows = _changed(old.rows.status, new.rows.status, place)
    known = rows[place[rows] >= 0]
    of_rows = status_events(after, known, old.rows.status[place[known]])
    of_groups = from_rows(Kind.EVENTS, [*_group_events(before, after), *_rebalances(before, after)])
    return Changes(
        events=concat([part for part in (of_rows, of_groups) if part.size] or [of_groups]),
        after=after,
        interval_ms=interval_ms,
        rows=rows,
        group_rows=_changed(old.group.status, new.group.status, group_positions(old, new)),
    )


def _changed(before: NDArray[np.int8], after: NDArray[np.int8], place: Int64) -> NDArray[np.intp]:
    """Positions that are new, or had another status before."""
    return np.flatnonzero((place < 0) | (np.append(before, 0)[place] != after))


def event(cluster: str, at_ms: int, name: EventName, **values: Value) -> Row:
    """One row of kind `events`; the rest as named columns."""
    return {
        "cluster": cluster,
        "event": name.value,
        "at_ms": at_ms,
        "source": Source.LIVE.value,
        "schema_version": SCHEMA_VERSION,
        **values,
    }


def _group_events(before: Capture, after: Capture) -> Iterator[Row]:
    """Groups that changed their status, came or went."""
    old, new = before.snapshot, after.snapshot
    place = group_positions(old, new)
    for number in np.flatnonzero(np.append(old.group.status, UNKNOWN)[place] != new.group.status):
        was = int(place[number])
        worst = int(new.group.worst_row[number])
        insight = after.insights.get(new.groups[number])
        yield event(
            new.cluster,
            new.at_ms,
            EventName.GROUP_STATUS,
            group=new.groups[number],
            before=None if was < 0 else GroupStatus(int(old.group.status[was])).name,
            after=GroupStatus(int(new.group.status[number])).name,
            rule=None if worst < 0 else Rule(int(new.rows.rule[worst])).word,
            lag=int(new.group.total_lag[number]) if new.group.max_lag_row[number] >= 0 else None,
            cause=insight.cause if insight else None,
            cause_certainty=insight.cause_certainty if insight else None,
            detail=(insight.cause_text or None) if insight else None,
        )
    for name in set(old.groups).difference(new.groups) if old.groups is not new.groups else ():
        status = GroupStatus(int(old.group.status[old.group_index[name]]))
        yield event(
            new.cluster,
            new.at_ms,
            EventName.GROUP_STATUS,
            group=name,
            before=status.name,
            after=GroupStatus.NOTFOUND.name,
        )


def _rebalances(before: Capture, after: Capture) -> Iterator[Row]:
    snapshot = after.snapshot
    counted = before.rebalances or {}
    for group, total in (after.rebalances or {}).items():
        number = total - counted.get(group, 0)
        if number > 0:
            yield event(
                snapshot.cluster, snapshot.at_ms, EventName.REBALANCE, group=group, count=number
            )


def as_rows(cluster: str, events: Sequence[GroupEvent]) -> Records:
    """Events of groups as rows; of two with the same key the later one stays."""
    rows = {
        (
            group_event.group,
            group_event.topic,
            group_event.partition,
            group_event.event,
            group_event.at_ms,
        ): event(
            cluster,
            group_event.at_ms,
            EventName(group_event.event),
            group=group_event.group,
            topic=group_event.topic,
            partition=group_event.partition,
            before=group_event.before,
            after=group_event.after,
            rule=group_event.rule,
            lag=group_event.lag,
            count=group_event.count,
            detail=group_event.detail,
        )
        for group_event in events
    }
    return from_rows(Kind.EVENTS, list(rows.values()))


def as_events(cluster: str, losses: Sequence[Loss]) -> Records:
    """One row for each group-partition and instant: a second row would have the same key."""
    joined: dict[tuple[str, str, int, int], Loss] = {}
    lost: dict[tuple[str, str, int, int], int] = {}
    for loss in losses:
        key = (loss.group, loss.topic, loss.partition, loss.at_ms)
        joined[key] = _joined(joined[key], loss) if key in joined else loss
        lost[key] = lost.get(key, 0) + loss.messages
    rows = [_event(cluster, loss, lost[key]) for key, loss in joined.items()]
    return from_rows(Kind.EVENTS, rows)


def _joined(loss: Loss, other: Loss) -> Loss:
    return replace(
        loss,
        first=min(loss.first, other.first),
        end=max(loss.end, other.end),
        exact=loss.exact and other.exact,
    )


def _event(cluster: str, loss: Loss, messages: int) -> Row:
    return event(
        cluster,
        loss.at_ms,
        EventName.RECORDS_LOST,
        group=loss.group,
        topic=loss.topic,
        partition=loss.partition,
        count=messages,
        detail=loss.detail,
    )

"""The read side: snapshots → answers. Never waits, never asks Kafka."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from lagwatch.core.evaluate import Seen, evidence
from lagwatch.core.model import (
    STATUS_BY_RULE,
    UNKNOWN,
    EpochMs,
    GroupInfo,
    GroupStatus,
    GroupVerdict,
    Member,
    PartitionStatus,
    PartitionVerdict,
    Rule,
    TimeLagReason,
    UnknownReason,
    WindowEntry,
)
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.core.window import Entries, Windows
from lagwatch.errors import NotFoundError
from lagwatch.ports import ClusterHealth, GroupDetail, PartitionDetail

_RULES: Final = tuple(Rule)
"""By number."""
_REASONS: Final = tuple(TimeLagReason)
"""By number."""
_NOBODY: Final = Member(member_id="", client_id="", host="", instance_id="", assignment=())


class Moment(Protocol):
    """A cluster's newest snapshot and the windows behind it."""

    @property
    def snapshot(self) -> ClusterSnapshot | None: ...

    @property
    def windows(self) -> Windows: ...


class SnapshotQueries:
    """Answers from the newest snapshot of each cluster (`ports.Queries`)."""

    def __init__(
        self,
        moments: Mapping[str, Moment],
        *,
        health: Callable[[], tuple[ClusterHealth, ...]],
    ) -> None:
        self._moments = moments
        self._health = health
        self._clusters = tuple(sorted(moments))

    def clusters(self) -> tuple[str, ...]:
        return self._clusters

    def snapshot(self, cluster: str) -> ClusterSnapshot:
        snapshot = self._moment(cluster).snapshot
        if snapshot is None:
            raise NotFoundError(kind="snapshot", name=cluster)
        return snapshot

    def topics(self, cluster: str) -> tuple[str, ...]:
        snapshot = self._moment(cluster).snapshot
        return snapshot.topics.names if snapshot else ()

    def log_ends(self, cluster: str, topic: str) -> tuple[int | None, ...]:
        topics = self.snapshot(cluster).topics
        index = topics.index.get(topic)
        if index is None:
            raise NotFoundError(kind="topic", name=topic)
        ends = topics.log_end[topics.first[index] : topics.first[index + 1]].tolist()
        return tuple(None if end < 0 else end for end in ends)

    def groups(self, cluster: str) -> tuple[str, ...]:
        snapshot = self._moment(cluster).snapshot
        return snapshot.groups if snapshot else ()

    def groups_of_topic(self, cluster: str, topic: str) -> tuple[str, ...]:
        snapshot = self._moment(cluster).snapshot
        if snapshot is None or topic not in snapshot.topic_names:
            return ()
        rows = (snapshot.rows.topic == snapshot.topic_names.index(topic)).nonzero()[0]
        groups = snapshot.group.first.searchsorted(rows, side="right") - 1
        return tuple(snapshot.groups[group] for group in dict.fromkeys(groups.tolist()))

    def verdict(self, cluster: str, group: str, *, show_all: bool) -> GroupVerdict:
        reader = self._reader(cluster, group)
        return reader.verdict(show_all=show_all)

    def detail(self, cluster: str, group: str) -> GroupDetail:
        return self._reader(cluster, group).detail()

    def info(self, cluster: str, group: str) -> GroupInfo | None:
        return self.snapshot(cluster).info.get(group)

    def health(self) -> tuple[ClusterHealth, ...]:
        return self._health()

    def _moment(self, cluster: str) -> Moment:
        moment = self._moments.get(cluster)
        if moment is None:
            raise NotFoundError(kind="cluster", name=cluster)
        return moment

    def _reader(self, cluster: str, group: str) -> "_GroupReader":
        moment = self._moment(cluster)
        snapshot = moment.snapshot
        number = snapshot.group_index.get(group) if snapshot else None
        if snapshot is None or number is None:
            raise NotFoundError(kind="group", name=group)
        return _GroupReader(moment, snapshot, group, number)


class _Row(NamedTuple):
    """The numbers of one row of a snapshot."""

    topic: int
    partition: int
    at: int
    window: int
    rule: int
    commits: int
    lag: int
    lowest_lag: int
    time_lag_ms: int
    time_lag_reason: int


class _GroupReader:
    """One group in one snapshot."""

    def __init__(self, moment: Moment, snapshot: ClusterSnapshot, group: str, number: int) -> None:
        self._moment = moment
        self._snapshot = snapshot
        self._group = group
        self._number = number
        first = snapshot.group.first
        self._rows = range(int(first[number]), int(first[number + 1]))
        self._owners = snapshot.owners.get(group, {})

    def verdict(self, *, show_all: bool) -> GroupVerdict:
        snapshot, number = self._snapshot, self._number
        columns = snapshot.group
        max_lag_row = int(columns.max_lag_row[number])
        time_lag_ms = int(columns.time_lag_ms[number])
        return GroupVerdict(
            cluster=snapshot.cluster,
            group=self._group,
            at_ms=snapshot.at_ms,
            status=GroupStatus(int(columns.status[number])),
            rule=Rule(int(snapshot.rows.rule[columns.worst_row[number]])),
            complete=float(columns.complete[number]),
            partitions=self._all() if show_all else self._worse_than_ok(),
            partition_count=int(columns.partition_count[number]),
            max_lag=self._partitions([max_lag_row])[0] if max_lag_row >= 0 else None,
            total_lag=int(columns.total_lag[number]),
            unknown_partitions=int(columns.unknown[number]),
            time_lag_s=None if time_lag_ms < 0 else time_lag_ms / 1000,
            time_lag_reason=TimeLagReason(int(columns.time_lag_reason[number])),
        )

    def _worse_than_ok(self) -> tuple[PartitionVerdict, ...]:
        status = self._snapshot.rows.status[self._rows.start : self._rows.stop]
        worse = (status != PartitionStatus.OK).nonzero()[0] + self._rows.start
        return tuple(self._partitions(worse.tolist()))

    def _all(self) -> tuple[PartitionVerdict, ...]:
        """Every partition of every topic the group committed to."""
        committed = dict(zip(self._rows, self._partitions(list(self._rows)), strict=True))
        return tuple(
            _never_committed(topic, partition, self._owner(topic, partition))
            if row is None
            else committed[row]
            for topic, rows in self._topics().items()
            for partition, row in enumerate(rows)
        )

    def _topics(self) -> dict[str, list[int | None]]:
        """Topic → row by partition; None for partitions never committed."""
        snapshot = self._snapshot
        numbers = snapshot.rows.topic[self._rows.start : self._rows.stop].tolist()
        partitions = snapshot.rows.partition[self._rows.start : self._rows.stop].tolist()
        found: dict[str, list[int | None]] = {}
        for row, number, partition in zip(self._rows, numbers, partitions, strict=True):
            topic = snapshot.topic_names[number]
            if topic not in found:
                found[topic] = [None] * self._partitions_of(topic)
            rows = found[topic]
            rows += [None] * (partition + 1 - len(rows))
            rows[partition] = row
        return found

    def _partitions_of(self, topic: str) -> int:
        topics = self._snapshot.topics
        index = topics.index.get(topic)
        return 0 if index is None else int(topics.first[index + 1] - topics.first[index])

    def _owner(self, topic: str, partition: int) -> Member:
        return self._owners.get((topic, partition), _NOBODY)

    def _partitions(self, wanted: list[int]) -> list[PartitionVerdict]:
        """Verdicts of rows of the snapshot; read as columns, for a group may have thousands."""
        if not wanted:
            return []
        columns = self._snapshot.rows
        windows = columns.window[wanted]
        oldest, newest = self._moment.windows.oldest_and_newest(windows)
        rows = (
            columns.topic[wanted].tolist(),
            columns.partition[wanted].tolist(),
            columns.at[wanted].tolist(),
            windows.tolist(),
            columns.rule[wanted].tolist(),
            columns.commits[wanted].tolist(),
            columns.lag[wanted].tolist(),
            columns.lowest_lag[wanted].tolist(),
            columns.time_lag_ms[wanted].tolist(),
            columns.time_lag_reason[wanted].tolist(),
        )
        return [
            self._partition(_Row(*numbers), _entry(oldest, index), _entry(newest, index))
            for index, numbers in enumerate(zip(*rows, strict=True))
        ]

    def _partition(self, row: "_Row", start: WindowEntry, end: WindowEntry) -> PartitionVerdict:
        snapshot = self._snapshot
        topic = snapshot.topic_names[row.topic]
        owner = self._owner(topic, row.partition)
        rule = _RULES[row.rule]
        return PartitionVerdict(
            topic=topic,
            partition=row.partition,
            owner=owner.host,
            client_id=owner.client_id,
            instance_id=owner.instance_id,
            status=STATUS_BY_RULE[rule],
            rule=rule,
            evidence=evidence(self._seen(row, rule, start, end)),
            start=start,
            end=end,
            current_lag=None if row.lag < 0 else row.lag,
            complete=row.commits / snapshot.intervals,
            unknown_reason=self._unknown_reason(row.at) if row.lag < 0 else None,
            time_lag_s=None if row.time_lag_ms < 0 else row.time_lag_ms / 1000,
            time_lag_reason=_REASONS[row.time_lag_reason],
            lost=self._lost(row.at, end.offset),
        )

    def _seen(self, row: "_Row", rule: Rule, start: WindowEntry, end: WindowEntry) -> Seen:
        snapshot = self._snapshot
        return Seen(
            rule=rule,
            now_ms=snapshot.judged_ms,
            current_lag=row.lag,
            allowed_lag=snapshot.allowed_lag,
            commits=row.commits,
            start_offset=start.offset,
            end_offset=end.offset,
            start_ms=start.commit_ms,
            end_ms=end.commit_ms,
            start_lag=UNKNOWN if start.lag is None else start.lag,
            end_lag=UNKNOWN if end.lag is None else end.lag,
            lowest_lag=row.lowest_lag,
            recent_end=int(snapshot.recent_end[row.at]) if row.at >= 0 else UNKNOWN,
            rewind=snapshot.rewinds.get(row.window),
        )

    def _unknown_reason(self, at: int) -> UnknownReason:
        if at < 0:
            return UnknownReason.TOPIC_NOT_VISIBLE
        if self._snapshot.data_ms < 0:
            return UnknownReason.NOT_POLLED_YET
        if self._snapshot.topics.leader[at] < 0:
            return UnknownReason.NO_LEADER
        return UnknownReason.REFUSED

    def _lost(self, at: int, committed: int) -> int | None:
        log_start = int(self._snapshot.topics.log_start[at]) if at >= 0 else UNKNOWN
        return max(0, log_start - committed) if log_start >= 0 else None

    def detail(self) -> GroupDetail:
        return GroupDetail(
            topics={
                topic: tuple(
                    self._partition_detail(topic, partition, row)
                    for partition, row in enumerate(rows)
                )
                for topic, rows in self._topics().items()
            }
        )

    def _partition_detail(self, topic: str, partition: int, row: int | None) -> PartitionDetail:
        owner = self._owner(topic, partition)
        window: tuple[WindowEntry | None, ...] = ()
        lag = None
        if row is not None:
            held = self._moment.windows.entries(int(self._snapshot.rows.window[row]))
            entries = tuple(_entry(held, index) for index in range(len(held.offset)))
            window = (None,) * (self._snapshot.intervals - len(entries)) + entries
            lag = int(self._snapshot.rows.lag[row])
        return PartitionDetail(
            window=window,
            owner=owner.host,
            client_id=owner.client_id,
            current_lag=None if lag is None or lag < 0 else lag,
        )


def _entry(held: Entries, index: int) -> WindowEntry:
    lag = held.lag[index]
    return WindowEntry(
        offset=held.offset[index],
        commit_ms=EpochMs(held.commit_ms[index]),
        observed_ms=EpochMs(held.observed_s[index] * 1000),
        lag=None if lag < 0 else lag,
    )


def _never_committed(topic: str, partition: int, owner: Member) -> PartitionVerdict:
    return PartitionVerdict(
        topic=topic,
        partition=partition,
        owner=owner.host,
        client_id=owner.client_id,
        instance_id=owner.instance_id,
        status=PartitionStatus.OK,
        rule=Rule.NEVER_COMMITTED,
        evidence={"commits": 0},
        start=None,
        end=None,
        current_lag=None,
        complete=0.0,
        unknown_reason=None,
        time_lag_s=None,
        time_lag_reason=TimeLagReason.NEVER_COMMITTED,
        lost=None,
    )

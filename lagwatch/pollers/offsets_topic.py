"""Follows the offsets topic: commits, tombstones, and what groups write about themselves."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from lagwatch.core.wire import CommitKeys, Decoded, GroupProtocol, GroupRecord, decode
from lagwatch.errors import SourceError
from lagwatch.pollers.known import NamedIds, ReaderProgress, renew
from lagwatch.pollers.surroundings import Surroundings
from lagwatch.ports.kafka import ConsumedRecords, OffsetsTopicSource, Span
from lagwatch.ports.reports import Backlog, Commits, GroupsGone, SourceKind

HOLD_S: Final = 1.0
_OTHERS: Final = frozenset({GroupProtocol.SHARE, GroupProtocol.STREAMS})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    tombstone: GroupRecord
    due_s: float


class Tombstones:
    """Holds tombstones back until they are `HOLD_S` old."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}

    def __bool__(self) -> bool:
        """True if any is held back; positions must not be reported then."""
        return bool(self._held)

    def add(self, records: Iterable[GroupRecord], *, now_s: float) -> None:
        """Take tombstones in; drop those that a record of the other protocol follows."""
        for record in records:
            if record.removed:
                self._held[record.group] = _Held(tombstone=record, due_s=now_s + HOLD_S)
                continue
            held = self._held.get(record.group)
            if held is not None and held.tombstone.protocol is not record.protocol:
                del self._held[record.group]

    def due(self, *, now_s: float) -> GroupsGone | None:
        """Groups that are gone; None when no group is."""
        gone = [each.tombstone for each in self._held.values() if each.due_s <= now_s]
        if not gone:
            return None
        for tombstone in gone:
            del self._held[tombstone.group]
        return GroupsGone(
            groups=tuple(each.group for each in gone),
            orders=tuple(each.order for each in gone),
        )


_LOOK_FOR_TOPIC_S: Final = 1.0
_ABSENCES: Final = 2
_REPORT_BACKLOG_S: Final = 1.0
_LOG_BACKLOG_S: Final = 5.0

_log = structlog.get_logger(__name__)


class OffsetsTopicPoller:
    """Reads all partitions from the last position, or from the start or end of the topic."""

    source = SourceKind.OFFSETS_TOPIC

    def __init__(
        self,
        records: OffsetsTopicSource,
        around: Surroundings,
        *,
        cluster: str,
        topic: str,
        known: ReaderProgress,
        keys: CommitKeys,
        problems: Callable[[], Sequence[str]] = lambda: (),
        start: str,
        resume: Mapping[int, int],
        resume_id: str = "",
    ) -> None:
        """`resume_id` is the id of the topic that the positions `resume` are of; "" unknown.

        `problems` returns other reasons why commits are not known.
        """
        self._around = around
        self._source = records
        self._cluster = cluster
        self._topic = topic
        self._known = known
        self._start = start
        self._resume = resume
        self._resume_id = resume_id
        self._keys = keys
        self._named = NamedIds(keys)
        self._problems = problems
        self._positions: dict[int, int] = {}
        self._backlog: _Backlog | None = None
        self._absences = 0
        self._tombstones = Tombstones()
        self._generations: dict[str, int] = {}

    async def poll_once(self) -> Sequence[str]:
        """Read one batch and report its records."""
        if self._look_due():
            await self._look()
        if self._positions:
            records = await self._source.read()
            self._positions.update(records.positions)
            await self._take(records)
        else:
            await self._around.clock.sleep(_LOOK_FOR_TOPIC_S)
        await self._report_known()
        stuck = self._known.stuck()
        await renew(self._source, stuck, cluster=self._cluster, topic=self._topic)
        await self._report_gone()
        await self._report_backlog()
        await self._around.facts.send()
        return self._problems()

    def positions(self) -> Mapping[int, int]:
        """Partition → next offset to read; what is before it was sent."""
        return self._positions

    def _look_due(self) -> bool:
        return (
            self._around.topics.partitions_of(self._topic) > len(self._positions)
            or not self._positions
        )

    async def _look(self) -> None:
        """Find the topic's partitions; new partitions are read from their start."""
        spans = await self._source.spans()
        self._demand_visible(spans)
        new = {number: span for number, span in spans.items() if number not in self._positions}
        if self._backlog is None:
            replaced = self._resume_id not in ("", self._source.topic_id)
            if replaced:
                _log.warning("offsets_topic_replaced", topic=self._topic)
            positions = {
                number: span.start if replaced else self._first(number, span)
                for number, span in new.items()
            }
            ends = {number: span.end for number, span in new.items()}
            self._backlog = _Backlog(positions, ends, self._source.topic_id)
            await self._around.send(self._backlog.report(positions))
        else:
            positions = {number: span.start for number, span in new.items()}
            if self._backlog.topic_id != self._source.topic_id:  # the topic did not exist before
                self._backlog.topic_id = self._source.topic_id
                await self._around.send(self._backlog.report(self._positions))
        if new:
            self._positions.update(positions)
            await self._source.assign(self._positions)
            _log.info("offsets_topic_assigned", partitions=len(self._positions), new=len(new))

    def _demand_visible(self, spans: Mapping[int, Span]) -> None:
        """Check that the topic is visible.

        If groups exist without it twice in a row, it is hidden.
        """
        self._absences = self._absences + 1 if not spans and self._around.groups.any_listed() else 0
        if self._absences >= _ABSENCES:
            raise SourceError(
                cluster=self._cluster,
                kind="authorization",
                message=f"there are groups, yet {self._topic} does not exist or is hidden; "
                f"grant: Allow DESCRIBE and READ on TOPIC {self._topic}",
            )

    def _first(self, number: int, span: Span) -> int:
        position = self._resume.get(number)
        if position is not None and position <= span.end:
            return max(position, span.start)
        if position is not None:  # the topic was replaced, or cut short: none of it was read
            return span.start
        return span.start if self._start == "earliest" else span.end

    async def _take(self, records: ConsumedRecords) -> None:
        if not records.keys:
            return
        first_new_id = len(self._keys)
        decoded = decode(records.keys, records.values, records.orders, self._keys)
        self._around.facts.count_malformed(decoded.malformed)
        self._around.facts.show(decoded.quarantine)
        ours = [each for each in decoded.group_records if self._around.filters.group(each.group)]
        # the state of a share group is removed elsewhere: see `share_state`
        committing = [each for each in ours if each.protocol is not GroupProtocol.SHARE]
        self._tombstones.add(committing, now_s=self._around.clock.monotonic_s())
        for topic, topic_id, first_ms in self._named.new_in(decoded):
            self._around.topics.named(topic, topic_id, first_ms)
        # before the commits: offsets that members committed are not taken for a reset
        self._count_rebalances(ours)
        await self._send_commits(decoded, first_new_id)

    async def _send_commits(self, decoded: Decoded, first_new_id: int) -> None:
        groups, topics, partitions = self._keys.since(first_new_id)
        if topics:
            self._around.topics.mention(topics)
            self._around.groups.mention(groups)
        commits = Commits(
            first_new_id=first_new_id,
            new_groups=groups,
            new_topics=topics,
            new_partitions=partitions,
            key=decoded.key,
            offset=decoded.offset,
            commit_ms=decoded.commit_ms,
            order=decoded.order,
            observed_ms=self._around.clock.now_ms(),
            # a tombstone held back must be read again if we die
            positions={} if self._tombstones else dict(self._positions),
        )
        self._around.last.note(commits)
        if self._around.topics.gone:
            committed = self._keys.columns(decoded.key[decoded.offset >= 0])
            self._around.topics.committed_to(
                committed.topics[number] for number in set(committed.topic.tolist())
            )
        await self._around.send(commits)
        if self._is_ready() and decoded.key.size:
            known = self._keys.columns(decoded.key)
            self._around.groups.committed(known.groups[each] for each in set(known.group.tolist()))

    def _count_rebalances(self, records: Sequence[GroupRecord]) -> None:
        """A new generation or epoch is a rebalance; of the backlog it is not known how many."""
        for record in records:
            if record.generation is None:
                continue
            if record.protocol in _OTHERS:
                self._around.groups.is_kind(record.group, record.protocol.name.lower())
            before = self._generations.get(record.group)
            self._generations[record.group] = record.generation
            if not self._is_ready():
                self._around.groups.rebalanced_before(record.group)
            elif before != record.generation:
                self._around.groups.rebalanced(record.group, emptied=record.emptied)

    def _is_ready(self) -> bool:
        return self._backlog is not None and self._backlog.ready

    async def _report_known(self) -> None:
        """Report known commits, after those commits: reports keep their order."""
        known = self._known.read(self._positions)
        if known is not None:
            await self._around.send(known)

    async def _report_gone(self) -> None:
        gone = self._tombstones.due(now_s=self._around.clock.monotonic_s())
        if gone is None:
            return
        for group in gone.groups:
            self._generations.pop(group, None)
        await self._around.send(gone)
        _log.info("groups_gone", groups=len(gone.groups))

    async def _report_backlog(self) -> None:
        if self._backlog is None or self._backlog.ready:
            return
        report = self._backlog.advance(self._positions, now_s=self._around.clock.monotonic_s())
        if report is not None:
            await self._around.send(report)


class _Backlog:
    """Progress in reading what the topic held at the start."""

    def __init__(
        self, positions: Mapping[int, int], ends: Mapping[int, int], topic_id: str
    ) -> None:
        self.topic_id = topic_id
        self._first = dict(positions)
        self._ends = dict(ends)
        self._reported_s = 0.0
        self._logged_s = 0.0
        self.ready = not any(ends[each] > positions[each] for each in ends)

    def report(self, positions: Mapping[int, int]) -> Backlog:
        read = sum(
            max(0, min(positions.get(each, first), self._ends[each]) - first)
            for each, first in self._first.items()
        )
        total = sum(max(0, end - self._first[each]) for each, end in self._ends.items())
        return Backlog(read=read, total=total, ready=self.ready, topic_id=self.topic_id)

    def advance(self, positions: Mapping[int, int], *, now_s: float) -> Backlog | None:
        """Progress once a second, and at once when all is read."""
        self.ready = all(positions.get(each, 0) >= end for each, end in self._ends.items())
        if not self.ready and now_s - self._reported_s < _REPORT_BACKLOG_S:
            return None
        self._reported_s = now_s
        report = self.report(positions)
        if self.ready:
            _log.info("backlog_read", records=report.total)
        elif now_s - self._logged_s >= _LOG_BACKLOG_S:
            self._logged_s = now_s
            _log.info("backlog_progress", read=report.read, total=report.total)
        return report

"""Polls groups whose commits wait behind an open transaction of the offsets topic.

A read_committed reader gets nothing of a partition behind its last stable offset, also not the
commits of groups that have no part in the transaction. Kafka answers a request for committed
offsets with the last stable commit, never with the pending one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import structlog

from lagwatch.core.model import UNKNOWN, EpochMs, offsets_partition
from lagwatch.core.wire import CommitKeys
from lagwatch.errors import SourceError
from lagwatch.pollers.facts import sentences
from lagwatch.pollers.known import ReaderProgress
from lagwatch.pollers.loop import EndsRound, PartitionEnds
from lagwatch.pollers.surroundings import Surroundings
from lagwatch.ports.kafka import CommittedOffsets, CommittedSource, GroupSource, LogEndSource
from lagwatch.ports.reports import Commits, SourceKind

_HELD_MS: Final = 2_000
"""Polling begins after this time: most transactions end earlier, and the reader continues."""
_POLL_EVERY_S: Final = 4.0
_OLD_MS: Final = 5_000
"""Log ends older than this are requested again."""
_NAMES: Final = 100_000

_log = structlog.get_logger(__name__)


class HeldPoller:
    """Watches the last stable offsets of the offsets topic, and polls while one does not move."""

    source = SourceKind.COMMITTED

    def __init__(
        self,
        committed: CommittedSource,
        listing: GroupSource,
        log_ends: LogEndSource,
        around: Surroundings,
        *,
        offsets_topic: str,
        keys: CommitKeys,
        known: ReaderProgress,
        positions: Callable[[], Mapping[int, int]],
        active: Callable[[], bool],
    ) -> None:
        """`keys` and `last` are those of the reader, `positions` returns how far it has read.

        Nothing is asked unless `active`.
        """
        self._around = around
        self._committed = committed
        self._listing = listing
        self._log_ends = log_ends
        self._offsets_topic = offsets_topic
        self._keys = keys
        self._known = known
        self._positions = positions
        self._active = active
        self._ends: PartitionEnds | None = None
        self._behind: dict[int, tuple[int, int]] = {}
        """Partition → (last stable offset, since when it is behind the log end)."""
        self._held: frozenset[int] = frozenset()
        self._asked_ms: dict[str, int] = {}
        self._polled_s = -_POLL_EVERY_S
        self._problems: tuple[str, ...] = ()
        self._partition_of = lru_cache(maxsize=_NAMES)(offsets_partition)

    @property
    def problems(self) -> Sequence[str]:
        """Why groups of held partitions could not be polled."""
        return self._problems

    def note(self, seen: EndsRound) -> None:
        """Take a round of log ends in."""
        if seen.offsets_topic is not None:
            self._take_ends(seen.offsets_topic)

    async def poll_once(self) -> Sequence[str]:
        """Look at the last stable offsets where that is due, and poll what is held back."""
        if not self._active():
            return ()
        await self._look()
        self._hold()
        if not self._held:
            self._problems = ()
            return ()
        if self._around.clock.monotonic_s() - self._polled_s >= _POLL_EVERY_S:
            self._polled_s = self._around.clock.monotonic_s()
            try:
                await self._poll()
            except SourceError as error:
                self._problems = (str(error),)
                raise
        return self._problems

    async def _look(self) -> None:
        topic = self._around.topics.any_listing(self._offsets_topic)
        old = self._ends is None or self._around.clock.now_ms() - self._ends.started_ms > _OLD_MS
        if topic is None or not (self._behind or old):
            return
        started_ms = self._around.clock.now_ms()
        answer = await self._log_ends.log_ends(topic, with_log_start=False)
        self._take_ends(
            PartitionEnds(
                started_ms=started_ms, log_end=answer.log_end, last_stable=answer.last_stable
            )
        )

    def _take_ends(self, ends: PartitionEnds) -> None:
        if self._ends is not None and ends.started_ms < self._ends.started_ms:
            return
        self._ends = ends
        behind = np.flatnonzero((ends.last_stable >= 0) & (ends.last_stable < ends.log_end))
        before, self._behind = self._behind, {}
        for number in behind.tolist():
            last_stable = int(ends.last_stable[number])
            known = before.get(number)
            same = known is not None and known[0] == last_stable
            self._behind[number] = known if known and same else (last_stable, ends.started_ms)

    def _hold(self) -> None:
        now_ms = self._around.clock.now_ms()
        # the reader first reads what it can: else those commits would come late
        read = self._positions()
        held = frozenset(
            each
            for each, (last_stable, since_ms) in self._behind.items()
            if now_ms - since_ms > _HELD_MS and read.get(each, UNKNOWN) >= last_stable
        )
        if held == self._held:
            return
        _log.info("offsets_partitions_held", partitions=sorted(held))
        self._held = held
        self._known.poll_instead(held)
        size = self._size()
        self._asked_ms = {
            group: asked_ms
            for group, asked_ms in self._asked_ms.items()
            if self._partition_of(group, size) in held
        }

    def _size(self) -> int:
        return 0 if self._ends is None else self._ends.log_end.size

    async def _poll(self) -> None:
        """Poll all groups of the held partitions; they are known up to the start of the poll."""
        poll = _Poll(self._held, self._ends, self._around.clock.now_ms())
        listing = await self._listing.list_groups()
        listed = (*(each.name for each in listing.groups), *listing.others)
        names = self._held_groups((*self._keys.groups, *listed))
        async for answers in self._committed.committed(names):
            await self._take(answers, poll)
        self._around.facts.unseen(
            "held",
            sentences(
                poll.refused,
                "group {name}: its commits cannot be followed while a transaction is open; grant: "
                "Allow DESCRIBE on GROUP {name}",
            ),
        )
        self._problems = tuple(dict.fromkeys([*filter(None, [listing.problem]), *poll.problems]))
        if not listing.problem:
            whole = poll.partitions - {self._partition(name) for name in poll.missed}
            await self._around.send(self._known.polled(whole, poll.started_ms))

    def _partition(self, group: str) -> int:
        return self._partition_of(group, self._size())

    def _held_groups(self, names: Iterable[str]) -> list[str]:
        # a share group commits nothing that a transaction could hold back
        ours = {
            name for name in names if self._around.filters.group(name)
        } - self._around.groups.shares
        return sorted(name for name in ours if self._partition(name) in self._held)

    async def _take(self, answers: Sequence[CommittedOffsets], poll: "_Poll") -> None:
        """Send what differs from what was read or polled before."""
        first_new_id = len(self._keys)
        known = self._keys.by_group([answer.group for answer in answers])
        rows = _Rows()
        for answer in answers:
            if answer.refused or answer.problem:
                poll.miss(answer)
            elif not self._was_read(self._partition(answer.group), poll):
                self._compare(answer, known.get(answer.group, ()), poll, rows)
        await self._send_rows(rows, first_new_id)

    def _was_read(self, partition: int, poll: "_Poll") -> bool:
        """True if the transaction ended meanwhile, so that the reader knows more than the poll."""
        return self._positions().get(partition, 0) > poll.order(partition)

    def _compare(
        self, answer: CommittedOffsets, known: Sequence[int], poll: "_Poll", rows: "_Rows"
    ) -> None:
        partition = self._partition(answer.group)
        after_ms = self._asked_ms.get(answer.group, self._known.until_ms(partition))
        self._asked_ms[answer.group] = answer.asked_ms
        stamp = (answer.answered_ms, poll.order(partition), after_ms)
        anew = self._around.topics.made_anew(after_ms=after_ms, until_ms=answer.asked_ms)
        committed = zip(answer.topics, answer.partitions, answer.offsets, strict=True)
        offsets = {
            self._keys.id_of(answer.group, topic, number): (offset, topic in anew)
            for topic, number, offset in committed
            if self._around.filters.topic(topic)
        }
        for key, (offset, new) in offsets.items():
            if new or key >= len(self._around.last) or self._around.last.offset[key] != offset:
                rows.add(key, offset, *stamp)
        for key in known:
            if key not in offsets and self._around.last.offset[key] >= 0:
                rows.add(key, UNKNOWN, *stamp)

    async def _send_rows(self, rows: "_Rows", first_new_id: int) -> None:
        """Without a wait since the first new id was given: ids are announced in their order."""
        if not rows.key and len(self._keys) == first_new_id:
            return
        groups, topics, partitions = self._keys.since(first_new_id)
        self._around.topics.mention(topics)
        self._around.groups.mention(groups)
        commits = Commits(
            first_new_id=first_new_id,
            new_groups=groups,
            new_topics=topics,
            new_partitions=partitions,
            key=np.array(rows.key, np.int32),
            offset=np.array(rows.offset, np.int64),
            commit_ms=np.array(rows.commit_ms, np.int64),
            order=np.array(rows.order, np.int64),
            observed_ms=self._around.clock.now_ms(),
            exact_times=False,
            only_changes=True,
            after_ms=np.array(rows.after_ms, np.int64),
            beside=True,
        )
        self._around.last.note(commits)
        await self._around.send(commits)


class _Rows:
    """Columns of commits."""

    def __init__(self) -> None:
        self.key: list[int] = []
        self.offset: list[int] = []
        self.commit_ms: list[int] = []
        self.order: list[int] = []
        self.after_ms: list[int] = []

    def add(self, key: int, offset: int, commit_ms: int, order: int, after_ms: int) -> None:
        self.key.append(key)
        self.offset.append(offset)
        self.commit_ms.append(commit_ms)
        self.order.append(order)
        self.after_ms.append(after_ms)


class _Poll:
    """One poll of all held partitions."""

    def __init__(
        self, held: frozenset[int], ends: PartitionEnds | None, started_ms: EpochMs
    ) -> None:
        self.partitions = held
        self.started_ms = started_ms
        self.missed: list[str] = []
        self.refused: list[str] = []
        self.problems: list[str] = []
        log_end: list[int] = [] if ends is None else ends.log_end.tolist()
        self._order = {each: log_end[each] - 1 for each in held}

    def order(self, partition: int) -> int:
        """Records behind it are newer than the answers, all others older."""
        return self._order.get(partition, UNKNOWN)

    def miss(self, answer: CommittedOffsets) -> None:
        self.missed.append(answer.group)
        if answer.refused:
            self.refused.append(answer.group)
        else:
            self.problems.append(answer.problem)

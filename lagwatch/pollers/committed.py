"""Polls committed offsets: for clusters whose offsets topic is not readable.

Kafka does not say when an offset was committed. So a row is sent when its offset changed, with
the two instants between which that happened: an offset that stays the same is not a commit.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import numpy as np
import structlog
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.words import duration
from lagwatch.errors import SourceError
from lagwatch.pollers.facts import sentences
from lagwatch.pollers.surroundings import Surroundings
from lagwatch.ports.kafka import CommittedOffsets, CommittedSource, GroupSource
from lagwatch.ports.reports import Backlog, Commits, CommitsKnown, GroupsGone, SourceKind

_ROWS: Final = 20_000
"""Most rows of one report."""
_TAKEN_AWAY: Final = (
    "lagwatch may not describe group {name} any more, it is not watched; "
    "grant: Allow DESCRIBE on GROUP {name}"
)

_log = structlog.get_logger(__name__)


class CommittedPoller:
    """One round asks for the committed offsets of all groups."""

    source = SourceKind.COMMITTED

    def __init__(
        self,
        committed: CommittedSource,
        listing: GroupSource,
        around: Surroundings,
        *,
        interval_s: float,
        first_id: int = 0,
        watched: Iterable[str] = (),
        sent: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`first_id`: ids below it were given to others; `last` gets all that is sent.

        `watched`: groups that an earlier poller may have found, and that may be hidden by now.
        `sent` is awaited after all offsets of a round were sent.
        """
        self._around = around
        self._committed = committed
        self._listing = listing
        self._interval_s = interval_s
        self._sent = sent
        self._rows = _Rows(first_id)
        self._asked_ms: dict[str, int] = {}
        self._watched = frozenset(filter(around.filters.group, watched))
        self._compared = False
        """True once a whole round was reported: the monitor then removes rows of an earlier poller
        that no group has any more."""
        self._refused: frozenset[str] = frozenset()
        """Groups that were listed before, and may not be described any more."""
        self._order = 0
        self._rounds = 0
        self._until_ms = UNKNOWN
        self._slow_s = 0.0

    async def poll_once(self) -> Sequence[str]:
        """Ask for all groups; send as answers come, so that memory stays small."""
        started_ms, started_s = self._around.clock.now_ms(), self._around.clock.monotonic_s()
        listing = await self._listing.list_groups()
        listed = {*(each.name for each in listing.groups), *listing.others}
        names = sorted(name for name in listed if self._around.filters.group(name))
        # the order must grow from round to round, and over restarts
        self._order = max(self._order + 1, self._around.clock.now_ms())
        problems: list[str] = [listing.problem] if listing.problem else []
        refused: set[str] = set()
        batch = _Batch(self._rows)
        try:
            async for answers in self._committed.committed(names):
                hidden = await self._left_out(answers)
                for answer in answers:
                    problems += [answer.problem] if answer.problem else []
                    if answer.problem or answer.refused:
                        refused.update([answer.group] if answer.refused else [])
                        continue
                    self._take(answer, batch, hidden)
                    if len(batch) >= _ROWS:
                        await self._send_batch(batch)
        except SourceError:
            # the rows are noted as sent already, so that no later poll would send them
            await self._send_last(batch)
            raise
        await self._send_last(batch)
        visible = set(names) - refused
        if not listing.problem:
            # what share groups have done may not be read yet
            named = frozenset() if problems else visible.difference(listing.others)
            await self._report_gone(visible, refused, named)
        if not problems and (visible or not self._refused):
            self._until_ms = started_ms
        await self._around.send(CommitsKnown(until_ms=np.array([self._until_ms], np.int64)))
        if not problems:  # else it waited for brokers that do not answer
            self._note_pace(len(names), self._around.clock.monotonic_s() - started_s)
        await self._report_ready()
        return [*_few(problems), *sentences(self._refused, _TAKEN_AWAY)]

    async def _left_out(self, answers: Iterable[CommittedOffsets]) -> frozenset[str]:
        """Topics whose offsets are missing in these answers without being surely deleted.

        Kafka leaves out what may not be described any more. The right is one to the topic, so one
        group is asked for each.
        """
        missing: dict[str, tuple[str, int]] = {}
        for answer in answers:
            if answer.problem or answer.refused:
                continue
            before = self._rows.of(answer.group)
            there = set(answer.topics)
            missing |= {
                topic: (answer.group, partition)
                for (topic, partition), row in before.items()
                if topic not in there and self._rows.last[row] != UNKNOWN
            }
        return await self._committed.not_surely_deleted(missing) if missing else frozenset()

    def _take(self, answer: CommittedOffsets, batch: "_Batch", hidden: AbstractSet[str]) -> None:
        """Note what has changed; offsets of `hidden` topics that are left out stay."""
        after_ms = self._asked_ms.get(answer.group, UNKNOWN)
        self._asked_ms[answer.group] = answer.asked_ms
        before = self._rows.of(answer.group)
        size = len(batch)
        seen = set()
        # offsets of a topic that was made anew are new, also where the numbers are the same
        anew = self._around.topics.made_anew(after_ms=after_ms, until_ms=answer.asked_ms)
        if self._around.topics.gone:
            self._around.topics.committed_to(set(answer.topics))
        for topic, partition, offset in zip(
            answer.topics, answer.partitions, answer.offsets, strict=True
        ):
            if not self._around.filters.topic(topic):
                continue
            name = (topic, partition)
            seen.add(name)
            row = self._rows.id(answer.group, name)
            if 0 <= offset < self._rows.last[row]:
                self._around.topics.suspect(ids=True)  # may be of another topic under the same name
            if self._rows.last[row] != offset or topic in anew:
                batch.add(row, offset, answer.answered_ms, after_ms)
        for name in before.keys() - seen:
            row = before[name]
            if self._rows.last[row] != UNKNOWN and name[0] not in hidden:
                batch.add(row, UNKNOWN, answer.answered_ms, after_ms)
        if len(batch) > size:
            self._around.groups.committed([answer.group])

    async def _send_last(self, batch: "_Batch") -> None:
        await self._send_batch(batch)
        if self._sent is not None:
            await self._sent()

    async def _send_batch(self, batch: "_Batch") -> None:
        if not len(batch):
            return
        groups, topics, partitions = self._rows.new()
        self._around.topics.mention(topics)
        self._around.groups.mention(groups)
        key, columns = batch.take()
        commits = Commits(
            first_new_id=len(self._rows) - len(partitions),
            new_groups=groups,
            new_topics=topics,
            new_partitions=partitions,
            key=key,
            offset=columns[0],
            commit_ms=columns[1],
            order=np.full(len(key), self._order, np.int64),
            observed_ms=self._around.clock.now_ms(),
            exact_times=False,
            only_changes=True,
            after_ms=columns[2],
        )
        self._around.last.note(commits)
        await self._around.send(commits)

    async def _report_gone(
        self, visible: AbstractSet[str], refused: AbstractSet[str], named: AbstractSet[str]
    ) -> None:
        """Report groups that are gone: deleted, or not to be described any more.

        `named`: groups of which all offsets have been sent.
        """
        compare = bool(named) and not self._compared
        known = self._rows.groups | self._refused | self._watched
        self._watched = frozenset()
        unlisted, there = await self._look_for(known - visible - refused)
        hidden = (known & refused) | unlisted
        gone = self._rows.drop_all_but(visible | there)
        for group in gone:
            self._asked_ms.pop(group, None)
        if gone or hidden != self._refused or compare:
            orders = tuple(self._order for _ in gone)
            answered = frozenset(named) if compare else frozenset()
            self._compared |= compare
            await self._around.send(
                GroupsGone(groups=gone, orders=orders, hidden=hidden, answered=answered)
            )
            _log.info("groups_gone", groups=len(gone), hidden=len(hidden))
        self._refused = hidden

    async def _look_for(self, groups: AbstractSet[str]) -> tuple[frozenset[str], frozenset[str]]:
        """Those of these groups, which are not listed, that may not be described; that are there.

        A broker that has just started lists only the groups that it has loaded. So a group is there
        as long as its coordinator has offsets of it, or does not say whether it has.
        """
        if not groups:
            return frozenset(), frozenset()
        found = [each async for each in self._committed.committed(sorted(groups))]
        answers = [each for chunk in found for each in chunk]
        hidden = frozenset(each.group for each in answers if each.refused)
        there = frozenset(each.group for each in answers if each.topics or each.problem)
        return hidden, there - hidden

    def _note_pace(self, groups: int, took_s: float) -> None:
        """Log it when rounds take so long that commits are noticed late."""
        if took_s <= 2 * self._interval_s:
            self._slow_s = 0.0
            self._around.facts.unseen("pace", ())
            return
        if abs(took_s - self._slow_s) <= self._slow_s / 2:  # about the same was logged already
            return
        self._slow_s = took_s
        sentence = (
            f"polling the committed offsets of {groups} groups takes {duration(took_s)}, longer "
            f"than committed_interval_s = {self._interval_s:g}: commits are noticed that late; "
            "grant Allow DESCRIBE and READ on the offsets topic to read them instead"
        )
        self._around.facts.unseen("pace", [sentence])

    async def _report_ready(self) -> None:
        self._rounds += 1
        if self._rounds == 1:
            await self._around.send(Backlog(read=0, total=0, ready=True))
        await self._around.facts.send()


class _Rows:
    """Dense ids for (group, topic, partition), and the offset last sent of each."""

    def __init__(self, first_id: int) -> None:
        self._ids: dict[str, dict[tuple[str, int], int]] = {}
        self._announced = 0
        self._pending: list[tuple[str, str, int]] = []
        self._count = first_id
        self.last = np.full(max(1024, 2 * first_id), UNKNOWN, np.int64)

    def __len__(self) -> int:
        return self._count

    @property
    def groups(self) -> frozenset[str]:
        return frozenset(self._ids)

    def of(self, group: str) -> dict[tuple[str, int], int]:
        """Ids of the partitions this group has committed to."""
        return self._ids.get(group, {})

    def id(self, group: str, name: tuple[str, int]) -> int:
        ids = self._ids.setdefault(group, {})
        row = ids.get(name)
        if row is None:
            row = ids[name] = self._count
            self._count += 1
            self._pending.append((group, *name))
            if row >= len(self.last):
                more = np.full(len(self.last), UNKNOWN, np.int64)
                self.last = np.concatenate((self.last, more))
        return row

    def new(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]]:
        """Groups, topics and partitions of the ids given since the last call."""
        pending, self._pending = self._pending, []
        if not pending:
            return (), (), ()
        groups, topics, partitions = zip(*pending, strict=True)
        return groups, topics, partitions

    def drop_all_but(self, names: AbstractSet[str]) -> tuple[str, ...]:
        """Forget the other groups; return them."""
        gone = tuple(sorted(self._ids.keys() - names))
        for group in gone:
            del self._ids[group]
        return gone


class _Batch:
    """Rows to report."""

    def __init__(self, rows: _Rows) -> None:
        self._rows = rows
        self._key: list[int] = []
        self._rest: list[tuple[int, int, int]] = []

    def __len__(self) -> int:
        return len(self._key)

    def add(self, row: int, offset: int, commit_ms: int, after_ms: int) -> None:
        self._key.append(row)
        self._rest.append((offset, commit_ms, after_ms))
        self._rows.last[row] = offset

    def take(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Keys, and the rows offset, commit_ms, after_ms."""
        key = np.array(self._key, np.int32)
        rest = np.array(self._rest, np.int64).reshape(-1, 3)
        self._key, self._rest = [], []
        return key, np.ascontiguousarray(rest.T)


def _few(problems: Sequence[str]) -> Sequence[str]:
    """The first problem, and how many there are."""
    if len(problems) <= 1:
        return problems
    return [problems[0], f"and {len(problems) - 1} more like this"]

"""What a collector would report of the simulated cluster, see `lagwatch.ports.reports`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from lagwatch.core.model import EpochMs, GroupInfo, Member, OpenTransaction
from lagwatch.ports.reports import (
    Backlog,
    CollectorStarted,
    Commits,
    CommitsKnown,
    EmptyTails,
    GroupsGone,
    GroupsSeen,
    LogEnds,
    OpenTransactions,
    Report,
    SourceHealth,
    SourceKind,
    Topics,
)
from tests.bench.month import breaks
from tests.bench.month.plan import EVER_S, START_MS, Ints, Life, Plan, State
from tests.bench.month.traffic import Commits as Made

_BATCH: Final = 40_000
"""Commits in one report."""
_STATE_WORDS: Final = {
    State.STABLE: "Stable",
    State.REBALANCING: "PreparingRebalance",
    State.EMPTY: "Empty",
}
_HEALTHY: Final = (SourceKind.OFFSETS_TOPIC, SourceKind.LOG_ENDS, SourceKind.GROUPS)


def instant(at_s: float) -> EpochMs:
    """Seconds of the plan as an instant."""
    return EpochMs(START_MS + int(at_s * 1000))


class Collector:
    """One collector process after the other; every method returns the reports it would send."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._lives = plan, plan.lives
        self._names = [
            (life.name, topic.name, partition)
            for life in plan.lives
            for topic in life.topics
            for partition in range(topic.hi - topic.lo)
        ]
        self._leaving = [life for life in plan.lives if life.gone_s < EVER_S]
        self._incarnation = 0
        self._key = np.full(len(self._names), -1, np.int32)
        self._keys = 0
        self._version = 0
        self._all = [topic for life in plan.lives for topic in life.topics]
        self._next_change_s = -EVER_S
        self._ids: tuple[str, ...] = ()
        self._place = np.zeros(0, np.int64)
        self._states = _States(plan)
        self._infos: dict[tuple[int, State, int], GroupInfo] = {}
        self._listed: dict[int, GroupInfo] = {}
        """Groups that there are now."""
        self._tails_told: dict[int, int] = {}
        self._open_told: tuple[OpenTransaction, ...] = ()

    def starts(self, *, new_service: bool) -> list[Report]:
        """A new process: it knows no keys and no topics."""
        self._incarnation = 1 if new_service else self._incarnation + 1
        self._key[:] = -1
        self._keys = 0
        self._ids = ()
        self._tails_told.clear()
        self._open_told = ()
        return [CollectorStarted(incarnation=self._incarnation)]

    def topics(self, now_s: float) -> list[Report]:
        """The topics, when they changed."""
        if self._ids and now_s < self._next_change_s:
            return []
        changes = {each for topic in self._all for each in (topic.born_s, topic.recreated_s)}
        self._next_change_s = min(each for each in {*changes, 2 * EVER_S} if each > now_s)
        seen = sorted(
            (topic for topic in self._all if topic.born_s <= now_s),
            key=lambda topic: topic.name,
        )
        ids = tuple(f"{topic.name}#{int(topic.recreated_s <= now_s)}" for topic in seen)
        self._version += 1
        self._ids = ids
        self._place = np.concatenate([np.arange(topic.lo, topic.hi) for topic in seen])
        return [
            Topics(
                version=self._version,
                names=tuple(topic.name for topic in seen),
                ids=ids,
                partitions=np.array([topic.hi - topic.lo for topic in seen], np.int32),
                leader=self._plan.rows.broker[self._place].astype(np.int32),
            )
        ]

    def commits(self, made: Made, observed_s: float) -> list[Report]:
        """Commits as read, with the keys that are new to this process; -1 offsets remove."""
        return [
            self._commits(made.part(first, first + _BATCH), observed_s)
            for first in range(0, len(made), _BATCH)
        ]

    def _commits(self, made: Made, observed_s: float) -> Commits:
        first_new = self._keys
        unknown = self._key[made.row] < 0
        rows: list[int] = []
        if unknown.any():
            new, where = np.unique(made.row[unknown], return_index=True)
            rows = new[np.argsort(where)].tolist()
            self._key[rows] = np.arange(len(rows)) + first_new
            self._keys += len(rows)
        return Commits(
            first_new_id=first_new,
            new_groups=tuple(self._names[row][0] for row in rows),
            new_topics=tuple(self._names[row][1] for row in rows),
            new_partitions=tuple(self._names[row][2] for row in rows),
            key=self._key[made.row],
            offset=made.offset,
            commit_ms=made.at_ms,
            order=made.order,
            observed_ms=instant(observed_s),
            positions={0: int(made.order[-1]) + 1},
        )

    def gone(self, start_s: float, end_s: float, order: int) -> list[Report]:
        """Groups deleted in this stretch."""
        groups = tuple(life.name for life in self._leaving if start_s <= life.gone_s < end_s)
        return [GroupsGone(groups=groups, orders=(order,) * len(groups))] if groups else []

    def round(
        self,
        now_s: float,
        log_start: Ints,
        log_end: Ints,
        last_stable: Ints,
        *,
        away: Sequence[int],
    ) -> list[Report]:
        """One round of log ends, and up to when commits are known; `away` have no leader."""
        now_ms = instant(now_s)
        if len(away):
            log_end, last_stable = log_end.copy(), last_stable.copy()
            log_end[away] = last_stable[away] = -1
        return [
            *self.health(now_s, ok=True),
            LogEnds(
                version=self._version,
                started_ms=now_ms,
                finished_ms=EpochMs(now_ms + 100),
                log_start=np.minimum(log_start, np.maximum(log_end, 0))[self._place],
                log_end=log_end[self._place],
                last_stable=last_stable[self._place],
            ),
        ]

    def known(self, until_s: float) -> list[Report]:
        """All commits made before this were sent."""
        return [CommitsKnown(until_ms=np.array([instant(until_s)], np.int64))]

    def health(self, now_s: float, *, ok: bool) -> list[Report]:
        """How the sources fare."""
        return [
            SourceHealth(
                source=source,
                ok=ok,
                at_ms=instant(now_s),
                error_kind="" if ok else "timeout",
                message="" if ok else "no broker answers",
            )
            for source in _HEALTHY
        ]

    def backlog(self, number: int) -> list[Report]:
        """The offsets topic was read to its end."""
        return [Backlog(read=number, total=number, ready=True)]

    def groups(self, now_s: float, *, everything: bool) -> list[Report]:
        """Groups whose state changed, or all of them."""
        changed = self._states.advance(now_s)
        for number in changed:
            life = self._lives[number]
            if life.joined_s <= now_s < life.gone_s:
                self._listed[number] = self._info(life, now_s)
            else:
                self._listed.pop(number, None)
        told = self._listed.keys() if everything else changed & self._listed.keys()
        infos = tuple(self._listed[number] for number in sorted(told))
        return [GroupsSeen(groups=infos, complete=everything)]

    def _info(self, life: Life, now_s: float) -> GroupInfo:
        state = self._states.of(life.number)
        left = sum(topic.left_s <= now_s for topic in life.topics)
        known = self._infos.get((life.number, state, left))
        if known is None:
            known = self._infos[life.number, state, left] = self._new_info(life, now_s, state)
        return known

    def _new_info(self, life: Life, now_s: float, state: State) -> GroupInfo:
        return GroupInfo(
            group=life.name,
            type="classic",
            state=_STATE_WORDS[state],
            assignor="" if state is State.EMPTY else "range",
            coordinator=breaks.coordinator(life, self._plan.breaks.brokers),
            members=() if state is State.EMPTY else tuple(_members(life, now_s, state)),
        )

    # transactions

    def empty_tails(self, rows: Ints, committed: Ints, log_end: Ints) -> list[Report]:
        """Rows that rest in front of a control record, each told once per log end."""
        resting = rows[(committed[rows] >= 0) & (committed[rows] == log_end[rows] - 1)]
        new = [row for row in resting.tolist() if self._tails_told.get(row) != log_end[row]]
        if not new:
            return []
        self._tails_told.update((row, int(log_end[row])) for row in new)
        return [
            EmptyTails(
                topic=tuple(self._names[row][1] for row in new),
                partition=np.array([self._names[row][2] for row in new], np.int32),
                first=committed[new],
                end=log_end[new],
            )
        ]

    def open_transactions(
        self, now_s: float, open_now: Iterable[tuple[float, int]], last_stable: Ints
    ) -> list[Report]:
        """Transactions open for more than 10 s, as (since, row); told when they changed."""
        found = tuple(
            OpenTransaction(
                topic=self._names[row][1],
                partition=self._names[row][2],
                last_stable=int(last_stable[row]),
                since_ms=instant(since_s),
                producer_id=1000 + row,
                transactional_id=f"tx-{row}",
                started_ms=instant(since_s),
                problem="",
            )
            for since_s, row in open_now
            if since_s <= now_s - 10
        )
        if found == self._open_told:
            return []
        self._open_told = found
        return [OpenTransactions(transactions=found)]


def _members(life: Life, now_s: float, state: State) -> Iterator[Member]:
    rows = life.hi - life.lo
    holder = np.arange(rows) * life.members // rows
    for number in range(life.members):
        held = {row + life.lo for row in np.flatnonzero(holder == number).tolist()}
        assignment = tuple(
            (topic.name, tuple(row - topic.lo for row in range(topic.lo, topic.hi) if row in held))
            for topic in life.topics
            if topic.left_s > now_s and held.intersection(range(topic.lo, topic.hi))
        )
        yield Member(
            member_id=f"{life.name}-{number}",
            client_id=life.name,
            host=f"/10.0.{life.number % 250}.{number + 1}",
            instance_id=f"{life.name}-{number}" if life.static else "",
            assignment=assignment if state is State.STABLE else (),
        )


class _States:
    """The state of each group, moved on from event to event."""

    def __init__(self, plan: Plan) -> None:
        edges: list[tuple[float, int, int, int]] = []
        for event in plan.events:
            if event.state is not State.STABLE:
                edges.append((event.start_s, event.group, event.state, 1))
                edges.append((event.end_s, event.group, event.state, -1))
        for life in plan.lives:
            instants = [life.joined_s, life.gone_s, *(topic.left_s for topic in life.topics)]
            edges += [(at_s, life.number, State.STABLE, 0) for at_s in instants]
        edges.sort()
        self._edges = edges
        self._next = 0
        self._holding = np.zeros((len(State), len(plan.lives)), np.int64)

    def of(self, group: int) -> State:
        held = self._holding[:, group]
        return max((state for state in State if held[state] > 0), default=State.STABLE)

    def advance(self, now_s: float) -> set[int]:
        """The groups something changed for since the last time."""
        changed = set()
        while self._next < len(self._edges) and self._edges[self._next][0] <= min(
            now_s, EVER_S - 1
        ):
            _, group, state, step = self._edges[self._next]
            self._next += 1
            self._holding[state, group] += step
            changed.add(group)
        return changed

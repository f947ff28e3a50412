"""Turns what is reported of groups into events: members, assignments, rebalances, resets."""

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import EpochMs, GroupInfo, GroupStatus, Member, Membership, Rule
from lagwatch.core.record import EventName
from lagwatch.core.snapshot import ClusterSnapshot, TopicColumns
from lagwatch.monitor.rows import Identity
from lagwatch.monitor.story import Story
from lagwatch.ports.queries import GroupEvent, Loss
from lagwatch.ports.reports import GroupsSeen

Int64 = NDArray[np.int64]
Rows = NDArray[np.integer]

STORM_MS: Final = 300_000
STORM_REBALANCES: Final = 5
"""So many rebalances within `STORM_MS` are a storm; it ends when none came for as long."""
_NAMED: Final = 20
"""Members or partitions named in one event; beyond that, their number says how many there are."""


@dataclass(slots=True)
class _Group:
    """What is remembered of a group."""

    info: GroupInfo | None = None
    """As it was last described."""
    had_members: bool = False
    empty_ms: int = -1
    """Since when it has no members, as far as known; -1 while it has some."""
    unassigned_ms: int = -1
    """Since when no member holds a partition; -1 while one does, or none ever did."""
    away: dict[str, int] = field(default_factory=dict)
    """Static members that left: group.instance.id → when."""
    rebalances: deque[tuple[int, int]] = field(default_factory=deque)
    """(instant, number) within `STORM_MS`."""
    storm: bool = False
    moved: list[tuple[Identity, int, int, int]] = field(default_factory=list)
    """Offsets set while it was empty: (place, before, after, commit time on lagwatch's clock)."""


class GroupWatch:
    """Compares reports with what was known before; writes into a story. One owner.

    What was not known before is no event: after a start nobody joins.
    """

    def __init__(self, story: Story) -> None:
        self._story = story
        self._groups: defaultdict[str, _Group] = defaultdict(_Group)

    # members

    def groups(self, report: GroupsSeen, now_ms: EpochMs) -> None:
        """Compare with what was described before."""
        for group, number in report.rebalances.items():
            self._tell(now_ms, group, EventName.REBALANCE, count=number, to_record=False)
            self._groups[group].rebalances.append((now_ms, number))
        for info in report.groups:
            # a state that the client library has no word for comes with the members
            if info.state != "Unknown" or info.members:
                self._group(info, report, now_ms)
        if report.complete:
            for gone in self._groups.keys() - {info.group for info in report.groups}:
                if gone not in report.refused:
                    del self._groups[gone]

    def _group(self, now: GroupInfo, report: GroupsSeen, now_ms: EpochMs) -> None:
        known = self._groups[now.group]
        before, known.info = known.info, now
        if before is not None and before != now:
            self._words(before, now, now_ms)
            self._members(known, before, now, now_ms)
            self._assigned(known, before, now, now_ms)
        self._confirm(known, now, now_ms, rebalanced=now.group in report.rebalances)
        self._storm(known, now.group, now_ms)
        known.had_members |= bool(now.members)
        if now.members:
            known.empty_ms = -1
        elif known.empty_ms < 0:
            known.empty_ms = now_ms

    def _words(self, before: GroupInfo, now: GroupInfo, now_ms: EpochMs) -> None:
        for name, was, is_now in (
            (EventName.PROTOCOL, before.type, now.type),
            (EventName.ASSIGNOR, before.assignor, now.assignor),
        ):
            if was != is_now and was not in ("", "unknown") and is_now not in ("", "unknown"):
                self._tell(now_ms, now.group, name, before=was, after=is_now)

    def _members(self, known: _Group, before: GroupInfo, now: GroupInfo, now_ms: EpochMs) -> None:
        old = {member.member_id: member for member in before.members}
        new = {member.member_id: member for member in now.members}
        joined = [new[each] for each in new.keys() - old.keys()]
        left = [old[each] for each in old.keys() - new.keys()]
        there = {member.instance_id for member in now.members if member.instance_id}
        for member in left:
            if member.instance_id and member.instance_id not in there:
                known.away[member.instance_id] = now_ms
        self._moved(now, EventName.MEMBER_LEFT, [m for m in left if not m.instance_id], now_ms)
        self._moved(
            now,
            EventName.STATIC_MEMBER_AWAY,
            [member for member in left if member.instance_id in known.away],
            now_ms,
        )
        returned = [m for m in joined if m.instance_id and self._was_there(known, before, m)]
        for member in returned:
            known.away.pop(member.instance_id, None)
        self._moved(now, EventName.STATIC_MEMBER_BACK, returned, now_ms)
        self._moved(now, EventName.MEMBER_JOINED, [m for m in joined if m not in returned], now_ms)

    @staticmethod
    def _was_there(known: _Group, before: GroupInfo, member: Member) -> bool:
        held = {each.instance_id for each in before.members}
        return member.instance_id in known.away or member.instance_id in held

    def _moved(
        self, group: GroupInfo, name: EventName, members: Sequence[Member], now_ms: EpochMs
    ) -> None:
        """One event for all of them: two of one instant would have the same key."""
        if not members:
            return
        ordered = sorted(members, key=lambda each: (each.instance_id, each.client_id, each.host))
        named = [
            {
                "client_id": each.client_id,
                "host": each.host,
                **({"instance_id": each.instance_id} if each.instance_id else {}),
            }
            for each in ordered[:_NAMED]
        ]
        self._tell(now_ms, group.group, name, count=len(members), detail=_json(named))

    # assignments

    def _assigned(self, known: _Group, before: GroupInfo, now: GroupInfo, now_ms: EpochMs) -> None:
        held, holds = _holds(before), _holds(now)
        if held and not holds:
            known.unassigned_ms = now_ms
            self._tell(now_ms, now.group, EventName.UNASSIGNED, after=now.state)
        elif holds and known.unassigned_ms >= 0:
            lasted = {"unassigned_s": (now_ms - known.unassigned_ms) / 1000}
            known.unassigned_ms = -1
            self._tell(now_ms, now.group, EventName.ASSIGNED, detail=_json(lasted))

    # rebalances

    def _storm(self, known: _Group, group: str, now_ms: EpochMs) -> None:
        while known.rebalances and now_ms - known.rebalances[0][0] > STORM_MS:
            known.rebalances.popleft()
        number = sum(count for _, count in known.rebalances)
        if number >= STORM_REBALANCES and not known.storm:
            known.storm = True
            self._tell(now_ms, group, EventName.REBALANCE_STORM, after="began", count=number)
        elif known.storm and not number:
            known.storm = False
            self._tell(now_ms, group, EventName.REBALANCE_STORM, after="ended")

    # offsets

    def moved(
        self,
        places: Iterable[Identity],
        before: Iterable[int],
        after: Iterable[int],
        at_ms: Iterable[int],
    ) -> None:
        """Offsets changed while a group was known to be empty.

        It is an event once the group is seen to be empty still: a member may have joined
        meanwhile. A group that never had members commits as it likes; only going back is told.
        """
        for place, was, is_now, commit_ms in zip(places, before, after, at_ms, strict=True):
            known = self._groups[place[0]]
            if 0 <= known.empty_ms < commit_ms and (known.had_members or is_now < was):
                known.moved.append((place, was, is_now, commit_ms))

    def _confirm(self, known: _Group, now: GroupInfo, now_ms: EpochMs, *, rebalanced: bool) -> None:
        moved, known.moved = known.moved, []
        if not moved or now.members or rebalanced:
            return
        by_topic: defaultdict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
        for (_, topic, partition), was, is_now, _ in moved:
            first, _ = by_topic[topic].get(partition, (was, is_now))
            by_topic[topic][partition] = first, is_now
        for topic, partitions in sorted(by_topic.items()):
            named = [
                {"partition": partition, "before": was, "after": is_now}
                for partition, (was, is_now) in sorted(partitions.items())[:_NAMED]
            ]
            self._tell(
                now_ms,
                now.group,
                EventName.OFFSETS_RESET,
                topic=topic,
                count=len(partitions),
                detail=_json(named),
            )

    # topics, losses, verdicts

    def topics(
        self,
        groups_of: Mapping[str, Iterable[str]],
        before: TopicColumns,
        after: TopicColumns,
        recreated: Iterable[str],
        now_ms: EpochMs,
    ) -> None:
        """Topics were made anew or grew; `groups_of` names the groups that read them."""
        for topic in recreated:
            for group in groups_of.get(topic, ()):
                self._tell(now_ms, group, EventName.TOPIC_RECREATED, topic=topic)
        for topic in grown(before, after):
            was, is_now = _size(before, topic), _size(after, topic)
            for group in groups_of.get(topic, ()):
                self._tell(
                    now_ms,
                    group,
                    EventName.PARTITIONS_ADDED,
                    topic=topic,
                    before=str(was),
                    after=str(is_now),
                    count=is_now - was,
                )

    def losses(self, losses: Iterable[Loss]) -> None:
        """Messages were deleted before they were read; the history records these itself."""
        for loss in losses:
            self._tell(
                loss.at_ms,
                loss.group,
                EventName.RECORDS_LOST,
                topic=loss.topic,
                partition=loss.partition,
                count=loss.messages,
                to_record=False,
            )

    def verdicts(self, before: ClusterSnapshot | None, after: ClusterSnapshot) -> None:
        """Groups whose status changed; the history records these itself."""
        if before is None:
            return
        if before.groups == after.groups:
            changed = np.flatnonzero(before.group.status != after.group.status)
            place = {int(each): int(each) for each in changed}
        else:
            place = {
                number: before.group_index[name]
                for number, name in enumerate(after.groups)
                if name in before.group_index
            }
        for number, old in place.items():
            was, is_now = int(before.group.status[old]), int(after.group.status[number])
            if was != is_now:
                worst = int(after.group.worst_row[number])
                self._tell(
                    after.at_ms,
                    after.groups[number],
                    EventName.GROUP_STATUS,
                    before=GroupStatus(was).name,
                    after=GroupStatus(is_now).name,
                    rule=Rule(int(after.rows.rule[worst])).word if worst >= 0 else None,
                    lag=int(after.group.total_lag[number]),
                    to_record=False,
                )

    def _tell(self, at_ms: EpochMs, group: str, name: EventName, **values: object) -> None:
        self._story.add(GroupEvent(at_ms=at_ms, group=group, event=name.value, **values))  # type: ignore[arg-type]  # names and types as in `GroupEvent`


def set_while_empty(membership: NDArray[np.int8], rows: Rows, before: Int64, after: Int64) -> Rows:
    """Positions in these columns of rows whose group has no members and whose offset changed."""
    empty = membership[rows] == Membership.EMPTY
    return np.flatnonzero(empty & (before >= 0) & (before != after))


def grown(before: TopicColumns, after: TopicColumns) -> list[str]:
    """Topics that have more partitions than before."""
    return [
        name
        for name in after.names
        if name in before.index and _size(after, name) > _size(before, name)
    ]


def _size(topics: TopicColumns, name: str) -> int:
    index = topics.index[name]
    return int(topics.first[index + 1] - topics.first[index])


def _holds(info: GroupInfo) -> bool:
    return any(member.assignment for member in info.members)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)

"""Turns what is reported of groups into events: members, assignments, rebalances, resets."""

import json
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import EMPTY, EpochMs, GroupInfo, GroupStatus, Member, Membership, Rule
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
_LEFT_MS: Final = 86_400_000
"""A topic that is made anew after so long is news for those only that read it again."""
_MOST_LEFT: Final = 10_000
"""Topics of which removed offsets are remembered."""
_OF_MEMBERS: Final = frozenset(
    {
        EventName.MEMBER_JOINED,
        EventName.MEMBER_LEFT,
        EventName.STATIC_MEMBER_AWAY,
        EventName.UNASSIGNED,
        EventName.ASSIGNED,
    }
)
"""A group with such an event had members."""
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
    seen_empty_ms: int = -1
    """When it was last seen without members; -1 while it has some, or may have had since."""
    unassigned_ms: int = -1
    """Since when no member holds a partition; -1 while one does, or none ever did."""
    away: dict[str, int] = field(default_factory=dict)
    """Static members that left: group.instance.id → when."""
    rebalances: deque[tuple[int, int]] = field(default_factory=deque)
    """(instant, number) within `STORM_MS`."""
    grown: deque[tuple[int, int]] = field(default_factory=deque)
    """(instant, members more than before) within `STORM_MS`."""
    storm: bool = False
    words: dict[EventName, str] = field(default_factory=dict)
    """Its last protocol and assignor."""
    moved: list[tuple[Identity, int, int, int]] = field(default_factory=list)
    """Offsets set while it was empty: (place, before, after, commit time on lagwatch's clock)."""

    def recall(self, event: GroupEvent) -> None:
        """An event that an earlier process saw."""
        self.had_members |= event.event in _OF_MEMBERS
        if event.event == EventName.STATIC_MEMBER_AWAY:
            self.away |= dict.fromkeys(_instances(event), event.at_ms)
        elif event.event == EventName.STATIC_MEMBER_BACK:
            for instance in _instances(event):
                self.away.pop(instance, None)
        elif event.event in {EventName.UNASSIGNED, EventName.ASSIGNED}:
            self.unassigned_ms = event.at_ms if event.event == EventName.UNASSIGNED else -1
        elif event.event == EventName.REBALANCE_STORM:
            self.storm = event.after == "began"


class GroupWatch:
    """Compares reports with what was known before; writes into a story. One owner.

    What was not known before is no event: the members found at a start have not joined. What an
    earlier process saw begin goes on: see `_recall`.
    """

    def __init__(self, story: Story) -> None:
        self._story = story
        self._groups: defaultdict[str, _Group] = defaultdict(_Group)
        self._left: dict[str, dict[str, int]] = {}
        """Topic → groups whose offsets of it were removed → when; the newest topic last."""
        self._sees_rebalances = True
        self._began_ms = -1
        """When groups were first described; commits before it come from a replay."""
        self._statuses: dict[str, int] = {}
        """`GroupStatus` by group before a restart, until the first complete round."""
        self.changes = 0
        """So often has the status of a group changed so far, or a topic been made anew."""

    # checkpoints

    @property
    def resting(self) -> list[tuple[str, int, bool]]:
        """Groups without members: since when, and had they any? What a checkpoint keeps."""
        return [
            (group, known.empty_ms, known.had_members)
            for group, known in self._groups.items()
            if known.empty_ms >= 0
        ]

    def restore(
        self, resting: Iterable[tuple[str, int, bool]], statuses: Mapping[str, int]
    ) -> None:
        """Begin with the groups that an earlier process knew to have no members, and verdicts."""
        for group, empty_ms, had_members in resting:
            known = self._groups[group]
            known.empty_ms, known.had_members = empty_ms, had_members
        self._statuses = dict(statuses)

    def forget_restored(self) -> None:
        """What was restored is of another cluster."""
        self._groups.clear()
        self._statuses = {}

    @property
    def awaited(self) -> Collection[str]:
        """Groups that had no members before a restart, as long as none is described since."""
        return self._groups if self._began_ms < 0 else ()

    # members

    def groups(self, report: GroupsSeen, now_ms: EpochMs) -> None:
        """Compare with what was described before."""
        counted = report.rebalances or {}
        visited = report.visited
        self._sees_rebalances = report.rebalances is not None
        if self._began_ms < 0:
            self._began_ms = now_ms
        for group, number in counted.items():
            known = self._groups[group]
            # that the last one left is often read after its group was seen to be empty
            if known.empty_ms >= 0 and group not in report.emptied:
                known.empty_ms = now_ms  # members came meanwhile, and may have set its offsets
                known.moved.clear()
            if number:
                after = EMPTY if group in visited else ""
                self._add(
                    now_ms, group, EventName.REBALANCE, after=after, count=number, to_record=False
                )
                known.rebalances.append((now_ms, number))
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
        self._words(known, now, now_ms)
        if before is None:
            self._recall(known, now, now_ms)
        elif before != now:
            self._members(known, before, now, now_ms)
            self._assigned(known, before, now, now_ms)
        rebalanced = now.group in (report.rebalances or {}) and now.group not in report.emptied
        self._confirm(known, now, now_ms, rebalanced=rebalanced)
        grown = len(now.members) - (0 if before is None else len(before.members))
        known.grown.append((now_ms, grown if before is not None or known.rebalances else 0))
        self._storm(known, now, now_ms)
        known.had_members |= bool(now.members)
        unsure = bool(now.members) or rebalanced
        known.seen_empty_ms = -1 if unsure else now_ms
        if now.members:
            known.empty_ms = -1
        elif known.empty_ms < 0:
            known.empty_ms = now_ms

    def _recall(self, known: _Group, now: GroupInfo, now_ms: EpochMs) -> None:
        """Go on with the story of an earlier process: what it began may end now."""
        story = self._story.of(now.group)
        for event in story:
            known.recall(event)
        if known.storm:
            known.rebalances.extend(
                (event.at_ms, event.count or 0)
                for event in story
                if event.event == EventName.REBALANCE
            )
        if _holds(now):
            known.unassigned_ms = -1
        returned = [member for member in now.members if member.instance_id in known.away]
        for member in returned:
            del known.away[member.instance_id]
        self._moved(now, EventName.STATIC_MEMBER_BACK, returned, now_ms)

    def _words(self, known: _Group, now: GroupInfo, now_ms: EpochMs) -> None:
        """An empty group has neither: then the words before count."""
        for name, is_now in ((EventName.PROTOCOL, now.type), (EventName.ASSIGNOR, now.assignor)):
            if is_now in ("", "unknown"):
                continue
            was = known.words.get(name, is_now)
            known.words[name] = is_now
            if was != is_now:
                self._add(now_ms, now.group, name, before=was, after=is_now)

    def _members(self, known: _Group, before: GroupInfo, now: GroupInfo, now_ms: EpochMs) -> None:
        old = {member.member_id: member for member in before.members}
        new = {member.member_id: member for member in now.members}
        joined = [new[each] for each in new.keys() - old.keys()]
        left = [old[each] for each in old.keys() - new.keys()]
        # one that was restarted between two looks has another member ID: it was away and is back
        gone = [member for member in left if member.instance_id]
        known.away |= {member.instance_id: now_ms for member in gone}
        self._moved(now, EventName.MEMBER_LEFT, [m for m in left if not m.instance_id], now_ms)
        self._moved(now, EventName.STATIC_MEMBER_AWAY, gone, now_ms)
        returned = [member for member in joined if member.instance_id in known.away]
        for member in returned:
            known.away.pop(member.instance_id, None)
        self._moved(now, EventName.STATIC_MEMBER_BACK, returned, now_ms)
        self._moved(now, EventName.MEMBER_JOINED, [m for m in joined if m not in returned], now_ms)

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
        self._add(now_ms, group.group, name, count=len(members), detail=_json(named))

    # assignments

    def _assigned(self, known: _Group, before: GroupInfo, now: GroupInfo, now_ms: EpochMs) -> None:
        held, holds = _holds(before), _holds(now)
        if held and not holds:
            known.unassigned_ms = now_ms
            self._add(now_ms, now.group, EventName.UNASSIGNED, after=now.state)
        elif holds and known.unassigned_ms >= 0:
            lasted = {"unassigned_s": (now_ms - known.unassigned_ms) / 1000}
            known.unassigned_ms = -1
            self._add(now_ms, now.group, EventName.ASSIGNED, detail=_json(lasted))

    # rebalances

    def _storm(self, known: _Group, now: GroupInfo, now_ms: EpochMs) -> None:
        for counts in (known.rebalances, known.grown):
            while counts and now_ms - counts[0][0] > STORM_MS:
                counts.popleft()
        number = sum(count for _, count in known.rebalances)
        if now.type != "classic":
            # each member that joins is an epoch of its own, where a classic group waits for all
            number = max(0, number - max(0, sum(count for _, count in known.grown)))
        group = now.group
        if number >= STORM_REBALANCES and not known.storm:
            known.storm = True
            self._add(now_ms, group, EventName.REBALANCE_STORM, after="began", count=number)
        elif known.storm and not number:
            known.storm = False
            self._add(now_ms, group, EventName.REBALANCE_STORM, after="ended")

    # offsets

    def moved(
        self,
        places: Iterable[Identity],
        before: Iterable[int],
        after: Iterable[int],
        at_ms: Iterable[int],
        *,
        now_ms: EpochMs,
    ) -> None:
        """Offsets changed while a group was known to be empty.

        It is an event once the group is seen to be empty after that: a member may have joined
        meanwhile. Only an offset that goes back is an event in a group that never had members,
        which commits as it likes, and where rebalances are not seen: there members may have come,
        committed and gone between two looks.
        """
        touched = set()
        for place, was, is_now, commit_ms in zip(places, before, after, at_ms, strict=True):
            known = self._groups[place[0]]
            if 0 <= known.empty_ms < commit_ms and self._by_hand(known, was, is_now):
                known.moved.append((place, was, is_now, commit_ms))
                touched.add(place[0])
        for group in sorted(touched):
            known = self._groups[group]
            newest_ms = max(commit_ms for *_, commit_ms in known.moved)
            # of a replay it shows later whether members came meanwhile
            if self._began_ms <= newest_ms <= known.seen_empty_ms and known.info is not None:
                self._confirm(known, known.info, now_ms, rebalanced=False)

    def _by_hand(self, known: _Group, was: int, is_now: int) -> bool:
        return is_now < was or (known.had_members and self._sees_rebalances)

    def _confirm(self, known: _Group, now: GroupInfo, now_ms: EpochMs, *, rebalanced: bool) -> None:
        moved, known.moved = known.moved, []
        if not moved or now.members or rebalanced:
            return
        by_topic: defaultdict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
        for (_, topic, partition), was, is_now, _ in moved:
            if not self._by_hand(known, was, is_now):
                continue  # whether rebalances are seen is known only now, after a restart
            first, _ = by_topic[topic].get(partition, (was, is_now))
            by_topic[topic][partition] = first, is_now
        for topic, partitions in sorted(by_topic.items()):
            named = [
                {"partition": partition, "before": was, "after": is_now}
                for partition, (was, is_now) in sorted(partitions.items())[:_NAMED]
            ]
            self._add(
                now_ms,
                now.group,
                EventName.OFFSETS_RESET,
                topic=topic,
                count=len(partitions),
                detail=_json(named),
            )

    # topics, losses, verdicts

    def left(self, places: Iterable[Identity], now_ms: EpochMs) -> None:
        """Committed offsets were removed: their groups may have read a topic that was deleted."""
        for group, topic, _ in places:
            self._left.setdefault(topic, {})[group] = int(now_ms)
        while len(self._left) > _MOST_LEFT:
            del self._left[next(iter(self._left))]

    def _readers(self, topic: str, reading: Iterable[str], now_ms: EpochMs) -> list[str]:
        """Groups that read a topic now, or did until their offsets of it were removed."""
        left = self._left.pop(topic, {})
        return sorted({*reading, *(g for g, at_ms in left.items() if now_ms - at_ms < _LEFT_MS)})

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
            self.changes += 1
            for group in self._readers(topic, groups_of.get(topic, ()), now_ms):
                self._add(now_ms, group, EventName.TOPIC_RECREATED, topic=topic)
        for topic in grown(before, after):
            was, is_now = _size(before, topic), _size(after, topic)
            for group in groups_of.get(topic, ()):
                self._add(
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
            self._add(
                loss.at_ms,
                loss.group,
                EventName.RECORDS_LOST,
                topic=loss.topic,
                partition=loss.partition,
                count=loss.messages,
                detail=loss.detail,
                to_record=False,
            )

    def verdicts(
        self, before: ClusterSnapshot | None, after: ClusterSnapshot, *, complete: bool
    ) -> None:
        """Groups whose status changed; the history records these itself.

        But not those that changed while lagwatch did not run: the first complete round finds them.
        """
        if self._statuses:
            if complete:
                statuses, self._statuses = self._statuses, {}
                for number, name in enumerate(after.groups):
                    was = statuses.get(name, int(after.group.status[number]))
                    self._verdict(was, after, number, to_record=True)
            return
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
            self._verdict(int(before.group.status[old]), after, number, to_record=False)

    def _verdict(self, was: int, after: ClusterSnapshot, number: int, *, to_record: bool) -> None:
        is_now = int(after.group.status[number])
        if was == is_now:
            return
        self.changes += 1
        worst = int(after.group.worst_row[number])
        known = after.group.max_lag_row[number] >= 0
        self._add(
            after.at_ms,
            after.groups[number],
            EventName.GROUP_STATUS,
            before=GroupStatus(was).name,
            after=GroupStatus(is_now).name,
            rule=Rule(int(after.rows.rule[worst])).word if worst >= 0 else None,
            lag=int(after.group.total_lag[number]) if known else None,
            to_record=to_record,
        )

    def _add(self, at_ms: EpochMs, group: str, name: EventName, **values: object) -> None:
        self._story.add(GroupEvent(at_ms=at_ms, group=group, event=name.value, **values))  # type: ignore[arg-type]  # names and types as in `GroupEvent`


def set_while_empty(
    membership: NDArray[np.int8], rows: Rows, before: Int64, after: Int64, *, unknown: bool
) -> Rows:
    """Positions in these columns of rows whose group has no members and whose offset changed.

    `unknown`: also of those whose members are not known.
    """
    kind = membership[rows]
    empty = (kind == Membership.EMPTY) | (unknown & (kind == Membership.UNKNOWN))
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


def _instances(event: GroupEvent) -> list[str]:
    """Static members that an event names."""
    named = json.loads(event.detail or "[]")
    return [each["instance_id"] for each in named if "instance_id" in each]


_json: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode

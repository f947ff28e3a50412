"""Groups and their members, and for each row whether a member reads it."""

import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.evaluate import Layout
from lagwatch.core.model import UNKNOWN, GroupInfo, Member, Membership
from lagwatch.core.snapshot import TopicColumns
from lagwatch.core.turns import NOBODY
from lagwatch.monitor.rows import Identity, position
from lagwatch.ports.reports import GroupsSeen

Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]
Owners = Mapping[tuple[str, int], Member]

_REBALANCING: Final = frozenset(
    {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady"}
)
_LOOPS: Final = 3
"""A group that never commits is given up when it has had no member for so many times as long as it
takes to find it."""
VISITS: Final = 3
"""So many times members come and go without reading before that is no finished job."""
_NEW_MEMBER_MS: Final = 900_000
"""A member that stays for longer is none of a crash loop."""
_TURNS: Final = 12
"""A partition waits for its turn for so many times as long as it takes to find it: an hour."""
_MOST_MEMBERS: Final = 2**30
"""Members are numbered anew from here on."""
_GONE_MS: Final = 60_000
"""A group that lists lack for so long is gone: a broker that has just started lists only the groups
that it has loaded."""
_MIRROR_TOPIC: Final = re.compile(r"^(?P<alias>.+)\.checkpoints\.internal$")
"""MirrorMaker 2 keeps one such topic on the target cluster for each source cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPatterns:
    """Regular expressions for names of groups; "" finds none."""

    read_committed: str = ""
    mirrored: str = ""


@dataclass(slots=True, kw_only=True)
class _Uncommitted:
    """A partition that a member holds and the group never committed."""

    since_ms: int
    left_ms: int = UNKNOWN
    """Since when no member holds it; -1 while one does."""
    log_end: int = UNKNOWN
    """End of what can be read when that was first looked at; -1 unknown."""
    grown_ms: int = UNKNOWN
    """When more than that was first seen; -1 not yet."""
    found: bool = False
    """True if the group was found never to commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visits:
    """Members of a group came and went again, with or without a look that saw them."""

    rows: NDArray[np.integer]
    """Of the group."""
    topics: NDArray[np.integer]
    """The number of each row's topic."""
    first_ms: int
    """When the last visit but two ended; -1: there were fewer."""


class Groups:
    """State and members of all groups of a cluster, and columns by row. One owner writes."""

    def __init__(self, patterns: GroupPatterns, *, never_commits_ms: int) -> None:
        """A group never commits when it has not for `never_commits_ms`, with messages coming."""
        self.info: dict[str, GroupInfo] = {}
        self.owners: dict[str, Owners] = {}
        self.rebalances: Counter[str] | None = Counter()
        """By group, since the start; None: they are not seen, because offsets are polled."""
        self.membership = np.zeros(0, np.int8)
        """`Membership`, by row of the window store."""
        self.holder = np.zeros(0, np.int32)
        """By row: the same number for all partitions that a member holds; `NOBODY`."""
        self._members = 0
        self.left_ms: Int64 | None = None
        self.visited_ms: Int64 | None = None
        """By row: when members had come and gone again for the last time but two; -1 also where
        they did not leave it unread: see `LiveState.note_visits`."""
        self._visits: dict[str, deque[int]] = {}
        """When groups were left by members that had come."""
        self._came: dict[str, dict[str, int]] = {}
        """When members came to groups that were known, by group and member: those of the last
        quarter of an hour."""
        self._visited: set[str] = set()
        """Groups to which members came and went since all groups were described last."""
        self._seen_visits: list[Visits] = []
        self.mirrored: Bools | None = None
        self.read_committed: Bools | None = None
        self._read_committed = re.compile(patterns.read_committed or r"(?!)")
        self._mirrored = re.compile(patterns.mirrored or r"(?!)")
        self._never_commits_ms = never_commits_ms
        self._dirty: set[str] = set()
        self._uncommitted: dict[str, dict[tuple[str, int], _Uncommitted]] = {}
        self._missing_ms: dict[str, int] = {}
        """Of `_uncommitted`: groups that Kafka does not list, and since when."""
        self.unread: set[str] = set()
        self.to_come: Counter[str] = Counter()
        """Partitions with messages that members hold and have not come to, by group: they work off
        the backlog of others, and nothing of these was committed yet."""
        """Of `_uncommitted`: groups whose members hold partitions that have messages now."""
        self._bereft: set[str] = set()
        """Of `_uncommitted`: groups whose last offset was removed, and to which no member came
        since."""
        self._sources: tuple[str, ...] = ()
        self._remembered: set[str] = set()
        """Groups known from a checkpoint only, until they are described again."""

    # checkpoints

    def copied(self, rows: NDArray[np.integer]) -> dict[str, NDArray[np.generic]]:
        """The columns that there are, of these rows; copies."""
        columns = {name: getattr(self, name) for name in ("membership", *_OPTIONAL)}
        return {name: column[rows] for name, column in columns.items() if column is not None}

    def put(self, first: int, columns: Mapping[str, NDArray[np.generic]]) -> None:
        """Write such copies into the rows from `first` on, for which there must be room."""
        for name, values in columns.items():
            if getattr(self, name) is None:
                setattr(self, name, np.full(self.membership.size, _OPTIONAL[name], values.dtype))
            getattr(self, name)[first : first + values.size] = values

    @property
    def uncommitted(self) -> list[tuple[str, str, int, int, int, int]]:
        """Partitions held and never committed.

        (group, topic, partition, since_ms, log_end, grown_ms)
        """
        return [
            (group, topic, partition, each.since_ms, each.log_end, each.grown_ms)
            for group, missing in self._uncommitted.items()
            for (topic, partition), each in missing.items()
        ]

    def remember(
        self, groups: Iterable[str], uncommitted: Iterable[tuple[str, str, int, int, int, int]]
    ) -> None:
        """Keep what a checkpoint says of these groups until they are described."""
        self._remembered = set(groups)
        # checkpoints of earlier versions have no `grown_ms`
        for group, topic, partition, since_ms, log_end, *grown_ms in uncommitted:
            self._uncommitted.setdefault(group, {})[topic, partition] = _Uncommitted(
                since_ms=since_ms, log_end=log_end, grown_ms=[*grown_ms, UNKNOWN][0]
            )
            self._remembered.add(group)

    def found_before(self, identity: Identity, since_ms: int) -> None:
        """A checkpoint says that the group was found never to commit this partition."""
        group, topic, partition = identity
        missing = self._uncommitted.setdefault(group, {})
        missing.setdefault((topic, partition), _Uncommitted(since_ms=since_ms)).found = True
        self._remembered.add(group)

    def _believe(self, report: GroupsSeen) -> None:
        """What is reported takes the place of what was remembered."""
        self._remembered.difference_update(info.group for info in report.groups)
        if report.complete:
            self._dirty |= self._remembered
            self._remembered.clear()

    # reports

    def take(self, report: GroupsSeen, now_ms: int) -> None:
        """Take in what is known of groups now."""
        self._believe(report)
        names = {info.group for info in report.groups}.union(report.refused)
        self._note_missing(report, names, now_ms)
        if report.complete:
            for name in self.info.keys() - names:
                self.drop(name)
            # what they committed then is in the windows now
            self._dirty |= self._visited
            self._visited.clear()
            self._forget_arrivals(now_ms - _NEW_MEMBER_MS)
        visited = report.visited
        for info in report.groups:
            self._note_visit(info, now_ms, visited=info.group in visited)
            if self.info.get(info.group) == info:
                continue
            self.info[info.group] = info
            self.owners[info.group] = {
                (topic, partition): member
                for member in info.members
                for topic, partitions in member.assignment
                for partition in partitions
            }
            self._dirty.add(info.group)
            if info.members:
                self._bereft.discard(info.group)
        if report.rebalances is None:
            self.rebalances = None
        else:
            self.rebalances = self.rebalances or Counter()
            # 0: members came or went before the start; it is not known how often
            self.rebalances.update({g: number for g, number in report.rebalances.items() if number})

    def _note_visit(self, info: GroupInfo, now_ms: int, *, visited: bool) -> None:
        """Note that members came and are gone again, also if no look saw them.

        A member that was killed stays listed until its session ends: one that is started again
        sooner leaves no moment without members.
        """
        seen = self._has_seen_visit(info, now_ms)
        if visited or seen:
            self._visits.setdefault(info.group, deque(maxlen=VISITS)).append(now_ms)
            self._dirty.add(info.group)
            self._visited.add(info.group)

    def _has_seen_visit(self, info: GroupInfo, now_ms: int) -> bool:
        """Have the last members left, or some that came when the last visit had ended?

        Those that work beside each other, as in one run of a job, are one visit.
        """
        before = self.info.get(info.group)
        if before is None or before.members == info.members or not (info.members or info.empty):
            return False
        there = {member.member_id for member in info.members}
        listed = {member.member_id for member in before.members}
        came = self._came.pop(info.group, {})
        visits = self._visits.get(info.group, ())
        ended_ms = visits[-1] if visits else UNKNOWN
        known = came if there else dict.fromkeys(listed, now_ms) | came
        seen = any(known.get(each, UNKNOWN) >= max(ended_ms, 0) for each in listed - there)
        stay = {each: at for each, at in came.items() if each in there}
        stay |= dict.fromkeys(there - listed, now_ms)
        if stay:
            self._came[info.group] = stay
        return seen

    def _forget_arrivals(self, before_ms: int) -> None:
        for group in list(self._came):
            kept = {each: at for each, at in self._came[group].items() if at >= before_ms}
            if kept:
                self._came[group] = kept
            else:
                del self._came[group]

    def take_visits(self) -> list[Visits]:
        """Of groups that were brought up to date since the last call, and had visits."""
        seen, self._seen_visits = self._seen_visits, []
        return seen

    def visit(self, rows: NDArray[np.integer], visited_ms: NDArray[np.int64]) -> None:
        """Members came and went; see `visited_ms`."""
        if self.visited_ms is None:
            self.visited_ms = np.full(self.membership.size, UNKNOWN, np.int64)
        self.visited_ms[rows] = visited_ms

    def drop(self, group: str) -> None:
        """Forget the state and members of a group that is not listed."""
        self._visits.pop(group, None)
        self._came.pop(group, None)
        self.info.pop(group, None)
        self.owners.pop(group, None)
        if self.rebalances is not None:
            self.rebalances.pop(group, None)
        self._remembered.discard(group)
        self._dirty.add(group)

    def gone(self, group: str) -> None:
        """Forget a group that was removed from Kafka, with what it never committed.

        Kafka also removes a group without offsets when all members' sessions have ended, as after
        an outage. Those who hold its partitions join again: it stays until Kafka shows it
        without members.
        """
        if group in self._uncommitted and self.owners.get(group):
            self._bereft.add(group)
            return
        self.drop(group)
        self._forget_uncommitted(group)

    def topics_changed(self, names: Iterable[str]) -> None:
        """Look for topics of MirrorMaker 2: they name the clusters that are copied."""
        found = (_MIRROR_TOPIC.match(name) for name in names)
        sources = tuple(sorted(f"{match['alias']}." for match in found if match))
        if sources != self._sources:
            self._sources = sources
            self._dirty.update(self.info)

    def rows_made(self, groups: Iterable[str]) -> None:
        """Rows of these groups came into being."""
        self._dirty.update(groups)
        self._bereft.difference_update(groups)

    def make_room(self, capacity: int) -> None:
        """Grow to this number of rows."""
        self.membership = _grown(self.membership, capacity, Membership.UNKNOWN)
        self.holder = _grown(self.holder, capacity, NOBODY)
        if self.left_ms is not None:
            self.left_ms = _grown(self.left_ms, capacity, UNKNOWN)
        if self.mirrored is not None:
            self.mirrored = _grown(self.mirrored, capacity, 0)
        if self.visited_ms is not None:
            self.visited_ms = _grown(self.visited_ms, capacity, UNKNOWN)
        if self.read_committed is not None:
            self.read_committed = _grown(self.read_committed, capacity, 0)

    def clear(self, rows: NDArray[np.integer]) -> None:
        """Forget these rows."""
        self.membership[rows] = Membership.UNKNOWN
        self.holder[rows] = NOBODY
        for column, empty in (
            (self.left_ms, UNKNOWN),
            (self.visited_ms, UNKNOWN),
            (self.mirrored, 0),
            (self.read_committed, 0),
        ):
            if column is not None:
                column[rows] = empty

    # columns

    def refresh(
        self, layout: Layout, now_ms: int, silent: Collection[Identity] = ()
    ) -> NDArray[np.integer]:
        """Bring the columns of groups that changed up to date; returns the rows of these.

        `silent`: those that have a row and never committed.
        """
        touched = [np.zeros(0, np.int32)]
        for group in self._dirty:
            number = layout.group_index.get(group)
            first, end = (0, 0) if number is None else layout.group_first[number : number + 2]
            part = slice(int(first), int(end))
            self._refresh(group, layout, part, now_ms, silent)
            touched.append(layout.window[part])
        self._dirty.clear()
        return np.concatenate(touched)

    def _refresh(
        self, group: str, layout: Layout, part: slice, now_ms: int, silent: Collection[Identity]
    ) -> None:
        rows = layout.window[part]
        topics = [layout.topic_names[topic] for topic in layout.topic[part].tolist()]
        partitions = list(zip(topics, layout.partition[part].tolist(), strict=True))
        info, owners = self.info.get(group), self.owners.get(group, {})
        if info is None and group in self._remembered:
            return
        committed = {each for each in partitions if (group, *each) not in silent}
        self._note_uncommitted(group, owners, committed, now_ms)
        if not partitions:
            return
        self.membership[rows] = _memberships(info, owners, partitions)
        self.holder[rows] = self._holders(owners, partitions)
        self._note_left(info, owners, rows, topics, now_ms)
        if visits := self._visits.get(group):
            first_ms = visits[0] if len(visits) == VISITS else UNKNOWN
            self._seen_visits.append(
                Visits(rows=rows, topics=layout.topic[part], first_ms=first_ms)
            )
        if self._read_committed.search(group) or self.read_committed is not None:
            known = self._read_committed.search(group) is not None
            marks = np.full(rows.size, known, np.bool_)
            self.read_committed = self._marked(self.read_committed, rows, marks)
        mirrored = [self._is_mirrored(group, info, topic) for topic in topics]
        if any(mirrored) or self.mirrored is not None:
            self.mirrored = self._marked(self.mirrored, rows, np.array(mirrored, np.bool_))

    def _holders(self, owners: Owners, partitions: Iterable[tuple[str, int]]) -> list[int]:
        """Numbers of the members that hold these partitions of a group, of several each."""
        held_by = [
            None if (member := owners.get(partition)) is None else member.member_id
            for partition in partitions
        ]
        held = Counter(held_by)
        several = [member for member, number in held.items() if member is not None and number > 1]
        first = self._members
        self._members = (first + len(several)) % _MOST_MEMBERS
        numbers = {member: first + place for place, member in enumerate(several)}
        return [NOBODY if member is None else numbers.get(member, NOBODY) for member in held_by]

    def _marked(self, column: Bools | None, rows: NDArray[np.integer], marks: Bools) -> Bools:
        if column is None:
            column = np.zeros(self.membership.size, np.bool_)
        column[rows] = marks
        return column

    def _is_mirrored(self, group: str, info: GroupInfo | None, topic: str) -> bool:
        """By the pattern, or: a topic of a mirrored cluster, and offsets without a consumer."""
        if self._mirrored.search(group):
            return True
        return info is not None and not info.members and topic.startswith(self._sources)

    def _note_left(
        self,
        info: GroupInfo | None,
        owners: Owners,
        rows: NDArray[np.integer],
        topics: Sequence[str],
        now_ms: int,
    ) -> None:
        """Since when topics are not subscribed to: a stable group holds none of their partitions.

        While a group is empty or rebalances nothing is learned: a topic that was left stays left.
        """
        if info is None or info.state != "Stable" or not owners:
            return
        held = {topic for topic, _ in owners}
        left = np.array([topic not in held for topic in topics], np.bool_)
        if self.left_ms is None:
            if not left.any():
                return
            self.left_ms = np.full(self.membership.size, UNKNOWN, np.int64)
        before = self.left_ms[rows]
        self.left_ms[rows] = np.where(left, np.where(before >= 0, before, now_ms), UNKNOWN)

    # groups that never commit

    def _note_uncommitted(
        self, group: str, owners: Owners, committed: set[tuple[str, int]], now_ms: int
    ) -> None:
        """Note partitions that members hold without any commit.

        Members that are away for a short while, as they are after an outage, have held them on.
        """
        missing = {
            partition: each
            for partition, each in self._uncommitted.pop(group, {}).items()
            if partition not in committed and not self._has_left(each, now_ms)
        }
        for partition, each in missing.items():
            if partition not in owners and each.left_ms < 0:
                each.left_ms = now_ms
        for partition in owners.keys() - committed:
            missing.setdefault(partition, _Uncommitted(since_ms=now_ms)).left_ms = UNKNOWN
        if missing:
            self._uncommitted[group] = missing

    def _has_left(self, each: _Uncommitted, now_ms: int) -> bool:
        # who is started again and again may be waited for longer: what starts it waits longer
        # from time to time, up to five minutes
        patience_ms = self._never_commits_ms * (_LOOPS if each.found else 1)
        return each.left_ms >= 0 and now_ms - each.left_ms >= patience_ms

    def never_commit(
        self,
        topics: TopicColumns,
        now_ms: int,
        there_since_ms: Int64,
        at_work: Callable[[Collection[str]], Mapping[str, Collection[str]]] = lambda _: {},
    ) -> dict[Identity, int]:
        """Partitions held, with messages that wait for long, and no commit → since when.

        Messages that came and can be read: not those of an open transaction. Before
        `there_since_ms`, by topic-partition, Kafka was away, and no group could commit.

        A partition stays one of them while members come and go: until a commit, until none has
        come for long, or until the group is gone. It becomes none, for an hour at most, while its
        member is `at_work` on the backlog of others: says ids of such members, by group.
        """
        for group in [group for group in self._uncommitted if self._is_gone(group, now_ms)]:
            self._forget_uncommitted(group)
        found = {}
        work = at_work(self._uncommitted) if self._uncommitted else {}
        self.unread, self.to_come = set(), Counter()
        for group, missing in self._uncommitted.items():
            for (topic, partition), each in missing.items():
                at = position(topics, topic, partition)
                if at < 0:
                    continue
                log_end, stable = int(topics.log_end[at]), int(topics.last_stable[at])
                end = log_end if stable < 0 else min(log_end, stable)
                if each.log_end < 0:
                    each.log_end = end
                if end > each.log_end >= 0 and each.grown_ms < 0:
                    each.grown_ms = now_ms
                waits = self._is_held_by(work.get(group, ()), group, (topic, partition))
                each.found |= (
                    each.grown_ms >= 0
                    and now_ms - max(each.since_ms, each.grown_ms, int(there_since_ms[at]))
                    >= self._never_commits_ms
                    and self._holds(group, (topic, partition))
                    and (now_ms - each.since_ms >= _TURNS * self._never_commits_ms or not waits)
                )
                if each.left_ms < 0 and int(topics.log_start[at]) < end:
                    self.unread.add(group)
                    if waits and not each.found:
                        self.to_come[group] += 1
                if each.found and not self._has_left(each, now_ms):
                    found[group, topic, partition] = each.since_ms
        return found

    def is_uncommitted(self, group: str) -> bool:
        """True if members of the group hold, or held, partitions that it never committed."""
        return group in self._uncommitted

    def lost_offsets(self, group: str) -> None:
        """The last committed offset of the group was removed: without members, it is gone."""
        self._bereft.add(group)

    def _note_missing(self, report: GroupsSeen, names: AbstractSet[str], now_ms: int) -> None:
        """Note which groups are not among the `names` of a report, or are described as dead."""
        if not (self._uncommitted or self._missing_ms):
            return
        dead = {info.group for info in report.groups if info.state == "Dead" and not info.members}
        listed = names - dead
        lacking = self._uncommitted.keys() - listed if report.complete else dead
        for group in lacking & self._uncommitted.keys():
            self._missing_ms.setdefault(group, now_ms)
        for group in listed & self._missing_ms.keys():
            del self._missing_ms[group]

    def _is_gone(self, group: str, now_ms: int) -> bool:
        """True if a group with uncommitted partitions is not in Kafka any more."""
        if group in self._bereft and group not in self._remembered:
            info = self.info.get(group)
            return info is None or (not info.members and info.state != "Unknown")
        missing_ms = self._missing_ms.get(group)
        return missing_ms is not None and now_ms - missing_ms >= _GONE_MS

    def _forget_uncommitted(self, group: str) -> None:
        self._uncommitted.pop(group, None)
        self._missing_ms.pop(group, None)
        self._bereft.discard(group)

    def commits(self, group: str, partition: tuple[str, int] | None = None) -> None:
        """Remove this partition, or all of the group, from those without a commit."""
        missing = self._uncommitted.get(group, {})
        for each in [partition] if partition else list(missing):
            missing.pop(each, None)

    def _is_held_by(self, members: Collection[str], group: str, partition: tuple[str, int]) -> bool:
        member = self.owners.get(group, {}).get(partition)
        return member is not None and member.member_id in members

    def _holds(self, group: str, partition: tuple[str, int]) -> bool:
        """True if a member is known to hold this partition now."""
        return group in self._remembered or partition in self.owners.get(group, {})


_OPTIONAL: Final[Mapping[str, int]] = {
    "left_ms": UNKNOWN,
    "visited_ms": UNKNOWN,
    "mirrored": 0,
    "read_committed": 0,
}
"""Columns that are made when they are needed, and what an empty row has in them."""


def _memberships(
    info: GroupInfo | None, owners: Owners, partitions: Iterable[tuple[str, int]]
) -> list[Membership] | Membership:
    if info is None or info.state == "Unknown":
        return Membership.UNKNOWN
    if info.state in _REBALANCING:
        return Membership.REBALANCING
    if not info.members:
        return Membership.EMPTY
    return [
        Membership.HELD if partition in owners else Membership.UNHELD for partition in partitions
    ]


def _grown(column: NDArray[np.generic], capacity: int, empty: int) -> NDArray:  # type: ignore[type-arg]
    if capacity <= column.size:
        return column
    grown = np.full(capacity, empty, column.dtype)
    grown[: column.size] = column
    return grown

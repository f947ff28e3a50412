"""Groups: state, members, rebalances."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

import structlog

from lagwatch.clock import Clock
from lagwatch.core.model import UNKNOWN, GroupInfo
from lagwatch.errors import SourceError
from lagwatch.pollers.facts import Facts, sentences
from lagwatch.pollers.filters import Filters
from lagwatch.pollers.loop import Send, Wake
from lagwatch.ports.kafka import GroupDescriptions, GroupSource, ListedGroup, OtherGroupSource
from lagwatch.ports.reports import GroupsSeen, SourceKind

_MENTIONS: Final = 200
"""Groups that commits name and no list shows, asked for one by one in a round."""
_LOOKS: Final = 500
"""Groups without members that are described because of commits, between two full rounds."""
_WITHOUT_MEMBERS: Final = frozenset({"Empty", "Dead"})
_ASK_RIGHTS_S: Final = 600.0
_UNASKED: Final = "nothing describes them"
_CLUSTER_RIGHT: Final = (
    "groups without an ACL of their own are not visible; grant: "
    "Allow DESCRIBE on CLUSTER kafka-cluster"
)

_log = structlog.get_logger(__name__)


class GroupPoller:
    """Lists and describes all groups in turn; a group that rebalances, at once."""

    source = SourceKind.GROUPS

    def __init__(
        self,
        groups: GroupSource,
        *,
        filters: Filters,
        facts: Facts,
        clock: Clock,
        send: Send,
        wake: Wake,
        interval_s: float,
        counts: Callable[[], bool],
        others: OtherGroupSource | None = None,
    ) -> None:
        """`counts` says whether `rebalanced` is called for every rebalance.

        `others` describes share and streams groups; None: their state is not known.
        """
        self._source = groups
        self._others = others
        self._counts = counts
        self._filters = filters
        self._facts = facts
        self._clock = clock
        self._send = send
        self._wake = wake
        self._interval_s = interval_s
        self._round_s: float | None = None
        self._problems: Sequence[str] = ()
        self._rights_s: float | None = None
        self._hot: set[str] = set()
        self._rebalances: Counter[str] = Counter()
        self._came: set[str] = set()
        """Those of `_rebalances` to which members may have come."""
        self._resting: set[str] = set()
        """Groups seen to be without members, of which no commit was looked into since."""
        self._looks = 0
        self._mentioned: set[str] = set()
        self._listed: frozenset[str] = frozenset()
        self._other: dict[str, GroupInfo] = {}
        """Share and streams groups, as last described."""
        self._described: set[str] = set()
        self._hidden: dict[str, str] = {}
        """Groups that could not be described, with the reason."""
        self._kinds: dict[str, str] = {}
        """`share` or `streams`, as their records or commits say."""

    @property
    def shares(self) -> AbstractSet[str]:
        """Share groups that are listed."""
        return {name for name, info in self._other.items() if info.type == "share"}

    def is_kind(self, name: str, kind: str) -> None:
        """Note from a record that this is a share or a streams group."""
        self._kinds[name] = kind

    def is_listed(self, name: str) -> bool:
        """Does Kafka list this group?"""
        return name in self._listed or name in self._other

    def any_listed(self) -> bool:
        """True if any group is listed."""
        return bool(self._listed)

    def mention(self, names: Iterable[str]) -> None:
        """Commits name these groups."""
        self._mentioned.update(names)

    def rebalanced(self, name: str, *, emptied: bool = False) -> None:
        """Describe this group soon: its members or assignment changed; `emptied`: none is left."""
        self._rebalances[name] += 1
        if not emptied:
            self._came.add(name)
        self._hot.add(name)
        self._wake.call()

    def rebalanced_before(self, name: str) -> None:
        """A replay shows that members came or went, but not how often."""
        self._rebalances[name] += 0
        self._came.add(name)

    def committed(self, names: Iterable[str]) -> None:
        """Describe soon those of these groups that had no members when they were listed.

        Their offsets may have been reset. Once between two full rounds: some groups never have
        members, and commit all the time.
        """
        found = self._resting.intersection(names) if self._looks > 0 else set()
        self._looks -= len(found)
        if found:
            self._resting -= found
            self._hot |= found
            self._wake.call()

    async def poll_once(self) -> Sequence[str]:
        """All groups when their time has come, else those that rebalanced."""
        hot: Sequence[str] = ()
        if self._round_due():
            self._problems = await self._all()
            self._round_s = self._clock.monotonic_s()
        else:
            hot = await self._hot_ones()
        await self._facts.send()
        # problems of the last full round stay until the next full round
        return list(dict.fromkeys([*self._problems, *hot]))

    def _round_due(self) -> bool:
        if self._round_s is None:
            return True
        # rather a round slightly early than one that waits for the next wake
        return self._clock.monotonic_s() - self._round_s >= 0.9 * self._interval_s

    async def _all(self) -> Sequence[str]:
        listing = await self._source.list_groups()
        listed = {each.name: each for each in listing.groups if self._filters.group(each.name)}
        self._listed = frozenset(listed)
        idle = [each for each in listed.values() if each.state in _WITHOUT_MEMBERS]
        self._resting, self._looks = {each.name for each in idle}, _LOOKS
        others = sorted(name for name in listing.others if self._filters.group(name))
        # of these kinds only streams groups commit offsets
        committing = self._mentioned.intersection(others) - self._kinds.keys()
        self._kinds |= dict.fromkeys(committing, "streams")
        absent = sorted(self._mentioned - listed.keys() - set(others))[:_MENTIONS]
        asked = [name for name, each in listed.items() if each.state not in _WITHOUT_MEMBERS]
        answer = await self._describe([*asked, *absent])
        self._mentioned = set(absent) & set(answer.refused)
        self._other = {name: self._other[name] for name in others if name in self._other}
        other = await self._describe_others(others)
        self._say_hidden()
        infos = (*answer.infos, *(self._idle(each) for each in idle), *other.infos)
        failed = listing.problem or answer.problems or other.problems
        answer = replace(answer, refused=(*answer.refused, *other.refused))
        await self._report(infos, answer, complete=not failed)
        await self._note_unseen(answer.refused)
        return [*([listing.problem] if listing.problem else []), *_summed(answer.problems)]

    async def _describe_others(self, names: Sequence[str]) -> GroupDescriptions:
        """Share and streams groups; a group never described has neither state nor members.

        `problems` are of those that were described before: what is known of them stays.
        """
        found = GroupDescriptions(
            infos=(), refused=(), missing=(), problems=dict.fromkeys(names, _UNASKED)
        )
        if self._others is not None and names:
            found = await self._others.describe(names)
        for name in found.missing:
            self._other.pop(name, None)
        described = {info.group: info for info in found.infos}
        known = self._described.intersection(found.problems)
        self._described |= described.keys()
        blank = [name for name in found.problems if name not in known]
        described |= {name: _undescribed(name, self._kinds.get(name, "unknown")) for name in blank}
        self._other |= described
        self._hidden = {each: why for each, why in self._hidden.items() if each not in names}
        self._hidden |= found.problems
        problems = {name: found.problems[name] for name in known}
        return replace(found, infos=tuple(described.values()), problems=problems)

    def _say_hidden(self) -> None:
        """By kind and count, with one of the reasons."""
        by_kind: defaultdict[str, list[str]] = defaultdict(list)
        self._hidden = {name: why for name, why in self._hidden.items() if name in self._other}
        for name in self._hidden:
            by_kind[self._other[name].type].append(name)
        self._facts.unseen(
            "share and streams groups",
            [
                f"{_counted(len(names), kind)}: state and members are not visible: "
                f"{self._hidden[names[0]]}"
                for kind, names in sorted(by_kind.items())
            ],
        )

    async def _hot_ones(self) -> Sequence[str]:
        hot, self._hot = sorted(self._hot), set()
        if not hot:
            return ()
        ours = [name for name in hot if name not in self._kinds]
        answer = await self._describe(ours)
        infos = answer.infos
        if len(ours) < len(hot):
            infos += (await self._describe_others([*self._kinds.keys() & set(hot)])).infos
        # those that rebalanced may have lost their last member: the next commit may be a reset
        emptied = {each.group for each in infos if not each.members}
        self._resting |= emptied.intersection(self._rebalances)
        await self._report(infos, answer, complete=False)
        return _summed(answer.problems)

    async def _describe(self, names: Sequence[str]) -> GroupDescriptions:
        self._hot.difference_update(names)
        return await self._source.describe(names)

    async def _report(
        self, infos: Sequence[GroupInfo], answer: GroupDescriptions, *, complete: bool
    ) -> None:
        rebalances, self._rebalances = dict(self._rebalances), Counter()
        came, self._came = self._came, set()
        await self._send(
            GroupsSeen(
                groups=tuple(infos),
                complete=complete,
                refused=answer.refused,
                rebalances=rebalances if self._counts() else None,
                emptied=frozenset(rebalances.keys() - came),
            )
        )
        _log.debug("groups_seen", groups=len(infos), refused=len(answer.refused), whole=complete)

    def _idle(self, listed: ListedGroup) -> GroupInfo:
        """A group without members is described fully by the list: no need to describe it."""
        return GroupInfo(
            group=listed.name,
            type=listed.type,
            state=listed.state,
            assignor="",
            coordinator=UNKNOWN,
            members=(),
        )

    async def _note_unseen(self, refused: Sequence[str]) -> None:
        self._facts.unseen(
            "groups",
            sentences(
                refused,
                "group {name}: state and members are not visible; grant: "
                "Allow DESCRIBE on GROUP {name}",
            ),
        )
        now_s = self._clock.monotonic_s()
        if self._rights_s is None or now_s - self._rights_s >= _ASK_RIGHTS_S:
            self._rights_s = now_s
            try:
                whole = await self._source.may_list_all()
            except SourceError as error:  # only an addition: asked for again in the next round
                _log.debug("rights_unknown", reason=str(error))
                return
            self._facts.unseen("cluster", () if whole else (_CLUSTER_RIGHT,))


def _undescribed(name: str, kind: str) -> GroupInfo:
    """A share or a streams group that could not be described."""
    return GroupInfo(
        group=name, type=kind, state="Unknown", assignor="", coordinator=UNKNOWN, members=()
    )


def _counted(number: int, kind: str) -> str:
    groups = "group" if number == 1 else "groups"
    return f"{number} {'share or streams' if kind == 'unknown' else kind} {groups}"


def _summed(problems: Mapping[str, str]) -> list[str]:
    """One sentence for each kind of problem, with the number of groups that have it."""
    # only where it is said to be a group: "a" is one as well
    kinds = Counter(
        text.replace(f"group {name} ", "group … ").replace(f"'{name}'", "'…'")
        for name, text in problems.items()
    )
    return [f"{count} groups: {text}" if count > 1 else text for text, count in kinds.items()]

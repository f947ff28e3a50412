"""Groups: state, members, rebalances."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import structlog

from lagwatch.clock import Clock
from lagwatch.core.model import UNKNOWN, GroupInfo
from lagwatch.errors import SourceError
from lagwatch.pollers.facts import Facts, sentences
from lagwatch.pollers.filters import Filters
from lagwatch.pollers.loop import Send, Wake
from lagwatch.ports.kafka import GroupDescriptions, GroupSource, ListedGroup
from lagwatch.ports.reports import GroupsSeen, SourceKind

_MENTIONS: Final = 200
"""Groups that commits name and no list shows, asked for one by one in a round."""
_WITHOUT_MEMBERS: Final = frozenset({"Empty", "Dead"})
_ASK_RIGHTS_S: Final = 600.0
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
    ) -> None:
        self._source = groups
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
        self._mentioned: set[str] = set()
        self._listed: frozenset[str] = frozenset()
        self._streams: frozenset[str] = frozenset()

    def any_listed(self) -> bool:
        """Are there groups at all?"""
        return bool(self._listed)

    def mention(self, names: Iterable[str]) -> None:
        """Commits name these groups."""
        self._mentioned.update(names)

    def rebalanced(self, name: str) -> None:
        """Describe this group soon: its members or assignment changed."""
        self._rebalances[name] += 1
        self._hot.add(name)
        self._wake.call()

    async def poll_once(self) -> Sequence[str]:
        """All groups when their time has come, else those that rebalanced."""
        hot: Sequence[str] = ()
        if self._round_due():
            self._problems = await self._all()
            self._round_s = self._clock.monotonic_s()
        else:
            hot = await self._hot_ones()
        await self._facts.tell()
        # what failed in the last round of all is not mended by asking for some, or for none
        return list(dict.fromkeys([*self._problems, *hot]))

    def _round_due(self) -> bool:
        if self._round_s is None:
            return True
        # a round a moment early is better than one that waits for the next wake
        return self._clock.monotonic_s() - self._round_s >= 0.9 * self._interval_s

    async def _all(self) -> Sequence[str]:
        listing = await self._source.list_groups()
        listed = {each.name: each for each in listing.groups if self._filters.group(each.name)}
        self._listed = frozenset(listed)
        idle = [each for each in listed.values() if each.state in _WITHOUT_MEMBERS]
        others = frozenset(name for name in listing.others if self._filters.group(name))
        absent = sorted(self._mentioned - listed.keys())[:_MENTIONS]
        absent = sorted({*absent, *(self._streams & others)} - listed.keys())
        asked = [name for name, each in listed.items() if each.state not in _WITHOUT_MEMBERS]
        answer = await self._describe([*asked, *absent])
        self._mentioned = set(absent) & set(answer.refused)
        # it commits, Kafka lists it, and yet it is neither a classic nor a KIP-848 group
        self._streams = others & set(answer.missing)
        streams = (_undescribed(name) for name in sorted(self._streams))
        infos = (*answer.infos, *(self._idle(each) for each in idle), *streams)
        await self._tell(infos, answer, complete=not listing.problem and not answer.problems)
        await self._note_unseen(answer.refused)
        return [*([listing.problem] if listing.problem else []), *_summed(answer.problems)]

    async def _hot_ones(self) -> Sequence[str]:
        hot, self._hot = sorted(self._hot), set()
        if not hot:
            return ()
        answer = await self._describe(hot)
        await self._tell(answer.infos, answer, complete=False)
        return _summed(answer.problems)

    async def _describe(self, names: Sequence[str]) -> GroupDescriptions:
        self._hot.difference_update(names)
        return await self._source.describe(names)

    async def _tell(
        self, infos: Sequence[GroupInfo], answer: GroupDescriptions, *, complete: bool
    ) -> None:
        rebalances, self._rebalances = dict(self._rebalances), Counter()
        await self._send(
            GroupsSeen(
                groups=tuple(infos),
                complete=complete,
                refused=answer.refused,
                rebalances=rebalances,
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
            except SourceError as error:  # only good to know: the next time will do
                _log.debug("rights_unknown", reason=str(error))
                return
            self._facts.unseen("cluster", () if whole else (_CLUSTER_RIGHT,))


def _undescribed(name: str) -> GroupInfo:
    """A streams group (KIP-1071): the client library cannot describe it."""
    return GroupInfo(
        group=name, type="streams", state="Unknown", assignor="", coordinator=UNKNOWN, members=()
    )


def _summed(problems: Mapping[str, str]) -> list[str]:
    """One sentence for each kind of problem, with the number of groups that have it."""
    kinds = Counter(text.replace(name, "…") for name, text in problems.items())
    return [f"{count} groups: {text}" if count > 1 else text for text, count in kinds.items()]

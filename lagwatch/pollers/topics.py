"""Topics: their list, and topics that were deleted and created again under the same name."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

import numpy as np
import structlog

from lagwatch.clock import Clock
from lagwatch.core.model import UNKNOWN, EpochMs
from lagwatch.pollers.facts import Facts, sentences
from lagwatch.pollers.filters import Filters
from lagwatch.pollers.loop import Send, Wake
from lagwatch.ports.kafka import TopicListing, TopicSource
from lagwatch.ports.reports import SourceKind, Topics

_MENTIONS: Final = 1_000
"""Names kept of topics that commits mention and the listing does not show."""
_IDS: Final = 8
"""Ids kept of one topic: the newest."""
_NAMED: Final = 100_000
"""Topics kept whose ids commits name; beyond that only those that exist."""
_LOOKS: Final = 30
"""Extra listings, one a second, for a topic that went away and is still committed to."""
_ANEW: Final = 1_000
"""Re-created topics kept; a poll of committed offsets asks for them once."""
_NO_TOPICS: Final = TopicListing(
    names=(), partitions=np.zeros(0, np.int32), leader=np.zeros(0, np.int32)
)

_log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class _Gone:
    """A topic that is not listed any more."""

    seen_ms: int
    """Last instant at which its id was seen."""
    looks: int = 0
    """Extra listings so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Anew:
    """A topic that was made anew under its name."""

    after_ms: int
    """Last instant at which the deleted topic was seen."""
    noticed_ms: int


class TopicPoller:
    """Lists the topics and reports every change of names, ids, partitions or leaders."""

    source = SourceKind.TOPICS

    def __init__(
        self,
        topics: TopicSource,
        *,
        filters: Filters,
        facts: Facts,
        clock: Clock,
        send: Send,
        wake: Wake,
        on_change: Callable[[], None],
        interval_s: float,
        on_anew: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_change` is called after every report: log ends are worth asking for then.

        `on_anew` is called when a topic was made anew: its committed offsets are new, too.
        """
        self._source = topics
        self._filters = filters
        self._facts = facts
        self._clock = clock
        self._send = send
        self._wake = wake
        self._on_change = on_change
        self._on_anew = on_anew
        self._interval_s = interval_s
        self._reported: Topics | None = None
        self._listing = _NO_TOPICS
        """The topics of the last report."""
        self._counts: dict[str, int] = {}
        self._everything = _NO_TOPICS
        self._one: dict[str, TopicListing] = {}
        """Of `_everything`, by name, those that were asked for."""
        self._ids: dict[str, str] = {}
        self._by_id: dict[str, str] = {}
        self._names_of = self._ids
        """The names that `_by_id` was made of."""
        self._ids_asked_s: float | None = None
        self._ids_ms = UNKNOWN
        """When all ids were asked for last."""
        self._hidden: frozenset[str] = frozenset()
        """Topics that may exist: Kafka refuses to say."""
        self._taken_away: frozenset[str] = frozenset()
        """Those of them that were listed before."""
        self._gone: dict[str, _Gone] = {}
        self._anew: dict[str, _Anew] = {}
        self._doubt = False
        self._mentioned: dict[str, None] = {}
        self._named: dict[str, dict[str, int]] = {}
        """Topic → ids that commits name, each with its earliest commit (epoch ms)."""

    def suspect(self, *, ids: bool) -> None:
        """List the topics again, because something contradicts the listing.

        With `ids` ask for all ids.
        """
        self._doubt = self._doubt or ids
        self._wake.call()

    @property
    def listed(self) -> bool:
        """True if the topics have been listed once."""
        return self._reported is not None

    def partitions_of(self, name: str) -> int:
        """Number of partitions of a topic, monitored or not; 0 when it is not visible."""
        return self._counts.get(name, 0)

    def name_of(self, topic_id: str) -> str | None:
        """The monitored topic with this id; None while there is none."""
        if self._names_of is not self._ids:
            self._names_of = self._ids
            self._by_id = {each: name for name, each in self._ids.items() if each}
        return self._by_id.get(topic_id)

    def any_listing(self, name: str) -> TopicListing | None:
        """One topic, monitored or not; None when it is not visible."""
        if name not in self._counts:
            return None
        if name not in self._one:
            every = self._everything
            at = every.names.index(name)
            first, count = int(every.partitions[:at].sum()), self._counts[name]
            self._one[name] = TopicListing(
                names=(name,),
                partitions=every.partitions[at : at + 1],
                leader=every.leader[first : first + count],
            )
        return self._one[name]

    def mention(self, names: Iterable[str]) -> None:
        """Note topics that commits name; unknown ones are looked for at once."""
        known = self._ids.keys() | self._mentioned.keys()
        new = [name for name in set(names) if name not in known]
        if new and len(self._mentioned) < _MENTIONS:
            self._mentioned.update(dict.fromkeys(new))
            self._wake.call()

    @property
    def gone(self) -> AbstractSet[str]:
        """Topics that are gone: a commit to one of them means that it exists again."""
        return self._gone.keys()

    def committed_to(self, names: Iterable[str]) -> None:
        """Note committed topics; those that disappeared are looked for at once."""
        again = [name for name in names if name in self._gone and self._gone[name].looks < _LOOKS]
        if again:
            self.mention(again)

    def made_anew(self, *, after_ms: int, until_ms: int) -> frozenset[str]:
        """Topics found to be made anew between these instants: what is committed now is new."""
        if not self._anew:
            return frozenset()
        return frozenset(
            name for name, anew in self._anew.items() if after_ms < anew.noticed_ms <= until_ms
        )

    def named(self, name: str, topic_id: str, first_ms: int) -> None:
        """Note the id in a commit; if it is newer than the listed id, the topic was re-created."""
        ids = self._named.setdefault(name, {})
        news = topic_id not in ids and first_ms > max(ids.values(), default=UNKNOWN)
        ids[topic_id] = min(first_ms, ids.get(topic_id, first_ms))
        if len(ids) > _IDS:
            del ids[min(ids, key=ids.__getitem__)]
        if not news or name not in self._ids:
            return
        if self._ids[name] != topic_id:
            self.suspect(ids=True)
        elif len(ids) > 1:  # listed already, and now its first commit is known
            self._wake.call()

    def current(self) -> tuple[int, TopicListing]:
        """The version last reported and its topics; version 0: none yet."""
        return 0 if self._reported is None else self._reported.version, self._listing

    async def poll_once(self) -> Sequence[str]:
        """List; ask for ids where they can be new; report changes."""
        everything = await self._source.list_topics()
        self._everything = everything
        self._one.clear()
        if len(self._named) > _NAMED:
            listed = set(everything.names)
            self._named = {name: ids for name, ids in self._named.items() if name in listed}
        self._counts = dict(zip(everything.names, everything.partitions.tolist(), strict=True))
        listing = self._ours(everything)
        await self._ask_ids(listing)
        topics = self._report(listing)
        if self._reported is None or _changed(self._reported, topics):
            self._reported = topics
            self._listing = TopicListing(
                names=topics.names, partitions=topics.partitions, leader=topics.leader
            )
            await self._send(topics)
            self._on_change()
            _log.info("topics_changed", topics=len(topics.names), version=topics.version)
        await self._facts.send()
        return sentences(
            self._taken_away if listing.names else self._hidden,
            "lagwatch may not describe topic {name}, the lag of its groups is unknown; "
            "grant: Allow DESCRIBE on TOPIC {name}",
        )

    def _ours(self, listing: TopicListing) -> TopicListing:
        keep = np.fromiter(map(self._filters.topic, listing.names), np.bool_, len(listing.names))
        if keep.all():
            return listing
        return TopicListing(
            names=tuple(name for name, kept in zip(listing.names, keep, strict=True) if kept),
            partitions=listing.partitions[keep],
            leader=listing.leader[np.repeat(keep, listing.partitions)],
        )

    async def _ask_ids(self, listing: TopicListing) -> None:
        """All ids now and then or in doubt, else only those of new names; and of absent ones."""
        names, before = set(listing.names), self._ids
        self._note_gone(names)
        self._ids = {name: each for name, each in before.items() if name in names}
        asked = listing.names if self._all_ids_due() else sorted(names - self._ids.keys())
        absent = [name for name in self._mentioned if name not in names]
        vanished = [name for name in before if name not in names and name not in self._mentioned]
        asked_ms = self._clock.now_ms()
        answer = await self._source.topic_ids([*asked, *absent, *vanished])
        self._hidden = frozenset(answer.refused)
        self._taken_away = self._hidden.intersection(self._taken_away.union(vanished))
        self._ids.update(dict.fromkeys(asked, "") | dict(answer.ids))
        self._ids = {name: each for name, each in self._ids.items() if name in names}
        self._note_anew(asked, before)
        if len(asked) == len(listing.names):
            self._ids_ms = asked_ms
        # those that do not exist are asked for again when they are mentioned again
        self._mentioned = dict.fromkeys([*answer.refused, *self._look_again(absent)])
        self._facts.unseen(
            "topics",
            sentences(
                answer.refused,
                "topic {name} has commits but is not visible; grant: "
                "Allow DESCRIBE on TOPIC {name}",
            ),
        )

    def _note_gone(self, names: AbstractSet[str]) -> None:
        for name in self._ids.keys() - names:
            self._gone[name] = _Gone(seen_ms=self._ids_ms)
        while len(self._gone) > _MENTIONS:
            del self._gone[next(iter(self._gone))]

    def _look_again(self, absent: Iterable[str]) -> list[str]:
        """List again for topics with commits but not found: the broker may not know them yet."""
        again = [name for name in absent if name in self._gone]
        for name in again:
            self._gone[name].looks += 1
        again = [name for name in again if self._gone[name].looks < _LOOKS]
        if again:
            self._wake.call()
        return again

    def _note_anew(self, asked: Iterable[str], before: Mapping[str, str]) -> None:
        """Names with another id than before; and those that were away, if only for a moment."""
        now_ms, found = self._clock.now_ms(), False
        for name in asked:
            gone, earlier = self._gone.pop(name, None), before.get(name)
            if gone is None and (not earlier or self._ids[name] in ("", earlier)):
                continue
            self._anew.pop(name, None)  # the newest is the last one
            self._anew[name] = _Anew(
                after_ms=self._ids_ms if gone is None else gone.seen_ms, noticed_ms=now_ms
            )
            found = True
        while len(self._anew) > _ANEW:
            del self._anew[next(iter(self._anew))]
        if found:
            self._on_anew()

    def _all_ids_due(self) -> bool:
        now_s = self._clock.monotonic_s()
        due = self._ids_asked_s is None or now_s - self._ids_asked_s >= self._interval_s
        if due or self._doubt:
            self._ids_asked_s, self._doubt = now_s, False
            return True
        return False

    def _report(self, listing: TopicListing) -> Topics:
        return Topics(
            version=self._reported.version + 1 if self._reported is not None else 1,
            names=listing.names,
            ids=tuple(self._ids[name] for name in listing.names),
            partitions=listing.partitions,
            leader=listing.leader,
            first_commit_ms={
                name: EpochMs(self._named[name][self._ids[name]])
                for name in listing.names
                if self._ids[name] in self._named.get(name, ())
            },
            replaced_after_ms={
                name: EpochMs(anew.after_ms)
                for name, anew in self._anew.items()
                if name in self._ids
            },
            hidden=self._hidden,
        )


def _changed(before: Topics, after: Topics) -> bool:
    return not (
        before.names == after.names
        and before.hidden == after.hidden
        and before.first_commit_ms == after.first_commit_ms
        and before.ids == after.ids
        and np.array_equal(before.partitions, after.partitions)
        and np.array_equal(before.leader, after.leader)
    )

"""Topics: which there are, and whether one of them is a new one under an old name."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
import structlog

from lagwatch.clock import Clock
from lagwatch.pollers.facts import Facts, sentences
from lagwatch.pollers.filters import Filters
from lagwatch.pollers.loop import Send, Wake
from lagwatch.ports import SourceKind, Topics
from lagwatch.sources import TopicListing, TopicSource

_MENTIONS: Final = 1_000
"""Names kept of topics that commits mention and the listing does not show."""
_NO_TOPICS: Final = TopicListing(
    names=(), partitions=np.zeros(0, np.int32), leader=np.zeros(0, np.int32)
)

_log = structlog.get_logger(__name__)


class TopicPoller:
    """Lists the topics and tells every change of names, ids, partitions or leaders."""

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
    ) -> None:
        """`on_change` is called after every report: somebody may want to ask for log ends."""
        self._source = topics
        self._filters = filters
        self._facts = facts
        self._clock = clock
        self._send = send
        self._wake = wake
        self._on_change = on_change
        self._interval_s = interval_s
        self._told: Topics | None = None
        self._counts: dict[str, int] = {}
        self._ids: dict[str, str] = {}
        self._ids_asked_s: float | None = None
        self._doubt = False
        self._mentioned: dict[str, None] = {}

    def suspect(self, *, ids: bool) -> None:
        """Something does not fit the listing: list anew, and with `ids` ask for all of them."""
        self._doubt = self._doubt or ids
        self._wake.call()

    def partitions_of(self, name: str) -> int:
        """How many partitions a topic has, ours or not; 0 when it is not visible."""
        return self._counts.get(name, 0)

    def mention(self, names: Iterable[str]) -> None:
        """Commits name these topics; those we do not know are looked for at once."""
        known = self._ids.keys() | self._mentioned.keys()
        new = [name for name in set(names) if name not in known]
        if new and len(self._mentioned) < _MENTIONS:
            self._mentioned.update(dict.fromkeys(new))
            self._wake.call()

    def current(self) -> tuple[int, TopicListing]:
        """The version last told and its topics; version 0: none yet."""
        if self._told is None:
            return 0, _NO_TOPICS
        told = self._told
        return told.version, TopicListing(
            names=told.names, partitions=told.partitions, leader=told.leader
        )

    async def poll_once(self) -> Sequence[str]:
        """List; ask for ids where they can be new; tell changes."""
        everything = await self._source.list_topics()
        self._counts = dict(zip(everything.names, everything.partitions.tolist(), strict=True))
        listing = self._ours(everything)
        await self._ask_ids(listing)
        topics = self._report(listing)
        if self._told is None or _changed(self._told, topics):
            self._told = topics
            await self._send(topics)
            self._on_change()
            _log.info("topics_changed", topics=len(topics.names), version=topics.version)
        await self._facts.tell()
        return ()

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
        names = set(listing.names)
        self._ids = {name: each for name, each in self._ids.items() if name in names}
        asked = listing.names if self._all_ids_due() else sorted(names - self._ids.keys())
        absent = [name for name in self._mentioned if name not in names]
        answer = await self._source.topic_ids([*asked, *absent])
        self._ids.update(dict.fromkeys(asked, "") | dict(answer.ids))
        self._ids = {name: each for name, each in self._ids.items() if name in names}
        # those that do not exist are asked for again when they are mentioned again
        self._mentioned = dict.fromkeys(answer.refused)
        self._facts.unseen(
            "topics",
            sentences(
                answer.refused,
                "topic {name} is committed to but may not be seen; grant: "
                "Allow DESCRIBE on TOPIC {name}",
            ),
        )

    def _all_ids_due(self) -> bool:
        now_s = self._clock.monotonic_s()
        due = self._ids_asked_s is None or now_s - self._ids_asked_s >= self._interval_s
        if due or self._doubt:
            self._ids_asked_s, self._doubt = now_s, False
            return True
        return False

    def _report(self, listing: TopicListing) -> Topics:
        return Topics(
            version=self._told.version + 1 if self._told is not None else 1,
            names=listing.names,
            ids=tuple(self._ids[name] for name in listing.names),
            partitions=listing.partitions,
            leader=listing.leader,
        )


def _changed(one: Topics, other: Topics) -> bool:
    return not (
        one.names == other.names
        and one.ids == other.ids
        and np.array_equal(one.partitions, other.partitions)
        and np.array_equal(one.leader, other.leader)
    )

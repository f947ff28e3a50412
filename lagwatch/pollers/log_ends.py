"""Log start, log end and last stable offsets of all partitions, round by round."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lagwatch.clock import Clock
from lagwatch.core.model import EpochMs
from lagwatch.errors import SourceError
from lagwatch.pollers.loop import EndsRound, Int64, Listener, PartitionEnds, Send
from lagwatch.pollers.quiet import FEW_PARTITIONS, QuietPartitions, whole_every_s
from lagwatch.pollers.topics import TopicPoller
from lagwatch.ports.kafka import LogEndRound, LogEndSource, TopicListing
from lagwatch.ports.reports import LogEnds, SourceKind

Bools = NDArray[np.bool_]


class LogEndPoller:
    """Sends one report per round.

    Has the topics listed again when an answer contradicts the listing.
    """

    source = SourceKind.LOG_ENDS

    def __init__(
        self,
        log_ends: LogEndSource,
        *,
        cluster: str,
        topics: TopicPoller,
        clock: Clock,
        send: Send,
        offsets_topic: str = "",
        quiet: QuietPartitions | None = None,
        listeners: Sequence[Listener] = (),
    ) -> None:
        """`listeners` get every round; it includes the offsets topic, filtered out or not.

        Without `quiet` every round asks for everything.
        """
        self._source = log_ends
        self._cluster = cluster
        self._topics = topics
        self._clock = clock
        self._send = send
        self._offsets_topic = offsets_topic
        self._quiet = quiet
        self._listeners = listeners if quiet is None else (quiet.note, *listeners)
        self._version = 0
        self._log_start: Int64 = np.zeros(0, np.int64)
        self._log_start_s = 0.0
        self._failed = False
        """Did a partition give no answer in the last round?"""
        self._log_end: Int64 = np.zeros(0, np.int64)

    async def poll_once(self) -> Sequence[str]:
        """Ask for all partitions of the current topics, and for those of the offsets topic.

        Raises:
            SourceError: no partition got an answer.
        """
        version, listing = self._topics.current()
        if version == 0:
            return ()
        fresh = version != self._version
        started_ms = self._clock.now_ms()
        whole = self._with_offsets_topic(listing)
        every = fresh or self._failed or self._whole_due(int(whole.partitions.sum()))
        asked = None if every or self._quiet is None else self._quiet.wanted()
        answer = await self._source.log_ends(
            whole, with_log_start=every, wanted=self._and_offsets_topic(asked, whole)
        )
        if asked is not None and _failed(answer):
            # where a leader is silent, nothing is known of its partitions that were not asked for
            asked, started_ms = None, self._clock.now_ms()
            answer = await self._source.log_ends(whole, with_log_start=True)
        self._failed = _failed(answer)
        seen = self._seen(version, started_ms, (listing, whole), answer, asked)
        if answer.stale:
            self._topics.suspect(ids=answer.replaced)
        elif not fresh and self._went_back(seen.ends.log_end):
            self._topics.suspect(ids=True)
        self._demand_some(answer)
        rows = int(listing.partitions.sum())
        self._keep(seen, None if answer.log_start is None else answer.log_start[:rows])
        await self._send(
            LogEnds(
                version=version,
                started_ms=started_ms,
                finished_ms=self._clock.now_ms(),
                log_start=self._log_start,
                log_end=seen.ends.log_end,
                last_stable=seen.ends.last_stable,
                asked=asked,
            )
        )
        for listener in self._listeners:
            listener(seen)
        return answer.problems

    def _with_offsets_topic(self, listing: TopicListing) -> TopicListing:
        """Append the offsets topic when the filter hides it."""
        hidden = self._topics.any_listing(self._offsets_topic)
        if hidden is None or self._offsets_topic in listing.names:
            return listing
        return TopicListing(
            names=(*listing.names, *hidden.names),
            partitions=np.concatenate((listing.partitions, hidden.partitions)),
            leader=np.concatenate((listing.leader, hidden.leader)),
        )

    def _and_offsets_topic(self, asked: Bools | None, whole: TopicListing) -> Bools | None:
        """Rows to ask for, with the offsets topic: its log ends say how far to read."""
        if asked is None:
            return None
        rows = np.append(asked, np.ones(int(whole.partitions.sum()) - asked.size, np.bool_))
        if self._offsets_topic in whole.names:
            at = whole.names.index(self._offsets_topic)
            first = int(whole.partitions[:at].sum())
            rows[first : first + int(whole.partitions[at])] = True
        return rows

    def _seen(
        self,
        version: int,
        started_ms: EpochMs,
        listings: tuple[TopicListing, TopicListing],
        answer: LogEndRound,
        asked: Bools | None,
    ) -> EndsRound:
        """Split the answer into the monitored topics and the offsets topic."""

        def ends(first: int, count: int) -> PartitionEnds:
            rows = slice(first, first + count)
            log_end, last_stable = answer.log_end[rows], answer.last_stable[rows]
            return PartitionEnds(started_ms=started_ms, log_end=log_end, last_stable=last_stable)

        listing, whole = listings
        offsets_topic = None
        if self._offsets_topic in whole.names:
            at = whole.names.index(self._offsets_topic)
            offsets_topic = ends(int(whole.partitions[:at].sum()), int(whole.partitions[at]))
        return EndsRound(
            version=version,
            topics=listing,
            ends=ends(0, int(listing.partitions.sum())),
            offsets_topic=offsets_topic,
            asked=asked,
        )

    def _whole_due(self, partitions: int) -> bool:
        passed_s = self._clock.monotonic_s() - self._log_start_s
        return partitions <= FEW_PARTITIONS or passed_s >= whole_every_s(partitions)

    def _went_back(self, log_end: Int64) -> bool:
        """A log that got shorter: the topic may be another one under the same name."""
        return bool(((log_end >= 0) & (log_end < self._log_end)).any())

    def _demand_some(self, answer: LogEndRound) -> None:
        if answer.log_end.size > 0 and bool((answer.log_end < 0).all()):
            raise SourceError(
                cluster=self._cluster,
                kind="leader" if answer.stale else "timeout",
                message="; ".join(answer.problems) or "no broker answers for its log ends",
            )

    def _keep(self, seen: EndsRound, log_start: Int64 | None) -> None:
        if log_start is not None:
            self._log_start = log_start
            self._log_start_s = self._clock.monotonic_s()
        self._version = seen.version
        self._log_end = seen.ends.log_end


def _failed(answer: LogEndRound) -> bool:
    return answer.stale or bool(answer.problems)

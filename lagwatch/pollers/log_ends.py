"""Log start, log end and last stable offsets of all partitions, round by round."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from lagwatch.clock import Clock
from lagwatch.core.model import EpochMs
from lagwatch.errors import SourceError
from lagwatch.pollers.loop import EndsRound, Int64, Listener, PartitionEnds, Send
from lagwatch.pollers.topics import TopicPoller
from lagwatch.ports.kafka import LogEndRound, LogEndSource, TopicListing
from lagwatch.ports.reports import LogEnds, SourceKind

_FEW_PARTITIONS: Final = 2_000
"""Up to here log starts are asked for in every round."""
_LOG_START_INTERVAL_S: Final = 30.0
"""They move by retention only, which Kafka looks after every few minutes."""


class LogEndPoller:
    """One report a round; what does not fit the topics' listing makes that be renewed."""

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
        listeners: Sequence[Listener] = (),
    ) -> None:
        """`listeners` get every round; it includes the offsets topic, filtered out or not."""
        self._source = log_ends
        self._cluster = cluster
        self._topics = topics
        self._clock = clock
        self._send = send
        self._offsets_topic = offsets_topic
        self._listeners = listeners
        self._version = 0
        self._log_start: Int64 = np.zeros(0, np.int64)
        self._log_start_s = 0.0
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
        answer = await self._source.log_ends(
            whole, with_log_start=fresh or self._log_start_due(int(whole.partitions.sum()))
        )
        seen = self._seen(version, started_ms, (listing, whole), answer)
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

    def _seen(
        self,
        version: int,
        started_ms: EpochMs,
        asked: tuple[TopicListing, TopicListing],
        answer: LogEndRound,
    ) -> EndsRound:
        """Take the answer apart again: our topics, and the offsets topic."""

        def ends(first: int, count: int) -> PartitionEnds:
            rows = slice(first, first + count)
            log_end, last_stable = answer.log_end[rows], answer.last_stable[rows]
            return PartitionEnds(started_ms=started_ms, log_end=log_end, last_stable=last_stable)

        listing, whole = asked
        offsets_topic = None
        if self._offsets_topic in whole.names:
            at = whole.names.index(self._offsets_topic)
            offsets_topic = ends(int(whole.partitions[:at].sum()), int(whole.partitions[at]))
        return EndsRound(
            version=version,
            topics=listing,
            ends=ends(0, int(listing.partitions.sum())),
            offsets_topic=offsets_topic,
        )

    def _log_start_due(self, partitions: int) -> bool:
        passed_s = self._clock.monotonic_s() - self._log_start_s
        return partitions <= _FEW_PARTITIONS or passed_s >= _LOG_START_INTERVAL_S

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

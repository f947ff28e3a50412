"""Log start, log end and last stable offsets of all partitions, round by round."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.clock import Clock
from lagwatch.errors import SourceError
from lagwatch.pollers.loop import Send
from lagwatch.pollers.topics import TopicPoller
from lagwatch.ports import LogEnds, SourceKind
from lagwatch.sources import LogEndRound, LogEndSource

_FEW_PARTITIONS: Final = 2_000
"""Up to here log starts are asked for in every round."""
_LOG_START_INTERVAL_S: Final = 30.0
"""They move by retention only, which Kafka looks after every few minutes."""

Int64 = NDArray[np.int64]


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
    ) -> None:
        self._source = log_ends
        self._cluster = cluster
        self._topics = topics
        self._clock = clock
        self._send = send
        self._version = 0
        self._log_start: Int64 = np.zeros(0, np.int64)
        self._log_start_s = 0.0
        self._log_end: Int64 = np.zeros(0, np.int64)

    async def poll_once(self) -> Sequence[str]:
        """Ask for all partitions of the current topics.

        Raises:
            SourceError: there are partitions, and not one of them was answered for.
        """
        version, listing = self._topics.current()
        if version == 0:
            return ()
        fresh = version != self._version
        started_ms = self._clock.now_ms()
        answer = await self._source.log_ends(
            listing, with_log_start=fresh or self._log_start_due(int(listing.partitions.sum()))
        )
        if answer.stale:
            self._topics.suspect(ids=answer.replaced)
        elif not fresh and self._went_back(answer.log_end):
            self._topics.suspect(ids=True)
        self._demand_some(answer)
        self._keep(version, answer)
        await self._send(
            LogEnds(
                version=version,
                started_ms=started_ms,
                finished_ms=self._clock.now_ms(),
                log_start=self._log_start,
                log_end=answer.log_end,
                last_stable=answer.last_stable,
            )
        )
        return answer.problems

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

    def _keep(self, version: int, answer: LogEndRound) -> None:
        if answer.log_start is not None:
            self._log_start = answer.log_start
            self._log_start_s = self._clock.monotonic_s()
        self._version = version
        self._log_end = answer.log_end

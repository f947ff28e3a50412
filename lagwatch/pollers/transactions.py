"""Watches for transactions that hold a last stable offset back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import structlog

from lagwatch.clock import Clock
from lagwatch.core.model import EpochMs, OpenTransaction
from lagwatch.pollers.loop import EndsRound, Send
from lagwatch.ports.kafka import HeldPartition, TransactionNames, TransactionSource
from lagwatch.ports.reports import OpenTransactions, SourceKind

_OPEN_MS: Final = 2_000
"""Most transactions are over by then."""
_SAY_AGAIN_S: Final = 30.0
_MOST: Final = 1_000
"""Transactions in one report, the oldest of them."""
_ASKED_AT_ONCE: Final = 50

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Since:
    held: HeldPartition
    since_ms: EpochMs


class TransactionPoller:
    """Compares last stable offsets and log ends of each round; asks who holds them back."""

    source = SourceKind.LOG_ENDS

    def __init__(self, transactions: TransactionSource, *, clock: Clock, send: Send) -> None:
        self._source = transactions
        self._clock = clock
        self._send = send
        self._behind: dict[tuple[str, int], _Since] = {}
        self._open: tuple[_Since, ...] = ()
        self._names: dict[HeldPartition, TransactionNames] = {}
        self._sent: tuple[_Since, ...] = ()
        self._sent_s = 0.0

    def note(self, seen: EndsRound) -> None:
        """Take a round of log ends in."""
        ends = seen.ends
        known = (ends.last_stable >= 0) & (ends.log_end >= 0)
        behind = np.flatnonzero(known & (ends.last_stable < ends.log_end))
        if not behind.size and not self._behind:
            return
        before, self._behind = self._behind, {}
        for topic, partition, row in _places(seen, behind):
            held = HeldPartition(
                topic=topic, partition=partition, last_stable=int(ends.last_stable[row])
            )
            earlier = before.get((topic, partition))
            if earlier is None or earlier.held != held:
                earlier = _Since(held=held, since_ms=ends.started_ms)
            self._behind[topic, partition] = earlier
        for topic, partition, _ in _places(seen, np.flatnonzero(~known)):
            if (topic, partition) in before:  # its leader is away; both come back together
                self._behind[topic, partition] = before[topic, partition]
        self._open = self._long_open(ends.started_ms)

    async def poll_once(self) -> Sequence[str]:
        """Send the open transactions when they change, and now and then."""
        now_s = self._clock.monotonic_s()
        is_open = self._open
        again = bool(is_open) and now_s - self._sent_s >= _SAY_AGAIN_S
        if is_open == self._sent and not again:
            return ()
        await self._ask_names(is_open)
        self._sent, self._sent_s = is_open, now_s
        await self._send(OpenTransactions(transactions=tuple(map(self._report, is_open))))
        _log.info("transactions_open", partitions=len(is_open))
        return ()

    def _long_open(self, now_ms: EpochMs) -> tuple[_Since, ...]:
        long = [each for each in self._behind.values() if now_ms - each.since_ms > _OPEN_MS]
        oldest = sorted(long, key=lambda each: each.since_ms)[:_MOST]
        return tuple(sorted(oldest, key=lambda each: (each.held.topic, each.held.partition)))

    async def _ask_names(self, is_open: Sequence[_Since]) -> None:
        """Ask for those not known yet; those that could not be read are asked for again."""
        held = [each.held for each in is_open]
        known = {
            each: names
            for each in held
            if (names := self._names.get(each)) is not None and not names.problem
        }
        unknown = [each for each in held if each not in known][:_ASKED_AT_ONCE]
        found = await self._source.names(unknown) if unknown else {}
        self._names = {**known, **found}

    def _report(self, since: _Since) -> OpenTransaction:
        names = self._names.get(since.held, _NOT_ASKED)
        return OpenTransaction(
            topic=since.held.topic,
            partition=since.held.partition,
            last_stable=since.held.last_stable,
            since_ms=since.since_ms,
            producer_id=names.producer_id,
            transactional_id=names.transactional_id,
            started_ms=names.started_ms,
            problem=names.problem,
        )


_NOT_ASKED: Final = TransactionNames(
    producer_id=None,
    transactional_id="",
    started_ms=None,
    problem="too many transactions are open to ask for all of them at once",
)


def _places(seen: EndsRound, rows: np.ndarray) -> list[tuple[str, int, int]]:
    """Topic, partition and row of some rows."""
    counts = seen.topics.partitions.astype(np.int64)
    first = np.cumsum(counts) - counts
    topic = np.searchsorted(first, rows, side="right") - 1
    return [
        (seen.topics.names[each], row - int(first[each]), row)
        for each, row in zip(topic.tolist(), rows.tolist(), strict=True)
    ]

"""Finds committed offsets short of a log end without any record left to read.

A transaction ends with a control record, which takes an offset and is handed out to no consumer: a
group that has read everything rests one or more offsets short of the log end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import structlog
from numpy.typing import NDArray

from lagwatch.clock import Clock
from lagwatch.core.model import UNKNOWN
from lagwatch.pollers.facts import Facts
from lagwatch.pollers.known import KeyRows, LastOffsets
from lagwatch.pollers.loop import EndsRound, Int64, Send
from lagwatch.ports.kafka import Tail, TailAnswer, TailSource
from lagwatch.ports.reports import EmptyTails, SourceKind

_LONGEST: Final = 1_000
_PARTITIONS: Final = 20
"""Read at the same time."""
_RESTED: Final = 2
"""Rounds in which the log end has not moved."""
_TRIES: Final = 3
_ASK_RIGHTS_S: Final = 600.0
_NAMED: Final = 20

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidates:
    """Keys whose committed offset rests short of a log end; columns."""

    key: NDArray[np.int64]
    row: NDArray[np.int64]
    offset: Int64
    end: Int64


class TailPoller:
    """Looks for such offsets after each round of log ends, and reads what is behind them once."""

    source = SourceKind.LOG_ENDS

    def __init__(
        self,
        tails: TailSource,
        *,
        last: LastOffsets,
        facts: Facts,
        clock: Clock,
        send: Send,
        rows: KeyRows | None = None,
    ) -> None:
        """`rows` may be shared with other pollers."""
        self._source = tails
        self._last = last
        self._facts = facts
        self._clock = clock
        self._send = send
        self._rows = KeyRows(last) if rows is None else rows
        self._version = 0
        self._rest: NDArray[np.int32] = np.zeros(0, np.int32)
        self._log_end: Int64 = np.zeros(0, np.int64)
        self._asked_offset: Int64 = np.zeros(0, np.int64)
        self._asked_end: Int64 = np.zeros(0, np.int64)
        self._refused_s: dict[str, float] = {}
        """Topic → when it may be tried again."""
        self._tries: dict[tuple[str, int], int] = {}
        self._wanted: tuple[Tail, ...] = ()
        self._nothing_of: tuple[int, int, int] | None = None
        self._quiet: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._quiet_end: Int64 = np.zeros(0, np.int64)

    def note(self, seen: EndsRound) -> None:
        """Take a round of log ends in, and choose what to read next."""
        self._note_rest(seen)
        ends = seen.ends
        # a log that moves, or in which a transaction is open, is looked at later
        quiet = (self._rest >= _RESTED) & (ends.log_end > 0) & (ends.last_stable == ends.log_end)
        if self._still_nothing(quiet, ends.log_end):
            return
        found = self._candidates(quiet, ends.log_end)
        if not found.key.size:
            self._nothing_of = self._of()
            self._quiet, self._quiet_end = quiet, ends.log_end
        rows, place = np.unique(found.row, return_inverse=True)
        names = self._rows.names(rows)
        refused = self._still_refused()
        self._say_refused(found, names, place, refused)
        readable = np.fromiter((name not in refused for name, _ in names), np.bool_, len(names))
        self._wanted = _tails(found, names, place, readable)

    def _still_nothing(self, quiet: NDArray[np.bool_], log_end: Int64) -> bool:
        """True if nothing was found before in the same offsets and log ends."""
        return (
            self._nothing_of == self._of()
            and np.array_equal(self._quiet, quiet)
            and np.array_equal(self._quiet_end, log_end)
        )

    def _of(self) -> tuple[int, int, int]:
        return self._last.revision, len(self._last), self._rows.revision

    async def poll_once(self) -> Sequence[str]:
        """Read what was chosen; send the ranges in which there is no record."""
        wanted, self._wanted = self._wanted, ()
        if not wanted:
            return ()
        answers = await self._source.read(wanted)
        empty = [
            (answer.tail, offset)
            for answer in answers
            if answer.empty_from is not None
            for offset in answer.tail.offsets
            if offset >= answer.empty_from
        ]
        for answer in answers:
            self._remember(answer)
        if empty:
            await self._send(_report(empty))
        _log.debug("tails_read", partitions=len(wanted), empty=len(empty))
        await self._facts.send()
        return ()

    def _note_rest(self, seen: EndsRound) -> None:
        log_end = seen.ends.log_end
        self._rows.follow(seen)
        if seen.version != self._version:
            self._version = seen.version
            self._rest = np.zeros(log_end.size, np.int32)
        else:
            self._rest = np.where(log_end == self._log_end, self._rest + 1, 0).astype(np.int32)
        self._log_end = log_end

    def _candidates(self, quiet: NDArray[np.bool_], log_end: Int64) -> _Candidates:
        row, offset = self._rows.row, self._last.offset
        key = np.flatnonzero(row >= 0)
        key = key[quiet[row[key]]]
        key = key[offset[key] >= 0]
        end, at = log_end[row[key]], offset[key]
        short = (end > at) & (end - at <= _LONGEST)
        if self._asked_end.size:
            self._make_room(row.size)
            short &= (self._asked_end[key] != end) | (self._asked_offset[key] != at)
        return _Candidates(key=key[short], row=row[key][short], offset=at[short], end=end[short])

    def _make_room(self, size: int) -> None:
        more = size - self._asked_end.size
        if more > 0:
            room = np.full(max(more, self._asked_end.size), UNKNOWN, np.int64)
            self._asked_end = np.concatenate((self._asked_end, room))
            self._asked_offset = np.concatenate((self._asked_offset, room))

    def _still_refused(self) -> frozenset[str]:
        now_s = self._clock.monotonic_s()
        return frozenset(name for name, at_s in self._refused_s.items() if at_s > now_s)

    def _say_refused(
        self,
        found: _Candidates,
        names: Sequence[tuple[str, int]],
        place: NDArray[np.intp],
        refused: frozenset[str],
    ) -> None:
        left: dict[tuple[str, int], int] = {}
        if refused:
            distances = (found.end - found.offset).tolist()
            for at, distance in zip(place.tolist(), distances, strict=True):
                if (name := names[at])[0] in refused:
                    left[name] = max(distance, left.get(name, 0))
        by_topic: dict[str, int] = {}
        for (topic, _), distance in left.items():
            by_topic[topic] = by_topic.get(topic, 0) + distance
        self._facts.unseen("tails", _sentences(by_topic))

    def _remember(self, answer: TailAnswer) -> None:
        """Each range is asked for once; one that could not be read, a few times."""
        tail = answer.tail
        if answer.refused:
            self._refused_s[tail.topic] = self._clock.monotonic_s() + _ASK_RIGHTS_S
            return
        self._refused_s.pop(tail.topic, None)
        place = tail.topic, tail.partition
        tries = self._tries.pop(place, 0) + 1
        if answer.empty_from is None and tries < _TRIES:
            self._tries[place] = tries
            return
        keys = self._rows.keys_of(*place)
        keys = keys[np.isin(self._last.offset[keys], tail.offsets)]
        self._make_room(len(self._last))
        self._asked_end[keys] = tail.end
        self._asked_offset[keys] = self._last.offset[keys]


def _tails(
    found: _Candidates,
    names: Sequence[tuple[str, int]],
    place: NDArray[np.intp],
    readable: NDArray[np.bool_],
) -> tuple[Tail, ...]:
    """Some partitions to read, each with all its committed offsets.

    `names` and `readable` are of partitions; `place` is where each candidate's is among them.
    """
    tails = []
    for at in np.flatnonzero(readable)[:_PARTITIONS].tolist():
        here = np.flatnonzero(place == at)
        topic, partition = names[at]
        offsets = tuple(np.unique(found.offset[here]).tolist())
        tails.append(
            Tail(topic=topic, partition=partition, offsets=offsets, end=int(found.end[here[0]]))
        )
    return tuple(tails)


def _sentences(left: Mapping[str, int]) -> tuple[str, ...]:
    named = [
        f"topic {topic}: grant: Allow READ on TOPIC {topic} to prove that the {count} offsets left "
        "are control records"
        for topic, count in sorted(left.items())[:_NAMED]
    ]
    more = len(left) - _NAMED
    return (*named, *([f"and {more} more like this"] if more > 0 else []))


def _report(empty: Sequence[tuple[Tail, int]]) -> EmptyTails:
    return EmptyTails(
        topic=tuple(tail.topic for tail, _ in empty),
        partition=np.array([tail.partition for tail, _ in empty], np.int32),
        first=np.array([offset for _, offset in empty], np.int64),
        end=np.array([tail.end for tail, _ in empty], np.int64),
    )

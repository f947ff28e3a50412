"""Finds when records at committed offsets were appended, where lagwatch's log ends do not show it.

The serving process knows when the log end passed an offset, as far as log ends were read. This
poller asks brokers about the others: offsets that were passed before this process began, more than
half a day ago, or while the log end was not read. It asks beside the rounds, keeps an answer for as
long as the committed offset stays, and asks for a bounded number of offsets a pass.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import structlog
from numpy.typing import NDArray

from lagwatch.clock import Clock
from lagwatch.core.model import UNKNOWN
from lagwatch.core.offset_search import Found, OffsetSearch
from lagwatch.pollers.known import KeyRows, LastOffsets
from lagwatch.pollers.loop import EndsRound, Int64, Send
from lagwatch.pollers.renumber import rows_before
from lagwatch.ports.kafka import RecordTimes, RecordTimeSource, TopicListing, TopicTimes
from lagwatch.ports.reports import AppendTimes, SourceKind

_AWAY_MS: Final = 20_000
"""Offsets appended while a log end was not read for longer than this are asked for."""
_GENERATION_MS: Final = 6 * 3_600_000
"""Offsets passed more than one or two of these ago are asked for: log ends are kept for a day."""
_MOST_OFFSETS: Final = 10_000
"""Offsets searched in one pass."""
_MOST_MOVED: Final = 500
"""Maximum number of these that belong to keys answered before which have moved on."""
_SOON_S: Final = 1.0
"""A key that has moved is asked for again after this time, twice as long from time to time: the
first answer may be for an old commit, read on the way to the newest one."""
_MOVED_AFTER_S: Final = 15.0
"""The longest of these times."""
_TRY_AGAIN_S: Final = 60.0
"""Wait after a failed question."""
_SAY_AGAIN_S: Final = 60.0
"""The serving process may not have had a place for an answer yet."""
_CONFIGURED_FOR_S: Final = 600.0
_NEVER: Final = np.iinfo(np.int64).max

T = TypeVar("T", bound=np.generic)

_log = structlog.get_logger(__name__)

Bools = NDArray[np.bool_]
Place = tuple[str, int]


class _Passed:
    """Per partition, the offsets that the log end passed while unread, or long ago."""

    def __init__(self) -> None:
        self._listing: TopicListing | None = None
        self._since_ms = 0
        self.revision = 0
        """Changes whenever what `unseen` says may have."""
        # the last log end and its round; offsets below `old` are old, below `older` surely;
        # those from `low` to before `high` came while the log end was not read; to those from
        # `stamped` on brokers gave their times
        self._columns: dict[str, Int64] = {name: np.zeros(0, np.int64) for name in _EMPTY}

    def note(self, seen: EndsRound, by_broker_ms: Mapping[str, int]) -> None:
        """Take a round of log ends in.

        `by_broker_ms`: since when topics are known to have their record times from brokers.
        """
        if self._listing is not seen.topics:
            self._renumber(seen.topics)
        own, log_end, at_ms = self._columns, seen.ends.log_end, seen.ends.started_ms
        answered = log_end >= 0
        if seen.asked is not None:
            answered &= seen.asked
        fell = answered & (log_end < own["end"])
        for name in ("old", "young", "low", "high"):
            own[name][fell] = 0
        self.revision += bool((answered & (log_end != own["end"])).any())
        new = answered & (own["at_ms"] < 0)
        own["old"][new] = own["young"][new] = log_end[new]
        away = answered & ~new & (at_ms - own["at_ms"] > _AWAY_MS) & (log_end > own["end"])
        own["low"][away], own["high"][away] = own["end"][away], log_end[away]
        own["end"] = np.where(answered, log_end, own["end"])
        own["at_ms"][answered] = at_ms
        if at_ms - self._since_ms > _GENERATION_MS:
            own["old"], own["young"] = own["young"], own["end"].copy()
            self._since_ms = at_ms
            self.revision += 1
        own["stamped"][fell] = _NEVER
        self._note_stamped(seen, answered, by_broker_ms)

    def _note_stamped(
        self, seen: EndsRound, answered: Bools, by_broker_ms: Mapping[str, int]
    ) -> None:
        """What comes after the first log end read since the setting is known has such a time.

        Records before it may have been written under another setting.
        """
        stamped = self._columns["stamped"]
        if not by_broker_ms:
            stamped[:] = _NEVER
            return
        since_ms = np.repeat(
            np.array([by_broker_ms.get(name, _NEVER) for name in seen.topics.names], np.int64),
            seen.topics.partitions,
        )
        stamped[since_ms == _NEVER] = _NEVER
        first = answered & (stamped == _NEVER) & (since_ms <= seen.ends.started_ms)
        stamped[first] = seen.ends.log_end[first]

    def stamped(self, row: Int64, offset: Int64) -> Bools:
        """Mask of offsets that came while brokers were known to give records their times."""
        found: Bools = offset >= self._columns["stamped"][row]
        return found

    def unseen(self, row: Int64, offset: Int64) -> Bools:
        """Mask of offsets below the log end whose arrival was not seen; partitions by row."""
        own = self._columns
        behind = offset < own["end"][row]
        missed = (offset >= own["low"][row]) & (offset < own["high"][row])
        unseen: Bools = behind & ((offset < own["old"][row]) | missed)
        return unseen

    def _renumber(self, listing: TopicListing) -> None:
        source = rows_before(self._listing, listing)
        for name, column in self._columns.items():
            self._columns[name] = np.append(column, _EMPTY[name])[source]
        self._listing = listing
        self.revision += 1


_EMPTY: Final = {
    "end": UNKNOWN,
    "at_ms": UNKNOWN,
    "old": 0,
    "young": 0,
    "low": 0,
    "high": 0,
    "stamped": _NEVER,
}
"""Columns of `_Passed`, with what they hold for a partition that has just come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answers:
    """Answers as columns."""

    key: Int64
    offset: Int64
    low_ms: Int64
    """-1: nothing could be found."""
    high_ms: Int64
    by_broker: Bools
    asked_s: NDArray[np.float64]
    wait_s: NDArray[np.float64]
    """How long to wait before it is asked for again if it has moved."""

    def take(self, places: NDArray[np.intp] | Bools) -> "_Answers":
        return _Answers(**{name: getattr(self, name)[places] for name in self.__slots__})


def _roomier(column: NDArray[T], size: int) -> NDArray[T]:
    """A longer column with the same values and then zeros.

    What was not written yet takes no memory: so nothing is put there but the system's own zeros.
    """
    longer = np.zeros(size, column.dtype)
    longer[: column.size] = column
    return longer


class _Held:
    """The newest answer of each key. Keys count from 0 without gaps, so they are the places."""

    def __init__(self) -> None:
        self._there = np.zeros(0, np.bool_)
        none = np.zeros(0, np.int64)
        self._columns = _Answers(
            key=none,
            offset=none,
            low_ms=none,
            high_ms=none,
            by_broker=np.zeros(0, np.bool_),
            asked_s=np.zeros(0),
            wait_s=np.zeros(0),
        )

    def __bool__(self) -> bool:
        return bool(self._there.any())

    @property
    def by_key(self) -> _Answers:
        """Means something only for keys that have an answer."""
        return self._columns

    def has(self, key: Int64) -> Bools:
        """Mask of the keys that have an answer."""
        found = np.zeros(key.size, np.bool_)
        inside = key < self._there.size
        found[inside] = self._there[key[inside]]
        return found

    def keep(self, key: Int64) -> None:
        """Forget the answers of all other keys."""
        kept = np.zeros(self._there.size, np.bool_)
        kept[key[key < kept.size]] = True
        self._there &= kept

    def due(self, newest: Int64, now_s: float) -> Int64:
        """Keys that moved, or failed, long enough ago; the one asked longest ago first.

        `newest`: offsets by key. Whole columns are compared: choosing rows first takes longer.
        """
        size = min(self._there.size, newest.size)
        there, columns = self._there[:size], self._columns
        age_s = now_s - columns.asked_s[:size]
        moved = (newest[:size] != columns.offset[:size]) & (age_s > columns.wait_s[:size])
        failed = (columns.low_ms[:size] < 0) & (age_s > _TRY_AGAIN_S)
        key = np.flatnonzero(there & (moved | failed))
        return key[np.argsort(-age_s[key], kind="stable")]

    def put(self, new: _Answers) -> None:
        """Take new answers in, in place of those to the same keys."""
        if not new.key.size:
            return
        if (size := int(new.key.max()) + 1) > self._there.size:
            self._grow(max(size, 2 * self._there.size))
        self._there[new.key] = True
        for name in _Answers.__slots__:
            getattr(self._columns, name)[new.key] = getattr(new, name)

    def _grow(self, size: int) -> None:
        self._there = _roomier(self._there, size)
        columns = {name: getattr(self._columns, name) for name in _Answers.__slots__}
        self._columns = _Answers(**{name: _roomier(each, size) for name, each in columns.items()})

    def all(self) -> _Answers:
        """A copy of all answers."""
        return self._columns.take(self._there)


class RecordTimePoller:
    """Chooses offsets after each round of log ends, and asks brokers for their times."""

    source = SourceKind.LOG_ENDS

    def __init__(
        self,
        times: RecordTimeSource,
        *,
        last: LastOffsets,
        rows: KeyRows,
        clock: Clock,
        send: Send,
    ) -> None:
        """`rows` may be shared with other pollers."""
        self._source = times
        self._last = last
        self._rows = rows
        self._clock = clock
        self._send = send
        self._passed = _Passed()
        self._unseen: Int64 = np.zeros(0, np.int64)
        self._seen_of: tuple[int, int, int, int] | None = None
        self._answers = _Held()
        self._kept_of: Int64 | None = None
        """The unseen keys whose answers are kept."""
        self._said_s = clock.monotonic_s()
        self._topics: dict[str, tuple[float, TopicTimes]] = {}
        self._by_broker_ms: dict[str, int] = {}
        """Since when topics are known to have their record times from brokers."""

    def note(self, seen: EndsRound) -> None:
        """Take a round of log ends in, and see which keys' offsets were not seen to come."""
        self._rows.follow(seen)
        self._passed.note(seen, self._by_broker_ms)
        offset, row = self._last.offset, self._rows.row
        of = (self._last.revision, len(self._last), self._rows.revision, self._passed.revision)
        if of == self._seen_of:  # nothing moved: these are the same keys
            return
        self._seen_of = of
        key = np.flatnonzero((row >= 0) & (offset[: row.size] >= 0))
        self._unseen = key[self._passed.unseen(row[key], offset[key])]

    async def poll_once(self) -> Sequence[str]:
        """Search for offsets that have no answer yet; send what is new."""
        unseen = self._unseen
        await self._configured(self._by_broker_ms.keys(), for_s=_CONFIGURED_FOR_S)
        if not unseen.size and not self._answers:
            return ()
        if self._kept_of is not unseen:
            self._kept_of = unseen
            self._answers.keep(unseen)
        key = self._due(unseen)
        if key.size:
            started_s = self._clock.monotonic_s()
            new = await self._search(key, self._last.offset[key].copy())
            self._answers.put(new)
            _log.debug(
                "record_times_found",
                offsets=int(key.size),
                unknown=int(np.count_nonzero(new.low_ms < 0)),
                took_s=round(self._clock.monotonic_s() - started_s, 3),
            )
            await self._say(new)
        if self._clock.monotonic_s() - self._said_s > _SAY_AGAIN_S:
            self._said_s = self._clock.monotonic_s()
            await self._say(self._answers.all())
        return ()

    def _due(self, unseen: Int64) -> Int64:
        """Keys to ask for now: those without an answer, then those that moved, the oldest first."""
        fresh = unseen[~self._answers.has(unseen)][:_MOST_OFFSETS]
        chosen = self._answers.due(self._last.offset, self._clock.monotonic_s())
        return np.sort(np.concatenate((fresh, chosen[:_MOST_MOVED])))[:_MOST_OFFSETS]

    async def _search(self, key: Int64, offset: Int64) -> _Answers:
        pairs, pair = np.unique(
            np.column_stack((self._rows.row[key], offset)), axis=0, return_inverse=True
        )
        pair = pair.ravel()
        places = self._rows.names(pairs[:, 0])
        # before the first wait: a round may give partitions other rows
        stamped = self._passed.stamped(pairs[:, 0], pairs[:, 1])
        # the setting must hold now as well, after these records came
        sure = {places[each][0] for each in np.flatnonzero(stamped).tolist()}
        await self._configured(sure, for_s=0)
        configured = await self._configured({name for name, _ in places}, for_s=_CONFIGURED_FOR_S)
        found = await self._found(places, pairs[:, 1])
        by_broker = stamped & [configured[name].by_broker for name, _ in places]
        compacted = np.array([configured[name].compacted for name, _ in places], np.bool_)
        # older than the first record that is left, by an unknown time
        low_ms = np.where(compacted & found.removed, UNKNOWN, found.low_ms)
        high_ms = np.where(compacted, found.next_ms, found.high_ms)
        return _Answers(
            key=key,
            offset=offset,
            low_ms=low_ms[pair],
            high_ms=high_ms[pair],
            by_broker=by_broker[pair],
            asked_s=np.full(key.size, self._clock.monotonic_s()),
            wait_s=self._waits_s(key),
        )

    def _waits_s(self, key: Int64) -> NDArray[np.float64]:
        """How long keys that are asked for now wait until the next time."""
        waits_s, before = np.full(key.size, _SOON_S), self._answers.has(key)
        longer_s = 2 * self._answers.by_key.wait_s[key[before]]
        waits_s[before] = np.minimum(longer_s, _MOVED_AFTER_S)
        return waits_s

    async def _found(self, places: Sequence[Place], offset: Int64) -> Found:
        search = OffsetSearch(offset, now_ms=self._clock.now_ms())
        first = await self._source.first_at(places, np.zeros(offset.size, np.int64))
        newest = await self._source.newest(places)
        search.begin(_pair(first), _pair(newest), first.answered & newest.answered)
        while True:
            rows, at_ms = search.questions()
            if not rows.size:
                return search.found()
            answer = await self._source.first_at([places[row] for row in rows.tolist()], at_ms)
            search.answer(rows, at_ms, _pair(answer), answer.answered)

    async def _configured(
        self, topics: Collection[str], *, for_s: float
    ) -> Mapping[str, TopicTimes]:
        """Configuration by topic, read in the last `for_s` seconds.

        If unreadable, producers may set times and compaction may be on.
        """
        now_s = self._clock.monotonic_s()
        due = sorted(
            name
            for name in topics
            if name not in self._topics or now_s - self._topics[name][0] > for_s
        )
        if due:
            found = await self._source.topic_times(due)
            now_ms = self._clock.now_ms()
            for name in due:
                self._topics[name] = (now_s, found.get(name, _NOT_ANSWERED))
                if self._topics[name][1].by_broker:
                    self._by_broker_ms.setdefault(name, now_ms)
                else:
                    self._by_broker_ms.pop(name, None)
        return {name: self._topics[name][1] for name in topics}

    async def _say(self, answers: _Answers) -> None:
        known = answers.take(answers.low_ms >= 0)
        if known.key.size:
            await self._send(
                AppendTimes(
                    key=known.key.astype(np.int32),
                    offset=known.offset,
                    low_ms=known.low_ms,
                    high_ms=known.high_ms,
                    by_broker=known.by_broker,
                )
            )


_NOT_ANSWERED: Final = TopicTimes(by_broker=False, compacted=True)


def _pair(times: RecordTimes) -> tuple[Int64, Int64]:
    return times.offset, times.timestamp

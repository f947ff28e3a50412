"""From judged rounds to history rows, an hour at a time, as the recorder of the service would."""

import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.record import Capture, Kind, Records, Source, Text, concat
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.history.changes import changes, differ
from lagwatch.history.layout import HOUR_MS
from lagwatch.history.thinning import Thinner

Int64 = NDArray[np.int64]
Int8 = NDArray[np.int8]

_MOST_ROWS: Final = 500_000
"""Rows that are gathered before they are handed out, although the hour is not over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The rows of one hour; of less than that where there are very many."""

    from_ms: int
    """The first round."""
    to_ms: int
    """The end of the interval of the last."""
    records: tuple[Records, ...]
    """Samples, group samples and events, as far as there are any."""
    rounds: int
    unknown_lag: int
    """Samples written whose lag is not known."""
    suppressed: int
    """Samples of groups left out because commits of the group are missing."""

    def rows(self, kind: Kind) -> int:
        return sum(part.size for part in self.records if part.kind is kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Methods:
    """The source of each topic-partition's log end."""

    code: Int8
    """By position among all topic-partitions; -1 unknown."""
    words: Sequence[str]


class Recording:
    """Thins rounds, finds what changed between them, and gathers the rows by the hour."""

    def __init__(self, *, interval_ms: int, full_every: int) -> None:
        self._interval_ms = interval_ms
        self._thinner = Thinner(interval_ms=interval_ms, full_every=full_every)
        self._before: Capture | None = None
        self._last_ms = UNKNOWN
        self._from_ms = UNKNOWN
        self._size = 0
        self._parts: list[Records] = []
        self._rounds = 0
        self._complete_from: dict[str, int] = {}
        self._pending: list[tuple[int, str]] = []
        self._first_of = _FirstOfTopics()

    def complete_from(self, group: str, at_ms: int) -> None:
        """Write no rows of the group before this instant: its commits are not complete there."""
        if group not in self._complete_from and at_ms > 0:
            self._complete_from[group] = at_ms
            bisect.insort(self._pending, (at_ms, group))

    def skipped(self) -> None:
        """Note that a round was left out: the next round must not refer to the one before it."""
        self._thinner.reset()
        self._before = None

    def round(self, capture: Capture, methods: Methods, *, at_ms: int) -> Iterator[Part]:
        """Take one round; returns the previous part when a new part begins."""
        if self._size >= _MOST_ROWS or at_ms // HOUR_MS != self._last_ms // HOUR_MS:
            yield from self.finish()
        if not self._rounds:
            self._from_ms = at_ms
        if at_ms - self._last_ms != self._interval_ms:
            self.skipped()
        self._last_ms = at_ms
        self._write_whole(at_ms)
        if self._before is not None and differ(self._before, capture.snapshot, {}):
            found = changes(self._before, capture, interval_ms=self._interval_ms)
            self._parts.append(found.events)
        taken = self._thinner.round(capture, at_ms=at_ms)
        self._before = capture
        self._rounds += 1
        self._size += taken.samples.size + taken.groups.size
        self._parts.append(taken.groups)
        if taken.samples.size:
            self._parts.append(self._with_method(taken.samples, capture.snapshot, methods))

    def finish(self) -> Iterator[Part]:
        """The unfinished part, if there is one."""
        if not self._rounds:
            return
        kept: list[Records] = []
        unknown = suppressed = 0
        for kind in _WRITTEN:
            parts = [part for part in self._parts if part.kind is kind]
            if not parts:
                continue
            joined = concat(parts)
            rows = self._without_incomplete(joined)
            if kind is Kind.SAMPLES:
                unknown = int(np.count_nonzero(rows.numbers("lag") < 0))
            if kind is Kind.GROUP_SAMPLES:
                suppressed = joined.size - rows.size
            if rows.size:
                kept.append(_backfilled(rows))
        yield Part(
            from_ms=self._from_ms,
            to_ms=self._last_ms + self._interval_ms,
            records=tuple(kept),
            rounds=self._rounds,
            unknown_lag=unknown,
            suppressed=suppressed,
        )
        self._parts = []
        self._rounds = self._size = 0

    def _write_whole(self, at_ms: int) -> None:
        """Groups whose rows begin with this round must not refer to rows before it."""
        count = bisect.bisect_right(self._pending, (at_ms, _LAST_NAME))
        if count:
            self._thinner.write_whole([group for _, group in self._pending[:count]])
            del self._pending[:count]

    def _without_incomplete(self, rows: Records) -> Records:
        if not self._complete_from:
            return rows
        group = rows.text("group")
        words = [*(self._complete_from.get(word, 0) for word in group.words), 0]
        begin = np.array(words, np.int64)[group.codes]
        if rows.kind is Kind.EVENTS:
            # the changes from the round before to the first round are not known
            begin = np.where(begin > 0, begin + self._interval_ms, 0)
        kept = rows.take(rows.at_ms() >= begin)
        if kept.kind is not Kind.GROUP_SAMPLES:
            return kept
        begin = np.array(words, np.int64)[kept.text("group").codes]
        previous = kept.numbers("previous_ms")
        linked = np.where(previous >= begin, previous, UNKNOWN)
        return Records(kind=kept.kind, columns={**kept.columns, "previous_ms": linked})

    def _with_method(
        self, samples: Records, snapshot: ClusterSnapshot, methods: Methods
    ) -> Records:
        topic = samples.text("topic").codes
        first = self._first_of(snapshot)[topic]
        at = np.where(first >= 0, first + samples.numbers("partition"), UNKNOWN)
        beyond = at >= methods.code.size
        code = np.append(methods.code, np.int8(UNKNOWN))[np.where(beyond, UNKNOWN, at)]
        method = Text(code.astype(np.int32), tuple(methods.words))
        # these log ends were rebuilt: at no instant were they read
        never_ms = np.full(samples.size, UNKNOWN, np.int64)
        return Records(
            kind=samples.kind,
            columns={**samples.columns, "method": method, "log_end_ms": never_ms},
        )


class _FirstOfTopics:
    """Position of partition 0 of each topic that a snapshot names; kept while it stays the same."""

    def __init__(self) -> None:
        self._for: tuple[object, object] = (None, None)
        self._first = np.zeros(0, np.int64)

    def __call__(self, snapshot: ClusterSnapshot) -> Int64:
        asked = (snapshot.topic_names, snapshot.topics.index)
        if self._for[0] is not asked[0] or self._for[1] is not asked[1]:
            index: Mapping[str, int] = snapshot.topics.index
            numbers = [index.get(name, UNKNOWN) for name in snapshot.topic_names]
            first = np.append(snapshot.topics.first[:-1], UNKNOWN)
            self._first = first[np.array(numbers, np.int64)] if numbers else first[:0]
            self._for = asked
        return self._first


_WRITTEN: Final = (Kind.SAMPLES, Kind.GROUP_SAMPLES, Kind.EVENTS)
_LAST_NAME: Final = chr(0x10FFFF)


def _backfilled(rows: Records) -> Records:
    source = Text.same(Source.BACKFILL, rows.size)
    return Records(kind=rows.kind, columns={**rows.columns, "source": source})

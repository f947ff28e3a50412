"""Reads from the stored samples when the records at some offsets were appended."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.record import Kind, Records, Source, Text
from lagwatch.core.stored_search import Enclosed, StoredSearch
from lagwatch.history.layout import HOUR_MS
from lagwatch.ports.history import EVER_MS, AppendQuestion, HistoryRange, HistoryStore

Int64 = NDArray[np.int64]

_COLUMNS: Final = ("log_end_offset", "log_end_ms", "topic_id", "source")
_FEW_GROUPS: Final = 16
"""So many groups are read one by one; of more the whole cluster is."""
_WITHIN_S: Final = 20.0


def enclosed(
    store: HistoryStore, question: AppendQuestion, *, now_ms: int, monotonic_s: Callable[[], float]
) -> Enclosed:
    """Between which samples each record of the question came; blocks for some 20 s at most.

    What older samples would have said stays unknown then. Only live samples count, and only those
    that say when their log end was read and of which topic.

    Raises:
        HistoryError: the store cannot be read.
    """
    if not question.offset.size:
        nothing = np.zeros(0, np.int64)
        return Enclosed(low_ms=nothing, high_ms=nothing, share=nothing.astype(np.float32))
    places = _Places(question)
    search = StoredSearch(places.place, question.offset[places.order])
    began_s = monotonic_s()
    for from_ms, to_ms in _spans(now_ms, _first_ms(store, question.cluster)):
        if not search.open.any() or monotonic_s() - began_s > _WITHIN_S:
            break
        for wanted in _ranges(question, from_ms, to_ms):
            for chunk in store.read(wanted):
                search.take(*places.samples(chunk))
        search.end_span()
    found, back = search.found(), np.argsort(places.order)
    return Enclosed(low_ms=found.low_ms[back], high_ms=found.high_ms[back], share=found.share[back])


class _Places:
    """The partitions of a question, numbered in the order of topic and partition."""

    def __init__(self, question: AppendQuestion) -> None:
        self._question = question
        self._width = int(question.partition.max(initial=0)) + 1
        key = question.topic * self._width + question.partition
        self.order = np.argsort(key, kind="stable")
        self._keys, place = np.unique(key[self.order], return_inverse=True)
        self.place: Int64 = place.ravel().astype(np.int64)
        """Number of the partition of each offset, in `order`."""

    def samples(self, rows: Records) -> tuple[Int64, Int64, Int64]:
        """Place, log end and instant of the rows that count."""
        question = self._question
        topic = _numbers(rows.text("topic"), question.topics)
        topic_id = _numbers(rows.text("topic_id"), question.topic_ids)
        partition, log_end = rows.numbers("partition"), rows.numbers("log_end_offset")
        read_ms = rows.numbers("log_end_ms")
        key = topic * self._width + partition
        place = np.minimum(np.searchsorted(self._keys, key), self._keys.size - 1)
        live = _numbers(rows.text("source"), (Source.LIVE,)) >= 0
        counts = live & (topic >= 0) & (topic_id == topic) & (partition < self._width)
        counts &= (self._keys[place] == key) & (log_end >= 0) & (read_ms >= 0)
        return place[counts], log_end[counts], read_ms[counts]


def _numbers(text: Text, words: tuple[str, ...]) -> Int64:
    """Position of each row's word among these; -1 for others."""
    number = {word: index for index, word in enumerate(words)}
    table = np.array([*(number.get(word, -1) for word in text.words), -1], np.int64)
    return table[text.codes]


def _ranges(question: AppendQuestion, from_ms: int, to_ms: int) -> Iterator[HistoryRange]:
    few = len(question.groups) <= _FEW_GROUPS
    for group in sorted(question.groups) if few else (None,):
        yield HistoryRange(
            kind=Kind.SAMPLES,
            from_ms=from_ms,
            to_ms=to_ms,
            cluster=question.cluster,
            group=group,
            columns=_COLUMNS,
        )


def _spans(now_ms: int, first_ms: int) -> Iterator[tuple[int, int]]:
    """Spans of whole hours, the newest first, each as long as all before it."""
    hour_ms = now_ms - now_ms % HOUR_MS
    from_ms, to_ms = hour_ms, EVER_MS
    while to_ms > first_ms:
        yield from_ms, to_ms
        to_ms, from_ms = from_ms, from_ms - max(hour_ms - from_ms, HOUR_MS)


def _first_ms(store: HistoryStore, cluster: str) -> int:
    """The first instant that samples can have; the end of time without any."""
    days = store.days(Kind.SAMPLES, cluster)
    if not days:
        return EVER_MS
    return int(datetime.fromisoformat(days[0]).replace(tzinfo=UTC).timestamp()) * 1000

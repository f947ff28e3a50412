"""Offsets whose arrival this process has not seen, and what the stored history says of them."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import TimeLagReason
from lagwatch.core.rows import StoredTimes
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.core.stored_search import Enclosed
from lagwatch.monitor.rows import Identity, RowTable
from lagwatch.ports.history import AppendQuestion

_UNSEEN: Final = np.isin(
    np.arange(len(TimeLagReason)),
    (
        TimeLagReason.BEYOND_HISTORY,
        TimeLagReason.NOT_SAMPLED,
        TimeLagReason.SAMPLES_APART,
        TimeLagReason.RECORD_TIME,
    ),
)
"""Time lags that stored samples may say more of."""
_MOST: Final = 20_000
"""Rows that are looked up: their names are compared one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """Rows of a snapshot, and the question about their offsets in the same order."""

    row: NDArray[np.int32]
    """Rising."""
    identities: tuple[Identity, ...]
    question: AppendQuestion

    def answer(self, found: Enclosed, table: RowTable) -> StoredTimes:
        """The answer for the rows that are still of the same partitions."""
        same = np.array(
            [
                table.is_of(row, identity)
                for row, identity in zip(self.row.tolist(), self.identities, strict=True)
            ],
            np.bool_,
        )
        same &= (found.low_ms >= 0) | (found.high_ms >= 0)
        return StoredTimes(
            row=self.row[same],
            offset=self.question.offset[same],
            low_ms=found.low_ms[same],
            high_ms=found.high_ms[same],
            share=found.share[same],
        )


def unseen(snapshot: ClusterSnapshot) -> Unseen:
    """Rows that are behind for an unknown time, of topics whose id is known."""
    rows, topics = snapshot.rows, snapshot.topics
    chosen = np.flatnonzero(_UNSEEN[rows.time_lag_reason] & (rows.at >= 0) & (rows.committed >= 0))
    chosen = chosen[np.argsort(rows.window[chosen], kind="stable")]
    topic = np.searchsorted(topics.first, rows.at[chosen], side="right") - 1
    named = np.array([bool(each) for each in topics.ids], np.bool_)
    chosen, topic = chosen[named[topic]][:_MOST], topic[named[topic]][:_MOST]
    used, place = np.unique(topic, return_inverse=True)
    group = np.searchsorted(snapshot.group.first, chosen, side="right") - 1
    names = [snapshot.groups[number] for number in group.tolist()]
    question = AppendQuestion(
        cluster=snapshot.cluster,
        groups=frozenset(names),
        topics=tuple(topics.names[number] for number in used.tolist()),
        topic_ids=tuple(topics.ids[number] for number in used.tolist()),
        topic=place.ravel().astype(np.int64),
        partition=rows.partition[chosen].astype(np.int64),
        offset=rows.committed[chosen],
    )
    named_topics = [topics.names[number] for number in topic.tolist()]
    return Unseen(
        row=rows.window[chosen],
        identities=tuple(zip(names, named_topics, question.partition.tolist(), strict=True)),
        question=question,
    )

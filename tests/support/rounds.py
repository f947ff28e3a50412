"""Rounds of log ends of the offsets topic, as a reader of it is compared with."""

import numpy as np

from lagwatch.core.model import EpochMs
from lagwatch.pollers.loop import EndsRound, PartitionEnds
from lagwatch.ports.kafka import TopicListing

NO_TOPICS = TopicListing(names=(), partitions=np.zeros(0, np.int32), leader=np.zeros(0, np.int32))


def ends(at_ms: int, log_end: list[int], last_stable: list[int] | None = None) -> PartitionEnds:
    stable = log_end if last_stable is None else last_stable
    return PartitionEnds(
        started_ms=EpochMs(at_ms),
        log_end=np.array(log_end, np.int64),
        last_stable=np.array(stable, np.int64),
    )


def a_round(at_ms: int, log_end: list[int], last_stable: list[int] | None = None) -> EndsRound:
    offsets_topic = ends(at_ms, log_end, last_stable)
    nothing = ends(at_ms, [])
    return EndsRound(version=1, topics=NO_TOPICS, ends=nothing, offsets_topic=offsets_topic)

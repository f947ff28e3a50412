"""Records by time, for the time lag of offsets that lagwatch has not seen come."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType
from numpy.typing import NDArray

from lagwatch.kafka.client import REQUEST_TIMEOUT_S, KafkaClients
from lagwatch.kafka.offsets_at import NEWEST, KafkaOffsetsAt, Place
from lagwatch.ports.kafka import RecordTimes, TopicTimes

_TIMEOUT_S: Final = 10.0
"""A broker that is silent for so long is asked again in the next pass."""
_TOPICS_AT_ONCE: Final = 100


class KafkaRecordTimes:
    """Asks leaders once, as a `RecordTimeSource`."""

    def __init__(self, clients: KafkaClients) -> None:
        self._clients = clients
        self._offsets = KafkaOffsetsAt(clients, timeout_s=_TIMEOUT_S)

    async def first_at(self, places: Sequence[Place], at_ms: NDArray[np.int64]) -> RecordTimes:
        found, answered = await self._offsets.ask_once(places, at_ms)
        return RecordTimes(offset=found.offset, timestamp=found.timestamp, answered=answered)

    async def newest(self, places: Sequence[Place]) -> RecordTimes:
        return await self.first_at(places, np.full(len(places), NEWEST, np.int64))

    async def topic_times(self, topics: Sequence[str]) -> Mapping[str, TopicTimes]:
        """Needs DESCRIBE_CONFIGS on the topics; those refused are left out."""
        found: dict[str, TopicTimes] = {}
        for start in range(0, len(topics), _TOPICS_AT_ONCE):
            found |= await self._clients.call(
                partial(self._described, topics[start : start + _TOPICS_AT_ONCE]),
                doing="describing the configuration of topics",
            )
        return found

    def _described(self, names: Sequence[str]) -> dict[str, TopicTimes]:
        wanted = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        asked = self._clients.admin.describe_configs(wanted, request_timeout=REQUEST_TIMEOUT_S)
        found = {}
        for resource, future in asked.items():
            try:
                entries = future.result(REQUEST_TIMEOUT_S + 1)
            except (KafkaException, TimeoutError):
                continue
            found[resource.name] = TopicTimes(
                by_broker=entries["message.timestamp.type"].value == "LogAppendTime",
                compacted="compact" in (entries["cleanup.policy"].value or ""),
            )
        return found

"""Partitions of the offsets topic whose newest commits an open transaction hides.

Readers stop at the last stable offset: whether what follows counts is not known before the
transaction ends.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from lagwatch.clock import Clock, SystemClock
from lagwatch.config import ClusterSettings
from lagwatch.errors import SourceError
from lagwatch.kafka.client import KafkaClients
from lagwatch.kafka.offsets_topic import KafkaOffsetsTopic

_WITHIN_S: Final = 30.0


def held_back(
    cluster: str, settings: ClusterSettings, *, clock: Clock | None = None
) -> Mapping[int, int]:
    """Partition of the offsets topic → time (epoch ms) of the first record that is not stable.

    All commits before that time are known. Partitions without an open transaction are left out.

    Raises:
        SourceError: the topic cannot be read, or no broker answers.
    """
    clients = KafkaClients(cluster, settings, clock or SystemClock())
    return asyncio.run(_held_back(clients))


async def _held_back(clients: KafkaClients) -> dict[int, int]:
    topic = KafkaOffsetsTopic(clients, with_times=True, uncommitted=True)
    found = {}
    for partition, offset in (await topic.unstable()).items():
        await topic.assign({partition: offset})
        found[partition] = await _first_ms(topic, partition, clients)
    return found


async def _first_ms(topic: KafkaOffsetsTopic, partition: int, clients: KafkaClients) -> int:
    """Time of the next record that is read."""
    ends_s = clients.clock.monotonic_s() + _WITHIN_S
    while clients.clock.monotonic_s() < ends_s:
        records = await topic.read()
        if records.times_ms is not None and records.times_ms.size:
            return int(records.times_ms[0])
    raise SourceError(
        cluster=clients.cluster,
        kind="connection",
        message=f"reading {clients.settings.offsets_topic}: nothing came from partition "
        f"{partition} within {_WITHIN_S:g} s",
    )

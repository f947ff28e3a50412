"""A group's coordinator moves to another broker, and the one that had it is there again."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest
from confluent_kafka import Consumer, TopicPartition

from lagwatch.clock import SystemClock
from lagwatch.config import ClusterSettings
from lagwatch.kafka.client import KafkaClients
from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.kafka.groups import KafkaCommitted, KafkaGroups
from tests.support.kafka import create_topic, unique

_EVERY_S = 0.5
_TIMES = 120


def _commit(kafka: EmbeddedKafka, topic: str, offset: int) -> str:
    group = unique("group")
    consumer = Consumer(kafka.admin_config() | {"group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()
    return group


class _Asked:
    """One group, asked again and again by the same clients."""

    def __init__(self, kafka: EmbeddedKafka, group: str) -> None:
        settings = ClusterSettings(bootstrap=tuple(kafka.bootstrap_servers.split(",")))
        clients = KafkaClients("here", settings, SystemClock())
        self.groups, self.committed, self.group = (
            KafkaGroups(clients),
            KafkaCommitted(clients),
            group,
        )

    async def coordinator(self) -> int | None:
        """As its description says; None: no answer."""
        (info,) = (await self.groups.describe([self.group])).infos or (None,)
        return None if info is None else info.coordinator

    async def offset(self) -> int | None:
        """Committed offset; None: no answer."""
        answers = [each async for chunk in self.committed.committed([self.group]) for each in chunk]
        return next((offset for each in answers for offset in each.offsets), None)


@pytest.mark.timeout(300)
def test_groups_are_asked_at_their_new_coordinator(three_brokers: EmbeddedKafka) -> None:
    asyncio.run(_moved(three_brokers))


async def _moved(kafka: EmbeddedKafka) -> None:
    topic = create_topic(kafka, "moved")
    asked = _Asked(kafka, _commit(kafka, topic, 7))
    before = await asked.coordinator()
    assert before is not None
    assert await asked.offset() == 7

    # nothing is asked meanwhile
    await asyncio.to_thread(kafka.stop_broker, before - 1)
    await asyncio.to_thread(kafka.start_broker, before - 1)

    async def known(what: Callable[[], Coroutine[None, None, int | None]]) -> int:
        for _ in range(_TIMES):
            if (answer := await what()) is not None:
                return answer
            await asyncio.sleep(_EVERY_S)
        raise TimeoutError

    assert await known(asked.coordinator) != before
    assert await known(asked.offset) == 7

"""Topics through the Admin API: names, partitions, leaders, ids."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Final

import numpy as np
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import ClusterMetadata, TopicDescription, TopicMetadata

from lagwatch.core.model import UNKNOWN
from lagwatch.kafka import codes
from lagwatch.kafka.client import REQUEST_TIMEOUT_S, KafkaClients, kafka_error
from lagwatch.ports.kafka import TopicIds, TopicListing

_DESCRIBED_AT_ONCE: Final = 500
_LIST_TIMEOUT_S: Final = 10.0
_URL_SAFE: Final = str.maketrans("+/", "-_")


class KafkaTopics:
    """All visible topics, as a `TopicSource`."""

    def __init__(self, clients: KafkaClients) -> None:
        self._clients = clients

    async def list_topics(self) -> TopicListing:
        """All topics we may see; renews what the client knows of leaders and epochs."""
        metadata = await self._clients.call(
            lambda: self._clients.admin.list_topics(timeout=_LIST_TIMEOUT_S),
            doing="listing topics",
        )
        self._clients.answered()
        return _listing(metadata)

    async def topic_ids(self, names: Sequence[str]) -> TopicIds:
        """Ids of these topics; brokers older than 2.8 have none."""
        ids: dict[str, str] = {}
        refused: list[str] = []
        missing: list[str] = []
        for start in range(0, len(names), _DESCRIBED_AT_ONCE):
            answers = await self._describe(names[start : start + _DESCRIBED_AT_ONCE])
            for name, answer in answers.items():
                if isinstance(answer, TopicDescription):
                    ids[name] = printed_id(answer)
                elif answer.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    refused.append(name)
                elif answer.code() in codes.NO_TOPIC:
                    missing.append(name)
                else:
                    raise await self._clients.explain(answer, doing="describing topics")
        return TopicIds(ids=ids, refused=tuple(refused), missing=tuple(missing))

    async def _describe(self, names: Sequence[str]) -> Mapping[str, TopicDescription | KafkaError]:
        asked = self._clients.admin.describe_topics(
            TopicCollection(list(names)), request_timeout=REQUEST_TIMEOUT_S
        )
        return await self._clients.call(
            lambda: {name: _outcome(future) for name, future in asked.items()},
            doing="describing topics",
        )


def printed_id(topic: TopicDescription) -> str:
    """The topic's id (base64url), as Kafka prints it."""
    return str(topic.topic_id).translate(_URL_SAFE)


def _outcome(future: "Future[TopicDescription]") -> TopicDescription | KafkaError:
    try:
        return future.result(REQUEST_TIMEOUT_S + 1)
    except KafkaException as error:
        return kafka_error(error)


def _listing(metadata: ClusterMetadata) -> TopicListing:
    """Leave out what is being deleted: a topic with an error has no partitions to ask for."""
    topics = sorted((name, topic) for name, topic in metadata.topics.items() if topic.error is None)
    counts = [_partition_count(topic) for _, topic in topics]
    leaders = [leader for _, topic in topics for leader in _leaders(topic)]
    return TopicListing(
        names=tuple(name for name, _ in topics),
        partitions=np.array(counts, np.int32),
        leader=np.array(leaders, np.int32),
    )


def _partition_count(topic: TopicMetadata) -> int:
    return max(topic.partitions, default=-1) + 1


def _leaders(topic: TopicMetadata) -> Iterator[int]:
    for number in range(_partition_count(topic)):
        partition = topic.partitions.get(number)
        yield UNKNOWN if partition is None else partition.leader

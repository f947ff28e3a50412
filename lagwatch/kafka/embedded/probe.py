"""Asks a broker whether it is ready."""

from collections.abc import Set as AbstractSet

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._metadata import ClusterMetadata

from lagwatch.kafka.embedded.ports import answers
from lagwatch.kafka.embedded.settings import ClientConfig

_ANSWER_TIMEOUT_S = 5.0


def unready(config: ClientConfig, port: int, running: AbstractSet[int], count: int) -> str:
    """Return why the broker at `port` is not ready; "" when it is.

    Ready is a broker that answers clients and knows all `running` node ids; and, when all of the
    cluster's `count` brokers run, a leader of every partition.
    """
    if not answers(port):  # asked first: the client library would wait and complain
        return f"nothing listens on port {port}"
    try:
        metadata = AdminClient({**config, "log_level": 0}).list_topics(timeout=_ANSWER_TIMEOUT_S)
    except KafkaException as error:
        return f"it does not answer clients: {error}"
    if unknown := running - metadata.brokers.keys():
        return f"it does not know brokers {sorted(unknown)} yet"
    if len(running) == count and (orphans := _leaderless(metadata, running)):
        return f"no leader yet for {', '.join(orphans[:3])}"
    return ""


def _leaderless(metadata: ClusterMetadata, running: AbstractSet[int]) -> list[str]:
    return [
        f"{topic.topic}-{partition.id}"
        for topic in metadata.topics.values()
        for partition in topic.partitions.values()
        if partition.leader not in running
    ]

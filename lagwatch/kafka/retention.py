"""For how long brokers keep the offsets of a group without members."""

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType

from lagwatch.kafka.client import REQUEST_TIMEOUT_S, KafkaClients

_OPTION = "offsets.retention.minutes"


class KafkaOffsetsRetention:
    """Asks all brokers, as an `OffsetsRetentionSource`."""

    def __init__(self, clients: KafkaClients) -> None:
        self._clients = clients

    async def shortest_ms(self) -> int | None:
        return await self._clients.call(
            self._shortest_ms, doing="describing the configuration of brokers"
        )

    def _shortest_ms(self) -> int | None:
        admin = self._clients.admin
        try:
            asked = admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_S)
            brokers = asked.result(REQUEST_TIMEOUT_S + 1).nodes
            # a call of the client library takes one broker
            return min((self._minutes(str(node.id)) * 60_000 for node in brokers), default=None)
        except (KafkaException, TimeoutError):
            return None

    def _minutes(self, broker: str) -> int:
        wanted = [ConfigResource(ResourceType.BROKER, broker)]
        asked = self._clients.admin.describe_configs(wanted, request_timeout=REQUEST_TIMEOUT_S)
        (answer,) = asked.values()
        return int(answer.result(REQUEST_TIMEOUT_S + 1)[_OPTION].value)

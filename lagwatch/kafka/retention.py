"""How long brokers keep the offsets of a group without members."""

from concurrent.futures import Future

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigEntry, ConfigResource, ResourceType

from lagwatch.kafka import codes
from lagwatch.kafka.client import REQUEST_TIMEOUT_S, KafkaClients, kafka_error

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
            found = admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_S)
            brokers = found.result(REQUEST_TIMEOUT_S + 1).nodes
            asked = [self._asked(str(node.id)) for node in brokers]
            minutes = [each.result(REQUEST_TIMEOUT_S + 1)[_OPTION].value for each in asked]
        except KafkaException as error:
            if kafka_error(error).code() in codes.AUTHORIZATION | codes.UNSUPPORTED:
                return None
            raise
        return min((int(value) * 60_000 for value in minutes if value), default=None)

    def _asked(self, broker: str) -> Future[dict[str, ConfigEntry]]:
        """The question to one broker: a call of the client library takes no more."""
        wanted = [ConfigResource(ResourceType.BROKER, broker)]
        asked = self._clients.admin.describe_configs(wanted, request_timeout=REQUEST_TIMEOUT_S)
        (answer,) = asked.values()
        return answer

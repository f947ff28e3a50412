"""Error codes of the client library, grouped by their meaning for lagwatch.

Codes with a leading underscore are librdkafka's own and public, whatever the name looks like.
"""
# ruff: noqa: SLF001

from typing import Final

from confluent_kafka import KafkaError

FAILED: Final = KafkaError._FAIL
TIMED_OUT: Final = KafkaError._TIMED_OUT
END_OF_PARTITION: Final = KafkaError._PARTITION_EOF
UNSUPPORTED: Final = frozenset(
    {KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION, KafkaError.INVALID_REQUEST}
)
OFFSET_GONE: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
RESOLVE: Final = KafkaError._RESOLVE
TRANSPORT: Final = KafkaError._TRANSPORT
TLS: Final = KafkaError._SSL

AUTHENTICATION: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
    }
)
AUTHORIZATION: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
TIMEOUT: Final = frozenset(
    {KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError.REQUEST_TIMED_OUT}
)
CONNECTION: Final = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})
LOST: Final = AUTHENTICATION | {TLS, KafkaError._ALL_BROKERS_DOWN}
"""Events that mean: no broker can be spoken to."""
COORDINATOR: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError._WAIT_COORD,
    }
)
NO_TOPIC: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._NOENT,
    }
)
STALE_LEADER: Final = NO_TOPIC | {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.REPLICA_NOT_AVAILABLE,
}
"""The client's metadata of topics and leaders is old: listing the topics refreshes it."""
OTHER_TOPIC: Final = NO_TOPIC | {KafkaError.UNKNOWN_LEADER_EPOCH}
"""The topic was deleted; perhaps another one has its name."""
NO_GROUP: Final = frozenset(
    {
        KafkaError.GROUP_ID_NOT_FOUND,
        # a share or streams group of this name
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError.INVALID_GROUP_ID,
    }
)

"""A real Apache Kafka on this machine, for demos and tests.

KRaft brokers from the published jars, on free loopback ports, each with a bounded heap. They die
with the process that started them, however that process dies.
"""

from lagwatch.kafka.embedded.cluster import EmbeddedKafka
from lagwatch.kafka.embedded.settings import EmbeddedKafkaError, ScramOverTls

__all__ = ["EmbeddedKafka", "EmbeddedKafkaError", "ScramOverTls"]

"""What can go wrong with the embedded broker."""

from lagwatch.errors import LagwatchError


class EmbeddedKafkaError(LagwatchError):
    """The embedded Kafka cannot be had, started or reached; the text names the remedy."""


class MissingPartError(EmbeddedKafkaError):
    """This machine has no fit Java, or no jars and no way to get them."""

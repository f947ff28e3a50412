"""lagwatch: is every Kafka consumer group keeping up, and if not, since when and why."""

__version__ = "0.1.0"

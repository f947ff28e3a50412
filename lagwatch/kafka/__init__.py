"""The only place that knows the Kafka client library."""

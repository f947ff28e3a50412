"""When to ask Kafka, and what to do when it refuses; sees roles, not the client library."""

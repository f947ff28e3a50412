"""Reads a topic and lets the client commit until it is ended. Arguments: properties, topic."""

import json
import sys

from confluent_kafka import Consumer


def main() -> None:
    """Read for ever."""
    consumer = Consumer(json.loads(sys.argv[1]))
    consumer.subscribe([sys.argv[2]])
    while True:
        consumer.consume(1000, 0.1)


if __name__ == "__main__":
    main()

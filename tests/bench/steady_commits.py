"""Commits at a steady rate until ended: `steady_commits.py BOOTSTRAP RATE MODULE OFFSET`.

The groups and partitions are those of `LOAD` in the module; each commits this offset first.
"""

import importlib
import itertools
import sys
import time

from confluent_kafka import Producer

from tests.bench.commit_load import OFFSETS_TOPIC, Load, steady_commits

TICK_S = 0.05


def main(bootstrap: str, rate: int, load: Load, first_offset: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "__admin_client"})
    commits = steady_commits(load.keys(), first_offset)
    started_s, sent = time.monotonic(), 0
    while True:
        time.sleep(TICK_S)
        due = int((time.monotonic() - started_s) * rate) - sent
        for key, value, home in itertools.islice(commits, due):
            producer.produce(OFFSETS_TOPIC, value, key, partition=home)
        sent += due
        producer.poll(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), importlib.import_module(sys.argv[3]).LOAD, int(sys.argv[4]))

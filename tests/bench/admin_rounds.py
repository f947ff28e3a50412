"""Rounds of admin mode as the collector makes them, in a process of its own.

`admin_rounds.py BOOTSTRAP ROUNDS GROUPS` prints a line of seconds, resident bytes, groups and
offsets for each round, once the coordinator has loaded all groups; then the seconds of a bare
loop with fifty requests under way.
"""

import asyncio
import gc
import os
import sys
import time
from concurrent.futures import Future
from queue import SimpleQueue

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from lagwatch.clock import SystemClock
from lagwatch.config import ClusterSettings
from lagwatch.kafka.client import KafkaClients
from lagwatch.kafka.groups import KafkaCommitted, KafkaGroups
from tests.bench.usage import rss_bytes

LOADED_WITHIN_S = 60
BARE_IN_FLIGHT = 50


async def rounds(bootstrap: str, number: int, expected: int) -> None:
    clients = KafkaClients("bench", ClusterSettings(bootstrap=(bootstrap,)), SystemClock())
    listing, committed = KafkaGroups(clients), KafkaCommitted(clients)
    deadline_s = time.monotonic() + LOADED_WITHIN_S
    while len((await listing.list_groups()).groups) < expected:
        assert time.monotonic() < deadline_s, "the coordinator does not know all groups"
        await asyncio.sleep(0.5)
    for _ in range(number):
        started_s = time.perf_counter()
        groups = [each.name for each in (await listing.list_groups()).groups]
        offsets = 0
        async for answers in committed.committed(groups):
            assert not any(answer.problem or answer.refused for answer in answers)
            offsets += sum(len(answer.offsets) for answer in answers)
        took_s = time.perf_counter() - started_s
        print(f"{took_s:.3f} {rss_bytes(os.getpid())} {len(groups)} {offsets}", flush=True)


def bare_round_s(bootstrap: str) -> float:
    """The same answers, merely taken."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = [each.group_id for each in admin.list_consumer_groups().result().valid]
    done: SimpleQueue[Future[ConsumerGroupTopicPartitions]] = SimpleQueue()
    started_s = time.perf_counter()
    for number, name in enumerate(names):
        if number >= BARE_IN_FLIGHT:
            done.get(timeout=30).result()
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)])
        asked[name].add_done_callback(done.put)
    for _ in names[:BARE_IN_FLIGHT]:
        done.get(timeout=30).result()
    return time.perf_counter() - started_s


if __name__ == "__main__":
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)  # as the collector does
    asyncio.run(rounds(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
    print(f"{bare_round_s(sys.argv[1]):.3f}")

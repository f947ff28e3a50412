"""Rounds of admin mode as the collector makes them, in a process of its own.

`admin_rounds.py BOOTSTRAP ROUNDS GROUPS` prints a line of seconds, resident bytes, groups and
offsets for each round, once the coordinator has loaded all groups.
"""

import asyncio
import os
import sys
import time

from lagwatch.clock import SystemClock
from lagwatch.config import ClusterSettings
from lagwatch.kafka.client import KafkaClients
from lagwatch.kafka.committed import KafkaCommitted
from lagwatch.kafka.groups import KafkaGroups
from tests.bench.usage import rss_bytes

LOADED_WITHIN_S = 60


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


if __name__ == "__main__":
    asyncio.run(rounds(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))

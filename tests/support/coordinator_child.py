"""Asks for a group's coordinator and committed offset as the collector does, once per line read.

In a process of its own, as there: the client library may abort after a broker's restart.
`coordinator_child.py BOOTSTRAP GROUP` prints a line `[coordinator, offset]`, null for no answer.
"""

import asyncio
import json
import sys

from lagwatch.clock import SystemClock
from lagwatch.config import ClusterSettings
from lagwatch.kafka.client import KafkaClients
from lagwatch.kafka.groups import KafkaCommitted, KafkaGroups


async def main(bootstrap: str, group: str) -> None:
    settings = ClusterSettings(bootstrap=tuple(bootstrap.split(",")))
    clients = KafkaClients("here", settings, SystemClock())
    groups, committed = KafkaGroups(clients), KafkaCommitted(clients)
    while await asyncio.to_thread(sys.stdin.readline):
        infos = (await groups.describe([group])).infos
        answers = [each async for chunk in committed.committed([group]) for each in chunk]
        coordinator = next((info.coordinator for info in infos), None)
        offset = next((offset for each in answers for offset in each.offsets), None)
        sys.stdout.write(json.dumps([coordinator, offset]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""What the real service costs until it is ready."""

import time
from dataclasses import dataclass

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.bench.usage import cpu_time, rss_bytes
from tests.support.served import Served, serving

READY_WITHIN_S = 240
WITHOUT_HISTORY = '[history]\nstore = "none"\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the service and its collector took until they were ready."""

    cpu_s: float
    rss_bytes: int
    rows: int


def cost_until_ready(kafka: EmbeddedKafka, **cluster: object) -> Cost:
    """Run the live monitor until it is ready and has judged everything; then stop it.

    Without the history: what recording costs has a benchmark of its own.
    """
    with serving(kafka.bootstrap_servers, cluster=cluster, sections=WITHOUT_HISTORY) as served:
        with cpu_time(served.pid) as spent:
            served.wait_ready(READY_WITHIN_S)
        # some more rounds, so that the memory of the snapshots is in the figure
        time.sleep(8)
        return Cost(cpu_s=spent.seconds, rss_bytes=rss_bytes(served.pid), rows=_partitions(served))


def _partitions(served: Served) -> int:
    """Partitions of all groups, from every hundredth of them, which are all alike."""
    groups = served.groups()
    step = max(1, len(groups) // 10)
    asked = groups[::step]
    counts = [(served.status(group) or {})["partition_count"] for group in asked]
    return sum(counts) * len(groups) // max(1, len(asked))

"""A cluster of 200,000 group-partitions in which nothing happens: CPU time and memory.

Takes about half an hour: partitions of so large a cluster count as resting after 18 minutes.
"""

import sys
import time
from collections.abc import Iterator

from lagwatch.pollers.quiet import rests_after_s, whole_every_s
from tests.bench.bench_ingest import bare_loop_cpu_s
from tests.bench.figures import Figure
from tests.bench.large_cluster import (
    LOAD,
    READY_WITHIN_S,
    WITH_HISTORY,
    fixed_work_cpu_s,
    large_cluster,
    share,
)
from tests.support.served import serving

WATCHED_S = 135
"""Two rounds that ask for everything."""


def run() -> Iterator[Figure]:
    with large_cluster() as kafka:
        bare_s = min(bare_loop_cpu_s(kafka) for _ in range(2))
        with serving(kafka.bootstrap_servers, sections=WITH_HISTORY) as served:
            served.wait_ready(READY_WITHIN_S)
            partitions = LOAD.topics * LOAD.partitions
            time.sleep(rests_after_s(partitions) + whole_every_s(partitions))
            fixed_s = fixed_work_cpu_s()
            found = share(served, WATCHED_S)
    print(
        f"a minute at rest {found.per_minute_s:.2f} CPU s, bare loop {bare_s:.2f} CPU s, "
        f"fixed arithmetic {fixed_s:.2f} CPU s",
        file=sys.stderr,
    )
    yield Figure(name="rest_share", value=found.of_a_core, unit="%core", target=1.5)
    yield Figure(
        name="rest_minute_to_bare_loop", value=found.per_minute_s / bare_s, unit="x", target=0.45
    )
    yield Figure(
        name="rest_minute_to_arithmetic", value=found.per_minute_s / fixed_s, unit="x", target=1.2
    )
    yield Figure(name="rest_memory", value=found.rss_bytes / 1e6, unit="MB", target=200)

"""5,000 commits/s of 200,000 group-partitions for half an hour: does memory grow?

`SOAK_S` seconds of another length may be asked for by the environment.
"""

import os
import sys
import time
from collections.abc import Iterator

import numpy as np

from tests.bench.bench_steady import COMMITS_PER_S, MESSAGES, SETTLES_S
from tests.bench.figures import Figure
from tests.bench.large_cluster import LOAD, READY_WITHIN_S, WITH_HISTORY, large_cluster, steady
from tests.bench.usage import cpu_time, rss_bytes
from tests.support.served import Served, serving

SOAK_S = int(os.environ.get("SOAK_S", "1800"))
_LOOK_S = 5
_LEAST_OF = 12
"""Looks of which the least counts: recording and answers need memory for a moment."""


def run() -> Iterator[Figure]:
    with (
        large_cluster(MESSAGES + SOAK_S * COMMITS_PER_S // LOAD.rows) as kafka,
        serving(kafka.bootstrap_servers, sections=WITH_HISTORY) as served,
        steady(kafka, COMMITS_PER_S, "tests.bench.large_cluster") as commits,
    ):
        served.wait_ready(READY_WITHIN_S)
        time.sleep(SETTLES_S)
        restarts = served.health()["restarts"]
        with cpu_time(served.pid) as spent:
            memory = _memory(served, SOAK_S)
        assert commits.poll() is None, "the commits stopped"
        restarts = served.health()["restarts"] - restarts
    least = memory.reshape(-1, _LEAST_OF).min(axis=1) / 1e6
    hours = np.arange(least.size) * _LOOK_S * _LEAST_OF / 3600
    slope = float(np.polyfit(hours, least, 1)[0])
    print(
        f"{SOAK_S} s: from {least[0]:.0f} to {least[-1]:.0f} MB, "
        f"at most {memory.max() / 1e6:.0f} MB, {100 * spent.seconds / SOAK_S:.1f} % of a core",
        file=sys.stderr,
    )
    yield Figure(name="soak_memory_slope", value=slope, unit="MB/h", target=20)
    yield Figure(name="soak_collector_restarts", value=restarts, unit="restarts", target=0)


def _memory(served: Served, seconds: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Resident bytes of both processes, look by look; as many as make whole groups."""
    looks = max(2, seconds // (_LOOK_S * _LEAST_OF)) * _LEAST_OF
    found = np.zeros(looks, np.int64)
    began_s = time.monotonic()
    for number in range(looks):
        found[number] = rss_bytes(served.pid)
        time.sleep(max(0.0, began_s + (number + 1) * _LOOK_S - time.monotonic()))
    return found

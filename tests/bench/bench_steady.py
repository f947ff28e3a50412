"""5,000 commits/s of 200,000 group-partitions: CPU time without and with history."""

import sys
import time
from collections.abc import Iterator

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.bench.bench_ingest import bare_loop_cpu_s
from tests.bench.figures import Figure
from tests.bench.large_cluster import (
    LOAD,
    READY_WITHIN_S,
    WITH_HISTORY,
    WITHOUT_HISTORY,
    Share,
    fixed_work_cpu_s,
    large_cluster,
    share,
    steady,
)
from tests.support.served import serving

COMMITS_PER_S = 5000
SETTLES_S = 2 * LOAD.rows // COMMITS_PER_S + 10
"""Each row has committed twice: the change of all verdicts at the start is over."""
WATCHED_S = 90
"""Three regular samples of the history."""


def run() -> Iterator[Figure]:
    with large_cluster() as kafka:
        bare_s = min(bare_loop_cpu_s(kafka) for _ in range(2))
        fixed_s = fixed_work_cpu_s()
        for name, sections, target in (
            ("steady", WITHOUT_HISTORY, 4.0),
            ("steady_history", WITH_HISTORY, 6.0),
        ):
            found = _watched(kafka, sections)
            print(
                f"{name}: a minute {found.per_minute_s:.2f} CPU s, bare loop {bare_s:.2f} CPU s, "
                f"fixed arithmetic {fixed_s:.2f} CPU s, {found.rss_bytes / 1e6:.0f} MB",
                file=sys.stderr,
            )
            ratio = found.per_minute_s / bare_s
            yield Figure(name=f"{name}_share", value=found.of_a_core, unit="%core", target=target)
            yield Figure(
                name=f"{name}_minute_to_bare_loop", value=ratio, unit="x", target=0.3 * target
            )


def _watched(kafka: EmbeddedKafka, sections: str) -> Share:
    with (
        serving(kafka.bootstrap_servers, sections=sections) as served,
        steady(kafka, COMMITS_PER_S, "tests.bench.large_cluster") as commits,
    ):
        served.wait_ready(READY_WITHIN_S)
        time.sleep(SETTLES_S)
        found = share(served, WATCHED_S)
        assert commits.poll() is None, "the commits stopped"
    return found

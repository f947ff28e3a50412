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
    SWEEPS,
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
MESSAGES = 100
"""Of a partition: more than are committed in the end."""
WATCHED_S = 90
"""Three regular samples of the history."""


def run() -> Iterator[Figure]:
    with large_cluster(MESSAGES) as kafka:
        bare_s = min(bare_loop_cpu_s(kafka) for _ in range(2))
        print(
            f"bare loop {bare_s:.2f} CPU s, fixed arithmetic {fixed_work_cpu_s():.2f} CPU s",
            file=sys.stderr,
        )
        plain = _watched(kafka, WITHOUT_HISTORY, SWEEPS)
        recorded = _watched(kafka, WITH_HISTORY, MESSAGES // 2)
    yield Figure(name="steady_share", value=plain.of_a_core, unit="%core", target=4)
    yield Figure(
        name="steady_minute_to_bare_loop", value=plain.per_minute_s / bare_s, unit="x", target=1.2
    )
    yield Figure(name="steady_history_share", value=recorded.of_a_core, unit="%core", target=6)
    yield Figure(
        name="steady_history_minute_to_bare_loop",
        value=recorded.per_minute_s / bare_s,
        unit="x",
        target=1.8,
    )


def _watched(kafka: EmbeddedKafka, sections: str, first_offset: int) -> Share:
    with (
        serving(kafka.bootstrap_servers, sections=sections) as served,
        steady(
            kafka, COMMITS_PER_S, "tests.bench.large_cluster", first_offset=first_offset
        ) as commits,
    ):
        served.wait_ready(READY_WITHIN_S)
        time.sleep(SETTLES_S)
        found = share(served, WATCHED_S)
        assert commits.poll() is None, "the commits stopped"
    print(
        f"a minute {found.per_minute_s:.2f} CPU s, {found.rss_bytes / 1e6:.0f} MB", file=sys.stderr
    )
    return found

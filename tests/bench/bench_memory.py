"""Memory of both processes for 200,000 group-partitions with full windows."""

import sys
from collections.abc import Iterator

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.bench.bench_ingest import LOAD, SWEEPS
from tests.bench.commit_load import OFFSETS_PARTITIONS, make_topics, write_commits
from tests.bench.figures import Figure
from tests.bench.serving import cost_until_ready


def run() -> Iterator[Figure]:
    with EmbeddedKafka(offsets_partitions=OFFSETS_PARTITIONS) as kafka:
        make_topics(kafka, LOAD)
        empty = cost_until_ready(kafka)
        write_commits(kafka, LOAD, sweeps=SWEEPS)
        full = cost_until_ready(kafka)
    assert full.rows == LOAD.rows
    growth = full.rss_bytes - empty.rss_bytes
    print(
        f"empty {empty.rss_bytes / 1e6:.0f} MB, full {full.rss_bytes / 1e6:.0f} MB",
        file=sys.stderr,
    )
    yield Figure(
        name="memory_per_group_partition",
        value=growth / full.rows,
        unit="bytes/row",
        target=700,
    )

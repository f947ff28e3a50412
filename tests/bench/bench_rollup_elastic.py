"""`lagwatch rollup` over 10 million samples in a real Elasticsearch: its time, and memory at most.

All samples of a day, of which the roll-ups of five minutes, hours and days are made. Memory is
that of the command with Java and all workers; what processes share counts once.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from elasticsearch import Elasticsearch

from lagwatch.config.elasticsearch import ElasticsearchSettings
from lagwatch.core.record import Kind
from lagwatch.history.elastic import ElasticStore, RejectedRows
from tests.bench.bench_history import (
    GROUPS,
    HOUR_MS,
    INTERVAL_MS,
    PARTITIONS,
    group_samples_of_hour,
    samples_of_hour,
)
from tests.bench.figures import Bound, Figure
from tests.bench.usage import pss_bytes
from tests.support.elasticsearch import EmbeddedElasticsearch

HOURS = 24
SAMPLES = HOURS * (HOUR_MS // INTERVAL_MS) * GROUPS * PARTITIONS
_PREFIX = "lagwatch"
_LOOK_S = 0.5
_WITHIN_S = 3600


def run() -> Iterator[Figure]:
    with EmbeddedElasticsearch() as server, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(server.url, folder)
        most_bytes, took_s = rolled_up(server.url, folder)
        with Elasticsearch(server.url, request_timeout=60) as client:
            check(client)
    yield Figure(name="rollup_elastic_10m_memory", value=most_bytes / 1e6, unit="MB", target=2_000)
    yield Figure(
        name="rollup_elastic_10m",
        value=SAMPLES / took_s,
        unit="samples/s",
        target=0,
        bound=Bound.AT_LEAST,
    )


def write(url: str, folder: Path) -> None:
    settings = ElasticsearchSettings(urls=(url,), prefix=_PREFIX)
    store = ElasticStore(settings, RejectedRows(folder))
    started_s = time.monotonic()
    try:
        for hour in range(HOURS):
            rows = [samples_of_hour(hour), group_samples_of_hour(hour)]
            store.write(rows, batch=f"h{hour:03}")
    finally:
        store.close()
    print(f"  written in {time.monotonic() - started_s:.0f} s", file=sys.stderr)


def rolled_up(url: str, folder: Path) -> tuple[int, float]:
    """Most memory in bytes, and seconds."""
    config = folder / "lagwatch.toml"
    config.write_text(
        '[history]\nstore = "elasticsearch"\n'
        f'[history.elasticsearch]\nurls = ["{url}"]\nprefix = "{_PREFIX}"\n'
        "[history.retention]\nsamples_days = 0\ngroup_samples_days = 0\nrollup_5m_days = 0\n"
        f'[jobs]\ntextfile = "{folder}/metrics"\n'
        '[clusters.bench]\nbootstrap = "127.0.0.1:9"\n'
    )
    command = [sys.executable, "-m", "lagwatch", "rollup", "-c", str(config)]
    most = 0
    started_s = time.monotonic()
    with subprocess.Popen(command, cwd=folder, stdout=sys.stderr) as job:
        while job.poll() is None:
            most = max(most, pss_bytes(job.pid))
            time.sleep(_LOOK_S)
            assert time.monotonic() - started_s < _WITHIN_S
    took_s = time.monotonic() - started_s
    assert job.returncode == 0, job.returncode
    print(f"  {SAMPLES:,} samples in {took_s:.0f} s", file=sys.stderr)
    return most, took_s


def check(client: Elasticsearch) -> None:
    """Does every sample count once at each step?"""
    for kind in (Kind.ROLLUP_5M, Kind.ROLLUP_1H, Kind.ROLLUP_1D):
        found = client.search(
            index=f"{_PREFIX}-{kind}-*",
            size=0,
            query={"term": {"level": "partition"}},
            aggs={"samples": {"sum": {"field": "samples"}}},
        )
        assert int(found["aggregations"]["samples"]["value"]) == SAMPLES, kind

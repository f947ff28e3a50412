"""Samples written to a real Elasticsearch by our store and by bare `helpers.parallel_bulk`.

The same documents, the same mapping, the same node, by turns: a busy neighbour slows both. And how
much disk a sample takes, before and after all segments are merged: every row whole, as with
`full_s = 0`.
"""

import tempfile
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import orjson
from elasticsearch import Elasticsearch
from elasticsearch.helpers import parallel_bulk

from lagwatch.config.elasticsearch import ElasticsearchSettings
from lagwatch.core.record import Kind, Records, Text
from lagwatch.history.elastic import ElasticStore, RejectedRows
from lagwatch.history.elastic.documents import by_index, documents
from tests.bench.figures import Bound, Figure
from tests.support.elasticsearch import EmbeddedElasticsearch

PARTITIONS, ROUNDS = 20_000, 2
"""Rows of one turn: 200 groups of 100 partitions, two samples each."""
TURNS = 6
STORED_PARTITIONS, STORED_ROUNDS, ROUNDS_AT_ONCE = 100, 2_400, 200
"""Rows whose size is measured: most of a day."""
START_MS = 1_790_000_000_000 // 86_400_000 * 86_400_000


def run() -> Iterator[Figure]:
    ours, bare = [], []
    with EmbeddedElasticsearch() as server, tempfile.TemporaryDirectory() as folder:
        settings = ElasticsearchSettings(urls=(server.url,))
        store = ElasticStore(settings, RejectedRows(Path(folder)))
        client = Elasticsearch(server.url, request_timeout=60)
        try:
            for turn in range(TURNS):
                first, second = (samples(2 * turn + side) for side in range(2))
                took = ours_s(store, first), bare_s(client, second)
                if turn:  # the first turn warms the server up
                    ours.append(first.size / took[0])
                    bare.append(second.size / took[1])
            written, merged = stored_bytes(server.url, Path(folder))
        finally:
            client.close()
            store.close()
    yield Figure(
        name="history_elastic_rate_to_parallel_bulk",
        value=median(mine / theirs for mine, theirs in zip(ours, bare, strict=True)),
        unit="x",
        target=0.8,
        bound=Bound.AT_LEAST,
    )
    yield Figure(name="history_elastic_row", value=merged, unit="B", target=60)
    yield Figure(name="history_elastic_row_unmerged", value=written, unit="B", target=68)
    yield Figure(
        name="history_elastic_write",
        value=median(ours),
        unit="samples/s",
        target=0,
        bound=Bound.AT_LEAST,
    )


def ours_s(store: ElasticStore, rows: Records) -> float:
    started_s = time.monotonic()
    store.write([rows], batch="bench")
    return time.monotonic() - started_s


def bare_s(client: Elasticsearch, rows: Records) -> float:
    """Ready documents, so that only sending them counts."""
    actions: list[dict[str, Any]] = [
        {
            "_op_type": "create",
            "_index": part.index,
            "_id": document.id,
            "_source": orjson.loads(document.body),
        }
        for part in by_index([rows], "lagwatch")
        for document in documents(part.rows)
    ]
    started_s = time.monotonic()
    deque(parallel_bulk(client, actions), maxlen=0)
    return time.monotonic() - started_s


def stored_bytes(url: str, folder: Path) -> tuple[float, float]:
    """Bytes on disk of a sample, of all its fields: as written, and in one segment."""
    settings = ElasticsearchSettings(urls=(url,), prefix="stored")
    store = ElasticStore(settings, RejectedRows(folder))
    try:
        for first in range(0, STORED_ROUNDS, ROUNDS_AT_ONCE):
            store.write([rounds(first, ROUNDS_AT_ONCE)], batch="bench")
        index = f"{settings.prefix}-samples-*"
        client = store.client.options(request_timeout=300)
        written = used_bytes(client, index)
        client.indices.forcemerge(index=index, max_num_segments=1)
        merged = used_bytes(client, index)
    finally:
        store.close()
    size = STORED_PARTITIONS * STORED_ROUNDS
    return written / size, merged / size


def used_bytes(client: Elasticsearch, index: str) -> float:
    used = client.indices.disk_usage(index=index, run_expensive_tasks=True).body
    return sum(
        float(used[name]["all_fields"]["total_in_bytes"])
        for name in used
        if not name.startswith("_")
    )


def rounds(first: int, count: int) -> Records:
    """Consecutive samples of groups whose lag goes up and down."""
    size = STORED_PARTITIONS * count
    rng = np.random.default_rng(first)
    turn = first + np.repeat(np.arange(count), STORED_PARTITIONS)
    row = np.tile(np.arange(STORED_PARTITIONS), count)
    rate = 10 + row * 29 % 3000
    at_ms = START_MS + turn * 30_000
    # as recorded from real brokers: judged 0.7 to 1.8 s after the instant, by log ends that
    # were asked for 2 s before that
    observed_ms = at_ms + np.repeat(rng.integers(700, 1800, count), STORED_PARTITIONS)
    time_lag_at_ms = observed_ms - np.repeat(rng.integers(2000, 2050, count), STORED_PARTITIONS)
    end = 10**6 * (row + 1) ** 2 + rate * turn * 30 + rng.integers(0, 300, size)
    lag = np.maximum(row * 37 % 5000 + rng.integers(-200, 200, size), 0)
    topics = tuple(f"orders.topic-{number:03}" for number in range(40))
    ids = tuple(f"Zk3yV0kQTxq{number:03}aBcDeFgH" for number in range(40))
    groups = tuple(f"team-{number % 9}.service-{number:03}" for number in range(10))
    same = samples(0).take(np.zeros(size, np.int64)).columns
    return Records(
        kind=Kind.SAMPLES,
        columns={
            **same,
            "group": Text((row // 10).astype(np.int32), groups),
            "topic": Text((row % 40).astype(np.int32), topics),
            "topic_id": Text((row % 40).astype(np.int32), ids),
            "partition": (row % 10).astype(np.int32),
            "at_ms": at_ms,
            "observed_ms": observed_ms,
            "committed_offset": end - lag,
            "commit_ms": at_ms - rng.integers(0, 5000, size),
            "log_end_offset": end,
            "log_end_ms": time_lag_at_ms - rng.integers(5, 50, size),
            "log_start_offset": 10**5 * (row + 1) ** 2,
            "lag": lag,
            "time_lag_s": np.round(lag / rate, 3),
            "time_lag_at_ms": time_lag_at_ms,
        },
    )


def samples(number: int) -> Records:
    """Rounds of samples of a cluster; every `number` gives other rows of the same day."""
    size = PARTITIONS * ROUNDS
    rng = np.random.default_rng(number)
    row = np.arange(size)
    group, partition = row // ROUNDS // 100, row // ROUNDS % 100
    at_ms = START_MS + (number * ROUNDS + row % ROUNDS) * 30_000
    end = rng.integers(10**6, 10**9, size)
    lag = rng.integers(0, 5000, size)

    def same(word: str) -> Text:
        return Text.same(word, size)

    return Records(
        kind=Kind.SAMPLES,
        columns={
            "cluster": same("bench"),
            "group": Text(group.astype(np.int32), tuple(f"group-{n:04}" for n in range(200))),
            "topic": Text((group % 20).astype(np.int32), tuple(f"topic-{n:03}" for n in range(20))),
            "partition": partition.astype(np.int32),
            "at_ms": at_ms,
            "observed_ms": at_ms + 17,
            "committed_offset": end - lag,
            "commit_ms": at_ms - 1234,
            "log_end_offset": end,
            "log_start_offset": np.zeros(size, np.int64),
            "lag": lag,
            "time_lag_s": lag / 100,
            "time_lag_reason": same("measured"),
            "status": same("OK"),
            "rule": same("progressing"),
            "complete": np.ones(size),
            "group_status": same("OK"),
            "group_state": same("Stable"),
            "owner": same("/10.0.0.7"),
            "client_id": same("orders-service-1"),
            "reason": same("interval"),
            "method": same("observed"),
            "source": same("live"),
            "schema_version": np.ones(size, np.int32),
        },
    )

"""Small helpers for tests of the history in Elasticsearch."""

import shutil
import uuid
from pathlib import Path
from typing import Any

from elasticsearch import Elasticsearch

from lagwatch.config.elasticsearch import ElasticsearchSettings
from lagwatch.core.record import Kind, Records, from_rows
from lagwatch.history.elastic import ElasticStore, RejectedRows
from tests.support.elasticsearch import EmbeddedElasticsearch
from tests.support.history import held, sample
from tests.support.waiting import eventually

DAY_MS = 86_400_000


def unique_prefix() -> str:
    """An index prefix nobody else uses."""
    return f"t{uuid.uuid4().hex[:10]}"


def settings(
    url: str,
    prefix: str,
    **options: Any,  # noqa: ANN401 as the section has them
) -> ElasticsearchSettings:
    """Settings of a store for tests; secrets are given as text."""
    return ElasticsearchSettings(**{"urls": (url,), "prefix": prefix} | options)


def open_store(
    url: str,
    prefix: str,
    folder: Path,
    **options: Any,  # noqa: ANN401 as the section has them
) -> ElasticStore:
    """A store; the caller closes it. What it rejects lies in `folder`."""
    return ElasticStore(settings(url, prefix, **options), RejectedRows(folder))


def samples(count: int, *, first: int = 0, **changes: Any) -> Records:  # noqa: ANN401
    """Rows of `count` partitions at one instant."""
    rows = [sample(partition=number, **changes) for number in range(first, first + count)]
    return from_rows(Kind.SAMPLES, rows)


def partitions(store: ElasticStore) -> list[int]:
    """The partitions of all samples, sorted, as often as they are stored."""
    return sorted(row["partition"] for row in held(store))


def break_index(server: EmbeddedElasticsearch, client: Elasticsearch, index: str) -> None:
    """Take the files of an index away, so that it turns red."""
    (held,) = client.indices.get_settings(index=index).body.values()
    client.indices.close(index=index)
    shutil.rmtree(server.data / "indices" / held["settings"]["index"]["uuid"] / "0" / "index")
    client.indices.open(index=index, wait_for_active_shards=0)
    eventually(lambda: _is_lost(client, index), f"{index} to be red")


def _is_lost(client: Elasticsearch, index: str) -> bool:
    health = client.cluster.health(index=index)
    return health["status"] == "red" and health["initializing_shards"] == 0


def create_red(client: Elasticsearch, index: str) -> None:
    """Make an index that no node may hold."""
    nobody = {"index.routing.allocation.require._name": "nobody", "index.number_of_replicas": 0}
    client.indices.create(index=index, settings=nobody, wait_for_active_shards=0)

"""What indices there are."""

from collections.abc import Mapping
from dataclasses import dataclass

from elasticsearch import Elasticsearch

from lagwatch.core.record import Kind
from lagwatch.history.elastic.faults import reported, whole
from lagwatch.history.elastic.indices import all_indices, last_day


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """One index."""

    rows: int
    size_bytes: int
    """Without replicas."""


def holdings(client: Elasticsearch, kind: Kind, *, prefix: str) -> Mapping[str, Holding]:
    """The indices of a kind by name, sorted; those that only look like ours are left out.

    Raises:
        HistoryError: the cluster did not answer.
    """
    with reported("list the indices", prefix=prefix):
        answer = client.indices.stats(
            index=all_indices(prefix, kind),
            metric=["docs", "store"],
            filter_path="indices.*.primaries",
        ).body
    return {
        name: Holding(
            rows=held["primaries"].get("docs", {}).get("count", 0),
            size_bytes=held["primaries"].get("store", {}).get("size_in_bytes", 0),
        )
        for name, held in sorted(whole(answer, "list the indices").get("indices", {}).items())
        if last_day(prefix, kind, name) is not None
    }


def red_indices(client: Elasticsearch, kind: Kind, *, prefix: str) -> frozenset[str]:
    """Indices of a kind of which a part cannot be read now.

    Raises:
        HistoryError: the cluster did not answer.
    """
    with reported("ask for the health of the indices", prefix=prefix):
        answer = client.cluster.health(
            index=all_indices(prefix, kind),
            level="indices",
            filter_path="indices.*.status",
        ).body
    health = whole(answer, "ask for the health of the indices").get("indices", {})
    return frozenset(name for name, held in health.items() if held["status"] == "red")

"""What the roll-ups ask of Elasticsearch besides rows."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from lagwatch.core.record import Kind
from lagwatch.errors import HistoryError
from lagwatch.ports import HistoryRange, HistoryStore

if TYPE_CHECKING:  # an optional extra
    from lagwatch.history.elastic import ElasticStore

_STEP: Final = "5m"
_EVER_MS: Final = 4_000_000_000_000


def elastic(store: HistoryStore) -> "ElasticStore":
    """The store, which is one in Elasticsearch.

    Raises:
        HistoryError: it is another one.
    """
    from lagwatch.history.elastic import ElasticStore  # noqa: PLC0415 an optional extra

    if isinstance(store, ElasticStore):
        return store
    raise HistoryError(
        store="", kind="schema", message="roll-ups know no such store", retryable=False
    )


def refresh(store: "ElasticStore", kind: Kind) -> None:
    """Make what others wrote visible.

    Raises:
        HistoryError: the cluster did not answer.
    """
    from lagwatch.history.elastic.faults import reported  # noqa: PLC0415
    from lagwatch.history.elastic.indices import all_indices  # noqa: PLC0415

    index = all_indices(store.prefix, kind)
    with reported(f"refresh {index}", prefix=store.prefix):
        store.client.indices.refresh(index=index, ignore_unavailable=True)


def bucket_counts(
    store: "ElasticStore", kind: Kind, cluster: str
) -> Mapping[str, Mapping[str, int]]:
    """First instant of every five minutes → source → rows, of those that are visible.

    Raises:
        HistoryError: the cluster did not answer.
    """
    from lagwatch.history.elastic.indices import all_indices  # noqa: PLC0415
    from lagwatch.history.elastic.search import in_range  # noqa: PLC0415

    wanted = HistoryRange(kind=kind, cluster=cluster, from_ms=0, to_ms=_EVER_MS)
    bucket = {"date_histogram": {"field": kind.time_column, "fixed_interval": _STEP}}
    counts: dict[str, dict[str, int]] = {}
    for one in store.searcher.composite(
        all_indices(store.prefix, kind),
        in_range(wanted),
        by={"bucket": bucket, "source": {"terms": {"field": "source"}}},
        aggregations={},
    ):
        key = one["key"]
        counts.setdefault(str(key["bucket"]), {})[key["source"]] = one["doc_count"]
    return counts

"""What the roll-ups ask of Elasticsearch besides rows."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from lagwatch.core.record import Kind
from lagwatch.errors import HistoryError
from lagwatch.ports.history import EVER_MS, HistoryRange, HistoryStore

if TYPE_CHECKING:  # an optional extra
    from lagwatch.history.elastic import ElasticStore

_STEP: Final = "5m"


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
    store.see_all(HistoryRange(kind=kind, from_ms=0, to_ms=EVER_MS))


def rows_by_group(
    store: "ElasticStore", wanted: HistoryRange, *, above: int
) -> Sequence[tuple[str, int]]:
    """Groups with their rows; () where all together have no more than so many.

    Raises:
        HistoryError: the cluster did not answer.
    """
    from lagwatch.history.elastic.indices import indices_between  # noqa: PLC0415
    from lagwatch.history.elastic.search import in_range  # noqa: PLC0415

    names = indices_between(store.prefix, wanted.kind, wanted.from_ms, wanted.to_ms)
    index, query = ",".join(names), in_range(wanted)
    if store.searcher.count(index, query) <= above:
        return ()
    found = store.searcher.composite(
        index, query, by={"group": {"terms": {"field": "group"}}}, aggregations={}
    )
    return [(one["key"]["group"], one["doc_count"]) for one in found]


def bucket_counts(
    store: "ElasticStore", kind: Kind, cluster: str
) -> Mapping[str, Mapping[str, int]]:
    """First instant of every five minutes → source → rows, of those that are visible.

    Raises:
        HistoryError: the cluster did not answer.
    """
    from lagwatch.history.elastic.indices import all_indices  # noqa: PLC0415
    from lagwatch.history.elastic.search import in_range  # noqa: PLC0415

    wanted = HistoryRange(kind=kind, cluster=cluster, from_ms=0, to_ms=EVER_MS)
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

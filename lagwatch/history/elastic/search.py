"""Searches whose answers may be larger than one page."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import compress
from typing import Any, Final

import numpy as np
from elasticsearch import ApiError, Elasticsearch, TransportError
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.record import BY_WORST, SampleReason, Text, is_word
from lagwatch.history.buckets import lag_column, no_buckets, severity
from lagwatch.history.elastic.faults import reported, whole
from lagwatch.ports.history import Buckets, HistoryRange

Json = Mapping[str, Any]

EVERYTHING: Final[Json] = {"match_all": {}}

_PAGE: Final = 5000
"""Documents of one answer; 10,000 is what an index allows."""
_KEEP_ALIVE: Final = "2m"
"""How long a point in time stays open after its last page was read."""
_BUCKETS: Final = 10_000
"""Of one answer; a search may make 65,535."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One of `of` disjoint parts that together hold everything a scan finds.

    A document belongs to a part by the value that the scan is sorted by, a number or instant: so
    parts read at different times, by different readers, neither overlap nor leave anything out.
    """

    number: int
    of: int


def in_range(wanted: HistoryRange) -> Json:
    """The rows that are wanted, as a query; names that were not given match all."""
    time = {wanted.kind.time_column: {"gte": wanted.from_ms, "lt": wanted.to_ms}}
    named = [{"term": {name: value}} for name, value in wanted.names.items()]
    return {"bool": {"filter": [{"range": time}, *named]}}


class Searcher:
    """Searches with complete answers only: a missing shard is an error."""

    def __init__(self, client: Elasticsearch, *, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    def search(self, index: str, **body: Any) -> Json:  # noqa: ANN401 what the client takes
        """One page of hits; it is empty if there is no such index.

        Raises:
            HistoryError: the cluster did not answer, or not from all shards.
        """
        with reported(f"search {index}", prefix=self._prefix):
            answer = self._client.search(
                index=index,
                allow_partial_search_results=False,
                ignore_unavailable=True,
                **body,
            ).body
        return whole(answer, f"search {index}")

    def scan(
        self,
        index: str,
        query: Json,
        *,
        sort: str,
        columns: Sequence[str] | None = None,
        ids: bool = False,
        share: Share | None = None,
    ) -> Iterator[Sequence[Json]]:
        """All documents that match, in pages, by `sort`, as they were when the first was read.

        A hit holds `_source`, all of it or these columns, and with `ids` also `_id` and `_index`.
        With `share` only a part of them comes, in any order.

        Raises:
            HistoryError: the cluster did not answer, or not from all shards.
        """
        wanted: dict[str, Any] = {
            "query": query,
            "source": True if columns is None else {"includes": list(columns)},
            "size": _PAGE,
            "track_total_hits": False,
            "filter_path": [f"hits.hits.{part}" for part in ("_source", "sort")],
        }
        if ids:
            wanted["filter_path"] += ["hits.hits._id", "hits.hits._index"]
        if share is not None:
            if share.of > 1:
                wanted["slice"] = {"field": sort, "id": share.number, "max": share.of}
            yield from self._pages(index, [], wanted)
            return
        # what fits on one page needs no point in time, which costs two more requests
        hits = _hits(self.search(index, sort=[{sort: "asc"}], **wanted))
        if len(hits) < _PAGE:
            if hits:
                yield hits
            return
        yield from self._pages(index, [{sort: "asc"}], wanted)

    def _pages(
        self, index: str, sort: Sequence[Json], wanted: Mapping[str, Any]
    ) -> Iterator[Sequence[Json]]:
        with reported(f"read {index}", prefix=self._prefix):
            opened = self._client.open_point_in_time(
                index=index,
                keep_alive=_KEEP_ALIVE,
                ignore_unavailable=True,
                allow_partial_search_results=False,
            ).body
        point: str = whole(opened, f"read {index}")["id"]
        try:
            after: Sequence[Any] | None = None
            while True:
                hits = _hits(self._page(index, point, sort, after, wanted))
                if hits:
                    yield hits
                if len(hits) < _PAGE:
                    return
                after = hits[-1]["sort"]
        finally:
            # it expires by itself
            with suppress(ApiError, TransportError):
                self._client.close_point_in_time(id=point)

    def _page(
        self,
        index: str,
        point: str,
        sort: Sequence[Json],
        after: Sequence[Any] | None,
        wanted: Mapping[str, Any],
    ) -> Json:
        with reported(f"read {index}", prefix=self._prefix):
            answer = self._client.search(
                pit={"id": point, "keep_alive": _KEEP_ALIVE},
                sort=[*sort, {"_shard_doc": "asc"}],
                search_after=after,
                allow_partial_search_results=False,
                **wanted,
            ).body
        return whole(answer, f"read {index}")

    def count(self, index: str, query: Json) -> int:
        """How many documents match.

        Raises:
            HistoryError: the cluster did not answer.
        """
        with reported(f"count {index}", prefix=self._prefix):
            answer = self._client.count(
                index=index, query=query, ignore_unavailable=True, allow_no_indices=True
            ).body
        return int(whole(answer, f"count {index}")["count"])

    def composite(
        self, index: str, query: Json, *, by: Mapping[str, Json], aggregations: Json
    ) -> Iterator[Json]:
        """All buckets of a composite aggregation, in the order of their keys."""
        after: Json | None = None
        sources = [{name: source} for name, source in by.items()]
        while True:
            paging: dict[str, Any] = {"size": _BUCKETS, "sources": sources}
            if after is not None:
                paging["after"] = after
            answer = self.search(
                index,
                size=0,
                query=query,
                aggregations={"found": {"composite": paging, "aggregations": aggregations}},
                filter_path="aggregations",
            )
            found = answer.get("aggregations", {}).get("found", {})
            yield from found.get("buckets", ())
            after = found.get("after_key")
            if after is None:
                return


def _hits(answer: Json) -> Sequence[Json]:
    """The documents of an answer; `filter_path` drops the whole body when there are none."""
    found: Sequence[Json] = answer.get("hits", {}).get("hits", ())
    return found


def aggregate(searcher: Searcher, index: str, wanted: HistoryRange, step_ms: int) -> Buckets:
    """One series in buckets; only buckets that have rows come out, in order.

    Elasticsearch groups by bucket, reason and status, and those of a bucket are put together here,
    as `buckets.aggregate` does: a second level of buckets inside the first took ten times as long.
    """
    time, lag = wanted.kind.time_column, lag_column(wanted.kind)
    found = list(
        searcher.composite(
            index,
            in_range(wanted),
            by={
                "at": {"date_histogram": {"field": time, "fixed_interval": f"{step_ms}ms"}},
                "reason": {"terms": {"field": "reason", "missing_bucket": True}},
                "status": {"terms": {"field": "status", "missing_bucket": True}},
            },
            aggregations={
                "lag": {"stats": {"field": lag}},
                "time_lag_s": {"max": {"field": "time_lag_s"}},
            },
        )
    )
    return _merged(found) if found else no_buckets()


def _merged(found: Sequence[Json]) -> Buckets:
    """The statuses of each bucket put together; they come one after another."""
    keys = np.array([bucket["key"]["at"] for bucket in found], np.int64)
    bucket_ms, first, place = np.unique(keys, return_index=True, return_inverse=True)
    worst = np.maximum.reduceat(severity(Text.of(one["key"]["status"] for one in found)), first)
    between = is_word(Text.of(one["key"]["reason"] for one in found), SampleReason.CHANGE)
    counts = ~between | np.logical_and.reduceat(between, first)[place]
    found = list(compress(found, counts))
    first = np.unique(keys[counts], return_index=True)[1]
    lags = [bucket["lag"] for bucket in found]
    known = np.add.reduceat(np.array([lag["count"] for lag in lags], np.int64), first)
    total = np.add.reduceat(np.array([lag["sum"] or 0.0 for lag in lags], np.float64), first)
    most = np.array([UNKNOWN if lag["max"] is None else int(lag["max"]) for lag in lags], np.int64)
    samples = np.array([bucket["doc_count"] for bucket in found], np.int64)
    return Buckets(
        bucket_ms=bucket_ms,
        samples=np.add.reduceat(samples, first),
        lag_max=np.maximum.reduceat(most, first),
        lag_avg=np.where(known > 0, total / np.maximum(known, 1), np.nan),
        time_lag_max_s=np.fmax.reduceat(_values(found, "time_lag_s"), first),
        status=Text(worst.astype(np.int32), BY_WORST),
    )


def _values(buckets: Sequence[Json], name: str) -> NDArray[np.float64]:
    values = (bucket[name]["value"] for bucket in buckets)
    return np.array([np.nan if value is None else value for value in values], np.float64)

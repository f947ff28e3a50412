"""The Elasticsearch store."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from threading import Lock
from typing import Final

from lagwatch.config.elasticsearch import ElasticsearchSettings
from lagwatch.core.record import SOURCE_RANK, Kind, Records, schema
from lagwatch.errors import HistoryError
from lagwatch.history.elastic.bulk import BulkOutcome, BulkSender, RejectedRow, RejectedRows
from lagwatch.history.elastic.client import connect
from lagwatch.history.elastic.documents import Document, by_index, documents, fields_of, rows_of
from lagwatch.history.elastic.faults import STORE, reported
from lagwatch.history.elastic.indices import (
    NOT_OURS,
    all_indices,
    foreign_mappings,
    holdings,
    indices_between,
    last_day,
    overruled,
    put_template,
    templates,
    uuid_of,
)
from lagwatch.history.elastic.search import EVERYTHING, Json, Searcher, aggregate, in_range
from lagwatch.history.elastic.verify import verify
from lagwatch.history.layout import day_of, day_start_ms
from lagwatch.history.top import ranked
from lagwatch.ports.history import (
    Allowed,
    Buckets,
    HistoryRange,
    ReportProgress,
    StoredKind,
    TopBy,
    Verification,
    always,
)

_DAY: Final = "1d"
_IDS_AT_A_TIME: Final = 5000
_WORST_RANK: Final = max(SOURCE_RANK.values())


class ElasticStore:
    """A `HistoryStore` over an Elasticsearch cluster.

    Rows that Elasticsearch will never take are set aside in `rejected`, with their reason; all
    others are there when `write` returns.
    """

    def __init__(
        self,
        settings: ElasticsearchSettings,
        rejected: RejectedRows,
        *,
        allowed: Allowed = always,
    ) -> None:
        """Open nothing yet: the first call connects.

        `allowed` is called right before rows are sent; what it raises stops that.
        """
        self._allowed = allowed
        self.prefix = settings.prefix
        self.client = connect(settings)
        self.searcher = Searcher(self.client, prefix=self.prefix)
        self.rejected = rejected
        self._manage_templates = settings.manage_templates
        self._bulk = BulkSender(
            self.client,
            prefix=self.prefix,
            bulk_bytes=settings.bulk_bytes,
            connections=settings.connections,
            timeout_s=settings.timeout_s,
        )
        self._lock = Lock()
        self._ready = False
        self._made_right: dict[str, str] = {}
        """By index its UUID, of those whose mapping is known to be lagwatch's."""
        self._unseen: set[str] = set()
        """Indices that were written to and not refreshed since."""

    @property
    def rejected_rows(self) -> int:
        return self.rejected.rows

    @property
    def set_aside(self) -> Sequence[str]:
        return ()

    def damaged(self, kind: Kind, cluster: str) -> Sequence[tuple[int, int]]:  # noqa: ARG002
        return ()

    # writing

    def write(self, records: Sequence[Records], *, batch: str) -> None:  # noqa: ARG002 ids do it
        self._deliver(records, self._create)

    def replace(self, records: Sequence[Records], *, token: int | None = None) -> None:
        """Make these rows durable in the place of those with the same keys, of any source.

        With a token they take the place only of rows that were put with none or a lower one:
        Elasticsearch compares it as the version of the document.

        Raises:
            HistoryError: the cluster did not answer, did not take all of them yet, or has rows of a
                greater token.
        """

        def put(index: str, sent: Iterator[Document]) -> BulkOutcome:
            outcome = self._bulk.put(index, sent, version=token)
            if outcome.there:
                raise HistoryError(
                    store=STORE,
                    kind="rejected",
                    message=f"{len(outcome.there)} rows of {index} were replaced by a later run "
                    "of the job: this one has lost its lock and replaces nothing any more",
                    retryable=False,
                )
            return outcome

        self._deliver(records, put)

    def _deliver(
        self,
        records: Sequence[Records],
        send: Callable[[str, Iterator[Document]], BulkOutcome],
    ) -> None:
        self._prepare()
        rejected: list[RejectedRow] = []
        for part in by_index(records, self.prefix):
            self._require_own(part.index, part.rows.kind)
            with self._lock:
                self._unseen.add(part.index)
            self._allowed()
            outcome = send(part.index, documents(part.rows))
            fault = outcome.fault()
            if fault is not None:
                raise fault
            rejected += outcome.rejected
        if rejected:
            self.rejected.add(rejected)

    def _templates_first(self) -> str:
        if self._manage_templates:
            return ""
        return (
            ". Install lagwatch's templates before that, since manage_templates = false: "
            "`python -m lagwatch.history.elastic` prints them"
        )

    def _create(self, index: str, sent: Iterator[Document]) -> BulkOutcome:
        outcome = self._bulk.create(index, sent)
        outcome.add(self._prefer(index, outcome.there))
        return outcome

    def _prepare(self) -> None:
        """Write the templates, once, before the first index can be made without them."""
        with self._lock:
            if self._manage_templates and not self._ready:
                self._write_templates()
                self._ready = True

    def _write_templates(self) -> None:
        with reported("write the index templates", prefix=self.prefix):
            for name, template in templates(self.prefix).items():
                put_template(self.client, name, template)
            reasons = (overruled(self.client, self.prefix, kind) for kind in Kind)
            if reason := next(filter(None, reasons), ""):
                raise _foreign(reason)

    def _require_own(self, index: str, kind: Kind) -> None:
        """Have an index made by lagwatch's template, now or whenever it was made.

        Somebody may delete templates and indices at any time: Elasticsearch would then make the
        index anew with a mapping that it guesses.
        """
        uuid = uuid_of(self.client, index, prefix=self.prefix)
        with self._lock:
            if uuid is None:
                if self._manage_templates:
                    self._write_templates()
            elif self._made_right.get(index) != uuid:
                if index in foreign_mappings(self.client, kind, prefix=self.prefix, only=index):
                    raise _foreign(f"{index} {NOT_OURS}" + self._templates_first())
                self._made_right[index] = uuid

    def _prefer(self, index: str, there: Sequence[Document]) -> BulkOutcome:
        """Replace stored rows of a worse source that have the keys of these."""
        outcome = BulkOutcome()
        better = {document.id: document for document in there if document.rank < _WORST_RANK}
        if not better:
            return outcome
        self._refresh(index)
        if not self._of_other_sources(index, [EVERYTHING], size=1):
            return outcome
        ids = list(better)
        for first in range(0, len(ids), _IDS_AT_A_TIME):
            some = ids[first : first + _IDS_AT_A_TIME]
            found = self._of_other_sources(index, [{"ids": {"values": some}}], size=len(some))
            worse = [
                (better[hit["_id"]], hit["_seq_no"], hit["_primary_term"])
                for hit in found
                if SOURCE_RANK.get(hit["_source"]["source"], 0) > better[hit["_id"]].rank
            ]
            if worse:
                outcome.add(self._bulk.replace(index, worse))
        return outcome

    def _of_other_sources(
        self, index: str, filters: Sequence[Json], *, size: int
    ) -> Sequence[Json]:
        """Documents of other sources than the live recorder."""
        others = [name for name, rank in SOURCE_RANK.items() if rank]
        answer = self.searcher.search(
            index,
            query={"bool": {"filter": [*filters, {"terms": {"source": others}}]}},
            source=["source"],
            seq_no_primary_term=True,
            size=size,
            track_total_hits=False,
        )
        hits: Sequence[Json] = answer["hits"]["hits"]
        return hits

    def _refresh(self, index: str) -> None:
        with reported(f"refresh {index}", prefix=self.prefix):
            self.client.indices.refresh(index=index, ignore_unavailable=True)

    def _see(self, indices: Sequence[str] | None = None) -> str:
        """Make rows written through this store visible in these indices, or in all of lagwatch's.

        Returns the indices, as a search names them.
        """
        names = indices or [all_indices(self.prefix, kind) for kind in Kind]
        with self._lock:
            unseen = {
                index for index in self._unseen if any(fnmatchcase(index, name) for name in names)
            }
            self._unseen -= unseen
        try:
            while unseen:
                self._refresh(next(iter(unseen)))
                unseen.pop()
        except HistoryError:
            with self._lock:
                self._unseen |= unseen
            raise
        return ",".join(names)

    def see_all(self, wanted: HistoryRange) -> str:
        """The indices of a range as a search names them; what others wrote is visible, too.

        Raises:
            HistoryError: the cluster did not answer.
        """
        names = ",".join(indices_between(self.prefix, wanted.kind, wanted.from_ms, wanted.to_ms))
        self._refresh(names)
        return names

    def _see_range(self, wanted: HistoryRange) -> str:
        """The indices that may hold rows of a range, everything visible in them."""
        return self._see(indices_between(self.prefix, wanted.kind, wanted.from_ms, wanted.to_ms))

    # reading

    def read(self, wanted: HistoryRange) -> Iterator[Records]:
        return self.read_groups(wanted, None, None)

    def read_groups(
        self, wanted: HistoryRange, low: str | None, high: str | None
    ) -> Iterator[Records]:
        columns = wanted.chosen
        for hits in self.searcher.scan(
            self._see_range(wanted),
            {"bool": {"filter": [in_range(wanted), *_groups_between(low, high)]}},
            sort=wanted.kind.time_column,
            columns=fields_of(wanted.kind, columns) if wanted.columns else None,
        ):
            yield rows_of(wanted.kind, [hit["_source"] for hit in hits], columns)

    def aggregate(self, wanted: HistoryRange, step_ms: int) -> Buckets:
        return aggregate(self.searcher, self._see_range(wanted), wanted, step_ms)

    def top(
        self, at_ms: int, *, within_ms: int, by: TopBy, limit: int, cluster: str | None = None
    ) -> Records:
        kind = Kind.GROUP_SAMPLES
        wanted = HistoryRange(
            kind=kind, from_ms=at_ms - within_ms + 1, to_ms=at_ms + 1, cluster=cluster
        )
        last = {"top_hits": {"size": 1, "sort": [{kind.time_column: "desc"}]}}
        found = self.searcher.composite(
            self._see_range(wanted),
            in_range(wanted),
            by={name: {"terms": {"field": name}} for name in ("cluster", "group")},
            aggregations={"last": last},
        )
        sources = [bucket["last"]["hits"]["hits"][0]["_source"] for bucket in found]
        return ranked(rows_of(kind, sources, tuple(schema(kind))), by=by, limit=limit)

    # what there is

    def clusters(self) -> tuple[str, ...]:
        self._see()
        found = {
            bucket["key"]["cluster"]
            for kind in Kind
            for bucket in self.searcher.composite(
                all_indices(self.prefix, kind),
                EVERYTHING,
                by={"cluster": {"terms": {"field": "cluster"}}},
                aggregations={},
            )
        }
        return tuple(sorted(found))

    def has(self, kind: Kind) -> bool:
        held = holdings(self.client, kind, prefix=self.prefix)
        return any(index.rows for index in held.values())

    def days(self, kind: Kind, cluster: str) -> tuple[str, ...]:
        return tuple(self.rows_by_day(kind, cluster))

    def rows_by_day(self, kind: Kind, cluster: str) -> Mapping[str, int]:
        """How many rows each day has, in order; days without rows are left out.

        Raises:
            HistoryError: the cluster did not answer.
        """
        self._see()
        by_day = {"date_histogram": {"field": kind.time_column, "fixed_interval": _DAY}}
        found = self.searcher.composite(
            all_indices(self.prefix, kind),
            {"term": {"cluster": cluster}},
            by={"day": by_day},
            aggregations={},
        )
        return {day_of(bucket["key"]["day"]): bucket["doc_count"] for bucket in found}

    def stats(self) -> tuple[StoredKind, ...]:
        self._see()
        stored = [entry for kind in Kind for entry in self._stored(kind)]
        return tuple(
            sorted(stored, key=lambda entry: (entry.cluster, list(Kind).index(entry.kind)))
        )

    def _stored(self, kind: Kind) -> Iterator[StoredKind]:
        indices = holdings(self.client, kind, prefix=self.prefix)
        time = {"field": kind.time_column}
        found = self.searcher.composite(
            all_indices(self.prefix, kind),
            EVERYTHING,
            by={"cluster": {"terms": {"field": "cluster"}}},
            aggregations={
                "first": {"min": time},
                "last": {"max": time},
                "indices": {"terms": {"field": "_index", "size": max(1, len(indices))}},
            },
        )
        for bucket in found:
            held = {index["key"]: index["doc_count"] for index in bucket["indices"]["buckets"]}
            yield StoredKind(
                kind=kind,
                cluster=bucket["key"]["cluster"],
                rows=bucket["doc_count"],
                # an index holds several clusters: each has its share of the bytes
                size_bytes=sum(
                    indices[name].size_bytes * rows // max(rows, indices[name].rows)
                    for name, rows in held.items()
                    if name in indices
                ),
                parts=len(held),
                first_ms=_instant(bucket["first"]),
                last_ms=_instant(bucket["last"]),
            )

    def verify(self, progress: ReportProgress | None = None) -> Verification:
        return verify(self.searcher, self.client, prefix=self.prefix, progress=progress)

    def delete_before(self, kind: Kind, day: str) -> int:
        """Delete the indices all of whose days are before `day`.

        Indices of hours hold a month and those of days a year, and go as a whole.
        """
        day_start_ms(day)
        self._see()
        held = holdings(self.client, kind, prefix=self.prefix)
        old = [
            name
            for name in sorted(held)
            if (last := last_day(self.prefix, kind, name)) is not None and last < day
        ]
        for name in old:
            with reported(f"delete {name}", prefix=self.prefix):
                self.client.indices.delete(index=name, ignore_unavailable=True)
        return sum(held[name].rows for name in old)

    def tidy(self, now_ms: int) -> None:
        """Do nothing: Elasticsearch merges by itself."""

    def compact(self, progress: ReportProgress | None = None) -> None:
        """Do nothing: Elasticsearch merges by itself."""

    def close(self) -> None:
        self._bulk.close()
        self.client.close()


def _groups_between(low: str | None, high: str | None) -> Iterator[Json]:
    """Filters for groups in a range of names.

    Names too long to be indexed sort before all others.
    """
    if low is not None:
        yield {"range": {"group": {"gte": low}}}
    if high is not None:
        yield {"bool": {"must_not": {"range": {"group": {"gte": high}}}}}


def _instant(aggregation: Json) -> int | None:
    value = aggregation["value"]
    return None if value is None else int(value)


def _foreign(reason: str) -> HistoryError:
    message = f"Elasticsearch: {reason}."
    # the rows wait in the spool
    return HistoryError(store=STORE, kind="schema", message=message, retryable=True)

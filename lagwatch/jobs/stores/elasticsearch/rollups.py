"""Questions of the roll-ups to Elasticsearch, other than for rows.

A mark has the number of documents of each five minutes, by source, and as `made` that of roll-ups,
by day.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lagwatch.config.history import HistorySettings
from lagwatch.core.record import RAW, Kind
from lagwatch.core.record.columns import ROLLUP_STEP_MS
from lagwatch.history.elastic import ElasticStore, RejectedRows
from lagwatch.history.elastic.indices import all_indices, indices_between
from lagwatch.history.elastic.search import in_range
from lagwatch.history.layout import DAY_MS, day_start_ms
from lagwatch.jobs.stores.base import Made, Making, Mark, RawRows, StartSpark, Weighed
from lagwatch.jobs.units import Range, union
from lagwatch.ports.history import EVER_MS, Compacted, HistoryRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STEP: Final = "5m"
_STEP_MS: Final = ROLLUP_STEP_MS[Kind.ROLLUP_5M]

_Counts = Mapping[str, Mapping[str, int]]
"""First instant of every five minutes → source → rows."""


class ElasticRollups:
    """The `Rollups` of indices."""

    def __init__(self, settings: HistorySettings) -> None:
        """Sends nothing yet."""
        self._settings = settings
        rejected = RejectedRows(settings.spool / "rejected")
        self._store = ElasticStore(settings.elasticsearch, rejected)

    @property
    def set_aside(self) -> Sequence[str]:
        return self._store.set_aside

    def clusters(self) -> Sequence[str]:
        for kind in RAW:
            self._refresh(kind)  # what was written a moment ago counts, too
        return self._store.clusters()

    def look(self, cluster: str, mark: Mark) -> RawRows:
        known: Mapping[str, Mapping[str, Any]] = mark.get("counts", {})
        counts: dict[str, _Counts] = {}
        held: list[Range] = []
        changed: list[Range] = []
        for kind in RAW:
            before = known.get(kind.value, {})
            now = counts[kind.value] = self._bucket_counts(kind, cluster)
            buckets = [(int(begin), int(begin) + _STEP_MS) for begin in now]
            if kind is not Kind.EVENTS:
                held += buckets
            changed += [
                bucket for bucket in buckets if before.get(str(bucket[0])) != now[str(bucket[0])]
            ]
        lost = tuple(self._lost(cluster, mark.get("made", {})))
        return RawRows(held=union(held), changed=union(changed), lost=lost, mark={"counts": counts})

    def made(self, cluster: str) -> Mark:
        days = {day for kind in RAW for day in self._store.days(kind, cluster)}
        return {
            kind.value: {
                day: rows
                for day, rows in self._store.rows_by_day(kind, cluster).items()
                if day in days
            }
            for kind in ROLLUP_STEP_MS
        }

    def _lost(
        self, cluster: str, before: Mapping[str, Mapping[str, int]]
    ) -> Iterator[tuple[Kind, Range]]:
        for name, counts in before.items():
            kind = Kind(name)
            now = self._store.rows_by_day(kind, cluster) if counts else {}
            for day, rows in counts.items():
                if now.get(day, 0) < rows:
                    yield kind, (day_start_ms(day), day_start_ms(day) + DAY_MS)

    def unreadable(self, cluster: str, before_ms: int) -> Sequence[Range]:  # noqa: ARG002 no part is
        return ()

    def weigh(
        self,
        kind: Kind,
        cluster: str,
        pieces: Sequence[Range],
        *,
        step_ms: int,  # noqa: ARG002 pieces are small enough
        most: int,
    ) -> Iterator[Weighed]:
        for first, last in pieces:
            wanted = HistoryRange(kind=kind, cluster=cluster, from_ms=first, to_ms=last)
            yield first, last, self._rows_by_group(wanted, above=most)

    def replace(self, spark: "SparkSession", making: Making) -> Made:  # noqa: ARG002
        # these need pyspark
        from lagwatch.jobs.sources.elastic import Replacing  # noqa: PLC0415
        from lagwatch.jobs.stores.making import as_outcomes, summed  # noqa: PLC0415
        from lagwatch.jobs.unit_frames import UNIT_TYPE  # noqa: PLC0415

        kind = making.kind
        replaced = sum(
            self._held(kind, cluster, span)
            for cluster, ranges in making.ranges.items()
            for span in ranges
        )
        sink = Replacing(settings=self._settings, kind=kind, batch="replace", fence=making.fence)
        outcomes = making.units.transform(as_outcomes(making.make, UNIT_TYPE, sink))
        written, problems = summed(outcomes.collect())
        self._refresh(kind)
        return Made(written=written, replaced=replaced, problems=problems)

    def compact(
        self,
        start_spark: StartSpark,  # noqa: ARG002 Elasticsearch merges by itself
        clusters: Sequence[str],  # noqa: ARG002
        before_ms: int,  # noqa: ARG002
    ) -> Compacted:
        return Compacted()

    def close(self) -> None:
        self._store.close()

    def _refresh(self, kind: Kind) -> None:
        """Make what others wrote visible."""
        self._store.see_all(HistoryRange(kind=kind, from_ms=0, to_ms=EVER_MS))

    def _held(self, kind: Kind, cluster: str, between: Range) -> int:
        """Rows of a range; what was written a moment ago may not count yet."""
        wanted = HistoryRange(kind=kind, cluster=cluster, from_ms=between[0], to_ms=between[1])
        names = indices_between(self._store.prefix, kind, wanted.from_ms, wanted.to_ms)
        return self._store.searcher.count(",".join(names), in_range(wanted))

    def _rows_by_group(self, wanted: HistoryRange, *, above: int) -> Sequence[tuple[str, int]]:
        """Groups with their rows; () where all together have no more than so many."""
        store = self._store
        names = indices_between(store.prefix, wanted.kind, wanted.from_ms, wanted.to_ms)
        index, query = ",".join(names), in_range(wanted)
        if store.searcher.count(index, query) <= above:
            return ()
        found = store.searcher.composite(
            index, query, by={"group": {"terms": {"field": "group"}}}, aggregations={}
        )
        return [(entry["key"]["group"], entry["doc_count"]) for entry in found]

    def _bucket_counts(self, kind: Kind, cluster: str) -> _Counts:
        """Of the rows that are visible."""
        wanted = HistoryRange(kind=kind, cluster=cluster, from_ms=0, to_ms=EVER_MS)
        bucket = {"date_histogram": {"field": kind.time_column, "fixed_interval": _STEP}}
        counts: dict[str, dict[str, int]] = {}
        for entry in self._store.searcher.composite(
            all_indices(self._store.prefix, kind),
            in_range(wanted),
            by={"bucket": bucket, "source": {"terms": {"field": "source"}}},
            aggregations={},
        ):
            key = entry["key"]
            counts.setdefault(str(key["bucket"]), {})[key["source"]] = entry["doc_count"]
        return counts

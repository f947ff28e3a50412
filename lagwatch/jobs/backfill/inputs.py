"""Where commits and log ends of the past come from: Kafka itself, or copies in Parquet files."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from lagwatch.config import ClusterSettings
from lagwatch.history.layout import HOUR_MS
from lagwatch.jobs.sources import log_ends as log_ends_source
from lagwatch.jobs.sources import offsets as offsets_source
from lagwatch.jobs.sources.options import cluster_options
from lagwatch.kafka.held_back import held_back
from lagwatch.kafka.log_end_grid import visible_topics
from lagwatch.ports.history import EVER_MS

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A record that could not be decoded."""

    offsets_partition: int
    order: int
    fault: str
    key: bytes | None
    value: bytes | None

    def sentence(self) -> str:
        """Describe the record, with its bytes."""
        key, value = (_hex(part) for part in (self.key, self.value))
        return (
            f"record {self.order} of partition {self.offsets_partition} of the offsets topic: "
            f"{self.fault}; key {key}, value {value}"
        )

    def plain(self) -> dict[str, int | str | None]:
        """For JSON; bytes in hexadecimal."""
        return {
            "offsets_partition": self.offsets_partition,
            "order": self.order,
            "fault": self.fault,
            "key": None if self.key is None else self.key.hex(),
            "value": None if self.value is None else self.value.hex(),
        }


class Input(Protocol):
    """One cluster's past."""

    def offsets(self, spark: SparkSession, *, from_ms: int, to_ms: int) -> DataFrame:
        """Rows of the offsets topic, with the columns of `lagwatch.offsets`."""
        ...

    def refused(
        self, spark: SparkSession, *, from_ms: int, to_ms: int, most: int
    ) -> Sequence[Refused]:
        """Some of the records that could not be decoded, with their bytes."""
        ...

    def log_ends(self, spark: SparkSession, at_ms: Int64, topics: Sequence[str]) -> DataFrame:
        """Log ends with the columns of `lagwatch.logends`, at these instants at least."""
        ...

    def unseen(self, topics: Sequence[str]) -> Sequence[str]:
        """Why log ends of some topics are not available, one sentence each."""
        ...

    def held_back(self) -> Mapping[int, int]:
        """Partition of the offsets topic → time (epoch ms) from which its commits are not known.

        Of partitions with an open transaction.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaInput:
    """A running cluster."""

    cluster: str
    settings: ClusterSettings

    def offsets(self, spark: SparkSession, *, from_ms: int, to_ms: int) -> DataFrame:
        return self._offsets(spark, from_ms, to_ms)

    def refused(
        self, spark: SparkSession, *, from_ms: int, to_ms: int, most: int
    ) -> Sequence[Refused]:
        return refused_of(self._offsets(spark, from_ms, to_ms, quarantine="true"), most)

    def _offsets(self, spark: SparkSession, from_ms: int, to_ms: int, **further: str) -> DataFrame:
        options = cluster_options(self.cluster, self.settings) | further
        times = {"from_ms": str(from_ms), "to_ms": str(to_ms)}
        return spark.read.format(offsets_source.NAME).options(**options, **times).load()

    def log_ends(self, spark: SparkSession, at_ms: Int64, topics: Sequence[str]) -> DataFrame:
        options = cluster_options(self.cluster, self.settings)
        wanted = {"instants": json.dumps(at_ms.tolist()), "topics": json.dumps(sorted(topics))}
        return spark.read.format(log_ends_source.NAME).options(**options, **wanted).load()

    def unseen(self, topics: Sequence[str]) -> Sequence[str]:
        return visible_topics(self.cluster, self.settings, topics).sentences()

    def held_back(self) -> Mapping[int, int]:
        return held_back(self.cluster, self.settings)


def refused_of(quarantine: DataFrame, most: int) -> list[Refused]:
    """The first few refused records."""
    rows = (
        quarantine.select("offsets_partition", "order", "fault", "key", "value")
        .limit(most)
        .collect()
    )
    return [
        Refused(
            offsets_partition=row["offsets_partition"],
            order=row["order"],
            fault=row["fault"],
            key=None if row["key"] is None else bytes(row["key"]),
            value=None if row["value"] is None else bytes(row["value"]),
        )
        for row in rows
    ]


_SHOWN_BYTES: Final = 64


def _hex(value: bytes | None) -> str:
    if value is None:
        return "null"
    more = "…" if len(value) > _SHOWN_BYTES else ""
    return f"0x{value[:_SHOWN_BYTES].hex()}{more}"


_LATE: Final = 1.5
"""Rounds further apart than this many intervals have a gap between them, as for `history.gaps`."""
_OUTAGE_ENDS: Final = frozenset({"resumed", "started", "stopped"})
_SPACING: Final = 16
"""Before a gap log ends may be apart by their age divided by this, as in `core.log_end`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A time to fill: `from_ms` <= instant < `to_ms`."""

    from_ms: int
    to_ms: int

    @property
    def seconds(self) -> float:
        return (self.to_ms - self.from_ms) / 1000


def find_gaps(
    rounds_ms: Int64, interval_ms: Int64, *, since_ms: int, until_ms: int, step_ms: int
) -> tuple[Gap, ...]:
    """The times of a range in which there were no rounds, in order.

    `rounds_ms` are the instants of the rounds there were, rising, also those a little before and
    after the range; `interval_ms` is the interval in force at each. What is filled is on the grid
    of `step_ms`.
    """
    late = np.flatnonzero(np.diff(rounds_ms) > interval_ms[:-1] * _LATE)
    begins, ends = rounds_ms[late] + interval_ms[late], rounds_ms[late + 1]
    if rounds_ms.size:
        begins = np.concatenate([[since_ms], begins, [rounds_ms[-1] + interval_ms[-1]]])
        ends = np.concatenate([[rounds_ms[0]], ends, [until_ms]])
    else:
        begins, ends = np.array([since_ms]), np.array([until_ms])
    begins = -(-np.maximum(begins, since_ms) // step_ms) * step_ms
    ends = np.minimum(ends, until_ms)
    pairs = zip(begins.tolist(), ends.tolist(), strict=True)
    return tuple(Gap(from_ms=begin, to_ms=end) for begin, end in pairs if begin < end)


def outages(words: Iterable[tuple[int, str]]) -> Iterator[Gap]:
    """Times in which a service ran and got no answers of Kafka, of its events `recording`.

    They are pairs of instant and word. A time in which it did not run is none: the word `stopped`
    ends an outage as `resumed` does.
    """
    begun_ms: int | None = None
    for at_ms, word in sorted(words):
        if word == "dropped" and begun_ms is None:
            begun_ms = at_ms
        elif word in _OUTAGE_ENDS and begun_ms is not None:
            yield Gap(from_ms=begun_ms, to_ms=at_ms)
            begun_ms = None
    if begun_ms is not None:
        yield Gap(from_ms=begun_ms, to_ms=EVER_MS)


def gaps_without(gaps: Sequence[Gap], left_out: Iterable[Gap], *, step_ms: int) -> tuple[Gap, ...]:
    """What of the gaps is in none of the other times, which are in order and apart."""
    kept = list(gaps)
    for out in left_out:
        after_ms = _ceil(out.to_ms, step_ms)
        parts = [
            part
            for gap in kept
            for part in (
                Gap(from_ms=gap.from_ms, to_ms=min(gap.to_ms, out.from_ms)),
                Gap(from_ms=max(gap.from_ms, after_ms), to_ms=gap.to_ms),
            )
        ]
        kept = [part for part in parts if part.from_ms < part.to_ms]
    return tuple(kept)


def sample_instants(gaps: Sequence[Gap], step_ms: int) -> Int64:
    """The instants of the samples: multiples of the interval, rising."""
    parts = [np.arange(_ceil(gap.from_ms, step_ms), gap.to_ms, step_ms) for gap in gaps]
    return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)


def judged_instants(gaps: Sequence[Gap], step_ms: int, *, begin_ms: int) -> Int64:
    """The instants of the samples that can have rows: `begin_ms` is the oldest commit.

    From the hour before that commit's hour on: the first round with commits is compared with the
    rounds before it. Hours are whole, because parts are hours and are known by their first round.
    """
    at_ms = sample_instants(gaps, step_ms)
    return at_ms[at_ms >= begin_ms // HOUR_MS * HOUR_MS - HOUR_MS]


def gaps_before(gaps: Sequence[Gap], end_ms: int) -> tuple[Gap, ...]:
    """What of the gaps is before an instant."""
    return tuple(
        Gap(from_ms=gap.from_ms, to_ms=min(gap.to_ms, end_ms))
        for gap in gaps
        if gap.from_ms < end_ms
    )


def log_end_instants(
    gaps: Sequence[Gap], step_ms: int, *, history_ms: int, begin_ms: int = 0
) -> Int64:
    """Instants at which log ends are needed, rising.

    None older than the history that the oldest commit, of `begin_ms`, needs: of a week in which
    groups committed for an hour a day of log ends is enough.

    Every sample of a gap, and instants before the gap at growing distances.

    So a window that was filled before the gap has its lags, and time lags reach back as far as in
    a service that ran all the time.
    """
    lead = _lead(step_ms, history_ms)
    parts = [sample_instants(gaps, step_ms)]
    covered_ms = -1
    for gap in gaps:
        before = _ceil(gap.from_ms, step_ms) - lead
        parts.append(before[before >= max(covered_ms, 0)])
        covered_ms = gap.to_ms
    at_ms = np.unique(np.concatenate(parts)).astype(np.int64)
    return at_ms[at_ms >= begin_ms - history_ms]


def _lead(step_ms: int, history_ms: int) -> Int64:
    """Ages before a gap, from one interval up to the whole history."""
    ages = [step_ms]
    while ages[-1] < history_ms:
        further = max(step_ms, ages[-1] // _SPACING // step_ms * step_ms)
        ages.append(ages[-1] + further)
    return np.array(ages, np.int64)


def _ceil(at_ms: int, step_ms: int) -> int:
    return -(-at_ms // step_ms) * step_ms

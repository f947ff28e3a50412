"""Where commits and log ends of the past come from: Kafka itself, or copies in Parquet files."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from lagwatch.config import ClusterSettings
from lagwatch.jobs.sources import log_ends as log_ends_source
from lagwatch.jobs.sources import offsets as offsets_source
from lagwatch.jobs.sources.options import cluster_options
from lagwatch.kafka.log_end_grid import visible_topics

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
        """What it is, with its bytes."""
        key, value = (_hex(one) for one in (self.key, self.value))
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
        """What the offsets topic says, with the columns of `lagwatch.offsets`."""
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
        """Why log ends of some topics cannot be had, a sentence each."""
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


def refused_of(quarantine: DataFrame, most: int) -> list[Refused]:
    """The first of them."""
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

"""`lagwatch.logends`: where the log of every partition ended at each instant of a grid.

Options: `cluster`, `settings.secret` (its section as JSON), `from_ms`, `to_ms`, `step_ms`, or
instead of these three `instants` (a JSON list, rising), `topics` (a JSON list; otherwise all that
are visible and that the cluster's filters keep), `cells_per_task`.

Columns: `at_ms` is a multiple of the step, or one of the instants; `log_end` the offset of the
first record that is not older, null when the records of that time are deleted or compaction has
made the broker's time index unusable; `log_start` is 0 where nothing has been deleted to this day,
otherwise null: what had been deleted by then is not known; `method` says how the log end is known,
or which of the two it is. Topics that are hidden or deleted have no rows:
`lagwatch.kafka.log_end_grid.visible_topics` returns which, and why.
"""

import json
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import types as T
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from lagwatch.config import ClusterSettings
from lagwatch.core.model import UNKNOWN
from lagwatch.jobs.schemas import BATCH_ROWS
from lagwatch.jobs.sources.options import (
    batch_of,
    cluster_of,
    known,
    number,
    required,
    unusable,
    words,
)
from lagwatch.kafka.log_end_grid import LogEndGrid, LogEndMethod, log_ends_at, visible_topics
from lagwatch.kafka.offsets_at import Place
from lagwatch.pollers.filters import Filters

NAME: Final = "lagwatch.logends"
SCHEMA: Final = T.StructType(
    [
        T.StructField("cluster", T.StringType()),
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("at_ms", T.LongType()),
        T.StructField("log_end", T.LongType()),
        T.StructField("log_start", T.LongType()),
        T.StructField("method", T.StringType()),
    ]
)
_CELLS_PER_TASK: Final = 500_000
_METHODS: Final = tuple(LogEndMethod)


class LogEndsSource(DataSource):
    """The data source."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> T.StructType:
        return SCHEMA

    def reader(self, schema: T.StructType) -> DataSourceReader:  # noqa: ARG002 always ours
        return LogEndsReader(self.options)


@dataclass(frozen=True)
class _Part(InputPartition):
    places: tuple[Place, ...]


class LogEndsReader(DataSourceReader):
    """Asks for some partitions in each task."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._cluster, self._settings = cluster_of(options)
        self._at_ms = _grid(options)
        self._topics: list[str] | None = (
            json.loads(options["topics"]) if "topics" in options else None
        )
        self._cells = max(1, number(options, "cells_per_task", _CELLS_PER_TASK))

    def partitions(self) -> Sequence[InputPartition]:
        if self._at_ms.size == 0:
            return []
        places = self._places()
        most = max(1, self._cells // self._at_ms.size)
        return [_Part(tuple(places[first : first + most])) for first in range(0, len(places), most)]

    def _places(self) -> list[Place]:
        there = visible_topics(self._cluster, self._settings, ()).partitions
        if self._topics is None:
            keep = Filters(self._settings).topic
            names = [name for name in there if keep(name)]
        else:
            names = [name for name in self._topics if name in there]
        return [(name, number) for name in sorted(set(names)) for number in range(there[name])]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, _Part):
            return
        yield from log_end_batches(self._cluster, self._settings, partition.places, self._at_ms)


def log_end_batches(
    cluster: str, settings: ClusterSettings, places: Sequence[Place], at_ms: NDArray[np.int64]
) -> Iterator[pa.RecordBatch]:
    """Batches of `SCHEMA` for these partitions; those that are gone have no rows.

    Raises:
        SourceError: a partition got no answer.
    """
    grid = log_ends_at(cluster, settings, places, at_ms)
    at_once = max(1, BATCH_ROWS // at_ms.size)
    there = np.flatnonzero(~grid.gone)
    for first in range(0, there.size, at_once):
        yield _batch(cluster, places, at_ms, grid, there[first : first + at_once])


def _batch(
    cluster: str,
    places: Sequence[Place],
    at_ms: NDArray[np.int64],
    grid: LogEndGrid,
    rows: NDArray[np.int64],
) -> pa.RecordBatch:
    size = at_ms.size
    of_place = np.repeat(np.arange(rows.size, dtype=np.int32), size)
    some = [places[row] for row in rows.tolist()]
    log_end = grid.log_end[rows].ravel()
    method = np.where(grid.after_newest[rows].ravel(), 1, 0)
    method[log_end < 0] = _METHODS.index(LogEndMethod.RETENTION)
    method[grid.compacted[rows].ravel()] = _METHODS.index(LogEndMethod.COMPACTION)
    # of a later deletion the messages were there at the time
    log_start = np.repeat(np.where(grid.log_start[rows] == 0, 0, UNKNOWN), size)
    return batch_of(
        SCHEMA,
        {
            "cluster": pa.repeat(pa.scalar(cluster), of_place.size),
            "topic": words(of_place, [topic for topic, _ in some]),
            "partition": np.array([number for _, number in some], np.int32)[of_place],
            "at_ms": np.tile(at_ms, rows.size),
            "log_end": known(log_end, log_end < 0),
            "log_start": known(log_start, log_start < 0),
            "method": words(method.astype(np.int32), [each.value for each in _METHODS]),
        },
    )


def _grid(options: MutableMapping[str, str]) -> NDArray[np.int64]:
    if "instants" in options:
        return np.array(json.loads(options["instants"]), np.int64)
    required(options, "from_ms")
    required(options, "to_ms")
    first, last = number(options, "from_ms", 0), number(options, "to_ms", 0)
    step = number(options, "step_ms", 60_000)
    if step < 1:
        raise unusable(f"option 'step_ms' = {step}: write at least 1")
    return np.arange(-(-first // step) * step, last, step, dtype=np.int64)

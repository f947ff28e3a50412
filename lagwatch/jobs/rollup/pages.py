"""Rows of history as pages: some thousands of them in one value of a DataFrame.

Roll-ups are made and written by numpy and Arrow; on the way from one to the other Spark would take
them apart into rows and values, which takes more time than all the rest.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from lagwatch.core.record import Kind, Records
from lagwatch.history.arrow import from_stream, to_stream
from lagwatch.jobs.schemas import struct_type, to_batches
from lagwatch.jobs.sources.arrow import batch_of

PAGE_TYPE: Final = T.StructType(
    [
        T.StructField("rows", T.LongType()),
        T.StructField("page", T.BinaryType()),
        T.StructField("problem", T.StringType()),
    ]
)
"""`page` is an Arrow stream; null where `problem` says what was set aside meanwhile."""

_ROWS: Final = 50_000


def pages_of(rows: Records) -> Iterator[Any]:
    """Rows as batches of one page each."""
    for first in range(0, rows.size, _ROWS):
        some = rows.take(np.arange(first, min(first + _ROWS, rows.size)))
        columns = {"rows": [some.size], "page": [to_stream(some)], "problem": [None]}
        yield batch_of(PAGE_TYPE, columns)


def problems_of(problems: Iterator[str]) -> Iterator[Any]:
    """What was set aside."""
    for problem in problems:
        yield batch_of(PAGE_TYPE, {"rows": [0], "page": [None], "problem": [problem]})


def tables_of(batches: Iterator[Any], problems: list[str]) -> Iterator[Any]:
    """Pages as Arrow tables; what was set aside is added to `problems`."""
    for batch in batches:
        problems += [one for one in batch.column("problem").to_pylist() if one is not None]
        for page in batch.column("page"):
            if page.is_valid:
                with pa.ipc.open_stream(page.as_buffer()) as reader:
                    yield reader.read_all()


def unpacked(kind: Kind) -> Any:  # noqa: ANN401 a transform
    """Pages to the rows of a kind that are in them."""

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for page in batch.column("page"):
                if page.is_valid:
                    yield from to_batches(from_stream(kind, page.as_py()))

    def transform(pages: DataFrame) -> DataFrame:
        target = struct_type(kind)
        return pages.select(*PAGE_TYPE.names).mapInArrow(task, target).select(*target.names)

    return transform

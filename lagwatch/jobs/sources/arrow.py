"""Batches as Spark takes them: plain types, every column nullable."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

Column = Any
"""A list of values, None for null; or whatever `pyarrow.array` takes."""

_UTC: Final = "UTC"


def arrow_of(schema: T.StructType) -> Any:  # noqa: ANN401
    """The Arrow schema that Spark expects of a source with this schema."""
    return to_arrow_schema(schema, timezone=_UTC)


def batch_of(schema: T.StructType, columns: Mapping[str, Column]) -> pa.RecordBatch:
    """One batch of these columns, in the order of the schema."""
    target = arrow_of(schema)
    arrays = [
        column
        if isinstance(column := columns[field.name], pa.Array)
        else pa.array(column, field.type)
        for field in target
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def words(codes: NDArray[np.int32], dictionary: Sequence[str]) -> pa.Array:
    """Words by their position in a dictionary."""
    return pa.array(dictionary, pa.string()).take(pa.array(codes))


def known(values: NDArray[np.int64] | NDArray[np.int32], mask: NDArray[np.bool_]) -> pa.Array:
    """Numbers, null where `mask` is set."""
    return pa.array(values, mask=mask) if mask.any() else pa.array(values)

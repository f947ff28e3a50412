"""Spark's view of the history rows: schemas from `core.record`, Arrow batches to and from rows."""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lagwatch.core.record import ColumnType, Kind, Records, schema
from lagwatch.history.arrow import arrow_schema, from_table, to_table

if TYPE_CHECKING:  # the stores' job sides import this, and a run with nothing to do needs no Spark
    from pyspark.sql import types as T

BATCH_ROWS: Final = 65_536
"""Rows of one Arrow batch on its way between Spark and Python."""


@cache
def struct_type(kind: Kind) -> "T.StructType":
    """The columns of a kind in their order; all nullable, as Parquet files are read."""
    from pyspark.sql import types as T  # noqa: PLC0415 only where Spark runs

    types = {
        ColumnType.TEXT: T.StringType(),
        ColumnType.INT32: T.IntegerType(),
        ColumnType.INT64: T.LongType(),
        ColumnType.INSTANT: T.LongType(),
        ColumnType.FLOAT64: T.DoubleType(),
        ColumnType.BINARY: T.BinaryType(),
    }
    fields = [T.StructField(name, types[column.type]) for name, column in schema(kind).items()]
    return T.StructType(fields)


def column_names(kind: Kind) -> tuple[str, ...]:
    """Column names, for the `select` at both ends of a transform."""
    return tuple(schema(kind))


def to_batches(records: Records) -> Iterator[Any]:
    """Rows as `pyarrow.RecordBatch`es of plain types, as Spark takes them; none for no rows."""
    if records.size == 0:
        return
    target = arrow_schema(records.kind, columns=tuple(records.columns))
    plain = pa.schema([pa.field(field.name, field.type) for field in target])
    yield from to_table(records).cast(plain).to_batches(max_chunksize=BATCH_ROWS)


def from_batch(kind: Kind, batch: Any) -> Records:  # noqa: ANN401
    """The inverse: the columns that the batch has, in the order of the schema."""
    table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
    held = set(table.column_names)
    return from_table(kind, table, [name for name in schema(kind) if name in held])

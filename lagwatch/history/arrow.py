"""Between history rows and Arrow: schemas, batches, the IPC stream."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lagwatch.core.model import UNKNOWN
from lagwatch.core.record import Column, ColumnType, Kind, Records, Text, Values, schema

# pyarrow's own pool keeps what a batch needed; the C library's gives it back (`lagwatch.memory`)
pa.set_memory_pool(pa.system_memory_pool())

_PLAIN: Final[Mapping[ColumnType, Any]] = {
    ColumnType.TEXT: pa.string(),
    ColumnType.INT32: pa.int32(),
    ColumnType.INT64: pa.int64(),
    ColumnType.INSTANT: pa.int64(),
    ColumnType.FLOAT64: pa.float64(),
    ColumnType.BINARY: pa.binary(),
}
_SPARSE: Final = 2
"""A dictionary this many times longer than its column is reduced to the words in use."""


def arrow_schema(kind: Kind, *, columns: Sequence[str] | None = None) -> Any:  # noqa: ANN401
    """The Arrow schema of a kind as it is stored: plain strings, `int64` instants."""
    known = schema(kind)
    return pa.schema([arrow_field(known[name]) for name in (known if columns is None else columns)])


def arrow_field(column: Column) -> Any:  # noqa: ANN401
    """One column as an Arrow field."""
    return pa.field(column.name, _PLAIN[column.type], nullable=column.nullable)


def to_table(records: Records) -> Any:  # noqa: ANN401
    """A `pyarrow.Table`; text comes as dictionaries, what is unknown as null."""
    return columns_to_table(records.columns)


def columns_to_table(columns: Mapping[str, Values]) -> Any:  # noqa: ANN401
    """The same for any named columns."""
    return pa.table({name: _to_array(values) for name, values in columns.items()})


def _to_array(values: Values) -> Any:  # noqa: ANN401
    if isinstance(values, Text):
        return _text_array(values)
    if values.dtype.kind == "f":
        return pa.array(values, from_pandas=True)  # NaN becomes null
    if values.dtype.kind == "i":
        unknown = values < 0
        return pa.array(values, mask=unknown) if unknown.any() else pa.array(values)
    return pa.array(values.tolist(), pa.binary())


def _text_array(text: Text) -> Any:  # noqa: ANN401
    if len(text.words) > _SPARSE * text.size:
        used, codes = np.unique(text.codes, return_inverse=True)
        known = used[used >= 0].tolist()
        shift = used.size - len(known)
        text = Text((codes - shift).astype(np.int32), tuple(text.words[code] for code in known))
    unknown = text.codes < 0
    codes = pa.array(text.codes, mask=unknown) if unknown.any() else pa.array(text.codes)
    return pa.DictionaryArray.from_arrays(codes, pa.array(_unicode(text.words), pa.string()))


def _unicode(words: Iterable[str]) -> list[str]:
    """Words as UTF-8 can hold them: a lone surrogate becomes U+FFFD."""
    return [word.encode("utf-8", "replace").decode() for word in words]


def from_table(kind: Kind, table: Any, columns: Sequence[str]) -> Records:  # noqa: ANN401
    """Rows from Arrow; a column that the table lacks is unknown in every row."""
    known = schema(kind)
    held = set(table.column_names)
    return Records(
        kind=kind,
        columns={
            name: _from_array(table.column(name), known[name].type)
            if name in held
            else unknown_column(known[name].type, table.num_rows)
            for name in columns
        },
    )


def unknown_column(kind: ColumnType, size: int) -> Values:
    """A column of unknown values."""
    match kind:
        case ColumnType.TEXT:
            return Text.same(None, size)
        case ColumnType.BINARY:
            return np.full(size, None, np.object_)
        case ColumnType.FLOAT64:
            return np.full(size, np.nan)
        case ColumnType.INT32:
            return np.full(size, UNKNOWN, np.int32)
        case _:
            return np.full(size, UNKNOWN, np.int64)


def _from_array(column: Any, kind: ColumnType) -> Values:  # noqa: ANN401
    match kind:
        case ColumnType.TEXT:
            return _from_text(column)
        case ColumnType.BINARY:
            objects = np.empty(len(column), np.object_)
            objects[:] = column.to_pylist()
            return objects
        case ColumnType.FLOAT64:
            reals: Values = _flat(column.cast(pa.float64())).to_numpy(zero_copy_only=False)
            return reals
        case _:
            flat = _flat(column.cast(_PLAIN[kind]))
            if flat.null_count:
                flat = flat.fill_null(UNKNOWN)
            numbers: Values = flat.to_numpy(zero_copy_only=False)
            return numbers


def _from_text(column: Any) -> Text:  # noqa: ANN401
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries()
    flat = _flat(column)
    codes = flat.indices
    if codes.null_count:
        codes = codes.fill_null(UNKNOWN)
    numbers = codes.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    return Text(numbers, tuple(flat.dictionary.to_pylist()))


def _flat(column: Any) -> Any:  # noqa: ANN401
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def to_stream(records: Records) -> bytes:
    """An Arrow IPC stream, compressed, with all columns."""
    table = to_table(records)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream


def from_stream(kind: Kind, data: bytes | memoryview) -> Records:
    """The inverse of `to_stream`.

    Raises:
        ValueError: the bytes are no Arrow stream.
    """
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        table = reader.read_all()
    return from_table(kind, table, tuple(schema(kind)))


def plain_stream(columns: Mapping[str, Values]) -> bytes:
    """An Arrow IPC stream for others: plain strings, not compressed."""
    table = columns_to_table(columns)
    fields = [
        pa.field(field.name, pa.string() if pa.types.is_dictionary(field.type) else field.type)
        for field in table.schema
    ]
    table = table.cast(pa.schema(fields))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream


__all__ = [
    "arrow_field",
    "arrow_schema",
    "columns_to_table",
    "from_stream",
    "from_table",
    "plain_stream",
    "to_stream",
    "to_table",
    "unknown_column",
]

"""Rows as JSON documents and back: one field per column; unknown values have no field."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import orjson

from lagwatch.core.record import ColumnType, Kind, Records, Text, concat, record_ids, schema
from lagwatch.core.record.records import Value, from_rows, plain_values
from lagwatch.errors import HistoryError
from lagwatch.history.elastic.faults import STORE
from lagwatch.history.elastic.indices import index_name
from lagwatch.history.rows import sort_unique, source_rank

_ROWS_AT_A_TIME: Final = 4096
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Document:
    """One row as it is sent."""

    id: str
    body: bytes
    """JSON."""
    rank: int
    """Rank of its source, as in `record.SOURCE_RANK`."""


@dataclass(frozen=True, slots=True)
class OfIndex:
    """Rows that belong to one index, each key once."""

    index: str
    rows: Records


def by_index(records: Sequence[Records], prefix: str) -> Iterator[OfIndex]:
    """Rows by the index they belong to, in the order of kinds and time.

    Of rows with the same key the one of the better source is kept, then the first.
    """
    for kind in Kind:
        parts = [part for part in records if part.kind is kind and part.size]
        if not parts:
            continue
        rows, _ = sort_unique(_unicode(concat(parts)))
        # no period of an index begins or ends inside a day
        day, place = np.unique(rows.at_ms() // _DAY_MS, return_inverse=True)
        names = [index_name(prefix, kind, number * _DAY_MS) for number in day.tolist()]
        for name in dict.fromkeys(names):
            of_name = np.array([index == name for index in names])[place]
            yield OfIndex(name, rows if bool(of_name.all()) else rows.take(of_name))


def documents(rows: Records) -> Iterator[Document]:
    """Every row as a document with its deterministic id."""
    for first in range(0, rows.size, _ROWS_AT_A_TIME):
        some = rows.take(np.arange(first, min(first + _ROWS_AT_A_TIME, rows.size)))
        columns = [_encodable(some, name) for name in some.columns]
        names = tuple(some.columns)
        ids, ranks = record_ids(some), source_rank(some).tolist()
        for identity, rank, *values in zip(ids, ranks, *columns, strict=True):
            fields = {
                name: value for name, value in zip(names, values, strict=True) if value is not None
            }
            yield Document(identity, orjson.dumps(fields), rank)


def _encodable(rows: Records, name: str) -> list[Value]:
    values = plain_values(rows.columns[name])
    if schema(rows.kind)[name].type is ColumnType.BINARY:
        return [base64.b64encode(v).decode() if isinstance(v, bytes) else None for v in values]
    return values


def _unicode(rows: Records) -> Records:
    """Words as UTF-8 can hold them: a lone surrogate becomes `?`."""
    return Records(
        kind=rows.kind,
        columns={
            name: _clean(values) if isinstance(values, Text) else values
            for name, values in rows.columns.items()
        },
    )


def _clean(text: Text) -> Text:
    clean = tuple(word.encode("utf-8", "replace").decode() for word in text.words)
    return text if clean == text.words else Text.coded(text.codes, clean)


def rows_of(kind: Kind, sources: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Records:
    """Documents as rows; what a document lacks is unknown.

    Raises:
        HistoryError: a document is not a valid row of this kind.
    """
    binary = [name for name in columns if schema(kind)[name].type is ColumnType.BINARY]
    try:
        if binary:
            sources = [_decoded(source, binary) for source in sources]
        return from_rows(kind, sources, columns)
    except (ValueError, TypeError, OverflowError) as error:
        raise HistoryError(
            store=STORE,
            kind="corrupt",
            message=f"a document among the {kind} was not written by lagwatch: {error}. "
            "`lagwatch history verify` names it.",
            retryable=False,
        ) from error


def _decoded(source: Mapping[str, Any], binary: Sequence[str]) -> Mapping[str, Any]:
    held = {name: source[name] for name in binary if source.get(name) is not None}
    return {**source, **{name: base64.b64decode(value) for name, value in held.items()}}

"""Rows as JSON documents and back: one field per column; unknown values have no field.

Documents are most of what a row takes on disk, so three things are written short:

- The instants of a sample that are only read with their row are one field `ages_ms`: milliseconds
  from each of `AGES` to the known one before it, the first to `at_ms`. An instant that differs from
  row to row costs about five bytes as a field of its own, and one or two in this list.
- The log end of a sample is left out where it is committed offset + lag: seven bytes.
- `schema_version` is left out where it is 1.

Documents with a field for every column, as earlier releases wrote them, have their
`schema_version`. They are read as well.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.record import ColumnType, Kind, Records, Text, concat, record_ids, schema
from lagwatch.core.record.records import Value, from_rows, plain_values
from lagwatch.errors import HistoryError
from lagwatch.history.elastic.faults import STORE
from lagwatch.history.elastic.indices import AGES, AGES_FIELD, NOT_MAPPED, index_name
from lagwatch.history.rows import sort_unique, source_rank

FIRST_VERSION: Final = 1
"""The schema version of a row whose document does not say it."""

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
        columns = _fields(some)
        names, ids, ranks = tuple(columns), record_ids(some), source_rank(some).tolist()
        for identity, rank, *values in zip(ids, ranks, *columns.values(), strict=True):
            fields = {
                name: value for name, value in zip(names, values, strict=True) if value is not None
            }
            yield Document(identity, orjson.dumps(fields), rank)


def _fields(rows: Records) -> Mapping[str, Sequence[Any]]:
    """Field → its value in every row; None where a row does not have the field."""
    short = NOT_MAPPED.get(rows.kind, ())
    fields: dict[str, Sequence[Any]] = {
        name: _encodable(rows, name) for name in rows.columns if name not in short
    }
    versions = fields["schema_version"]
    fields["schema_version"] = [None if each == FIRST_VERSION else each for each in versions]
    if rows.kind is Kind.SAMPLES:
        fields["log_end_offset"] = _log_ends(rows)
        fields[AGES_FIELD] = list(zip(*_ages(rows), strict=True))
    return fields


def _log_ends(rows: Records) -> list[int | None]:
    """None where `rows_of` knows it without the field; `UNKNOWN` where it would be wrong there."""
    columns = ("log_end_offset", "committed_offset", "lag")
    log_end, committed, lag = (rows.numbers(name) for name in columns)
    left_out = np.where((committed >= 0) & (lag >= 0), log_end == committed + lag, log_end < 0)
    return _where(log_end, ~left_out)


def _ages(rows: Records) -> Iterator[list[int | None]]:
    before = rows.at_ms()
    for name in AGES[rows.kind]:
        instants = rows.numbers(name) if name in rows.columns else np.full(rows.size, UNKNOWN)
        known = instants >= 0
        yield _where(before - instants, known)
        before = np.where(known, instants, before)


def _where(values: NDArray[np.int64], there: NDArray[np.bool_]) -> list[int | None]:
    """The values, None where there is none."""
    return [
        value if is_there else None
        for value, is_there in zip(values.tolist(), there.tolist(), strict=True)
    ]


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


def fields_of(kind: Kind, columns: Sequence[str]) -> tuple[str, ...]:
    """The fields of documents that `rows_of` needs for these columns."""
    needed = list(columns)
    if any(name in AGES.get(kind, ()) for name in columns):
        needed += [kind.time_column, AGES_FIELD]
    if kind is Kind.SAMPLES and "log_end_offset" in columns:
        needed += ["committed_offset", "lag", "schema_version"]
    return tuple(dict.fromkeys(needed))


def rows_of(kind: Kind, sources: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Records:
    """Documents as rows; what a document lacks is unknown, but for what is written short.

    Raises:
        HistoryError: a document is not a valid row of this kind.
    """
    binary = [name for name in columns if schema(kind)[name].type is ColumnType.BINARY]
    try:
        if binary:
            sources = [_decoded(source, binary) for source in sources]
        sources = [_whole(kind, source) for source in sources]
        return from_rows(kind, sources, columns)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
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


def _whole(kind: Kind, source: Mapping[str, Any]) -> Mapping[str, Any]:
    """A document with a field for every column that it knows."""
    found: dict[str, Any] = {"schema_version": FIRST_VERSION}
    ages = source.get(AGES_FIELD)
    if ages is not None:
        instant = source[kind.time_column]
        for name, age in zip(AGES[kind], ages, strict=True):
            if age is not None:
                instant = found[name] = instant - age
    committed, lag = source.get("committed_offset"), source.get("lag")
    if "schema_version" not in source and committed is not None and lag is not None:
        found["log_end_offset"] = committed + lag
    return {**found, **source}

"""Rows of one kind as columns, and their identity.

Numbers are numpy arrays in which -1 (integers) and NaN (reals) mean unknown; text is a dictionary
of words and a code per row, -1 for unknown. Outside (`rows`) unknown is always None.
"""

import base64
import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.record.columns import ColumnType, Kind, schema

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Index = NDArray[np.integer] | NDArray[np.bool_] | slice

DTYPE: Final[Mapping[ColumnType, type[np.generic]]] = {
    ColumnType.INT32: np.int32,
    ColumnType.INT64: np.int64,
    ColumnType.INSTANT: np.int64,
    ColumnType.FLOAT64: np.float64,
}
"""Of the numeric types; text is `Text`, binary an array of objects (bytes or None)."""

_ID_BYTES: Final = 16

Value = str | int | float | bytes | None


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """A column of words."""

    codes: Int32
    """Index into `words`; -1 unknown."""
    words: tuple[str, ...]

    @classmethod
    def of(cls, values: Iterable[str | None]) -> "Text":
        """From one word, or None, per row."""
        number: dict[str, int] = {}
        codes = [
            UNKNOWN if value is None else number.setdefault(value, len(number)) for value in values
        ]
        return cls(np.array(codes, np.int32), tuple(number))

    @classmethod
    def same(cls, word: str | None, size: int) -> "Text":
        """The same word in every row."""
        code, words = (UNKNOWN, ()) if word is None else (0, (word,))
        return cls(np.full(size, code, np.int32), words)

    @classmethod
    def coded(cls, codes: Int32, words: Iterable[str]) -> "Text":
        """From codes into words that may repeat: afterwards each word is there once."""
        number: dict[str, int] = {}
        table = [number.setdefault(word, len(number)) for word in words]
        return cls(np.array([*table, UNKNOWN], np.int32)[codes], tuple(number))

    @property
    def size(self) -> int:
        return int(self.codes.size)

    def take(self, index: Index) -> "Text":
        return Text(self.codes[index], self.words)

    def narrowed(self) -> "Text":
        """The same without words that no row holds."""
        used = np.zeros(len(self.words) + 1, np.bool_)
        used[self.codes] = True
        used[UNKNOWN] = False
        if np.count_nonzero(used) == len(self.words):
            return self
        table = np.cumsum(used, dtype=np.int32) - 1
        table[UNKNOWN] = UNKNOWN
        words = tuple(itertools.compress(self.words, used.tolist()))
        return Text(table[self.codes].astype(np.int32, copy=False), words)

    def tolist(self) -> list[str | None]:
        words: list[str | None] = [*self.words, None]
        return [words[code] for code in self.codes.tolist()]

    def ranks(self) -> Int64:
        """Per row the position of its word in the sorted dictionary; -1 unknown sorts first."""
        order = sorted(set(self.words))
        place = {word: index for index, word in enumerate(order)}
        table = np.array([*(place[word] for word in self.words), UNKNOWN], np.int64)
        return table[self.codes]


def is_word(text: Text, word: str) -> NDArray[np.bool_]:
    """Mask of the rows that hold this word."""
    table = np.array([*(known == word for known in text.words), False], np.bool_)
    return table[text.codes]


Values = NDArray[np.int64] | NDArray[np.int32] | NDArray[np.float64] | NDArray[np.object_] | Text


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Records:
    """Rows of one kind; columns of equal length, all of the schema or those that were asked for."""

    kind: Kind
    columns: Mapping[str, Values]

    @property
    def size(self) -> int:
        """Number of rows."""
        return int(next(iter(self.columns.values())).size) if self.columns else 0

    def text(self, name: str) -> Text:
        """A column of words.

        Raises:
            TypeError: the column holds no words.
        """
        column = self.columns[name]
        if not isinstance(column, Text):
            raise TypeError(f"{self.kind}.{name} is not text")
        return column

    def numbers(self, name: str) -> NDArray[np.int64]:
        """A column of integers, -1 unknown.

        Raises:
            TypeError: the column holds words or bytes.
        """
        column = self.columns[name]
        if isinstance(column, Text) or column.dtype.kind != "i":
            raise TypeError(f"{self.kind}.{name} holds no integers")
        return column.astype(np.int64, copy=False)

    def reals(self, name: str) -> NDArray[np.float64]:
        """A column of floats, NaN unknown; integers are converted.

        Raises:
            TypeError: the column holds words or bytes.
        """
        column = self.columns[name]
        if isinstance(column, Text) or column.dtype.kind not in "if":
            raise TypeError(f"{self.kind}.{name} holds no numbers")
        if column.dtype.kind == "f":
            return column.astype(np.float64, copy=False)
        return np.where(column < 0, np.nan, column.astype(np.float64))

    def at_ms(self) -> Int64:
        """The instant of every row."""
        return self.numbers(self.kind.time_column)

    def take(self, index: Index) -> "Records":
        """The rows at these positions, in this order; those of a slice are views."""
        return Records(
            kind=self.kind,
            columns={
                name: values.take(index) if isinstance(values, Text) else values[index]
                for name, values in self.columns.items()
            },
        )

    def select(self, names: Sequence[str]) -> "Records":
        """Only these columns, in this order."""
        return Records(kind=self.kind, columns={name: self.columns[name] for name in names})

    def rows(self) -> Iterator[dict[str, Value]]:
        """Row by row, as plain values; unknown is None."""
        names = tuple(self.columns)
        plain = [plain_values(values) for values in self.columns.values()]
        for values in zip(*plain, strict=True):
            yield dict(zip(names, values, strict=True))


def plain_values(values: Values) -> list[Value]:
    """A column as plain values; unknown is None."""
    if isinstance(values, Text):
        return list(values.tolist())
    if values.dtype.kind == "f":
        return [None if math.isnan(value) else value for value in values.tolist()]
    if values.dtype.kind == "i":
        return [None if value < 0 else value for value in values.tolist()]
    return list(values.tolist())


def column_of(values: Sequence[Value], kind: ColumnType) -> Values:
    """The inverse of `plain_values`."""
    if kind is ColumnType.TEXT:
        return Text.of(None if value is None else str(value) for value in values)
    if kind is ColumnType.BINARY:
        objects = np.empty(len(values), np.object_)
        objects[:] = values
        return objects
    unknown = math.nan if kind is ColumnType.FLOAT64 else UNKNOWN
    return np.array([unknown if value is None else value for value in values], DTYPE[kind])


def from_rows(
    kind: Kind, rows: Sequence[Mapping[str, Value]], columns: Sequence[str] | None = None
) -> Records:
    """Columns from plain rows; what a row lacks is unknown there, foreign keys are ignored."""
    wanted = schema(kind)
    return Records(
        kind=kind,
        columns={
            name: column_of([row.get(name) for row in rows], wanted[name].type)
            for name in (wanted if columns is None else columns)
        },
    )


def concat(parts: Sequence[Records]) -> Records:
    """One after another; all of one kind and with the same columns.

    Raises:
        ValueError: there are no parts.
    """
    if not parts:
        raise ValueError("nothing to concatenate")
    if len(parts) == 1:
        return parts[0]
    return Records(
        kind=parts[0].kind,
        columns={
            name: _concat([part.columns[name] for part in parts]) for name in parts[0].columns
        },
    )


def _concat(values: Sequence[Values]) -> Values:
    if isinstance(values[0], Text):
        return _concat_text([value for value in values if isinstance(value, Text)])
    joined: NDArray[np.int64] = np.concatenate(
        [value for value in values if not isinstance(value, Text)]
    )
    return joined


def _concat_text(texts: Sequence[Text]) -> Text:
    if all(text.words == texts[0].words for text in texts):
        return Text(np.concatenate([text.codes for text in texts]), texts[0].words)
    first = np.cumsum([0, *(len(text.words) for text in texts)])
    codes = [
        np.where(text.codes < 0, UNKNOWN, text.codes + start)
        for text, start in zip(texts, first[:-1].tolist(), strict=True)
    ]
    words = (word for text in texts for word in text.words)
    return Text.coded(np.concatenate(codes).astype(np.int32), words)


def record_ids(records: Records) -> list[str]:
    """The id of every row, the same wherever and whenever it is made.

    `SERIES-INSTANT`: 22 characters for the key without its instant (BLAKE2b, 16 bytes, base64url)
    and the instant in hexadecimal. Safe in URLs and as a document's id.
    """
    *names, time = records.kind.key
    parts = [plain_values(records.columns[name]) for name in names]
    known: dict[tuple[Value, ...], str] = {}
    ids = []
    for *series, at_ms in zip(*parts, records.numbers(time).tolist(), strict=True):
        key = tuple(series)
        prefix = known.get(key)
        if prefix is None:
            prefix = known[key] = _series_id(key)
        ids.append(f"{prefix}-{at_ms:x}")
    return ids


def _series_id(key: tuple[Value, ...]) -> str:
    digest = hashlib.blake2b(digest_size=_ID_BYTES)
    for value in key:
        # the length in front keeps ("a", "bc") and ("ab", "c") apart; null is not the empty word
        part = b"" if value is None else str(value).encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % (UNKNOWN if value is None else len(part)))
        digest.update(part)
    return base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()

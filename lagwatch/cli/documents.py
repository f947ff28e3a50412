"""JSON documents for `explain` and `replay`: one object, an array of them, or one per line.

An item is named by its index from 0, a field by its path in the item (`offsets[2].timestamp`), the
item itself by `$`. Fields that are not used are ignored.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from lagwatch.errors import InputError

ITEM: Final = "$"
STDIN: Final = "-"
_HIGHEST: Final = 2**63 - 1
_HIGHEST_MS: Final = 2**62 - 1
"""Two instants this far apart still have a difference of 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputDocument:
    """The items of a document in their order."""

    items: tuple[object, ...]
    single: bool
    """One object, not an array of one: it is answered by one object."""


def read(file: str) -> InputDocument:
    """Read a file, or the standard input for `-`.

    Raises:
        InputError: unreadable, or not JSON.
    """
    try:
        raw = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(index=0, field=ITEM, problem=f"cannot read {file}: {reason}") from error
    try:
        return parse(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        problem = f"not UTF-8: byte {error.start}"
        raise InputError(index=0, field=ITEM, problem=problem) from error


def parse(text: str) -> InputDocument:
    """Take a document apart.

    Raises:
        InputError: not JSON; names the item and the line.
    """
    if not text.strip():
        raise InputError(index=0, field=ITEM, problem="the document is empty")
    try:
        whole = _json(text)
    except json.JSONDecodeError as error:
        lines = _lines(text)
        if text.lstrip().startswith("[") or len(lines) == 1:
            raise _not_json(0, error, error.lineno) from error
        return InputDocument(items=_items(lines), single=False)
    if isinstance(whole, list):
        return InputDocument(items=tuple(whole), single=False)
    return InputDocument(items=(whole,), single=True)


def _lines(text: str) -> list[tuple[int, str]]:
    """Number and text of the lines that are not blank; only a line feed ends a line."""
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _items(lines: Sequence[tuple[int, str]]) -> tuple[object, ...]:
    items = []
    for index, (number, line) in enumerate(lines):
        try:
            items.append(_json(line))
        except json.JSONDecodeError as error:
            raise _not_json(index, error, number) from error
    return tuple(items)


def _json(text: str) -> object:
    def refuse(constant: str) -> NoReturn:
        message = f"{constant} is not JSON"
        raise json.JSONDecodeError(message, text, text.find(constant))

    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError) as error:  # absurdly long numbers, absurd nesting
        raise json.JSONDecodeError(str(error), text, 0) from error


def _not_json(index: int, error: json.JSONDecodeError, line: int) -> InputError:
    where = f"line {line}, column {error.colno}"
    return InputError(index=index, field=ITEM, problem=f"not JSON: {error.msg} ({where})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """An object of a document; reads its fields and says where one is wrong."""

    index: int
    """Of the item."""
    path: str
    """Of the object in the item; "" for the item itself."""
    values: Mapping[str, object]

    @classmethod
    def of(cls, value: object, *, index: int, path: str = "") -> "Fields":
        """See a value as an object.

        Raises:
            InputError: it is something else.
        """
        if not isinstance(value, dict):
            raise InputError(index=index, field=path or ITEM, problem=_expected("an object", value))
        return cls(index=index, path=path, values=value)

    def whole(
        self,
        name: str,
        *,
        default: int | None = None,
        lowest: int = -_HIGHEST,
        highest: int = _HIGHEST,
    ) -> int:
        """A whole number."""
        value = self.values.get(name, default)
        if value is None and name not in self.values:
            raise self.wrong(name, "is missing")
        return self._in_range(name, value, lowest, highest)

    def whole_or_none(self, name: str) -> int | None:
        """A whole number from 0 on; None when the field is null or absent (unknown)."""
        value = self.values.get(name)
        return None if value is None else self._in_range(name, value, 0, _HIGHEST)

    def instant_ms(self, name: str, *, default: int | None = None) -> int:
        """Epoch milliseconds."""
        return self.whole(name, default=default, lowest=-_HIGHEST_MS, highest=_HIGHEST_MS)

    def instant_s(self, name: str) -> int:
        """Epoch seconds, as milliseconds."""
        highest_s = _HIGHEST_MS // 1000
        return self.whole(name, lowest=-highest_s, highest=highest_s) * 1000

    def duration_ms(self, name: str, *, highest_s: int) -> int:
        """Seconds, also with a fraction, as milliseconds; absence means 0."""
        value = self.values.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(name, _expected("a number of seconds", value))
        if not 0 <= value <= highest_s:
            raise self.wrong(name, f"must be 0 to {highest_s} s, not {value}")
        return round(value * 1000)

    def word(self, name: str, choices: Sequence[str]) -> str:
        """One of a few words."""
        value = self.values.get(name)
        if not isinstance(value, str) or value not in choices:
            known = " or ".join(repr(choice) for choice in choices)
            raise self.wrong(name, "is missing" if value is None else _expected(known, value))
        return value

    def numbers(self, name: str) -> tuple[int, ...]:
        """An array of whole numbers from 0 on."""
        return tuple(
            self._in_range(f"{name}[{position}]", value, 0, _HIGHEST)
            for position, value in enumerate(self._array(name))
        )

    def objects(self, name: str) -> tuple["Fields | None", ...]:
        """An array of objects or null."""
        return tuple(
            None
            if value is None
            else Fields.of(value, index=self.index, path=self._at(f"{name}[{position}]"))
            for position, value in enumerate(self._array(name))
        )

    def wrong(self, name: str, problem: str) -> InputError:
        """The error for a field."""
        return InputError(index=self.index, field=self._at(name), problem=problem)

    def _at(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def _array(self, name: str) -> Sequence[object]:
        value = self.values.get(name)
        if not isinstance(value, list):
            problem = "is missing" if name not in self.values else _expected("an array", value)
            raise self.wrong(name, problem)
        return value

    def _in_range(self, name: str, value: object, lowest: int, highest: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(name, _expected("a whole number", value))
        if not lowest <= value <= highest:
            raise self.wrong(name, f"must be {lowest} to {highest}, not {_brief(value)}")
        return value


def _expected(wanted: str, value: object) -> str:
    return f"must be {wanted}, not {_brief(value)}"


def _brief(value: object) -> str:
    match value:
        case dict():
            return "an object"
        case list():
            return "an array"
        case int() if not isinstance(value, bool) and abs(value) > _HIGHEST:
            return "a number of more than 64 bits"
        case _:
            text = json.dumps(value, ensure_ascii=False)
            return text if len(text) <= 40 else text[:40] + "…"  # noqa: PLR2004 fits a line

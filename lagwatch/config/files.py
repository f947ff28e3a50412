"""Files that options name: secrets and templates are read from them, others must be readable."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic.fields import FieldInfo

from lagwatch.config.secret import HIDDEN, Template
from lagwatch.config.section import OrFile, Readable
from lagwatch.config.walk import Tree, holds, mark, tables
from lagwatch.errors import Fault
from lagwatch.named_files import require_file

_LONGEST_PATH: Final = 1024
_KEY: Final = re.compile(r"[A-Za-z0-9_+=-]{20,}")
"""Long, without a folder and an ending: rather a key or token than a file's name."""


def file_faults(tree: Tree) -> Iterator[Fault]:
    """Read the file of every `X_file` into the tree as `X`; yield a fault for each unusable file.

    What cannot be read leaves the tree: nothing that follows opens it and fails once more.
    Checks that compare options as the user wrote them must run before this.
    """
    for path, model, table in tables(tree):
        for name, field in model.model_fields.items():
            key = ".".join((*path, name))
            if or_file := mark(field, OrFile):
                yield from _given(key, name, or_file, table)
                yield from _read(key, name, field, table)
            elif readable := mark(field, Readable):
                yield from _readable(key, name, table, readable)


def _given(key: str, option: str, or_file: OrFile, table: Tree) -> Iterator[Fault]:
    if option in table and f"{option}_file" in table:
        yield Fault(
            key=key,
            value=HIDDEN,
            problem=f"is given twice: {option} and {option}_file",
            remedy=f"Keep {key}_file only.",
        )
    if or_file.needed and not table.get(option) and f"{option}_file" not in table:
        yield Fault(key=key, value="", problem="is missing", remedy=f"Set {key}_file.")


def _read(key: str, option: str, field: FieldInfo, table: Tree) -> Iterator[Fault]:
    file = table.get(f"{option}_file")
    if not isinstance(file, str):
        return
    try:
        require_file(Path(file))
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        yield _unreadable(f"{key}_file", file, error)
        return
    if holds(field) is not Template:  # a template keeps its last line feed
        text = text.removesuffix("\n").removesuffix("\r")
        if not text:
            yield _fault(f"{key}_file", file, "the file is empty", "Write into it.")
    table.setdefault(option, text)


def _readable(key: str, option: str, table: Tree, readable: Readable) -> Iterator[Fault]:
    file = table.get(option)
    if not isinstance(file, str):
        return
    try:
        require_file(Path(file))
        if readable.text:
            Path(file).read_text(encoding="utf-8")
        else:
            with Path(file).open("rb") as stream:
                stream.read(1)
    except (OSError, ValueError) as error:
        del table[option]
        yield _unreadable(key, file, error)


def _unreadable(key: str, file: str, error: Exception) -> Fault:
    if not _is_path(file):  # the secret itself, written in the wrong place
        return _fault(key, HIDDEN, "is not the path of a file", "Write the path of a file.")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else "not text"
    remedy = f"Check the path (it means {Path(file).absolute()}) and its permissions."
    return _fault(key, file, f"cannot be read: {reason}", remedy)


def _is_path(file: str) -> bool:
    if "://" in file or len(file) > _LONGEST_PATH or not file.isprintable():
        return False
    return not _KEY.fullmatch(file)


def _fault(key: str, value: str, problem: str, remedy: str) -> Fault:
    return Fault(key=key, value=value, problem=problem, remedy=remedy)

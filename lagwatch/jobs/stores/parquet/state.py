"""State of the jobs in a Parquet store: files in `_jobs`, and a kernel lock on one of them."""

import fcntl
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Final

import orjson

from lagwatch.errors import HistoryError
from lagwatch.history.folder import STORE, Folder, reported
from lagwatch.jobs.state import Value, parsed
from lagwatch.jobs.stores.base import Exclusive

FOLDER: Final = "_jobs"
"""Begins with `_`: readers of the history pass over it."""
_VERSION: Final = re.compile(r"\d{12}\.json")
_KEPT: Final = 3
_LOOKS: Final = 5


class FolderState:
    """A `JobState` in files.

    What was swapped in is `NAME/000000000007.json`: a swap creates the next number, which of
    several writers one can do. What was only saved is `NAME.json`.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def load(self, name: str) -> Value:
        for _ in range(_LOOKS):
            path = self._newest(name) or _path(name)
            value = self._read(path)
            if value is not None:
                return value
            if path == _path(name):
                break
        return {}

    def _read(self, path: str) -> Value | None:
        try:
            with self._folder.open(path) as file:
                data = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise HistoryError(
                store=STORE, kind="io", message=f"cannot read {path}: {error}", retryable=True
            ) from error
        return parsed(data, path)

    def save(self, name: str, value: Mapping[str, Any]) -> None:
        data = orjson.dumps(value)
        newest = self._newest(name)
        if newest is None:
            self._folder.publish(_path(name), data)
            return
        while not self._folder.create(_after(name, newest), data):
            newest = self._newest(name)
        self._tidy(name)

    def swap(self, name: str, before: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
        newest = self._newest(name)
        held = self._read(newest or _path(name))
        if (held or {}) != before:
            return False
        path = _after(name, newest)
        if not self._folder.create(path, orjson.dumps(value)):
            return False
        # a writer that was asleep may create a number that was there and has been tidied away
        if self._newest(name) != path:
            self._folder.delete(path)
            return False
        self._tidy(name)
        return True

    def delete(self, name: str) -> None:
        for path in (*self._versions(name), _path(name)):
            self._folder.delete(path)

    def _newest(self, name: str) -> str | None:
        return max(self._versions(name), default=None)

    def _versions(self, name: str) -> list[str]:
        begin = f"{FOLDER}/{name}/"
        return [
            file.path
            for file in self._folder.files(begin.rstrip("/"))
            if _VERSION.fullmatch(file.path.removeprefix(begin))
        ]

    def _tidy(self, name: str) -> None:
        """Delete old numbers, except a few: a reader may still look at one that was the newest."""
        for path in sorted(self._versions(name))[:-_KEPT]:
            self._folder.delete(path)
        self._folder.delete(_path(name))


def _path(name: str) -> str:
    return f"{FOLDER}/{name}.json"


def _after(name: str, newest: str | None) -> str:
    number = 0 if newest is None else int(PurePosixPath(newest).stem)
    return f"{FOLDER}/{name}/{number + 1:012d}.json"


@contextmanager
def kernel_lock(folder: Path, job: str) -> Iterator[Exclusive]:
    """An advisory lock on a file of a folder of this machine.

    Raises:
        HistoryError: the file cannot be made.
    """
    path = folder / FOLDER / f"{job}.flock"
    with reported("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield Exclusive(free=False)
            return
        try:
            yield Exclusive(free=True, descriptors=(file.fileno(),))
        finally:
            # closing would not do: a JVM that idles to its end has a copy
            fcntl.flock(file, fcntl.LOCK_UN)

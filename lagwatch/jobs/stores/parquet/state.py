"""State of the jobs in a Parquet store: files in `_jobs`, and a kernel lock on one of them."""

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import orjson

from lagwatch.errors import HistoryError
from lagwatch.history.folder import STORE, Folder, reported
from lagwatch.jobs.state import Value, parsed

FOLDER: Final = "_jobs"
"""Begins with `_`: readers of the history pass over it."""


class FolderState:
    """A `JobState` in files."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def load(self, name: str) -> Value:
        path = _path(name)
        try:
            with self._folder.open(path) as file:
                data = file.read()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise HistoryError(
                store=STORE, kind="io", message=f"cannot read {path}: {error}", retryable=True
            ) from error
        return parsed(data, path)

    def save(self, name: str, value: Mapping[str, Any]) -> None:
        self._folder.publish(_path(name), orjson.dumps(value))

    def swap(self, name: str, before: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
        if self.load(name) != before:
            return False
        self.save(name, value)
        return self.load(name) == value

    def delete(self, name: str) -> None:
        self._folder.delete(_path(name))


def _path(name: str) -> str:
    return f"{FOLDER}/{name}.json"


@contextmanager
def kernel_lock(folder: Path, job: str) -> Iterator[bool]:
    """An advisory lock on a file of a folder of this machine; False when another process has it.

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
            yield False
        else:
            yield True

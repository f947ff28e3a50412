"""Folders of Parquet files: local ones, or any file system that a URL names.

A published file is always complete: locally it is written under another name, synced and renamed;
elsewhere the object appears when its upload is closed, or is moved into place. Names that begin
with `.` or `_` are ours alone: Spark, DuckDB (`*.parquet`) and Arrow pass over them.
"""

import errno
import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, Protocol

import pyarrow as pa
from pyarrow import fs

from lagwatch.config.secret import Place
from lagwatch.errors import HistoryError
from lagwatch.places import CannotOpenError, open_place

STORE: Final = "parquet"
_TEMPORARY: Final = ".tmp"
_LISTINGS: Final = 10
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_OBJECT_STORES: Final = frozenset({"s3", "gcs", "abfs"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file by its path below the folder, with `/` between the parts."""

    path: str
    size_bytes: int
    version: int
    """Changes when the file is replaced."""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Folder(Protocol):
    """What a store needs of a file system. Methods raise `HistoryError`."""

    def files(self, below: str) -> list[StoredFile]:
        """All files below a path, at any depth, hidden ones too; [] when there is no such path."""
        ...

    def names(self, below: str) -> list[str]:
        """Names of the folders right below a path, sorted."""
        ...

    def open(self, path: str) -> Any:  # noqa: ANN401
        """The file as a `pyarrow.NativeFile`, to be read anywhere.

        Raises:
            FileNotFoundError: somebody has removed it.
        """
        ...

    def publish(self, path: str, data: Any) -> None:  # noqa: ANN401
        """Write a complete file, durably, in place of any earlier one; `data` is a buffer."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file, if it exists."""
        ...

    def delete_folder(self, path: str) -> None:
        """Remove a folder and everything below it, if it exists."""
        ...


def open_folder(where: str) -> Folder:
    """A folder from a path or URL (`s3://bucket/lag`, `hdfs://…`, anything fsspec opens).

    Raises:
        HistoryError: the URL cannot be understood, or its package is missing.
    """
    if "://" not in where:
        return LocalFolder(Path(where))
    if where.startswith("file://"):
        return LocalFolder(Path(where.removeprefix("file://")))
    try:
        filesystem, path = open_place(where)
    except CannotOpenError as error:
        scheme, shown = where.partition("://")[0], Place.shown(where)
        raise HistoryError(
            store=STORE,
            kind="schema",
            message=f"history.url = {shown}: cannot be opened "
            f"({str(error).replace(where, shown)}). Install fsspec and the package it needs for "
            f"{scheme}://, or write a folder.",
            retryable=False,
        ) from error
    return RemoteFolder(filesystem, path)


_MAKE_ROOM: Final = "Make room on that disk."
_ROOM: Final = {
    STORE: "Make room, or shorten history.retention.",
    "spool": "Make room on that disk, or set history.spool to a folder of another one. No option "
    "of the store frees it; history.spool_size_mb is what the spool may take.",
}
"""Remedy for a full disk, by what is stored on it."""


@contextmanager
def reported(action: str, path: object, *, store: str = STORE) -> Iterator[None]:
    """Turn errors of the system into `HistoryError`; `FileNotFoundError` passes unchanged.

    Raises:
        HistoryError: `disk_full`, `authorization` or `io`.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        full = error.errno in _FULL
        raise HistoryError(
            store=store,
            kind="disk_full"
            if full
            else "authorization"
            if isinstance(error, PermissionError)
            else "io",
            message=f"cannot {action} {path}: {error.strerror or error}. "
            + (_ROOM.get(store, _MAKE_ROOM) if full else "Check path and rights."),
            retryable=True,
        ) from error


class LocalFolder:
    """A folder of this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._made: set[Path] = set()
        self._lock = threading.Lock()

    def files(self, below: str) -> list[StoredFile]:
        with reported("list", self._root / below):
            found = self._list(below)
            for _ in range(_LISTINGS):
                # one listing may miss a file that was replaced by another while it went on
                before, found = found, self._list(below)
                if before == found:
                    break
            return found

    def _list(self, below: str) -> list[StoredFile]:
        return sorted(self._walk(self._root / below), key=lambda file: file.path)

    def _walk(self, folder: Path) -> Iterator[StoredFile]:
        try:
            entries = list(os.scandir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(Path(entry.path))
                continue
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue  # compacted or published meanwhile
            yield StoredFile(
                path=Path(entry.path).relative_to(self._root).as_posix(),
                size_bytes=status.st_size,
                version=status.st_mtime_ns ^ status.st_ino,
            )

    def names(self, below: str) -> list[str]:
        folder = self._root / below
        with reported("list", folder):
            try:
                return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
            except (FileNotFoundError, NotADirectoryError):
                return []

    def open(self, path: str) -> Any:  # noqa: ANN401
        with reported("read", self._root / path):
            return pa.OSFile(str(self._root / path))

    def publish(self, path: str, data: Any) -> None:  # noqa: ANN401
        place = self._root / path
        temporary = place.with_name(f".{place.name}.{uuid.uuid4().hex[:8]}{_TEMPORARY}")
        with reported("write", place):
            self._make(place.parent)
            try:
                with temporary.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(place)
            except BaseException:
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)
                raise
            sync_folder(place.parent)

    def _make(self, folder: Path) -> None:
        """Create a folder and its parents; each is synced into its parent."""
        with self._lock:
            if folder in self._made and folder.is_dir():
                return
            missing = [level for level in (folder, *folder.parents) if not level.exists()]
            for level in reversed(missing):
                level.mkdir(exist_ok=True)
                sync_folder(level.parent)
            self._made.add(folder)

    def delete(self, path: str) -> None:
        with reported("delete", self._root / path):
            (self._root / path).unlink(missing_ok=True)

    def delete_folder(self, path: str) -> None:
        folder = self._root / path
        with reported("delete", folder):
            if not folder.is_dir():
                return
            for top, folders, names in os.walk(folder, topdown=False):
                for name in names:
                    Path(top, name).unlink(missing_ok=True)
                for name in folders:
                    Path(top, name).rmdir()
            folder.rmdir()


class RemoteFolder:
    """A folder of any Arrow file system."""

    def __init__(self, filesystem: Any, root: str) -> None:  # noqa: ANN401
        self._fs = filesystem
        self._root = PurePosixPath(root)
        # an object appears when its upload is closed; elsewhere a file grows while it is written
        self._atomic = filesystem.type_name.partition("+")[0] in _OBJECT_STORES

    def files(self, below: str) -> list[StoredFile]:
        selector = fs.FileSelector(self._path(below), recursive=True, allow_not_found=True)
        with reported("list", self._path(below)):
            infos = self._fs.get_file_info(selector)
        found = [self._stored(info) for info in infos if info.type == fs.FileType.File]
        return sorted(found, key=lambda file: file.path)

    def _stored(self, info: Any) -> StoredFile:  # noqa: ANN401
        return StoredFile(
            path=PurePosixPath(info.path).relative_to(self._root).as_posix(),
            size_bytes=info.size or 0,
            version=info.mtime_ns or 0,
        )

    def names(self, below: str) -> list[str]:
        selector = fs.FileSelector(self._path(below), allow_not_found=True)
        with reported("list", self._path(below)):
            infos = self._fs.get_file_info(selector)
        return sorted(info.base_name for info in infos if info.type == fs.FileType.Directory)

    def open(self, path: str) -> Any:  # noqa: ANN401
        with reported("read", self._path(path)):
            return self._fs.open_input_file(self._path(path))

    def publish(self, path: str, data: Any) -> None:  # noqa: ANN401
        place = PurePosixPath(self._path(path))
        target = place if self._atomic else place.with_name(f".{place.name}{_TEMPORARY}")
        with reported("write", place):
            self._fs.create_dir(str(place.parent), recursive=True)
            with self._fs.open_output_stream(str(target)) as stream:
                stream.write(data)
            if target != place:
                self._replace(target, place)

    def _replace(self, source: PurePosixPath, place: PurePosixPath) -> None:
        try:
            self._fs.move(str(source), str(place))
        except OSError:  # some refuse to move onto a file; the existing one has the same rows
            self.delete(place.relative_to(self._root).as_posix())
            self._fs.move(str(source), str(place))

    def delete(self, path: str) -> None:
        with reported("delete", self._path(path)), suppress(FileNotFoundError):
            self._fs.delete_file(self._path(path))

    def delete_folder(self, path: str) -> None:
        with reported("delete", self._path(path)), suppress(FileNotFoundError):
            self._fs.delete_dir(self._path(path))

    def _path(self, below: str) -> str:
        return str(self._root / below) if below else str(self._root)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

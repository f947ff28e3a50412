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

from lagwatch.config.secret import ShownUrl
from lagwatch.errors import HistoryError
from lagwatch.history.conditional import created
from lagwatch.places import CannotOpenError, open_place
from lagwatch.ports.history import Allowed, always

STORE: Final = "parquet"
_TEMPORARY: Final = ".tmp"
_LISTINGS: Final = 10
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
"""What file systems without hard links say: FAT, some network shares."""
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
            FileNotFoundError: the file was removed.
        """
        ...

    def publish(self, path: str, data: Any, *, allowed: Allowed = always) -> None:  # noqa: ANN401
        """Put a whole file there, durably, in the place of any before it; `data` is a buffer.

        `allowed` is called right before the file is published; an exception stops that.
        """
        ...

    def create(self, path: str, data: bytes) -> bool:
        """Put a whole file where there is none, in one step; False: there is one.

        Of several that do so at once, on any machines, one succeeds.
        """
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
        scheme, shown = where.partition("://")[0], ShownUrl.shown(where)
        raise HistoryError(
            store=STORE,
            kind="schema",
            message=f"history.url = {shown}: cannot be opened "
            f"({str(error).replace(where, shown)}). Install fsspec and the package it needs for "
            f"{scheme}://, or write a folder.",
            retryable=False,
        ) from error
    return RemoteFolder(filesystem, path, where)


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


def _make_one(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except (FileExistsError, FileNotFoundError) as error:
        nowhere = "it is a link that leads nowhere" if folder.is_symlink() else error.strerror
        raise HistoryError(
            store=STORE,
            kind="io",
            message=f"cannot make the folder {folder}: {nowhere}. Check history.url.",
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
            except OSError as error:
                if error.errno == errno.ENAMETOOLONG:  # so there is none of that name
                    return []
                raise

    def open(self, path: str) -> Any:  # noqa: ANN401
        with reported("read", self._root / path):
            return pa.OSFile(str(self._root / path))

    def publish(self, path: str, data: Any, *, allowed: Allowed = always) -> None:  # noqa: ANN401
        place = self._root / path
        with reported("write", place):
            with self._written_beside(place, data) as temporary:
                allowed()
                temporary.replace(place)
            sync_folder(place.parent)

    def create(self, path: str, data: bytes) -> bool:
        place = self._root / path
        with reported("write", place):
            with self._written_beside(place, data) as temporary:
                try:
                    _link(temporary, place)
                except FileExistsError:
                    return False
            sync_folder(place.parent)
        return True

    @contextmanager
    def _written_beside(self, place: Path, data: Any) -> Iterator[Path]:  # noqa: ANN401
        """A synced file beside its place, under a name of its own; gone at the end, or moved."""
        self._make(place.parent)
        temporary = place.with_name(f".{place.name}.{uuid.uuid4().hex[:8]}{_TEMPORARY}")
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield temporary
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _make(self, folder: Path) -> None:
        """Create a folder and its parents; each is synced into its parent."""
        with self._lock:
            if folder in self._made and folder.is_dir():
                return
            missing = [level for level in (folder, *folder.parents) if not level.exists()]
            for level in reversed(missing):
                _make_one(level)
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


def _link(source: Path, place: Path) -> None:
    """Give a file a second name, unless there is such a name."""
    try:
        os.link(source, place)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with place.open("xb") as file:  # of several that do so one succeeds here, too
            file.write(source.read_bytes())
            file.flush()
            os.fsync(file.fileno())


class RemoteFolder:
    """A folder of any Arrow file system."""

    def __init__(self, filesystem: Any, root: str, where: str) -> None:  # noqa: ANN401
        """`where` is the URL that was opened: `create` needs more than Arrow offers."""
        self._fs = filesystem
        self._root = PurePosixPath(root)
        self._where = where
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

    def publish(self, path: str, data: Any, *, allowed: Allowed = always) -> None:  # noqa: ANN401
        place = PurePosixPath(self._path(path))
        with reported("write", place):
            self._fs.create_dir(str(place.parent), recursive=True)
            if self._atomic:
                allowed()
                self._upload(place, data)
                return
            target = place.with_name(f".{place.name}{_TEMPORARY}")
            self._upload(target, data)
            allowed()
            self._replace(target, place)

    def create(self, path: str, data: bytes) -> bool:
        place = PurePosixPath(self._path(path))
        with reported("write", place):
            if self._atomic and self._fs.type_name in _OBJECT_STORES:
                return self._create_object(path, data)
            self._fs.create_dir(str(place.parent), recursive=True)
            if isinstance(self._fs, fs.PyFileSystem):
                return self._create_through_fsspec(place, data)
            # HDFS refuses to rename onto a file that is there
            target = place.with_name(f".{place.name}.{uuid.uuid4().hex[:8]}{_TEMPORARY}")
            self._upload(target, data)
            try:
                self._fs.move(str(target), str(place))
            except OSError:
                self._fs.delete_file(str(target))
                if self._fs.get_file_info(str(place)).type == fs.FileType.NotFound:
                    raise
                return False
            return True

    def _create_object(self, path: str, data: bytes) -> bool:
        try:
            return created(self._where, path, data)
        except ImportError as error:
            raise HistoryError(
                store=STORE,
                kind="closed",
                message=f"history.url = {ShownUrl.shown(self._where)}: the lock of a job in an "
                "object store needs the package obstore. Install lagwatch[spark].",
                retryable=False,
            ) from error

    def _create_through_fsspec(self, place: PurePosixPath, data: bytes) -> bool:
        try:
            self._fs.handler.fs.pipe_file(str(place), data, mode="create")
        except FileExistsError:
            return False
        return True

    def _upload(self, place: PurePosixPath, data: Any) -> None:  # noqa: ANN401
        with self._fs.open_output_stream(str(place)) as stream:
            stream.write(data)

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

"""Opens the file system that a URL names: through pyarrow, or through fsspec."""

from typing import Any

import pyarrow as pa
from pyarrow import fs


class CannotOpenError(Exception):
    """The URL cannot be understood, or a package is missing; the text may quote the URL."""


def open_place(where: str) -> tuple[Any, str]:
    """The file system (`pyarrow.fs.FileSystem`) and the path in it of `s3://bucket/folder`, ….

    Raises:
        CannotOpenError: neither pyarrow nor fsspec opens it.
    """
    try:
        filesystem, path = fs.FileSystem.from_uri(where)
    except (pa.ArrowException, ValueError, OSError) as first:
        return _through_fsspec(where, str(first))
    return filesystem, path


def _through_fsspec(where: str, reason: str) -> tuple[Any, str]:
    try:
        import fsspec  # noqa: PLC0415 optional: only for what pyarrow does not open itself

        filesystem, path = fsspec.core.url_to_fs(where)
    except (ImportError, ValueError, OSError) as error:
        raise CannotOpenError(f"{reason}; {error}") from error
    return fs.PyFileSystem(fs.FSSpecHandler(filesystem)), path

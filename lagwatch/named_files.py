"""Files that options name: have they changed, and can they be read without waiting?"""

import errno
import os
import stat
from pathlib import Path


def version(path: Path) -> tuple[int, ...]:
    """A value that changes whenever the file is written or replaced, or its rights change."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


def require_file(path: Path) -> None:
    """Do not read a pipe or a device: that may never end, and all else waits for it.

    Raises:
        OSError: it is one, or there is no such file.
    """
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    # the null device reads as an empty file
    null = stat.S_ISCHR(found.st_mode) and found.st_rdev == Path(os.devnull).stat().st_rdev
    if not (stat.S_ISREG(found.st_mode) or null):
        raise OSError(errno.EINVAL, "it is a pipe or device, not a file", str(path))

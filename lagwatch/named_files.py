"""Files that options name: have they changed, and can they be read without waiting?"""

import errno
import stat
from pathlib import Path


def version(path: Path) -> tuple[int, ...]:
    """A value that changes whenever the file is written or replaced, or its rights change."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


def refuse_pipe(path: Path) -> None:
    """Do not wait for whoever writes into a pipe: that may never end, and all else waits for it.

    Raises:
        OSError: it is one, or there is no such file.
    """
    if stat.S_ISFIFO(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is a pipe, not a file", str(path))

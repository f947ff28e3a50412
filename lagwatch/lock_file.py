"""Locks by which processes keep files to themselves; the end of the process frees them."""

import fcntl
from pathlib import Path
from typing import IO


def locked(path: Path) -> IO[bytes]:
    """Create the file and its folder, and lock it until the result is closed.

    Raises:
        BlockingIOError: another process has it.
        OSError: the file cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise
    return file

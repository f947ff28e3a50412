"""The temporary folder of a run, and those that killed runs have left behind."""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from lagwatch.lock_file import locked

_PREFIX: Final = "lagwatch-jobs-"
_LOCK: Final = "lock"
"""Name of the file that a run keeps locked as long as it needs its folder."""


@contextmanager
def temp_folder(parent: Path | None = None) -> Iterator[Path]:
    """A folder of this run, deleted at the end; those of killed runs are deleted first.

    `parent` is where these folders are; None: where the system puts temporary files.
    """
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    _delete_left(parent)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=parent) as name:
        folder = Path(name)
        with locked(folder / _LOCK):
            yield folder


def _delete_left(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*"):
        # what cannot be deleted now may be later; no run fails for it
        with suppress(OSError):
            if _is_our_folder(folder):
                _delete_if_left(folder)


def _is_our_folder(folder: Path) -> bool:
    # of the link itself: anybody may put one into a common folder
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _delete_if_left(folder: Path) -> None:
    """Delete a folder that no process has locked.

    Raises:
        OSError: a process has it, or it is gone.
    """
    try:
        lock = (folder / _LOCK).open("rb")
    except FileNotFoundError:
        # of an earlier release, or just made and not locked yet: only an empty one is deleted, and
        # the lock makes it again
        folder.rmdir()
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)

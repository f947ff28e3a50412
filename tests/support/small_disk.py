"""A small file system, to fill."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_UMOUNT = ("umount", "-l")


@contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[Path]:
    """A file system in memory; the test is skipped where none may be mounted."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, timeout=20, check=False)
    except FileNotFoundError:
        pytest.skip("there is no `mount` here")
    if done.returncode:
        pytest.skip(f"may not mount a file system here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run([*_UMOUNT, str(place)], timeout=20, check=True)

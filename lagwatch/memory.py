"""Takes little memory: returns what the C library keeps in reserve, loads nothing for nothing."""

import contextlib
import ctypes
import sys
from importlib.abc import MetaPathFinder
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_ARENAS: Final = 2
_LARGE_BYTES: Final = 1 << 20


def keep_little() -> None:
    """Have large blocks released as soon as they are freed; to be called at a process's start.

    Otherwise glibc raises its threshold for this with each large block that is freed; the columns
    that grew while a backlog was read would then stay in the heap, as gaps. Each thread would also
    have an arena of its own, which keeps the most memory that the thread ever needed.

    Source: mallopt(3)
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, _LARGE_BYTES)
        library.mallopt(_M_ARENA_MAX, _ARENAS)


def give_back() -> None:
    """Release free heap pages; does nothing where the C library is not glibc.

    Reading a backlog and judging leave free pages between what stays; without this they
    count as memory of the process until it ends.

    Source: malloc_trim(3)
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def keep_pandas_out() -> None:
    """Have it look as if pandas were not installed; for processes that never use it.

    Else pyarrow imports pandas with its first array, only to ask whether what it is made from is a
    series: that takes 50 MB. Any other package that can do with pandas does without, too.
    """
    sys.meta_path.insert(0, _NoPandas())


class _NoPandas(MetaPathFinder):
    """Finds that there is no pandas."""

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is kept out of this process", name=fullname)

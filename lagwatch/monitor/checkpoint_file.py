"""A checkpoint as a file: a header, compressed columns, a checksum.

```
magic line | header length, 4 bytes | header, JSON | columns | BLAKE2b of all before
```

The header says what the file is of, and which columns follow with their types and sizes. The file
is written beside its place, synced and renamed: at its place it is always complete. The checksum
reveals any file that is not.
"""

import math
import os
import threading
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from lagwatch.errors import LagwatchError
from lagwatch.monitor.checkpoint import Part

Int64 = NDArray[np.int64]

FORMAT: Final = 1
_MAGIC: Final = b"lagwatch-checkpoint\n"
_LENGTH_BYTES: Final = 4
_DIGEST_BYTES: Final = 32
_LEVEL: Final = 1


class UnusableError(LagwatchError):
    """A checkpoint that cannot be used; the text says why."""


class OddFileError(UnusableError):
    """The file is damaged, not ours or not readable: somebody should look why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A part, ready to be written."""

    columns: tuple[Mapping[str, object], ...]
    """What each of them is."""
    data: bytes | memoryview
    """All of them, one after the other."""


# columns


def pack(part: Part) -> Packed:
    """Compress a part."""
    columns, data = [], []
    for name, column in part.items():
        kind, packed = _pack(column)
        data.append(zlib.compress(packed, _LEVEL))
        columns.append(
            {
                "name": name,
                "dtype": column.dtype.str,
                "shape": column.shape,
                "kind": kind,
                "bytes": len(data[-1]),
            }
        )
    return Packed(columns=tuple(columns), data=b"".join(data))


def _pack(column: NDArray[Any]) -> tuple[str | Sequence[int], bytes]:
    """How it is packed: `bits`, `plain`, or the bytes of a number in the first row and below."""
    if column.dtype == np.bool_:
        return "bits", np.packbits(column).tobytes()
    if column.dtype.kind == "f" or column.dtype.itemsize == 1:
        return "plain", _planes(column)
    values = column.astype(np.int64)
    if values.ndim == 1:
        width, packed = _folded(values)
        return (width,), packed
    # a value is near the one before it, in its window or its history: differences are small
    first_width, first = _folded(values[:1])
    width, differences = _folded(np.diff(values, axis=0))
    return (first_width, width), first + differences


def _folded(values: Int64) -> tuple[int, bytes]:
    # small numbers of either sign become small ones without, most of whose bytes are 0
    folded = ((values << 1) ^ (values >> 63)).view(np.uint64)
    highest = int(folded.max(initial=0))
    width = next(width for width in (1, 2, 4, 8) if highest < 1 << 8 * width)
    return width, _planes(folded.astype(f"<u{width}"))


def _planes(values: NDArray[Any]) -> bytes:
    """The first bytes of all values, then the second ones …: equal bytes side by side."""
    flat = np.ascontiguousarray(values).reshape(-1)
    return flat.view(np.uint8).reshape(flat.size, flat.itemsize).T.tobytes()


def _unpack(column: Mapping[str, Any], data: bytes) -> NDArray[Any]:
    raw, kind, shape = zlib.decompress(data), column["kind"], tuple(column["shape"])
    dtype, number = np.dtype(column["dtype"]), math.prod(shape)
    if kind == "bits":
        bits = np.unpackbits(np.frombuffer(raw, np.uint8), count=number)
        return bits.astype(np.bool_).reshape(shape)
    if kind == "plain":
        return _from_planes(raw, dtype).reshape(shape)
    if len(kind) == 1:
        return _unfolded(raw, kind[0]).reshape(shape).astype(dtype)
    first = min(number, shape[1]) * kind[0]
    values = np.concatenate((_unfolded(raw[:first], kind[0]), _unfolded(raw[first:], kind[1])))
    return np.cumsum(values.reshape(shape), axis=0).astype(dtype)


def _from_planes(raw: bytes, dtype: np.dtype[Any]) -> NDArray[Any]:
    planes = np.frombuffer(raw, np.uint8).reshape(dtype.itemsize, -1)
    return np.ascontiguousarray(planes.T).reshape(-1).view(dtype)


def _unfolded(raw: bytes, width: int) -> Int64:
    folded = _from_planes(raw, np.dtype(f"<u{width}")).astype(np.uint64)
    values: Int64 = (folded >> np.uint64(1)).view(np.int64) ^ -(folded & np.uint64(1)).view(
        np.int64
    )
    return values


# files


def encode(
    header: Mapping[str, object], parts: Iterable[Packed], *, version: int = FORMAT
) -> bytes:
    """The whole file. `header` says what the checkpoint is of."""
    parts = list(parts)
    head = orjson.dumps({**header, "format": version, "parts": [part.columns for part in parts]})
    length = len(head).to_bytes(_LENGTH_BYTES, "big")
    whole = b"".join((_MAGIC, length, head, *(part.data for part in parts)))
    return whole + blake2b(whole, digest_size=_DIGEST_BYTES).digest()


def seal(whole: bytes) -> bytes:
    """The checksum of a file."""
    return whole[-_DIGEST_BYTES:]


def decode(whole: bytes) -> tuple[Mapping[str, Any], bytes]:
    """The header, and the columns that it describes.

    Raises:
        UnusableError: it is damaged, or of another format.
    """
    if not whole.startswith(_MAGIC):
        raise OddFileError("the file is not a checkpoint" if whole else "the file is empty")
    start = len(_MAGIC) + _LENGTH_BYTES
    end = start + int.from_bytes(whole[len(_MAGIC) : start], "big")
    intact = blake2b(whole[:-_DIGEST_BYTES], digest_size=_DIGEST_BYTES).digest()
    if intact != whole[-_DIGEST_BYTES:]:
        raise OddFileError("the file is damaged: its checksum is wrong")
    header: Mapping[str, Any] = orjson.loads(whole[start:end])
    if header["format"] != FORMAT:
        raise UnusableError(
            f"its format is {header['format']}, of lagwatch {header.get('lagwatch')}; "
            f"this is format {FORMAT}"
        )
    return header, whole[end:-_DIGEST_BYTES]


def unpack(header: Mapping[str, Any], body: bytes) -> list[Part]:
    """The columns."""
    parts: list[Part] = []
    place = 0
    for columns in header["parts"]:
        part = {}
        for column in columns:
            part[column["name"]] = _unpack(column, body[place : place + column["bytes"]])
            place += column["bytes"]
        parts.append(part)
    return parts


class CheckpointFile:
    """The file of one cluster. For any thread; writes take place one after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._written = 0

    def read(self) -> bytes:
        """All of it.

        Raises:
            UnusableError: there is none, or it cannot be read.
        """
        try:
            return self.path.read_bytes()
        except FileNotFoundError as error:
            raise UnusableError("there is none yet") from error
        except OSError as error:
            raise OddFileError(f"it cannot be read: {error.strerror or error}") from error

    def write(self, whole: bytes, number: int) -> bool:
        """Write the file durably; False if skipped: `number` is below that of the last write.

        Raises:
            OSError: the folder cannot be made or written to.
        """
        with self._lock:
            if number <= self._written:
                return False
            folder = self.path.parent
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            beside = folder / f".{self.path.name}.tmp"
            beside.unlink(missing_ok=True)  # left by a process that was killed
            try:
                _write(beside, whole)
                beside.replace(self.path)
            except OSError:
                with suppress(OSError):
                    beside.unlink(missing_ok=True)
                raise
            _sync_folder(folder)
            self._written = number
            return True


def _write(path: Path, whole: bytes) -> None:
    # names of groups and topics are in it: for the owner only
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(whole)
        stream.flush()
        os.fsync(stream.fileno())


def _sync_folder(folder: Path) -> None:
    """The rename is on disk only when the folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

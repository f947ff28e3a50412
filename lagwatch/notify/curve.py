"""A curve as a small PNG, drawn with numpy and zlib alone."""

import struct
import zlib
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

WIDTH: Final = 480
HEIGHT: Final = 120
_MARGIN: Final = 6
_LINE: Final = (192, 57, 43)
_FILL: Final = (248, 222, 219)
_GRID: Final = (225, 228, 232)

Pixels = NDArray[np.uint8]


def png(points: Sequence[tuple[int, int]]) -> bytes | None:
    """The curve through (instant in ms, value) points, oldest first; None of fewer than two.

    The vertical axis begins at 0; the grid lines are at 0, half and the greatest value.
    """
    if len(points) < 2:  # noqa: PLR2004 a line has two ends
        return None
    times = np.array([at_ms for at_ms, _ in points], np.float64)
    values = np.array([value for _, value in points], np.float64)
    return _encoded(_drawn(times, values))


def _drawn(times: NDArray[np.float64], values: NDArray[np.float64]) -> Pixels:
    pixels: Pixels = np.full((HEIGHT, WIDTH, 3), 255, np.uint8)
    inner = HEIGHT - 2 * _MARGIN
    columns = np.arange(_MARGIN, WIDTH - _MARGIN)
    at = np.linspace(times[0], times[-1], len(columns))
    curve = np.interp(at, times, values) / max(float(values.max()), 1.0)
    heights = np.round((1 - curve) * (inner - 1)).astype(np.int64) + _MARGIN
    rows = np.arange(HEIGHT)[:, None]
    under = (rows >= heights[None, :]) & (rows < HEIGHT - _MARGIN)
    before = np.concatenate([heights[:1], heights[:-1]])
    top, bottom = np.minimum(heights, before), np.maximum(heights, before)
    line = (rows >= top[None, :] - 1) & (rows <= bottom[None, :] + 1)
    area = pixels[:, columns]
    area[under] = _FILL
    for share in (0.0, 0.5, 1.0):
        area[round(_MARGIN + share * (inner - 1))] = _GRID
    area[line] = _LINE
    pixels[:, columns] = area
    return pixels


def _encoded(pixels: Pixels) -> bytes:
    """Source: the PNG specification, RFC 2083: 8 bits, RGB, no filter."""
    height, width, _ = pixels.shape
    raw = np.zeros((height, 1 + width * 3), np.uint8)
    raw[:, 1:] = pixels.reshape(height, width * 3)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(raw.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

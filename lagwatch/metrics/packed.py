"""A long text, held compressed: of 60 MB of metrics there is never more than a piece in memory."""

import zlib
from collections.abc import Iterable, Iterator
from typing import Final

_FAST: Final = 1
"""Level of compression: higher ones save a tenth and cost three times as much."""
_GZIP: Final = 16 + zlib.MAX_WBITS
_PIECE_BYTES: Final = 256 * 1024


class Packed:
    """Text as gzip; takes all pieces at once, so it is whole or never comes to be."""

    def __init__(self, pieces: Iterable[str]) -> None:
        self.size_bytes = 0
        """Of the text itself, as UTF-8."""
        self.zipped = tuple(self._pack(pieces))

    @property
    def zipped_size_bytes(self) -> int:
        return sum(map(len, self.zipped))

    def _pack(self, pieces: Iterable[str]) -> Iterator[bytes]:
        packer = zlib.compressobj(_FAST, zlib.DEFLATED, _GZIP)
        for piece in pieces:
            encoded = piece.encode()
            self.size_bytes += len(encoded)
            if packed := packer.compress(encoded):
                yield packed
        yield packer.flush()

    def plain(self) -> Iterator[bytes]:
        """The text, in pieces of moderate size."""
        unpacker = zlib.decompressobj(_GZIP)
        for packed in self.zipped:
            waiting = packed
            while waiting:
                yield unpacker.decompress(waiting, _PIECE_BYTES)
                waiting = unpacker.unconsumed_tail
        yield unpacker.flush()

"""A metric: its name, kind, unit and labels, and the text of its lines."""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum
from itertools import chain, islice, repeat
from typing import Final


class MetricKind(StrEnum):
    """How the values of a metric move."""

    GAUGE = "gauge"
    COUNTER = "counter"
    """Only grows, from zero at the start of the process; its name ends in `_total`."""
    INFO = "info"
    """Always 1: the information is in its labels; its name ends in `_info`."""
    HISTOGRAM = "histogram"
    """How often a value was at most so much; written as NAME_bucket, NAME_sum and NAME_count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric family."""

    name: str
    labels: tuple[str, ...]
    help: str
    """One line, without backslashes and quotation marks."""
    kind: MetricKind = MetricKind.GAUGE
    unit: str = ""
    """Last word of the name: messages, seconds, bytes, ratio; "" where there is none."""
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram, without infinity."""

    @property
    def family(self) -> str:
        """The name without the suffix of its kind: what OpenMetrics calls it."""
        match self.kind:
            case MetricKind.COUNTER:
                return self.name.removesuffix("_total")
            case MetricKind.INFO:
                return self.name.removesuffix("_info")
            case _:
                return self.name


_LINES_AT_ONCE: Final = 5000


class Format(Enum):
    """A text format; the value is its content type."""

    PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


END_OF_OPENMETRICS: Final = "# EOF\n"


def header(metric: Metric, form: Format) -> str:
    """The HELP and TYPE lines of a metric."""
    if form is Format.PROMETHEUS:
        kind = MetricKind.GAUGE if metric.kind is MetricKind.INFO else metric.kind
        return f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {kind}\n"
    family = metric.family
    unit = f"# UNIT {family} {metric.unit}\n" if metric.unit else ""
    return f"# TYPE {family} {metric.kind}\n{unit}# HELP {family} {metric.help}\n"


def lines(name: str, labels: Iterable[str], values: Iterable[float]) -> Iterator[str]:
    """One line for each of the labels (open at their end), some thousands at a time."""
    # every step runs in C: this is what makes a scrape of 100,000 partitions cheap
    pieces = chain.from_iterable(
        zip(repeat(name), labels, repeat("} "), map(repr, values), repeat("\n"))
    )
    while text := "".join(islice(pieces, _LINES_AT_ONCE * 5)):
        yield text


_FAST: Final = 1
"""Level of compression: higher ones save a tenth and cost three times as much."""
_GZIP: Final = 16 + zlib.MAX_WBITS
_PIECE_BYTES: Final = 256 * 1024


class GzipText:
    """Text as gzip; takes all pieces at once, so the answer is always complete."""

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

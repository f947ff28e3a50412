"""Positions in the offset log of a Spark Structured Streaming query.

Source: Spark's `OffsetSeqLog` (one line with the version, one with metadata, then one JSON per
source: v1 in their order, v2 behind the id of the source) and `JsonUtils.partitionOffsets` of its
Kafka source: `{"topic": {"partition": offset}}`, the offset is the next one to be read.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from lagwatch.errors import ProgressError

_VERSIONS: Final = frozenset({"v1", "v2"})
_BEFORE_SOURCES: Final = 2
"""Lines before those of the sources: version and metadata."""
_NONE: Final = "-"
"""A source that has not begun to read."""


def positions(text: str) -> dict[str, dict[int, int]]:
    """Topic → partition → next offset after a batch, of all sources that read Kafka.

    Where two sources read the same partition it is the one that is further behind.

    Raises:
        ProgressError: the text is cut short, of another version, or no source reads Kafka.
    """
    lines = text.split("\n")
    version = lines[0].strip()
    if not version or len(lines) <= _BEFORE_SOURCES:
        raise ProgressError("it is cut short: it has no line for a source")
    if version not in _VERSIONS:
        raise ProgressError(
            f"its version is {version[:20]!r}, and lagwatch reads v1 and v2: is it the folder of "
            "a checkpoint of Structured Streaming?"
        )
    sources = list(_sources(lines[_BEFORE_SOURCES:], version))
    found = _merged(source for source in map(_of_kafka, sources) if source is not None)
    if not found and sources:
        raise ProgressError(
            'no source of the query reads Kafka: their offsets are not {"topic": {"partition": '
            "offset}}"
        )
    if not found:
        raise ProgressError("no source of the query has begun to read")
    return found


def _sources(lines: Iterable[str], version: str) -> Iterator[object]:
    """The offset of each source that has one."""
    for line in lines:
        offset = (line.partition(":")[2] if version == "v2" else line).strip()
        if not offset or offset == _NONE:
            continue
        try:
            yield json.loads(offset)
        except ValueError as error:
            raise ProgressError("the offset of a source is no JSON: it is cut short") from error


def _of_kafka(offset: object) -> Mapping[str, Mapping[int, int]] | None:
    """The positions of a source; None: it does not read Kafka."""
    if not isinstance(offset, dict) or not offset:
        return None
    found: dict[str, dict[int, int]] = {}
    for topic, partitions in offset.items():
        if not isinstance(partitions, dict) or not all(map(str.isdecimal, partitions)):
            return None
        if not all(type(each) is int for each in partitions.values()):
            return None
        # -1 and -2 are words of the options, for the latest and the earliest: no positions
        found[topic] = {int(part): each for part, each in partitions.items() if each >= 0}
    return found


def _merged(sources: Iterable[Mapping[str, Mapping[int, int]]]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for source in sources:
        for topic, partitions in source.items():
            known = found.setdefault(topic, {})
            for partition, offset in partitions.items():
                known[partition] = min(offset, known.get(partition, offset))
    return found

"""Reads all indices and counts records, duplicates, foreign documents and unreadable indices."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from elasticsearch import Elasticsearch

from lagwatch.clock import SystemClock
from lagwatch.core.record import SCHEMA_VERSION, Kind, Records, record_ids, schema
from lagwatch.errors import HistoryError
from lagwatch.history.elastic.documents import FIRST_VERSION, rows_of
from lagwatch.history.elastic.faults import reported
from lagwatch.history.elastic.indices import (
    NOT_OURS,
    foreign_mappings,
    holdings,
    index_name,
    red_indices,
)
from lagwatch.history.elastic.search import EVERYTHING, Json, Searcher
from lagwatch.history.recorded import Recorded, rows_of_partitions
from lagwatch.ports.history import ReportProgress, Verification

_NOT_OURS: Final = "not a row of ours"


@dataclass(slots=True)
class _Found:
    rows: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(Kind, 0))
    duplicates: int = 0
    foreign: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By index and reason."""
    torn: list[str] = field(default_factory=list)
    recorded: Recorded = field(default_factory=lambda: Recorded(SystemClock().now_ms()))


def verify(
    searcher: Searcher, client: Elasticsearch, *, prefix: str, progress: ReportProgress | None
) -> Verification:
    """Read every document of our indices.

    Raises:
        HistoryError: the cluster did not answer.
    """
    found = _Found()
    held = {kind: dict(holdings(client, kind, prefix=prefix)) for kind in Kind}
    for kind, indices in held.items():
        for name in sorted(red_indices(client, kind, prefix=prefix)):
            indices.pop(name, None)
            found.torn.append(f"{name}: a shard is not assigned to any node")
        for name in foreign_mappings(client, kind, prefix=prefix):
            indices.pop(name, None)
            found.torn.append(f"{name} {NOT_OURS}")
    total = sum(index.rows for indices in held.values() for index in indices.values())
    done = 0
    for kind, indices in held.items():
        for index in indices:
            with reported(f"refresh {index}", prefix=prefix):  # a moment ago counts, too
                client.indices.refresh(index=index, ignore_unavailable=True)
            for rows in _verify_index(searcher, kind, index, found, prefix):
                done += rows
                if progress is not None:
                    progress(done, max(done, total))
    return Verification(
        rows=found.rows,
        duplicates=found.duplicates,
        gaps=tuple(found.recorded.gaps()),
        torn=tuple(found.torn),
        foreign=tuple(
            f"{index}: {count} documents: {reason}"
            for (index, reason), count in sorted(found.foreign.items())
        ),
        leftovers=(),
        missing=tuple(found.recorded.missing()),
    )


def _verify_index(
    searcher: Searcher, kind: Kind, index: str, found: _Found, prefix: str
) -> Iterator[int]:
    """Read one index in the order of time; yields how many documents a page held."""
    here: set[str] = set()
    here_ms = -1
    columns = tuple(schema(kind))
    for hits in searcher.scan(index, EVERYTHING, sort=kind.time_column, ids=True):
        ours, rows = _ours(kind, hits, columns, found, prefix)
        # rows with the same key are of the same instant, so they come one after another
        new = np.zeros(rows.size, np.bool_)
        for place, (identity, at_ms) in enumerate(zip(ours, rows.at_ms().tolist(), strict=True)):
            if at_ms != here_ms:
                here, here_ms = set(), at_ms
            new[place] = identity not in here
            here.add(identity)
        found.rows[kind] += int(new.sum())
        found.duplicates += int((~new).sum())
        _note(rows.take(new), found)
        yield len(hits)


def _ours(
    kind: Kind, hits: Sequence[Json], columns: Sequence[str], found: _Found, prefix: str
) -> tuple[list[str], Records]:
    """Rows of a page that have lagwatch's columns, with the document ids made from their keys."""
    hits = [hit for hit in hits if _readable(kind, hit, found)]
    try:
        rows = rows_of(kind, [hit["_source"] for hit in hits], columns)
    except HistoryError:
        hits = [hit for hit in hits if _has_values(kind, hit, columns, found)]
        rows = rows_of(kind, [hit["_source"] for hit in hits], columns)
    ids = record_ids(rows)
    for hit, identity, at_ms in zip(hits, ids, rows.at_ms().tolist(), strict=True):
        if hit["_index"] != index_name(prefix, kind, at_ms):
            found.foreign[hit["_index"], "of a time that belongs into another index"] += 1
        elif hit["_id"] != identity:
            found.foreign[hit["_index"], "the id is not that of the row"] += 1
    return ids, rows


def _readable(kind: Kind, hit: Json, found: _Found) -> bool:
    source = hit["_source"]
    reason = ""
    version = source.get("schema_version", FIRST_VERSION)
    if not isinstance(source.get(kind.time_column), int) or not isinstance(version, int):
        reason = _NOT_OURS
    elif version > SCHEMA_VERSION:
        reason = f"schema version {version}; this release knows up to {SCHEMA_VERSION}"
    if reason:
        found.foreign[hit["_index"], reason] += 1
    return not reason


def _has_values(kind: Kind, hit: Json, columns: Sequence[str], found: _Found) -> bool:
    try:
        rows_of(kind, [hit["_source"]], columns)
    except HistoryError:
        found.foreign[hit["_index"], _NOT_OURS] += 1
        return False
    return True


def _note(rows: Records, found: _Found) -> None:
    cluster = rows.text("cluster")
    for code in np.unique(cluster.codes).tolist():
        if code >= 0:
            name, here = cluster.words[code], rows.take(cluster.codes == code)
            found.recorded.add_rounds(name, here)
            found.recorded.add_rows(name, rows.kind, here.at_ms(), rows_of_partitions(here))

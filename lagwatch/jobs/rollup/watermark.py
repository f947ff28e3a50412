"""What has been rolled up, so that a run does only what is new or has changed.

Parquet: the names of the raw files that were there, by slot. An unknown file re-opens the time of
its rows; one that only takes the place of known files (compaction) does not. Elasticsearch: how
many rows each five minutes hold, by source. Besides, buckets that were not over last time are due.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from lagwatch.core.record import Kind
from lagwatch.core.record.columns import ROLLUP_STEP_MS
from lagwatch.history.layout import Slot
from lagwatch.history.parquet import ParquetStore
from lagwatch.jobs.rollup.elastic import bucket_counts, elastic, refresh
from lagwatch.jobs.rollup.units import Range, Ranges, union
from lagwatch.ports.history import HistoryStore

RAW: Final = (Kind.SAMPLES, Kind.GROUP_SAMPLES, Kind.EVENTS)
_STEP_MS: Final = ROLLUP_STEP_MS[Kind.ROLLUP_5M]

Mark = dict[str, Any]
"""What is remembered of one cluster; JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The raw rows of a cluster as they are now."""

    held: Ranges
    """Where there are samples, of partitions or groups; at least five minutes each."""
    changed: Ranges
    """Where rows came since the mark was made."""
    mark: Mark
    """To be remembered once all that is rolled up."""


class Watch(Protocol):
    """Tells what has changed in a store."""

    def clusters(self) -> tuple[str, ...]:
        """Clusters of which there are raw rows."""
        ...

    def look(self, cluster: str, mark: Mark) -> Seen:
        """Compare with what was remembered; {} when nothing was."""
        ...


def watch(store: HistoryStore) -> Watch:
    """The one for a store."""
    if isinstance(store, ParquetStore):
        return FileWatch(store)
    return CountWatch(store)


class FileWatch:
    """Watches the files of a Parquet store."""

    def __init__(self, store: ParquetStore) -> None:
        self._store = store

    def clusters(self) -> tuple[str, ...]:
        return tuple(sorted({name for kind in RAW for name in self._store.clusters_of(kind)}))

    def look(self, cluster: str, mark: Mark) -> Seen:
        known: Mapping[str, Sequence[str]] = mark.get("files", {})
        files: dict[str, list[str]] = {}
        held: list[Range] = []
        changed: list[Range] = []
        for kind in RAW:
            for slot, listed in self._store.stored_slots(kind, cluster).items():
                before = frozenset(known.get(slot.path, ()))
                now: set[str] = set()
                for footer in self._store.footers(slot, listed):
                    now |= {footer.file.name, *footer.replaces}
                    if kind is not Kind.EVENTS:
                        held.append((slot.from_ms, slot.to_ms))
                    if not _is_known(footer.file.name, footer.replaces, before):
                        changed.append(_range(footer.first_ms, footer.last_ms, slot))
                files[slot.path] = sorted(now)
        return Seen(held=union(held), changed=union(changed), mark={"files": files})


def _is_known(name: str, replaces: frozenset[str], before: frozenset[str]) -> bool:
    return name in before or (bool(replaces) and replaces <= before)


def _range(first_ms: int | None, last_ms: int | None, slot: Slot) -> Range:
    if first_ms is None or last_ms is None:
        return slot.from_ms, slot.to_ms
    return first_ms, last_ms + 1


class CountWatch:
    """Watches the numbers of documents in an Elasticsearch store."""

    def __init__(self, store: HistoryStore) -> None:
        self._store = elastic(store)

    def clusters(self) -> tuple[str, ...]:
        for kind in RAW:
            refresh(self._store, kind)  # what was written a moment ago counts, too
        return self._store.clusters()

    def look(self, cluster: str, mark: Mark) -> Seen:
        known: Mapping[str, Mapping[str, Any]] = mark.get("counts", {})
        counts: dict[str, Mapping[str, Mapping[str, int]]] = {}
        held: list[Range] = []
        changed: list[Range] = []
        for kind in RAW:
            before = known.get(kind.value, {})
            now = counts[kind.value] = bucket_counts(self._store, kind, cluster)
            buckets = [(int(begin), int(begin) + _STEP_MS) for begin in now]
            if kind is not Kind.EVENTS:
                held += buckets
            changed += [one for one in buckets if before.get(str(one[0])) != now[str(one[0])]]
        return Seen(held=union(held), changed=union(changed), mark={"counts": counts})

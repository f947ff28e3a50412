"""Checks a store: gaps, duplicates, torn and foreign files."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lagwatch.core.record import KINDS, Kind, Records, SampleReason, is_word, schema
from lagwatch.core.rollup import rows_written
from lagwatch.core.words import counted
from lagwatch.history.folder import StoredFile
from lagwatch.history.layout import HOUR_MS, Slot, is_data, slot_of
from lagwatch.history.parquet_file import Footer, ForeignFileError, read_footer, read_rows, torn
from lagwatch.history.parquet_slots import ParquetSlots
from lagwatch.history.rows import key_hashes
from lagwatch.ports.history import HistoryGap, ReportProgress, Verification

Int64 = NDArray[np.int64]

_NEVER = 1 << 40
"""An hour that does not come."""
_ROUNDS = (Kind.SAMPLES, Kind.GROUP_SAMPLES)
_LATE = 1.5
"""Rounds further apart than this many intervals have a gap between them."""


class RoundTimes:
    """The instants at which there were regular rounds, gathered from rows in any order."""

    def __init__(self) -> None:
        self._interval_of: dict[int, int] = {}
        self._samples = np.zeros(0, np.int64)

    def add(self, records: Records) -> None:
        """Take the instants of regular samples; rows of other kinds say nothing."""
        if records.kind not in _ROUNDS:
            return
        regular = records.take(is_word(records.text("reason"), SampleReason.INTERVAL))
        instants, first = np.unique(regular.at_ms(), return_index=True)
        if records.kind is Kind.GROUP_SAMPLES:
            intervals = regular.numbers("interval_ms")[first]
            self._interval_of.update(zip(instants.tolist(), intervals.tolist(), strict=True))
        else:
            self._samples = np.union1d(self._samples, instants)

    @property
    def first_hour(self) -> int | None:
        """Of which there are rounds of groups."""
        first_ms = min(self._interval_of, default=None)
        return None if first_ms is None else first_ms // HOUR_MS

    def without_groups(self) -> Int64:
        """Instants of which there are rows of partitions, and none of groups."""
        rounds = np.fromiter(self._interval_of, np.int64, len(self._interval_of))
        return np.setdiff1d(self._samples, rounds)

    def sorted(self) -> tuple[Int64, Int64]:
        """Instants, rising, and the interval in force at each, in ms.

        Without samples of groups, those of partitions are used, with their most common distance.
        """
        if self._interval_of:
            rounds = sorted(self._interval_of.items())
            return (
                np.array([at_ms for at_ms, _ in rounds], np.int64),
                np.array([interval_ms for _, interval_ms in rounds], np.int64),
            )
        usual = np.median(np.diff(self._samples)) if self._samples.size > 1 else 0
        return self._samples, np.full(self._samples.size, usual, np.int64)


def gaps(cluster: str, rounds: RoundTimes) -> Iterator[HistoryGap]:
    """The times between rounds that are too far apart, in order."""
    at_ms, interval_ms = rounds.sorted()
    for index in np.flatnonzero(np.diff(at_ms) > interval_ms[:-1] * _LATE).tolist():
        yield HistoryGap(cluster=cluster, from_ms=int(at_ms[index]), to_ms=int(at_ms[index + 1]))


_IGNORED = frozenset({"_SUCCESS", "_metadata", "_common_metadata"})
"""Names of marker files that other writers of Parquet leave."""


@dataclass(slots=True)
class _Found:
    rows: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    duplicates: int = 0
    repeated: int = 0
    torn: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    rounds: dict[str, RoundTimes] = field(default_factory=dict)
    partition_rows: dict[str, "_PartitionRows"] = field(default_factory=dict)


class _PartitionRows:
    """Regular rows of partitions of one cluster by hour: what was written, and what is there."""

    def __init__(self) -> None:
        self._written: dict[int, int] = {}
        self._there: dict[int, int] = {}

    def add(self, kind: Kind, at_ms: Int64, number: Int64) -> None:
        """Distinct rows of a slot, with how many rows of partitions each of them stands for."""
        into = self._there if kind is Kind.SAMPLES else self._written
        hours, place = np.unique(at_ms // HOUR_MS, return_inverse=True)
        total = np.zeros(hours.size, np.int64)
        np.add.at(total, place, number)
        for each, count in zip(hours.tolist(), total.tolist(), strict=True):
            into[each] = into.get(each, 0) + count

    @property
    def first_hour(self) -> int | None:
        """Of which there are rows of partitions."""
        return min(self._there, default=None)

    def missing(self, first_hour: int) -> Iterator[tuple[int, int, int]]:
        """(hour, missing, written) from that hour on."""
        for hour, written in sorted(self._written.items()):
            there = self._there.get(hour, 0)
            if hour >= first_hour and there < written:
                yield hour, written - there, written


def verify(store: ParquetSlots, progress: ReportProgress | None = None) -> Verification:
    """Read every file of the store.

    Raises:
        HistoryError: the store cannot be listed.
    """
    files = store.folder.files("")
    found = _Found()
    slots: dict[Slot, list[StoredFile]] = {}
    for file in files:
        if file.path.startswith("_") and "/" in file.path:
            continue  # what the jobs remember from run to run
        slot = slot_of(file.path)
        if file.name.startswith((".", "_")):
            if file.name not in _IGNORED and not file.name.endswith(".crc"):
                found.leftovers.append(file.path)
        elif slot is None or not is_data(file.name):
            found.foreign.append(f"{file.path}: not a file of this store")
        else:
            slots.setdefault(slot, []).append(file)
    done = 0
    for slot in sorted(slots):
        _verify_slot(store, slot, slots[slot], found)
        done += len(slots[slot])
        if progress is not None:
            progress(done, len(files))
    return Verification(
        rows=found.rows,
        duplicates=found.duplicates,
        repeated=found.repeated,
        gaps=tuple(_all_gaps(found)),
        torn=tuple(found.torn),
        foreign=tuple(found.foreign),
        leftovers=tuple(found.leftovers),
        missing=tuple(_all_missing(found)),
    )


def _all_gaps(found: _Found) -> Iterator[HistoryGap]:
    for cluster in sorted(found.rounds):
        yield from gaps(cluster, found.rounds[cluster])


def _all_missing(found: _Found) -> Iterator[str]:
    # retention deletes the earlier ones, of all clusters at the same time
    first_round = _least(each.first_hour for each in found.rounds.values())
    first_row = _least(each.first_hour for each in found.partition_rows.values())
    for cluster, rows in sorted(found.partition_rows.items()):
        alone = found.rounds[cluster].without_groups() // HOUR_MS
        for hour, instants in sorted(Counter(alone[alone >= first_round].tolist()).items()):
            yield f"{cluster}: {_hour(hour)}: those of groups at {counted(instants, 'instant')}"
        for hour, missing, written in rows.missing(first_row):
            yield f"{cluster}: {_hour(hour)}: {missing:,} of {written:,} of partitions"


def _least(hours: Iterable[int | None]) -> int:
    return min((each for each in hours if each is not None), default=_NEVER)


def _hour(hour: int) -> str:
    return f"{datetime.fromtimestamp(hour * HOUR_MS / 1000, UTC):%Y-%m-%dT%H:00Z}"


def _verify_slot(store: ParquetSlots, slot: Slot, files: list[StoredFile], found: _Found) -> None:
    footers = [footer for file in files if (footer := _whole(store, slot, file, found))]
    replaced = frozenset[str]().union(*(footer.replaces for footer in footers))
    live = [footer for footer in footers if footer.file.name not in replaced]
    found.leftovers += [footer.file.path for footer in footers if footer not in live]
    read = []
    for footer in live:
        of_file = list(_keys(store, slot, footer, found))
        if of_file:
            keys = np.concatenate([key for key, *_ in of_file])
            found.repeated += keys.size - np.unique(keys).size
            read += of_file
    if not read:
        return
    keys, at_ms, number = (np.concatenate(each) for each in zip(*read, strict=True))
    # of a row that two instances wrote, what the one says that wrote fewer
    order = np.lexsort((number, keys))
    first = order[np.append(True, np.diff(keys[order].astype(np.int64)) != 0)]
    found.rows[slot.kind] += first.size
    found.duplicates += keys.size - first.size
    if slot.kind in _ROUNDS:
        rows = found.partition_rows.setdefault(slot.cluster, _PartitionRows())
        rows.add(slot.kind, at_ms[first], number[first])


def _whole(store: ParquetSlots, slot: Slot, file: StoredFile, found: _Found) -> Footer | None:
    try:
        return read_footer(store.folder, file, slot.kind)
    except FileNotFoundError:
        return None  # compacted meanwhile
    except ForeignFileError as error:
        found.foreign.append(str(error))
    except (pa.ArrowException, OSError) as error:
        found.torn.append(torn(error, file))
    return None


def _keys(
    store: ParquetSlots, slot: Slot, footer: Footer, found: _Found
) -> Iterator[tuple[NDArray[np.uint64], Int64, Int64]]:
    """Of the rows of a file: hash of the key, instant, and rows of partitions that were written.

    Reads all of it, to find torn pages.
    """
    columns = tuple(schema(slot.kind))
    for number in range(len(footer.groups)):
        try:
            rows = read_rows(store.folder, footer, slot, [number], columns)
        except FileNotFoundError:
            return
        except (pa.ArrowException, OSError) as error:
            found.torn.append(torn(error, footer.file))
            return
        times = found.rounds.setdefault(slot.cluster, RoundTimes())
        times.add(rows)
        yield key_hashes(rows), rows.at_ms(), _written(rows)


def _written(rows: Records) -> Int64:
    """How many regular rows of partitions each row stands for."""
    if rows.kind not in _ROUNDS:
        return np.zeros(rows.size, np.int64)
    regular = is_word(rows.text("reason"), SampleReason.INTERVAL)
    number = 1 if rows.kind is Kind.SAMPLES else rows_written(rows)
    return regular * number

"""Checks a store: gaps, duplicates, torn and foreign files."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lagwatch.core.record import KINDS, Kind, Records, SampleReason, schema
from lagwatch.history.folder import StoredFile
from lagwatch.history.layout import Slot, is_data, slot_of
from lagwatch.history.parquet_file import Footer, ForeignFileError, read_footer, read_rows, torn
from lagwatch.history.parquet_slots import ParquetSlots
from lagwatch.history.rows import is_word, key_hashes
from lagwatch.ports.history import HistoryGap, ReportProgress, Verification

Int64 = NDArray[np.int64]

_LATE = 1.5
"""Rounds further apart than this many intervals have a gap between them."""


class RoundTimes:
    """The instants at which there were regular rounds, gathered from rows in any order."""

    def __init__(self) -> None:
        self._interval_of: dict[int, int] = {}
        self._samples = np.zeros(0, np.int64)

    def add(self, records: Records) -> None:
        """Take the instants of regular samples; rows of other kinds say nothing."""
        if records.kind not in {Kind.GROUP_SAMPLES, Kind.SAMPLES}:
            return
        regular = records.take(is_word(records.text("reason"), SampleReason.INTERVAL))
        instants, first = np.unique(regular.at_ms(), return_index=True)
        if records.kind is Kind.GROUP_SAMPLES:
            intervals = regular.numbers("interval_ms")[first]
            self._interval_of.update(zip(instants.tolist(), intervals.tolist(), strict=True))
        else:
            self._samples = np.union1d(self._samples, instants)

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
    )


def _all_gaps(found: _Found) -> Iterator[HistoryGap]:
    for cluster in sorted(found.rounds):
        yield from gaps(cluster, found.rounds[cluster])


def _verify_slot(store: ParquetSlots, slot: Slot, files: list[StoredFile], found: _Found) -> None:
    footers = [footer for file in files if (footer := _whole(store, slot, file, found))]
    replaced = frozenset[str]().union(*(footer.replaces for footer in footers))
    live = [footer for footer in footers if footer.file.name not in replaced]
    found.leftovers += [footer.file.path for footer in footers if footer not in live]
    keys = []
    for footer in live:
        of_file = list(_keys(store, slot, footer, found))
        if of_file:
            keys.append(np.concatenate(of_file))
            found.repeated += keys[-1].size - np.unique(keys[-1]).size
    if not keys:
        return
    all_keys = np.concatenate(keys)
    distinct = np.unique(all_keys).size
    found.rows[slot.kind] += distinct
    found.duplicates += all_keys.size - distinct


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
) -> Iterator[NDArray[np.uint64]]:
    """Hashes of the keys of a file; reads all of it, to find torn pages."""
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
        yield key_hashes(rows)

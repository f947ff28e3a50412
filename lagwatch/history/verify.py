"""Checks a store: gaps, duplicates, torn and foreign files."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lagwatch.clock import SystemClock
from lagwatch.core.record import KINDS, Kind, schema
from lagwatch.history.folder import StoredFile
from lagwatch.history.layout import Slot, is_data, slot_of
from lagwatch.history.parquet_file import Footer, ForeignFileError, read_footer, read_rows, torn
from lagwatch.history.parquet_slots import ParquetSlots
from lagwatch.history.recorded import Recorded, rows_of_partitions
from lagwatch.history.rows import key_hashes
from lagwatch.ports.history import ReportProgress, Verification

Int64 = NDArray[np.int64]


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
    recorded: Recorded = field(default_factory=lambda: Recorded(SystemClock().now_ms()))


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
        gaps=tuple(found.recorded.gaps()),
        torn=tuple(found.torn),
        foreign=tuple(found.foreign),
        leftovers=tuple(found.leftovers),
        missing=tuple(found.recorded.missing()),
    )


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
    found.recorded.add_rows(slot.cluster, slot.kind, at_ms[first], number[first])


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
        found.recorded.add_rounds(slot.cluster, rows)
        yield key_hashes(rows), rows.at_ms(), rows_of_partitions(rows)

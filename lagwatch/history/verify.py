"""Reads everything in a Parquet store and counts what is there, twice, missing or torn."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lagwatch.core.record import KINDS, Kind, schema
from lagwatch.history.folder import StoredFile
from lagwatch.history.gaps import RoundTimes, gaps
from lagwatch.history.layout import Slot, is_data, slot_of
from lagwatch.history.parquet_file import Footer, ForeignFileError, read_footer, read_rows, torn
from lagwatch.history.parquet_slots import ParquetSlots
from lagwatch.history.rows import key_hashes
from lagwatch.ports import HistoryGap, Progress, Verification

_IGNORED = frozenset({"_SUCCESS", "_metadata", "_common_metadata"})
"""What other writers of Parquet leave."""


@dataclass(slots=True)
class _Found:
    rows: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    duplicates: int = 0
    torn: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    rounds: dict[str, RoundTimes] = field(default_factory=dict)


def verify(store: ParquetSlots, progress: Progress | None = None) -> Verification:
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
    keys = [key for footer in live for key in _keys(store, slot, footer, found)]
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
    """Hashes of the keys of a file, which is read whole to see whether it can be."""
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

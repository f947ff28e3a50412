"""Copies history from one store into another; an interrupted copy can be continued."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lagwatch.core.record import KINDS, Kind
from lagwatch.history.folder import reported, sync_folder
from lagwatch.history.layout import DAY_MS, Slot, day_start_ms, slots
from lagwatch.history.rows import digest, gathered, sort_unique
from lagwatch.ports.history import EVER_MS, HistoryRange, HistoryStore, ReportProgress

_BATCH_ROWS: Final = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What to copy."""

    kinds: tuple[Kind, ...] = KINDS
    clusters: tuple[str, ...] = ()
    """() means all."""
    from_ms: int = 0
    to_ms: int = EVER_MS


class Done:
    """The file that lists the hours and days already copied, so that a copy can be continued."""

    def __init__(self, file: Path) -> None:
        """Read what an earlier run of the same copy has done.

        Raises:
            HistoryError: the file cannot be read.
        """
        self._file = file
        with reported("read", file, store="copy"):
            text = file.read_text() if file.exists() else ""
        self._rows = {path: int(rows) for path, rows in map(json.loads, _whole_lines(text))}

    def rows(self, slot: Slot) -> int | None:
        """Number of rows copied from a finished slot; None if it is not finished."""
        return self._rows.get(slot.path)

    def add(self, slot: Slot, rows: int) -> None:
        """A slot is done.

        Raises:
            HistoryError: the file cannot be written.
        """
        with reported("write", self._file, store="copy"):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a") as file:
                file.write(json.dumps([slot.path, rows]) + "\n")
                file.flush()
                os.fsync(file.fileno())
            sync_folder(self._file.parent)
        self._rows[slot.path] = rows

    def forget(self) -> None:
        """Delete the file: the copy is complete."""
        self._file.unlink(missing_ok=True)
        self._rows.clear()


def _whole_lines(text: str) -> list[str]:
    """Lines that end with a line feed; a kill can leave a part of a line."""
    return text.split("\n")[:-1]


def copy(
    source: HistoryStore,
    target: HistoryStore,
    choice: Choice,
    *,
    done: Done | None = None,
    progress: ReportProgress | None = None,
) -> int:
    """Copy the chosen rows; returns how many. Rows that the target already has are not doubled.

    Raises:
        HistoryError: a store failed; the same call again goes on.
    """
    total = _expected(source, choice)
    copied = 0
    for slot in _slots(source, choice):
        before = done.rows(slot) if done is not None else None
        rows = _copy_slot(source, target, slot, choice) if before is None else before
        if done is not None and before is None:
            done.add(slot, rows)
        copied += rows
        if progress is not None:
            progress(copied, max(total, copied))
    if done is not None:
        done.forget()
    return copied


def _expected(source: HistoryStore, choice: Choice) -> int:
    return sum(
        stored.rows
        for stored in source.stats()
        if stored.kind in choice.kinds
        and (not choice.clusters or stored.cluster in choice.clusters)
    )


def _slots(source: HistoryStore, choice: Choice) -> Iterator[Slot]:
    for cluster in choice.clusters or source.clusters():
        for kind in choice.kinds:
            for day in source.days(kind, cluster):
                start_ms = day_start_ms(day)
                from_ms = max(start_ms, choice.from_ms)
                yield from slots(kind, cluster, from_ms, min(start_ms + DAY_MS, choice.to_ms))


def _copy_slot(source: HistoryStore, target: HistoryStore, slot: Slot, choice: Choice) -> int:
    wanted = HistoryRange(
        kind=slot.kind,
        cluster=slot.cluster,
        from_ms=max(slot.from_ms, choice.from_ms),
        to_ms=min(slot.to_ms, choice.to_ms),
    )
    rows = 0
    whole = wanted.from_ms == slot.from_ms and wanted.to_ms == slot.to_ms
    for number, part in enumerate(gathered(source.read(wanted), _BATCH_ROWS)):
        records, _ = sort_unique(part)
        # one batch for a slot: copying again, with more rows or not, takes its place
        few = number == 0 and records.size < _BATCH_ROWS and whole
        name = f"{slot.from_ms:013d}-copy" + ("" if few else f"-{digest(records)}")
        target.write([records], batch=name)
        rows += records.size
    return rows

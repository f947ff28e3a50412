"""Times in which a cluster was not recorded, kept on disk until their events are in the spool.

A gap becomes two events when it ends: `dropped` (or `failed`) at its first instant and `resumed` at
its end. The end is saved before the events: after a kill they are written again with the same
instants, and so remain one record each.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

import structlog

from lagwatch.core.record import EventName, Kind, Records, from_rows
from lagwatch.errors import HistoryError
from lagwatch.history.changes import event
from lagwatch.history.spool import Spool

_NOTE: Final = "pauses"

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """One cluster was not recorded."""

    cluster: str
    from_ms: int
    """The first round that was not recorded."""
    reason: str
    to_ms: int | None = None
    """The first round that was recorded again; None while it lasts."""
    word: str = "dropped"
    """The event at its beginning: data were stale, or else `failed`: they could not be written."""


class Pauses:
    """The gaps whose events are not in the spool yet; used from one thread."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._gaps = {(gap.cluster, gap.from_ms): gap for gap in _read(spool)}

    def all(self) -> Sequence[Pause]:
        """Open and ended gaps, oldest first."""
        return sorted(self._gaps.values(), key=lambda gap: gap.from_ms)

    def keep(self, gap: Pause) -> None:
        """Save that a gap began, or when it ended."""
        self._gaps[gap.cluster, gap.from_ms] = gap
        self._write()

    def drop(self, gaps: Sequence[Pause]) -> None:
        """Delete gaps whose events are in the spool."""
        for gap in gaps:
            self._gaps.pop((gap.cluster, gap.from_ms), None)
        self._write()

    def _write(self) -> None:
        data = json.dumps([asdict(gap) for gap in self._gaps.values()]).encode()
        try:
            self._spool.write_note(_NOTE, data)
        except HistoryError as error:  # the file matters only after a restart
            _log.warning("history_pause_not_noted", reason=str(error))


def ended(gap: Pause, to_ms: int) -> Pause:
    """The gap with its end."""
    return replace(gap, to_ms=to_ms)


def events(gaps: Sequence[Pause]) -> list[Records]:
    """Two rows for each gap that ended."""
    rows = [
        event(gap.cluster, at_ms, EventName.RECORDING, after=word, detail=gap.reason)
        for gap in gaps
        for at_ms, word in ((gap.from_ms, gap.word), (gap.to_ms, "resumed"))
        if at_ms is not None
    ]
    return [from_rows(Kind.EVENTS, rows)] if rows else []


def _read(spool: Spool) -> list[Pause]:
    try:
        found = json.loads(spool.read_note(_NOTE) or b"[]")
        return [_gap(entry) for entry in found]
    except (HistoryError, ValueError, KeyError, TypeError) as error:
        _log.warning("history_pauses_not_read", reason=str(error))
        return []


def _gap(entry: Mapping[str, object]) -> Pause:
    to_ms = entry["to_ms"]
    return Pause(
        cluster=str(entry["cluster"]),
        from_ms=int(str(entry["from_ms"])),
        reason=str(entry["reason"]),
        to_ms=None if to_ms is None else int(str(to_ms)),
        word=str(entry.get("word", "dropped")),
    )

"""A bounded queue of history rows on disk, between the recorder and the store.

One file per append, a *segment*: written beside its place, synced, renamed. Rows survive a kill at
any moment once `append` has returned. Segments are delivered in order, several at a time; the
*plan* on disk says which ones make the batch under way, so that a batch repeated after a kill has
the same name and the same rows.

    0000000000004711-100000-1795233600000-ab12.seg   number, rows, first instant, series of rounds
    state.json                                       id, what is acknowledged, plan, last rounds
"""

import fcntl
import json
import os
import re
import struct
import threading
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from lagwatch.core.record import KINDS, Records
from lagwatch.errors import HistoryError
from lagwatch.history.arrow import from_stream, to_stream
from lagwatch.history.folder import reported, sync_folder

_NAME: Final = "spool"
_MAGIC: Final = b"LWSEG01\n"
_HEAD: Final = struct.Struct("<8sIQ")
"""Magic, CRC-32 of what follows, its length."""
_PART: Final = struct.Struct("<BQ")
"""Kind by its position in `KINDS`, length of its Arrow stream."""
_SUFFIX: Final = ".seg"
_NAMED: Final = re.compile(r"(\d{16})-(\d+)-(\d+)-(\w*)\.seg")
_STATE: Final = "state.json"
_CLAIM: Final = "in-use"
_RESERVE: Final = "reserve"
_RESERVED_BYTES: Final = 65_536

_DAMAGE: Final = (FileNotFoundError, ValueError, struct.error, pa.ArrowException, IndexError)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Segment:
    """One append."""

    number: int
    rows: int
    first_ms: int
    """Instant of the first row."""
    series: str
    """Series of the round it holds, at `first_ms`; "" if it holds no round."""
    size_bytes: int

    @property
    def name(self) -> str:
        return f"{self.number:016d}-{self.rows}-{self.first_ms}-{self.series}{_SUFFIX}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """The content of `state.json`."""

    id: str
    acknowledged: int
    plan: tuple[int, ...]
    rounds: Mapping[str, int]
    """Series → instant of its last round that was acknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPlan:
    """The present batch: exactly these segments, until it is acknowledged."""

    segments: tuple[Segment, ...]
    batch: str
    """Names the batch for the store; sorts by time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """How full the spool is."""

    size_bytes: int
    segments: int
    rows: int
    oldest_ms: int | None


class Spool:
    """One folder, one process. `append` and the delivering side may run in different threads."""

    def __init__(self, folder: Path, *, max_bytes: int, spool_id: str) -> None:
        """Open or make the folder.

        `spool_id` is the permanent id of a new spool; an existing one keeps its own. Letters and
        digits.

        Raises:
            HistoryError: the folder cannot be used.
        """
        self._folder = folder
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        with reported("open", folder, store=_NAME):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # for its owner only
            self._claim = _claimed(folder)
            self._state = self._read_state(spool_id)
            found = self._scan()
            self._set_aside()
        done = self._state.acknowledged
        self._segments = {segment.number: segment for segment in found if segment.number > done}
        for segment in found:
            if segment.number <= done:
                self._remove(segment)
        self._next = max([*self._segments, done]) + 1
        planned = [self._segments.get(number) for number in self._state.plan]
        kept = tuple(entry for entry in planned if entry is not None)
        self._plan = self._as_plan(kept) if kept and len(kept) == len(planned) else None
        self._rounds = dict(self._state.rounds)
        for segment in self._segments.values():
            self._note_round(segment)

    # the recording side

    def last_round(self, series: str) -> int | None:
        """Instant of the last round of a series, delivered or not; None when there was none."""
        return self._rounds.get(series)

    def append(self, records: Iterable[Records], *, series: str = "") -> int:
        """Store these rows; returns how many older ones were dropped to make room.

        Parts are taken one by one, each once: they may be made as they are taken. `series`
        (letters and digits) says that they are a round, whose instant is their first.

        Raises:
            HistoryError: they are not kept: `disk_full`, `io`, or `rejected` when they are larger
                than the whole spool.
        """
        data, rows, first_ms = _encoded(records)
        if len(data) > self._max_bytes:
            raise HistoryError(
                store=_NAME,
                kind="rejected",
                message=f"one round takes {len(data)} bytes, the spool holds {self._max_bytes}. "
                "Raise history.spool_size_mb.",
                retryable=False,
            )
        with self._lock:
            dropped = self._make_room(len(data))
            segment = Segment(
                number=self._next,
                rows=rows,
                first_ms=first_ms,
                series=series,
                size_bytes=len(data),
            )
            # written before it is listed in memory: the list never names a file that is not there
            # there
            self._publish(segment.name, data)
            self._next += 1
            self._segments[segment.number] = segment
            self._note_round(segment)
        return dropped

    def _note_round(self, segment: Segment) -> None:
        if segment.series:
            last_ms = self._rounds.get(segment.series, segment.first_ms)
            self._rounds[segment.series] = max(last_ms, segment.first_ms)

    def _make_room(self, size_bytes: int) -> int:
        """Drop the oldest segments, except those of the present batch. Returns the rows dropped."""
        # a batch that is repeated must have the same rows, so its segments stay
        under_way = {segment.number for segment in self._plan.segments} if self._plan else set()
        held = sum(segment.size_bytes for segment in self._segments.values())
        dropped = 0
        for number in sorted(self._segments):
            if held + size_bytes <= self._max_bytes:
                break
            if number not in under_way:
                segment = self._segments.pop(number)
                self._remove(segment)
                held -= segment.size_bytes
                dropped += segment.rows
        return dropped

    def write_note(self, name: str, data: bytes) -> None:
        """Keep a small file beside the segments.

        Raises:
            HistoryError: it could not be written.
        """
        self._publish(f"{name}.note", data)

    def read_note(self, name: str) -> bytes | None:
        """The content of a note; None if there is no such file.

        Raises:
            HistoryError: it cannot be read.
        """
        path = self._folder / f"{name}.note"
        with suppress(FileNotFoundError), reported("read", path, store=_NAME):
            return path.read_bytes()
        return None

    # the delivering side

    def plan(self, *, max_rows: int) -> DeliveryPlan | None:
        """The next batch to deliver, oldest rows first; None when the spool is empty.

        The same plan again until `acknowledge` or `discard`, also after a restart.

        Raises:
            HistoryError: the plan cannot be made durable.
        """
        with self._lock:
            if self._plan is None and self._segments:
                chosen: list[Segment] = []
                rows = 0
                for number in sorted(self._segments):
                    segment = self._segments[number]
                    if chosen and rows + segment.rows > max_rows:
                        break
                    chosen.append(segment)
                    rows += segment.rows
                plan = self._as_plan(chosen)
                numbers = tuple(segment.number for segment in plan.segments)
                # before the first attempt: after a kill the same batch must get the same name again
                self._write_state(replace(self._state, plan=numbers))
                self._plan = plan
            return self._plan

    def load(self, segment: Segment) -> list[Records]:
        """The rows of a segment.

        Raises:
            HistoryError: `corrupt`, for ever; or `io`.
        """
        path = self._folder / segment.name
        try:
            with reported("read", path, store=_NAME):
                return _decoded(path.read_bytes())
        except _DAMAGE as error:
            with suppress(OSError):
                path.replace(path.with_name(f"{path.name}.damaged"))
            raise HistoryError(
                store=_NAME,
                kind="corrupt",
                message=f"{path} is damaged ({error}): {segment.rows} rows are lost. "
                "It is set aside under the same name with `.damaged`.",
                retryable=False,
            ) from error

    def acknowledge(self, plan: DeliveryPlan) -> None:
        """Delete the segments of the plan, because the store has all their rows.

        Raises:
            HistoryError: it cannot be made durable; deliver the same plan again.
        """
        with self._lock:
            last = max(segment.number for segment in plan.segments)
            self._write_state(
                replace(self._state, acknowledged=last, plan=(), rounds=dict(self._rounds))
            )
            self._plan = None
            # after the state: a kill in between leaves segments that the next start removes as
            # acknowledged
            for segment in plan.segments:
                self._segments.pop(segment.number, None)
                self._remove(segment)
            self._set_aside()

    def fill(self) -> Fill:
        """How full it is."""
        # without the lock, which `append` holds while it waits for the disk: a copy is at once
        held = list(self._segments.values())
        return Fill(
            size_bytes=sum(segment.size_bytes for segment in held),
            segments=len(held),
            rows=sum(segment.rows for segment in held),
            oldest_ms=min((segment.first_ms for segment in held), default=None),
        )

    def close(self) -> None:
        """Release the lock on the folder."""
        os.close(self._claim)

    # files

    def _as_plan(self, segments: Sequence[Segment]) -> DeliveryPlan:
        first, last = segments[0], segments[-1]
        batch = f"{first.first_ms:013d}-{self._state.id}-{first.number}-{last.number}"
        return DeliveryPlan(segments=tuple(segments), batch=batch)

    def _scan(self) -> list[Segment]:
        """The segments in the folder; unpublished files are deleted."""
        found = []
        for entry in os.scandir(self._folder):
            if entry.name.startswith("."):
                Path(entry.path).unlink(missing_ok=True)
            elif (segment := _segment(entry)) is not None:
                found.append(segment)
        return found

    def _read_state(self, spool_id: str) -> _State:
        path = self._folder / _STATE
        state: Mapping[str, object] = {}
        with suppress(FileNotFoundError, ValueError):
            state = json.loads(path.read_bytes())
        match state:
            case {
                "id": str(known),
                "acknowledged": int(acknowledged),
                "plan": list(plan),
                "rounds": dict(rounds),
            }:
                return _State(id=known, acknowledged=acknowledged, plan=tuple(plan), rounds=rounds)
            case _:
                new = _State(id=spool_id, acknowledged=0, plan=(), rounds={})
                self._write_state(new)
                return new

    def _write_state(self, state: _State) -> None:
        data = json.dumps(asdict(state)).encode()
        try:
            self._publish(_STATE, data)
        except HistoryError as error:
            if error.kind != "disk_full":
                raise
            # a plan needs a file, too: on a full disk nothing could be delivered, so it would stay
            # full
            (self._folder / _RESERVE).unlink(missing_ok=True)
            self._publish(_STATE, data)
        self._state = state

    def _set_aside(self) -> None:
        """Reserve some disk space for the state."""
        with suppress(HistoryError):
            if not (self._folder / _RESERVE).exists():
                self._publish(_RESERVE, bytes(_RESERVED_BYTES))

    def _publish(self, name: str, data: bytes) -> None:
        place = self._folder / name
        temporary = self._folder / f".{name}"
        with reported("write", place, store=_NAME):
            try:
                with temporary.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())  # before the rename: a crash must not leave it empty
                temporary.replace(place)
            except BaseException:
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)
                raise
            sync_folder(self._folder)  # the new name, too, is on disk only after this

    def _remove(self, segment: Segment) -> None:
        with reported("delete", self._folder / segment.name, store=_NAME):
            (self._folder / segment.name).unlink(missing_ok=True)


def _claimed(folder: Path) -> int:
    """Lock the folder against other processes; a kill frees it. Returns the open file.

    Raises:
        HistoryError: another process has it.
    """
    descriptor = os.open(folder / _CLAIM, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise HistoryError(
            store=_NAME,
            kind="io",
            message=f"{folder} is the spool of another lagwatch that runs. "
            "Set history.spool to a folder of its own.",
            retryable=True,
        ) from error
    return descriptor


def _segment(entry: os.DirEntry[str]) -> Segment | None:
    """The segment that a file name describes; None if it is not a segment."""
    parts = _NAMED.fullmatch(entry.name)
    return parts and Segment(
        number=int(parts[1]),
        rows=int(parts[2]),
        first_ms=int(parts[3]),
        series=parts[4],
        size_bytes=entry.stat().st_size,
    )


def _encoded(records: Iterable[Records]) -> tuple[bytes, int, int]:
    """The content of a segment, its rows, and the instant of the first one."""
    parts, rows, instants = [b""], 0, []
    for part in records:
        stream = to_stream(part)
        parts += [_PART.pack(KINDS.index(part.kind), len(stream)), stream]
        rows += part.size
        if part.size:
            instants.append(int(part.at_ms().min()))
    checksum = 0
    for each in parts:
        checksum = zlib.crc32(each, checksum)
    parts[0] = _HEAD.pack(_MAGIC, checksum, sum(map(len, parts)))
    return b"".join(parts), rows, min(instants, default=0)


def _decoded(data: bytes) -> list[Records]:
    magic, checksum, length = _HEAD.unpack_from(data)
    payload = memoryview(data)[_HEAD.size :]
    if magic != _MAGIC or len(payload) != length or zlib.crc32(payload) != checksum:
        raise ValueError("its checksum does not match")
    records = []
    at = 0
    while at < length:
        kind, size = _PART.unpack_from(payload, at)
        at += _PART.size
        records.append(from_stream(KINDS[kind], payload[at : at + size]))
        at += size
    return records

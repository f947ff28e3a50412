"""Keeps checkpoints of all clusters: read at the start, written at intervals and at the stop."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final

import structlog

from lagwatch import __version__
from lagwatch.clock import Clock
from lagwatch.config.settings import Settings
from lagwatch.core.words import duration
from lagwatch.errors import ConfigError, Fault
from lagwatch.lock_file import locked
from lagwatch.monitor.checkpoint import Slice, Slices, captured_since, restore
from lagwatch.monitor.checkpoint_file import (
    CheckpointFile,
    OddFileError,
    Packed,
    UnusableError,
    decode,
    encode,
    pack,
    seal,
    unpack,
)
from lagwatch.monitor.cluster import ClusterMonitor
from lagwatch.monitor.scaling import FollowedGroups

_OLDEST_MS: Final = 24 * 3_600_000
"""Kafka keeps tombstones for a day: an older checkpoint would not learn of every removal."""
_LOOK_S: Final = 5.0
"""Losses and new verdicts are looked for so often."""
_FUTURE_MS: Final = 60_000
_LOCK: Final = "lagwatch.lock"
_CLUSTER_OPTIONS: Final = (
    "offsets_topic",
    "commits",
    "start",
    "group_allow",
    "group_deny",
    "topic_allow",
    "topic_deny",
)
"""Options with which other commits would have been read."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OnDisk:
    """The file of a cluster as this process wrote it last."""

    slices: Slices
    """The rows in it."""
    places: Mapping[int, tuple[slice, Packed]]
    """First row of a slice → where it is in the body; its columns, without their data."""
    seal: bytes

    def packed(self, whole: bytes) -> dict[int, Packed]:
        """The slices, out of the file.

        Raises:
            UnusableError: it is damaged, or another one.
        """
        if seal(whole) != self.seal:
            raise UnusableError("it is not the one that was written")
        _, body = decode(whole)
        data = memoryview(body)
        return {
            first: replace(packed, data=data[place])
            for first, (place, packed) in self.places.items()
        }


class CheckpointKeeper:
    """One file per cluster in one folder. Its methods run on the monitors' event loop."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        monitors: Mapping[str, ClusterMonitor],
        scaling: FollowedGroups | None = None,
    ) -> None:
        """Nothing is read or written yet; without `checkpoint.path` nothing ever is.

        `monitors` may be given other ones for those that failed.
        """
        self._settings = settings
        self._clock = clock
        self._scaling = scaling
        self._monitors = monitors if settings.checkpoint.path else {}
        folder = Path(settings.checkpoint.path)
        self._files = {name: CheckpointFile(folder / f"{name}.checkpoint") for name in monitors}
        self._folder = folder
        self._lock: IO[bytes] | None = None
        self._kept: dict[str, tuple[int, ...]] = {}
        """Revision of each monitor that is on disk."""
        self._on_disk: dict[str, _OnDisk] = {}
        self._number = 0
        self._failed: dict[str, str] = {}
        """By cluster: why the last write failed."""
        self._odd: dict[str, str] = {}
        """By cluster: what is wrong with the file that was found and is not replaced yet."""

    @property
    def problem(self) -> str:
        """What could not be written, with the consequence and the remedy; "" if all was."""
        return "; ".join(
            f"the checkpoint of {name} cannot be written ({reason}): a restart would begin at the "
            f"last one; make room or make {self._folder.absolute()} writable"
            for name, reason in self._failed.items()
        )

    def found_odd(self, name: str) -> str:
        """Why the checkpoint of a cluster was damaged at the start, or not ours; "".

        Until the next one is written: then it is gone.
        """
        reason = self._odd.get(name)
        if reason is None:
            return ""
        file = self._files[name].path.absolute()
        return f"{file} was not used ({reason}): windows fill anew; see what damaged it"

    def hold(self) -> None:
        """Keep the folder to this process until `release`.

        A folder that cannot be made is no reason not to start: writing says what is wrong.

        Raises:
            ConfigError: another lagwatch uses it.
        """
        if not self._monitors:
            return
        try:
            self._lock = locked(self._folder / _LOCK)
        except BlockingIOError as error:
            raise ConfigError([_taken(self._folder)]) from error
        except OSError as error:
            _log.debug("checkpoint_not_locked", reason=error.strerror or str(error))

    def release(self) -> None:
        """Let another process use the folder."""
        if self._lock is not None:
            self._lock.close()

    async def restore(self, name: str) -> None:
        """Fill the monitor of a cluster, which must be new, if its checkpoint can be used."""
        if name not in self._monitors:
            return
        monitor, began_s = self._monitors[name], self._clock.monotonic_s()
        self._kept.pop(name, None)
        self._on_disk.pop(name, None)
        self._odd.pop(name, None)
        try:
            # nothing reports to a monitor yet: a thread may fill it
            at_ms = await asyncio.to_thread(self._restore, name, monitor)
        except OddFileError as error:
            self._odd[name] = str(error)
            _log.warning("checkpoint_not_used", cluster=name, reason=str(error))
            return
        except UnusableError as error:
            _log.info("checkpoint_not_used", cluster=name, reason=str(error))
            return
        _log.info(
            "checkpoint_restored",
            cluster=name,
            rows=monitor.windows.rows,
            age_s=round((self._clock.now_ms() - at_ms) / 1000, 1),
            took_s=round(self._clock.monotonic_s() - began_s, 2),
        )

    def _restore(self, name: str, monitor: ClusterMonitor) -> int:
        header, body = decode(self._files[name].read())
        self._demand_fit(name, header)
        topic = self._settings.clusters[name].offsets_topic
        restore(monitor, unpack(header, body), offsets_topic=topic)
        if self._scaling is not None:
            # absent in checkpoints of earlier versions
            self._scaling.restore(name, header.get("scaling", ()))
        return int(header["written_ms"])

    def _demand_fit(self, name: str, header: Mapping[str, Any]) -> None:
        age_ms = self._clock.now_ms() - header["written_ms"]
        if header["cluster"] != name:
            raise OddFileError(f"it is of cluster {header['cluster']}")
        if age_ms > _OLDEST_MS:
            raise UnusableError(f"it is {duration(age_ms / 1000)} old, more than a day")
        if age_ms < -_FUTURE_MS:
            raise UnusableError("it was written in the future: the clock was set back")
        for option, value in self._options(name).items():
            if header["options"].get(option) != value:
                raise UnusableError(f"{option} was {header['options'].get(option)!r} then")

    def _options(self, name: str) -> dict[str, object]:
        """Options that must be what they were."""
        cluster, settings = self._settings.clusters[name], self._settings
        return {
            "windows.intervals": settings.windows.intervals,
            "evaluator.rules": str(settings.evaluator.rules),
            **{f"clusters.{name}.{each}": getattr(cluster, each) for each in _CLUSTER_OPTIONS},
        }

    async def run(self) -> None:
        """Write at intervals until cancelled; once in each of them soon after news.

        A loss that is not in the checkpoint is not found again: the messages are gone by then. One
        whose acknowledgement is not in it is shown again. And a change of verdict that is not in it
        is found, and recorded, once more.
        """
        while True:
            happened, left_s = self._happened(), self._settings.checkpoint.interval_s
            early = False
            while left_s > 0:
                step_s = left_s if early else min(_LOOK_S, left_s)
                await self._clock.sleep(step_s)
                left_s -= step_s
                if not early and self._happened() > happened:
                    early = True
                    await self.write()
            await self.write()

    def _happened(self) -> int:
        return sum(monitor.happened for monitor in self._monitors.values())

    async def stop(self, within_s: float) -> None:
        """Write for the last time; what takes longer is given up, the file before it stays."""
        try:
            async with asyncio.timeout(within_s):
                await self.write()
        except TimeoutError:
            _log.warning("checkpoint_given_up", within_s=within_s)

    async def write(self) -> None:
        """Write those that changed."""
        for name in self._monitors:
            await self.write_of(name)

    async def write_of(self, name: str) -> None:
        """Write that of a cluster if it changed; a failure is logged and is in `problem`."""
        monitor = self._monitors.get(name)
        # before everything was known once, the file of the earlier process says more
        if monitor is None or not monitor.complete:
            return
        revision = monitor.revision
        if self._kept.get(name) == revision:
            return
        try:
            await self._write(name, monitor)
        except OSError as error:
            reason = error.strerror or str(error)
            if self._failed.get(name) != reason:
                _log.error(
                    "checkpoint_not_written",
                    cluster=name,
                    file=str(self._files[name].path.absolute()),
                    reason=reason,
                    remedy="make room, make the folder writable, or set checkpoint.path",
                )
            self._failed[name] = reason
        else:
            self._kept[name] = revision
            self._failed.pop(name, None)
            self._odd.pop(name, None)

    async def _before(
        self, name: str, on_disk: _OnDisk | None
    ) -> tuple[Slices, Mapping[int, Packed]]:
        """The rows that are on disk, to be written once more where they did not change."""
        if on_disk is not None:
            try:
                whole = await asyncio.to_thread(self._files[name].read)
                return on_disk.slices, await asyncio.to_thread(on_disk.packed, whole)
            except UnusableError as error:
                _log.debug("checkpoint_written_anew", cluster=name, reason=str(error))
        return Slices(), {}

    async def _write(self, name: str, monitor: ClusterMonitor) -> None:
        began_s = self._clock.monotonic_s()
        self._number += 1
        number = self._number
        header = {
            "lagwatch": __version__,
            "cluster": name,
            "written_ms": self._clock.now_ms(),
            "options": self._options(name),
            "scaling": [] if self._scaling is None else self._scaling.kept(name),
        }
        # taken out until it is true again: a write may fail, and another begin meanwhile
        on_disk = self._on_disk.pop(name, None)
        slices, before = await self._before(name, on_disk)
        parts, places, begin = [], {}, 0
        # a part is copied here, between two reports, and compressed in a thread
        for piece in captured_since(slices, monitor):
            part = piece.part if isinstance(piece, Slice) else piece
            if part is not None:
                packed = await asyncio.to_thread(pack, part)
            elif isinstance(piece, Slice) and piece.first in before:
                packed = before[piece.first]
            else:  # rows that are all free
                continue
            parts.append(packed)
            end = begin + len(packed.data)
            if isinstance(piece, Slice):
                places[piece.first] = slice(begin, end), replace(packed, data=b"")
            begin = end
        whole = await asyncio.to_thread(encode, header, parts)
        if await asyncio.to_thread(self._files[name].write, whole, number):
            self._on_disk[name] = _OnDisk(slices=slices, places=places, seal=seal(whole))
        _log.debug(
            "checkpoint_written",
            cluster=name,
            rows=monitor.windows.rows,
            size_bytes=len(whole),
            took_s=round(self._clock.monotonic_s() - began_s, 2),
        )


def _taken(folder: Path) -> Fault:
    return Fault(
        key="checkpoint.path",
        value=f'"{folder}"',
        problem="is used by another lagwatch that runs",
        remedy='Give each lagwatch a folder of its own, or "" for no checkpoints.',
    )

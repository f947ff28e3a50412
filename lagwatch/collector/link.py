"""The line between a collector process and the serving process, and the queue at its end.

Down the socket pair goes one `Assignment`, as JSON, so that secrets are neither in arguments nor in
the environment. Up come `Report`s, pickled: the sender is our own child, started by us.
"""

import asyncio
import os
import pickle
import socket
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from threading import Semaphore, Thread
from typing import Final

import orjson

from lagwatch.config import ClusterSettings
from lagwatch.ports.reports import Backlog, Commits, Report, SourceHealth, SourceKind

REFUSED_CONFIGURATION: Final = os.EX_CONFIG
"""Exit code of a collector whose client library refuses the configuration."""

_PICKLE_PROTOCOL: Final = 5
_SOCKET_BUFFER_BYTES: Final = 1_048_576
"""A few reports: the child may run ahead of a busy serving process, but not far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The cluster that a collector reads, and where it resumes."""

    cluster: str
    settings: ClusterSettings
    resume: Mapping[int, int] = field(default_factory=dict)
    """Offsets topic partition → next offset; empty: as `settings.start` says."""
    resume_id: str = ""
    """Id of the offsets topic that these are of; "" unknown."""
    watched: Collection[str] = ()
    """Groups that were watched before: whether they are gone or only hidden is to be found out."""
    log_level: str = "info"


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Ends for the serving process and for its child; inherited only when passed on."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER_BYTES)
    return ours, theirs


class ServingEnd:
    """The serving process's end."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._connection = Connection(os.dup(end.fileno()))

    def assign(self, assignment: Assignment) -> None:
        """Send the assignment, the only message to the child; a dead child is ignored."""
        message = orjson.dumps(
            {
                "cluster": assignment.cluster,
                "settings": assignment.settings.to_child(),
                "resume": {str(key): value for key, value in assignment.resume.items()},
                "resume_id": assignment.resume_id,
                "watched": [*assignment.watched],
                "log_level": assignment.log_level,
            }
        )
        with suppress(OSError):
            self._connection.send_bytes(message)

    def receive(self) -> Report | None:
        """Wait for the next report; None if the child is gone or `hang_up` was called."""
        try:
            report: Report = pickle.loads(self._connection.recv_bytes())  # noqa: S301 - our child's
        except (EOFError, OSError):
            return None
        return report

    def hang_up(self) -> None:
        """End a `receive` under way in another thread; the child takes it as its own end."""
        with suppress(OSError):
            # closing would not wake a thread that reads, and could free a descriptor in use
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Free both descriptors; for the thread that receives."""
        self._socket.close()
        self._connection.close()


class CollectorEnd:
    """The collector's end; not for two threads to send at once."""

    def __init__(self, descriptor: int) -> None:
        self._connection = Connection(descriptor)

    def assignment(self) -> Assignment:
        """Wait for the assignment.

        Raises:
            EOFError: the serving process is gone.
        """
        raw = orjson.loads(self._connection.recv_bytes())
        return Assignment(
            cluster=raw["cluster"],
            settings=ClusterSettings.from_child(raw["settings"]),
            resume={int(key): value for key, value in raw["resume"].items()},
            resume_id=raw["resume_id"],
            watched=tuple(raw["watched"]),
            log_level=raw["log_level"],
        )

    def send(self, report: Report) -> None:
        """Send a report; waits while the serving process has no time for it.

        Raises:
            OSError: the serving process is gone.
        """
        self._connection.send_bytes(pickle.dumps(report, protocol=_PICKLE_PROTOCOL))

    def wait_for_end(self) -> None:
        """Return when the serving process hangs up or dies."""
        try:
            while True:
                self._connection.recv_bytes()
        except (EOFError, OSError):
            return


_CAPACITY: Final = 8
"""Reports waiting here; when it is full the pipe fills up, and then the collector waits."""


READERS: Final = (SourceKind.OFFSETS_TOPIC, SourceKind.SHARE_STATE)
"""What is read with a consumer, which may hang in the client library."""


class Inbox:
    """A bounded queue that drops nothing."""

    def __init__(self, positions: Mapping[int, int] = {}, topic_id: str = "") -> None:
        """`positions`: how far the offsets topic of this id was read before."""
        self._reports: asyncio.Queue[tuple[Report, bool]] = asyncio.Queue()
        """(report, does it take room)"""
        self._room = Semaphore(_CAPACITY)
        self._positions = dict(positions)
        self.topic_id = topic_id
        """Id of the offsets topic that the positions are of; "" unknown."""
        self.received = 0
        """Reports received so far, those included that wait for room."""
        self.rounds: Counter[SourceKind] = Counter()
        """Rounds of each of `READERS` so far, well or not; each makes one a second."""
        self.reads: set[SourceKind] = set()
        """Those that the collector has; where it polls committed offsets, not that of commits."""
        self._has_room = True

    def positions(self) -> Mapping[int, int]:
        """Offsets topic partition → next offset after all that was ever put in here."""
        return dict(self._positions)

    async def get(self) -> Report:
        report, takes_room = await self._reports.get()
        if takes_room:
            self._room.release()
        return report

    @property
    def listens(self) -> bool:
        """True if this inbox waits for reports; False if it is full and the collector waits."""
        return self._has_room

    def put(self, report: Report) -> None:
        """Add a report of the serving process; there are few, so they never wait for room."""
        self._reports.put_nowait((report, False))

    async def fill(self, end: ServingEnd) -> None:
        """Take reports from a collector until it hangs up."""
        ended = asyncio.Event()
        thread = Thread(
            target=self._receive, args=(end, asyncio.get_running_loop(), ended), daemon=True
        )
        thread.start()
        try:
            await ended.wait()
        except asyncio.CancelledError:
            # unblocks `recv_bytes` in the thread, which no cancellation can reach
            end.hang_up()
            self._room.release()  # else it could wait for room for ever
            raise

    def _receive(
        self, end: ServingEnd, loop: asyncio.AbstractEventLoop, ended: asyncio.Event
    ) -> None:
        try:
            while (report := end.receive()) is not None:
                self._count(report)
                self._has_room = False
                self._room.acquire()
                self._has_room = True
                # an asyncio queue is not thread-safe
                loop.call_soon_threadsafe(self._add, report)
            loop.call_soon_threadsafe(ended.set)
        except RuntimeError:  # the event loop is closed: no task waits
            return
        finally:
            end.close()

    def _count(self, report: Report) -> None:
        self.received += 1
        if not isinstance(report, SourceHealth):
            return
        if report.source in READERS:
            self.reads.add(report.source)
            self.rounds[report.source] += 1
        elif report.source is SourceKind.COMMITTED:
            self.reads.discard(SourceKind.OFFSETS_TOPIC)

    def _add(self, report: Report) -> None:
        if isinstance(report, Commits):
            self._positions.update(report.positions)
        elif isinstance(report, Backlog) and report.topic_id not in ("", self.topic_id):
            if self.topic_id:
                self._positions.clear()
            self.topic_id = report.topic_id
        self._reports.put_nowait((report, True))

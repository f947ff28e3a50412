"""The line between a collector process and the serving process: a socket pair and its framing.

Down it goes once an `Assignment`, as JSON, so that secrets stand neither in arguments nor in the
environment. Up come `Report`s, pickled: the sender is our own child, started by us.
"""

import os
import pickle
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Final

import orjson

from lagwatch.config import ClusterSettings
from lagwatch.ports import Report

REFUSED_CONFIGURATION: Final = os.EX_CONFIG
"""Exit code of a collector whose client library refuses the configuration."""

_PICKLE_PROTOCOL: Final = 5
_SOCKET_BUFFER_BYTES: Final = 1_048_576
"""A few reports: the child goes on while the serving process looks elsewhere, but not far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a collector is to do."""

    cluster: str
    settings: ClusterSettings
    resume: Mapping[int, int] = field(default_factory=dict)
    """Offsets topic partition → next offset; empty: as `settings.start` says."""
    log_level: str = "info"


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Ends for the serving process and for its child; both inherited by nobody by themselves."""
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
        """Send the one message that goes down; a child that is gone already does not matter."""
        message = orjson.dumps(
            {
                "cluster": assignment.cluster,
                "settings": assignment.settings.to_child(),
                "resume": {str(key): value for key, value in assignment.resume.items()},
                "log_level": assignment.log_level,
            }
        )
        with suppress(OSError):
            self._connection.send_bytes(message)

    def receive(self) -> Report | None:
        """Wait for the next report; None: the child is gone, or we hung up."""
        try:
            report: Report = pickle.loads(self._connection.recv_bytes())  # noqa: S301 - our child's
        except (EOFError, OSError):
            return None
        return report

    def hang_up(self) -> None:
        """End a `receive` under way in another thread; the child takes it as its own end."""
        with suppress(OSError):
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

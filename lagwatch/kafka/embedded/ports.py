"""Free loopback ports for servers."""

import contextlib
import random
import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"

_LOWEST = 15_000
_USUAL_EPHEMERAL_START = 32_768
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """Return `count` different free ports, in random order.

    They are below the range from which the system gives outgoing connections their ports. Within
    it, the port of a stopped broker could be taken by some connection before the broker is back,
    and a client that keeps knocking on it may even be connected to itself.

    Nothing reserves a port after this returns: a server that finds it taken must ask again.
    """
    candidates = list(range(_LOWEST, _ephemeral_start()))
    random.shuffle(candidates)
    ports: list[int] = []
    with contextlib.ExitStack() as held:
        while len(ports) < count:
            port = candidates.pop()
            with contextlib.suppress(OSError):
                held.enter_context(socket.create_server((LOOPBACK, port)))
                ports.append(port)
    return ports


def answers(port: int, timeout_s: float = 1.0) -> bool:
    """Does a server accept connections on this loopback port?"""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=timeout_s):
            return True
    except OSError:
        return False


def _ephemeral_start() -> int:
    try:
        start = int(_EPHEMERAL_RANGE.read_text(encoding="ascii").split()[0])
    except OSError:  # not Linux
        return _USUAL_EPHEMERAL_START
    return start if start > _LOWEST + 1_000 else _USUAL_EPHEMERAL_START

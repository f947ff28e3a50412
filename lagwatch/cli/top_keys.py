"""Single keys from a terminal, without waiting for Enter."""

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_NAMED: Final = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1b[5~": "page_up",
    b"\x1b[6~": "page_down",
    b"\x1b[H": "home",
    b"\x1b[F": "end",
    b"\x1b[Z": "back_tab",
    b"\x1b": "escape",
    b"\t": "tab",
    b"\x7f": "backspace",
    b"\x08": "backspace",
    b"\x15": "escape",  # Ctrl-U clears a line everywhere
    b"\x04": "quit",
    b"\x11": "quit",
}
_AT_ONCE: Final = 1024


class Keyboard:
    """What was pressed: one character, or a name such as `up`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def pressed(self, within_s: float) -> list[str]:
        """Keys that came within this time; returns as soon as there are some."""
        ready, _, _ = select.select([self._descriptor], [], [], within_s)
        if not ready:
            return []
        read = os.read(self._descriptor, _AT_ONCE)
        return keys(read) if read else ["quit"]


def keys(read: bytes) -> list[str]:
    """The keys behind the bytes of a terminal; sequences that mean nothing here are dropped."""
    if read in _NAMED:
        return [_NAMED[read]]
    if read.startswith(b"\x1b"):
        return []
    return [
        _NAMED.get(character.encode(), character)
        for character in read.decode(errors="ignore")
        if character.isprintable() or character.encode() in _NAMED
    ]


@contextmanager
def keyboard() -> Iterator[Keyboard]:
    """The terminal of stdin, set back at the end. Ctrl-C interrupts as ever."""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    # Ctrl-Q reaches us only when it does not resume output
    now = termios.tcgetattr(descriptor)
    now[0] &= ~termios.IXON
    termios.tcsetattr(descriptor, termios.TCSANOW, now)
    try:
        yield Keyboard(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)

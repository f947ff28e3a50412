"""`lagwatch top`: every group, live in a terminal."""

import math
import os
import re
import select
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lagwatch.cli.reporting import Exit, complain, reported
from lagwatch.errors import LagwatchError, NotFoundError, SourceError

if TYPE_CHECKING:  # rich takes a while to import
    from lagwatch.cli.top_view import LastAnswer, TopView
    from lagwatch.cli.views import Found, OpenIncident

_ANSWER_S: Final = 10.0
_KEY_S: Final = 0.2
_FLEET: Final = "/api/v1/fleet"
_FOUND_S: Final = 10.0
"""Between two questions for causes and speeds: the server looks at each group's partitions."""
_MOST_ASKED: Final = 50
"""Groups: more than a screen shows."""

EPILOG = """
Type to filter, Tab sorts by the next column, Shift-Tab turns the order round, Ctrl-C quits.
Where stdout is no terminal, all groups are printed once.

**Examples**

`lagwatch top`

`lagwatch top --url http://lagwatch:8000 --filter billing --sort lag`
"""


@reported(Exit.UNKNOWN)
def top(
    *,
    url: Annotated[
        str, typer.Option(metavar="URL", envvar="LAGWATCH_URL", help="A running lagwatch.")
    ] = "http://127.0.0.1:8000",
    every: Annotated[float, typer.Option(min=0.2, max=3600, help="Seconds between looks.")] = 2.0,
    wanted: Annotated[
        str, typer.Option("--filter", metavar="WORDS", help="What must be in the name, at first.")
    ] = "",
    sort: Annotated[
        str, typer.Option(metavar="COLUMN", help="trouble, lag, 'time lag' or group.")
    ] = "trouble",
    once: Annotated[bool, typer.Option("--once", help="Print once and end.")] = False,
) -> None:
    """Show every group of a running lagwatch live, the worst first."""
    from lagwatch.cli.group_table import table
    from lagwatch.cli.output import console, terminal_width
    from lagwatch.cli.top_view import SORTS, TopView, chosen

    if sort not in SORTS:
        raise typer.BadParameter(f"{sort!r} is not one of {', '.join(SORTS)}", param_hint="--sort")
    view = TopView(wanted=wanted, sort=sort)
    look = _Look(url)
    look.view = view
    try:
        first = look.now()  # a wrong URL is reported at once, on a screen that stays
        if once or not (sys.stdout.isatty() and sys.stdin.isatty()):
            for sentence in first.old:
                complain(sentence)
            screen = console()
            lines, width = chosen(first, view), terminal_width(screen)
            screen.print(table(lines, width=width, clusters=first.clusters))
        else:
            _watch(look, first, view, every_s=every)
    finally:
        look.close()


class _Look:
    """Asks the server; after `start` in a thread of its own, so that keys never wait."""

    def __init__(self, url: str) -> None:
        from lagwatch.cli.remote import RemoteSource

        self._source = RemoteSource(url, timeout_s=_ANSWER_S)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.seen: LastAnswer | None = None
        """Replaced, never changed in place."""
        self.seen_at_s = time.monotonic()
        self.view: TopView | None = None
        """Which groups are on the screen; replaced."""
        self._found: Mapping[tuple[str, str], Found] = {}
        self._found_at_s = -math.inf
        self._incidents: Mapping[tuple[str, str], OpenIncident] = {}

    def now(self) -> "LastAnswer":
        """Ask once.

        Raises:
            SourceError: there is no lagwatch that answers.
        """
        from lagwatch.cli.top_view import read, with_found, with_incidents

        try:
            seen = read(self._source.document(_FLEET))
            due = time.monotonic() - self._found_at_s >= _FOUND_S
            if due:
                self._incidents = self._source.open_incidents()
            seen = with_incidents(seen, self._incidents)
            if due:
                self._found = self._asked(seen)
                self._found_at_s = time.monotonic()
            return with_found(seen, self._found)
        except NotFoundError as error:
            raise _no_fleet(
                "it has no fleet to show; a lagwatch is needed, not a Burrow"
            ) from error
        except (KeyError, TypeError, ValueError) as error:
            raise _no_fleet("its answer is not that of a lagwatch") from error

    def _asked(self, seen: "LastAnswer") -> Mapping[tuple[str, str], "Found"]:
        """Causes and speeds of the groups that are shown, by cluster and group."""
        from lagwatch.cli.top_view import TopView, chosen

        view = self.view or TopView()
        lines = chosen(seen, view)
        first = max(0, min(view.top, len(lines) - _MOST_ASKED))
        shown = lines[first : first + _MOST_ASKED]
        found: dict[tuple[str, str], Found] = {}
        for cluster in {line.cluster for line in shown}:
            groups = [line.group for line in shown if line.cluster == cluster]
            of_cluster = self._source.found(cluster, groups)
            found |= {(cluster, group): each for group, each in of_cluster.items()}
        return found

    def start(self, first: "LastAnswer", *, every_s: float) -> None:
        self.seen = first
        self._thread = threading.Thread(target=self._keep_asking, args=(every_s,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop asking. A pending question ends with the process."""
        self._stop.set()
        if self._thread is None or not self._thread.is_alive():
            self._source.close()

    def aged(self) -> "LastAnswer":
        """The last answer, with its present age."""
        seen, at_s = self.seen, self.seen_at_s
        if seen is None:
            raise RuntimeError("not started")
        if seen.age_s is None:
            return seen
        return replace(seen, age_s=seen.age_s + time.monotonic() - at_s)

    def _keep_asking(self, every_s: float) -> None:
        while not self._stop.wait(every_s):
            try:
                seen = self.now()
            except LagwatchError as error:
                if self.seen is not None:
                    self.seen = replace(self.seen, failed=str(error))
                continue
            self.seen, self.seen_at_s = seen, time.monotonic()


def _watch(look: _Look, first: "LastAnswer", view: "TopView", *, every_s: float) -> None:
    from rich.console import Console
    from rich.live import Live

    from lagwatch.cli.top_view import pressed, screen

    look.start(first, every_s=every_s)
    terminal = Console(highlight=False, emoji=False)
    with keyboard() as keys, Live(console=terminal, screen=True, auto_refresh=False) as live:
        while not view.done:
            size, look.view = terminal.size, view
            seen = screen(look.aged(), view, width=size.width, height=size.height)
            live.update(seen, refresh=True)
            for key in keys.pressed(_KEY_S):
                view = pressed(view, key)


def _no_fleet(reason: str) -> SourceError:
    message = f"cannot show the server's groups: {reason}. Check --url."
    return SourceError(cluster="", kind="protocol", message=message, retryable=False)


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
_PRESSED: Final = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO[A-Za-z]|\x1b[^\x1b]|[\x00-\x1f\x7f]|[^\x00-\x1f\x7f]+"
)
"""Several keys may come in one read: sequences, control characters, and text between them."""
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
    return [key for part in _PRESSED.findall(read) for key in _keys_of(part)]


def _keys_of(part: bytes) -> list[str]:
    """The key of a sequence or a control character, or the characters of a text."""
    if part in _NAMED:
        return [_NAMED[part]]
    if part.startswith(b"\x1b"):
        return []
    return [character for character in part.decode(errors="ignore") if character.isprintable()]


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

"""Start the parts, show the verdicts as they come, and say whether they were right."""

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.live import Live

from lagwatch.demo.groups import DEMO_GROUPS, Role
from lagwatch.demo.table import DemoLine, links, plain, table
from lagwatch.errors import LagwatchError
from lagwatch.kafka.embedded import EmbeddedKafka

DIRECTORY = Path(".demo")
_READY_WITHIN_S = 40
_STOP_WITHIN_S = 6
_ANSWER_WITHIN_S = 10
_REFRESH_S = 1.0
_LOG_WIDTH = 130

_CONFIGURATION = """\
# Written by `lagwatch demo`: quicker than the defaults, so that verdicts come within a minute.
[server]
address = "127.0.0.1:{port}"

[evaluator]
interval_s = 1
stop_after_s = 12
stall_after_s = 15

[windows]
min_distance_s = 0.5

[history]
url = "{directory}/history"
spool = "{directory}/spool"
interval_s = 5
flush_s = 5

[checkpoint]
path = "{directory}/state"

[clusters.demo]
bootstrap = "{bootstrap}"
log_end_interval_s = 1
topic_interval_s = 10
group_interval_s = 5
"""


class DemoError(LagwatchError):
    """The demo cannot run here."""


def run(seconds: float | None, port: int) -> int:
    """Run for `seconds`, or until Ctrl-C; 0 when every group got its verdict, else 1.

    Raises:
        DemoError: the port is taken or a part did not start; the text says which and why.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=_LOG_WIDTH)
    _check_port(port)
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    DIRECTORY.mkdir()
    stopped = _stop_on_sigterm()
    with contextlib.ExitStack() as parts, contextlib.suppress(KeyboardInterrupt):
        console.print("Starting a real Kafka broker …")
        kafka = parts.enter_context(EmbeddedKafka(data_dir=DIRECTORY / "kafka"))
        console.print("Starting producers and consumers …")
        parts.enter_context(_traffic(kafka.bootstrap_servers))
        console.print("Starting lagwatch …")
        service = parts.enter_context(_service(kafka.bootstrap_servers, port))
        console.print(links(f"http://127.0.0.1:{port}"))
        lines = _watch(console, service, f"http://127.0.0.1:{port}", seconds, stopped)
        return _judge(console, lines) if seconds is not None else 0
    return 0


def _check_port(port: int) -> None:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError as error:
            raise DemoError(
                f"port {port}: {error.strerror}. Choose another: make demo PORT=8010"
            ) from error


def _stop_on_sigterm() -> list[int]:
    """Make SIGTERM end the demo as its time being over does."""
    arrived: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: arrived.append(number))
    return arrived


@contextlib.contextmanager
def _traffic(bootstrap: str) -> Iterator[None]:
    command = [sys.executable, "-m", "lagwatch.demo.traffic", bootstrap]
    with (DIRECTORY / "traffic.log").open("wb") as log:
        process = _spawn(command, log, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None  # noqa: S101 asked for above
        if process.stdout.readline() != b"ready\n":
            raise DemoError(f"the traffic did not start: see {DIRECTORY / 'traffic.log'}")
        yield
    finally:
        assert process.stdin is not None  # noqa: S101 asked for above
        process.stdin.close()
        _end(process)


@contextlib.contextmanager
def _service(bootstrap: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    configuration = DIRECTORY / "lagwatch.toml"
    configuration.write_text(
        _CONFIGURATION.format(port=port, bootstrap=bootstrap, directory=DIRECTORY)
    )
    command = [sys.executable, "-m", "lagwatch", "serve", "-c", str(configuration)]
    with (DIRECTORY / "lagwatch.log").open("wb") as log:
        process = _spawn(command, log)
    try:
        _wait_until_ready(process, f"http://127.0.0.1:{port}/readyz")
        yield process
    finally:
        process.terminate()
        _end(process)


def _spawn(
    command: list[str], log: IO[bytes], stdin: int = subprocess.DEVNULL, stdout: int | None = None
) -> subprocess.Popen[bytes]:
    # a session of its own: Ctrl-C reaches the demo alone, which stops its parts in order
    return subprocess.Popen(  # noqa: S603 our own modules
        command,
        stdin=stdin,
        stdout=log if stdout is None else stdout,
        stderr=log,
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(timeout=_STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], url: str) -> None:
    deadline_s = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < deadline_s:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError):
            _get(url)
            return
        time.sleep(0.1)  # noqa: TID251 a program of its own, no event loop here
    raise DemoError(f"lagwatch did not become ready: see {DIRECTORY / 'lagwatch.log'}")


def _get(url: str) -> Any:  # noqa: ANN401 JSON
    with urllib.request.urlopen(url, timeout=_ANSWER_WITHIN_S) as answer:  # noqa: S310 our own server
        return json.load(answer)


def _watch(
    console: Console,
    service: subprocess.Popen[bytes],
    base: str,
    seconds: float | None,
    stopped: list[int],
) -> tuple[DemoLine, ...]:
    """Show the verdicts until the time is over; returns the last ones.

    Raises:
        DemoError: lagwatch has ended.
    """
    started_s = time.monotonic()
    lines: tuple[DemoLine, ...] = tuple(DemoLine(role=role) for role in DEMO_GROUPS)
    with Live(console=console, auto_refresh=False, transient=False) as live:
        while not stopped and (seconds is None or time.monotonic() - started_s < seconds):
            if service.poll() is not None:
                raise DemoError(f"lagwatch has ended: see {DIRECTORY / 'lagwatch.log'}")
            since_s = time.monotonic() - started_s
            before = plain(lines)
            lines = tuple(_look(base, line, since_s) for line in lines)
            if console.is_terminal:
                live.update(table(lines, since_s), refresh=True)
            elif plain(lines) != before:
                console.print(f"{since_s:4.0f}s {plain(lines)}", soft_wrap=True)
            time.sleep(_REFRESH_S)  # noqa: TID251 as above
    if not console.is_terminal:
        console.print(table(lines, time.monotonic() - started_s))
    return lines


def _look(base: str, line: DemoLine, since_s: float) -> DemoLine:
    """Ask lagwatch for one group, as any client would; the same line where it does not answer."""
    try:
        status = _get(f"{base}/v3/kafka/demo/consumer/{line.role.group}/status")["status"]
    except OSError:  # not found, or too busy to answer: asked again with the next refresh
        return line
    worst = max(status["partitions"], key=lambda each: each["current_lag"] or 0, default=None)
    return line.seen(
        status=status["status"],
        worst=worst["status"] if worst else "",
        rule=status["rule"] or "",
        lag=status["totallag"],
        time_lag_s=status["time_lag_s"],
        since_s=since_s,
    )


def _judge(console: Console, lines: tuple[DemoLine, ...]) -> int:
    """Say which groups did not show their verdict."""
    wrong = [line for line in lines if not line.right]
    for line in wrong:
        console.print(f"[red]✗ {line.role.group}: {_expectation(line.role)}, was {line.now}[/red]")
    if not wrong:
        console.print(f"[green]✓ all {len(lines)} groups got their verdict[/green]")
    return 1 if wrong else 0


def _expectation(role: Role) -> str:
    return f"expected {role.status}" + (f" by {role.worst}" if role.worst else "")

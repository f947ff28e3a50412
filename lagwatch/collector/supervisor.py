"""Keeps one collector process alive and relays its log, on the serving side.

The client library may end its process at any time; that costs one log line, one count and one
second. This module never imports the client library, and neither does what it imports.
"""

import asyncio
import logging
import os
import re
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import ExitStack
from typing import Final

import orjson
import structlog

from lagwatch.backoff import Backoff
from lagwatch.clock import Clock
from lagwatch.collector.link import (
    READERS,
    REFUSED_CONFIGURATION,
    Assignment,
    Inbox,
    ServingEnd,
    socket_pair,
)
from lagwatch.config import ClusterSettings
from lagwatch.config.cluster import AWS_MSK_IAM
from lagwatch.core.model import UNKNOWN
from lagwatch.log import get_level
from lagwatch.ports.reports import CollectorStarted, Report, SourceHealth, SourceKind

_NEEDED: Final = re.compile(
    r"PATH|HOME|USER|LOGNAME|TMPDIR|LANG|LANGUAGE|LC_\w+|TZ|TZDIR"
    r"|PYTHON\w+|VIRTUAL_ENV|LD_\w+|MALLOC_\w+|GLIBC_TUNABLES"
    r"|OMP_\w+|OPENBLAS_\w+|MKL_\w+|NUMEXPR_\w+"
    # of OpenSSL, Kerberos, Cyrus SASL and libcurl, which librdkafka uses
    r"|SSL_CERT_(FILE|DIR)|OPENSSL_\w+|KRB5\w+|SASL_(CONF_)?PATH"
    r"|((http|https|all|no)_proxy|(HTTP|HTTPS|ALL|NO)_PROXY)"
)


def collector_environment(environ: Mapping[str, str], *, aws: bool = False) -> dict[str, str]:
    """The variables of a collector, taken from our own; `aws`: it logs in by AWS's credentials."""
    needed = {
        name: value
        for name, value in environ.items()
        if _NEEDED.fullmatch(name) or (aws and name.startswith("AWS_"))
    }
    # one arena per thread would keep ten times what a batch needs
    return {"MALLOC_ARENA_MAX": "2", **needed}


_STOP_S: Final = 2.0
"""Time to end by itself; then it is killed."""
SILENT_S: Final = 120.0
"""A collector silent for this long hangs: a healthy one reports every few seconds."""
_HEALTHY_S: Final = 30.0
"""A collector that ran for this long is restarted without delay when it dies."""

_LOOKS: Final = 6
"""Looks at a silent collector before it is killed."""

REFUSED: Final = "its configuration was refused"

_log = structlog.get_logger(__name__)


class Silence:
    """Counts the looks in a row that found a number unchanged."""

    def __init__(self) -> None:
        self.looks = 0
        self._number = UNKNOWN

    def look(self, number: int, *, counts: bool) -> None:
        """Take a look; if it does not count, the number may rest."""
        self.looks = self.looks + 1 if counts and number == self._number else 0
        self._number = number


class CollectorSupervisor:
    """Starts, watches and restarts the collector of one cluster.

    `run` is one task of the service; `reports` is read by another. Both are used once.
    """

    def __init__(
        self,
        *,
        cluster: str,
        settings: ClusterSettings,
        clock: Clock,
        silent_s: float = SILENT_S,
        watched: Callable[[], Collection[str]] = tuple,
    ) -> None:
        """A collector that reports nothing for `silent_s` is killed and replaced.

        `watched`: groups that an earlier collector may have read, see `Assignment`.
        """
        self._watched = watched
        self._silent_s = silent_s
        self._cluster = cluster
        self._settings = settings
        self._needs_aws = settings.sasl is not None and settings.sasl.mechanism == AWS_MSK_IAM
        self._clock = clock
        self._inbox = Inbox()
        self._backoff = Backoff(first_s=0.2, longest_s=5.0)
        self._process: Process | None = None
        self._started = 0

    @property
    def restarts(self) -> int:
        """How often the collector was started anew."""
        return max(0, self._started - 1)

    @property
    def pid(self) -> int | None:
        """Process id of the collector that runs now; None between two."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    def resume(self, positions: Mapping[int, int], topic_id: str) -> None:
        """Go on at these offsets, by partition of the offsets topic; call before `run`.

        Where the topic has another id than this one ("": unknown), all of it is read.
        """
        self._inbox = Inbox(positions, topic_id)

    async def reports(self) -> AsyncIterator[Report]:
        """All reports in order, of one collector after the other; ends only by cancelling.

        While they are not taken, the collector waits.
        """
        while True:
            yield await self._inbox.get()

    async def run(self) -> None:
        """Keep a collector running until cancelled; then end it within `_STOP_S` or so."""
        while True:
            born_s = self._clock.monotonic_s()
            cause = await self._run_once()
            lived_s = self._clock.monotonic_s() - born_s
            if lived_s >= _HEALTHY_S:
                self._backoff.reset()
            delay_s = self._backoff.next_s()
            self._report_death(cause, lived_s, delay_s)
            await self._clock.sleep(delay_s)

    async def _run_once(self) -> str:
        """From the start of a collector to its end; return how it died."""
        self._started += 1
        self._inbox.put(CollectorStarted(incarnation=self._started))
        ours, theirs = socket_pair()
        with theirs, ExitStack() as until_attended:
            until_attended.enter_context(ours)
            try:
                process = await _spawn(theirs.fileno(), aws=self._needs_aws)
            except OSError as error:
                return f"it could not be started: {error}"
            until_attended.pop_all()
        self._process = process
        try:
            await self._attend(process, ServingEnd(ours))
            code = await process.wait()
        finally:
            await _end(process)
        return REFUSED if code == REFUSED_CONFIGURATION else _cause(code)

    async def _attend(self, process: Process, end: ServingEnd) -> None:
        """Give the collector its work; take its reports and its log until it hangs up."""
        _log.info("collector_started", cluster=self._cluster, pid=process.pid, life=self._started)
        end.assign(
            Assignment(
                cluster=self._cluster,
                settings=self._settings,
                resume=self._inbox.positions(),
                resume_id=self._inbox.topic_id,
                watched=self._watched(),
                log_level=get_level(),
            )
        )
        async with asyncio.TaskGroup() as tasks:
            if process.stderr is not None:
                tasks.create_task(relay_log(process.stderr, cluster=self._cluster))
            watch = tasks.create_task(self._kill_when_silent(process))
            await self._inbox.fill(end)
            watch.cancel()

    async def _kill_when_silent(self, process: Process) -> None:
        """Kill a collector that hangs, or a reader of which does: its cluster would be unwatched.

        Looks are counted, not seconds: after a pause of this process, what the collector sent
        meanwhile is still to be received.
        """
        parts = {"all": Silence(), **{f"reader of {kind}": Silence() for kind in READERS}}
        every, *readers = parts.values()
        while max(part.looks for part in parts.values()) < _LOOKS:
            await self._clock.sleep(self._silent_s / _LOOKS)
            inbox = self._inbox
            every.look(inbox.received, counts=inbox.listens)
            # the other parts of a collector may go on when a reader hangs in the client library
            for kind, reader in zip(READERS, readers, strict=True):
                counts = inbox.listens and kind in inbox.reads
                reader.look(inbox.rounds[kind], counts=counts)
        _log.warning(
            "collector_silent",
            cluster=self._cluster,
            silent_s=self._silent_s,
            part=next(name for name, part in parts.items() if part.looks >= _LOOKS),
        )
        process.kill()

    def _report_death(self, cause: str, lived_s: float, delay_s: float) -> None:
        if cause == REFUSED:  # the collector logged the reason
            _log.error("collector_refused_configuration", cluster=self._cluster)
            return
        _log.warning(
            "collector_died",
            cluster=self._cluster,
            cause=cause,
            lived_s=round(lived_s, 1),
            retry_in_s=round(delay_s, 2),
            deaths=self._started,
        )
        self._inbox.put(
            SourceHealth(
                source=SourceKind.CONNECTION,
                ok=False,
                at_ms=self._clock.now_ms(),
                error_kind="died",
                message=f"the collector process died ({cause}); it is being restarted",
            )
        )


async def _spawn(descriptor: int, *, aws: bool) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "lagwatch.collector",
        str(descriptor),
        pass_fds=(descriptor,),
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=PIPE,
        env=collector_environment(os.environ, aws=aws),
        # an interrupt typed at the terminal is for us: we end the collector ourselves
        start_new_session=True,
    )


def _cause(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


async def _end(process: Process) -> None:
    """End a collector that may be dead already; its last lines are dropped."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(_STOP_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


_LOG_KEYS: Final = frozenset({"at", "level", "event", "logger"})
"""Keys of a line that our own log writes itself."""


async def relay_log(lines: asyncio.StreamReader, *, cluster: str) -> None:
    """Log every line of the collector's stderr, until its end.

    Other lines come from the client library when it aborts, or are a traceback.
    """
    while True:
        try:
            line = await lines.readline()
        except ValueError:  # longer than the reader's buffer: dropped by it
            continue
        if not line:
            return
        _relay(line.decode("utf-8", errors="replace").rstrip(), cluster)


def _relay(line: str, cluster: str) -> None:
    try:
        event = orjson.loads(line)
        name, level = event["event"], logging.getLevelName(event["level"].upper())
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        if line:
            _log.warning("collector_stderr", cluster=cluster, line=line)
        return
    fields = {key: value for key, value in event.items() if key not in _LOG_KEYS}
    _log.log(
        level if isinstance(level, int) else logging.INFO, name, **{"cluster": cluster, **fields}
    )

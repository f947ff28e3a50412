"""A Java home that Spark can start with."""

import os
import subprocess
from pathlib import Path
from typing import Final

from lagwatch.errors import JobError, MissingPartError
from lagwatch.java import find_java, java_version

_OLDEST: Final = 17
_ANSWER_TIMEOUT_S: Final = 30
_WRAPPER: Final = """#!/bin/sh
# Spark asks for a module of experimental vector operations, which this Java runtime does not have
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


def java_home(cache: Path) -> Path:
    """The home of a Java 17 or newer: the system's, else the wheel's with a starter that suits it.

    Raises:
        JobError: no Java was found.
    """
    try:
        java = find_java(_OLDEST, server="Spark")
    except MissingPartError as error:
        raise JobError(kind="spark", message=str(error), retryable=False) from error
    return java.resolve().parents[1] if _has_vectors(java) else _wrapped(java, cache)


def _has_vectors(java: Path) -> bool:
    """True if it starts with the module that Spark's launcher requires."""
    asked = [str(java), "--add-modules=jdk.incubator.vector", "-version"]
    return (
        subprocess.run(  # noqa: S603 the command is a path found above, no shell
            asked, capture_output=True, timeout=_ANSWER_TIMEOUT_S, check=False
        ).returncode
        == 0
    )


def _wrapped(java: Path, cache: Path) -> Path:
    home = cache / f"java-{java_version(java)}"
    starter = home / "bin" / "java"
    starter.parent.mkdir(parents=True, exist_ok=True)
    text = _WRAPPER.format(java=java)
    if not starter.exists() or starter.read_text(encoding="utf-8") != text:
        fresh = starter.with_name(f".java.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o755)
        fresh.replace(starter)
    return home

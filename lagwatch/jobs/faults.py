"""Translates errors of Spark tasks back into lagwatch's own errors.

A task runs in another process, so its error reaches the driver as text inside another text.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from lagwatch.errors import HistoryError, JobError, LagwatchError, SourceError

_OURS: Final = re.compile(
    r"^(?:[\w.]*\.)?lagwatch\.errors\.(\w+Error): (.*?)"
    r"(?=^\s*(?:at |\n|JVM stacktrace|SQLSTATE)|\Z)",
    re.MULTILINE | re.DOTALL,
)
_OF_PYTHON: Final = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception): .+$", re.MULTILINE)
_LONGEST: Final = 600


@contextmanager
def translated() -> Iterator[None]:
    """Turn errors of Spark into lagwatch's; lagwatch's own pass unchanged.

    Raises:
        LagwatchError: raised in a task; else a `JobError` of kind `spark`.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise original_error(error) or _job_error(error) from error


def _job_error(error: Exception) -> JobError:
    """The innermost Python error, else the first line of Spark's message."""
    text = str(error)
    python = _OF_PYTHON.findall(text)
    line = python[-1] if python else next(iter(text.strip().splitlines()), type(error).__name__)
    return JobError(kind="spark", message=f"Spark: {line[:_LONGEST]}", retryable=False)


def original_error(error: BaseException) -> LagwatchError | None:
    """The error of lagwatch that made a task or the planning fail; None if the cause is another.

    Only the text reaches the driver, so `kind` is generic.
    """
    found = _OURS.findall(str(error))
    if not found:
        return None
    name, text = found[-1]
    message = " ".join(text.split())
    match name:
        case "SourceError":
            return SourceError(cluster="", kind="protocol", message=message)
        case "HistoryError":
            return HistoryError(store="", kind="io", message=message, retryable=True)
        case _:
            return JobError(kind="spark", message=message, retryable=False)

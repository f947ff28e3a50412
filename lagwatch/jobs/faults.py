"""What failed inside Spark, in the words of whoever noticed it.

A task runs in another process, so an error of ours reaches the driver as text inside a text.
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
    """Turn what Spark raises into errors of ours; those pass as they are.

    Raises:
        LagwatchError: of ours in a task, or a `JobError` of kind `spark`.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise original_error(error) or _job_error(error) from error


def _job_error(error: Exception) -> JobError:
    """The innermost error of Python, else the first line of what Spark says."""
    text = str(error)
    python = _OF_PYTHON.findall(text)
    line = python[-1] if python else next(iter(text.strip().splitlines()), type(error).__name__)
    return JobError(kind="spark", message=f"Spark: {line[:_LONGEST]}", retryable=False)


def original_error(error: BaseException) -> LagwatchError | None:
    """The error of ours that made Spark fail, on a worker or while it planned; None: none of ours.

    Only its text has come through, so its `kind` says no more than who refused.
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

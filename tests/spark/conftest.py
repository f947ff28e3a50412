"""One Spark for all tests of the jobs."""

from collections.abc import Iterator
from typing import Final

import pytest
from pyspark.sql import SparkSession

from lagwatch.config.jobs import JobsSettings
from lagwatch.jobs.session import start

_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""Tests end before code that is compiled at length has paid for that.

The one Java of a whole run compiles more than the 48 MB that go with the quick compiler alone.
"""


@pytest.fixture(scope="session", autouse=True)
def _quick_java() -> Iterator[None]:
    """For every Java that is started from here on, by whatever is run."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JAVA_TOOL_OPTIONS", _JAVA)
        yield


@pytest.fixture(scope="session")
def spark(_quick_java: None) -> Iterator[SparkSession]:
    """A local Spark of two cores; do not stop it."""
    settings = JobsSettings(
        master="local[2]", driver_memory_mb=1024, spark={"spark.sql.shuffle.partitions": "4"}
    )
    session = start(settings, name="tests")
    yield session
    session.stop()

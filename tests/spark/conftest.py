"""One Spark for all tests of the jobs."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lagwatch.config.jobs import JobsSettings
from lagwatch.jobs.session import start


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local Spark of two cores; do not stop it."""
    settings = JobsSettings(
        master="local[2]", driver_memory_mb=1024, spark={"spark.sql.shuffle.partitions": "4"}
    )
    session = start(settings, name="tests")
    yield session
    session.stop()

"""Makes a session know the data sources."""

from contextlib import suppress

from pyspark.sql import SparkSession

from lagwatch.jobs.sources.log_ends import LogEndsSource
from lagwatch.jobs.sources.offsets import OffsetsSource


def register(spark: SparkSession) -> None:
    """Once per session, before the first `format("lagwatch.…")`; again does no harm."""
    spark.dataSource.register(OffsetsSource)
    spark.dataSource.register(LogEndsSource)
    with suppress(ImportError):  # an optional extra: `StoreRef.open` says so to who needs it
        from lagwatch.jobs.sources import elastic  # noqa: PLC0415

        elastic.register(spark)

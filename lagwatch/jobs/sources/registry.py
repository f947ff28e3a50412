"""Makes a session know the data sources."""

from contextlib import suppress

from pyspark.sql import SparkSession

from lagwatch.jobs.sources.log_ends import LogEndsSource
from lagwatch.jobs.sources.offsets import OffsetsSource


def register(spark: SparkSession) -> None:
    """Once per session, before the first `format("lagwatch.…")`; again does no harm."""
    # without it Spark refuses sources that take filters
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(OffsetsSource)
    spark.dataSource.register(LogEndsSource)
    with suppress(ImportError):  # an optional extra: `StoreRef.open` says so to who needs it
        from lagwatch.jobs.sources.elastic import ElasticSource  # noqa: PLC0415

        spark.dataSource.register(ElasticSource)

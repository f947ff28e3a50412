"""The Spark jobs: backfill, roll-ups, the nightly report. The only place that imports pyspark."""

"""A backfill as a process of its own, to be killed: `backfill_child.py STORE COPIES HOURS`."""

import sys
from pathlib import Path

from lagwatch.config.jobs import JobsSettings
from lagwatch.jobs.session import start
from tests.support.backfilled import HOUR_S, Store
from tests.support.history import NOON_MS


def main(folder: str, where: str, hours: int) -> None:
    """Fill some hours from noon on."""
    settings = JobsSettings(
        master="local[1]", driver_memory_mb=512, spark={"spark.sql.shuffle.partitions": "2"}
    )
    spark = start(settings, name="to be killed")
    result = Store(spark, Path(folder)).backfill(where, until_ms=NOON_MS + hours * HOUR_S * 1000)
    print(*result.lines(), sep="\n", flush=True)  # noqa: T201 for who started it
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))

"""A store of one test, and runs of the backfill on it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lagwatch.config import ClusterSettings
from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind
from lagwatch.jobs.backfill.replay import ReplaySettings
from lagwatch.jobs.backfill.request import BackfillRequest, BackfillResult, From, ProgressDisplay
from lagwatch.jobs.backfill.run import run_backfill
from lagwatch.jobs.fence import Fence
from lagwatch.jobs.run import JobRun
from lagwatch.jobs.stores.registry import open_state
from lagwatch.jobs.tables import StoreRef
from tests.support.copies import INTERVAL_MS, monitor_settings
from tests.support.history import NOON_MS, held

HOUR_S = 3600


class Store:
    """A store of one test, and runs of the job on it."""

    def __init__(
        self, spark: SparkSession, folder: Path, settings: HistorySettings | None = None
    ) -> None:
        """A store of Parquet files in the folder, if no other one is given."""
        self.spark = spark
        self.ref = StoreRef(settings=settings or HistorySettings(url=str(folder)))
        self.folder = folder
        self.run: JobRun = self._new_run()

    def _new_run(self) -> JobRun:
        return JobRun("backfill", open_state(self.ref.settings))

    def backfill(
        self,
        where: str,
        *,
        fence: Fence | None = None,
        progress: ProgressDisplay | None = None,
        **changes: Any,  # noqa: ANN401
    ) -> BackfillResult:
        request = BackfillRequest(
            source=From.PARQUET,
            where=where,
            clusters={"here": ClusterSettings(bootstrap=("none:9092",))},
            since_ms=NOON_MS,
            until_ms=NOON_MS + HOUR_S * 1000,
            replay=ReplaySettings(
                monitor=monitor_settings(), interval_ms=INTERVAL_MS, full_every=20
            ),
            shards=3,
        )
        self.run = self._new_run()
        self.run.fence = fence
        return run_backfill(
            self.spark,
            self.ref,
            replace(request, **changes),
            self.run,
            now_ms=NOON_MS,
            progress=progress,
        )

    def rows(self, kind: Kind = Kind.SAMPLES) -> list[dict[str, Any]]:
        store = self.ref.open()
        try:
            return held(store, kind)
        finally:
            store.close()

    def files(self) -> dict[str, int]:
        return {
            str(file.relative_to(self.folder)): file.stat().st_mtime_ns
            for file in self.folder.rglob("*")
            if file.is_file() and "_jobs" not in file.parts
        }

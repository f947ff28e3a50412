"""The job side of the store in Elasticsearch; `lagwatch/jobs/sources/elastic.py` reads its rows."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind
from lagwatch.jobs.stores.base import Aside, Exclusive, Result
from lagwatch.jobs.stores.elasticsearch.rollups import ElasticRollups
from lagwatch.jobs.stores.elasticsearch.state import ElasticState
from lagwatch.ports.history import HistoryRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lagwatch.jobs.sources.elastic import Replacing


class ElasticJobs:
    """A `JobStore` of indices."""

    def __init__(self, settings: HistorySettings) -> None:
        """Sends nothing yet."""
        self._settings = settings

    def state(self) -> ElasticState:
        return ElasticState(self._settings.elasticsearch)

    def exclusive(self, job: str) -> AbstractContextManager[Exclusive]:  # noqa: ARG002
        return nullcontext(Exclusive(free=True))

    def rows(
        self,
        spark: "SparkSession",
        wanted: HistoryRange,
        *,
        aside: Aside | None,  # noqa: ARG002 all that is there can be read
        distinct: bool,  # noqa: ARG002 ids are made from keys
    ) -> "DataFrame":
        from lagwatch.jobs.sources.elastic import rows_frame  # noqa: PLC0415 needs pyspark

        return rows_frame(spark, self._settings.elasticsearch, wanted)

    def steady(self, act: Callable[[], Result]) -> Result:
        return act()

    def replacing(self, kind: Kind) -> "Replacing":
        from lagwatch.jobs.sources.elastic import Replacing  # noqa: PLC0415 needs pyspark

        return Replacing(settings=self._settings, kind=kind, batch="replace")

    def rollups(self) -> ElasticRollups:
        return ElasticRollups(self._settings)


JOBS = ElasticJobs

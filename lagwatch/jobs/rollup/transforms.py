"""DataFrame → DataFrame: from units of work to pages of a roll-up."""

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame

from lagwatch.core.record import Kind
from lagwatch.jobs.rollup.pages import PAGE_TYPE, pages_of, problems_of
from lagwatch.jobs.rollup.rows import Roller
from lagwatch.jobs.rollup.units import UNIT_TYPE, units_of
from lagwatch.jobs.tables import StoreRef

Transform = Callable[[DataFrame], DataFrame]


def rolled_up(ref: StoreRef, kind: Kind) -> Transform:
    """Units to a kind of roll-up, sorted by key within each unit.

    Tasks read the finer rows themselves, as columns: to hand every sample through Spark's rows
    takes several times as long as all the rest.
    """

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        roller = Roller(ref, kind)
        try:
            for batch in batches:
                for unit in units_of(batch):
                    yield from pages_of(roller.roll(unit))
            yield from problems_of(roller.problems())
        finally:
            roller.close()

    def transform(units: DataFrame) -> DataFrame:
        return units.select(*UNIT_TYPE.names).mapInArrow(task, PAGE_TYPE).select(*PAGE_TYPE.names)

    return transform

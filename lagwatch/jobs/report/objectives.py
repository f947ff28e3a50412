"""How well groups kept the objective: share of the time in time, and what is left of the budget."""

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lagwatch.core.model import TimeLagBound, TimeLagReason
from lagwatch.jobs.report.day import Day
from lagwatch.jobs.report.frames import BAD, GROUP, within

_AT_LEAST: Final = [
    reason.word for reason in TimeLagReason if reason.bound is TimeLagBound.AT_LEAST
]
BUDGET_DAYS: Final = 28
"""Days, the last one included, over which lateness is counted: four weeks have four weekends."""


def by_group(
    day: Day, objective_s: float, objective_share: float
) -> Callable[[DataFrame], DataFrame]:
    """Rounds of groups of the budget's days → one row per group, as `model.GroupObjective`.

    A regular sample stands for its interval. It is late when its time lag is above the objective,
    or beyond all history while the group is in trouble; otherwise a time lag that is not known says
    nothing.
    """

    def transform(rounds: DataFrame) -> DataFrame:
        today = within("at_ms", day.from_ms, day.to_ms)
        allowed = 1 - objective_share
        return (
            rounds.where(F.col("reason") == "interval")
            .select(
                *GROUP,
                "at_ms",
                (F.col("interval_ms") / 1000).alias("seconds"),
                _late(objective_s).alias("late"),
            )
            .where(F.col("late").isNotNull())
            .groupBy(*GROUP)
            .agg(
                _seconds(today).alias("known_s"),
                _seconds(today & F.col("late")).alias("late_s"),
                _seconds(F.lit(True)).alias("budget_known_s"),  # noqa: FBT003 a literal of SQL
                _seconds(F.col("late")).alias("spent_s"),
            )
            .where(F.col("known_s") > 0)
            .withColumn("share", 1 - F.col("late_s") / F.col("known_s"))
            .withColumn("budget_s", F.col("budget_known_s") * allowed)
            .select(
                *GROUP,
                "known_s",
                "late_s",
                "share",
                (F.col("share") >= objective_share).alias("met"),
                (F.col("late_s") / F.col("known_s") / allowed).alias("burn"),
                "budget_known_s",
                "budget_s",
                "spent_s",
                (1 - F.col("spent_s") / F.col("budget_s")).alias("left"),
            )
        )

    return transform


def _late(objective_s: float) -> Column:
    """Is the sample late? Null when that is not known."""
    beyond = (F.col("time_lag_reason") == "beyond_history") & F.col("status").isin(*BAD)
    more = F.col("time_lag_s") > objective_s
    # a lower bound below the objective does not prove that the objective was met
    only_least = F.col("time_lag_reason").isin(*_AT_LEAST) & ~more
    known = F.when(F.col("time_lag_s").isNotNull() & ~only_least, more)
    return F.when(beyond, beyond).otherwise(known)


def _seconds(when: Column) -> Column:
    return F.coalesce(F.sum(F.when(when, F.col("seconds"))), F.lit(0.0))

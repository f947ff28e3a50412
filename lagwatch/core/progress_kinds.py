"""Kinds of jobs whose progress lagwatch reads outside of Kafka: the values of `kind`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

SPARK_CHECKPOINT: Final = "spark-checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressKind:
    """What users read about a kind."""

    about: str
    """What keeps the progress, for the reference of options."""
    kept_in: str
    """The same in a few words: "GROUP keeps its progress in …, not in Kafka"."""
    set_back: str
    """How to start a job anew from an earlier position; Kafka's tools cannot do it."""


PROGRESS_KINDS: Final[Mapping[str, ProgressKind]] = {
    SPARK_CHECKPOINT: ProgressKind(
        about="the checkpoint of a Spark Structured Streaming query",
        kept_in="Spark's checkpoint",
        set_back=(
            "start the query with a copy of the checkpoint's folder of then, or with a new folder "
            "and startingOffsets"
        ),
    ),
}
"""By the value of `kind`. Other kinds are words with which jobs report their own progress."""

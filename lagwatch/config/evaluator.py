"""Sections `[evaluator]`, `[windows]` and `[checkpoint]`: what is kept, judged, and restored."""

from typing import Annotated

from pydantic import Field

from lagwatch.config.section import Interval, Section
from lagwatch.core.model import RuleSet


class EvaluatorSettings(Section):
    """How groups are judged. One evaluation judges all groups of a cluster."""

    interval_s: Interval = Field(
        default=2.0,
        description=(
            "seconds between two evaluations; where they take long, up to `log_end_interval_s`, "
            "but not more than half of `history.interval_s`"
        ),
    )
    rules: RuleSet = Field(
        default=RuleSet.LAGWATCH,
        description=("rule set: `lagwatch`, or `burrow` for exactly Burrow's verdicts"),
    )
    stop_after_s: Annotated[float, Field(allow_inf_nan=False, ge=10, le=86_400)] = Field(
        default=180.0,
        description=(
            "seconds without progress before a group without members is stopped; more for a group "
            "that usually pauses longer"
        ),
    )
    stall_after_s: Annotated[float, Field(allow_inf_nan=False, ge=10, le=86_400)] = Field(
        default=360.0,
        description=(
            "seconds without progress before a partition that a member holds is stalled or "
            "stopped; a minute more than Kafka's default of `max.poll.interval.ms`, by which a "
            "member that hangs has left the group"
        ),
    )
    loss_shown_s: Annotated[float, Field(allow_inf_nan=False, ge=0, le=604_800)] = Field(
        default=3_600.0,
        description=(
            "seconds for which lost messages are shown as an error, unless they are acknowledged"
        ),
    )
    allowed_lag: Annotated[int, Field(ge=0)] = Field(
        default=0, description="a lag up to this many messages counts as no lag"
    )
    minimum_complete: Annotated[float, Field(allow_inf_nan=False, ge=0, le=1)] = Field(
        default=0.0,
        description="a window filled less than this share (0 to 1) is OK and not judged further",
    )


class WindowSettings(Section):
    """The last commits of each group and partition, which are judged."""

    intervals: Annotated[int, Field(ge=2, le=100)] = Field(
        default=10, description="commits in a window; more see further back and need more memory"
    )
    min_distance_s: Annotated[float, Field(allow_inf_nan=False, ge=0, le=86_400)] = Field(
        default=1.0,
        description=(
            "seconds; a commit that follows sooner replaces the one before it; 0 keeps every commit"
        ),
    )
    expire_group_s: Annotated[float, Field(allow_inf_nan=False, ge=1, le=1e9)] = Field(
        default=604_800.0, description="seconds without a commit after which a group is forgotten"
    )


class CheckpointSettings(Section):
    """State on disk, one file per cluster, so that a restart continues where it stopped."""

    path: str = Field(
        default="lagwatch-state",
        description=(
            "local folder of the checkpoints; each lagwatch needs a folder of its own; "
            '"" = no checkpoints'
        ),
    )
    interval_s: Annotated[float, Field(ge=1, le=3600, allow_inf_nan=False)] = Field(
        default=60.0,
        description="seconds between two checkpoints; one more is written when lagwatch stops",
    )

"""Section `[evaluator]`: how windows are judged."""

from typing import Annotated

from pydantic import Field

from lagwatch.config.section import Interval, Section


class EvaluatorSettings(Section):
    """One evaluation judges all windows of a cluster."""

    interval_s: Interval = Field(default=2.0, description="seconds between two evaluations")
    allowed_lag: Annotated[int, Field(ge=0)] = Field(
        default=0, description="a lag up to this many messages counts as no lag"
    )
    minimum_complete: Annotated[float, Field(allow_inf_nan=False, ge=0, le=1)] = Field(
        default=0.0,
        description="windows filled less than this share (0..1) are OK without being judged",
    )

"""Section `[windows]`: the commits that are kept for judging."""

from typing import Annotated

from pydantic import Field

from lagwatch.config.section import Section


class WindowSettings(Section):
    """One window per group and partition."""

    intervals: Annotated[int, Field(ge=2, le=100)] = Field(
        default=10, description="commits in a window"
    )
    min_distance_s: Annotated[float, Field(allow_inf_nan=False, ge=0, le=86_400)] = Field(
        default=1.0,
        description="a commit closer than this to the one before it replaces it; 0 keeps each",
    )
    expire_group_s: Annotated[float, Field(allow_inf_nan=False, ge=1, le=1e9)] = Field(
        default=604_800.0, description="a group silent for this long is forgotten"
    )

"""Section `[history]`: what is kept of the past, where and for how long."""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from lagwatch.config.elasticsearch import ElasticsearchSettings
from lagwatch.config.section import Section

_Days = Annotated[int, Field(ge=0, le=100_000)]
_FOREVER: Final = "; 0 = for ever"


class RetentionSettings(Section):
    """Whole days (UTC) are deleted when they are older than this."""

    samples_days: _Days = Field(default=7, description="samples of partitions" + _FOREVER)
    group_samples_days: _Days = Field(default=30, description="samples of groups" + _FOREVER)
    events_days: _Days = Field(default=365, description="events" + _FOREVER)
    rollup_5m_days: _Days = Field(default=30, description="roll-ups of 5 minutes" + _FOREVER)
    rollup_1h_days: _Days = Field(default=365, description="roll-ups of an hour" + _FOREVER)
    rollup_1d_days: _Days = Field(default=0, description="roll-ups of a day" + _FOREVER)


class HistorySettings(Section):
    """The history."""

    store: Literal["parquet", "elasticsearch", "none"] = Field(
        default="parquet",
        description="`parquet` files in a folder, `elasticsearch`, or `none`: nothing is kept",
    )
    url: Annotated[str, Field(min_length=1)] = Field(
        default="lagwatch-history",
        description="folder of the Parquet files, or a URL that pyarrow or fsspec opens",
    )
    interval_s: Annotated[float, Field(ge=1, le=3600, allow_inf_nan=False)] = Field(
        default=30.0,
        description="seconds between two samples; a change of status is recorded at once",
    )
    full_s: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = Field(
        default=600.0,
        description="partitions that do not change are written this often; 0 = every time",
    )
    flush_s: Annotated[float, Field(ge=0.1, le=3600, allow_inf_nan=False)] = Field(
        default=60.0, description="seconds that samples may wait in the spool, to make large files"
    )
    spool: Path = Field(
        default=Path("lagwatch-spool"),
        description="local folder where samples wait until the store has taken them",
    )
    spool_size_mb: Annotated[int, Field(ge=1, le=10_000_000)] = Field(
        default=1024, description="megabytes of the spool; when it is full the oldest go"
    )
    retention: RetentionSettings = Field(
        default=RetentionSettings(), description="how long what is kept"
    )
    elasticsearch: ElasticsearchSettings = Field(
        default=ElasticsearchSettings(), description="the store `elasticsearch`"
    )

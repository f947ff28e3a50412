"""Section `[history]`: what is recorded, where, and how long it is kept."""

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from lagwatch.config.elasticsearch import ElasticsearchSettings
from lagwatch.config.secret import ShownUrl
from lagwatch.config.section import Section

# stores are found by name, like plug-ins: `config` must not import `history`, which is above it
STORES: Final = tuple(
    file.name
    for file in iter_modules(import_module("lagwatch.history.drivers").__path__)
    if file.name not in {"base", "registry"}
)
"""Kinds of stores, sorted: values of `history.store`."""
if TYPE_CHECKING:
    Store = str
else:
    Store = Literal[(*STORES, "none")]
_Days = Annotated[int, Field(ge=0, le=100_000)]
_FOREVER: Final = "; 0 = for ever"


class RetentionSettings(Section):
    """How many days rows are kept; whole days (UTC) are deleted."""

    samples_days: _Days = Field(default=7, description="samples of partitions" + _FOREVER)
    group_samples_days: _Days = Field(default=30, description="samples of groups" + _FOREVER)
    events_days: _Days = Field(default=365, description="events" + _FOREVER)
    rollup_5m_days: _Days = Field(default=30, description="roll-ups of 5 minutes" + _FOREVER)
    rollup_1h_days: _Days = Field(default=365, description="roll-ups of an hour" + _FOREVER)
    rollup_1d_days: _Days = Field(default=0, description="roll-ups of a day" + _FOREVER)
    rollups: Literal["auto", "on", "off"] = Field(
        default="auto",
        description=(
            "`on`: `lagwatch rollup` deletes samples and events once they are rolled up; `off`: "
            "the service does, rolled up or not; `auto`: `on` as soon as the store has a roll-up"
        ),
    )


class HistorySettings(Section):
    """What is recorded, where, and how long it is kept."""

    store: Store = Field(
        default="parquet",
        description="`parquet`: files in a folder; `elasticsearch`; `none`: nothing is recorded",
    )
    url: Annotated[ShownUrl, Field(min_length=1)] = Field(
        default="lagwatch-history",
        validate_default=True,
        description="folder of the Parquet files, or a URL that pyarrow or fsspec opens",
    )
    interval_s: Annotated[float, Field(ge=1, le=3600, allow_inf_nan=False)] = Field(
        default=30.0,
        description=(
            "seconds between two samples, at least twice `evaluator.interval_s`; a change of "
            "status is recorded at once"
        ),
    )
    full_s: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = Field(
        default=600.0,
        description=(
            "seconds between two rows of a partition that does not change; 0 = every sample"
        ),
    )
    flush_s: Annotated[float, Field(ge=0.1, le=3600, allow_inf_nan=False)] = Field(
        default=60.0,
        description="seconds that samples wait in the spool at most, so that files become large",
    )
    spool: Path = Field(
        default=Path("lagwatch-spool"),
        description="local folder where rows wait until the store has acknowledged them",
    )
    spool_size_mb: Annotated[int, Field(ge=1, le=10_000_000)] = Field(
        default=1024,
        description=(
            "maximum megabytes of the spool; when it is full the oldest rows are dropped and "
            "counted"
        ),
    )
    retention: RetentionSettings = Field(
        default=RetentionSettings(), description="days each kind of row is kept"
    )
    elasticsearch: ElasticsearchSettings = Field(
        default=ElasticsearchSettings(), description="the store `elasticsearch`"
    )

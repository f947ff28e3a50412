"""The flat history rows: one definition for the service, the stores, Spark and everybody's SQL."""

from lagwatch.core.record.build import Capture, Insight, group_samples, samples, status_events
from lagwatch.core.record.columns import (
    BY_WORST,
    KINDS,
    RAW,
    SCHEMA_VERSION,
    SOURCE_RANK,
    Column,
    ColumnType,
    EventName,
    Kind,
    SampleReason,
    Source,
    schema,
)
from lagwatch.core.record.records import (
    Records,
    Text,
    Values,
    concat,
    from_rows,
    is_word,
    record_ids,
)

__all__ = [
    "BY_WORST",
    "KINDS",
    "RAW",
    "SCHEMA_VERSION",
    "SOURCE_RANK",
    "Capture",
    "Column",
    "ColumnType",
    "EventName",
    "Insight",
    "Kind",
    "Records",
    "SampleReason",
    "Source",
    "Text",
    "Values",
    "concat",
    "from_rows",
    "group_samples",
    "is_word",
    "record_ids",
    "samples",
    "schema",
    "status_events",
]

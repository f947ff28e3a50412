"""Roll-ups: samples into buckets, buckets into longer ones, quantiles that can be merged."""

from lagwatch.core.rollup.build import EVENT_COLUMNS, ROUND_COLUMNS, SAMPLE_COLUMNS, Raw, roll_up
from lagwatch.core.rollup.keep import keep_fuller, lacks_rows, of_whole_rounds, rows_written
from lagwatch.core.rollup.merge import merge
from lagwatch.core.rollup.rows import BucketSpan

__all__ = [
    "EVENT_COLUMNS",
    "ROUND_COLUMNS",
    "SAMPLE_COLUMNS",
    "BucketSpan",
    "Raw",
    "keep_fuller",
    "lacks_rows",
    "merge",
    "of_whole_rounds",
    "roll_up",
    "rows_written",
]

"""Options of the data sources. What holds secrets has a name that Spark redacts in its plans."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from lagwatch.config import ClusterSettings
from lagwatch.config.elasticsearch import ElasticsearchSettings
from lagwatch.config.secret import REVEAL
from lagwatch.errors import JobError

CLUSTER: Final = "cluster"
SETTINGS: Final = "settings.secret"
"""`[clusters.NAME]` as JSON, or `[history.elasticsearch]`."""


def cluster_options(name: str, settings: ClusterSettings) -> dict[str, str]:
    """A Kafka cluster as options."""
    return {CLUSTER: name, SETTINGS: settings.to_child()}


def cluster_of(options: Mapping[str, str]) -> tuple[str, ClusterSettings]:
    """The Kafka cluster that the options name.

    Raises:
        JobError: they name no cluster.
    """
    name = required(options, CLUSTER)
    return name, ClusterSettings.from_child(required(options, SETTINGS))


def elastic_options(settings: ElasticsearchSettings) -> dict[str, str]:
    """An Elasticsearch cluster as options."""
    return {SETTINGS: settings.model_dump_json(context={REVEAL: True})}


def elastic_of(options: Mapping[str, str]) -> ElasticsearchSettings:
    """The Elasticsearch cluster that the options name; `urls` and `prefix` alone will do."""
    settings = ElasticsearchSettings()
    if SETTINGS in options:
        settings = ElasticsearchSettings.model_validate_json(options[SETTINGS])
    given: dict[str, object] = {}
    if "urls" in options:
        given["urls"] = tuple(options["urls"].split(","))
    if "prefix" in options:
        given["prefix"] = options["prefix"]
    return ElasticsearchSettings.model_validate({**dict(settings), **given})


def required(options: Mapping[str, str], name: str) -> str:
    """The value of an option.

    Raises:
        JobError: it is not there.
    """
    if name in options:
        return options[name]
    raise unusable(f"the data source lacks the option {name!r}; add .option({name!r}, …)")


def number(options: Mapping[str, str], name: str, default: int) -> int:
    """A whole number.

    Raises:
        JobError: it is not a whole number.
    """
    text = options.get(name, str(default))
    try:
        return int(text)
    except ValueError:
        raise unusable(f"option {name!r} = {text!r} is no whole number") from None


def unusable(message: str) -> JobError:
    """The error for options that cannot be used."""
    return JobError(kind="input", message=message, retryable=False)


Column = Any
"""A list of values, None for null; or whatever `pyarrow.array` takes."""

_UTC: Final = "UTC"


def arrow_of(schema: T.StructType) -> Any:  # noqa: ANN401
    """The Arrow schema that Spark expects of a source with this schema."""
    return to_arrow_schema(schema, timezone=_UTC)


def batch_of(schema: T.StructType, columns: Mapping[str, Column]) -> pa.RecordBatch:
    """One batch of these columns, in the order of the schema."""
    target = arrow_of(schema)
    arrays = [
        column
        if isinstance(column := columns[field.name], pa.Array)
        else pa.array(column, field.type)
        for field in target
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def words(codes: NDArray[np.int32], dictionary: Sequence[str]) -> pa.Array:
    """Words by their position in a dictionary."""
    return pa.array(dictionary, pa.string()).take(pa.array(codes))


def known(values: NDArray[np.int64] | NDArray[np.int32], mask: NDArray[np.bool_]) -> pa.Array:
    """Numbers, null where `mask` is set."""
    return pa.array(values, mask=mask) if mask.any() else pa.array(values)

"""Options of the data sources. What holds secrets has a name that Spark redacts in its plans."""

from collections.abc import Mapping
from typing import Final

from lagwatch.config import ClusterSettings
from lagwatch.config.elasticsearch import ElasticsearchSettings
from lagwatch.config.section import REVEAL
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
        JobError: they name none.
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
        JobError: it is none.
    """
    text = options.get(name, str(default))
    try:
        return int(text)
    except ValueError:
        raise unusable(f"option {name!r} = {text!r} is no whole number") from None


def unusable(message: str) -> JobError:
    """The error of options that cannot be used."""
    return JobError(kind="input", message=message, retryable=False)

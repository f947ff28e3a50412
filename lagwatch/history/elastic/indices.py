"""Names, mappings and templates of lagwatch's indices, for the store, Spark and `deploy/`.

`PREFIX-KIND-2026.11.21` for raw rows and the finest roll-up, `PREFIX-KIND-2026.11` for hours and
`PREFIX-KIND-2026` for days: those are few and kept long, and a cluster can hold only so many
indices. `PREFIX-KIND` is an alias for all of one kind. Retention deletes whole indices.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any, Final

from elasticsearch import BadRequestError, Elasticsearch

from lagwatch.core.record import SCHEMA_VERSION, Column, ColumnType, Kind, schema
from lagwatch.history.elastic.faults import reason_of, reported, whole

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PERIOD: Final[Mapping[Kind, str]] = {Kind.ROLLUP_1H: "%Y.%m", Kind.ROLLUP_1D: "%Y"}
_DAILY: Final = "%Y.%m.%d"
_DAY_MS: Final = 86_400_000
_SOME_DAY_MS: Final = 1_800_000_000_000
"""Names an index that is made as those of all days are."""
_MOST_DAYS: Final = 400
_LONGEST_LIST: Final = 2000
"""Characters; the first line of a request may have 4,096."""
_PRIORITY: Final = 500
"""Above what catch-all templates usually have."""
_LONGEST_WORD: Final = 8191
"""Characters of a word that is searchable: Lucene takes 32,766 bytes, UTF-8 up to four for each."""

_INDEXED: Final = frozenset({"source", "status", "schema_version"})
"""Columns beside the key by which rows are looked up."""
AGES_FIELD: Final = "ages_ms"
AGES: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.SAMPLES: ("observed_ms", "time_lag_at_ms", "log_end_ms")
}
"""Columns that are in the one field `AGES_FIELD`, as `documents` says."""
NOT_MAPPED: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.SAMPLES: (*AGES[Kind.SAMPLES], "log_end_offset")
}
"""Columns without a mapping: asked for, they are empty, and what is asked beside them is found."""
_ONLY_READ: Final = frozenset({"topic_id", "observed_ms", "time_lag_at_ms"})
"""Columns that only come back with their row: neither searched nor aggregated."""
_NO_COLUMN: Final[Mapping[str, Any]] = {"index": False, "doc_values": False}
_SECONDS: Final[Mapping[str, Any]] = {"type": "float"}
"""Seven digits are enough to aggregate; a row comes back as it was written."""
NEWER_SETTINGS: Final[Mapping[str, str]] = {
    "use_time_series_doc_values_format": "true",
    "seq_no.index_options": "doc_values_only",
}
"""Settings below `index` that early releases of Elasticsearch 9 do not know.

Columns are kept as differences, since rows of a partition are beside each other; sequence numbers,
which lagwatch compares but never searches, are not indexed. Both are part of what `time_series`
indices have, and need no licence.
"""
_TYPES: Final[Mapping[ColumnType, Mapping[str, Any]]] = {
    ColumnType.TEXT: {"type": "keyword", "ignore_above": _LONGEST_WORD},
    ColumnType.INT32: {"type": "integer"},
    ColumnType.INT64: {"type": "long"},
    ColumnType.INSTANT: {"type": "date", "format": "epoch_millis||strict_date_optional_time"},
    ColumnType.FLOAT64: {"type": "double"},
    ColumnType.BINARY: {"type": "binary"},
}


def alias(prefix: str, kind: Kind) -> str:
    """The name under which all rows of a kind are found: `lagwatch-samples`."""
    return f"{prefix}-{kind}"


def index_name(prefix: str, kind: Kind, at_ms: int) -> str:
    """The index that holds the rows of an instant: `lagwatch-samples-2026.11.21` (UTC)."""
    day = _EPOCH + timedelta(milliseconds=at_ms)
    return f"{alias(prefix, kind)}-{day.strftime(_PERIOD.get(kind, _DAILY))}"


def all_indices(prefix: str, kind: Kind) -> str:
    """A pattern for all indices of a kind."""
    return f"{alias(prefix, kind)}-*"


def indices_between(prefix: str, kind: Kind, from_ms: int, to_ms: int) -> tuple[str, ...]:
    """The indices that may hold rows of a time, or the pattern for all when those are many.

    An index that cannot be read then spoils only what is asked of its own time.
    """
    days = range(from_ms // _DAY_MS, max(from_ms, to_ms - 1) // _DAY_MS + 1)
    if len(days) > _MOST_DAYS:
        return (all_indices(prefix, kind),)
    names = tuple(dict.fromkeys(index_name(prefix, kind, day * _DAY_MS) for day in days))
    return names if sum(map(len, names)) <= _LONGEST_LIST else (all_indices(prefix, kind),)


def last_day(prefix: str, kind: Kind, index: str) -> str | None:
    """The last day an index may hold rows of (`2026-11-21`); None if it is not lagwatch's."""
    period = _PERIOD.get(kind, _DAILY)
    name = index.removeprefix(f"{alias(prefix, kind)}-")
    try:
        first = datetime.strptime(name, period).replace(tzinfo=UTC)
    except ValueError:
        return None
    if first.strftime(period) != name:
        return None
    return (_following(first, period) - timedelta(days=1)).strftime("%Y-%m-%d")


def _following(first: datetime, period: str) -> datetime:
    """The first instant of the next period."""
    if period == _DAILY:
        return first + timedelta(days=1)
    # 32 days are in the next month, 366 in the next year
    later = first + timedelta(days=366 if period == "%Y" else 32)
    return later.replace(month=1 if period == "%Y" else later.month, day=1)


def templates(prefix: str) -> Mapping[str, Mapping[str, Any]]:
    """Index templates by name, one for each kind.

    `PREFIX-KIND@custom` is a component template that installations may add: shards, replicas, the
    name of an ILM policy. Where there is none it counts as empty.
    """
    return {alias(prefix, kind): _template(prefix, kind) for kind in Kind}


def _template(prefix: str, kind: Kind) -> Mapping[str, Any]:
    custom = f"{alias(prefix, kind)}@custom"
    return {
        "index_patterns": [all_indices(prefix, kind)],
        "priority": _PRIORITY,
        "composed_of": [custom],
        "ignore_missing_component_templates": [custom],
        "template": {
            "aliases": {alias(prefix, kind): {}},
            "settings": settings(kind),
            "mappings": mappings(kind),
        },
        "_meta": {"managed_by": "lagwatch", "schema_version": SCHEMA_VERSION},
    }


def settings(kind: Kind) -> Mapping[str, Any]:
    """What makes indices of a kind small.

    The rows of a partition are beside each other, so that what they have in common is stored once
    in each block. DEFLATE is what Elasticsearch compresses with where no native zstd is installed.
    """
    return {
        "index": {
            "codec": "legacy_best_compression",
            "sort": {"field": list(kind.key)},
            **NEWER_SETTINGS,
        }
    }


def put_template(
    client: Elasticsearch,
    name: str,
    template: Mapping[str, Any],
    *,
    newer: Collection[str] = frozenset(NEWER_SETTINGS),
) -> None:
    """Write an index template; without those of the `newer` settings that the server refuses.

    Raises:
        ApiError: the server refused it for another reason.
    """
    while True:
        try:
            client.indices.put_index_template(name=name, body=dict(template))
        except BadRequestError as error:
            reason = reason_of(error.body)
            held = template["template"]["settings"]["index"]
            unknown = [key for key in newer if key in held and f"index.{key}]" in reason]
            if not unknown:
                raise
            smaller = {key: value for key, value in held.items() if key not in unknown}
            inner = {**template["template"], "settings": {"index": smaller}}
            template = {**template, "template": inner}
        else:
            return


def overruled(client: Elasticsearch, prefix: str, kind: Kind) -> str:
    """Why a new index of a kind would not get lagwatch's mapping; "".

    Elasticsearch takes the one template with the highest priority. Without the mapping of
    lagwatch's, names become analysed text: a group is not found by its name, or others are.

    Raises:
        ApiError: the server refused to say.
    """
    index = index_name(prefix, kind, _SOME_DAY_MS)
    found = client.indices.simulate_index_template(name=index).body
    if _fits(kind, found.get("template", {}).get("mappings", {}), schema(kind)):
        return ""
    others = [
        f"{each['name']} (priority {each['index_template'].get('priority', 0)})"
        for each in client.indices.get_index_template().body["index_templates"]
        if each["name"] != alias(prefix, kind)
        and each["index_template"].get("priority", 0) >= _PRIORITY
        and any(fnmatchcase(index, pattern) for pattern in _patterns(each["index_template"]))
    ]
    return (
        f"another index template decides for {all_indices(prefix, kind)}: "
        f"{', '.join(others) or 'its name is not known'}. Leave these indices out of its "
        f"index_patterns, or give it a priority below {_PRIORITY}; settings of yours belong into "
        f"the component template {alias(prefix, kind)}@custom"
    )


def _fits(kind: Kind, mapping: Mapping[str, Any], columns: Iterable[str]) -> bool:
    """Have these columns the types that lagwatch looks them up by?"""
    properties, wanted = mapping.get("properties", {}), mappings(kind)["properties"]
    return all(
        properties.get(name, {}).get("type") == wanted[name]["type"]
        for name in columns
        if name in wanted
    )


NOT_OURS: Final = (
    "was not made by lagwatch's index template: rows are not found by name there. Copy it with "
    "_reindex, delete it, and copy it back; or delete it"
)


def uuid_of(client: Elasticsearch, index: str, *, prefix: str) -> str | None:
    """What tells an index from another one of its name; None when there is none.

    Raises:
        HistoryError: the cluster did not answer.
    """
    with reported(f"look for {index}", prefix=prefix):
        found = client.indices.get_settings(
            index=index, name="index.uuid", flat_settings=True, ignore_unavailable=True
        ).body
    held = found.get(index)
    return None if held is None else str(held["settings"]["index.uuid"])


def foreign_mappings(
    client: Elasticsearch, kind: Kind, *, prefix: str, only: str | None = None
) -> list[str]:
    """Indices of a kind that another template made, sorted: rows are not found by their key there.

    `only`: the one index in question.

    Raises:
        HistoryError: the cluster did not answer.
    """
    with reported("read the mappings of the indices", prefix=prefix):
        found = client.indices.get_mapping(index=only or all_indices(prefix, kind)).body
    return sorted(
        name
        for name, held in found.items()
        if last_day(prefix, kind, name) is not None and not _fits(kind, held["mappings"], kind.key)
    )


def _patterns(template: Mapping[str, Any]) -> list[str]:
    found = template["index_patterns"]
    return [found] if isinstance(found, str) else list(found)


def mappings(kind: Kind) -> Mapping[str, Any]:
    """The mapping of a kind.

    `dynamic` is false: a column that a later release adds is kept in the documents of older
    indices, only not searchable there; nothing is refused for it. Kibana and Grafana look for
    `@timestamp`: another name of the time column.
    """
    return {
        "dynamic": False,
        "_meta": {"schema_version": SCHEMA_VERSION},
        "properties": {
            "@timestamp": {"type": "alias", "path": kind.time_column},
            **{
                column.name: _field(column, kind.key)
                for column in schema(kind).values()
                if column.name not in NOT_MAPPED.get(kind, ())
            },
            **({AGES_FIELD: {"type": "long", **_NO_COLUMN}} if kind in AGES else {}),
        },
    }


def _field(column: Column, key: tuple[str, ...]) -> Mapping[str, Any]:
    kind = dict(_TYPES[column.type])
    if column.type is ColumnType.TEXT and column.name in key:
        return {"type": "keyword"}  # no name is cut off from its search
    if column.name in key or column.name in _INDEXED or column.type is ColumnType.BINARY:
        return kind
    if column.name in _ONLY_READ:
        return {**kind, **_NO_COLUMN}
    if column.type is ColumnType.FLOAT64 and column.unit == "s":
        kind = dict(_SECONDS)
    # sorted, aggregated and, more slowly, searched by their columns alone: half the disk
    return {**kind, "index": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """One index."""

    rows: int
    size_bytes: int
    """Without replicas."""


def holdings(client: Elasticsearch, kind: Kind, *, prefix: str) -> Mapping[str, Holding]:
    """The indices of a kind by name, sorted; those that only look like ours are left out.

    Raises:
        HistoryError: the cluster did not answer.
    """
    with reported("list the indices", prefix=prefix):
        answer = client.indices.stats(
            index=all_indices(prefix, kind),
            metric=["docs", "store"],
            filter_path="indices.*.primaries",
        ).body
    return {
        name: Holding(
            rows=held["primaries"].get("docs", {}).get("count", 0),
            size_bytes=held["primaries"].get("store", {}).get("size_in_bytes", 0),
        )
        for name, held in sorted(whole(answer, "list the indices").get("indices", {}).items())
        if last_day(prefix, kind, name) is not None
    }


def red_indices(client: Elasticsearch, kind: Kind, *, prefix: str) -> frozenset[str]:
    """Indices of a kind of which a part cannot be read now.

    Raises:
        HistoryError: the cluster did not answer.
    """
    with reported("ask for the health of the indices", prefix=prefix):
        answer = client.cluster.health(
            index=all_indices(prefix, kind),
            level="indices",
            filter_path="indices.*.status",
        ).body
    health = whole(answer, "ask for the health of the indices").get("indices", {})
    return frozenset(name for name, held in health.items() if held["status"] == "red")

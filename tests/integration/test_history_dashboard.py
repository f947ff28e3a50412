"""The queries of the history dashboard, run on a real Elasticsearch as Grafana runs them."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from elasticsearch import Elasticsearch

from lagwatch.core.record import Kind, from_rows, schema
from lagwatch.core.record.columns import ROLLUP_STEP_MS, ColumnType
from lagwatch.history.elastic.indices import alias
from tests.support.dashboards import boards, panels
from tests.support.elastic_history import open_store, unique_prefix
from tests.support.elasticsearch import EmbeddedElasticsearch
from tests.support.grafana_shows import Shown, as_shown
from tests.support.history import NOON_MS

BOARD = boards()["lagwatch-history"]
KIND = Kind.ROLLUP_1H
HOURS = 5
_ANY: Mapping[ColumnType, object] = {
    ColumnType.TEXT: "text",
    ColumnType.INT32: 3,
    ColumnType.INT64: 3,
    ColumnType.INSTANT: NOON_MS,
    ColumnType.FLOAT64: 3.5,
    ColumnType.BINARY: None,
}


def targets() -> list[tuple[str, Any]]:
    return [
        (f"{panel['title']} {target['refId']}", target)
        for panel in panels(BOARD)
        for target in panel["targets"]
    ]


def rollup(hour: int, **changed: object) -> dict[str, Any]:
    """One roll-up with a value in every column."""
    row = {column.name: _ANY[column.type] for column in schema(KIND).values()}
    names = {"cluster": "prod", "group": "orders", "topic": "payments", "level": "group"}
    bucket_ms = NOON_MS + hour * ROLLUP_STEP_MS[KIND]
    return row | names | {"bucket_ms": bucket_ms, "source": "live", "status": "WARN"} | changed


@pytest.fixture(scope="module")
def index(
    elasticsearch: EmbeddedElasticsearch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Elasticsearch, str]]:
    """A client, and the alias of roll-ups of five hours of one group and its topic."""
    prefix = unique_prefix()
    folder: Path = tmp_path_factory.mktemp("history")
    rows = [
        rollup(hour, level=level, lag_max=10 * hour)
        for hour in range(HOURS)
        for level in ("group", "topic")
    ]
    store = open_store(elasticsearch.url, prefix, folder)
    try:
        store.write([from_rows(KIND, rows)], batch="rollups")
        with elasticsearch.client() as client:
            client.indices.refresh(index=f"{prefix}-*")
            yield client, alias(prefix, KIND)
    finally:
        store.close()


def search(client: Elasticsearch, index: str, target: Mapping[str, Any]) -> Mapping[str, Any]:
    """What Grafana sends for a query, with all choices open.

    Source: Grafana, pkg/tsdb/elasticsearch/data_query.go
    """
    (metric,) = target["metrics"]
    measured = {metric["id"]: {metric["type"]: {"field": metric["field"]}}}
    aggregations: dict[str, Any] = measured
    for bucket in reversed(target["bucketAggs"]):
        settings = bucket["settings"]
        if bucket["type"] == "terms":
            shape = {
                "field": bucket["field"],
                "size": int(settings["size"]),
                "order": {settings["orderBy"]: settings["order"]},
            }
            # to order by a metric Grafana asks for it beside the buckets, too
            aggregations = measured | aggregations
        else:
            shape = {
                "field": bucket["field"],
                "fixed_interval": "1h",
                "min_doc_count": int(settings["min_doc_count"]),
            }
        aggregations = {bucket["id"]: {bucket["type"]: shape, "aggs": aggregations}}
    time = {"gte": NOON_MS, "lte": NOON_MS + 86_400_000, "format": "epoch_millis"}
    answer = client.search(
        index=index,
        size=0,
        query={
            "bool": {
                "filter": [
                    {"range": {target["timeField"]: time}},
                    {
                        "query_string": {
                            "analyze_wildcard": True,
                            "query": opened(target["query"]),
                        }
                    },
                ]
            }
        },
        aggs=aggregations,
    )
    return dict(answer.body["aggregations"])


def opened(query: str) -> str:
    return query.replace("$cluster", "*").replace("$group", "*")


@pytest.mark.parametrize(("place", "target"), targets(), ids=[place for place, _ in targets()])
def test_every_query_finds_data_in_every_bucket(place, target, index) -> None:
    client, name = index
    terms, over_time = (bucket["id"] for bucket in target["bucketAggs"])
    (metric,) = target["metrics"]

    (curve,) = search(client, name, target)[terms]["buckets"]

    values = [bucket[metric["id"]]["value"] for bucket in curve[over_time]["buckets"]]
    assert curve["key"] in {"orders", "payments"}, place
    assert len(values) == HOURS
    assert None not in values


def test_the_greatest_lag_is_that_of_its_hour(index) -> None:
    client, name = index
    target = dict(targets())["Greatest lag A"]

    (curve,) = search(client, name, target)["2"]["buckets"]

    assert [bucket["1"]["value"] for bucket in curve["3"]["buckets"]] == [0, 10, 20, 30, 40]


@pytest.mark.parametrize("title", ["Greatest lag", "Rebalances"])
def test_of_many_groups_those_with_the_greatest_values_are_shown(
    title: str, elasticsearch: EmbeddedElasticsearch, tmp_path: Path
) -> None:
    prefix, target = unique_prefix(), dict(targets())[f"{title} A"]
    (metric,) = target["metrics"]
    rows = [
        rollup(hour, group=f"g{number:02}", **{metric["field"]: number})
        for number in range(15)
        for hour in range(HOURS if number < 5 else 1)  # the best have the most samples
    ]
    store = open_store(elasticsearch.url, prefix, tmp_path)
    try:
        store.write([from_rows(KIND, rows)], batch="rollups")
        with elasticsearch.client() as client:
            client.indices.refresh(index=f"{prefix}-*")
            curves = search(client, alias(prefix, KIND), target)["2"]["buckets"]
    finally:
        store.close()

    shown = {curve["key"] for curve in curves}
    assert {f"g{number:02}" for number in range(10, 15)} <= shown
    assert len(shown) == 10


def as_frames(target: Mapping[str, Any], answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """An answer of Elasticsearch as the curves that Grafana's server makes of it.

    Source: Grafana, pkg/tsdb/elasticsearch/response_parser.go, processMetrics
    """
    terms, over_time = target["bucketAggs"]
    (metric,) = target["metrics"]
    curves = [
        {
            "metric": {terms["field"]: curve["key"]},
            "values": [
                # a bucket without documents has no value: a gap
                [bucket["key"] / 1000, "NaN" if found is None else found]
                for bucket in curve[over_time["id"]]["buckets"]
                for found in [bucket[metric["id"]]["value"]]
            ],
        }
        for curve in answer[terms["id"]]["buckets"]
    ]
    return {"resultType": "matrix", "result": curves}


def named(target: Mapping[str, Any]) -> Mapping[str, Any]:
    """The query with the name that its curves get.

    Source: the same file, getFieldName: the alias, or the terms alone where there is one metric
    """
    alias_or_terms = target.get("alias") or f"{{{{term {target['bucketAggs'][0]['field']}}}}}"
    return {**target, "legendFormat": alias_or_terms.replace("{{term ", "{{")}


def seen(client: Elasticsearch, index: str) -> dict[str, Shown]:
    """What Grafana's own code shows of every panel, by its title."""
    every = list(panels(BOARD))
    asked = [
        {
            "panel": {**panel, "targets": [named(target) for target in panel["targets"]]},
            "answers": {
                target["refId"]: as_frames(target, search(client, index, target))
                for target in panel["targets"]
            },
        }
        for panel in every
    ]
    return {panel["title"]: drawn for panel, drawn in zip(every, as_shown(asked), strict=True)}


def test_grafana_shows_every_panel_with_names_values_and_units(index) -> None:
    client, name = index

    found = seen(client, name)

    names = {title: [curve["name"] for curve in drawn["series"]] for title, drawn in found.items()}
    worst = found["Greatest lag"]["series"][0]["cells"]
    assert names.pop("Greatest lag by topic") == ["payments"]
    assert names.pop("Time falling behind or in error") == [
        "orders falling behind",
        "orders in error",
    ]
    assert {tuple(each) for each in names.values()} == {("orders",)}
    assert [cell["value"] for cell in worst] == [0, 10, 20, 30, 40]
    assert found["Greatest time lag"]["series"][0]["cells"][0]["text"] == "3.50 s"
    assert found["Written"]["series"][0]["cells"][0]["text"] == "3.50 c/s"


def test_an_hour_without_rollups_is_a_gap_and_not_zero(
    elasticsearch: EmbeddedElasticsearch, tmp_path: Path
) -> None:
    prefix = unique_prefix()
    store = open_store(elasticsearch.url, prefix, tmp_path)
    try:
        rows = [rollup(hour, level=level) for hour in (0, 2) for level in ("group", "topic")]
        store.write([from_rows(KIND, rows)], batch="rollups")
        with elasticsearch.client() as client:
            client.indices.refresh(index=f"{prefix}-*")
            found = seen(client, alias(prefix, KIND))
    finally:
        store.close()

    values = [cell["value"] for cell in found["Greatest lag"]["series"][0]["cells"]]
    assert values == [3, None, 3]


@pytest.mark.parametrize("name", ["cluster", "group"])
def test_every_choice_has_something_to_choose(name, index) -> None:
    client, indices = index
    (variable,) = [variable for variable in BOARD["templating"]["list"] if variable["name"] == name]
    asked = json.loads(variable["query"])

    answer = client.search(
        index=indices,
        size=0,
        query={"query_string": {"query": opened(asked.get("query", "*"))}},
        aggs={"1": {"terms": {"field": asked["field"], "size": asked["size"]}}},
    )

    (bucket,) = answer.body["aggregations"]["1"]["buckets"]
    assert bucket["key"] in {"prod", "orders"}

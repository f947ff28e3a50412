"""The past, from the roll-ups in Elasticsearch."""

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import elasticsearch as es
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import elasticsearch as kinds

from grafana import panels as p

Metric = es.Max | es.Average | es.Sum

_OF_GROUPS = "level:group AND cluster:$cluster AND group:$group"
_OF_TOPICS = "level:topic AND cluster:$cluster AND group:$group"


def dashboard() -> builders.Dashboard:
    """The dashboard."""
    board = (
        p.board("lagwatch-history", "lagwatch: history", "Lag over weeks, from the roll-ups.")
        .time("now-30d", "now")
        .with_variable(p.source("history", "elasticsearch", "History"))
        .with_variable(_terms("cluster", '{"find":"terms","field":"cluster","size":1000}'))
        .with_variable(
            _terms(
                "group",
                '{"find":"terms","field":"group","size":10000,"query":"cluster:$cluster"}',
            )
        )
    )
    for title, field, unit, about in (
        ("Greatest lag", "lag_max", "short", "In each bucket; the ten worst groups."),
        (
            "Lag, 95 %",
            "lag_p95",
            "short",
            "19 of 20 samples of a bucket are below it; the ten worst groups.",
        ),
        ("Greatest time lag", "time_lag_max_s", "s", "In each bucket; the ten worst groups."),
    ):
        query = _by_group(_max(field))
        board.with_panel(p.curves(title, [query], unit=unit, about=about, data=p.HISTORY))
    for title, field in (("Written", "produced_per_s"), ("Read", "consumed_per_s")):
        query = _by_group(_average(field))
        about = "Messages a second, mean of each bucket; the ten groups with the most."
        board.with_panel(p.curves(title, [query], unit="cps", data=p.HISTORY, about=about))
    board.with_panel(
        p.curves(
            "Time falling behind or in error",
            [
                _by_group(_sum("warn_s")).alias("{{term group}} falling behind"),
                _by_group(_sum("err_s")).alias("{{term group}} in error"),
            ],
            unit="s",
            data=p.HISTORY,
            about="Of each bucket; the ten groups with the most.",
        )
    )
    board.with_panel(
        p.curves(
            "Rebalances",
            [_by_group(_sum("rebalances"))],
            data=p.HISTORY,
            about="In each bucket; the ten groups with the most.",
        )
    )
    board.with_panel(
        p.curves(
            "Greatest lag by topic",
            [_by_topic(_max("lag_max"))],
            data=p.HISTORY,
            about="In each bucket; the ten topics with the greatest.",
        )
    )
    return board


def _terms(name: str, query: str) -> builders.QueryVariable:
    return (
        builders.QueryVariable(name)
        .label(name.capitalize())
        .datasource(p.HISTORY)
        .query(query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .all_value("*")
    )


def _by_group(metric: Metric) -> es.Dataquery:
    return _query(_OF_GROUPS, "group", metric)


def _by_topic(metric: Metric) -> es.Dataquery:
    return _query(_OF_TOPICS, "topic", metric)


def _query(query: str, field: str, metric: Metric) -> es.Dataquery:
    """One curve for each of the ten groups or topics whose value is greatest."""
    settings = es.ElasticsearchTermsSettings().size("10").order(kinds.TermsOrder.DESC)
    terms = es.Terms().id("2").field(field).settings(settings.order_by("1"))
    interval = es.ElasticsearchDateHistogramSettings().interval("auto").min_doc_count("0")
    over_time = es.DateHistogram().id("3").field("bucket_ms").settings(interval)
    return (
        es.Dataquery()
        .query(query)
        .time_field("bucket_ms")
        .bucket_aggs([terms, over_time])
        .metrics([metric])
    )


def _max(field: str) -> es.Max:
    return es.Max().id("1").field(field)


def _average(field: str) -> es.Average:
    return es.Average().id("1").field(field)


def _sum(field: str) -> es.Sum:
    return es.Sum().id("1").field(field)

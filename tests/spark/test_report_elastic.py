"""The report is the same whichever store keeps the history."""

from dataclasses import asdict
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lagwatch.config.elasticsearch import ElasticsearchSettings
from lagwatch.config.history import HistorySettings
from lagwatch.config.jobs import ReportSettings
from lagwatch.core.record import KINDS
from lagwatch.jobs.report.build import ReportRequest, run_report
from lagwatch.jobs.report.model import Report
from lagwatch.jobs.tables import StoreRef
from lagwatch.ports.history import HistoryRange
from tests.support.elasticsearch import EmbeddedElasticsearch
from tests.support.history import EVER
from tests.support.kafka import unique
from tests.support.rolled import FLEET, LONG_DAY, Rolled, write_fleet

NAMES = {"mailer", "flaky/sync", '<b>odd</b> & "group"'}


@pytest.fixture(scope="module")
def rolled(tmp_path_factory) -> Rolled:
    few = [group for group in FLEET if group.name in NAMES]
    return write_fleet(str(tmp_path_factory.mktemp("few")), fleet=few)


@pytest.fixture(scope="module")
def copied(rolled, elasticsearch: EmbeddedElasticsearch, tmp_path_factory) -> StoreRef:
    """The same rows in Elasticsearch."""
    settings = HistorySettings(
        store="elasticsearch",
        spool=tmp_path_factory.mktemp("spool"),
        elasticsearch=ElasticsearchSettings(urls=(elasticsearch.url,), prefix=unique("report")),
    )
    ref = StoreRef(settings=settings)
    store = ref.open()
    for kind in KINDS:
        for number, rows in enumerate(rolled.store.read(HistoryRange(kind=kind, **EVER))):
            store.write([rows], batch=f"{kind.value.replace('_', '-')}-{number}")
    store.close()
    return ref


def report_of(spark: SparkSession, ref: StoreRef) -> Report:
    made = run_report(
        spark,
        ref,
        ReportRequest(day=LONG_DAY, settings=ReportSettings(time_zone=LONG_DAY.zone.key)),
        now_ms=LONG_DAY.to_ms + 3_600_000,
        log_step=lambda *_: None,
    )
    assert made.set_aside == {}
    return made.report


def rounded(value: Any) -> Any:  # noqa: ANN401 whatever a report holds
    """With reals to nine places: sums of them depend on the order of the rows."""
    match value:
        case float():
            return round(value, 9)
        case dict():
            return {name: rounded(inner) for name, inner in value.items()}
        case list() | tuple():
            return [rounded(each) for each in value]
        case _:
            return value


@pytest.mark.thorough  # other tests read the same rows from both stores
def test_elasticsearch_and_parquet_give_the_same_report(spark, rolled, copied) -> None:
    of_files = report_of(spark, StoreRef.of(rolled.url, HistorySettings()))

    of_indices = report_of(spark, copied)

    assert {group.group for group in of_files.groups} == NAMES
    assert of_files.incidents
    assert rounded(asdict(of_indices)) == rounded(asdict(of_files))

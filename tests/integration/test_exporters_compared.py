"""Series by series: what lagwatch prints under klag-exporter's names, and what that printed.

tests/data/exporters holds what the real exporter printed of the same groups on a broker.
"""

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.command import serving
from tests.support.exporter_state import groups_in_several_states
from tests.support.waiting import eventually

_RECORDED = Path(__file__).parents[1] / "data" / "exporters"
_DEADLINE_S = 120

Series = tuple[str, frozenset[tuple[str, str]]]
"""Name, and labels with their values."""

_PREFIXES = ("kafka_partition_", "kafka_consumergroup_group_")

_TIME_LAGS = (
    "kafka_consumergroup_group_lag_seconds",
    "kafka_consumergroup_group_max_lag_seconds",
)
"""Not compared: the exporter's are estimates from the rate of messages, or 0."""

_LEFT_OUT = (
    *_TIME_LAGS,
    "kafka_consumergroup_group_lag_retention_ratio",
    "kafka_consumergroup_group_messages_lost",
    "kafka_consumergroup_group_retention_margin",
    "kafka_consumergroup_poll_time_ms",
    "kafka_lag_exporter_",
)
"""Names that lagwatch does not print begin so."""


@pytest.fixture(scope="module")
def url(own_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a lagwatch that prints the exporter's names, while the groups are there."""
    folder = tmp_path_factory.mktemp("exporters")
    (folder / "lagwatch.toml").write_text(
        f"""
        [server]
        address = "127.0.0.1:0"
        [log]
        format = "json"
        [evaluator]
        rules = "burrow"
        interval_s = 0.5
        [windows]
        intervals = 2
        min_distance_s = 0
        [metrics]
        kafka_lag_exporter = true
        [clusters.here]
        bootstrap = "{own_kafka.bootstrap_servers}"
        log_end_interval_s = 0.5
        group_interval_s = 1.0
        """
    )
    with (
        groups_in_several_states(own_kafka),
        serving(folder / "log", "--config", str(folder / "lagwatch.toml")) as made,
    ):
        yield made


def test_each_series_has_the_labels_and_the_value_that_the_exporter_printed(url: str) -> None:
    theirs = _series((_RECORDED / "kafka_lag_exporter.prom").read_text())
    assert len(theirs) > 20

    def ours() -> dict[Series, float]:
        with urllib.request.urlopen(f"{url}/metrics", timeout=_DEADLINE_S) as answer:  # noqa: S310
            return _series(answer.read().decode())

    try:
        eventually(lambda: ours() == theirs, "the same series", timeout_s=_DEADLINE_S)
    except AssertionError:
        assert ours() == theirs


def _series(text: str) -> dict[Series, float]:
    """Those that lagwatch prints, too, but for Kafka's own topic."""
    return dict(
        _comparable(sample)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith(_PREFIXES)
        and not sample.name.startswith(_LEFT_OUT)
        # a group that never committed: lagwatch knows no value
        and sample.labels.get("group") != "fresh"
        and "__consumer_offsets" not in sample.labels.values()
    )


def _comparable(sample: Sample) -> tuple[Series, float]:
    """A sample without the id of the member, which is new each time."""
    labels = frozenset(pair for pair in sample.labels.items() if pair[0] != "consumer_id")
    return (sample.name, labels), sample.value

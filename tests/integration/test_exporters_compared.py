"""Series by series: what lagwatch prints under the names of others, and what those printed.

tests/data/exporters holds what the real exporters printed of the same groups on a broker.
"""

import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
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

_TIME_LAGS = (
    "kafka_consumergroup_group_lag_seconds",
    "kafka_consumergroup_group_max_lag_seconds",
)
"""Not compared: the exporter's are estimates from the rate of messages, or 0."""


_NEVER_COMMITTED = "fresh"
"""A group with a member, of which lagwatch prints nothing."""
_PARTLY_COMMITTED = "stopped"
"""A group that committed for partition 0 of its topic, not for partition 1."""


@dataclass(frozen=True, kw_only=True)
class Exporter:
    """Which of its series are compared."""

    begin: tuple[str, ...]
    left_out: tuple[str, ...]
    """Names that lagwatch does not print begin so."""
    labels_left_out: frozenset[str]
    of_empty_left_out: frozenset[str] = frozenset()
    """Labels of groups without members, which lagwatch does not describe."""
    later: tuple[str, ...] = ()
    """Names that the version recorded did not have yet begin so."""
    prints_unknown: bool = False
    """It prints -1 or 0 of a partition without a commit, and counts it in sums."""


_EXPORTERS = {
    "kafka_lag_exporter": Exporter(
        begin=("kafka_partition_", "kafka_consumergroup_group_"),
        left_out=(
            *_TIME_LAGS,
            "kafka_consumergroup_group_lag_retention_ratio",
            "kafka_consumergroup_group_messages_lost",
            "kafka_consumergroup_group_retention_margin",
            "kafka_consumergroup_poll_time_ms",
            "kafka_lag_exporter_",
        ),
        labels_left_out=frozenset({"consumer_id"}),  # the id of the member is new each time
    ),
    "kafka_exporter": Exporter(
        begin=("kafka_consumergroup_", "kafka_topic_partition"),
        left_out=(
            "kafka_topic_partition_in_sync_replica",
            "kafka_topic_partition_leader_is_preferred",
            "kafka_topic_partition_replicas",
            "kafka_topic_partition_under_replicated_partition",
            "kafka_consumergroup_group_",  # of the klag-exporter
        ),
        labels_left_out=frozenset({"cluster"}),  # lagwatch adds it
        prints_unknown=True,
    ),
    "burrow": Exporter(
        begin=("burrow_kafka_",),
        left_out=(),
        labels_left_out=frozenset(),
        prints_unknown=True,
    ),
    "kminion": Exporter(
        begin=("kminion_kafka_consumer_group_", "kminion_kafka_topic_"),
        left_out=("kminion_kafka_topic_info",),
        # later versions have the members as a series of its own; lagwatch adds the cluster
        labels_left_out=frozenset({"cluster", "member_count"}),
        of_empty_left_out=frozenset({"protocol_type", "coordinator_id"}),
        later=(
            "kminion_kafka_consumer_group_members",
            "kminion_kafka_consumer_group_empty_members",
            "kminion_kafka_consumer_group_topic_members",
            "kminion_kafka_consumer_group_topic_assigned_partitions",
        ),
    ),
}


@pytest.fixture(scope="module")
def url(own_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a lagwatch that prints the exporters' names, while the groups are there."""
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
        kminion = true
        kafka_exporter = true
        burrow = true
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


@pytest.mark.parametrize("name", _EXPORTERS)
def test_each_series_has_the_labels_and_the_value_that_the_exporter_printed(
    url: str, name: str
) -> None:
    exporter = _EXPORTERS[name]
    theirs = _series(exporter, (_RECORDED / f"{name}.prom").read_text())
    assert len(theirs) > 20

    def ours() -> dict[Series, float]:
        with urllib.request.urlopen(f"{url}/metrics", timeout=_DEADLINE_S) as answer:  # noqa: S310
            return _series(exporter, answer.read().decode())

    try:
        eventually(lambda: ours() == theirs, "the same series", timeout_s=_DEADLINE_S)
    except AssertionError:
        assert ours() == theirs


def _series(exporter: Exporter, text: str) -> dict[Series, float]:
    """Those that are compared, but for Kafka's own topic."""
    return dict(
        _comparable(exporter, sample)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith(exporter.begin)
        and not sample.name.startswith((*exporter.left_out, *exporter.later))
        and _NEVER_COMMITTED not in sample.labels.values()
        and "__consumer_offsets" not in sample.labels.values()
        and not (exporter.prints_unknown and _counts_unknown(sample))
    )


def _counts_unknown(sample: Sample) -> bool:
    """Is it of the partition without a commit, or a sum of offsets with it?"""
    return _PARTLY_COMMITTED in sample.labels.values() and (
        sample.labels.get("partition") == "1" or sample.name.endswith("_offset_sum")
    )


def _comparable(exporter: Exporter, sample: Sample) -> tuple[Series, float]:
    left_out = exporter.labels_left_out
    if sample.labels.get("state") == "Empty":
        left_out |= exporter.of_empty_left_out
    labels = [pair for pair in sample.labels.items() if pair[0] not in left_out]
    return (sample.name, frozenset(labels)), sample.value

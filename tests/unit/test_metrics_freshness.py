"""What /metrics says about readiness, the age of data, clocks, readable lag and lost messages."""

from dataclasses import replace

import numpy as np
import pytest

from lagwatch.core.model import EpochMs
from lagwatch.metrics import ClusterMetrics
from lagwatch.metrics.native import COLUMNS
from lagwatch.ports.reports import LogEnds
from tests.support.scraped import Cluster, Scrape, info, text

NOT_OF_NOW = {
    "lagwatch_lag_seconds_bound": "absent for exact time lags",
    "lagwatch_group_max_lag_seconds_bound": "absent for exact time lags",
    "lagwatch_partition_status": "UNKNOWN",
    "lagwatch_group_status": "UNKNOWN",
    "lagwatch_group_partitions": "UNKNOWN",
    "lagwatch_group_trouble_start_timestamp_seconds": "absent without trouble",
    "lagwatch_group_complete_ratio": "of the windows, which are kept",
    "lagwatch_rebalances_total": "a counter",
    "lagwatch_lost_messages_total": "a counter",
    "lagwatch_group_rest_lag_messages": "absent within the series budget",
    "lagwatch_group_rest_partitions": "absent within the series budget",
    "lagwatch_topic_partitions": "the last known number",
}
"""Metrics of columns that need not vanish when data become stale, and why."""
NOW = {source.metric.name for source in COLUMNS} - set(NOT_OF_NOW)
"""Metrics whose values are of now: without series while the data are stale."""


class _Told(Cluster):
    """A cluster whose state is shown with changes."""

    def changed(self, **changes) -> "_Told":
        """Fields of `ClusterHealth`, or `snapshot`."""
        self.changes = changes
        return self

    def state(self) -> ClusterMetrics:
        state = super().state()
        snapshot = self.changes.pop("snapshot", state.snapshot)
        return replace(state, snapshot=snapshot, health=replace(state.health, **self.changes))


def _written_lines(**changes) -> list[str]:
    """The lines of /metrics."""
    cluster = _Told(topics={"t": [(10, 100)]}, commits={("g", "t", 0): 60})
    return text(cluster.changed(**changes)).splitlines()


def _cluster() -> Cluster:
    """A group 40 behind on a topic whose log begins at 10."""
    return Cluster(topics={"t": [(10, 100)]}, commits={("g", "t", 0): 60})


def test_readable_lag_stands_beside_the_lag() -> None:
    scrape = Scrape(_cluster())

    assert scrape.value("lagwatch_readable_lag_messages", group="g", partition="0") == 40
    assert scrape.value("lagwatch_group_readable_lag_messages", group="g") == 40


def _delete_15_messages(cluster: Cluster) -> None:
    """Messages after the committed offset are deleted, and lagwatch sees it."""
    for seconds in (1, 2):
        at_ms = EpochMs(cluster.now_ms + 1000 * seconds)
        cluster.monitor.apply(
            LogEnds(
                version=1,
                started_ms=at_ms,
                finished_ms=at_ms,
                log_start=np.array([75]),
                log_end=np.array([120]),
                last_stable=np.array([120]),
            ),
            at_ms,
        )
    cluster.monitor.judge(EpochMs(cluster.now_ms + 2000))


def test_lost_messages_are_a_counter_that_begins_at_zero() -> None:
    cluster = _cluster()
    before = Scrape(cluster)

    _delete_15_messages(cluster)

    after = Scrape(cluster)
    assert before.value("lagwatch_lost_messages_total", group="g", topic="t") == 0
    assert after.value("lagwatch_lost_messages_total", group="g", topic="t") == 15
    assert after.value("lagwatch_group_lost_messages", group="g") == 15


def test_messages_that_a_member_may_have_read_and_had_deleted_are_not_lost() -> None:
    cluster = Cluster(
        topics={"t": [(10, 100)]},
        commits={("g", "t", 0): 60},
        infos=[info("g", holds=[("t", 0)])],
    )

    _delete_15_messages(cluster)

    after = Scrape(cluster)
    assert after.value("lagwatch_log_start_offset", topic="t") == 75
    assert after.value("lagwatch_lost_messages_total", group="g", topic="t") == 0
    assert after.value("lagwatch_group_lost_messages", group="g") == 0


@pytest.mark.parametrize(("skew_s", "lines"), [(None, 0), (30.0, 1), (-0.5, 1)])
def test_age_and_skew_are_reported_and_an_unknown_skew_is_absent(
    skew_s: float | None, lines: int
) -> None:
    written = _written_lines(ready=False, stale=True, data_age_s=171.0, clock_skew_s=skew_s)

    assert 'lagwatch_cluster_ready{cluster="here"} 0' in written
    assert 'lagwatch_data_age_seconds{cluster="here"} 171.0' in written
    skews = [line for line in written if line.startswith("lagwatch_clock_skew_seconds{")]
    assert len(skews) == lines


def test_what_is_stale_is_unknown_and_says_so() -> None:
    cluster = Cluster(
        topics={"t": [(10, 100)]},
        commits={("g", "t", 0): 60},
        infos=[info("g", holds=[("t", 0)])],
        rebalances={"g": 3},
    )
    fresh = Scrape(cluster)
    cluster.monitor.judge(EpochMs(cluster.now_ms + 60_000))

    stale = Scrape(cluster)

    known = {name for name in NOW if fresh.values(name)}
    assert known == NOW, "give a new metric a value here, or say in NOT_OF_NOW why it has none"
    assert {name for name in NOW if stale.values(name)} == set()
    assert fresh.value("lagwatch_unknown_partitions", reason="stale") == 0
    assert stale.value("lagwatch_unknown_partitions", reason="stale") == 1
    assert stale.value("lagwatch_unknown_partitions", reason="refused") == 0
    assert stale.value("lagwatch_group_status", status="UNKNOWN") == 1
    assert stale.value("lagwatch_group_status", status="OK") == 0
    assert stale.value("lagwatch_partition_status", status="UNKNOWN") == 1
    assert stale.value("lagwatch_group_partitions", status="UNKNOWN") == 1
    assert stale.labels("lagwatch_group_rule_info") == []


def test_counters_go_on_while_the_data_are_stale() -> None:
    cluster = Cluster(topics={"t": [(10, 100)]}, commits={("g", "t", 0): 60}, rebalances={"g": 3})
    cluster.monitor.judge(EpochMs(cluster.now_ms + 60_000))

    stale = Scrape(cluster)

    assert stale.value("lagwatch_rebalances_total", group="g") == 3
    assert stale.value("lagwatch_lost_messages_total", group="g") == 0
    assert stale.value("lagwatch_commits_total") == 1


def test_a_cluster_without_a_complete_round_has_no_data() -> None:
    written = _written_lines(ready=False, data_age_s=12.0, snapshot=None)

    assert [line for line in written if line.startswith("lagwatch_lag_messages{")] == []
    assert 'lagwatch_cluster_ready{cluster="here"} 0' in written

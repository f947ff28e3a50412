"""Backfill from `__consumer_offsets` itself after the broker's cleaner has emptied a segment."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lagwatch.clock import SystemClock
from lagwatch.config import ClusterSettings
from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind
from lagwatch.jobs.backfill.replay import ReplaySettings
from lagwatch.jobs.backfill.request import BackfillRequest, From
from lagwatch.jobs.backfill.run import run_backfill
from lagwatch.jobs.run import JobRun
from lagwatch.jobs.stores.registry import open_state
from lagwatch.jobs.tables import StoreRef
from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.compacted import (
    COMMITS,
    EAGER_CLEANER,
    PARTITIONS,
    Committed,
    commit_until_cleaned,
)
from tests.support.copies import monitor_settings
from tests.support.history import held
from tests.support.waiting import eventually

SECOND_MS = 1000
LEAD_MS = 20 * SECOND_MS


@pytest.fixture(scope="module")
def cleaned_kafka() -> Iterator[EmbeddedKafka]:
    """A broker whose cleaner starts as soon as a segment is full."""
    with EmbeddedKafka(properties=EAGER_CLEANER) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def commits(cleaned_kafka: EmbeddedKafka) -> Committed:
    """Commits of which the cleaner has removed the older ones."""
    return commit_until_cleaned(cleaned_kafka)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "expire_ms", [pytest.param(7 * 86_400_000, marks=pytest.mark.thorough), SECOND_MS]
)
def test_a_time_whose_segment_was_emptied_is_filled_from_where_commits_are_complete(
    spark: SparkSession,
    cleaned_kafka: EmbeddedKafka,
    commits: Committed,
    tmp_path: Path,
    expire_ms: int,
) -> None:
    until_ms = commits.to_ms + 3 * SECOND_MS
    eventually(lambda: SystemClock().now_ms() > until_ms, "the time to be filled", timeout_s=30)
    ref = StoreRef(settings=HistorySettings(url=str(tmp_path)))
    replay = ReplaySettings(
        monitor=monitor_settings(expire_ms=expire_ms), interval_ms=SECOND_MS, full_every=1
    )
    request = BackfillRequest(
        source=From.KAFKA,
        clusters={"here": ClusterSettings(bootstrap=(cleaned_kafka.bootstrap_servers,))},
        since_ms=commits.from_ms - LEAD_MS,
        until_ms=until_ms,
        replay=replay,
        shards=2,
    )

    done = run_backfill(
        spark,
        ref,
        request,
        JobRun("backfill", open_state(ref.settings)),
        now_ms=SystemClock().now_ms(),
    )

    store = ref.open()
    rows = [row for row in held(store, Kind.SAMPLES) if row["group"] == commits.group]
    store.close()
    complete_from = done.clusters[0].complete_from[commits.offsets_partition]
    assert commits.from_ms < complete_from <= commits.to_ms
    assert any("1 partition of the offsets topic lacks records" in line for line in done.lines())
    assert any(
        line.strip().startswith(f"{commits.group}: all commits are there from ")
        for line in done.lines()
    )
    assert min(row["at_ms"] for row in rows) >= complete_from
    after = [row for row in rows if row["at_ms"] > commits.to_ms]
    assert {row["partition"] for row in after} == set(range(PARTITIONS))
    assert {row["committed_offset"] for row in after} == {COMMITS}

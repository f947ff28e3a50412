"""A lagwatch that was off, and one that was on: a backfill gives what the other had recorded."""

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from lagwatch.config import ClusterSettings
from lagwatch.config.history import HistorySettings
from lagwatch.core.model import RuleSet
from lagwatch.core.record import Kind
from lagwatch.history.parquet import ParquetStore
from lagwatch.jobs.backfill.replay import ReplaySettings
from lagwatch.jobs.backfill.request import BackfillRequest, BackfillResult, From
from lagwatch.jobs.backfill.run import run_backfill
from lagwatch.jobs.run import JobRun
from lagwatch.jobs.stores.registry import open_state
from lagwatch.jobs.tables import StoreRef
from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.copies import monitor_settings
from tests.support.history import held
from tests.support.kafka import create_topic, unique
from tests.support.served import serving
from tests.support.traffic import committing, keeping_up, producer_of, running
from tests.support.waiting import eventually

INTERVAL_MS = 1000
MOVING_S, SILENT_S = 16, 14
UNSEEN_S = 4.0
"""A group commits before anybody records."""
PRODUCED_PER_S = 40
_MONITOR = {"intervals": 10, "min_distance_ms": 200, "rules": RuleSet.BURROW}
"""A copy of the offsets topic says nothing about members: Burrow's rules need none."""
_SECTIONS = """
[windows]
intervals = 10
min_distance_s = 0.2
[evaluator]
interval_s = 0.5
rules = "burrow"
[history]
interval_s = 1.0
full_s = 0
flush_s = 0.3
url = "{folder}/live"
spool = "{folder}/spool"
"""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What happened, and what was recorded of it by a lagwatch that was on."""

    kafka: EmbeddedKafka
    group: str
    """What the names of all its groups begin with."""
    live: Path
    from_ms: int
    to_ms: int

    def recorded(self, kind: Kind = Kind.SAMPLES) -> list[Row]:
        rows = regular(ParquetStore(str(self.live)), kind)
        return [row for row in rows if self.from_ms <= row["at_ms"] < self.to_ms]


def regular(store: ParquetStore, kind: Kind) -> list[Row]:
    """What was recorded in rounds; changes between them are written at once."""
    return [row for row in held(store, kind) if row["reason"] == "interval"]


@pytest.fixture(scope="module")
def past(own_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Past:
    """Groups that keep up, fall behind, stop, rewind and never get on, recorded live.

    On a broker of their own: transactions of others leave gaps among the records of commits.
    """
    kafka = own_kafka
    folder = tmp_path_factory.mktemp("recorded")
    orders, name = create_topic(kafka, partitions=2), unique("past")
    _fill_an_hour_ago(kafka, orders)

    def slower(number: int) -> int:
        return 400 + number

    def back(number: int) -> int:
        return 300 if number < 12 else 200 + number

    cluster = {"log_end_interval_s": 0.25, "group_allow": f"^{name}"}
    moving = (
        producer_of(kafka, orders, rate=PRODUCED_PER_S, partitions=2),
        keeping_up(kafka, f"{name}-keeps-up", orders, every_s=0.6),
        committing(kafka, f"{name}-slower", orders, slower, every_s=0.6, partitions=2),
        committing(kafka, f"{name}-stuck", orders, lambda _: 100, every_s=0.6, partitions=2),
        committing(kafka, f"{name}-back", orders, back, every_s=0.6, partitions=2),
    )
    going_on = (
        producer_of(kafka, orders, rate=PRODUCED_PER_S, partitions=2),
        committing(kafka, f"{name}-slower", orders, slower, every_s=0.6, partitions=2),
    )
    live = folder / "live"
    store = ParquetStore(str(live))
    sections = _SECTIONS.format(folder=folder)
    with running(committing(kafka, f"{name}-early", orders, lambda _: 50, every_s=0.6)):
        until_s = time.monotonic() + UNSEEN_S
        eventually(lambda: time.monotonic() > until_s, "a group has committed with nobody there")
    with serving(kafka.bootstrap_servers, cluster=cluster, sections=sections) as served:
        served.wait_ready()
        with running(*moving):
            _wait_rounds(store, MOVING_S)
        with running(*going_on):
            _wait_rounds(store, MOVING_S + SILENT_S)
    instants = sorted({row["at_ms"] for row in regular(store, Kind.GROUP_SAMPLES)})
    # the first seconds are those in which the groups joined
    return Past(
        kafka=kafka, group=name, live=live, from_ms=instants[0] + 4000, to_ms=instants[-1] + 1000
    )


def _fill_an_hour_ago(kafka: EmbeddedKafka, topic: str) -> None:
    """Messages that nobody was waiting for lately, or silence would not count as a stop."""
    producer = Producer(kafka.admin_config() | {"linger.ms": 5, "log_level": 0})
    stamp = int(time.time() * 1000) - 3_600_000  # noqa: TID251 as producers do
    for number in range(1000):
        producer.produce(topic, b"x", partition=number % 2, timestamp=stamp)
    assert producer.flush(30) == 0


def _wait_rounds(store: ParquetStore, rounds: int) -> None:
    def recorded() -> bool:
        found = regular(store, Kind.GROUP_SAMPLES) if store.clusters() else []
        return len({row["at_ms"] for row in found}) >= rounds

    eventually(recorded, f"{rounds} rounds are recorded", timeout_s=120)


def fill(
    spark: SparkSession, past: Past, folder: Path, **changes: object
) -> tuple[BackfillResult, list[Row], list[Row]]:
    """Backfill the same time into a store; the result, its samples and those of groups."""
    ref = StoreRef(settings=HistorySettings(store="parquet", url=str(folder)))
    allow = {"group_allow": f"^{past.group}", "bootstrap": past.kafka.bootstrap_servers}
    request: dict[str, Any] = {
        "source": From.KAFKA,
        "clusters": {"here": ClusterSettings.model_validate(allow)},
        "since_ms": past.from_ms,
        "until_ms": past.to_ms,
        "replay": ReplaySettings(
            monitor=monitor_settings(**_MONITOR), interval_ms=INTERVAL_MS, full_every=1
        ),
        "shards": 2,
    }
    run = JobRun("backfill", open_state(ref.settings))
    now_ms = int(time.time() * 1000)  # noqa: TID251 as the command does
    result = run_backfill(spark, ref, BackfillRequest(**(request | changes)), run, now_ms=now_ms)
    store = ref.open()
    return result, held(store), held(store, Kind.GROUP_SAMPLES)


def around(rows: list[Row], *names: str) -> Mapping[tuple[Any, ...], list[Row]]:
    """For each series and instant the live rows from a second before to two behind."""
    found = defaultdict(list)
    for row in rows:
        for shift in (-2, -1, 0, 1):
            found[(*(row[name] for name in names), row["at_ms"] + shift * 1000)].append(row)
    return found


def described(row: Row, near: list[Row]) -> list[str]:
    """What differs, for the reader of a failed test."""
    names = ("at_ms", "observed_ms", "group", "partition", "status", "rule", "lag", "commit_ms")
    return [" ".join(f"{name}={sample[name]}" for name in names) for sample in (row, *near)]


@pytest.mark.timeout(400)
def test_a_backfill_gives_the_verdicts_and_lags_that_were_recorded(
    spark: SparkSession, past: Past, tmp_path: Path
) -> None:
    recorded = past.recorded()

    result, samples, groups = fill(spark, past, tmp_path / "filled")

    series = ("group", "topic", "partition")
    live = around(recorded, *series)
    by_name = {(*(row[name] for name in series), row["at_ms"]): row for row in recorded}
    assert {(*(row[name] for name in series), row["at_ms"]) for row in samples} == set(by_name)
    alike = 0
    for row in samples:
        key = (*(row[name] for name in series), row["at_ms"])
        near = live[key]
        assert row["status"] in {sample["status"] for sample in near}, described(row, near)
        lags = [sample["lag"] for sample in near]
        assert min(lags) - PRODUCED_PER_S <= row["lag"] <= max(lags) + PRODUCED_PER_S, described(
            row, near
        )
        alike += row["status"] == by_name[key]["status"]
    assert alike >= 0.9 * len(samples)
    statuses = {row["status"] for row in recorded}
    assert {"OK", "WARN", "STOP", "STALL"} <= statuses
    assert {row["method"] for row in samples} <= {"offsets_for_times", "latest"}
    assert {row["group"] for row in groups} == {row["group"] for row in recorded}
    assert result.clusters[0].complete_from == {}


@pytest.mark.timeout(300)
def test_live_rows_are_never_overwritten_and_time_before_them_is_filled(
    spark: SparkSession, past: Past
) -> None:
    before = past.recorded(), past.recorded(Kind.GROUP_SAMPLES)

    result, _, groups = fill(spark, past, past.live, since_ms=past.from_ms - 30_000)

    assert (past.recorded(), past.recorded(Kind.GROUP_SAMPLES)) == before
    assert {row["source"] for row in groups if row["at_ms"] >= past.from_ms} == {"live"}
    assert {row["source"] for row in groups if row["at_ms"] < past.from_ms} == {"live", "backfill"}
    (gap,) = result.clusters[0].gaps
    assert gap.to_ms <= past.from_ms


@pytest.mark.timeout(300)
def test_an_empty_range_of_a_real_cluster_is_valid(
    spark: SparkSession, past: Past, tmp_path: Path
) -> None:
    week_ms = 7 * 86_400_000
    span = {"since_ms": past.from_ms - 2 * week_ms, "until_ms": past.from_ms - 2 * week_ms + 60_000}

    result, samples, groups = fill(spark, past, tmp_path / "filled", **span)

    assert (samples, groups) == ([], [])
    assert result.clusters[0].rounds == 60
    assert result.clusters[0].commits == 0

"""A month of commits in a real broker, filled and compared with DuckDB on the records produced.

Two offsets topics get the same records: one keeps them all, of the other the broker's own cleaner
has compacted the closed segments. Both have transactions, of which every second one was aborted,
and tombstones of a group. Of the topics that are read one was deleted and made anew, of one the
records of the first days were deleted, and one's groups commit once a day.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from lagwatch.clock import SystemClock
from lagwatch.config import ClusterSettings
from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind
from lagwatch.jobs.backfill.replay import ReplaySettings
from lagwatch.jobs.backfill.request import BackfillRequest, ClusterBackfill, From
from lagwatch.jobs.backfill.run import run_backfill
from lagwatch.jobs.run import JobRun
from lagwatch.jobs.stores.registry import open_state
from lagwatch.jobs.tables import StoreRef
from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.kafka.ranges import plan_ranges, read_range
from lagwatch.ports.history import EVER_MS
from tests.support.compacted import EAGER_CLEANER, create
from tests.support.copies import monitor_settings
from tests.support.history import held
from tests.support.kafka import ANSWER_TIMEOUT_S, unique
from tests.support.waiting import eventually
from tests.support.wire import encode_offset_key, encode_offset_value

pytestmark = pytest.mark.minutes

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
DAYS: Final = 30
STEP_MS: Final = HOUR_MS // 2
"""Between two commits of most groups."""
FROM_MS: Final = (SystemClock().now_ms() // DAY_MS - DAYS) * DAY_MS
TO_MS: Final = FROM_MS + DAYS * DAY_MS
LEAD_MS: Final = 4 * STEP_MS
INTERVAL_MS: Final = HOUR_MS
EXPIRE_MS: Final = 3 * DAY_MS
"""After a day without commits a group is still there."""
MADE_ANEW_MS: Final = FROM_MS + 20 * DAY_MS
DELETED_BEFORE_MS: Final = FROM_MS + 10 * DAY_MS
TOMBSTONES_MS: Final = FROM_MS + 24 * DAY_MS
FOREVER: Final = {"retention.ms": "-1", "message.timestamp.before.max.ms": str(2**62)}
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "segment.ms": str(9 * DAY_MS),
    "min.cleanable.dirty.ratio": "0.01",
}
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(properties=EAGER_CLEANER, start_timeout_s=240) as broker:
        yield broker


@dataclass
class Month:
    """What is produced, and what was: the truth."""

    kafka: EmbeddedKafka
    offsets_topics: tuple[str, ...]
    orders: str = field(default_factory=lambda: unique("orders"))
    anew: str = field(default_factory=lambda: unique("anew"))
    expired: str = field(default_factory=lambda: unique("expired"))
    messages: list[tuple[str, int]] = field(default_factory=list)
    """Topic and time of each that is in the log, or was deleted by retention."""
    commits: list[tuple[str, str, int | None, int]] = field(default_factory=list)
    """Group, topic, offset (None: a tombstone) and time."""

    def __post_init__(self) -> None:
        for topic in (self.orders, self.anew, self.expired):
            create(self.kafka, topic, FOREVER)
        settings = self.kafka.admin_config() | {"linger.ms": 5}
        self._producer = Producer(settings)
        self._transactions = Producer(settings | {"transactional.id": unique("tx")})
        self._transactions.init_transactions(ANSWER_TIMEOUT_S)

    def produce(self) -> None:
        """A message every ten minutes in each topic, and the commits of all groups."""
        chance = random.Random(16)  # noqa: S311 a test's
        self._write(self.expired, FROM_MS - LEAD_MS, TO_MS, chance)
        self._write(self.orders, FROM_MS - LEAD_MS, TO_MS, chance)
        self._write(self.anew, MADE_ANEW_MS, TO_MS, chance)
        for number, at_ms in enumerate(range(FROM_MS - LEAD_MS, TO_MS, STEP_MS)):
            commit_ms = at_ms + 1000 + chance.randrange(60_000)
            self._commit("steady", self.orders, number * 3, commit_ms)
            self._commit("behind", self.orders, max(0, number * 3 - 100), commit_ms + 1)
            self._commit("expired", self.expired, number * 3, commit_ms + 2)
            since_anew = (at_ms - MADE_ANEW_MS) // STEP_MS
            old = since_anew < 0
            self._commit("anew", self.anew, 5000 + number if old else since_anew * 3, commit_ms + 3)
            if at_ms < TOMBSTONES_MS:
                self._commit("leaves", self.orders, number * 3, commit_ms + 4)
            elif at_ms < TOMBSTONES_MS + STEP_MS:
                self._commit("leaves", self.orders, None, commit_ms + 5)
            if number % 48 == 0:
                self._commit("daily", self.orders, number * 3, commit_ms + 6)
            if number % 12 == 0:
                self._transaction("pays", number * 3, commit_ms + 7, commit=number % 24 == 0)
            if number % 20 == 0:  # segments are rolled between batches
                self._flush()
        self._flush()

    def _write(self, topic: str, from_ms: int, to_ms: int, chance: random.Random) -> None:
        for at_ms in range(from_ms, to_ms, STEP_MS // 3):
            sent_ms = at_ms + chance.randrange(200_000)
            self._producer.produce(topic, b"v", timestamp=sent_ms, partition=0)
            self.messages.append((topic, sent_ms))
        self._flush()

    def _commit(self, group: str, topic: str, offset: int | None, at_ms: int) -> None:
        self.commits.append((group, topic, offset, at_ms))
        key = encode_offset_key(group, topic, 0)
        value = None if offset is None else encode_offset_value(offset, at_ms)
        for name in self.offsets_topics:
            self._producer.produce(name, value, key, timestamp=at_ms, partition=0)

    def _transaction(self, group: str, offset: int, at_ms: int, *, commit: bool) -> None:
        self._transactions.begin_transaction()
        for name in self.offsets_topics:
            key, value = (
                encode_offset_key(group, self.orders, 0),
                encode_offset_value(offset, at_ms),
            )
            self._transactions.produce(name, value, key, timestamp=at_ms, partition=1)
        assert self._transactions.flush(ANSWER_TIMEOUT_S) == 0
        if commit:
            self._transactions.commit_transaction(ANSWER_TIMEOUT_S)
            self.commits.append((group, self.orders, offset, at_ms))
        else:
            self._transactions.abort_transaction(ANSWER_TIMEOUT_S)

    def _flush(self) -> None:
        assert self._producer.flush(ANSWER_TIMEOUT_S) == 0

    def delete_first_days(self) -> None:
        """The first days of one topic, as its retention would."""
        gone = sum(
            topic == self.expired and at_ms < DELETED_BEFORE_MS for topic, at_ms in self.messages
        )
        admin = AdminClient(self.kafka.admin_config())
        place = TopicPartition(self.expired, 0, gone)
        admin.delete_records([place])[place].result(ANSWER_TIMEOUT_S)

    def records_left(self, topic: str) -> int:
        there = self.settings(topic)
        ranges = plan_ranges("here", there, from_ms=0, to_ms=EVER_MS, records_per_range=10**6)
        return sum(b.orders.size for span in ranges for b in read_range("here", there, span))

    def settings(self, offsets_topic: str) -> ClusterSettings:
        return ClusterSettings(
            bootstrap=(self.kafka.bootstrap_servers,), offsets_topic=offsets_topic
        )

    def truth(self) -> dict[tuple[str, int], tuple[int, int]]:
        """(group, instant) → committed offset and log end: what DuckDB makes of the records."""
        with duckdb.connect() as connection:
            connection.execute("create table messages (topic text, at_ms bigint)")
            connection.executemany("insert into messages values (?, ?)", self.messages)
            connection.execute(
                "create table commits (grp text, topic text, committed bigint, at_ms bigint)"
            )
            connection.executemany("insert into commits values (?, ?, ?, ?)", self.commits)
            found = connection.execute(f"""
with rounds as (select unnest(range({FROM_MS}, {TO_MS}, {INTERVAL_MS})) as round_ms),
ends as (
  select topic, round_ms, count(at_ms) as log_end
  from rounds left join messages on at_ms <= round_ms group by all)
select grp, round_ms, arg_max(committed, commits.at_ms), any_value(log_end)
from rounds join commits on commits.at_ms <= round_ms join ends using (topic, round_ms)
group by grp, round_ms having arg_max(coalesce(committed, -1), commits.at_ms) >= 0
""").fetchall()  # noqa: S608 our own numbers
        return {(group, at_ms): (committed, end) for group, at_ms, committed, end in found}


@pytest.fixture(scope="module")
def month(kafka: EmbeddedKafka) -> Month:
    topics = unique("whole"), unique("compacted")
    create(kafka, topics[0], FOREVER, partitions=2)
    create(
        kafka, topics[1], COMPACTED | {"message.timestamp.before.max.ms": str(2**62)}, partitions=2
    )
    made = Month(kafka, topics)
    made.produce()
    made.delete_first_days()
    return made


def filled(
    spark: SparkSession, month: Month, offsets_topic: str, folder: Path
) -> tuple[ClusterBackfill, Rows]:
    ref = StoreRef(settings=HistorySettings(url=str(folder)))
    request = BackfillRequest(
        source=From.KAFKA,
        clusters={"here": month.settings(offsets_topic)},
        since_ms=FROM_MS,
        until_ms=TO_MS,
        replay=ReplaySettings(
            monitor=monitor_settings(expire_ms=EXPIRE_MS), interval_ms=INTERVAL_MS, full_every=1
        ),
        shards=2,
    )
    run = JobRun("backfill", open_state(ref.settings))
    done = run_backfill(spark, ref, request, run, now_ms=SystemClock().now_ms())
    store = ref.open()
    rows = held(store, Kind.SAMPLES)
    store.close()
    return done.clusters[0], rows


@pytest.mark.timeout(900)
def test_a_month_is_filled_as_it_was(spark: SparkSession, month: Month, tmp_path: Path) -> None:
    whole, _ = month.offsets_topics

    done, rows = filled(spark, month, whole, tmp_path)

    truth = month.truth()
    wrong = compared(rows, truth, done, from_ms=0)
    assert wrong == []
    assert len({row["at_ms"] for row in rows}) == DAYS * DAY_MS // INTERVAL_MS


@pytest.mark.timeout(900)
def test_of_a_compacted_month_only_what_is_known_is_filled(
    spark: SparkSession, month: Month, tmp_path: Path
) -> None:
    whole, compacted = month.offsets_topics
    sent = month.records_left(whole)
    eventually(lambda: month.records_left(compacted) < sent // 2, "the cleaner", timeout_s=120)

    done, rows = filled(spark, month, compacted, tmp_path)

    assert FROM_MS < done.complete_from[0] < TO_MS
    assert min(row["at_ms"] for row in rows) >= min(done.complete_from.values())
    assert compared(rows, month.truth(), done, from_ms=done.complete_from[0]) == []


def compared(
    rows: Rows,
    truth: dict[tuple[str, int], tuple[int, int]],
    done: ClusterBackfill,
    *,
    from_ms: int,
) -> list[Any]:
    """Rows that differ from the truth, are missing, or should not be there."""
    wrong: list[Any] = []
    by_key = {(row["group"], row["at_ms"]): row for row in rows}
    for key, (committed, log_end) in truth.items():
        group, at_ms = key
        if at_ms < from_ms or (group == "pays" and at_ms < done.complete_from.get(1, 0)):
            continue
        row = by_key.pop(key, None)
        if row is None:
            wrong.append(("missing", *key))
            continue
        old = (group == "anew" and at_ms < MADE_ANEW_MS) or (
            group == "expired" and at_ms < DELETED_BEFORE_MS
        )
        found = row["committed_offset"], row["log_end_offset"], row["lag"]
        expected = committed, log_end, max(0, log_end - committed)
        # of messages that are gone no log end is made up
        good = found[0] == committed and found[2] in {None, 0} if old else found == expected
        if not good:
            wrong.append((*key, found, expected))
    wrong += [("too many", *key) for key in by_key if key[1] >= from_ms]
    return wrong

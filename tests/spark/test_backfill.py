"""Backfill from copies in Parquet files: what is written, what stays a gap, what is refused."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark.sql import SparkSession

from lagwatch.core.record import EventName, Kind
from lagwatch.errors import JobError
from lagwatch.history.changes import event
from lagwatch.jobs.backfill.inputs import Gap
from lagwatch.jobs.backfill.recorded import gaps_of
from lagwatch.jobs.backfill.replay import ReplaySettings
from lagwatch.jobs.backfill.request import BackfillRequest, From
from tests.support.backfilled import HOUR_S, Store
from tests.support.copies import INTERVAL_MS, Copied, monitor_settings, some_hours
from tests.support.history import NOON_MS, events, group_sample, group_samples, sample, samples


def seconds(row: Mapping[str, Any]) -> int:
    return (row["at_ms"] - NOON_MS) // 1000


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> Store:
    return Store(spark, tmp_path / "store")


@pytest.fixture
def copied(tmp_path: Path) -> Copied:
    return Copied(tmp_path / "copies")


def test_an_hour_is_filled_with_samples_and_events(store: Store, tmp_path: Path) -> None:
    where = some_hours(tmp_path / "copies", hours=1).write()

    result = store.backfill(where)

    groups = store.rows(Kind.GROUP_SAMPLES)
    instants = {seconds(row) for row in groups}
    assert instants == set(range(0, HOUR_S, 30))
    assert {row["group"] for row in groups} == set("abcdefgh")
    assert {row["source"] for row in groups} == {"backfill"}
    assert {row["method"] for row in store.rows()} == {"observed"}
    statuses = {(row["group"], row["status"]) for row in groups}
    assert {("a", "ERR"), ("b", "WARN"), ("c", "OK")} <= statuses
    assert ("c", "ERR") not in statuses
    events = store.rows(Kind.EVENTS)
    assert {row["event"] for row in events} == {"group_status", "partition_status", "recording"}
    assert result.total("group_samples") == len(groups) == 8 * 120
    assert result.total("samples") == len(store.rows())
    assert store.run.counts["samples_written"] == len(store.rows())
    assert result.lines()[0].startswith("here: 1 gap, 1 h, 120 rounds")


def test_running_it_again_changes_nothing(store: Store, tmp_path: Path) -> None:
    where = some_hours(tmp_path / "copies", hours=1).write()
    store.backfill(where)
    before = store.files()

    again = store.backfill(where)

    assert store.files() == before
    assert again.total("samples") == 0
    assert again.lines() == ["here: nothing to fill, every interval is recorded"]


class _Parts:
    """Keeps how many parts there were."""

    total = 0

    def step(self, what: str) -> None:
        """Nothing."""

    def move(self, done: int, total: int) -> None:
        self.total = max(done, total)


def _late(folder: Path, *, since_s: int) -> str:
    """Groups that begin at noon, hours behind; log ends are known since long before."""
    copied = Copied(folder)
    for second in range(0, HOUR_S, 20):
        for place, group in enumerate("abc"):
            copied.commit(group, second + 200_000 - place * 30_000, second)
    for number in range(20):  # in each shard one: some have nothing else
        copied.delete(f"gone-{number}", 600)
    copied.ends(lambda second: second + 200_005, range(-since_s, HOUR_S + 1, 30))
    return copied.write()


def _without_time(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All but the event of the run and time lags: log ends before a gap are farther apart."""
    return [
        {name: value for name, value in row.items() if name != "time_lag_s"}
        for row in rows
        if row.get("event") != "recording"
    ]


def test_time_before_the_first_commit_is_not_judged_and_changes_no_row(
    spark: SparkSession, store: Store, tmp_path: Path
) -> None:
    two_days_ms = 48 * HOUR_S * 1000
    where = _late(tmp_path / "copies", since_s=48 * HOUR_S)
    parts, short = _Parts(), Store(spark, tmp_path / "short")
    short.backfill(where, since_ms=NOON_MS - HOUR_S * 1000)

    result = store.backfill(where, since_ms=NOON_MS - two_days_ms, progress=parts)

    assert 0 < parts.total <= 2 * 3  # of each shard the hour of the first commit, and one before
    assert result.lines()[0].startswith("here: 1 gap, 2 d 1 h, 5,880 rounds")
    assert len(store.rows(Kind.GROUP_SAMPLES)) == 3 * HOUR_S // 30
    for kind in (Kind.SAMPLES, Kind.GROUP_SAMPLES, Kind.EVENTS):
        assert _without_time(store.rows(kind)) == _without_time(short.rows(kind))
    times = [row["time_lag_s"] for row in store.rows()]
    assert times == pytest.approx([row["time_lag_s"] for row in short.rows()], rel=1e-4)
    assert {row["time_lag_reason"] for row in store.rows() if row["group"] == "c"} == {"measured"}


def test_only_times_that_nobody_recorded_are_filled(store: Store, tmp_path: Path) -> None:
    where = some_hours(tmp_path / "copies", hours=1).write()
    live = [
        group_sample(group="a", at_ms=NOON_MS + second * 1000, total_lag=777)
        for second in range(1200, 2400, 30)
    ]
    rows = [sample(group="a", at_ms=row["at_ms"], lag=777) for row in live]
    opened = store.ref.open()
    opened.write([group_samples(live), samples(rows)], batch="live")
    opened.close()

    result = store.backfill(where)

    found = store.rows(Kind.GROUP_SAMPLES)
    by_source = {
        source: {seconds(row) for row in found if row["source"] == source}
        for source in ("live", "backfill")
    }
    assert by_source["live"] == set(range(1200, 2400, 30))
    assert by_source["backfill"] == {*range(0, 1200, 30), *range(2400, HOUR_S, 30)}
    assert {row["total_lag"] for row in found if row["source"] == "live"} == {777}
    assert [gap.seconds for gap in result.clusters[0].gaps] == [1200.0, 1200.0]
    first_after = [row for row in found if seconds(row) == 2400]
    assert {row["previous_ms"] for row in first_after} == {None}


@pytest.mark.parametrize(
    ("source", "filled"), [(From.KAFKA, [(0, 900)]), (From.PARQUET, [(0, 900), (1200, 1500)])]
)
def test_a_time_in_which_kafka_did_not_answer_is_not_filled_from_kafka(
    spark: SparkSession, store: Store, source: From, filled: list[tuple[int, int]]
) -> None:
    live = [
        group_sample(at_ms=NOON_MS + second * 1000)
        for second in (*range(900, 1200, 30), *range(1500, HOUR_S + 60, 30))
    ]
    said = [
        dict(event("here", NOON_MS + at_ms, EventName.RECORDING, after=word))
        for at_ms, word in ((900_100, "started"), (1_199_400, "dropped"), (1_504_900, "resumed"))
    ]
    opened = store.ref.open()
    opened.write([group_samples(live), events(said)], batch="live")
    opened.close()
    request = BackfillRequest(
        source=source,
        since_ms=NOON_MS,
        until_ms=NOON_MS + HOUR_S * 1000,
        replay=ReplaySettings(monitor=monitor_settings(), interval_ms=INTERVAL_MS, full_every=20),
    )

    found = gaps_of(spark, store.ref, request, "here", unfinished=(), aside=lambda *_: None)

    assert found == tuple(
        Gap(from_ms=NOON_MS + begin * 1000, to_ms=NOON_MS + end * 1000) for begin, end in filled
    )


def test_the_change_from_what_is_filled_to_what_was_recorded_is_an_event(
    store: Store, tmp_path: Path
) -> None:
    """Of the two gaps only the first has a recorded round behind it."""
    where = some_hours(tmp_path / "copies", hours=1).write()
    live = [
        group_sample(
            group=group, at_ms=NOON_MS + second * 1000, status=status, rule=rule, total_lag=777
        )
        for group, status, rule in (("a", "OK", "progressing"), ("b", "ERR", "stopped"))
        for second in range(1200, 2400, 30)
    ]
    opened = store.ref.open()
    opened.write([group_samples(live)], batch="live")
    opened.close()

    store.backfill(where)

    filled = {
        row["group"]: row["status"]
        for row in store.rows(Kind.GROUP_SAMPLES)
        if seconds(row) == 1170
    }
    changed = [
        (row["group"], row["before"], row["after"], row["rule"], row["lag"], row["source"])
        for row in store.rows(Kind.EVENTS)
        if row["event"] == "group_status" and seconds(row) == 1200
    ]
    expected = [("a", "OK", "progressing"), ("b", "ERR", "stopped")]
    assert changed == [
        (group, filled[group], status, rule, 777, "backfill")
        for group, status, rule in expected
        if filled[group] != status
    ]
    assert changed


def test_an_empty_range_gives_an_empty_valid_result(store: Store, copied: Copied) -> None:
    copied.commit("a", 1, 9 * HOUR_S)
    copied.ends(lambda _: 10, range(9 * HOUR_S, 9 * HOUR_S + 60, 30))

    result = store.backfill(copied.write())

    assert result.clusters[0].commits == 0
    assert store.rows() == store.rows(Kind.GROUP_SAMPLES) == []
    (said,) = store.rows(Kind.EVENTS)
    assert (said["event"], said["after"], said["count"]) == ("recording", "backfilled", 0)


def test_commits_that_compaction_removed_leave_a_gap_that_is_reported(
    store: Store, copied: Copied
) -> None:
    for second in range(-60, HOUR_S, 10):
        copied.commit("a", second + 60, second, place=0)
        copied.commit("b", second + 60, second, place=1)
    copied.ends(lambda second: second + 65, range(-90, HOUR_S, 30))
    copied.compact(0, below=copied.orders[0] // 2)

    result = store.backfill(copied.write())

    found = store.rows(Kind.GROUP_SAMPLES)
    first = {name: min(seconds(row) for row in found if row["group"] == name) for name in "ab"}
    assert first["b"] == 0
    assert 1740 <= first["a"] <= 1800
    (complete_from,) = result.clusters[0].complete_from.values()
    assert first["a"] - 30 < (complete_from - NOON_MS) / 1000 <= first["a"]
    assert any("1 partition of the offsets topic lacks records" in line for line in result.lines())
    said = [row for row in store.rows(Kind.EVENTS) if row["event"] == "recording"]
    assert orjson.loads(said[0]["detail"])["offsets_partitions_with_missing_commits"] == {
        "0": complete_from
    }


def test_marks_of_transactions_are_no_missing_commits(store: Store, copied: Copied) -> None:
    for second in range(-60, HOUR_S, 10):
        copied.commit("a", second + 60, second)
        copied.orders[0] += 1
    copied.ends(lambda second: second + 65, range(-90, HOUR_S, 30))

    store.backfill(copied.write())

    assert min(seconds(row) for row in store.rows(Kind.GROUP_SAMPLES)) == 0


def test_lag_is_unknown_where_retention_took_the_messages(store: Store, copied: Copied) -> None:
    for second in range(-60, HOUR_S, 10):
        copied.commit("a", second + 60, second)
    copied.ends(lambda second: second + 60 if second >= 1800 else None, range(-90, HOUR_S, 30))

    result = store.backfill(copied.write())

    groups = store.rows(Kind.GROUP_SAMPLES)
    unknown = {seconds(row) for row in groups if row["total_lag"] is None}
    assert unknown == set(range(0, 1800, 30))
    assert {row["status"] for row in groups if seconds(row) < 1800} == {"UNKNOWN"}
    assert {row["status"] for row in groups if seconds(row) >= 1800} == {"OK"}
    assert any("retention or compaction removed the messages" in line for line in result.lines())


def test_records_that_cannot_be_decoded_are_named_with_their_bytes(
    store: Store, copied: Copied
) -> None:
    copied.commit("a", 1, 5)
    copied.add(b"\x00\x01\x00\x09", b"\xff", NOON_MS + 6000)
    copied.commit("a", 2, 10)
    copied.ends(lambda _: 10, range(0, 120, 30))

    result = store.backfill(copied.write(), until_ms=NOON_MS + 90_000)

    assert result.clusters[0].malformed == 1
    assert store.run.counts["set_aside"] == 1
    assert "key 0x00010009, value 0xff" in store.run.set_aside[0]
    assert {seconds(row) for row in store.rows(Kind.GROUP_SAMPLES)} == {30, 60}


def test_a_dry_run_reads_and_writes_nothing(store: Store, tmp_path: Path) -> None:
    where = some_hours(tmp_path / "copies", hours=1).write()

    result = store.backfill(where, dry_run=True)

    assert store.files() == {}
    assert not store.folder.exists() or not list(store.folder.rglob("*.json"))
    (line, read) = result.lines()
    assert line.startswith("here: 1 gap, 1 h, 120 rounds")
    assert "commits of 8 groups read" in read


def _swap(folder: Path) -> None:
    (folder / "log_ends").rename(folder / "x")
    (folder / "offsets").rename(folder / "log_ends")
    (folder / "x").rename(folder / "offsets")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: (folder / "log_ends").rename(folder / "elsewhere"), "log_ends: no Parquet"),
        (lambda folder: (folder / "offsets").rename(folder / "elsewhere"), "offsets: no Parquet"),
        (_swap, "lacks"),
    ],
)
def test_copies_that_cannot_be_used_are_refused_with_the_remedy(
    store: Store, tmp_path: Path, spoil: Callable[[Path], object], said: str
) -> None:
    some_hours(tmp_path / "copies", hours=1).write()
    spoil(tmp_path / "copies")

    with pytest.raises(JobError, match=said):
        store.backfill(str(tmp_path / "copies"))

"""A full disk: the service goes on, says so, and resumes; on a small file system of its own."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind
from lagwatch.history.build import History
from lagwatch.history.parquet import ParquetStore
from lagwatch.history.recorder import Recorder, RecorderSettings
from lagwatch.history.spool import Spool
from lagwatch.history.writer import Writer, WriterSettings
from tests.support.history import NOON_MS, Live, SetClock, held
from tests.support.small_disk import small_disk
from tests.support.waiting import eventually

INTERVAL_MS = 30_000
PARTITIONS = 500


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 2) as place:
        yield place


@pytest.fixture
def live() -> Live:
    live = Live()
    live.topics(orders=PARTITIONS)
    live.wait(1)
    live.commit(*(("billing", "orders", number, 90) for number in range(PARTITIONS)))
    live.wait(1)
    return live


def test_a_full_spool_disk_costs_only_the_rounds_of_that_time(
    disk: Path, tmp_path: Path, live: Live
) -> None:
    clock = SetClock()
    spool = Spool(disk / "spool", max_bytes=100_000_000, spool_id="test")
    store = ParquetStore(str(tmp_path / "store"))
    writer = Writer(spool, store, WriterSettings(flush_ms=0, retention_days={}), clock)
    recording = Recorder(
        spool,
        RecorderSettings(interval_ms=INTERVAL_MS, full_every=1),
        clock,
        appended=lambda: None,
    )

    _rounds(live, recording, 2)
    filler = _fill(disk)
    _rounds(live, recording, 3)
    said, dropped = recording.problem, recording.counts.dropped["disk_full"]
    filler.unlink()
    _rounds(live, recording, 2)
    while writer.deliver():
        pass

    lost = {NOON_MS + number * INTERVAL_MS for number in range(2, 5)}
    kept = {NOON_MS + number * INTERVAL_MS for number in range(7)} - lost
    assert "No space left on device" in said
    assert "history.spool" in said  # no retention of the store frees this disk
    assert "retention" not in said
    assert dropped >= 3 * PARTITIONS
    assert recording.problem == ""
    assert {row["at_ms"] for row in held(store)} == kept
    assert len(held(store)) == len(kept) * PARTITIONS
    assert [(gap.from_ms, gap.to_ms) for gap in store.verify().gaps] == [
        (NOON_MS + INTERVAL_MS, NOON_MS + 5 * INTERVAL_MS)
    ]


def test_what_waits_on_a_full_spool_disk_is_delivered_and_makes_room(
    disk: Path, tmp_path: Path, live: Live
) -> None:
    spool = Spool(disk / "spool", max_bytes=100_000_000, spool_id="test")
    store = ParquetStore(str(tmp_path / "store"))
    writer = Writer(spool, store, WriterSettings(flush_ms=0, retention_days={}), SetClock())
    recording = Recorder(
        spool,
        RecorderSettings(interval_ms=INTERVAL_MS, full_every=1),
        SetClock(),
        appended=lambda: None,
    )
    _rounds(live, recording, 2)
    _fill(disk)
    _rounds(live, recording, 1)
    refused = recording.problem

    assert writer.deliver()
    _rounds(live, recording, 1)

    assert refused
    assert recording.problem == ""
    assert len(held(store)) == 2 * PARTITIONS


def test_a_full_store_disk_loses_nothing(disk: Path, tmp_path: Path, live: Live) -> None:
    clock = SetClock()
    spool = Spool(tmp_path / "spool", max_bytes=100_000_000, spool_id="test")
    store = ParquetStore(str(disk / "store"))
    writer = Writer(spool, store, WriterSettings(flush_ms=0, retention_days={}), clock)
    recording = Recorder(
        spool,
        RecorderSettings(interval_ms=INTERVAL_MS, full_every=1),
        clock,
        appended=lambda: None,
    )

    _rounds(live, recording, 2)
    assert writer.deliver()
    filler = _fill(disk)
    _rounds(live, recording, 3)
    assert not writer.deliver()
    said = writer.problem
    filler.unlink()
    assert writer.deliver()

    found = store.verify()
    assert "No space left on device" in said
    assert writer.problem == ""
    assert found.rows[Kind.SAMPLES] == 5 * PARTITIONS
    assert found.sound
    assert found.leftovers == ()


def test_reading_goes_on_while_the_disk_is_full(disk: Path, live: Live) -> None:
    store = ParquetStore(str(disk / "store"))
    spool = Spool(disk / "spool", max_bytes=100_000_000, spool_id="test")
    recording = Recorder(
        spool,
        RecorderSettings(interval_ms=INTERVAL_MS, full_every=1),
        SetClock(),
        appended=lambda: None,
    )
    writer = Writer(spool, store, WriterSettings(flush_ms=0, retention_days={}), SetClock())
    _rounds(live, recording, 1)
    writer.deliver()

    _fill(disk)

    assert len(held(store)) == PARTITIONS
    assert store.verify().sound


def _rounds(live: Live, recording: Recorder, number: int) -> None:
    """Rounds of the service, each in another interval; none of them may be held up."""
    for _ in range(number):
        started_s = time.monotonic()
        live.shown_to(recording)
        assert time.monotonic() - started_s < 30
        live.wait(INTERVAL_MS / 1000)


def _fill(disk: Path) -> Path:
    """Take all the space there is."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (65_536, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue
    return filler


def test_a_full_spool_says_why_the_store_does_not_take_its_rows(tmp_path: Path, live: Live) -> None:
    (tmp_path / "store").write_text("a file where the folder should be")
    settings = HistorySettings(
        url=str(tmp_path / "store"),
        spool=tmp_path / "spool",
        spool_size_mb=1,
        interval_s=1,
        full_s=0,
        flush_s=0.1,
    )
    clock = SetClock(NOON_MS + 600_000)
    history = History(settings, clock)

    def fill() -> bool:
        live.wait(1)
        history.offer(live.judge(), live.monitor.rebalances)
        return bool(history.health().dropped.get("spool_full")) and history.health().retries > 0

    eventually(fill, "a full spool")
    said = history.health().problem
    history.stop(1)

    assert said.startswith("the spool is full")
    assert str(tmp_path / "store") in said
    assert "Repair the store" in said

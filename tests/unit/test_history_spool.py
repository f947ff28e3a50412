"""The spool: order, bounds, damage, plans that outlive a restart; the writer that empties it."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from lagwatch.clock import Witness
from lagwatch.core.record import RAW, Kind, Records, from_rows
from lagwatch.errors import HistoryError
from lagwatch.history.layout import DAY_MS, day_of
from lagwatch.history.parquet import ParquetStore
from lagwatch.history.spool import Spool
from lagwatch.history.writer import Writer, WriterSettings
from lagwatch.ports.history import HistoryStore
from tests.support.history import (
    NOON_MS,
    MemoryStore,
    SetClock,
    events,
    group_sample,
    group_samples,
    happening,
    rollup,
    sample,
    samples,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow  # writes real files

LARGE = 100_000_000


def spool_in(folder: Path, *, max_bytes: int = LARGE) -> Spool:
    return Spool(folder / "spool", max_bytes=max_bytes, spool_id="s1")


def numbered(number: int) -> list[Records]:
    """The rows of one round, writer_settings apart by their lag."""
    at_ms = NOON_MS + number * 30_000
    return [
        samples([sample(at_ms=at_ms, lag=number, partition=partition) for partition in range(3)])
    ]


def writer_of(spool: Spool, store: MemoryStore, *, max_rows: int = 500_000, flush_ms: int = 0):
    return Writer(
        spool,
        cast("HistoryStore", store),  # all of it that a writer uses
        WriterSettings(flush_ms=flush_ms, retention_days={}, max_rows=max_rows),
        SetClock(NOON_MS + 3_600_000),
    )


def lags(store: MemoryStore) -> list[int]:
    return sorted({row["lag"] for row in store.rows()})


def test_rows_come_out_as_they_went_in(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    went_in = [samples([sample(), sample(lag=None)]), group_samples([group_sample()])]

    spool.append(went_in)

    plan = spool.plan(max_rows=100)
    assert plan is not None
    came_out = spool.load(plan.segments[0])
    assert [(part.kind, list(part.rows())) for part in came_out] == [
        (part.kind, list(part.rows())) for part in went_in
    ]


def test_nobody_else_may_look_into_it(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    spool.append(numbered(1))

    assert (tmp_path / "spool").stat().st_mode & 0o077 == 0


def test_what_was_appended_is_there_after_a_restart(tmp_path: Path) -> None:
    spool_in(tmp_path).append(numbered(1))

    again = spool_in(tmp_path)

    assert again.fill().rows == 3
    assert again.fill().oldest_ms == NOON_MS + 30_000


def test_a_plan_stays_the_same_until_it_is_acknowledged(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    spool.append(numbered(1))
    first = spool.plan(max_rows=100)
    spool.append(numbered(2))

    assert spool.plan(max_rows=100) == first
    assert spool_in(tmp_path).plan(max_rows=100) == first


def test_acknowledged_segments_never_come_back(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    spool.append(numbered(1))
    plan = spool.plan(max_rows=100)
    assert plan is not None
    kept = {file: file.read_bytes() for file in (tmp_path / "spool").glob("*.seg")}
    spool.acknowledge(plan)

    for file, data in kept.items():  # as after a kill between acknowledging and deleting
        file.write_bytes(data)

    assert spool_in(tmp_path).plan(max_rows=100) is None
    assert list((tmp_path / "spool").glob("*.seg")) == []


def test_batches_have_names_of_their_own(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    names = []
    for number in range(5):
        spool.append(numbered(number))
        plan = spool.plan(max_rows=3)
        assert plan is not None
        names.append(plan.batch)
        spool.acknowledge(plan)
        spool = spool_in(tmp_path)

    assert len(set(names)) == 5
    assert names == sorted(names)


def test_a_full_spool_lets_the_oldest_go_and_counts_them(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    spool.append(numbered(0))
    size = spool.fill().size_bytes
    small = spool_in(tmp_path, max_bytes=size * 3 + size // 2)

    dropped = [small.append(numbered(number)) for number in range(1, 6)]

    assert dropped == [0, 0, 3, 3, 3]
    assert small.fill().oldest_ms == NOON_MS + 3 * 30_000
    assert small.fill().size_bytes <= size * 3 + size // 2


def test_a_batch_under_way_is_never_dropped(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    spool.append(numbered(0))
    size = spool.fill().size_bytes
    small = spool_in(tmp_path, max_bytes=size * 2 + size // 2)
    plan = small.plan(max_rows=3)
    assert plan is not None

    for number in range(1, 5):
        small.append(numbered(number))

    assert small.plan(max_rows=3) == plan
    assert small.load(plan.segments[0])[0].numbers("lag").tolist() == [0, 0, 0]


def test_a_round_larger_than_the_spool_is_refused_with_the_option(tmp_path: Path) -> None:
    small = spool_in(tmp_path, max_bytes=100)

    with pytest.raises(HistoryError, match="spool_size_mb"):
        small.append(numbered(0))


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "gone"])
def test_a_damaged_segment_is_found_set_aside_and_counted(tmp_path: Path, damage: str) -> None:
    spool = spool_in(tmp_path)
    for number in range(3):
        spool.append(numbered(number))
    [_, file, _] = sorted((tmp_path / "spool").glob("*.seg"))
    data = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(
            {"cut": data[:-9], "flip": data[:-9] + b"\xff" + data[-8:], "empty": b""}[damage]
        )
    store = MemoryStore()
    writer = writer_of(spool, store)

    assert writer.deliver()

    assert lags(store) == [0, 2]
    assert writer.corrupt == 3
    assert spool.fill().segments == 0
    if damage != "gone":
        assert len(list((tmp_path / "spool").glob("*.damaged"))) == 1


def test_a_damaged_segment_is_counted_once_however_often_its_batch_is_tried(
    tmp_path: Path,
) -> None:
    spool = spool_in(tmp_path)
    for number in range(3):
        spool.append(numbered(number))
    sorted((tmp_path / "spool").glob("*.seg"))[1].write_bytes(b"")
    store = MemoryStore()
    away = HistoryError(store="there", kind="io", message="away", retryable=True)
    store.failures = [away] * 3
    writer = writer_of(spool, store)

    with capture_logs() as logged:
        delivered = [writer.deliver() for _ in range(4)]

    assert delivered == [False, False, False, True]
    assert writer.corrupt == 3
    assert [line["event"] for line in logged].count("history_segment_damaged") == 1


def test_foreign_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    for name in ("notes.txt", "x.seg", "rejected.jsonl"):
        (tmp_path / "spool" / name).write_text("mine")

    spool = spool_in(tmp_path)
    spool.append(numbered(1))

    assert spool.fill().segments == 1
    assert (tmp_path / "spool" / "x.seg").read_text() == "mine"


def test_a_broken_state_file_costs_no_rows(tmp_path: Path) -> None:
    spool_in(tmp_path).append(numbered(1))
    (tmp_path / "spool" / "state.json").write_text("{")

    assert spool_in(tmp_path).fill().rows == 3


def test_a_folder_that_is_a_file_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("")

    with pytest.raises(HistoryError, match="spool"):
        spool_in(tmp_path)


def test_two_processes_cannot_have_the_same_spool(tmp_path: Path) -> None:
    spool_in(tmp_path)
    code = (
        "from pathlib import Path; from lagwatch.history.spool import Spool; "
        f"Spool(Path({str(tmp_path / 'spool')!r}), max_bytes=9, spool_id='x')"
    )

    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )

    assert other.returncode == 1
    assert "spool of another lagwatch" in other.stderr


# the writer


def test_batches_are_delivered_in_order_and_bounded(tmp_path: Path) -> None:
    spool, store = spool_in(tmp_path), MemoryStore()
    for number in range(5):
        spool.append(numbered(number))
    writer = writer_of(spool, store, max_rows=6)

    while writer.deliver():
        pass

    sizes = [sum(part.size for part in batch) for batch in store.batches.values()]
    assert sizes == [6, 6, 3]
    assert lags(store) == list(range(5))
    assert list(store.batches) == sorted(store.batches)
    assert writer.delivered == 15


def test_an_outage_of_the_store_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """An hour of rounds, writer_settings in an instant."""
    spool, store = spool_in(tmp_path), MemoryStore()
    writer = writer_of(spool, store)
    away = [
        HistoryError(store="x", kind="connection", message="refused", retryable=True)
        for _ in range(120)
    ]
    store.failures = list(away)
    for number in range(120):
        spool.append(numbered(number))
        writer.deliver()
    problem = writer.problem

    while writer.deliver():
        pass

    assert problem == "refused"
    assert writer.problem == ""
    assert lags(store) == list(range(120))
    assert len(store.rows()) == 360
    assert writer.retries == 120


def test_a_store_that_fails_after_it_has_written_gets_the_same_batch_again(tmp_path: Path) -> None:
    spool, store = spool_in(tmp_path), MemoryStore()
    spool.append(numbered(0))

    class Late(MemoryStore):
        def write(self, records, *, batch):
            super().write(records, batch=batch)
            if self.writes == 1:
                raise HistoryError(store="x", kind="timeout", message="late", retryable=True)

    store = Late()
    writer = writer_of(spool, store)

    assert not writer.deliver()
    spool.append(numbered(1))
    assert writer.deliver()
    assert writer.deliver()
    assert store.writes == 3
    assert len(store.batches) == 2
    assert len(store.rows()) == 6


def test_a_store_that_breaks_its_word_does_not_end_delivery(tmp_path: Path) -> None:
    spool, store = spool_in(tmp_path), MemoryStore()
    spool.append(numbered(0))
    store.failures = [RuntimeError("a bug")]
    writer = writer_of(spool, store)

    assert not writer.deliver()

    assert "a bug" in writer.problem
    assert writer.deliver()


def test_the_thread_delivers_what_is_appended_and_the_rest_at_its_end(tmp_path: Path) -> None:
    spool, store = spool_in(tmp_path), MemoryStore()
    writer = writer_of(spool, store)
    writer.start()
    spool.append(numbered(0))
    writer.notify()
    eventually(lambda: lags(store) == [0], "the first round is delivered")

    waiting = writer_of(spool, store, flush_ms=10**9)
    writer.stop(10)
    spool.append(numbered(1))
    waiting.start()
    waiting.stop(10)

    assert lags(store) == [0, 1]


class Tidied(ParquetStore):
    """Says when a writer has applied the retention."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.tidied = threading.Event()

    def tidy(self, now_ms: int) -> None:
        super().tidy(now_ms)
        self.tidied.set()


@pytest.mark.parametrize(
    ("rollups", "rolled_up", "kept"),
    [
        ("auto", None, set()),
        ("auto", Kind.ROLLUP_5M, {Kind.SAMPLES, Kind.GROUP_SAMPLES, Kind.EVENTS}),
        # somebody removed those of minutes
        ("auto", Kind.ROLLUP_1D, {Kind.SAMPLES, Kind.GROUP_SAMPLES, Kind.EVENTS}),
        ("on", None, {Kind.SAMPLES, Kind.GROUP_SAMPLES, Kind.EVENTS}),
        ("off", Kind.ROLLUP_5M, set()),
    ],
)
def test_the_service_deletes_no_samples_that_roll_ups_are_yet_to_be_made_of(
    tmp_path: Path, *, rollups: str, rolled_up: Kind | None, kept: set[Kind]
) -> None:
    store = Tidied(str(tmp_path / "store"))
    old_ms = NOON_MS - 20 * DAY_MS
    recorded = [
        samples([sample(at_ms=old_ms)]),
        group_samples([group_sample(at_ms=old_ms)]),
        events([happening(at_ms=old_ms)]),
    ]
    store.write(recorded, batch="old")
    if rolled_up is not None:
        store.write([from_rows(rolled_up, [rollup(rolled_up)])], batch="rolled")
    days = dict.fromkeys(RAW, 7)
    writer_settings = WriterSettings(flush_ms=0, retention_days=days, rollups=rollups)
    spool = spool_in(tmp_path)
    writer = Writer(spool, store, writer_settings, SetClock(NOON_MS), witness=lambda: 0)
    spool.append(numbered(1))

    writer.start()
    writer.notify()
    assert store.tidied.wait(30)
    writer.stop(10)

    old = day_of(old_ms)
    assert {kind for kind in RAW if old in store.days(kind, "here")} == kept


@pytest.mark.parametrize(
    ("witness", "deletes"),
    [
        pytest.param(lambda: 0, True, id="Kafka says the same"),
        pytest.param(lambda: 40 * DAY_MS, False, id="Kafka says that it is ahead"),
        pytest.param(lambda: None, False, id="nothing is known yet"),
    ],
)
def test_nothing_is_deleted_by_a_clock_that_may_be_wrong(
    tmp_path: Path, *, witness: Witness, deletes: bool
) -> None:
    """All rows would be old by it."""
    store, spool = Tidied(str(tmp_path / "store")), spool_in(tmp_path)
    settings = WriterSettings(flush_ms=0, retention_days=dict.fromkeys(RAW, 7))
    clock = SetClock(NOON_MS + 40 * DAY_MS)
    writer = Writer(spool, store, settings, clock, witness=witness)
    spool.append(numbered(1))

    writer.start()
    writer.notify()
    assert store.tidied.wait(30)
    writer.stop(10)

    assert store.days(Kind.SAMPLES, "here") == (() if deletes else (day_of(NOON_MS),))


def test_rows_wait_in_the_spool_to_make_larger_batches(tmp_path: Path) -> None:
    spool, store = spool_in(tmp_path), MemoryStore()
    clock = SetClock(NOON_MS)
    writer = Writer(
        spool,
        cast("HistoryStore", store),
        WriterSettings(flush_ms=60_000, retention_days={}),
        clock,
    )
    writer.start()
    for number in range(3):
        spool.append(numbered(number))
        writer.notify()
    clock.ms = NOON_MS + 59_000
    writer.notify()
    assert store.writes == 0

    clock.ms = NOON_MS + 61_000
    writer.notify()
    eventually(lambda: store.writes == 1, "the batch is delivered")
    writer.stop(10)

    assert [sum(part.size for part in batch) for batch in store.batches.values()] == [9]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.sampled_from(["append", "deliver", "fail", "half", "restart"]), min_size=1, max_size=40
    ),
    st.integers(1, 9),
)
def test_every_row_arrives_once_whatever_happens(tmp_path_factory, happenings, max_rows) -> None:
    folder = tmp_path_factory.mktemp("spool")
    spool, store = spool_in(folder), MemoryStore()
    appended = 0
    for what in happenings:
        match what:
            case "append":
                spool.append(numbered(appended))
                appended += 1
            case "fail":
                store.failures.append(
                    HistoryError(store="x", kind="timeout", message="away", retryable=True)
                )
            case "half":  # written, and killed before it was acknowledged
                plan = spool.plan(max_rows=max_rows)
                if plan is not None:
                    rows = [part for segment in plan.segments for part in spool.load(segment)]
                    store.batches[plan.batch] = rows
                    spool = spool_in(folder)
            case "restart":
                spool = spool_in(folder)
            case _:
                writer_of(spool, store, max_rows=max_rows).deliver()
    store.failures.clear()
    while writer_of(spool, store, max_rows=max_rows).deliver():
        pass

    keys = [(row["at_ms"], row["partition"]) for row in store.rows(Kind.SAMPLES)]
    assert len(keys) == len(set(keys)) == 3 * appended

"""Reading: which kind answers, gaps on the grid, pages that miss nothing."""

import asyncio
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagwatch.core.record import Kind, from_rows
from lagwatch.core.record.records import plain_values
from lagwatch.history.parquet import ParquetStore
from lagwatch.history.reader import HistoryReader
from lagwatch.ports.history import HistoryAsk, HistoryPage, TopBy
from tests.support.history import (
    NOON_MS,
    events,
    group_sample,
    group_samples,
    happening,
    rollup,
    sample,
    samples,
)

pytestmark = pytest.mark.slow  # writes real stores

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1000, 60_000, 3_600_000, 86_400_000
INTERVAL_MS = 30_000


@pytest.fixture
def store(tmp_path: Path) -> ParquetStore:
    return ParquetStore(str(tmp_path / "store"))


def reader_of(store: ParquetStore) -> HistoryReader:
    return HistoryReader(store, interval_ms=INTERVAL_MS, full_ms=600_000)


def group(store: ParquetStore, **asked) -> HistoryPage:
    return asyncio.run(reader_of(store).group("here", "billing", _ask(**asked)))


def partition(store: ParquetStore, **asked) -> HistoryPage:
    return asyncio.run(reader_of(store).partition("here", "billing", "orders", 0, _ask(**asked)))


def _ask(**asked) -> HistoryAsk:
    return HistoryAsk(**{"from_ms": NOON_MS, "to_ms": NOON_MS + HOUR_MS} | asked)


def column(page: HistoryPage, name: str) -> list:
    return plain_values(page.columns[name])


def write_rounds(store: ParquetStore, seconds, **changes) -> None:
    rows = [group_sample(at_ms=NOON_MS + second * SECOND_MS, **changes) for second in seconds]
    store.write([group_samples(rows)], batch=f"b{rows[0]['at_ms']}")


def test_a_time_that_was_not_recorded_is_null_on_the_grid(store: ParquetStore) -> None:
    write_rounds(store, [0, 30, 60, 210, 240])

    page = group(store, to_ms=NOON_MS + 5 * MINUTE_MS, step_ms=MINUTE_MS)

    assert column(page, "at_ms") == [NOON_MS + number * MINUTE_MS for number in range(5)]
    assert column(page, "samples") == [2, 1, 0, 1, 1]
    assert column(page, "lag_max") == [10, 10, None, 10, 10]
    assert column(page, "lag_avg") == [10.0, 10.0, None, 10.0, 10.0]
    assert column(page, "status") == ["OK", "OK", None, "OK", "OK"]
    assert page.next_ms is None


def test_the_first_point_is_whole_where_the_time_asked_for_begins_within_its_step(
    store: ParquetStore,
) -> None:
    write_rounds(store, [0, 30, 60, 90])

    late = NOON_MS + 45 * SECOND_MS
    page = group(store, step_ms=60_000, from_ms=late, to_ms=NOON_MS + 120 * SECOND_MS)

    assert column(page, "samples") == [2, 2]


def test_a_group_that_nobody_recorded_has_an_empty_grid(store: ParquetStore) -> None:
    page = group(store, step_ms=10 * MINUTE_MS)

    assert column(page, "samples") == [0] * 6
    assert column(page, "lag_max") == [None] * 6


def test_a_name_longer_than_a_folder_can_have_is_a_cluster_without_rows(
    store: ParquetStore,
) -> None:
    page = asyncio.run(reader_of(store).group("a" * 300, "billing", _ask(step_ms=0)))

    assert page.size == 0


def test_without_a_step_a_few_hundred_points_are_given(store: ParquetStore) -> None:
    for hours, step_ms in ((1, 30_000), (24, 300_000), (24 * 30, 7_200_000)):
        page = group(store, to_ms=NOON_MS + hours * HOUR_MS)
        assert page.step_ms == step_ms
        assert page.size <= 500


def test_rows_as_recorded_come_with_all_their_columns(store: ParquetStore) -> None:
    write_rounds(store, [0, 30])

    page = group(store, step_ms=0)

    assert page.step_ms == 0
    assert column(page, "total_lag") == [10, 10]
    assert column(page, "state") == ["Stable", "Stable"]


def test_columns_can_be_chosen(store: ParquetStore) -> None:
    write_rounds(store, [0])

    assert list(group(store, step_ms=0, columns=("at_ms", "total_lag")).columns) == [
        "at_ms",
        "total_lag",
    ]
    assert list(group(store, step_ms=MINUTE_MS, columns=("at_ms", "lag_max")).columns) == [
        "at_ms",
        "lag_max",
    ]


def test_pages_of_a_grid_follow_one_another(store: ParquetStore) -> None:
    write_rounds(store, range(0, 3600, 30))
    whole = group(store, step_ms=MINUTE_MS)

    seen: list[Any] = []
    start_ms: int | None = NOON_MS
    while start_ms is not None:
        page = group(store, from_ms=start_ms, step_ms=MINUTE_MS, limit=7)
        seen += column(page, "at_ms")
        start_ms = page.next_ms

    assert seen == column(whole, "at_ms")
    assert len(seen) == 60


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 3599), min_size=1, max_size=30), st.integers(1, 9))
def test_pages_of_rows_miss_and_double_nothing(tmp_path_factory, seconds, limit) -> None:
    store = ParquetStore(str(tmp_path_factory.mktemp("store")))
    rows = [
        happening(at_ms=NOON_MS + second * SECOND_MS, partition=number)
        for number, second in enumerate(seconds)
    ]
    store.write([events(rows)], batch="b1")
    reader = reader_of(store)

    seen: list[Any] = []
    start_ms: int | None = NOON_MS
    while start_ms is not None:
        page = asyncio.run(reader.events("here", "billing", _ask(from_ms=start_ms, limit=limit)))
        seen += zip(column(page, "at_ms"), column(page, "partition"), strict=True)
        start_ms = page.next_ms

    assert seen == sorted((row["at_ms"], row["partition"]) for row in rows)


# partitions


def test_a_partition_that_was_left_out_is_put_back(store: ParquetStore) -> None:
    rounds = [
        group_sample(
            at_ms=NOON_MS + number * INTERVAL_MS,
            unchanged=0 if number == 0 else 1,
            previous_ms=NOON_MS + (number - 1) * INTERVAL_MS if number else None,
        )
        for number in range(8)
    ]
    del rounds[5:7]  # nobody recorded then
    store.write([samples([sample(lag=7)]), group_samples(rounds)], batch="b1")

    page = partition(store, to_ms=NOON_MS + 4 * MINUTE_MS, step_ms=INTERVAL_MS)
    raw = partition(store, step_ms=0)

    assert column(page, "lag_max") == [7, 7, 7, 7, 7, None, None, None]
    assert column(raw, "at_ms") == [NOON_MS + number * INTERVAL_MS for number in range(5)]
    assert column(raw, "lag") == [7] * 5


def test_what_is_put_back_may_stand_before_the_time_asked_for(store: ParquetStore) -> None:
    rounds = [
        group_sample(
            at_ms=NOON_MS + number * INTERVAL_MS,
            unchanged=0 if number == 0 else 1,
            previous_ms=NOON_MS + (number - 1) * INTERVAL_MS if number else None,
        )
        for number in range(20)
    ]
    store.write([samples([sample(lag=7)]), group_samples(rounds)], batch="b1")

    page = partition(store, from_ms=NOON_MS + 9 * MINUTE_MS, to_ms=NOON_MS + 10 * MINUTE_MS)

    assert column(page, "lag_max") == [7, 7]


def test_rows_of_a_partition_are_found_behind_a_long_gap(store: ParquetStore) -> None:
    late = [sample(at_ms=NOON_MS + hours * HOUR_MS) for hours in (0, 7, 30)]
    store.write([samples(late)], batch="b1")

    page = partition(store, to_ms=NOON_MS + 48 * HOUR_MS, step_ms=0, limit=2)
    rest = partition(store, from_ms=page.next_ms, to_ms=NOON_MS + 48 * HOUR_MS, step_ms=0)

    assert column(page, "at_ms") == [row["at_ms"] for row in late[:2]]
    assert column(rest, "at_ms") == [late[2]["at_ms"]]


# roll-ups


def write_rollup(store: ParquetStore, kind: Kind, step_ms: int, numbers, **changes) -> None:
    rows = [rollup(kind, bucket_ms=NOON_MS + number * step_ms, **changes) for number in numbers]
    store.write([from_rows(kind, rows)], batch=f"{kind}-{rows[0]['bucket_ms']}")


def test_chosen_columns_of_a_partition_are_found_behind_a_gap(store: ParquetStore) -> None:
    behind = {"at_ms": NOON_MS + 50 * MINUTE_MS}
    store.write([group_samples([group_sample(**behind)]), samples([sample(**behind)])], batch="b1")

    page = partition(store, step_ms=0, limit=5, columns=("log_end_offset",))

    assert column(page, "log_end_offset") == [100]


def test_the_coarsest_rollup_that_fits_answers(store: ParquetStore) -> None:
    write_rollup(store, Kind.ROLLUP_5M, 5 * MINUTE_MS, range(24), lag_max=5)
    write_rollup(store, Kind.ROLLUP_1H, HOUR_MS, range(2), lag_max=60)
    write_rounds(store, range(0, 7200, 30), total_lag=1)
    asked = {"to_ms": NOON_MS + 2 * HOUR_MS}

    def answered(step_ms: int) -> tuple[Kind, set]:
        page = group(store, step_ms=step_ms, **asked)
        return page.kind, set(column(page, "lag_max")[:-1])

    assert answered(HOUR_MS) == (Kind.ROLLUP_1H, {60})
    assert answered(10 * MINUTE_MS) == (Kind.ROLLUP_5M, {5})
    assert answered(MINUTE_MS) == (Kind.GROUP_SAMPLES, {1})


def test_what_is_not_rolled_up_yet_comes_from_the_samples(store: ParquetStore) -> None:
    write_rollup(store, Kind.ROLLUP_5M, 5 * MINUTE_MS, range(3), lag_max=5, samples=10)
    write_rounds(store, range(0, 1800, 30), total_lag=1)

    page = group(store, to_ms=NOON_MS + 30 * MINUTE_MS, step_ms=5 * MINUTE_MS)

    assert column(page, "lag_max") == [5, 5, 1, 1, 1, 1]
    assert column(page, "samples") == [10] * 6


def test_a_rollup_stays_when_its_samples_are_gone(store: ParquetStore) -> None:
    write_rollup(store, Kind.ROLLUP_5M, 5 * MINUTE_MS, range(3), lag_max=5)

    page = group(store, to_ms=NOON_MS + 20 * MINUTE_MS, step_ms=5 * MINUTE_MS)

    assert column(page, "lag_max") == [5, 5, 5, None]
    assert page.kind is Kind.ROLLUP_5M


def test_averages_of_rollups_are_weighed_by_what_they_know(store: ParquetStore) -> None:
    for number, (known, total) in enumerate([(1, 100), (3, 0)]):
        write_rollup(store, Kind.ROLLUP_5M, 5 * MINUTE_MS, [number], lag_known=known, lag_sum=total)

    page = group(store, to_ms=NOON_MS + 10 * MINUTE_MS, step_ms=10 * MINUTE_MS)

    assert column(page, "lag_avg") == [25.0]


def test_rollups_of_other_levels_are_not_mixed_in(store: ParquetStore) -> None:
    rows = [
        rollup(Kind.ROLLUP_5M, lag_max=5),
        rollup(Kind.ROLLUP_5M, level="topic", topic="orders", lag_max=50),
        rollup(Kind.ROLLUP_5M, level="partition", topic="orders", partition=0, lag_max=500),
    ]
    store.write([from_rows(Kind.ROLLUP_5M, rows)], batch="b1")
    asked = {"to_ms": NOON_MS + 5 * MINUTE_MS, "step_ms": 5 * MINUTE_MS}

    assert column(group(store, **asked), "lag_max") == [5]
    assert column(partition(store, **asked), "lag_max") == [500]


# the top of the fleet, events, Arrow


def test_who_was_worst_last_night(store: ParquetStore) -> None:
    rows = [group_sample(group=name, total_lag=lag) for name, lag in (("a", 1), ("b", 9))]
    store.write([group_samples(rows)], batch="b1")

    page = asyncio.run(reader_of(store).top(NOON_MS + 10 * SECOND_MS, by=TopBy.LAG, limit=10))

    assert column(page, "group") == ["b", "a"]
    assert page.kind is Kind.GROUP_SAMPLES


def test_long_ago_the_rollups_know_who_was_worst(store: ParquetStore) -> None:
    rows = [
        rollup(Kind.ROLLUP_1H, group=name, lag_max=lag, time_lag_max_s=lag / 10)
        for name, lag in (("a", 1), ("b", 9))
    ]
    store.write([from_rows(Kind.ROLLUP_1H, rows)], batch="b1")

    page = asyncio.run(reader_of(store).top(NOON_MS + 10 * MINUTE_MS, by=TopBy.TIME_LAG, limit=10))

    assert column(page, "group") == ["b", "a"]
    assert column(page, "total_lag") == [9, 1]
    assert page.kind is Kind.ROLLUP_1H


def test_nobody_was_worst_when_nothing_was_recorded(store: ParquetStore) -> None:
    page = asyncio.run(reader_of(store).top(NOON_MS, by=TopBy.LAG, limit=10))

    assert page.size == 0


def test_a_page_becomes_an_arrow_stream(store: ParquetStore) -> None:
    write_rounds(store, [0, 90])
    page = group(store, to_ms=NOON_MS + 3 * MINUTE_MS, step_ms=MINUTE_MS)

    with pa.ipc.open_stream(reader_of(store).arrow(page)) as stream:
        table = stream.read_all()

    assert table.to_pydict()["lag_max"] == [10, 10, None]
    assert table.schema.field("status").type == pa.string()


def test_requests_do_not_wait_for_the_store_in_the_event_loop(store: ParquetStore) -> None:
    write_rounds(store, range(0, 3600, 30))

    async def many() -> list[HistoryPage]:
        reader = reader_of(store)
        asks = (reader.group("here", "billing", _ask(step_ms=MINUTE_MS)) for _ in range(20))
        return await asyncio.gather(*asks)

    pages = asyncio.run(many())

    assert [page.size for page in pages] == [60] * 20

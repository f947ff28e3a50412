"""How roll-ups are divided: among tasks, and within a task."""

from contextlib import closing
from itertools import pairwise
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind, from_rows
from lagwatch.core.rollup import BucketSpan, merge, roll_up
from lagwatch.history.layout import DAY_MS, HOUR_MS, day_start_ms
from lagwatch.history.parquet import ParquetStore
from lagwatch.history.rows import by_ranges, of_groups, parts_of, rows_by_group
from lagwatch.jobs.rollup import plan
from lagwatch.jobs.rollup.rows import Roller
from lagwatch.jobs.stores.registry import job_store
from lagwatch.jobs.tables import StoreRef
from lagwatch.jobs.units import Unit
from tests.support.history import NOON_MS, rollup
from tests.support.rollups import INTERVAL_MS, recording

DAY_START_MS = day_start_ms("2026-11-21")
DAY = ((DAY_START_MS, DAY_START_MS + DAY_MS),)
SIZES = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 40)), max_size=20)


@given(sizes=SIZES, most=st.integers(1, 60))
@example(sizes=[("a", 1), ("b", 0)], most=1)
def test_parts_cover_all_groups_and_none_is_much_too_large(sizes, most) -> None:
    parts = parts_of(sizes, most)

    assert parts[0][0] is None
    assert parts[-1][1] is None
    assert all(before[1] == after[0] is not None for before, after in pairwise(parts))
    of_name = {name: sum(rows for group, rows in sizes if group == name) for name, _ in sizes}
    of_part = [
        [of_name[name] for name in of_name if (low or "") <= name and (high is None or name < high)]
        for low, high in parts
    ]
    assert sum(map(sum, of_part)) == sum(of_name.values())
    assert len(parts) <= max(1, -(-sum(of_name.values()) // most))
    for found in of_part:
        assert sum(found) <= most + max(found, default=0)


GROUPS = st.lists(st.sampled_from([f"group-{number:02}" for number in range(80)]), max_size=120)


@given(
    parts=st.lists(st.tuples(GROUPS, st.booleans()), min_size=1, max_size=4),
    most=st.integers(1, 60),
)
def test_rows_are_split_by_ranges_of_groups_whether_in_their_order_or_not(parts, most) -> None:
    rows = [
        from_rows(
            Kind.ROLLUP_5M,
            [
                rollup(Kind.ROLLUP_5M, group=group, partition=number)
                for number, group in enumerate(sorted(groups) if ordered else groups)
            ],
        )
        for groups, ordered in parts
    ]
    ranges = parts_of([pair for part in rows for pair in rows_by_group(part)], most)

    split = list(by_ranges(rows, ranges))

    assert len(split) == len(ranges)
    for found, (low, high) in zip(split, ranges, strict=True):
        expected = [of_groups(part, low, high) for part in rows]
        assert [list(part.rows()) for part in found] == [list(part.rows()) for part in expected]


def write_hours(store: ParquetStore, hours: range, groups: int, *, batch: str) -> None:
    """Roll-ups of 5 minutes, two for each hour and group, and two levels of it, in one file."""
    store.write(
        [
            from_rows(
                Kind.ROLLUP_5M,
                [
                    rollup(
                        Kind.ROLLUP_5M,
                        level=level,
                        topic=topic,
                        group=f"group-{group}",
                        bucket_ms=DAY_START_MS + hour * HOUR_MS + minute * 60_000,
                    )
                    for level, topic in (("group", None), ("topic", "orders"))
                    for group in range(groups)
                    for hour in hours
                    for minute in (0, 55)
                ],
            )
        ],
        batch=batch,
    )


def units(store: ParquetStore, *, task_rows: int) -> list[Unit]:
    wanted = Kind.ROLLUP_1H
    with closing(job_store(HistorySettings(url=store.where)).rollups()) as rollups:
        return list(plan.units(rollups, wanted, "here", DAY, task_rows={wanted: task_rows}))


def test_a_day_is_cut_between_its_files(tmp_path: Path) -> None:
    store = ParquetStore(str(tmp_path))
    for number in range(8):  # 3 hours of 2 groups: 24 rows
        write_hours(store, range(3 * number, 3 * number + 3), 2, batch=f"b{number}")

    found = units(store, task_rows=100)

    starts = [DAY_START_MS + hour * HOUR_MS for hour in (0, 12, 24)]
    assert found == [
        Unit(cluster="here", from_ms=first, to_ms=last) for first, last in pairwise(starts)
    ]


def test_what_stands_in_one_file_is_divided_by_groups_evenly_whatever_their_order(
    tmp_path: Path,
) -> None:
    store = ParquetStore(str(tmp_path))
    write_hours(store, range(24), 8, batch="all")  # 768 rows, all names in its one row group

    found = units(store, task_rows=200)

    assert [(unit.low, unit.high) for unit in found] == [
        (None, "group-2"),
        ("group-2", "group-4"),
        ("group-4", "group-6"),
        ("group-6", None),
    ]
    assert {(unit.from_ms, unit.to_ms) for unit in found} == {*DAY}


def test_hours_that_two_files_share_are_not_cut_apart(tmp_path: Path) -> None:
    store = ParquetStore(str(tmp_path))
    write_hours(store, range(2), 2, batch="early")  # 16 rows
    write_hours(store, range(1, 4), 2, batch="late")  # 24 rows

    found = units(store, task_rows=40)

    assert all(before.to_ms == after.from_ms for before, after in pairwise(found))
    # nothing but the end of the fourth hour is a place where no file goes on
    assert found[0].to_ms >= DAY_START_MS + 4 * HOUR_MS
    assert {(unit.low, unit.high) for unit in found} == {(None, None)}


def test_rows_of_a_unit_are_the_same_however_many_groups_are_taken_at_a_time(
    tmp_path: Path,
) -> None:
    found = recording(3, groups=5, rounds=240)
    store = ParquetStore(str(tmp_path))
    store.write(found.records(), batch="live")
    ref = StoreRef(settings=HistorySettings(url=str(tmp_path)))
    span = BucketSpan(kind=Kind.ROLLUP_5M, from_ms=NOON_MS, to_ms=NOON_MS + 2 * HOUR_MS)
    unit = Unit(cluster="here", from_ms=span.from_ms, to_ms=span.to_ms)
    five = roll_up(found.raw(), span, cluster="here", interval_ms=INTERVAL_MS)

    rolled = Roller(ref, Kind.ROLLUP_5M, samples_at_once=200).roll(unit)
    store.write([rolled], batch="five")
    merged = Roller(ref, Kind.ROLLUP_1H, rollups_at_once=50).roll(unit)

    assert list(rolled.rows()) == list(five.rows())
    assert list(merged.rows()) == list(merge(five, Kind.ROLLUP_1H).rows())

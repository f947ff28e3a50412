"""What every `HistoryStore` keeps to."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lagwatch.clock import SystemClock
from lagwatch.core.record import KINDS, Kind, Records, concat, from_rows, record_ids, schema
from lagwatch.errors import HistoryError
from lagwatch.history.drivers.registry import open_store
from lagwatch.ports.history import HistoryGap, HistoryRange, HistoryStore, TopBy
from tests.support.history import (
    EVER,
    NOON_MS,
    events,
    group_sample,
    group_samples,
    happening,
    held,
    in_order,
    rollup,
    sample,
    samples,
)
from tests.support.stores import KINDS_OF_STORES, history_of

pytestmark = pytest.mark.slow  # writes real stores

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000


@pytest.fixture(params=KINDS_OF_STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HistoryStore]:
    """An empty store."""
    made = open_store(history_of(request.param, request, tmp_path))
    yield made
    made.close()


def test_an_empty_store_holds_nothing(store: HistoryStore) -> None:
    found = [list(store.read(HistoryRange(kind=kind, **EVER))) for kind in KINDS]

    assert found == [[]] * len(KINDS)
    assert not any(store.has(kind) for kind in KINDS)
    assert store.clusters() == ()
    assert store.stats() == ()
    assert store.verify().sound


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        (Kind.SAMPLES, sample()),
        (Kind.GROUP_SAMPLES, group_sample()),
        (Kind.EVENTS, happening()),
        (Kind.ROLLUP_5M, rollup(Kind.ROLLUP_5M, lag_sketch=b"\x00\xff")),
        (Kind.ROLLUP_1H, rollup(Kind.ROLLUP_1H)),
        (Kind.ROLLUP_1D, rollup(Kind.ROLLUP_1D)),
    ],
)
def test_every_kind_comes_back_as_it_went_in(store: HistoryStore, kind: Kind, row: dict) -> None:
    store.write([from_rows(kind, [row])], batch="b1")

    assert held(store, kind) == [row]


def test_unknown_comes_back_as_unknown_and_never_as_zero(store: HistoryStore) -> None:
    nullable = [name for name, column in schema(Kind.SAMPLES).items() if column.nullable]
    row = sample() | dict.fromkeys(nullable)

    store.write([samples([row])], batch="b1")

    assert held(store) == [row]


def test_zero_comes_back_as_zero(store: HistoryStore) -> None:
    row = sample(lag=0, committed_offset=0, time_lag_s=0.0, complete=0.0, partition=0)

    store.write([samples([row])], batch="b1")

    assert held(store) == [row]


def test_the_greatest_offset_and_odd_names_survive(store: HistoryStore) -> None:
    row = sample(
        group='a/b c"%2Fé日本',
        topic="t.-_",
        cluster="prod.eu-1",
        committed_offset=2**63 - 1,
        owner="",
        client_id=" ",
    )

    store.write([samples([row])], batch="b1")

    assert held(store) == [row]
    assert held(store, group=row["group"]) == [row]


def test_a_batch_written_twice_is_one(store: HistoryStore) -> None:
    rows = samples([sample(partition=number) for number in range(5)])

    store.write([rows], batch="b1")
    store.write([rows], batch="b1")

    assert len(held(store)) == 5
    assert store.verify().rows[Kind.SAMPLES] == 5
    assert store.verify().duplicates == 0


def test_a_record_in_two_batches_is_read_once_as_it_was_written_first(store: HistoryStore) -> None:
    store.write([samples([sample(lag=1)])], batch="b1")
    store.write([samples([sample(lag=2), sample(partition=1)])], batch="b2")

    assert [row["lag"] for row in held(store)] == [1, 10]
    assert store.verify().rows[Kind.SAMPLES] == 2


def test_a_backfill_never_goes_over_live_records(store: HistoryStore) -> None:
    store.write([samples([sample(lag=1)])], batch="b1")
    store.write([samples([sample(lag=2, source="backfill")])], batch="b2")

    assert [(row["lag"], row["source"]) for row in held(store)] == [(1, "live")]


def test_live_records_go_before_a_backfill_that_came_first(store: HistoryStore) -> None:
    store.write([samples([sample(lag=2, source="backfill")])], batch="b1")
    store.write([samples([sample(lag=1)])], batch="b2")

    assert [(row["lag"], row["source"]) for row in held(store)] == [(1, "live")]


def test_the_range_holds_its_first_instant_and_not_its_last(store: HistoryStore) -> None:
    instants = [NOON_MS - 1, NOON_MS, NOON_MS + 5, NOON_MS + 10]
    store.write([samples([sample(at_ms=at_ms) for at_ms in instants])], batch="b1")

    found = held(store, from_ms=NOON_MS, to_ms=NOON_MS + 10)

    assert [row["at_ms"] for row in found] == [NOON_MS, NOON_MS + 5]


def test_names_choose_rows(store: HistoryStore) -> None:
    rows = [
        sample(cluster=cluster, group=group, topic=topic, partition=partition)
        for cluster in ("c1", "c2")
        for group in ("g1", "g2")
        for topic in ("t1", "t2")
        for partition in (0, 1)
    ]
    store.write([samples(rows)], batch="b1")

    chosen = held(store, cluster="c1", group="g2", topic="t1", partition=1)

    assert chosen == [sample(cluster="c1", group="g2", topic="t1", partition=1)]
    assert len(held(store, group="g2")) == 8
    assert len(held(store, cluster="c2")) == 8
    assert held(store, cluster="c3") == []
    assert held(store, group="g") == []


def test_a_level_chooses_rows_of_rollups(store: HistoryStore) -> None:
    rows = [
        rollup(Kind.ROLLUP_5M),
        rollup(Kind.ROLLUP_5M, level="partition", topic="orders", partition=3),
        rollup(Kind.ROLLUP_5M, level="topic", group=None, topic="orders"),
    ]
    store.write([from_rows(Kind.ROLLUP_5M, rows)], batch="b1")

    assert held(store, Kind.ROLLUP_5M, level="partition") == [rows[1]]
    assert len(held(store, Kind.ROLLUP_5M)) == 3


def test_columns_asked_for_come_with_the_key(store: HistoryStore) -> None:
    store.write([samples([sample()])], batch="b1")

    [part] = store.read(HistoryRange(kind=Kind.SAMPLES, columns=("lag", "status"), **EVER))

    assert set(part.columns) == {*Kind.SAMPLES.key, "lag", "status"}
    assert record_ids(part) == record_ids(samples([sample()]))


def test_one_batch_may_span_kinds_clusters_and_days(store: HistoryStore) -> None:
    rows = [
        sample(cluster=cluster, at_ms=NOON_MS + hour * HOUR_MS)
        for cluster in ("c1", "c2")
        for hour in range(0, 50, 7)
    ]
    groups = [group_sample(cluster="c3", at_ms=NOON_MS)]

    store.write([samples(rows), group_samples(groups)], batch="b1")

    assert held(store) == in_order(rows, Kind.SAMPLES)
    assert held(store, Kind.GROUP_SAMPLES) == groups
    assert store.clusters() == ("c1", "c2", "c3")
    assert store.days(Kind.SAMPLES, "c1") == ("2026-11-21", "2026-11-22", "2026-11-23")


def test_rows_come_in_the_order_of_hours(store: HistoryStore) -> None:
    rows = [
        sample(at_ms=NOON_MS + minute * MINUTE_MS, partition=partition)
        for partition in range(3)
        for minute in range(0, 300, 13)
    ]
    store.write([samples(rows)], batch="b1")

    hours = [
        at_ms // HOUR_MS
        for part in store.read(HistoryRange(kind=Kind.SAMPLES, **EVER))
        for at_ms in sorted(part.at_ms().tolist())
    ]

    assert hours == sorted(hours)
    assert len(hours) == len(rows)


def test_chunks_are_never_empty(store: HistoryStore) -> None:
    store.write([samples([sample(partition=number) for number in range(9)])], batch="b1")

    parts = list(store.read(HistoryRange(kind=Kind.SAMPLES, partition=7, **EVER)))

    assert [part.size for part in parts] == [1]
    assert list(store.read(HistoryRange(kind=Kind.SAMPLES, partition=99, **EVER))) == []


def test_many_rows_come_back_complete(store: HistoryStore) -> None:
    rows = concat([samples([sample(partition=number, lag=number) for number in range(12_000)])])

    store.write([rows], batch="b1")

    parts = list(store.read(HistoryRange(kind=Kind.SAMPLES, columns=("lag",), **EVER)))
    assert sorted(lag for part in parts for lag in part.numbers("lag").tolist()) == list(
        range(12_000)
    )


# buckets


def test_buckets_hold_counts_maxima_averages_and_the_worst_status(store: HistoryStore) -> None:
    rows = [
        group_sample(at_ms=NOON_MS, total_lag=10, time_lag_s=1.0, status="OK"),
        group_sample(at_ms=NOON_MS + 30_000, total_lag=40, time_lag_s=None, status="ERR"),
        group_sample(at_ms=NOON_MS + 59_999, total_lag=None, time_lag_s=3.5, status="WARN"),
        group_sample(at_ms=NOON_MS + 180_000, total_lag=0, time_lag_s=0.0, status="UNKNOWN"),
        group_sample(at_ms=NOON_MS, group="other", total_lag=999),
    ]
    store.write([group_samples(rows)], batch="b1")

    buckets = store.aggregate(_billing(), MINUTE_MS)

    assert buckets.bucket_ms.tolist() == [NOON_MS, NOON_MS + 180_000]
    assert buckets.samples.tolist() == [3, 1]
    assert buckets.lag_max.tolist() == [40, 0]
    assert buckets.lag_avg.tolist() == [25.0, 0.0]
    assert buckets.time_lag_max_s.tolist() == [3.5, 0.0]
    assert buckets.status.tolist() == ["ERR", "UNKNOWN"]


def test_a_change_between_rounds_counts_for_the_status_and_not_for_averages(
    store: HistoryStore,
) -> None:
    change = {"reason": "change", "time_lag_s": 9.0}
    rows = [
        group_sample(at_ms=NOON_MS, total_lag=10, time_lag_s=1.0),
        group_sample(at_ms=NOON_MS + 7_000, total_lag=70, status="ERR", **change),
        group_sample(at_ms=NOON_MS + 11_000, total_lag=80, status="OK", **change),
        group_sample(at_ms=NOON_MS + 30_000, total_lag=20, time_lag_s=2.0),
        group_sample(at_ms=NOON_MS + 61_000, total_lag=5, status="WARN", **change),
    ]
    store.write([group_samples(rows)], batch="b1")

    buckets = store.aggregate(_billing(), MINUTE_MS)

    assert buckets.samples.tolist() == [2, 1]
    assert buckets.lag_avg.tolist() == [15.0, 5.0]
    assert buckets.lag_max.tolist() == [20, 5]
    assert buckets.time_lag_max_s.tolist() == [2.0, 9.0]
    assert buckets.status.tolist() == ["ERR", "WARN"]


def test_a_bucket_in_which_nothing_is_known_knows_nothing(store: HistoryStore) -> None:
    row = group_sample(total_lag=None, time_lag_s=None, status="UNKNOWN")
    store.write([group_samples([row])], batch="b1")

    buckets = store.aggregate(_billing(), MINUTE_MS)

    assert buckets.samples.tolist() == [1]
    assert buckets.lag_max.tolist() == [-1]
    assert np.isnan(buckets.lag_avg).tolist() == [True]
    assert np.isnan(buckets.time_lag_max_s).tolist() == [True]


def test_no_rows_make_no_buckets(store: HistoryStore) -> None:
    assert store.aggregate(_billing(), MINUTE_MS).bucket_ms.size == 0


def test_buckets_see_only_the_range(store: HistoryStore) -> None:
    rows = [group_sample(at_ms=NOON_MS + second * 1000) for second in range(0, 300, 30)]
    store.write([group_samples(rows)], batch="b1")

    buckets = store.aggregate(
        _billing(from_ms=NOON_MS + 90_000, to_ms=NOON_MS + 180_000), MINUTE_MS
    )

    assert buckets.bucket_ms.tolist() == [NOON_MS + 60_000, NOON_MS + 120_000]
    assert buckets.samples.tolist() == [1, 2]


@pytest.mark.parametrize("step_ms", [1000, 7000, 45_000, HOUR_MS, DAY_MS])
def test_buckets_begin_at_multiples_of_any_step(store: HistoryStore, step_ms: int) -> None:
    rng = np.random.default_rng(step_ms)
    instants = np.unique(NOON_MS + rng.integers(0, 2 * DAY_MS, 50)).tolist()
    store.write([group_samples([group_sample(at_ms=at_ms) for at_ms in instants])], batch="b1")

    buckets = store.aggregate(_billing(), step_ms)

    expected = sorted({at_ms - at_ms % step_ms for at_ms in instants})
    assert buckets.bucket_ms.tolist() == expected
    assert int(buckets.samples.sum()) == len(instants)


# the top of the fleet


def test_top_ranks_the_last_row_of_each_group_at_an_instant(store: HistoryStore) -> None:
    rows = [
        group_sample(group="a", at_ms=NOON_MS - 60_000, total_lag=1000),
        group_sample(group="a", at_ms=NOON_MS - 30_000, total_lag=5),
        group_sample(group="b", at_ms=NOON_MS, total_lag=50, time_lag_s=1.0),
        group_sample(group="b", at_ms=NOON_MS + 1, total_lag=5000),
        group_sample(group="c", at_ms=NOON_MS - 30_000, total_lag=7, time_lag_s=99.0),
        group_sample(group="unknown", at_ms=NOON_MS, total_lag=None, time_lag_s=None),
        group_sample(group="long ago", at_ms=NOON_MS - 90_000, total_lag=9999),
    ]
    store.write([group_samples(rows)], batch="b1")

    by_lag = store.top(NOON_MS, within_ms=90_000, by=TopBy.LAG, limit=10)
    by_time = store.top(NOON_MS, within_ms=90_000, by=TopBy.TIME_LAG, limit=2)

    assert _groups(by_lag) == ["b", "c", "a", "unknown"]
    assert by_lag.numbers("total_lag").tolist() == [50, 7, 5, -1]
    assert _groups(by_time) == ["c", "a"]


def test_top_breaks_ties_by_name_and_may_be_of_one_cluster(store: HistoryStore) -> None:
    rows = [
        group_sample(cluster=cluster, group=group)
        for cluster in ("c2", "c1")
        for group in ("y", "x")
    ]
    store.write([group_samples(rows)], batch="b1")

    everywhere = store.top(NOON_MS, within_ms=90_000, by=TopBy.LAG, limit=3)
    of_cluster = store.top(NOON_MS, within_ms=90_000, by=TopBy.LAG, limit=3, cluster="c2")

    assert everywhere.text("cluster").tolist() == ["c1", "c1", "c2"]
    assert _groups(everywhere) == ["x", "y", "x"]
    assert _groups(of_cluster) == ["x", "y"]


def test_top_of_a_time_without_rows_is_empty(store: HistoryStore) -> None:
    store.write([group_samples([group_sample()])], batch="b1")

    assert store.top(NOON_MS - 1, within_ms=90_000, by=TopBy.LAG, limit=3).size == 0


# what there is


def test_stats_say_rows_and_times_by_kind_and_cluster(store: HistoryStore) -> None:
    rows = [sample(at_ms=NOON_MS + minute * MINUTE_MS) for minute in range(3)]
    store.write([samples(rows), events([happening(cluster="there")])], batch="b1")

    reported = [
        (entry.cluster, entry.kind, entry.rows, entry.first_ms, entry.last_ms)
        for entry in store.stats()
    ]

    assert reported == [
        ("here", Kind.SAMPLES, 3, NOON_MS, NOON_MS + 2 * MINUTE_MS),
        ("there", Kind.EVENTS, 1, NOON_MS, NOON_MS),
    ]
    assert all(entry.size_bytes > 0 and entry.parts > 0 for entry in store.stats())


def test_verify_finds_the_times_that_were_not_recorded(store: HistoryStore) -> None:
    rows = [group_sample(at_ms=NOON_MS + second * 1000) for second in (0, 30, 60, 150, 180)]
    store.write([group_samples(rows)], batch="b1")

    found = store.verify()

    assert found.gaps == (
        HistoryGap(cluster="here", from_ms=NOON_MS + 60_000, to_ms=NOON_MS + 150_000),
    )
    assert found.sound


def test_verify_finds_rows_that_rounds_say_were_written(store: HistoryStore) -> None:
    at_ms = [NOON_MS + minute * MINUTE_MS for minute in range(3)]
    rounds = [group_sample(at_ms=each, observed=5, unchanged=3) for each in at_ms]
    rows = [sample(at_ms=each, partition=number) for each in at_ms for number in range(2)]
    store.write([samples(rows[:-1]), group_samples(rounds)], batch="b1")
    one_gone = store.verify()
    store.write([samples(rows)], batch="b2")
    whole = store.verify()
    store.write([samples([sample(at_ms=NOON_MS + HOUR_MS)])], batch="b3")

    assert one_gone.missing == ("here: 2026-11-21T12:00Z: 1 of 6 of partitions",)
    assert not one_gone.sound
    assert (whole.missing, whole.sound) == ((), True)
    assert store.verify().missing == ("here: 2026-11-21T13:00Z: those of groups at 1 instant",)


@pytest.mark.parametrize("kind", [Kind.SAMPLES, Kind.GROUP_SAMPLES])
def test_verify_misses_all_rows_of_a_kind_that_retention_cannot_have_deleted(
    store: HistoryStore, kind: Kind
) -> None:
    at_ms = SystemClock().now_ms() - 20 * HOUR_MS
    for each in (at_ms, at_ms - 2 * DAY_MS):
        there = {Kind.SAMPLES: group_samples, Kind.GROUP_SAMPLES: samples}[kind]
        row = {Kind.SAMPLES: group_sample, Kind.GROUP_SAMPLES: sample}[kind]
        store.write([there([row(at_ms=each)])], batch=f"b{each}")

    (missing,) = store.verify().missing

    assert missing.endswith(
        "1 of 1 of partitions" if kind is Kind.SAMPLES else "those of groups at 1 instant"
    )


def test_verify_misses_no_rows_of_telegraf(store: HistoryStore) -> None:
    """Its documents of a group may be lost where those of its partitions are there."""
    store.write([samples([sample(source="telegraf")])], batch="b1")
    rounds = [group_sample(at_ms=NOON_MS + MINUTE_MS, observed=2, source="telegraf")]
    store.write([group_samples(rounds)], batch="b2")

    assert store.verify().missing == ()


def test_verify_misses_nothing_of_the_round_that_is_being_written(store: HistoryStore) -> None:
    now_ms = SystemClock().now_ms()
    store.write([samples([sample(at_ms=now_ms - HOUR_MS)])], batch="b1")
    store.write([group_samples([group_sample(at_ms=now_ms - HOUR_MS)])], batch="b2")
    store.write([group_samples([group_sample(at_ms=now_ms, observed=2)])], batch="b3")

    assert store.verify().missing == ()


def test_whole_days_are_deleted_of_one_kind_only(store: HistoryStore) -> None:
    rows = [sample(at_ms=NOON_MS + day * DAY_MS) for day in range(-2, 1)]
    store.write([samples(rows), events([happening(at_ms=NOON_MS - 2 * DAY_MS)])], batch="b1")

    gone = store.delete_before(Kind.SAMPLES, "2026-11-21")

    assert gone == 2
    assert held(store) == [rows[-1]]
    assert len(held(store, Kind.EVENTS)) == 1
    assert store.delete_before(Kind.SAMPLES, "2026-11-21") == 0


def test_a_day_that_is_no_day_is_refused(store: HistoryStore) -> None:
    with pytest.raises((ValueError, HistoryError)):
        store.delete_before(Kind.SAMPLES, "yesterday")


def test_tidying_changes_no_answer(store: HistoryStore) -> None:
    for number in range(6):
        store.write(
            [samples([sample(at_ms=NOON_MS + (number % 4) * 30_000, lag=number)])],
            batch=f"b{number}",
        )
    before = held(store)

    store.tidy(NOON_MS + 7 * HOUR_MS)

    assert held(store) == before
    assert store.verify().duplicates == 0


def _billing(**changes: int) -> HistoryRange:
    return HistoryRange(kind=Kind.GROUP_SAMPLES, cluster="here", group="billing", **EVER | changes)


def _groups(rows: Records) -> list[str | None]:
    return rows.text("group").tolist()

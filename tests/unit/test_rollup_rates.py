"""Rates: over the time in which they were measured, whatever else of the time is unknown."""

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagwatch.core.record import Kind, Records
from lagwatch.core.rollup import BucketSpan, merge, roll_up
from tests.support.history import NOON_MS, group_sample, sample
from tests.support.rollups import INTERVAL_MS, Recording, recording

FIVE_MS = 300_000
HOUR_MS = 3_600_000
WHAT = ("produced", "consumed")


def rolled(found: Recording, kind: Kind = Kind.ROLLUP_5M) -> Records:
    span = BucketSpan(kind=kind, from_ms=NOON_MS, to_ms=NOON_MS + 12 * HOUR_MS)
    return roll_up(found.raw(), span, cluster="here", interval_ms=INTERVAL_MS)


def rows_of(found: Records, level: str) -> list[dict[str, Any]]:
    return [dict(row) for row in found.rows() if row["level"] == level]


def whole(*samples: dict[str, Any]) -> Recording:
    """Samples, each in a whole round."""
    times = sorted({row["at_ms"] for row in samples})
    return Recording(
        samples=list(samples), groups=[group_sample(at_ms=at_ms) for at_ms in times], events=[]
    )


def at(round_number: int, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    return sample(at_ms=NOON_MS + round_number * INTERVAL_MS, **changes)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    unknown=st.floats(0, 0.9),
    missing=st.floats(0, 0.9),
    rates=st.lists(st.integers(0, 50), min_size=1, max_size=4),
)
def test_rates_do_not_depend_on_how_much_was_seen(seed, unknown, missing, rates) -> None:
    rng = np.random.default_rng(seed)
    rounds = [number for number in range(60) if rng.random() >= missing]
    found = rolled(
        whole(
            *(
                at(
                    number,
                    partition=partition,
                    log_end_offset=None if rng.random() < unknown else 5000 + 30 * number * per_s,
                    committed_offset=None if rng.random() < unknown else 30 * number * per_s,
                )
                for number in rounds
                for partition, per_s in enumerate(rates)
            )
        )
    )

    for row in (*found.rows(), *merge(found, Kind.ROLLUP_1H).rows()):
        for what in WHAT:
            count, measured_s, per_s = (row[name] for name in (what, f"{what}_s", f"{what}_per_s"))
            assert [value is None for value in (count, measured_s, per_s)] in (
                [True] * 3,
                [False] * 3,
            )
            if count is None:
                continue
            if row["level"] == "partition":
                assert count == rates[row["partition"]] * measured_s
                assert per_s == pytest.approx(rates[row["partition"]])
            else:
                assert per_s <= sum(rates) * 1.0001  # of the partitions that are known


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), rounds=st.integers(1, 100), partitions=st.integers(1, 4))
@pytest.mark.slow
def test_duckdb_finds_the_same_rates_where_rounds_are_missing_and_log_ends_unknown(
    seed, rounds, partitions
) -> None:
    found = recording(seed, rounds=rounds, partitions=partitions, thin=False)
    ours = rolled(found)
    samples = pa.Table.from_pylist(found.samples)

    with duckdb.connect() as connection:
        connection.register("samples", samples)
        theirs = connection.sql(f"""
            with steps as (
              select "group", topic, "partition", at_ms,
                at_ms - lag(at_ms) over series as length_ms,
                log_end_offset - lag(log_end_offset) over series as produced,
                committed_offset - lag(committed_offset) over series as consumed
              from samples
              window series as (partition by "group", topic, "partition" order by at_ms)),
            sides as (unpivot steps on produced, consumed into name what value step)
            select "group", topic, "partition", at_ms // {FIVE_MS} * {FIVE_MS} as bucket_ms, what,
              sum(step)::bigint as count, sum(length_ms)::bigint as measured_ms
            from sides where step >= 0 and length_ms <= {INTERVAL_MS * 1.5} group by all
        """).fetchall()  # noqa: S608 our own words

    expected = {tuple(row[:5]): (row[5], row[6]) for row in theirs}
    counted = {
        (row["group"], row["topic"], row["partition"], row["bucket_ms"], what): (
            row[what],
            round(row[f"{what}_s"] * 1000),
        )
        for row in rows_of(ours, "partition")
        for what in WHAT
        if row[what] is not None
    }
    assert counted == expected
    for row in rows_of(ours, "topic"):
        for what in WHAT:
            parts = [
                count * 1000 / measured_ms
                for (group, topic, _, bucket_ms, name), (count, measured_ms) in expected.items()
                if (group, topic, bucket_ms, name)
                == (row["group"], row["topic"], row["bucket_ms"], what)
            ]
            if row[what] is None:
                assert parts == []
            else:
                # the time is stored in milliseconds, and there may be few of them
                near = 1e-4 + 1 / (1000 * row[f"{what}_s"])
                assert row[f"{what}_per_s"] == pytest.approx(sum(parts), rel=near)


def test_rounds_in_which_the_log_end_is_unknown_are_no_time_in_which_nothing_was_produced() -> None:
    found = whole(
        *(
            at(number, log_end_offset=None if 3 <= number < 13 else 40 * 30 * number)
            for number in range(20)
        )
    )

    first, second = rows_of(rolled(found), "partition")

    assert [first[name] for name in ("produced", "produced_s", "produced_per_s")] == [2400, 60, 40]
    assert [second[name] for name in ("produced", "produced_s")] == [40 * 180, 180]
    assert second["produced_per_s"] == 40


def test_the_first_bucket_after_a_gap_has_the_rate_of_every_other() -> None:
    rounds = [*range(10), *range(40, 60)]
    found = whole(*(at(number, log_end_offset=35 * number) for number in rounds))

    rates = [row["produced_per_s"] for row in rows_of(rolled(found), "partition")]

    assert rates == pytest.approx([35 / 30] * 3)


def test_an_offset_that_goes_back_says_nothing_of_what_was_read() -> None:
    found = whole(
        *(at(number, committed_offset=offset) for number, offset in enumerate((500, 100, 400)))
    )

    (row,) = rows_of(rolled(found), "partition")

    assert [row[name] for name in ("consumed", "consumed_s", "consumed_per_s")] == [300, 30, 10]


def test_the_rate_of_a_topic_is_the_sum_of_those_of_its_partitions_however_long_each_was_seen() -> (
    None
):
    found = whole(
        *(
            at(
                number,
                partition=partition,
                log_end_offset=None if partition and number > 3 else 30 * number * per_s,
            )
            for number in range(10)
            for partition, per_s in ((0, 40), (1, 100))
        )
    )

    for level in ("topic", "group"):
        (row,) = rows_of(rolled(found), level)
        assert row["produced"] == 40 * 270 + 100 * 90
        assert row["produced_per_s"] == pytest.approx(140, rel=1e-5)


def test_buckets_of_an_earlier_release_were_divided_by_all_their_time() -> None:
    rows = rolled(whole(*(at(number, log_end_offset=600 * number) for number in range(10))))
    names = [name for name in rows.columns if name not in {"produced_s", "consumed_s"}]
    unknown = np.full(rows.size, np.nan)
    old = Records(
        kind=rows.kind,
        columns={name: rows.columns[name] if name in names else unknown for name in rows.columns},
    )

    (hour,) = rows_of(merge(old, Kind.ROLLUP_1H), "partition")

    assert (hour["produced"], hour["produced_s"]) == (5400, 300)

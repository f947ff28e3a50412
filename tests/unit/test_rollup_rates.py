"""Rates: over the time in which they were measured, whatever else of the time is unknown."""

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
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


def at(round_number: int, *, later_ms: int = 600, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """A sample of a round, read `later_ms` after the round began, right after a commit."""
    at_ms = NOON_MS + round_number * INTERVAL_MS
    read_ms = at_ms + later_ms
    return sample(**{"at_ms": at_ms, "commit_ms": read_ms, "log_end_ms": read_ms} | changes)


def per_second(rate: int, at_ms: int) -> int:
    """The offset at an instant of what moves on evenly; exact at tenths of seconds."""
    return 5000 + rate * (at_ms - NOON_MS + INTERVAL_MS) // 1000


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    unknown=st.floats(0, 0.9),
    missing=st.floats(0, 0.9),
    restarts=st.floats(0, 0.5),
    rates=st.lists(st.integers(0, 5).map(lambda tens: 10 * tens), min_size=1, max_size=4),
)
def test_rates_do_not_depend_on_how_much_was_seen_and_when(
    seed, unknown, missing, restarts, rates
) -> None:
    rng = np.random.default_rng(seed)
    rows, read_s, committed_ms = [], 0.0, [0] * len(rates)
    for number in range(60):
        if rng.random() < restarts:
            read_s = int(rng.integers(-20, 290)) / 10
        if rng.random() < missing:
            continue
        for partition, per_s in enumerate(rates):
            read_ms = NOON_MS + number * INTERVAL_MS + round(read_s * 1000)
            # without a log end, the sample does not say when it was read
            known = rng.random() >= unknown
            base_ms = read_ms if known else read_ms - round(read_s * 1000)
            commit_ms = base_ms - 100 * int(rng.integers(0, 100))
            # of two commits the later one is seen later
            commit_ms = committed_ms[partition] = max(commit_ms, committed_ms[partition])
            rows.append(
                at(
                    number,
                    partition=partition,
                    log_end_offset=per_second(per_s, read_ms) if known else None,
                    log_end_ms=read_ms if known else None,
                    committed_offset=None
                    if rng.random() < unknown
                    else per_second(per_s, commit_ms),
                    commit_ms=commit_ms,
                )
            )
    found = rolled(whole(*rows))

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
                assert count == pytest.approx(rates[row["partition"]] * measured_s, abs=1e-6)
                assert per_s == pytest.approx(rates[row["partition"]])
            else:
                assert per_s <= sum(rates) * 1.0001  # of the partitions that are known


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), rounds=st.integers(2, 60))
def test_times_of_buckets_add_up_to_the_time_from_the_first_reading_to_the_last(
    seed, rounds
) -> None:
    rng = np.random.default_rng(seed)
    later = [int(ms) for ms in rng.integers(0, 14_000, rounds)]
    found = rolled(
        whole(
            *(
                at(number, later_ms=ms, log_end_offset=number, committed_offset=number)
                for number, ms in enumerate(later)
            )
        )
    )

    rows = rows_of(found, "partition")
    for what in WHAT:
        total_s = sum(row[f"{what}_s"] or 0 for row in rows)
        expected_ms = (rounds - 1) * INTERVAL_MS + later[-1] - later[0]
        assert total_s == pytest.approx(expected_ms / 1000)
        assert sum(row[what] or 0 for row in rows) == rounds - 1


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), rounds=st.integers(1, 100), partitions=st.integers(1, 4))
@pytest.mark.slow
def test_duckdb_finds_the_same_rates_where_rounds_are_missing_and_log_ends_unknown(
    seed, rounds, partitions
) -> None:
    found = recording(seed, rounds=rounds, partitions=partitions, thin=False)
    assume(found.samples)  # all rounds may be missing: there is nothing to compare then
    ours = rolled(found)
    samples = pa.Table.from_pylist(found.samples)

    with duckdb.connect() as connection:
        connection.register("samples", samples)
        theirs = connection.sql(f"""
            with seen as (
              select *, if(abs(log_end_ms - at_ms) <= {INTERVAL_MS}, log_end_ms, at_ms) as read_ms
              from samples),
            sides as (
              select "group", topic, "partition", at_ms, 'produced' as what,
                log_end_offset as value, read_ms as instant_ms from seen
              union all
              select "group", topic, "partition", at_ms, 'consumed', committed_offset,
                if(abs(commit_ms - read_ms) < {INTERVAL_MS}, commit_ms, read_ms) from seen),
            dated as (
              select *, max(instant_ms) over series as so_far_ms,
                arg_max(coalesce(value, -1), instant_ms::hugeint * 10_000_000_000_000 + at_ms)
                  over series as newest
              from sides
              window series as (partition by "group", topic, "partition", what order by at_ms
                rows unbounded preceding)),
            ordered as (
              select * exclude (value), if(value < newest, newest, value) as value from dated),
            steps as (
              select *, at_ms - lag(at_ms) over series as apart_ms, value - lag(value) over series
                as step, so_far_ms - lag(so_far_ms) over series as length_ms
              from ordered
              window series as (partition by "group", topic, "partition", what order by at_ms))
            select "group", topic, "partition", at_ms // {FIVE_MS} * {FIVE_MS} as bucket_ms, what,
              sum(step)::bigint as count,
              sum(greatest(length_ms, if(step > 0, 1, 0)))::bigint as measured_ms
            from steps
            where step >= 0 and apart_ms <= {INTERVAL_MS * 1.5} and (step > 0 or length_ms > 0)
            group by all
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
                exact = row[what] / row[f"{what}_s"]
                assert exact == pytest.approx(sum(parts), rel=near)
                assert row[f"{what}_per_s"] == pytest.approx(exact, rel=5.001e-4)  # four digits


def test_a_start_late_in_an_interval_changes_no_rate() -> None:
    def seen(number: int, later_ms: int) -> dict[str, Any]:
        read_ms = NOON_MS + number * INTERVAL_MS + later_ms
        ends = {"log_end_offset": per_second(40, read_ms)}
        return at(
            number,
            later_ms=later_ms,
            committed_offset=per_second(40, read_ms - 2000),
            commit_ms=read_ms - 2000,
            **ends,
        )

    samples = [
        *(seen(number, 600) for number in range(8)),
        seen(10, 8000),  # lagwatch was started anew at 12:05:08
        *(seen(number, 600) for number in range(11, 20)),
    ]

    rows = rows_of(rolled(whole(*samples)), "partition")

    assert [row["produced_per_s"] for row in rows] == [40, 40]
    assert [row["consumed_per_s"] for row in rows] == [40, 40]
    assert rows[1]["produced_s"] == pytest.approx(9 * 30 - 7.4)


def test_a_group_that_commits_nothing_consumed_nothing_in_all_that_time() -> None:
    found = whole(*(at(number, commit_ms=NOON_MS, later_ms=0) for number in range(20)))

    first, second = rows_of(rolled(found), "partition")

    assert [first[f"consumed{of}"] for of in ("", "_s", "_per_s")] == [0, 270, 0]
    assert [second[f"consumed{of}"] for of in ("", "_s", "_per_s")] == [0, 300, 0]


def test_rounds_that_were_left_out_were_read_as_late_in_their_interval_as_the_one_before() -> None:
    rounds = range(0, 30, 10)
    samples = [
        at(number, later_ms=20_000, log_end_offset=number, commit_ms=NOON_MS) for number in rounds
    ]
    groups = [
        group_sample(
            at_ms=NOON_MS + number * INTERVAL_MS,
            unchanged=int(number not in rounds),
            previous_ms=NOON_MS + (number - 1) * INTERVAL_MS if number else None,
        )
        for number in range(30)
    ]

    rows = rows_of(rolled(Recording(samples=samples, groups=groups, events=[])), "partition")

    assert [row["produced_s"] for row in rows] == [270, 300, 300]


def test_samples_that_do_not_say_when_they_were_read_were_so_when_their_round_began() -> None:
    ends = [None, NOON_MS - 3_600_000, NOON_MS + 60_000]  # unknown, and not asked again since
    found = whole(*(at(number, log_end_ms=end_ms) for number, end_ms in enumerate(ends)))

    (row,) = rows_of(rolled(found), "partition")

    assert row["produced_s"] == 60


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

    assert rates == [1.167] * 3  # 35 / 30, to four digits


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


def test_what_two_instances_read_around_a_change_counts_once() -> None:
    """The change has a later row, of an earlier reading, than the round of the other instance."""

    def seen(at_ms: int, read_ms: int, reason: str) -> dict[str, Any]:
        offset = per_second(50, read_ms)
        offsets = {"log_end_offset": offset, "committed_offset": offset, "lag": 0}
        return at(0, at_ms=at_ms, commit_ms=read_ms, log_end_ms=read_ms, reason=reason, **offsets)

    starts = [NOON_MS + number * INTERVAL_MS for number in range(20)]
    rounds = [seen(start_ms, start_ms + 3_000, "interval") for start_ms in starts]
    changes = [seen(start_ms + 1_000, start_ms + 1_000, "change") for start_ms in starts[::2]]

    found = rows_of(rolled(whole(*rounds, *changes)), "partition")

    assert [row["produced_per_s"] for row in found] == pytest.approx([50.0] * len(found))
    assert [row["consumed_per_s"] for row in found] == pytest.approx([50.0] * len(found))


def test_a_leap_over_deleted_messages_is_not_reading() -> None:
    """A consumer reads 10 messages a round, and is thrown to the log start twice."""
    committed = [100, 110, 120, 900, 910, 1700, 1710]
    deleted = [0, 0, 0, 890, 890, 1690, 1690]
    rows = [
        at(number, committed_offset=offset, log_start_offset=start, log_end_offset=2000)
        for number, (offset, start) in enumerate(zip(committed, deleted, strict=True))
    ]

    (row,) = rows_of(rolled(whole(*rows)), "partition")

    assert row["consumed"] == 40
    assert row["consumed_s"] == pytest.approx(4 * INTERVAL_MS / 1000)
    assert row["produced"] == 0


def test_who_reads_before_messages_are_deleted_has_read_them() -> None:
    rows = [
        at(number, committed_offset=100 + 50 * number, log_start_offset=100 + 50 * (number - 1))
        for number in range(1, 7)
    ]

    (row,) = rows_of(rolled(whole(*rows)), "partition")

    assert row["consumed"] == 250

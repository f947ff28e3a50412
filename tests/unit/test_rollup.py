"""Roll-ups: what a bucket says, and the law that longer buckets follow from shorter ones."""

from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagwatch.core.record import BY_WORST, Kind, Records, concat, from_rows
from lagwatch.core.record.records import Value
from lagwatch.core.rollup import BucketSpan, merge, roll_up
from lagwatch.core.rollup.timeline import cut
from lagwatch.history.grid import expand
from lagwatch.history.rows import sort_unique
from tests.support.history import NOON_MS, group_sample, happening, sample
from tests.support.rollups import INTERVAL_MS, Recording, recording

pytestmark = pytest.mark.slow  # rolls up hours

HOUR_MS = 3_600_000
FIVE_MS = 300_000
RECORDINGS = st.builds(
    recording,
    st.integers(0, 2**32),
    rounds=st.integers(1, 100),
    groups=st.integers(1, 3),
    partitions=st.integers(1, 4),
    interval_ms=st.sampled_from([30_000, 70_000, 400_000]),
    full_every=st.sampled_from([1, 5, 20]),
)


def rolled(
    found: Recording, kind: Kind = Kind.ROLLUP_5M, *, from_ms: int = NOON_MS, hours: int = 12
) -> Records:
    span = BucketSpan(kind=kind, from_ms=from_ms, to_ms=from_ms + hours * HOUR_MS)
    return roll_up(found.raw(), span, cluster="here", interval_ms=INTERVAL_MS)


def plain(rows: Records) -> list[dict[str, Any]]:
    return [dict(row) for row in rows.rows()]


def bucket(
    found: Recording,
    number: int = 0,
    *,
    level: str = "partition",
    **names: Any,  # noqa: ANN401
) -> dict[str, Value]:
    """The only bucket of a level at an instant."""
    (row,) = (
        row
        for row in plain(rolled(found))
        if row["level"] == level
        and row["bucket_ms"] == NOON_MS + number * FIVE_MS
        and all(row[name] == value for name, value in names.items())
    )
    return row


def at(seconds: int, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    return sample(at_ms=NOON_MS + seconds * 1000, **changes)


def round_at(seconds: int, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    return group_sample(at_ms=NOON_MS + seconds * 1000, **changes)


def whole(*samples: dict[str, Any]) -> Recording:
    """Samples, each in a whole round."""
    times = sorted({row["at_ms"] for row in samples if row["reason"] == "interval"})
    return Recording(
        samples=list(samples), groups=[group_sample(at_ms=at_ms) for at_ms in times], events=[]
    )


# laws


@settings(max_examples=40, deadline=None)
@given(found=RECORDINGS)
def test_a_roll_up_of_roll_ups_is_the_roll_up_of_the_samples_bit_for_bit(found) -> None:
    five = rolled(found)
    hours = merge(five, Kind.ROLLUP_1H)

    assert plain(hours) == plain(rolled(found, Kind.ROLLUP_1H))
    assert plain(merge(hours, Kind.ROLLUP_1D)) == plain(merge(five, Kind.ROLLUP_1D))


@settings(max_examples=25, deadline=None)
@given(found=RECORDINGS, seed=st.integers(0, 2**32))
def test_the_order_of_rows_does_not_matter(found, seed) -> None:
    rng = np.random.default_rng(seed)
    shuffled = Recording(
        samples=[found.samples[n] for n in rng.permutation(len(found.samples))],
        groups=[found.groups[n] for n in rng.permutation(len(found.groups))],
        events=found.events[::-1],
    )
    five = rolled(found)

    assert plain(rolled(shuffled)) == plain(five)
    mixed = five.take(rng.permutation(five.size))
    assert plain(merge(mixed, Kind.ROLLUP_1H)) == plain(merge(five, Kind.ROLLUP_1H))


@settings(max_examples=25, deadline=None)
@given(found=RECORDINGS)
def test_rolling_up_again_changes_nothing(found) -> None:
    hours = merge(rolled(found), Kind.ROLLUP_1H)

    assert plain(merge(hours, Kind.ROLLUP_1H)) == plain(hours)
    # what is kept of many values gives their quantiles to within a percent only
    again, once = merge(rolled(found), Kind.ROLLUP_5M), rolled(found)
    names = [name for name in once.columns if "_p5" not in name and "_p9" not in name]
    assert plain(again.select(names)) == plain(once.select(names))


@settings(max_examples=25, deadline=None)
@given(found=RECORDINGS, cut_at=st.integers(1, 20))
def test_buckets_made_piece_by_piece_are_those_made_at_once(found, cut_at) -> None:
    border_ms = NOON_MS + cut_at * FIVE_MS
    spans = ((NOON_MS, border_ms), (border_ms, NOON_MS + 12 * HOUR_MS))

    pieces = [
        roll_up(
            found.part(number, 2).raw(),
            BucketSpan(kind=Kind.ROLLUP_5M, from_ms=first, to_ms=last),
            cluster="here",
            interval_ms=INTERVAL_MS,
        )
        for first, last in spans
        for number in range(2)
    ]

    assert plain(sort_unique(concat(pieces))[0]) == plain(sort_unique(rolled(found))[0])


@settings(max_examples=25, deadline=None)
@given(found=RECORDINGS)
def test_samples_that_were_left_out_count_as_history_puts_them_back(found) -> None:
    expected: dict[tuple[Any, ...], list[int | None]] = defaultdict(list)
    for name in {row["group"] for row in found.groups}:
        put_back = expand(
            from_rows(Kind.SAMPLES, [row for row in found.samples if row["group"] == name]),
            from_rows(Kind.GROUP_SAMPLES, [row for row in found.groups if row["group"] == name]),
        )
        for row in plain(put_back):
            if row["reason"] == "interval":
                at_ms = row["at_ms"]
                key = (name, row["topic"], row["partition"], at_ms - at_ms % FIVE_MS)
                expected[key].append(row["lag"])

    rows = [row for row in plain(rolled(found)) if row["level"] == "partition"]

    counted = {
        (row["group"], row["topic"], row["partition"], row["bucket_ms"]): row
        for row in rows
        if row["samples"]
    }
    assert counted.keys() == expected.keys()
    for key, lags in expected.items():
        row, known = counted[key], sorted(lag for lag in lags if lag is not None)
        assert (row["samples"], row["lag_known"]) == (len(lags), len(known))
        assert row["lag_sum"] == (sum(known) if known else None)
        assert (row["lag_min"], row["lag_max"]) == (
            (known[0], known[-1]) if known else (None, None)
        )
        assert row["lag_p50"] == (known[-(-len(known) // 2) - 1] if known else None)


@settings(max_examples=25, deadline=None)
@given(found=RECORDINGS)
def test_no_bucket_holds_more_time_than_it_is_long(found) -> None:
    for row in plain(rolled(found)):
        times = [
            row[f"{word}_s"] or 0
            for word in ("ok", "warn", "stop", "stall", "rewind", "unknown", "err")
        ]
        assert 0 < round(sum(times), 6) <= 300


@settings(max_examples=25, deadline=None)
@given(found=RECORDINGS)
def test_a_topic_is_in_a_status_while_that_is_the_worst_of_its_partitions(found) -> None:
    rows = plain(rolled(found))

    expected = _held_by_topics(found)

    words = ("ok", "warn", "stop", "stall", "rewind", "unknown")
    counted = {
        (row["group"], row["topic"], row["bucket_ms"]): {
            word.upper(): row[f"{word}_s"] for word in words if row[f"{word}_s"]
        }
        for row in rows
        if row["level"] == "topic"
    }
    assert {key: held for key, held in counted.items() if held} == expected


def _held_by_topics(found: Recording) -> dict[tuple[Any, ...], dict[str, float]]:
    """The same, instant by instant: every second of every partition, the worst of each."""
    spans: dict[tuple[Any, ...], list[tuple[int, int, str]]] = defaultdict(list)
    for name in {row["group"] for row in found.groups}:
        put_back = plain(
            expand(
                from_rows(Kind.SAMPLES, [row for row in found.samples if row["group"] == name]),
                from_rows(
                    Kind.GROUP_SAMPLES, [row for row in found.groups if row["group"] == name]
                ),
            )
        )
        interval_ms = next(row["interval_ms"] for row in found.groups if row["group"] == name)
        by_partition: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
        for row in put_back:
            by_partition[row["topic"], row["partition"]].append(row)
        for (topic, _), rows in by_partition.items():
            rows.sort(key=lambda row: row["at_ms"])
            for row, after in zip(rows, [*rows[1:], None], strict=True):
                begin = row["at_ms"]
                end = (begin if row["reason"] == "interval" else begin - begin % interval_ms) + (
                    interval_ms
                )
                if after is not None:
                    end = min(end, after["at_ms"])
                spans[name, topic].append((begin, end, row["status"]))
    held: dict[tuple[Any, ...], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for key, some in spans.items():
        borders = sorted({border for begin, end, _ in some for border in (begin, end)})
        borders = sorted({*borders, *range(NOON_MS, max(borders) + FIVE_MS, FIVE_MS)})
        for begin, end in pairwise(borders):
            words = [word for first, last, word in some if first <= begin and end <= last]
            if words:
                worst = max(words, key=BY_WORST.index)
                held[*key, begin - begin % FIVE_MS][worst] += end - begin
    return {key: {word: ms / 1000 for word, ms in found.items()} for key, found in held.items()}


# what a bucket says


def test_a_bucket_of_a_partition_says_what_its_rounds_said() -> None:
    lags = (5, 1, 4, None, 2)
    found = whole(
        *(
            at(
                30 * number,
                lag=lag,
                time_lag_s=None if lag is None else lag / 10,
                owner=f"/10.0.0.{number}",
                committed_offset=100 + number,
                log_end_offset=None if lag is None else 100 + number + lag,
                commit_ms=NOON_MS + 30_000 * (number // 2),
            )
            for number, lag in enumerate(lags)
        )
    )

    row = bucket(found)

    assert {name: row[name] for name in ("samples", "lag_known", "lag_sum", "lag_avg")} == {
        "samples": 5,
        "lag_known": 4,
        "lag_sum": 12,
        "lag_avg": 3.0,
    }
    assert (row["lag_min"], row["lag_p50"], row["lag_p95"], row["lag_max"]) == (1, 2.0, 5.0, 5)
    assert (row["time_lag_p95_s"], row["time_lag_max_s"]) == (0.5, 0.5)
    assert (row["owner"], row["owner_lag"]) == ("/10.0.0.0", 5)
    assert (row["consumed"], row["commits"]) == (4, 2)
    # 105 → 102 is no move on; what comes after an unknown one cannot be told
    assert row["produced"] == 4
    assert (row["status"], row["ok_s"], row["warn_s"], row["err_s"]) == ("OK", 150.0, 0.0, None)
    assert row["source"] == "live"


def test_what_nobody_knows_is_null_and_never_nought() -> None:
    found = whole(at(0, lag=None, time_lag_s=None, log_end_offset=None, status="UNKNOWN"))

    row = bucket(found)

    for name in (
        *("lag_sum", "lag_avg", "lag_p50", "lag_p99", "lag_min", "lag_max", "time_lag_max_s"),
        *("time_lag_p95_s", "produced", "consumed", "commits", "produced_per_s", "rebalances"),
        *("lag_sketch", "time_lag_sketch", "err_s"),
    ):
        assert row[name] is None, name
    assert (row["lag_known"], row["unknown_s"], row["ok_s"]) == (0, 30.0, 0.0)


def test_a_change_between_rounds_cuts_the_time_of_the_status_before() -> None:
    found = whole(at(0), at(12, status="STALL", reason="change"), at(30, status="WARN"), at(60))

    row = bucket(found)

    assert (row["ok_s"], row["stall_s"], row["warn_s"]) == (12.0 + 30.0, 18.0, 30.0)
    assert (row["samples"], row["status"]) == (3, "STALL")


def test_a_row_holds_no_longer_than_its_round_when_nothing_follows() -> None:
    found = whole(at(0), at(12, status="STALL", reason="change"), at(240, status="WARN"))

    row = bucket(found)

    assert (row["ok_s"], row["stall_s"], row["warn_s"]) == (12.0, 18.0, 30.0)


def test_rows_left_out_hold_to_the_end_of_their_run_and_over_the_border_of_a_bucket() -> None:
    rounds = [
        round_at(
            30 * number,
            unchanged=0 if number == 0 else 1,
            previous_ms=None if number == 0 else NOON_MS + 30_000 * (number - 1),
        )
        for number in range(13)
    ]
    found = Recording(samples=[at(0, status="WARN")], groups=rounds, events=[])

    first, second = bucket(found), bucket(found, 1)

    assert (first["samples"], first["warn_s"], first["produced"]) == (10, 300.0, 0)
    assert (second["samples"], second["warn_s"], second["commits"]) == (3, 90.0, 0)


def test_moves_across_a_gap_are_not_reported() -> None:
    found = whole(
        at(0, log_end_offset=100), at(30, log_end_offset=110), at(180, log_end_offset=900)
    )

    assert bucket(found)["produced"] == 10


def test_a_topic_is_the_sum_of_its_partitions_in_every_round() -> None:
    found = whole(
        *(
            at(seconds, partition=number, lag=lag, time_lag_s=number + 1.0, status=status)
            for seconds in (0, 30)
            for number, lag, status in ((0, 10, "OK"), (1, 20, "WARN"), (2, None, "OK"))
        ),
        at(0, topic="other", lag=1000),
    )

    row = bucket(found, level="topic", topic="orders")

    assert (row["partition"], row["samples"], row["lag_known"]) == (None, 2, 2)
    assert (row["lag_max"], row["lag_sum"], row["time_lag_max_s"]) == (30, 60, 3.0)
    assert (row["status"], row["warn_s"], row["ok_s"]) == ("WARN", 60.0, 0.0)
    assert (row["produced"], row["commits"], row["owner_lag"]) == (0, 0, 20)


def test_a_group_says_what_its_own_rows_say_and_sums_what_its_partitions_did() -> None:
    found = Recording(
        samples=[
            at(seconds, partition=number, committed_offset=seconds * (number + 1), lag=7 + number)
            for seconds in (0, 30)
            for number in range(2)
        ],
        groups=[round_at(0, total_lag=40, status="ERR"), round_at(30, total_lag=50)],
        events=[
            happening(event="rebalance", topic=None, partition=None, count=3),
            happening(event="rebalance", group="other", topic=None, partition=None, count=9),
        ],
    )

    row = bucket(found, level="group")

    assert (row["topic"], row["samples"], row["lag_max"], row["lag_avg"]) == (None, 2, 50, 45.0)
    assert (row["status"], row["err_s"], row["ok_s"], row["stop_s"]) == ("ERR", 30.0, 30.0, None)
    assert (row["consumed"], row["owner_lag"], row["rebalances"]) == (90, 8, 3)


@pytest.mark.parametrize(("counted", "known"), [(0, 0), (7, 0), (None, None)])
def test_no_rebalance_is_known_only_where_they_were_counted(counted, known) -> None:
    found = Recording(samples=[], groups=[round_at(0, rebalances=counted)], events=[])

    row = bucket(found, level="group")

    assert row["rebalances"] == known


def test_a_bucket_is_as_little_live_as_its_least_sample() -> None:
    found = whole(at(0), at(30, source="backfill"), at(60, source="telegraf"))

    assert bucket(found)["source"] == "backfill"


def test_nothing_recorded_gives_no_rows() -> None:
    assert rolled(Recording(samples=[], groups=[], events=[])).size == 0
    assert merge(from_rows(Kind.ROLLUP_5M, []), Kind.ROLLUP_1H).size == 0


def test_spans_are_cut_where_buckets_end() -> None:
    span, bucket_ms, length = cut(np.array([0, 250, 900]), np.array([0, 710, 901]), 300)

    assert list(zip(span.tolist(), bucket_ms.tolist(), length.tolist(), strict=True)) == [
        (1, 0, 50),
        (1, 300, 300),
        (1, 600, 110),
        (2, 900, 1),
    ]

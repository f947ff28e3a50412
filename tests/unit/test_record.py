"""The flat rows: columns, plain values, identity."""

import string
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.model import PartitionStatus, TimeLagReason
from lagwatch.core.record import (
    BY_WORST,
    KINDS,
    Capture,
    Kind,
    Records,
    SampleReason,
    Text,
    concat,
    from_rows,
    group_samples,
    record_ids,
    schema,
)
from lagwatch.core.record import samples as live_samples
from lagwatch.core.snapshot import RowTimes
from tests.support.history import NOON_MS, Live, group_sample, sample, samples

NAMES = st.text(min_size=0, max_size=8)


def test_every_kind_has_its_key_first_and_its_origin_last() -> None:
    for kind in KINDS:
        columns = tuple(schema(kind))
        assert set(kind.key) <= set(columns[: len(kind.key) + 1]) | {"event"}
        assert kind.key[-1] == kind.time_column
        assert columns[-2:] == ("source", "schema_version")


def test_the_names_others_count_on_are_there() -> None:
    named = "cluster group topic partition at_ms committed_offset log_end_offset log_start_offset"
    rolled = "bucket_ms samples lag_max lag_avg lag_p50 lag_p95 lag_p99"

    assert [kind.value for kind in KINDS] == [
        *("samples", "group_samples", "events", "rollup_5m", "rollup_1h", "rollup_1d")
    ]
    assert {*named.split(), "lag", "time_lag_s", "status", "rule", "source"} <= set(
        schema(Kind.SAMPLES)
    )
    assert set(rolled.split()) <= set(schema(Kind.ROLLUP_1H))


def test_a_column_whose_name_has_a_unit_tells_it() -> None:
    for kind in KINDS:
        for column in schema(kind).values():
            if column.name.endswith("_ms"):
                assert column.unit == "ms", column.name
            if column.name.endswith("_per_s"):
                assert column.unit == "1/s", column.name
            elif column.name.endswith("_s"):
                assert column.unit == "s", column.name


def test_an_id_is_the_same_for_the_same_key_whatever_else_is_in_the_row() -> None:
    this, other = samples([sample(lag=1)]), samples([sample(lag=2, source="backfill")])

    assert record_ids(this) == record_ids(other)


def test_an_id_never_changes_between_releases() -> None:
    rows = samples([sample(), sample(partition=1), sample(at_ms=NOON_MS + 30_000)])

    assert record_ids(rows) == [
        "WgOGtfCZalEfzDN51wNCmw-1a1fdfa4600",
        "2t4eku6icJY8zmSeM5tqRg-1a1fdfa4600",
        "WgOGtfCZalEfzDN51wNCmw-1a1fdfabb30",
    ]


@given(st.sets(st.tuples(NAMES, NAMES, NAMES, st.integers(0, 999)), max_size=12))
def test_different_keys_have_different_ids(keys) -> None:
    rows = [
        sample(cluster=cluster, group=group, topic=topic, partition=partition)
        for cluster, group, topic, partition in keys
    ]

    ids = record_ids(samples(rows))

    assert len(set(ids)) == len(keys)
    assert all(
        set(identifier) <= set(string.ascii_letters + string.digits + "-_") for identifier in ids
    )


def test_no_name_and_the_empty_name_are_two_things() -> None:
    rows = [{"cluster": "c", "event": "e", "at_ms": 1, "group": group} for group in (None, "")]

    ids = record_ids(from_rows(Kind.EVENTS, rows))

    assert ids[0] != ids[1]


WORDS = st.lists(st.none() | st.sampled_from(["a", "b", "c", ""]), max_size=9)


@given(st.lists(WORDS, min_size=1, max_size=5))
def test_texts_put_together_read_as_their_words(parts) -> None:
    whole = concat(
        [
            Records(kind=Kind.SAMPLES, columns={"group": Text.of(words), "topic": Text.of(words)})
            for words in parts
        ]
    )

    assert whole.text("group").tolist() == [word for words in parts for word in words]
    assert len(set(whole.text("group").words)) == len(whole.text("group").words)


@given(WORDS, st.data())
def test_a_narrowed_text_reads_alike_and_holds_no_other_words(words, data) -> None:
    text = Text.of(words)
    some = text.take(np.flatnonzero([data.draw(st.booleans()) for _ in words]))

    narrowed = some.narrowed()

    assert narrowed.tolist() == some.tolist()
    assert set(narrowed.words) == {word for word in some.tolist() if word is not None}


@given(WORDS)
def test_ranks_sort_as_words_do_and_unknown_first(words) -> None:
    ranks = Text.of(words).ranks().tolist()

    by_rank = [words[index] for index in np.argsort(ranks, kind="stable").tolist()]
    assert by_rank == sorted(words, key=lambda word: (word is not None, word or ""))


def test_words_that_repeat_become_one() -> None:
    text = Text.coded(np.array([0, 1, 2, -1], np.int32), ("x", "y", "x"))

    assert text.tolist() == ["x", "y", "x", None]
    assert text.words == ("x", "y")


def test_plain_rows_become_columns_and_plain_rows_again() -> None:
    rows = [sample(), sample(lag=None, time_lag_s=None, owner=None)]

    assert list(samples(rows).rows()) == rows


def test_a_column_of_the_wrong_kind_is_refused() -> None:
    rows = samples([sample()])

    for name, read in (("lag", rows.text), ("group", rows.numbers), ("owner", rows.reals)):
        with pytest.raises(TypeError, match=name):
            read(name)


def test_every_status_has_its_place_among_the_worse_and_the_better() -> None:
    assert BY_WORST.index("REWIND") > BY_WORST.index("STOP") > BY_WORST.index("WARN")
    assert len(set(BY_WORST)) == len(BY_WORST)


def test_live_samples_say_what_the_snapshot_says() -> None:
    live = Live()
    live.topics(orders=2, audit=1)
    live.assign("billing", ("orders", 0))
    live.wait(1)
    live.commit(("billing", "orders", 0, 60), ("billing", "orders", 1, 100))
    live.wait(1)
    snapshot = live.judge()
    taken = Capture(snapshot=snapshot, rebalances={})

    rows = list(
        live_samples(taken, np.arange(2), at_ms=NOON_MS, reason=SampleReason.INTERVAL).rows()
    )
    groups = list(
        group_samples(
            taken, np.arange(1), at_ms=NOON_MS, reason=SampleReason.INTERVAL, interval_ms=30_000
        ).rows()
    )

    assert list(rows[0]) == list(schema(Kind.SAMPLES))
    assert list(groups[0]) == list(schema(Kind.GROUP_SAMPLES))
    assert [row["lag"] for row in rows] == [40, 0]
    assert [row["owner"] for row in rows] == ["/10.0.0.7", None]
    assert rows[0]["committed_offset"] == 60
    assert rows[0]["commit_ms"] == NOON_MS + 1000
    assert rows[0]["log_end_offset"] == 100
    assert rows[0]["log_end_ms"] == snapshot.data_ms
    assert rows[0]["topic_id"] == "id-orders"
    assert rows[0]["group_state"] == "Stable"
    assert groups[0]["total_lag"] == 40
    assert (groups[0]["max_lag_topic"], groups[0]["max_lag_partition"]) == ("orders", 0)
    assert groups[0]["members"] == 1
    assert groups[0]["unchanged"] is None


@pytest.mark.parametrize(
    ("reason", "error_s", "failed", "recorded"),
    [
        (TimeLagReason.RECORD_TIME, 159.0, False, None),  # it may be 1 s as well
        (TimeLagReason.RECORD_TIME, np.nan, False, None),
        (TimeLagReason.RECORD_TIME, 12.0, False, 160.0),
        (TimeLagReason.RECORD_TIME, 159.0, True, 160.0),
        (TimeLagReason.BEYOND_HISTORY, np.nan, False, 160.0),
        (TimeLagReason.MEASURED, 1.0, False, 160.0),
    ],
)
def test_a_bound_that_says_nothing_of_a_good_group_is_not_recorded_as_its_time_lag(
    reason, error_s, failed, recorded
) -> None:
    live = Live()
    live.topics(orders=1)
    live.wait(1)
    live.commit(("billing", "orders", 0, 60))
    live.wait(1)
    snapshot = live.judge()
    status = PartitionStatus.STOP if failed else PartitionStatus.OK
    times = RowTimes(np.array([160_000]), np.array([reason], np.int8), np.array([error_s * 1000]))
    rows = replace(snapshot.rows, times=times.part, status=np.array([status], np.int8))
    taken = Capture(snapshot=replace(snapshot, rows=rows), rebalances={})

    (row,) = live_samples(taken, np.arange(1), at_ms=NOON_MS, reason=SampleReason.INTERVAL).rows()

    assert (row["time_lag_s"], row["time_lag_reason"]) == (recorded, reason.word)


def test_the_sum_of_a_group_of_which_nothing_is_known_is_unknown() -> None:
    row = group_sample(total_lag=None)

    assert from_rows(Kind.GROUP_SAMPLES, [row]).numbers("total_lag").tolist() == [-1]

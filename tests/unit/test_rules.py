"""Every window whose verdict Burrow's own rules gave, through the columns."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lagwatch.core.explain import Explained, WindowInput, explain
from lagwatch.core.model import PartitionStatus, Rule, RuleSet
from lagwatch.core.rules import TABLES, judge, row_of, sentence
from lagwatch.ports.queries import Partitions
from tests.support.any_rows import any_rows
from tests.support.fleet import CLUSTER, Fleet, ShiftedClock

VECTORS = Path(__file__).parents[1] / "vectors"


def _read(name: str):
    return json.loads((VECTORS / name).read_text())


def _input(case) -> WindowInput:
    now_s = case["time_now_s"] if "time_now_s" in case else case["time_now"]
    return WindowInput(
        offset=[entry["offset"] for entry in case["offsets"]],
        commit_ms=[entry["timestamp"] for entry in case["offsets"]],
        lag=[entry["lag"] for entry in case["offsets"]],
        broker_offsets=case["broker_offsets"],
        current_lag=case["current_lag"],
        now_ms=now_s * 1000,
        allowed_lag=case["allowed_lag"],
    )


def test_all_random_windows_judged_together_get_burrows_verdicts() -> None:
    cases = _read("evaluator_windows.json")

    verdicts = explain([_input(case) for case in cases])

    assert [each.status.name for each in verdicts] == [case["status"] for case in cases]


@pytest.mark.parametrize(
    "case", _read("evaluator_cases.json")["rule_cases"], ids=lambda case: case["name"]
)
def test_each_rule_case_gets_burrows_verdict(case) -> None:
    (verdict,) = explain([_input(case)])

    assert verdict.status.name == case["expect"]["status"], case["why"]


def _judged(offsets, lags, *, now_ms=10_000, step_ms=1000, current_lag=None, ends=()) -> Explained:
    return explain(
        [
            WindowInput(
                offset=offsets,
                commit_ms=[index * step_ms for index in range(len(offsets))],
                lag=lags,
                broker_offsets=ends,
                current_lag=lags[-1] if current_lag is None else current_lag,
                now_ms=now_ms,
            )
        ]
    )[0]


def test_the_rule_and_the_numbers_it_saw_are_named() -> None:
    verdict = _judged([100, 100, 100], [10, 20, 30], now_ms=2500)

    assert verdict.rule is Rule.STALLED
    assert verdict.evidence == {
        "current_lag": 30,
        "start_offset": 100,
        "end_offset": 100,
        "start_lag": 10,
        "end_lag": 30,
        "window_span_ms": 2000,
        "commits": 3,
    }


def test_silence_as_long_as_the_window_is_not_yet_a_stop() -> None:
    assert _judged([1, 2, 3], [9, 8, 7], now_ms=4000).status is PartitionStatus.OK
    assert _judged([1, 2, 3], [9, 8, 7], now_ms=4001).status is PartitionStatus.STOP


def test_a_rewind_names_the_offsets_around_the_fall() -> None:
    verdict = _judged([50, 60, 20, 30], [5, 5, 45, 35], now_ms=3500)

    assert verdict.status is PartitionStatus.REWIND
    assert (verdict.evidence["offset_before"], verdict.evidence["offset_after"]) == (60, 20)


def test_an_unknown_log_end_is_neither_good_nor_bad() -> None:
    verdict = _judged([1, 2, 3], [5, 5, 5], current_lag=-1)

    assert (verdict.status, verdict.rule) == (PartitionStatus.UNKNOWN, Rule.LOG_END_UNKNOWN)


WINDOWS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 2000), st.none() | st.integers(0, 30)),
    min_size=1,
    max_size=10,
)


def _window(entries, *, shift: int = 0, current_lag: int = 5, now_ms: int = 9000) -> WindowInput:
    times = [sum(entry[1] for entry in entries[: index + 1]) for index in range(len(entries))]
    return WindowInput(
        offset=[entry[0] + shift for entry in entries],
        commit_ms=times,
        lag=[entry[2] for entry in entries],
        broker_offsets=[entries[-1][0] + shift + current_lag],
        current_lag=current_lag,
        now_ms=now_ms,
    )


@given(WINDOWS, st.integers(0, 10**12), st.integers(0, 20), st.integers(0, 30_000))
def test_shifting_all_offsets_changes_no_verdict(entries, shift, current_lag, now_ms) -> None:
    here = _window(entries, current_lag=current_lag, now_ms=now_ms)
    there = _window(entries, shift=shift, current_lag=current_lag, now_ms=now_ms)

    verdicts = explain([here, there])

    assert verdicts[0].rule is verdicts[1].rule


@given(st.lists(WINDOWS, min_size=1, max_size=20))
def test_windows_judged_together_or_alone_get_the_same_verdict(windows) -> None:
    inputs = [_window(entries) for entries in windows]

    assert explain(inputs) == tuple(explain([each])[0] for each in inputs)


# laws of both tables, whatever the columns hold

SEEDS = st.integers(0, 2**32 - 1)
BOTH = pytest.mark.parametrize("rules", RuleSet, ids=str)


@BOTH
@given(seed=SEEDS, size=st.integers(0, 60), beginning=st.booleans())
@example(seed=0, size=5000, beginning=False)
@example(seed=0, size=5000, beginning=True)
def test_any_columns_can_be_judged_and_an_unknown_lag_is_never_taken_for_none(
    rules, seed, size, beginning
) -> None:
    rows = any_rows(seed, size, beginning=beginning)

    judged = judge(TABLES[rules], rows)

    assert {Rule(rule) for rule in judged.rule} <= {row.rule for row in TABLES[rules]}
    without = np.isin(judged.rule[rows.lag < 0], (Rule.LAG_WITHIN_ALLOWED, Rule.PROGRESSING))
    assert not without.any()


@BOTH
@given(SEEDS, st.integers(0, 10**12), st.booleans())
def test_shifting_all_offsets_changes_nothing(rules, seed, by_offset, beginning) -> None:
    here = any_rows(seed, 50, beginning=beginning)
    there = any_rows(seed, 50, by_offset=by_offset, beginning=beginning)

    judged, moved = (judge(TABLES[rules], rows) for rows in (here, there))

    assert judged.rule.tolist() == moved.rule.tolist()
    assert judged.since_ms.tolist() == moved.since_ms.tolist()


@BOTH
@given(SEEDS, st.integers(0, 2 * 10**9), st.booleans())
def test_shifting_all_instants_changes_nothing_but_instants(rules, seed, by_s, beginning) -> None:
    here = any_rows(seed, 50, beginning=beginning)
    there = any_rows(seed, 50, by_s=by_s, beginning=beginning)

    judged, moved = (judge(TABLES[rules], rows) for rows in (here, there))

    assert judged.rule.tolist() == moved.rule.tolist()
    assert judged.limit_ms.tolist() == moved.limit_ms.tolist()
    known = judged.since_ms >= 0
    assert (moved.since_ms[known] - judged.since_ms[known] == by_s * 1000).all()
    assert (moved.since_ms[~known] == judged.since_ms[~known]).all()


@BOTH
@given(SEEDS, st.integers(1, 30), st.booleans())
def test_rows_judged_together_or_alone_get_the_same_verdict(rules, seed, size, beginning) -> None:
    rows = any_rows(seed, size, beginning=beginning)

    together = judge(TABLES[rules], rows)
    alone = [judge(TABLES[rules], rows.take(np.array([index]))) for index in range(size)]

    assert together.rule.tolist() == [int(each.rule[0]) for each in alone]
    assert together.since_ms.tolist() == [int(each.since_ms[0]) for each in alone]


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("block", [1, 3, 7])
def test_blocks_of_rows_are_judged_as_the_whole(rules, block) -> None:
    fleet = Fleet("abcdefg", ShiftedClock(), rules=rules)
    fleet.slow.add("c")
    fleet.fail("b", "f")
    assert fleet.monitor.snapshot is not None
    at_ms = fleet.monitor.snapshot.at_ms
    whole = [fleet.queries.verdict(CLUSTER, group, Partitions.ALL) for group in fleet.groups]
    fleet.monitor.windows.block_rows = block

    fleet.monitor.judge(at_ms)

    parts = [fleet.queries.verdict(CLUSTER, group, Partitions.ALL) for group in fleet.groups]
    assert parts == whole
    assert len({verdict.status for verdict in parts}) > 1


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            {"producer_id": 4002, "transactional_id": "payments-1"},
            "where the transaction payments-1 of producer 4002 has been open for 16 min",
        ),
        (
            {"producer_id": 4002, "transactional_id": None},
            "where a transaction of producer 4002 with an unknown transactional id has been open",
        ),
        (
            {"producer_id": None, "transactional_id": None, "transaction_unnamed": "no right"},
            "where a transaction of an unknown producer has been open for 16 min",
        ),
    ],
)
@pytest.mark.parametrize("rule", [Rule.WAITS_FOR_TRANSACTION, Rule.HELD_BY_TRANSACTION])
def test_an_open_transaction_is_named_as_far_as_it_is_known(names, said, rule) -> None:
    row = row_of(RuleSet.LAGWATCH, rule)
    numbers = {"current_lag": 7, "last_stable_offset": 10, "transaction_age_ms": 960_000, **names}

    assert said in sentence(row, numbers)
    assert {"producer_id", "transactional_id", "transaction_unnamed"} <= set(row.evidence)


@pytest.mark.parametrize("rule", [Rule.STOPPED, Rule.STALLED])
def test_of_polled_offsets_nothing_is_said_about_commits_that_cannot_be_seen(rule) -> None:
    row = row_of(RuleSet.LAGWATCH, rule)
    numbers = {"quiet_ms": 400_000, "limit_ms": 180_000, "committed_offset": 5}

    polled = sentence(row, {**numbers, "commits_are": "polled"})
    read = sentence(row, {**numbers, "commits_are": "read"})

    assert "commits of the same offset cannot be seen" in polled
    assert "although it goes on committing" not in polled
    assert "cannot be seen" not in read
    assert ("although it goes on committing" in read) is (rule is Rule.STALLED)


@pytest.mark.parametrize(
    ("interrupted", "said"),
    [
        (0, "a member has held the partition for at least 6 min"),
        (1, "members have held the partition, with interruptions, for at least 6 min"),
    ],
)
def test_members_that_come_and_go_are_not_called_one_member(interrupted, said) -> None:
    row = row_of(RuleSet.LAGWATCH, Rule.NEVER_COMMITS)

    assert said in sentence(row, {"held_for_ms": 360_000, "interrupted": interrupted})


@pytest.mark.parametrize("rule", [Rule.STOPPED, Rule.STALLED])
def test_a_silence_is_never_called_longer_than_a_limit_that_it_has_not_reached(rule) -> None:
    row = row_of(RuleSet.LAGWATCH, rule)
    numbers = {"quiet_ms": 900_000, "limit_ms": 360_000, "committed_offset": 5}

    longer = sentence(row, {**numbers, "counted_ms": 400_000})
    shorter = sentence(row, {**numbers, "counted_ms": 200_000})

    assert "for 15 min (6 min 40 s count: for the rest" in longer
    assert "longer than the 6 min" in longer
    assert "longer than" not in shorter
    assert "it was judged so before" in shorter


@pytest.mark.parametrize(
    ("lost", "lost_is", "log_start", "said"),
    [
        (200, "exact", 4_338, "at least 200 messages deleted"),
        (406, "exact", 4_338, "406 messages deleted"),
        (285, "exact", 4_338, "at least 285 messages deleted"),  # the rest is counted next
        (285, "upper_bound", 4_338, "up to 285 messages deleted"),
        (285, "exact", None, "285 messages deleted"),
        (1_000, "exact", 3_950, "1,000 messages deleted"),  # some of them before an earlier commit
    ],
)
def test_the_sentence_of_a_loss_says_when_more_is_gone_than_was_counted(
    lost: int, lost_is: str, log_start: int | None, said: str
) -> None:
    row = row_of(RuleSet.LAGWATCH, Rule.RECORDS_LOST)
    numbers: dict[str, int | float | str | None] = {
        "lost_messages": lost,
        "lost_is": lost_is,
        "committed_offset": 3_932,
        "log_start_offset": log_start,
    }

    assert sentence(row, numbers).startswith(said)


def test_the_sentence_of_a_loss_names_what_was_acknowledged_apart() -> None:
    row = row_of(RuleSet.LAGWATCH, Rule.RECORDS_LOST)
    numbers: dict[str, int | float | str | None] = {
        "lost_messages": 200,
        "lost_is": "exact",
        "acknowledged_messages": 483,
        "committed_offset": 1_000,
        "log_start_offset": 1_683,
    }

    assert sentence(row, numbers) == (
        "200 messages deleted before the group read them (and 483 before that, which were "
        "acknowledged); the log begins at 1,683, the committed offset is 1,000"
    )


@pytest.mark.parametrize(
    ("readable", "said"),
    [
        (4_338, "the lag has risen over the last 9 min and is 4,338 messages now"),
        (
            406,
            "the lag of messages that can be read has risen over the last 9 min and is 406",
        ),
        (None, "the lag has risen over the last 9 min and is 4,338 messages now"),
    ],
)
def test_the_sentence_of_a_rise_names_the_lag_that_rises(readable: int | None, said: str) -> None:
    row = row_of(RuleSet.LAGWATCH, Rule.FALLING_BEHIND)
    numbers = {"current_lag": 4_338, "readable_lag": readable, "rising_ms": 540_000}

    assert sentence(row, numbers).startswith(said)


@pytest.mark.parametrize(
    ("silent_ms", "said"),
    [(9_000, "in 45 s"), (320_000, "in 45 s, and has made no progress for 5 min 20 s since")],
)
def test_the_sentence_of_a_rise_says_when_its_window_is_over(silent_ms: int, said: str) -> None:
    row = row_of(RuleSet.LAGWATCH, Rule.FALLING_BEHIND)
    numbers = {"commits": 10, "window_span_ms": 45_000, "silent_ms": silent_ms}

    assert sentence(row, numbers).endswith(said)


@pytest.mark.parametrize(
    ("readable", "said"),
    [
        (7, "7 messages to read and 2 commits seen so far: too little to judge"),
        (
            0,
            "its commits are ahead of the newest log end that could be read: too early to judge",
        ),
    ],
)
def test_too_little_to_judge_is_not_said_of_no_messages(readable: int, said: str) -> None:
    row = row_of(RuleSet.LAGWATCH, Rule.WARMING_UP)

    numbers = {"current_lag": readable, "readable_lag": readable, "commits": 2}

    assert sentence(row, numbers) == said


@pytest.mark.parametrize(
    ("readable", "said"),
    [
        (9_223, "; 9,223 messages to read"),
        (1_473, "; 1,473 messages to read, of a lag of 9,223"),  # the others were deleted
        (None, "; 9,223 messages to read"),
    ],
)
def test_what_cannot_be_read_is_not_said_to_be_read_next(readable: int | None, said: str) -> None:
    row = row_of(RuleSet.LAGWATCH, Rule.PROGRESSING)

    text = sentence(row, {"current_lag": 9_223, "readable_lag": readable})

    assert text.endswith(said)


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [(100, 900, "read 800 messages over "), (900, 100, "went back by 800 messages over ")],
)
def test_offsets_that_went_back_were_not_read(first: int, last: int, said: str) -> None:
    row = row_of(RuleSet.LAGWATCH, Rule.PROGRESSING)

    assert sentence(row, {"start_offset": first, "end_offset": last}).startswith(said)

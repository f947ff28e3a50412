"""What a backfill sets out to do: gaps, instants, ledgers, and what it says."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.history.folder import open_folder
from lagwatch.jobs.backfill.coverage import NEVER_MS, GroupCover
from lagwatch.jobs.backfill.inputs import (
    Gap,
    find_gaps,
    gaps_without,
    log_end_instants,
    outages,
    sample_instants,
)
from lagwatch.jobs.backfill.plan import Ledger, Plans, new_plan
from lagwatch.jobs.backfill.request import ClusterBackfill
from lagwatch.jobs.stores.parquet.state import FolderState
from tests.support.history import NOON_MS

STEP_MS = 30_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000


def gaps(*rounds: int, until: int = 600, interval_s: int = 30) -> list[tuple[int, int]]:
    """Gaps in seconds from noon, where there were rounds at these seconds."""
    found = find_gaps(
        np.array([NOON_MS + second * 1000 for second in rounds], np.int64),
        np.full(len(rounds), interval_s * 1000),
        since_ms=NOON_MS,
        until_ms=NOON_MS + until * 1000,
        step_ms=STEP_MS,
    )
    return [((gap.from_ms - NOON_MS) // 1000, (gap.to_ms - NOON_MS) // 1000) for gap in found]


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        ((), [(0, 600)]),
        (range(0, 600, 30), []),
        (range(-60, 700, 30), []),
        (range(0, 300, 30), [(300, 600)]),
        (range(300, 630, 30), [(0, 300)]),
        ((*range(0, 120, 30), *range(480, 630, 30)), [(120, 480)]),
        ((-3600, 3600), [(0, 600)]),
        ((0, 40, 85, 120, *range(150, 600, 30)), []),
    ],
)
def test_gaps_are_where_no_round_was(rounds: range, expected: list[tuple[int, int]]) -> None:
    assert gaps(*rounds) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param([], [(0, 600)], id="never away"),
        pytest.param([(95, "dropped"), (205, "resumed")], [(0, 95), (210, 600)], id="within it"),
        pytest.param([(-5, "dropped"), (605, "resumed")], [], id="all of it"),
        pytest.param(
            [(95, "dropped"), (205, "stopped"), (500, "resumed")],
            [(0, 95), (210, 600)],
            id="stopped meanwhile",
        ),
        pytest.param([(95, "dropped")], [(0, 95)], id="without an end"),
        pytest.param([(95, "resumed"), (205, "started")], [(0, 600)], id="without a beginning"),
        pytest.param(
            [
                (30, "dropped"),
                (60, "dropped"),
                (90, "resumed"),
                (120, "resumed"),
                (300, "dropped"),
                (330, "resumed"),
            ],
            [(0, 30), (90, 300), (330, 600)],
            id="seen by two",
        ),
    ],
)
def test_an_outage_of_kafka_is_no_gap(
    words: list[tuple[int, str]], expected: list[tuple[int, int]]
) -> None:
    gap = Gap(from_ms=NOON_MS, to_ms=NOON_MS + 600_000)
    left_out = outages((NOON_MS + second * 1000, word) for second, word in words)

    found = gaps_without([gap], left_out, step_ms=STEP_MS)

    assert [
        ((gap.from_ms - NOON_MS) // 1000, (gap.to_ms - NOON_MS) // 1000) for gap in found
    ] == expected


def test_a_longer_interval_that_was_in_force_makes_no_gaps() -> None:
    assert gaps(*range(0, 600, 120), interval_s=120) == []


@given(st.sets(st.integers(-5, 30)))
def test_every_instant_is_recorded_or_in_a_gap_and_never_both(rounds: set[int]) -> None:
    recorded = {number * 30 for number in rounds}

    found = gaps(*sorted(recorded))

    filled = {second for begin, end in found for second in range(begin, end, 30)}
    assert filled == set(range(0, 600, 30)) - recorded


def test_log_ends_are_asked_for_at_every_sample_and_more_rarely_before() -> None:
    gap = Gap(from_ms=NOON_MS, to_ms=NOON_MS + HOUR_MS)

    at_ms = log_end_instants([gap], STEP_MS, history_ms=DAY_MS)

    before = at_ms[at_ms < NOON_MS]
    assert set(sample_instants([gap], STEP_MS).tolist()) <= set(at_ms.tolist())
    assert NOON_MS - DAY_MS - HOUR_MS * 2 < before[0] <= NOON_MS - DAY_MS
    age = NOON_MS - before
    assert (-np.diff(age) <= np.maximum(STEP_MS, age[:-1] / 14)).all()
    assert before.size < 130


def test_the_lead_of_a_gap_does_not_repeat_the_gap_before_it() -> None:
    first = Gap(from_ms=NOON_MS, to_ms=NOON_MS + HOUR_MS)
    second = Gap(from_ms=NOON_MS + 2 * HOUR_MS, to_ms=NOON_MS + 3 * HOUR_MS)

    at_ms = log_end_instants([first, second], STEP_MS, history_ms=DAY_MS)

    between = at_ms[(at_ms >= first.to_ms) & (at_ms < second.from_ms)]
    assert (np.diff(at_ms) > 0).all()
    assert between.size < 60


def test_a_ledger_knows_the_parts_that_are_written(tmp_path: Path) -> None:
    state = FolderState(open_folder(str(tmp_path)))
    gap = Gap(from_ms=NOON_MS, to_ms=NOON_MS + HOUR_MS)
    plan = new_plan("here/there", "basis", [gap], shards=2, now_ms=NOON_MS)
    plans = Plans(state)
    plans.begin(plan)

    Ledger(state, plan, 1).add(NOON_MS, NOON_MS + HOUR_MS)

    again = Ledger(state, plan, 1)
    assert plans.under_way("here/there") == plan
    assert again.has(NOON_MS, NOON_MS + HOUR_MS)
    assert not again.has(NOON_MS, NOON_MS + 2 * HOUR_MS)
    assert not again.whole
    assert not Ledger(state, plan, 0).has(NOON_MS, NOON_MS + HOUR_MS)


def test_nothing_is_left_of_a_plan_that_is_carried_out(tmp_path: Path) -> None:
    state = FolderState(open_folder(str(tmp_path)))
    gap = Gap(from_ms=NOON_MS, to_ms=NOON_MS + HOUR_MS)
    plan = new_plan("here", "basis", [gap], shards=2, now_ms=NOON_MS)
    plans = Plans(state)
    plans.begin(plan)
    Ledger(state, plan, 0).close({"samples": 3})

    plans.end(plan)

    assert plans.under_way("here") is None
    assert not list(tmp_path.rglob("*.json"))


def test_what_is_not_covered_is_said() -> None:
    done = ClusterBackfill(
        cluster="here",
        gaps=(Gap(from_ms=NOON_MS, to_ms=NOON_MS + HOUR_MS),),
        rounds=120,
        commits=1,
        groups=1,
        complete_from={3: NOON_MS, 4: NEVER_MS},
        unseen=("topic secret may not be seen; grant: Allow DESCRIBE on TOPIC secret",),
        counts={"samples": 10, "unknown_lag": 2, "incomplete": 5, "stale": 1},
    )

    said = "\n".join(done.lines(dry_run=False))

    assert "1 commit of 1 group read" in said
    assert "grant: Allow DESCRIBE on TOPIC secret" in said
    assert "2 partitions of the offsets topic lack records up to the end of this time" in said
    assert "5 samples of groups left out" in said
    assert "the log end of 2 samples is not known" in said
    assert "1 round left out for want of log ends" in said
    assert done.coverage()["offsets_partitions_with_missing_commits"] == {"3": NOON_MS, "4": None}


def test_groups_without_any_commit_left_are_named() -> None:
    names = tuple(f"group-{number:02d}" for number in range(22))
    done = ClusterBackfill(
        cluster="here", gaps=(), rounds=5, complete_from={3: NEVER_MS}, swallowed=names
    )

    said = done.not_covered()[-1]

    assert said.startswith("22 groups of these partitions with commits after this time and none ")
    assert said.endswith("group-18, group-19 and 2 more groups")
    assert done.coverage()["groups_without_commits"] == list(names)


def test_what_is_missing_is_said_without_a_count_of_nothing() -> None:
    done = ClusterBackfill(
        cluster="here", gaps=(), rounds=5, complete_from={3: NOON_MS}, counts={"incomplete": 0}
    )

    (said,) = done.not_covered()
    assert said == (
        "1 partition of the offsets topic lacks records up to 2026-11-21T12:00:00Z: compaction "
        "removed them, or they were marks of transactions. A group has no rows before the instant "
        "from which all its commits are known to be there"
    )


@pytest.mark.parametrize(
    ("from_ms", "single", "said"),
    [
        (
            NOON_MS,
            True,
            "billing: only its last commit is there, of 13:00; earlier ones are gone",
        ),
        (NOON_MS, False, "billing: all commits are there from 12:00 on; earlier ones may be gone"),
        (NEVER_MS, False, "billing: commits may be gone up to the end of this time"),
    ],
)
def test_what_is_left_of_a_group_is_said_in_a_few_words(from_ms, single, said) -> None:
    group = GroupCover(
        group="billing",
        offsets_partition=3,
        from_ms=from_ms,
        last_ms=NOON_MS + HOUR_MS,
        single=single,
    )

    times = {NOON_MS: "12:00", NOON_MS + HOUR_MS: "13:00"}
    assert group.sentence(times.__getitem__) == said

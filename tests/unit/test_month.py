"""The simulated month tells the truth: its log ends, commits and labels fit together."""

import numpy as np
import pytest

from tests.bench.bench_verdicts import figures, size_from
from tests.bench.month import breaks, report
from tests.bench.month.drive import Month, run, run_shard
from tests.bench.month.plan import BEFORE_S, DAY_S, START_MS, Breaks, Label, Size, Trouble
from tests.bench.month.score import Episodes
from tests.bench.month.traffic import CHUNK_S, STEP_S, Traffic, whole
from tests.bench.month.truth import (
    Excuses,
    Truth,
    draining,
    longest_s,
    must_be_found,
    seen_s,
    worst_time_lag_s,
)

pytestmark = pytest.mark.slow

SIZE = Size(groups=120, days=1.0, shards=1, seed=5)


@pytest.fixture(scope="module")
def lived():
    """A plan whose labels are filled in, and its chunks."""
    plan = breaks.make(SIZE, 0)
    traffic, truth = Traffic(plan), Truth(plan)
    chunks = []
    while traffic.now_s < plan.end_s:
        chunks.append(traffic.chunk())
        truth.follow(chunks[-1])
    truth.finish()
    return plan, chunks


def test_a_part_of_a_message_is_nothing_to_read() -> None:
    at_s = np.arange(0.0, 100.0, 10.0)
    written = np.full(10, 7.8)

    every, early = np.ones(10, np.bool_), at_s < 50

    assert worst_time_lag_s(at_s, written, written, every) == 0
    assert worst_time_lag_s(at_s, written, written - 1, every) == 90
    assert worst_time_lag_s(at_s, written, written - 1, early) == 40


@pytest.mark.parametrize(("behind_s", "must"), [(600.0, False), (1800.0, True)])
def test_a_slow_down_must_be_found_if_the_group_is_behind_for_long(
    behind_s: float, *, must: bool
) -> None:
    plan = breaks.make(Size(groups=1, days=0.1), 0)
    slow = Trouble(label=Label.SLOW, group=0, lo=0, hi=1, start_s=0.0, end_s=7200.0, true_s=10.0)
    slow.worst_time_lag_s, slow.behind_s = 3600.0, behind_s

    assert must_be_found(slow, plan) == must


def test_a_slow_down_of_a_group_that_still_catches_up_need_not_be_found() -> None:
    plan = breaks.make(Size(groups=1, days=0.1), 0)
    life = plan.lives[0]
    slow = Trouble(label=Label.SLOW, group=0, lo=0, hi=1, start_s=900.0, end_s=8000.0, true_s=910.0)
    slow.worst_time_lag_s, slow.behind_s = 3600.0, 3600.0
    stop = Trouble(label=Label.STOP, group=0, lo=0, hi=1, start_s=0.0, end_s=600.0)
    life.troubles[:] = [stop, slow]

    stop.caught_up_s = 800.0
    assert must_be_found(slow, plan)
    stop.caught_up_s = 1000.0
    assert not must_be_found(slow, plan)


def test_a_group_is_behind_from_one_long_pause_to_the_next() -> None:
    """Four times five minutes in a day are not twenty minutes."""
    minute = round(60 / STEP_S)
    behind = np.zeros(200 * minute, np.bool_)
    for first in (10, 50, 90, 130):
        behind[first * minute : (first + 5) * minute] = True

    assert longest_s(behind) == 300
    behind[54 * minute + 1 : 55 * minute - 1] = False
    behind[55 * minute : 60 * minute] = True
    assert longest_s(behind) == 600
    assert longest_s(np.zeros(10, np.bool_)) == 0


def test_what_an_outage_left_to_read_is_no_falling_behind_while_it_gets_less() -> None:
    at_s = np.arange(0.0, 1200.0, 10.0)
    unread = np.full((1, at_s.size), 3)
    unread[0, (at_s >= 200) & (at_s < 800)] = 100
    current = unread[0] <= 10
    outages = ((100.0, 200.0),)

    drains = draining(at_s, unread, current, outages)
    assert (at_s[drains].min(), at_s[drains].max()) == (100, 790)

    unread[0, at_s == 600] = 101
    drains = draining(at_s, unread, current, outages)
    assert (at_s[drains].min(), at_s[drains].max()) == (100, 590)


def test_a_trouble_counts_as_long_as_kafka_can_be_read() -> None:
    away = Breaks(
        brokers=3,
        outages=((100.0, 200.0), (900.0, 2000.0)),
        restarts=((0.0, 1000.0, 1),),
        collector_deaths=((150.0, 250.0),),
        lagwatch_restarts=((20.0, 30.0),),
    )

    assert seen_s(away, 50.0, 1000.0) == 950 - 150 - 100
    assert seen_s(away, 250.0, 900.0) == 650
    assert seen_s(away, 1000.0, 1500.0) == 0


def test_the_same_seed_makes_the_same_month() -> None:
    small = Size(groups=20, days=0.1, shards=1, seed=9)
    first, again = (Traffic(breaks.make(small, 0)) for _ in range(2))
    other = Traffic(breaks.make(Size(groups=20, days=0.1, shards=1, seed=10), 0))

    for _ in range(10):
        chunk, same = first.chunk(), again.chunk()

        np.testing.assert_array_equal(chunk.produced, same.produced)
        np.testing.assert_array_equal(chunk.commits.offset, same.commits.offset)
        np.testing.assert_array_equal(chunk.commits.at_ms, same.commits.at_ms)
    assert other.chunk().produced.shape != chunk.produced.shape or not np.array_equal(
        other.chunk().produced, chunk.produced
    )


def test_no_commit_is_above_the_log_end_after_it(lived) -> None:
    _, chunks = lived

    for chunk in chunks:
        commits = chunk.commits
        since_s = (commits.at_ms - START_MS) / 1000 - chunk.start_s
        after = np.minimum(since_s / STEP_S + 1, CHUNK_S / STEP_S).astype(int)
        # a topic created anew has lost what was committed a moment before
        recreated = (np.diff(chunk.produced, axis=1) < 0).any(axis=1)[commits.row]
        ends = whole(chunk.produced[commits.row, after])
        assert (recreated | (commits.offset <= ends)).all()


def test_groups_read_what_there_is_and_logs_never_shrink_but_when_created_anew(lived) -> None:
    _, chunks = lived
    shrunk = set()

    for chunk in chunks:
        assert (chunk.processed <= chunk.reachable).all()
        assert (chunk.reachable <= chunk.produced).all()
        shrunk |= set(np.flatnonzero((np.diff(chunk.produced, axis=1) < 0).any(axis=1)).tolist())

    plan, _ = lived
    assert {plan.lives[plan.rows.group[row]].kind for row in shrunk} <= {"recreated"}


def test_commits_come_in_order_and_go_back_only_on_purpose(lived) -> None:
    plan, chunks = lived
    last = np.full(plan.rows.rate.size, -1)
    back = set()
    before_ms = 0

    for chunk in chunks:
        commits = chunk.commits
        assert (np.diff(commits.at_ms) >= 0).all()
        assert commits.at_ms[0] >= before_ms
        before_ms = commits.at_ms[-1]
        for row, offset in zip(commits.row.tolist(), commits.offset.tolist(), strict=True):
            if offset < last[row]:
                back.add(plan.lives[plan.rows.group[row]].kind)
            last[row] = offset

    assert back <= {"recreated", "set_back", "retired", "leaving"}


def test_labels_are_inside_the_life_and_end_within_the_month(lived) -> None:
    plan, _ = lived
    troubles = [(life, trouble) for life in plan.lives for trouble in life.troubles]

    assert {trouble.label for _, trouble in troubles} >= {Label.STOP, Label.SLOW, Label.STALL}
    for life, trouble in troubles:
        assert -BEFORE_S <= trouble.start_s < trouble.end_s <= SIZE.days * DAY_S
        assert trouble.end_s <= life.gone_s
        assert life.lo <= trouble.lo < trouble.hi <= life.hi
        if trouble.true_s is not None:
            assert trouble.start_s <= trouble.true_s < trouble.end_s
        if trouble.caught_up_s is not None:
            assert trouble.caught_up_s >= trouble.end_s


def test_a_stopped_group_commits_nothing_until_it_is_back(lived) -> None:
    plan, chunks = lived
    stops = [
        trouble
        for life in plan.lives
        for trouble in life.troubles
        if trouble.label is Label.STOP and must_be_found(trouble, plan)
    ]

    assert stops
    at_ms = np.concatenate([chunk.commits.at_ms for chunk in chunks])
    row = np.concatenate([chunk.commits.row for chunk in chunks])
    for stop in stops:
        # the grid's steps: a member may commit up to one after it died or before it is back
        first, last = (START_MS + 1000 * s for s in (stop.start_s + STEP_S, stop.end_s - STEP_S))
        held = (row >= stop.lo) & (row < stop.hi) & (at_ms > first) & (at_ms < last)
        assert not held.any()


def test_a_page_is_excused_while_something_is_wrong_and_ten_minutes_longer(lived) -> None:
    plan, _ = lived
    life, trouble = next(
        (life, trouble)
        for life in plan.lives
        for trouble in life.troubles
        if trouble.caught_up_s is not None and len(life.troubles) == 1
    )
    excuses = Excuses(plan)

    assert not excuses.cover(life.number, trouble.start_s - 1)
    assert excuses.cover(life.number, trouble.start_s)
    assert excuses.cover(life.number, trouble.end_s + 600)
    assert not excuses.cover(life.number, trouble.caught_up_s + 4 * 7200)


def test_pauses_under_ten_minutes_are_one_page() -> None:
    bad = {0: (30, 45, 600, 615, 5010, 5025), 1: (1305,)}
    episodes = Episodes(2)

    for now_s in range(0, 6000, 15):
        episodes.see(float(now_s), np.array([now_s in bad[group] for group in range(2)]))
    episodes.finish()

    assert [(each.group, each.start_s, each.last_s) for each in episodes.all] == [
        (0, 30.0, 615.0),
        (1, 1305.0, 1305.0),
        (0, 5010.0, 5025.0),
    ]


def test_a_short_run_gives_every_figure_and_a_breakdown() -> None:
    size = size_from(
        {"MONTH_GROUPS": "60", "MONTH_DAYS": "0.25", "MONTH_SHARDS": "1", "MONTH_SEED": "1"}
    )

    scores = run(size)

    names = [figure.name for figure in figures(scores["lagwatch"], scores["burrow"])]
    assert "verdicts_false_pages" in names
    assert scores["burrow"].false_pages
    assert scores["burrow"].group_days == pytest.approx(15, rel=0.1)
    assert any("false page" in line for line in report.lines(scores))


def test_a_restart_of_lagwatch_goes_on_from_its_checkpoint() -> None:
    month = Month(breaks.make(Size(groups=20, days=0.1, shards=1, seed=9), 0))

    month.run()

    for side in month.sides:
        assert 0 < side.monitor.admitted < side.position  # only what came after it was read again
        assert side.monitor.windows.count.max() == side.monitor.windows.intervals


@pytest.mark.thorough  # about the bench only
def test_a_rule_set_alone_scores_as_beside_the_other() -> None:
    size = Size(groups=30, days=0.1, shards=1, seed=4)

    together, alone = run_shard(size, 0), run_shard(size, 0, ("burrow",))

    assert together["burrow"].troubles
    assert alone == {"burrow": together["burrow"]}


@pytest.mark.thorough  # lives are judged by both sets of rules in tests/scenarios
def test_burrows_rules_may_judge_fewer_days() -> None:
    size = Size(groups=60, days=0.25, shards=1, seed=4, compared_days=0.125)

    scores = run(size)

    assert scores["lagwatch"].group_days == pytest.approx(15, rel=0.1)
    assert scores["burrow"].group_days == pytest.approx(7.5, rel=0.1)
    assert scores["burrow"].troubles
    assert all(each.end_s <= 0.125 * DAY_S for each in scores["burrow"].troubles)
    assert all(each.start_s <= 0.125 * DAY_S for each in scores["burrow"].false_pages)


def test_traffic_of_another_process_scores_as_its_own() -> None:
    size = Size(groups=20, days=0.1, shards=1, seed=9)

    assert run(size, processes=2) == run(size)

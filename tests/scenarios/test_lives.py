"""The lives of `lives.txt`, judged by the default rules; a block is a life, and says why."""

from pathlib import Path

import pytest

from lagwatch.core.model import PartitionStatus, Rule, RuleSet, TimeLagReason
from lagwatch.core.rules import row_of, sentence
from tests.support.lives import Life, broken, live, lives, played

LIVES = tuple(lives((Path(__file__).parent / "lives.txt").read_text(encoding="utf-8")))
_MANY_ROUNDS = 2500
"""A life of more takes as long as thirty others."""

pytestmark = pytest.mark.minutes


@pytest.mark.slow
@pytest.mark.parametrize("first_s", [640, 670, 700, 730])
def test_a_silence_never_seems_to_begin_earlier_than_first_measured(first_s: int) -> None:
    # older log ends are kept in fewer samples: what came after a job had left would by and by seem
    # to have come before
    (life,) = lives(
        "A consumer stops before messages come.\n"
        "with rounds=60\n"
        "0s members hold\n"
        "0s..10m/60s append 1\n"
        "0s..10m/60s commit end\n"
        f"{first_s}s..12h/97s append 1\n"
    )
    evidence = [(shown.at_s, shown.verdict.evidence.get("quiet_ms")) for shown in live(life)]
    began_ms = [at_s * 1000 - int(quiet_ms) for at_s, quiet_ms in evidence if quiet_ms is not None]
    assert len(began_ms) > 600
    assert min(began_ms) == began_ms[0]


@pytest.mark.parametrize("commits", ["read", "polled"])
def test_members_that_come_and_go_without_a_commit_do_not_begin_a_stop_anew(commits: str) -> None:
    (life,) = lives(
        "A consumer dies, and is started again and again.\n"
        f"with commits={commits}\n"
        "0s members hold\n"
        "0s..20m/5s append 10\n"
        "0s..5m/5s commit end\n"
        "5m members none\n"
        "10m..15m/2m members hold\n"
        "605s..15m/2m members none\n"
        "15m lagwatch away\n"
        "905s lagwatch back\n"
        "16m..20m/2m members hold\n"
    )

    down = [shown for shown in live(life) if shown.verdict.status.name in {"STOP", "STALL"}]

    began_ms = {shown.at_s * 1000 - int(shown.verdict.evidence["quiet_ms"] or 0) for shown in down}
    assert len(down) > 100
    assert len(began_ms) == 1


def test_a_crash_loop_that_never_commits_is_one_trouble_until_a_commit() -> None:
    (life,) = lives(
        "A consumer dies a few seconds after each start, and once waits for ten minutes.\n"
        "0s..50m/5s append 10\n"
        "0s..30m/12s members hold\n"
        "4s..30m/12s members none\n"
        "20m lagwatch away\n"
        "1205s lagwatch back\n"
        "40m members hold\n"
        "45m commit end\n"
        "6m..20m is WARN never_commits\n"
        "1205s..44m is WARN never_commits\n"
        "46m..50m never WARN\n"
    )

    shown = live(life)

    troubled = [each for each in shown if each.verdict.rule is Rule.NEVER_COMMITS]
    held_s = {
        each.at_s - int(each.verdict.evidence["held_for_ms"] or 0) // 1000 for each in troubled
    }
    assert broken(life, shown) == []
    assert held_s == {0}
    assert {each.at_s for each in troubled}.issuperset(range(360, 1200, 5))
    assert troubled[-1].verdict.evidence["interrupted"] == 1


def test_a_consumer_that_never_commits_and_left_for_good_is_forgotten() -> None:
    (life,) = lives(
        "Somebody looks at a topic without a commit, and leaves.\n"
        "0s..40m/5s append 10\n"
        "0s members hold\n"
        "10m members none\n"
        "20m..24m is WARN never_commits\n"
        "26m..40m unlisted\n"
    )

    assert broken(life, live(life)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "life",
    [
        pytest.param(life, marks=[pytest.mark.thorough] if life.rounds > _MANY_ROUNDS else [])
        for life in LIVES
    ],
    ids=lambda life: life.why[:70],
)
def test_life(life: Life) -> None:
    assert broken(life, live(life)) == [], life.why


def test_a_stop_during_an_outage_began_with_the_last_commit_not_amid_the_outage() -> None:
    (life,) = lives(
        "A consumer reads all, Kafka is away for 100 s, and the consumer never comes back.\n"
        "0s members hold\n"
        "0s..10m/5s append 10\n"
        "0s..10m/5s commit end\n"
        "602s kafka away\n"
        "701s kafka back\n"
        "702s..20m/5s append 10\n"
    )

    down = [shown for shown in live(life) if shown.verdict.status.name == "STOP"]

    began_s = {shown.at_s - int(shown.verdict.evidence["quiet_ms"] or 0) / 1000 for shown in down}
    assert len(down) > 10
    assert len(began_s) == 1
    assert 599 <= began_s.pop() <= 602


@pytest.mark.parametrize(
    ("appended", "reason"), [(5000, "NEVER_COMMITTED"), (0, "CAUGHT_UP")], ids=["old", "empty"]
)
def test_a_partition_held_and_never_committed_leaves_the_time_lag_open(
    appended: int, reason: str
) -> None:
    (life,) = lives(
        "A member reads one partition, and pauses the other, where old messages wait.\n"
        "with partitions=2\n"
        f"0s p1 append {appended}\n"
        "0s p1 delete 1000\n"
        "0s members hold\n"
        "0s..2m/5s append 10\n"
        "0s..2m/5s commit end\n"
    )
    *_, (_, world, _) = played(life)

    assert world.monitor.snapshot is not None
    (found,) = world.monitor.snapshot.group.time_lag_reason.tolist()
    assert TimeLagReason(found).name == reason


@pytest.mark.parametrize(
    ("commits", "said"),
    [
        ("read", "nothing read for 20 min, 10 min of it before lagwatch first saw the group"),
        ("polled", "nothing read for 10 min, as long as lagwatch has been looking"),
    ],
)
def test_a_silence_from_before_the_first_poll_is_not_measured_by_it(
    commits: str, said: str
) -> None:
    (life,) = lives(
        "A job ended, and ten minutes later lagwatch is started for the first time.\n"
        f"with commits={commits}\n"
        "0s append 30\n"
        "0s members hold\n"
        "0s..30s/5s commit +5\n"
        "31s append 10\n"
        "31s members none\n"
        "630s restart\n"
        "630s members none\n"
        "1230s has WARN silent_before_start\n"
    )

    shown = live(life)

    assert broken(life, shown) == []
    row = row_of(RuleSet.LAGWATCH, Rule.SILENT_BEFORE_START)
    assert sentence(row, shown[-1].verdict.evidence).startswith(said)


def test_a_stalled_group_is_known_to_read_nothing_right_after_kafka_came_back() -> None:
    """A poll never sees another commit of it, so its rates would stay unknown."""
    (life,) = lives(
        "A consumer hangs; Kafka goes away, and comes back.\n"
        "with commits=polled\n"
        "0s members hold\n"
        "0s..23m/5s append 250\n"
        "0s..2m/5s commit end\n"
        "20m kafka away\n"
        "21m kafka back\n"
    )
    seen = [
        (each.status, world.outlook.whole)
        for at_s, world, verdicts in played(life)
        for each in verdicts.values()
        if at_s > 1265
    ]

    assert {status for status, _ in seen} == {PartitionStatus.STALL}
    assert {whole.consumed_per_s for _, whole in seen} == {0}
    assert {whole.catch_up_reason.value for _, whole in seen} == {"not_moving"}


@pytest.mark.parametrize(
    ("members", "limit"),
    [
        ("hold", "a member holds the partition: up to 6 min is no stop"),
        ("none", "the group has no members: up to 3 min is no stop"),
    ],
)
def test_a_pause_says_for_which_members_it_is_no_stop(members: str, limit: str) -> None:
    """Without members the same pause is a stop sooner."""
    (life,) = lives(
        "A consumer pauses.\n"
        "0s members hold\n"
        "0s..50m/5s append 10\n"
        "0s..40m/5s commit end\n"
        f"40m members {members}\n"
        "42m has OK paused\n"
    )

    said = [shown.verdict for shown in live(life) if shown.at_s == 42 * 60]

    row = row_of(RuleSet.LAGWATCH, Rule.PAUSED)
    assert [limit in sentence(row, verdict.evidence) for verdict in said] == [True]


def test_a_message_that_came_while_lagwatch_was_down_is_not_as_young_as_its_leader_is_back() -> (
    None
):
    (life,) = lives(
        "A message comes while lagwatch is down; the leader is away when it is back.\n"
        "0s members hold\n"
        "0s..250s/5s append 10\n"
        "0s..250s/5s commit end\n"
        "250s lagwatch away\n"
        "255s append 10\n"
        "280s leader none\n"
        "290s lagwatch back\n"
        "330s leader back\n"
        "335s..400s/5s append 1\n"
    )

    late = [shown for shown in live(life) if shown.at_s >= 335]

    assert len(late) > 10
    for shown in late:
        lag_s, error_s = shown.verdict.time_lag_s, shown.verdict.time_lag_error_s
        assert lag_s is not None
        assert error_s is not None
        assert lag_s - error_s <= shown.at_s - 255 <= lag_s + error_s

"""Reports in, snapshots out: admission, lag at the commit, topics and groups that come and go."""

from dataclasses import replace

import numpy as np
import pytest

from lagwatch.core.model import (
    EpochMs,
    GroupInfo,
    GroupStatus,
    Member,
    PartitionStatus,
    Rule,
    RuleSet,
    SharePartition,
    TimeLagBound,
    TimeLagReason,
    UnknownReason,
    offsets_partition,
)
from lagwatch.errors import NotFoundError
from lagwatch.monitor import ClusterMonitor
from lagwatch.monitor.settings import MonitorSettings
from lagwatch.ports.queries import Partitions
from lagwatch.ports.reports import (
    Backlog,
    CollectorStarted,
    Commits,
    CommitsKnown,
    GroupsGone,
    GroupsSeen,
    LogEnds,
    SharesSeen,
    SourceHealth,
    SourceKind,
    Topics,
)
from lagwatch.query import SnapshotQueries
from lagwatch_api.v1.trends import quiet_since_an_absence

START_MS = 1_800_000_000_000
RULES = pytest.mark.parametrize("rules", RuleSet, ids=str)


class Story:
    """A cluster reported second by second: what a collector would report of it."""

    def __init__(self, **settings) -> None:
        self.now_ms = START_MS
        defaults = {
            "intervals": 5,
            "min_distance_ms": 1000,
            "expire_ms": 3_600_000,
            "allowed_lag": 0,
            "minimum_complete": 0.0,
            "history_ms": 86_400_000,
        }
        self.monitor = ClusterMonitor("here", MonitorSettings(**defaults | settings))
        self.queries = SnapshotQueries({"here": self.monitor}, health=tuple)
        self._version = 0
        self._order = 0
        self._keys: dict[tuple[str, str, int], int] = {}
        self._shape: dict[str, int] = {}
        self.apply(CollectorStarted(incarnation=1))

    def apply(self, report) -> bool:
        return self.monitor.apply(report, EpochMs(self.now_ms))

    def wait(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)

    def topics(self, ids=None, **partitions: int) -> None:
        self._version += 1
        self._shape = dict(sorted(partitions.items()))
        total = sum(partitions.values())
        self.apply(
            Topics(
                version=self._version,
                names=tuple(self._shape),
                ids=tuple((ids or {}).get(name, f"id-{name}") for name in self._shape),
                partitions=np.array(list(self._shape.values()), np.int32),
                leader=np.ones(total, np.int32),
            )
        )

    def ends(self, *, asked: bool = True, **ends) -> None:
        column = [end for name in self._shape for end in _each(ends[name], self._shape[name])]
        log_end = np.array(column, np.int64)
        self.apply(
            LogEnds(
                version=self._version,
                started_ms=EpochMs(self.now_ms),
                finished_ms=EpochMs(self.now_ms),
                log_start=np.where(log_end >= 0, 0, -1),
                log_end=log_end,
                last_stable=log_end,
                asked=np.full(log_end.size, asked),
            )
        )

    def commit(
        self,
        *commits: tuple[str, str, int, int],
        at_ms: int | None = None,
        only_changes: bool = False,
    ) -> None:
        """(group, topic, partition, offset) each; offset -1 removes."""
        new = [c[:3] for c in dict.fromkeys(c[:3] for c in commits) if c[:3] not in self._keys]
        first = len(self._keys)
        self._keys |= {identity: first + index for index, identity in enumerate(new)}
        orders = range(self._order + 1, self._order + 1 + len(commits))
        self._order += len(commits)
        times = [at_ms or self.now_ms] * len(commits)
        self.apply(
            Commits(
                first_new_id=first,
                new_groups=tuple(identity[0] for identity in new),
                new_topics=tuple(identity[1] for identity in new),
                new_partitions=tuple(identity[2] for identity in new),
                key=np.array([self._keys[c[:3]] for c in commits], np.int32),
                offset=np.array([c[3] for c in commits], np.int64),
                commit_ms=np.array(times, np.int64),
                order=np.array(orders, np.int64),
                observed_ms=EpochMs(self.now_ms),
                exact_times=not only_changes,
                only_changes=only_changes,
            )
        )

    def rounds(self, seconds: int, *, after=lambda: None, **ends) -> None:
        """Let time pass in which nothing but rounds of these log ends happens, one in 10 s."""
        for _ in range(seconds // 10):
            self.wait(10)
            self.ends(**ends)
            after()

    def new_collector(self) -> None:
        self._keys.clear()
        self.apply(CollectorStarted(incarnation=self.monitor.incarnation + 1))

    def verdict(self, group: str = "g", partitions: Partitions = Partitions.ALL):
        self.monitor.judge(EpochMs(self.now_ms))
        return self.queries.verdict("here", group, partitions)

    def groups(self) -> tuple[str, ...]:
        self.monitor.judge(EpochMs(self.now_ms))
        return self.queries.groups("here")


def _each(value, number: int) -> list[int]:
    return list(value) if isinstance(value, list) else [value] * number


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_commit_waits_for_the_log_ends_after_it_so_lag_is_never_negative(story) -> None:
    story.topics(t=1)
    story.ends(t=100)
    story.wait(3)
    story.commit(("g", "t", 0, 130))
    assert story.groups() == ()

    story.wait(2)
    story.ends(t=150)

    assert story.verdict().partitions[0].current_lag == 20


def test_the_lag_of_a_commit_is_taken_at_its_own_time(story) -> None:
    story.topics(t=1)
    story.ends(t=0)
    story.wait(4)
    story.commit(("g", "t", 0, 300))
    story.wait(6)
    story.ends(t=1000)

    partition = story.verdict().partitions[0]

    assert partition.end.lag == 100
    assert partition.current_lag == 700


@pytest.mark.parametrize(("offset", "lag"), [(300, None), (1000, 0)])
def test_the_lag_of_a_commit_before_the_first_log_end_is_known_only_if_all_was_read(
    story, offset, lag
) -> None:
    story.topics(t=1)
    story.ends(t=1000)
    made_ms = story.now_ms - 600_000
    story.wait(1)
    story.commit(("g", "t", 0, offset), at_ms=made_ms)
    story.wait(6)
    story.ends(t=1000)

    partition = story.verdict().partitions[0]

    assert partition.end.lag == lag
    assert partition.current_lag == 1000 - offset


def test_a_consumer_that_commits_often_while_its_lag_grows_is_warned_of_by_burrows_rules() -> None:
    story = Story(rules=RuleSet.BURROW)
    story.topics(t=1)
    story.ends(t=0)
    for tick in range(1, 301):
        story.wait(0.1)
        story.commit(("g", "t", 0, tick * 70))
        if tick % 50 == 0:
            story.ends(t=tick * 100)

    verdict = story.verdict()

    assert verdict.status is GroupStatus.WARN
    assert verdict.rule is Rule.LAG_NOT_DECREASING
    assert verdict.time_lag_s == pytest.approx(9.0, abs=0.2)


@pytest.mark.slow
def test_by_the_default_rules_a_lag_that_grows_for_minutes_is_warned_of(story) -> None:
    story.topics(t=1)
    story.ends(t=0)
    statuses = []
    for tick in range(1, 133):
        story.wait(5)
        story.commit(("g", "t", 0, tick * 350))
        story.ends(t=tick * 500)
        statuses.append(story.verdict().status)

    assert story.verdict().rule is Rule.FALLING_BEHIND
    assert statuses.index(GroupStatus.WARN) * 5 in range(300, 480)
    assert statuses[0] is GroupStatus.UNKNOWN  # a single commit shows no movement
    assert set(statuses[1:]) == {GroupStatus.OK, GroupStatus.WARN}


def test_partitions_never_committed_are_shown_and_counted(story) -> None:
    story.topics(t=3)
    story.commit(("g", "t", 1, 10))
    story.wait(1)
    story.ends(t=10)

    verdict = story.verdict()

    assert [p.rule for p in verdict.partitions] == [
        Rule.NEVER_COMMITTED,
        Rule.LAG_WITHIN_ALLOWED,
        Rule.NEVER_COMMITTED,
    ]
    assert verdict.partition_count == 3
    assert verdict.max_lag.partition == 1


def test_a_topic_that_cannot_be_seen_is_unknown_not_zero(story) -> None:
    story.topics(other=1)
    story.ends(other=5)
    story.commit(("g", "hidden", 0, 10))
    story.wait(1)
    story.ends(other=5)

    verdict = story.verdict()

    (partition,) = verdict.partitions
    assert partition.current_lag is None
    assert partition.status is PartitionStatus.UNKNOWN
    assert partition.unknown_reason is UnknownReason.TOPIC_NOT_VISIBLE
    assert partition.time_lag_reason is TimeLagReason.LOG_END_UNKNOWN
    assert (verdict.status, verdict.unknown_partitions) == (GroupStatus.UNKNOWN, 1)


@pytest.mark.parametrize(
    ("rules", "lag", "status"),
    [
        # Burrow compares a commit of the past with the first log end it knows
        (RuleSet.BURROW, 30, GroupStatus.OK),
        (RuleSet.LAGWATCH, None, GroupStatus.OK),
    ],
)
def test_commits_that_came_before_their_topic_was_known_are_kept(rules, lag, status) -> None:
    story = Story(rules=rules)
    story.topics()
    story.ends()
    for offset in (10, 20, 30):
        story.wait(2)
        story.commit(("g", "new", 0, offset))
        story.ends()

    story.topics(new=1)
    story.ends(new=40)
    verdict = story.verdict()

    assert verdict.partitions[0].current_lag == 10
    assert verdict.partitions[0].start.lag == lag
    assert verdict.status is status


def test_what_a_share_group_has_done_is_shown_with_the_offset_that_was_judged(story) -> None:
    story.topics(t=1)
    story.ends(t=100)

    def done(start: int, completed: int) -> None:
        story.wait(2)
        story.commit(("g", "t", 0, start + completed))
        share = SharePartition(
            start_offset=start, completed=completed, delivered_again=0, most_deliveries=0
        )
        story.apply(SharesSeen(partitions={("g", "t", 0): share}))

    done(10, 5)
    story.wait(2)
    story.ends(t=100)
    done(40, 7)
    (before,) = story.verdict().partitions
    story.wait(2)
    story.ends(t=100)
    (after,) = story.verdict().partitions

    assert (before.end.offset, before.share.start_offset, before.share.completed) == (15, 10, 5)
    assert (after.end.offset, after.share.start_offset, after.share.completed) == (47, 40, 7)


@pytest.mark.parametrize("number", [1, 2, 4])
def test_an_answer_is_of_one_instant_whatever_is_committed_after_the_judgement(number) -> None:
    story = Story(min_distance_ms=100)
    story.topics(t=1)
    for offset in (10, 20, 30):
        story.commit(("g", "t", 0, offset))
        story.wait(2)
        story.ends(t=100)
    before = story.verdict()
    assert before.partitions[0].end.offset == 30

    # it was made before the newest log ends: it waits for none
    for more in range(number):
        at_ms = story.now_ms - 1800 + more * 200
        story.commit(("g", "t", 0, 40 + more), at_ms=at_ms)
    (after,) = story.queries.verdict("here", "g", Partitions.ALL).partitions

    assert (after.end, after.current_lag) == (before.partitions[0].end, 70)
    if number < 3:  # else the first entry has left the window
        assert after.evidence == before.partitions[0].evidence
    assert story.verdict().partitions[0].end.offset == 39 + number


@pytest.mark.parametrize("completed", [0, 20])
def test_the_time_lag_of_a_share_group_is_a_lower_bound_once_records_are_done_out_of_order(
    completed: int,
) -> None:
    story = Story()
    story.topics(t=1)
    for end in range(0, 110, 10):  # ten messages every ten seconds
        story.ends(t=end)
        story.wait(10)
    story.commit(("g", "t", 0, 40 + completed))
    share = SharePartition(
        start_offset=40, completed=completed, delivered_again=0, most_deliveries=1
    )
    story.apply(SharesSeen(partitions={("g", "t", 0): share}))
    story.ends(t=100)
    story.monitor.judge(EpochMs(story.now_ms))

    group = story.verdict("g")
    (partition,) = group.partitions

    true_s = 60.0 if completed == 0 else 40.0  # of the message at the position
    for shown in (group, partition):
        assert shown.time_lag_bound == ("at_least" if completed else "exact")
        assert shown.time_lag_s is not None
        assert 0 < shown.time_lag_s <= true_s + 10
    word = partition.time_lag_reason.word
    assert word == ("done_out_of_order" if completed else "measured")


def test_a_commit_that_was_merged_since_the_judgement_is_still_shown(story) -> None:
    story.topics(t=1)
    for offset in (10, 30):
        story.commit(("g", "t", 0, offset))
        story.wait(2)
        story.ends(t=100)
    story.verdict()

    story.commit(("g", "t", 0, 31), at_ms=story.now_ms - 1900)
    (partition,) = story.queries.verdict("here", "g", Partitions.ALL).partitions

    assert (partition.start.offset, partition.end.offset, partition.current_lag) == (10, 30, 70)
    assert partition.end.lag is None


def test_a_group_that_deletes_its_offsets_leaves(story) -> None:
    story.topics(t=2)
    story.commit(("g", "t", 0, 1), ("g", "t", 1, 1), ("other", "t", 0, 1))
    story.wait(1)
    story.ends(t=5)
    assert story.groups() == ("g", "other")

    story.commit(("g", "t", 0, -1))
    story.wait(1)
    story.ends(t=5)
    assert story.verdict().partition_count == 2

    story.commit(("g", "t", 1, -1))
    story.wait(1)
    story.ends(t=5)
    assert story.groups() == ("other",)


def test_a_commit_after_the_removal_in_the_same_batch_stays(story) -> None:
    story.topics(t=1)
    story.commit(("g", "t", 0, 4), ("g", "t", 0, -1), ("g", "t", 0, 2))
    story.wait(1)
    story.ends(t=5)

    assert story.verdict().partitions[0].start.offset == 2


def test_a_group_tombstone_takes_only_what_is_older(story) -> None:
    story.topics(t=2)
    story.commit(("g", "t", 0, 1), ("g", "t", 1, 1))
    story.wait(1)
    story.ends(t=5)

    story.apply(GroupsGone(groups=("g",), orders=(1,)))

    assert story.verdict().partitions[0].rule is Rule.NEVER_COMMITTED
    assert story.verdict().partitions[1].current_lag == 4


def test_a_silent_group_expires_from_lists_and_answers(story) -> None:
    story.topics(t=1)
    story.commit(("g", "t", 0, 1))
    story.wait(1)
    story.ends(t=5)
    assert story.groups() == ("g",)

    story.wait(3601)
    story.groups()

    assert story.groups() == ()
    with pytest.raises(NotFoundError):
        story.verdict()


def test_forgetting_a_group_lasts_until_its_next_commit(story) -> None:
    story.topics(t=1)
    story.commit(("g", "t", 0, 1))
    story.wait(1)
    story.ends(t=5)

    story.monitor.forget("g", None)
    assert story.groups() == ()

    story.commit(("g", "t", 0, 2))
    story.wait(1)
    story.ends(t=5)
    assert story.verdict().partitions[0].start.offset == 2


def test_a_recreated_topic_starts_anew(story) -> None:
    story.topics(t=1)
    story.commit(("g", "t", 0, 900))
    story.wait(1)
    story.ends(t=1000)
    assert story.verdict().total_lag == 100

    story.wait(1)
    story.topics(t=1, ids={"t": "another"})
    story.ends(t=3)

    assert story.groups() == ()


def test_commits_made_since_log_ends_were_asked_for_are_of_the_recreated_topic(story) -> None:
    story.topics(t=1)
    story.commit(("g", "t", 0, 900))
    story.wait(1)
    story.ends(t=1000)
    story.wait(5)
    story.commit(("g", "t", 0, 3))
    story.wait(5)
    story.ends(asked=False, t=1000)

    story.wait(1)
    story.topics(t=1, ids={"t": "another"})
    story.ends(t=5)

    assert story.verdict().total_lag == 2


def test_a_commit_to_a_topic_that_is_missing_stays_whenever_the_topic_is_listed(story) -> None:
    story.topics(t=1, u=1)
    story.commit(("g", "t", 0, 90))
    story.wait(1)
    story.ends(t=100, u=5)
    story.topics(u=1)
    story.commit(("g", "t", 0, -1))
    for _ in range(10):
        story.wait(5)
        story.commit(("g", "t", 0, 50))
        story.wait(1)
        story.ends(u=5)
        assert story.verdict().unknown_partitions == 1

    story.topics(t=1, u=1, ids={"t": "another"})
    story.ends(t=100, u=5)

    assert story.verdict().total_lag == 50


def test_a_poll_with_the_same_offset_as_before_counts_for_the_recreated_topic(story) -> None:
    story.topics(t=1)
    story.commit(("g", "t", 0, 50), only_changes=True)
    story.wait(1)
    story.ends(t=100)
    story.wait(20)
    story.ends(t=100)

    story.wait(5)
    story.commit(("g", "t", 0, 50), only_changes=True)
    story.topics(t=1, ids={"t": "another"})
    story.wait(1)
    story.ends(t=70)

    assert story.verdict().total_lag == 20


def test_a_deleted_topic_leaves_after_a_while_but_not_at_once(story) -> None:
    story.topics(t=1, u=1)
    story.commit(("g", "t", 0, 1), ("g", "u", 0, 1))
    story.wait(1)
    story.ends(t=5, u=5)

    story.topics(u=1)
    story.wait(5)
    story.ends(u=5)
    assert story.verdict().unknown_partitions == 1

    story.wait(30)
    story.ends(u=5)
    assert [p.topic for p in story.verdict().partitions] == ["u"]


def test_a_topic_that_was_missing_for_a_moment_keeps_its_windows(story) -> None:
    story.topics(t=1)
    for offset in (1, 2, 3):
        story.commit(("g", "t", 0, offset))
        story.wait(2)
        story.ends(t=5)

    story.topics()
    story.wait(3)
    story.ends()
    story.topics(t=1)
    story.ends(t=5)

    verdict = story.verdict()
    assert (verdict.total_lag, verdict.unknown_partitions) == (2, 0)


def test_a_new_collector_finds_the_windows_of_the_old_one(story) -> None:
    story.topics(t=1)
    for offset in (1, 2):
        story.commit(("g", "t", 0, offset))
        story.wait(2)
        story.ends(t=5)

    story.new_collector()
    story.topics(t=1)
    story.commit(("x", "t", 0, 1), ("g", "t", 0, 3))
    story.wait(2)
    story.ends(t=5)

    assert story.groups()
    detail = story.queries.detail("here", "g")
    assert [e.offset for e in detail.topics["t"][0].window if e] == [1, 2, 3]


def test_partitions_added_later_are_found(story) -> None:
    story.topics(a=1, t=1)
    story.commit(("g", "t", 0, 1))
    story.wait(1)
    story.ends(a=1, t=5)

    story.topics(a=4, t=2)
    story.commit(("g", "t", 1, 6))
    story.wait(1)
    story.ends(a=1, t=9)

    assert [p.current_lag for p in story.verdict().partitions] == [8, 3]


def test_owners_and_rebalances_come_from_the_groups(story) -> None:
    member = Member(
        member_id="m", client_id="c", host="/10.0.0.7", instance_id="i", assignment=(("t", (0,)),)
    )
    story.topics(t=1)
    story.commit(("g", "t", 0, 1))
    info = GroupInfo(
        group="g",
        type="classic",
        state="Stable",
        assignor="range",
        coordinator=1,
        members=(member,),
    )
    story.apply(GroupsSeen(groups=(info,), complete=True, rebalances={"g": 2}))
    story.wait(1)
    story.ends(t=5)

    partition = story.verdict().partitions[0]

    assert (partition.owner, partition.client_id, partition.instance_id) == ("/10.0.0.7", "c", "i")
    assert story.monitor.rebalances["g"] == 2


@pytest.mark.parametrize(
    ("rules", "ticks"), [(RuleSet.BURROW, 8), (RuleSet.LAGWATCH, 160)], ids=str
)
def test_a_group_is_as_bad_as_its_worst_partition(rules, ticks) -> None:
    story = Story(rules=rules)
    story.topics(t=2)
    story.ends(t=0)
    for tick in range(1, ticks + 1):
        story.wait(2)
        story.commit(("g", "t", 0, tick * 10), ("g", "t", 1, 5))
        story.ends(t=[tick * 10, tick * 100])

    verdict = story.verdict(partitions=Partitions.BAD)

    assert verdict.status is GroupStatus.ERR
    assert verdict.rule is Rule.STALLED
    assert [(p.partition, p.status) for p in verdict.partitions] == [(1, PartitionStatus.STALL)]
    assert verdict.total_lag == 100 * ticks - 5


def test_messages_removed_before_they_were_read_are_counted_as_lost(story) -> None:
    story.topics(t=1)
    story.commit(("g", "t", 0, 10))
    for _ in range(2):  # the second round shows that no commit came before the deletion
        story.wait(1)
        story.apply(
            LogEnds(
                version=1,
                started_ms=EpochMs(story.now_ms),
                finished_ms=EpochMs(story.now_ms),
                log_start=np.array([25]),
                log_end=np.array([40]),
                last_stable=np.array([40]),
            )
        )

    verdict = story.verdict()
    partition = verdict.partitions[0]

    assert (partition.current_lag, partition.readable_lag, partition.lost) == (30, 15, 15)
    assert (verdict.status, partition.rule) == (GroupStatus.ERR, Rule.RECORDS_LOST)


def test_a_finished_backlog_calls_for_a_judgement(story) -> None:
    assert story.apply(Backlog(read=9, total=9, ready=True))
    assert not story.apply(Backlog(read=9, total=9, ready=True))


@pytest.mark.slow
def test_groups_that_come_and_go_leave_nothing_behind(story) -> None:
    story.topics(t=1)
    for number in range(300):
        story.commit((f"g{number}", "t", 0, 1))
        story.wait(1)
        story.ends(t=5)
        story.groups()
        story.commit((f"g{number}", "t", 0, -1))
        story.wait(1)
        story.ends(t=5)
        assert story.groups() == ()

    assert story.monitor.windows.rows <= 4


def test_a_group_removed_since_the_last_round_still_shows_what_was_judged(story) -> None:
    story.topics(t=1)
    story.commit(("g", "t", 0, 7))
    story.wait(1)
    story.ends(t=9)
    story.verdict()

    story.monitor.forget("g", None)
    verdict = story.queries.verdict("here", "g", Partitions.ALL)

    assert (verdict.total_lag, verdict.partitions[0].end.offset) == (2, 7)


@RULES
def test_while_kafka_is_away_silence_is_no_stop(rules) -> None:
    story = Story(rules=rules)
    story.topics(t=1)
    story.ends(t=500)
    for tick in range(1, 6):
        story.wait(2)
        story.commit(("g", "t", 0, tick * 10))
        story.ends(t=500)
    assert story.verdict().status is GroupStatus.OK

    story.wait(600)
    assert story.verdict().status is GroupStatus.OK

    story.ends(t=500)
    if rules is RuleSet.LAGWATCH:  # the time after the outage counts, not the outage
        assert story.verdict().status is GroupStatus.OK
        story.rounds(310, t=500)
    assert story.verdict().rule is Rule.STOPPED


def test_a_group_that_has_not_been_heard_of_since_an_outage_says_so() -> None:
    story = Story(rules=RuleSet.LAGWATCH)
    story.topics(t=1)
    for tick in range(1, 400):
        story.wait(5)
        story.commit(("back", "t", 0, tick * 10), ("gone", "t", 0, tick * 10))
        story.ends(t=tick * 10 + 5)
    assert quiet_since_an_absence(story.queries, "here", ["back", "gone"]) == {}
    story.wait(600)  # Kafka is away
    story.ends(t=5_000)
    story.commit(("back", "t", 0, 4_990))
    story.rounds(10, t=5_000)

    assert story.verdict("gone").status is GroupStatus.OK

    found = quiet_since_an_absence(story.queries, "here", ["back", "gone", "unknown"])

    assert found.keys() == {"gone"}
    assert found["gone"]["words"].startswith("nothing read for 10 min")
    assert "count: for the rest Kafka or lagwatch was away" in found["gone"]["sentence"]


def test_from_when_a_silence_is_judged_does_not_move_on_after_an_outage() -> None:
    """One commit, and Kafka is away for a while: the time to rejoin does not count."""
    story = Story(rules=RuleSet.LAGWATCH)
    story.topics(t=1)
    story.rounds(30, t=500)
    story.commit(("g", "t", 0, 10))
    story.rounds(60, t=600)
    story.wait(120)
    promised = []

    def look() -> None:
        (partition,) = story.verdict().partitions
        if partition.rule is Rule.WARMING_UP:
            promised.append((dict(partition.evidence)["judged_from_ms"], story.now_ms))

    story.rounds(900, t=600, after=look)

    assert len(promised) > 10
    assert len({from_ms for from_ms, _ in promised}) == 1
    last_ms = promised[-1][1]
    assert last_ms <= promised[-1][0] + story.monitor.skew.corrected_ms <= last_ms + 10_000


@RULES
def test_while_commits_cannot_be_read_silence_is_no_stop(rules) -> None:
    story = Story(rules=rules)

    def commits_read(*, ok: bool) -> None:
        source = SourceKind.OFFSETS_TOPIC
        story.apply(SourceHealth(source=source, ok=ok, at_ms=EpochMs(story.now_ms)))

    story.topics(t=1)
    story.ends(t=500)
    for tick in range(1, 6):
        story.wait(2)
        story.commit(("g", "t", 0, tick * 10))
        story.ends(t=500)
        commits_read(ok=True)

    story.wait(600)
    commits_read(ok=False)
    story.ends(t=500)
    assert story.verdict().status is GroupStatus.OK

    commits_read(ok=True)
    if rules is RuleSet.LAGWATCH:
        assert story.verdict().status is GroupStatus.OK
        story.rounds(310, t=500, after=lambda: commits_read(ok=True))
    assert story.verdict().rule is Rule.STOPPED


def test_a_lag_that_grows_because_commits_cannot_be_read_is_not_rising(story) -> None:
    own, others = offsets_partition("g", 2), 1 - offsets_partition("g", 2)
    read_ms = np.zeros(2, np.int64)

    def commits_are_read(*partitions: int) -> None:
        read_ms[list(partitions)] = story.now_ms
        story.apply(CommitsKnown(until_ms=read_ms.copy()))

    story.topics(t=1)
    story.ends(t=0)
    for tick in range(1, 300):
        story.wait(5)
        # the broker of one partition of the offsets topic is out of reach, that of its topic is not
        unread = 120 < tick <= 240
        if not unread:
            story.commit(("g", "t", 0, tick * 500))
        commits_are_read(*((others,) if unread else (own, others)))
        story.ends(t=tick * 500)

        assert story.verdict().status is not GroupStatus.WARN, tick
        assert story.verdict().status is not GroupStatus.ERR, tick


def test_what_a_new_collector_finds_at_rest_is_no_new_commit(story) -> None:
    story.topics(t=2)
    for offset in (10, 20):
        story.commit(("g", "t", 0, offset), ("g", "t", 1, offset))
        story.wait(2)
        story.ends(t=500)

    story.new_collector()
    story.topics(t=2)
    story.ends(t=500)
    story.wait(2)
    story.commit(("g", "t", 0, 20), ("g", "t", 1, 30), only_changes=True)
    story.wait(2)
    story.ends(t=500)

    partitions = story.queries.detail("here", "g").topics["t"] if story.groups() else ()
    assert [[entry.offset for entry in each.window if entry] for each in partitions] == [
        [10, 20],
        [10, 20, 30],
    ]


def test_a_partition_that_is_held_and_never_committed_does_not_expire(story) -> None:
    _hold_without_commits(story, "g")
    story.monitor.windows.commit_ms[:] = 0  # what stands in unused slots is arbitrary

    for _ in range(3):  # the search for expired groups comes once a minute
        story.rounds(60, t=200)
        assert story.verdict().rule is Rule.NEVER_COMMITS


def test_the_lag_of_a_partition_that_is_read_and_never_committed_counts_as_unknown(story) -> None:
    _hold_without_commits(story, "g")

    verdict = story.verdict()
    assert (verdict.known_lag, verdict.unknown_partitions) == (None, 1)


def test_polled_offsets_that_were_removed_between_two_collectors_are_dropped(story) -> None:
    story.topics(t=2, hidden=1)
    story.ends(t=[100, 100], hidden=100)
    rows = [("g", "t", 0, 50), ("g", "t", 1, 50), ("g", "hidden", 0, 50), ("other", "t", 0, 50)]
    story.commit(*rows, only_changes=True)
    story.rounds(20, t=[100, 100], hidden=100)
    story.topics(t=2)  # one may not be described any more
    story.new_collector()
    story.topics(t=2)
    story.ends(t=[100, 100])
    story.commit(rows[0], only_changes=True)
    story.apply(GroupsGone(groups=(), orders=(), answered=frozenset({"g"})))
    story.rounds(10, t=[100, 100])

    known = {(each.topic, each.partition) for each in story.verdict("g").partitions}
    assert known == {("t", 0), ("t", 1), ("hidden", 0)}
    committed = {
        (each.topic, each.partition)
        for each in story.verdict("g").partitions
        if each.rule is not Rule.NEVER_COMMITTED
    }
    assert committed == {("t", 0), ("hidden", 0)}
    assert story.verdict("other").partitions, "it has not answered"


def test_the_row_of_a_forgotten_group_is_not_taken_from_its_next_owner(story) -> None:
    _hold_without_commits(story, "g")
    story.monitor.forget("g", None)
    assert story.groups() == ()
    _hold_without_commits(story, "g", "other")

    story.apply(GroupsSeen(groups=(_held("other"),), complete=True))

    assert story.groups() == ("other",)


class TestAGroupThatNeverCommittedAPartition:
    """It committed partition 0 and never 1; its member has left."""

    @pytest.fixture
    def left(self, story) -> Story:
        story.apply(Backlog(read=0, total=0, ready=True))
        story.topics(t=2)
        story.ends(t=[100, 100])
        story.commit(("g", "t", 0, 50))
        for end in range(101, 150):
            story.apply(GroupsSeen(groups=(_held("g", 0, 1),), complete=True))
            story.wait(10)
            story.ends(t=[end, end])
            story.groups()
        assert story.verdict().rule is Rule.NEVER_COMMITS
        story.apply(GroupsSeen(groups=(_empty("g"),), complete=True))
        return story

    def test_is_gone_when_its_last_offset_is_removed(self, left) -> None:
        left.rounds(10, t=[150, 150])
        assert left.groups() == ("g",), "its member may come back"

        left.commit(("g", "t", 0, -1))
        left.rounds(20, t=[150, 150], after=left.groups)

        assert left.groups() == ()

    def test_is_gone_when_kafka_removes_it(self, left) -> None:
        left.apply(GroupsGone(groups=("g",), orders=(1,)))
        left.rounds(20, t=[150, 150], after=left.groups)

        assert left.groups() == ()

    def test_stays_while_a_member_comes_back(self, left) -> None:
        left.apply(GroupsSeen(groups=(_held("g", 1),), complete=True))
        left.commit(("g", "t", 0, -1))
        left.rounds(10, t=[150, 150])

        assert left.verdict().rule is Rule.NEVER_COMMITS

    @pytest.mark.parametrize("dead", [False, True])
    def test_that_kafka_does_not_list_for_a_minute_is_gone(self, left, dead) -> None:
        found = (replace(_empty("g"), state="Dead"),) if dead else ()
        for _ in range(7):
            left.apply(GroupsSeen(groups=found, complete=True))
            left.rounds(10, t=[150, 150], after=left.groups)

        rules = {each.rule for each in left.verdict().partitions}
        assert Rule.NEVER_COMMITS not in rules

    def test_that_a_broker_has_not_loaded_yet_is_not_gone(self, left) -> None:
        for found in [()] * 5 + [(_empty("g"),)] + [()] * 5:
            left.apply(GroupsSeen(groups=found, complete=True))
            left.rounds(10, t=[150, 150])

        assert left.verdict().rule is Rule.NEVER_COMMITS


def _empty(group: str) -> GroupInfo:
    return replace(_held(group), state="Empty", members=())


def _held(group: str, *partitions: int) -> GroupInfo:
    """Its only member holds these partitions, or the first."""
    member = Member(
        member_id="m",
        client_id="c",
        host="h",
        instance_id="",
        assignment=(("t", partitions or (0,)),),
    )
    return GroupInfo(
        group=group, type="classic", state="Stable", assignor="", coordinator=1, members=(member,)
    )


def _hold_without_commits(story: Story, *groups: str) -> None:
    """Members hold the partition for more than five minutes, and messages come."""
    infos = tuple(map(_held, groups))
    story.apply(Backlog(read=0, total=0, ready=True))
    story.topics(t=1)
    story.ends(t=100)
    for end in range(101, 150):
        story.apply(GroupsSeen(groups=infos, complete=True))
        story.wait(10)
        story.ends(t=end)
        story.groups()
    assert story.verdict(groups[-1]).rule is Rule.NEVER_COMMITS


def test_a_group_is_not_caught_up_while_a_partition_is_behind_for_an_unknown_time(story) -> None:
    story.topics(t=2)
    story.ends(t=[900, 100])
    story.commit(("g", "t", 0, 500), ("g", "t", 1, 100))
    story.rounds(20, t=[900, 100])

    verdict = story.verdict()

    assert [each.time_lag_reason.word for each in verdict.partitions] == [
        "beyond_history",
        "caught_up",
    ]
    assert (verdict.time_lag_s, verdict.time_lag_reason.word) == (20.0, "beyond_history")
    assert verdict.time_lag_bound is TimeLagBound.AT_LEAST
    assert verdict.time_lag_error_s is None
    assert verdict.time_lag_partition == ("t", 0)


def test_the_time_lag_of_a_group_is_its_greatest_when_all_are_known(story) -> None:
    story.topics(t=2)
    story.ends(t=[100, 100])
    story.commit(("g", "t", 0, 100), ("g", "t", 1, 100))
    story.rounds(10, t=[200, 100])
    story.rounds(10, t=[200, 200])

    verdict = story.verdict()

    first, second = (each.time_lag_s for each in verdict.partitions)
    assert first > second > 0
    assert verdict.time_lag_s == first


def test_lag_and_time_lag_are_of_the_same_instant(story) -> None:
    story.topics(t=1)
    story.ends(t=[100])
    story.commit(("g", "t", 0, 100))
    story.rounds(10, t=[100])
    behind = story.now_ms
    story.wait(5)
    story.ends(t=[200])
    # judged as of an earlier instant, because commits are known up to there only
    story.monitor.judge(EpochMs(behind))

    verdict = story.queries.verdict("here", "g", Partitions.ALL)

    assert verdict.total_lag == 100
    assert verdict.time_lag_s > 0


def test_the_rule_of_a_group_is_that_of_its_most_lagging_partition_among_equals(story) -> None:
    story.topics(t=2)
    story.ends(t=[100, 100])
    for end in range(110, 200, 10):
        story.commit(("g", "t", 0, 100), ("g", "t", 1, end - 20))
        story.rounds(10, t=[100, end])

    verdict = story.verdict()

    assert [each.status.name for each in verdict.partitions] == ["OK", "OK"]
    assert verdict.partitions[0].rule is Rule.LAG_WITHIN_ALLOWED
    assert verdict.rule is verdict.partitions[1].rule is Rule.PROGRESSING


def test_the_lag_of_a_group_is_unknown_when_that_of_no_partition_is_known(story) -> None:
    story.topics(t=1)
    story.ends(t=[-1])
    story.commit(("g", "t", 0, 5))
    story.rounds(20, t=[-1])

    assert story.verdict().known_lag is None


def test_before_the_skew_is_known_a_young_commit_is_not_ahead_of_the_log_end(
    story,
) -> None:
    story.topics(t=1)
    story.ends(t=[100])
    story.commit(("g", "t", 0, 100), at_ms=story.now_ms - 40_000)
    story.rounds(10, t=[100])
    # lagwatch's clock is 40 s ahead: this commit was made after the log end was read
    story.commit(("g", "t", 0, 150), at_ms=story.now_ms - 39_000)

    assert story.verdict().rule is not Rule.AHEAD_OF_LOG_END

    story.rounds(20, t=[150])
    assert story.verdict().rule is Rule.LAG_WITHIN_ALLOWED


def test_a_collectors_death_before_log_ends_are_read_changes_no_verdict(story) -> None:
    story.topics(t=1)
    story.ends(t=[100])
    story.commit(("g", "t", 0, 100))
    story.rounds(60, t=[100])
    well = story.verdict()
    story.wait(2)
    story.commit(("g", "t", 0, 140))

    story.new_collector()
    story.wait(1)
    since = story.verdict()
    story.topics(t=1)
    story.ends(t=[150])
    read = story.verdict()

    assert well.rule is since.rule is Rule.LAG_WITHIN_ALLOWED
    assert (since.known_lag, read.known_lag) == (0, 10)


def test_a_commit_that_stays_ahead_of_the_log_end_is_found(story) -> None:
    story.topics(t=1)
    story.ends(t=[100])
    story.commit(("g", "t", 0, 150))
    for _ in range(2):
        story.wait(4)
        story.ends(t=[100])

    verdict = story.verdict()
    assert verdict.rule is Rule.AHEAD_OF_LOG_END
    assert (verdict.known_lag, verdict.time_lag_s) == (None, None)
    assert [each.unknown_reason for each in verdict.partitions] == [None], "its log end is known"
    assert verdict.time_lag_reason is TimeLagReason.AHEAD_OF_LOG_END
    assert [each.end and each.end.lag for each in verdict.partitions] == [None]


def test_an_old_commit_is_ahead_of_a_log_end_that_was_read_after_the_newest_commits(story) -> None:
    story.topics(t=1)
    story.ends(t=[100])
    story.commit(("g", "t", 0, 150), at_ms=story.now_ms - 100_000)
    story.wait(1)
    story.ends(t=[100])
    story.apply(CommitsKnown(until_ms=np.array([story.now_ms])))
    for _ in range(4):
        assert story.verdict().rule is not Rule.AHEAD_OF_LOG_END
        story.wait(2)

    # commits are known until eight seconds before
    story.ends(t=[100])

    assert story.verdict().rule is Rule.AHEAD_OF_LOG_END


@pytest.mark.parametrize(("before_s", "known_h"), [(60, 7), (-60, 0)])
def test_a_pause_that_began_before_lagwatch_watched_is_one_of_the_past(
    story, before_s, known_h
) -> None:
    story.apply(Backlog(read=0, total=0, ready=True))
    story.topics(t=1)
    story.ends(t=[100])
    assert story.monitor.complete
    began_ms = story.now_ms - before_s * 1000
    story.rounds(70, t=[100])
    story.commit(("g", "t", 0, 50), at_ms=began_ms)
    story.rounds(7 * 3600, t=[200])

    story.commit(("g", "t", 0, 200))
    story.rounds(10, t=[200])

    usual_h = story.monitor.pace.pause_ms(np.array([0]))[0] / 3_600_000
    assert usual_h == pytest.approx(known_h, abs=0.1)


@pytest.mark.slow
def test_a_stopped_group_catches_up_no_more_though_its_window_is_longer_than_its_silence(
    story,
) -> None:
    story.apply(Backlog(read=0, total=0, ready=True))
    story.topics(t=1)
    story.ends(t=[100_000])
    for step in range(1, 15):
        story.commit(("g", "t", 0, 2_000 + 3_000 * step))
        for _ in range(12):
            story.wait(10)
            story.ends(t=[100_000])
            story.groups()
    story.apply(GroupsSeen(groups=(replace(_held("g"), state="Empty", members=()),), complete=True))
    seen = set()
    for _ in range(60):
        story.wait(10)
        story.ends(t=[100_000])
        story.groups()
        status = story.verdict().status
        whole = story.queries.outlook("here", "g").whole
        if story.verdict().partitions[0].status is PartitionStatus.STOP:
            seen.add((whole.consumed_per_s, whole.catch_up_s, whole.catch_up_reason.value))

    assert seen == {(0.0, None, "not_moving")}, status


def test_a_group_that_catches_up_has_its_rates_and_an_end(story) -> None:
    story.topics(t=1)
    story.ends(t=[10_000])
    for step in range(1, 12):
        story.commit(("g", "t", 0, 2_000 + 300 * step))
        story.rounds(10, t=[10_000 + 100 * step])

    story.verdict()
    outlook = story.queries.outlook("here", "g")

    whole = outlook.whole
    assert whole.consumed_per_s == pytest.approx(30, rel=0.1)
    assert whole.produced_per_s == pytest.approx(10, rel=0.1)
    assert whole.catch_up_reason.value == "catching_up"
    assert whole.catch_up_s == pytest.approx(5_800 / 20, rel=0.15)
    assert whole.catch_up_low_s < whole.catch_up_s < whole.catch_up_high_s
    assert outlook.slowest == ("t", 0)
    assert outlook.lag_skew == 1.0


def test_a_snapshot_judged_before_all_was_known_is_not_complete() -> None:
    story = Story()
    story.topics(t=1)
    story.commit(("g", "t", 0, 5))
    story.apply(Backlog(read=1, total=1, ready=True))
    story.monitor.judge(EpochMs(story.now_ms))
    assert story.monitor.complete_snapshot is None

    story.wait(1)
    story.ends(t=10)
    assert story.monitor.complete
    assert story.monitor.complete_snapshot is None, "judged before"

    judged = story.monitor.judge(EpochMs(story.now_ms))
    assert story.monitor.complete_snapshot is judged

"""Reports in, snapshots out: admission, lag at the commit, topics and groups that come and go."""

import numpy as np
import pytest

from lagwatch.core.model import (
    EpochMs,
    GroupInfo,
    GroupStatus,
    Member,
    PartitionStatus,
    Rule,
    TimeLagReason,
    UnknownReason,
)
from lagwatch.errors import NotFoundError
from lagwatch.monitor import ClusterMonitor
from lagwatch.monitor.cluster import MonitorSettings
from lagwatch.ports import (
    Backlog,
    CollectorStarted,
    Commits,
    GroupsGone,
    GroupsSeen,
    LogEnds,
    SourceHealth,
    SourceKind,
    Topics,
)
from lagwatch.query import SnapshotQueries

START_MS = 1_800_000_000_000


class Story:
    """A cluster told second by second: what a collector would report of it."""

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

    def ends(self, **ends) -> None:
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

    def new_collector(self) -> None:
        self._keys.clear()
        self.apply(CollectorStarted(incarnation=self.monitor.incarnation + 1))

    def verdict(self, group: str = "g", *, show_all: bool = True):
        self.monitor.judge(EpochMs(self.now_ms))
        return self.queries.verdict("here", group, show_all=show_all)

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


def test_a_consumer_that_commits_often_while_its_lag_grows_is_warned_of(story) -> None:
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


def test_commits_that_came_before_their_topic_was_known_are_kept(story) -> None:
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
    assert verdict.partitions[0].start.lag == 30
    assert verdict.status is GroupStatus.OK


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

    detail = story.queries.detail("here", "g") if story.groups() else None
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


def test_a_group_is_as_bad_as_its_worst_partition(story) -> None:
    story.topics(t=2)
    story.ends(t=0)
    for tick in range(1, 9):
        story.wait(2)
        story.commit(("g", "t", 0, tick * 10), ("g", "t", 1, 5))
        story.ends(t=[tick * 10, tick * 100])

    verdict = story.verdict(show_all=False)

    assert verdict.status is GroupStatus.ERR
    assert verdict.rule is Rule.STALLED
    assert [(p.partition, p.status) for p in verdict.partitions] == [(1, PartitionStatus.STALL)]
    assert verdict.total_lag == 795


def test_messages_removed_before_they_were_read_are_counted_as_lost(story) -> None:
    story.topics(t=1)
    story.commit(("g", "t", 0, 10))
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

    partition = story.verdict().partitions[0]

    assert (partition.current_lag, partition.lost) == (30, 15)


def test_a_finished_backlog_calls_for_a_judgement(story) -> None:
    assert story.apply(Backlog(read=9, total=9, ready=True))
    assert not story.apply(Backlog(read=9, total=9, ready=True))


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
    verdict = story.queries.verdict("here", "g", show_all=True)

    assert (verdict.total_lag, verdict.partitions[0].end.offset) == (2, 7)


def test_while_kafka_is_away_silence_is_no_stop(story) -> None:
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
    assert story.verdict().rule is Rule.STOPPED


def test_while_commits_cannot_be_read_silence_is_no_stop(story) -> None:
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
    assert story.verdict().rule is Rule.STOPPED


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

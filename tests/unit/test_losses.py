"""Messages deleted unread, as a collector reports rounds: log ends first, then what it has read."""

from typing import Any

import numpy as np
import pytest

from lagwatch.core.model import EpochMs, GroupInfo, Member
from lagwatch.monitor import ClusterMonitor
from lagwatch.monitor.checkpoint import capture, restore
from lagwatch.monitor.settings import MonitorSettings
from lagwatch.ports.reports import (
    Backlog,
    CollectorStarted,
    Commits,
    CommitsKnown,
    GroupsSeen,
    LogEnds,
    Report,
    Topics,
)
from lagwatch.query import SnapshotQueries
from lagwatch_api.v1.fleet import lost

START_MS = 1_800_000_000_000
ROUND_MS = 5_000
TOOK_MS = 50


_MEMBER = Member(member_id="m", client_id="c", host="h", instance_id="", assignment=(("t", (0,)),))


class Rounds:
    """One group on one partition, and rounds of five seconds."""

    def __init__(self, *, exact_times: bool = True) -> None:
        self._exact_times = exact_times
        settings = MonitorSettings(
            intervals=5,
            min_distance_ms=1_000,
            expire_ms=3_600_000,
            allowed_lag=0,
            minimum_complete=0.0,
            history_ms=86_400_000,
        )
        self.monitor = ClusterMonitor("here", settings)
        self.now_ms = START_MS
        self._commits = 0
        self._settings = settings
        self._start()

    def _start(self) -> None:
        ones = np.ones(1, np.int32)
        self._apply(CollectorStarted(incarnation=1))
        self._apply(Topics(version=1, names=("t",), ids=("id",), partitions=ones, leader=ones))
        self._apply(Backlog(read=0, total=0, ready=True))

    def _apply(self, report: Report) -> None:
        self.monitor.apply(report, EpochMs(self.now_ms))

    def round(self, log_start: int, log_end: int) -> None:
        """Log ends, then that all commits before the round are known; then time passes."""
        started_ms = self.now_ms
        self.now_ms += TOOK_MS
        self._apply(
            LogEnds(
                version=1,
                started_ms=EpochMs(started_ms),
                finished_ms=EpochMs(self.now_ms),
                log_start=np.array([log_start]),
                log_end=np.array([log_end]),
                last_stable=np.array([log_end]),
            )
        )
        self._apply(CommitsKnown(until_ms=np.array([started_ms])))
        self.now_ms = started_ms + ROUND_MS

    def kill(self, *, away_s: int) -> None:
        """Killed right after a round; another process goes on where it ended."""
        kept = list(capture(self.monitor))
        self.monitor = ClusterMonitor("here", self._settings)
        restore(self.monitor, kept, offsets_topic="")
        self.now_ms += away_s * 1000
        self._commits = 0
        self._start()

    def commit(self, *offsets: int) -> None:
        """A commit a second before the next round; several, five seconds apart, in one report."""
        at_ms = self.now_ms - 1_000
        new = self._commits == 0
        number = len(offsets)
        self._commits += number
        self._apply(
            Commits(
                first_new_id=0,
                new_groups=("g",) if new else (),
                new_topics=("t",) if new else (),
                new_partitions=(0,) if new else (),
                key=np.zeros(number, np.int32),
                offset=np.array(offsets),
                commit_ms=at_ms - 5_000 * np.arange(number)[::-1],
                order=self._commits - np.arange(number)[::-1],
                observed_ms=EpochMs(at_ms + 10),
                exact_times=self._exact_times,
            )
        )

    def describe_another(self) -> None:
        """What is known of groups is known of another group."""
        info = GroupInfo(
            group="other", type="classic", state="Empty", assignor="", coordinator=1, members=()
        )
        self._apply(GroupsSeen(groups=(info,), complete=True))

    def hold(self, assignor: str = "range") -> None:
        """A member of the group holds the partition."""
        info = GroupInfo(
            group="g",
            type="classic",
            state="Stable",
            assignor=assignor,
            coordinator=1,
            members=(_MEMBER,),
        )
        self._apply(GroupsSeen(groups=(info,), complete=True))
        self.monitor.judge(EpochMs(self.now_ms))

    def release(self) -> None:
        """The group has no member."""
        info = GroupInfo(
            group="g", type="classic", state="Empty", assignor="", coordinator=1, members=()
        )
        self._apply(GroupsSeen(groups=(info,), complete=True))
        self.monitor.judge(EpochMs(self.now_ms))

    def leave(self) -> None:
        """The last member leaves: the offsets topic has a record of it."""
        self._describe("Empty", (), emptied=frozenset({"g"}))

    def join(self) -> None:
        """A member comes; of that, too."""
        self._describe("Stable", (_MEMBER,), emptied=frozenset())

    def rebalance(self) -> None:
        """The members join again; whether they hold partitions meanwhile Kafka does not say."""
        waiting = Member(member_id="m", client_id="c", host="h", instance_id="", assignment=())
        info = GroupInfo(
            group="g",
            type="classic",
            state="PreparingRebalance",
            assignor="",
            coordinator=1,
            members=(waiting,),
        )
        self._apply(GroupsSeen(groups=(info,), complete=True))
        self.monitor.judge(EpochMs(self.now_ms))

    def _describe(self, state: str, members: tuple[Member, ...], emptied: frozenset[str]) -> None:
        info = GroupInfo(
            group="g",
            type="classic",
            state=state,
            assignor="range" if members else "",
            coordinator=1,
            members=members,
        )
        self._apply(GroupsSeen(groups=(info,), complete=True, rebalances={"g": 1}, emptied=emptied))
        self.monitor.judge(EpochMs(self.now_ms))

    def lost(self) -> int:
        (lost,) = self.monitor.setbacks.lost(np.array([0])).tolist()
        return int(lost)


@pytest.fixture
def rounds() -> Rounds:
    """A group that has committed 10 of 40 messages, which are all there."""
    found = Rounds()
    found.round(0, 40)
    found.commit(10)
    for _ in range(3):
        found.round(0, 40)
    return found


def test_messages_deleted_before_they_were_read_are_lost(rounds: Rounds) -> None:
    for _ in range(4):
        rounds.round(25, 40)

    assert rounds.lost() == 15


@pytest.mark.parametrize("described", [True, False])
def test_what_a_new_group_has_fetched_is_not_lost_before_its_members_are_known(
    *, described: bool
) -> None:
    rounds = Rounds(exact_times=False)
    rounds.describe_another()
    rounds.round(0, 40)
    rounds.commit(10)
    for _ in range(5):
        rounds.round(25, 40)
    soon = rounds.lost()
    if described:
        rounds.hold()
    for _ in range(10):
        rounds.round(25, 40)

    assert soon == 0
    assert rounds.lost() == (0 if described else 15)


def test_setting_the_offset_that_there_was_is_no_reading(rounds: Rounds) -> None:
    """As an operator does before the members come back."""
    rounds.join()
    end = keep_up(rounds)
    rounds.leave()
    for _ in range(4):
        rounds.round(0, end + 500)
    rounds.commit(end)
    rounds.round(end + 300, end + 500)
    rounds.join()
    rounds.commit(end + 500)
    for _ in range(3):
        rounds.round(end + 300, end + 500)

    assert rounds.lost() == 300


def test_what_was_lost_is_a_lower_bound_while_more_is_deleted_than_is_counted(
    rounds: Rounds,
) -> None:
    """A deletion is counted a round after it."""
    rounds.release()
    found = []
    for log_start in (20, 20, 20, 20, 30, 30, 30, 30, 30):
        rounds.round(log_start, 40)
        shown = lost(rounds.monitor.judge(EpochMs(rounds.now_ms)), "g")
        found.append((shown["lost"], shown["lost_is"]))

    assert (10, "exact") in found
    assert (10, "lower_bound") in found
    assert found[-1] == (20, "exact")


def test_a_member_that_deletes_what_it_has_read_before_it_commits_loses_nothing(
    rounds: Rounds,
) -> None:
    rounds.hold()
    rounds.round(0, 40)
    rounds.commit(40)
    rounds.round(0, 40)
    end = 40
    for number in range(120):  # ten messages a round are read and deleted; a commit every 30 s
        end += 10
        if number % 6 == 5:
            rounds.commit(end - 10)
        rounds.round(end - 12, end)

    assert rounds.lost() == 0


def test_an_outage_is_no_silence_of_a_member_that_deletes_what_it_has_read(rounds: Rounds) -> None:
    rounds.hold()
    rounds.round(0, 40)
    rounds.commit(40)
    rounds.round(0, 40)
    end = 40
    for number in range(120):
        if number % 40 == 38:
            rounds.now_ms += 130_000  # Kafka is away: no messages, no rounds, no commits
        end += 10
        if number % 6 == 5:
            rounds.commit(end - 10)
        rounds.round(end - 12, end)

    assert rounds.lost() == 0


def test_what_producers_kept_during_an_outage_is_read_at_once_afterwards(rounds: Rounds) -> None:
    rounds.hold()
    rounds.round(0, 40)
    rounds.commit(40)
    rounds.round(0, 40)
    end = 40
    for number in range(60):
        end += 10
        if number % 6 == 5:
            rounds.commit(end - 10)
        rounds.round(end - 12, end)
    rounds.now_ms += 130_000  # Kafka is away: no messages, no rounds, no commits
    rounds.round(end - 12, end)
    rounds.commit(end)
    rounds.round(end - 12, end)
    end += 350  # what was kept; read and deleted before the next commit
    for _ in range(5):
        end += 10
        rounds.round(end - 12, end)
    rounds.commit(end)
    rounds.round(end - 12, end)
    rounds.round(end - 12, end)

    assert rounds.lost() == 0


def test_what_a_steady_reader_finds_deleted_after_an_outage_is_lost(rounds: Rounds) -> None:
    rounds.hold()
    position, end = 40, 9_000
    for _ in range(60):
        position, end = position + 40, end + 40
        rounds.commit(position)
        rounds.round(0, end)
    rounds.now_ms += 130_000  # Kafka is away; then as fast as ever it could have read 3,240
    for _ in range(3):
        end += 40
        rounds.round(position + 3_000, end)
    rounds.commit(position + 3_040)
    rounds.round(position + 3_000, end)
    rounds.round(position + 3_000, end)

    assert rounds.lost() == 3_000


def read_without_membership(rounds: Rounds) -> None:
    """A consumer that assigns itself its partitions reads up to 1,050 of 9,000 messages."""
    rounds.release()
    for position in range(100, 1_100, 50):
        rounds.commit(position)
        rounds.round(0, 9_000)


def test_who_assigns_itself_its_partitions_may_have_fetched_what_is_deleted(
    rounds: Rounds,
) -> None:
    """Nothing but its commits is seen; what was deleted it has fetched, and it reads on."""
    read_without_membership(rounds)
    for position in range(1_100, 2_100, 50):
        rounds.commit(position)
        rounds.round(1_650, 9_000)

    assert rounds.lost() == 0


def test_who_assigned_itself_its_partitions_and_commits_the_same_offset_loses_what_is_deleted(
    rounds: Rounds,
) -> None:
    rounds.release()
    for _ in range(12):
        rounds.commit(100)
        rounds.round(0, 900)
    for _ in range(5):
        rounds.commit(100)
        rounds.round(400, 900)

    assert rounds.lost() == 300


def test_who_assigned_itself_its_partitions_and_ended_loses_what_is_deleted(
    rounds: Rounds,
) -> None:
    read_without_membership(rounds)
    for _ in range(20):
        rounds.round(1_650, 9_000)

    assert rounds.lost() == 600


def test_a_member_of_which_little_is_known_has_time_to_commit(rounds: Rounds) -> None:
    """It reads and deletes all the time, and commits every 150 s."""
    rounds.hold()
    rounds.round(0, 40)
    rounds.commit(40)
    rounds.round(0, 40)
    end = 40
    for number in range(200):
        end += 10
        if number % 30 == 29:
            rounds.commit(end - 10)
        rounds.round(end - 12, end)

    assert rounds.lost() == 0


def test_a_member_that_hung_while_its_messages_were_deleted_lost_them(rounds: Rounds) -> None:
    rounds.hold()
    committed = keep_up(rounds)
    end = hang(rounds, committed)
    for _ in range(12):
        rounds.round(end - 5, end)

    assert rounds.lost() == end - 5 - committed


def test_a_member_that_retention_overtakes_loses_what_it_cannot_have_read(rounds: Rounds) -> None:
    rounds.hold()
    for offset in range(20, 120, 10):
        rounds.commit(offset)
        rounds.round(0, 100_000)
    for _ in range(4):
        rounds.round(50_000, 100_000)
    assert rounds.lost() == 0  # it may go on with what it has fetched

    rounds.commit(50_010)
    for _ in range(4):
        rounds.round(50_000, 100_000)

    assert rounds.lost() == 50_000 - 110


@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize("exact_times", [True, False])
def test_a_member_that_retention_overtakes_again_and_again_loses_messages_each_time(
    *, exact_times: bool, every: int
) -> None:
    """What it skipped before is in its window too, and is no sign that it reads so fast."""
    rounds = Rounds(exact_times=exact_times)
    rounds.hold()
    log_start, position, skipped = 0, 0, 0
    for number in range(40):
        if number >= 6 and number % every == 0:
            log_start += 150 * every
        rounds.round(log_start, 6_000 + 150 * number)
        skipped += max(log_start - position, 0)
        position = max(log_start, position) + 25
        rounds.commit(position)
    rounds.round(log_start, 12_000)
    rounds.monitor.judge(EpochMs(rounds.now_ms))
    outlook = SnapshotQueries({"here": rounds.monitor}, health=tuple).outlook("here", "g").whole

    # where between two rounds it went on is not known: it may be all of what it read then
    assert skipped <= rounds.lost() <= skipped + 25 * 34
    assert (outlook.consumed_per_s, outlook.catch_up_s) == (None, None)


@pytest.mark.parametrize("start", [1_001, 1_005, 1_008, 1_009])
@pytest.mark.parametrize("since", [120, 1_000])
def test_a_member_that_reads_on_what_it_has_fetched_loses_nothing(
    rounds: Rounds, start: int, since: int
) -> None:
    """The messages are deleted from the log, not from the memory of the client."""
    rounds.hold()
    for offset in range(20, 1_500, 10):
        rounds.commit(offset)
        rounds.round(start if offset >= since else 0, 100_000)

    assert rounds.lost() == 0


def test_a_loss_is_not_forgotten_because_more_is_deleted_right_after_it(rounds: Rounds) -> None:
    rounds.hold()
    for offset in range(20, 120, 10):
        rounds.commit(offset)
        rounds.round(0, 100_000)
    rounds.round(1_000, 100_000)
    rounds.round(1_000, 100_000)
    for offset in (1_010, 1_020):  # it has gone on at the log start
        rounds.round(2_000, 100_000)
        rounds.commit(offset)
    for offset in (2_010, 2_020):
        rounds.round(2_000, 100_000)
        rounds.commit(offset)
    for _ in range(4):
        rounds.round(2_000, 100_000)

    # at most: where in 1,000 to 1,010 it went on is not known; up to 1,020 it read what it had
    assert rounds.lost() == (1_010 - 110) + (2_000 - 1_020)


def test_a_member_that_finds_its_coordinator_again_has_not_gone(rounds: Rounds) -> None:
    """It reads and deletes all the time, and commits every 40 s; then Kafka restarts."""
    rounds.hold()
    end = 40
    for number in range(40):
        end += 10
        if number % 8 == 7:
            rounds.commit(end - 10)
        rounds.round(end - 12, end)
    rounds.now_ms += 130_000
    rounds.release()
    for number in range(8):
        end += 10
        if number == 3:
            rounds.hold()
        rounds.round(end - 12, end)

    assert rounds.lost() == 0


def test_who_was_there_at_the_first_look_may_have_read_all_the_time(rounds: Rounds) -> None:
    """A consumer deletes what it reads, and commits for the second time."""
    rounds.hold()
    for end in range(100, 800, 100):
        rounds.round(end, end + 100)
    rounds.commit(850)
    for _ in range(4):
        rounds.round(800, 900)

    assert rounds.lost() == 0


def test_they_are_counted_once(rounds: Rounds) -> None:
    for _ in range(10):
        rounds.round(25, 40)
    for _ in range(10):
        rounds.round(40, 40)

    assert rounds.lost() == 30


def reads_slowly(rounds: Rounds, *, log_end: int) -> None:
    """A member reads one message a round, up to 15."""
    rounds.hold()
    for offset in range(11, 16):
        rounds.commit(offset)
        rounds.round(0, log_end)


def test_a_slow_member_that_commits_the_log_start_it_was_set_to_lost_what_was_deleted(
    rounds: Rounds,
) -> None:
    reads_slowly(rounds, log_end=500)
    rounds.round(300, 500)
    rounds.commit(300)  # it has read nothing yet
    for _ in range(2):
        rounds.round(300, 500)

    assert rounds.lost() == 285


def test_a_slow_member_that_is_set_to_the_log_start_between_two_rounds_lost_what_was_deleted(
    rounds: Rounds,
) -> None:
    reads_slowly(rounds, log_end=5000)
    rounds.commit(300)
    rounds.round(300, 5000)
    soon = rounds.lost()
    rounds.commit(301)
    rounds.round(300, 5000)

    assert soon == 0  # it may have become faster
    assert rounds.lost() == 285


def test_what_was_lost_is_a_lower_bound_where_deleted_messages_may_have_been_read(
    rounds: Rounds,
) -> None:
    """Every commit passes a log start: as a reader at the log start does, or one that loses."""
    rounds.hold()
    found = []
    for offset in range(20, 220, 10):
        rounds.commit(offset)
        rounds.round(offset - 5, offset + 400)
        shown = lost(rounds.monitor.judge(EpochMs(rounds.now_ms)), "g")
        found.append((shown["lost"], shown["lost_is"]))

    assert set(found[5:]) == {(0, "lower_bound")}


def test_who_goes_on_right_behind_the_log_start_may_have_skipped_what_was_deleted(
    rounds: Rounds,
) -> None:
    """A consumer that was thrown back is there, and one whose messages are deleted once read."""
    reads_slowly(rounds, log_end=1_900)
    rounds.round(3_990, 6_000)
    rounds.round(4_050, 6_000)
    rounds.commit(4_000, 4_060)  # the first came before the log start moved on

    for offset in range(4_061, 4_067):  # it is as slow as before
        rounds.round(4_050, 60_000)
        rounds.commit(offset)

    assert rounds.lost() == 4_050 - 15


def test_a_slow_member_that_becomes_fast_as_the_log_start_passes_it_lost_nothing(
    rounds: Rounds,
) -> None:
    reads_slowly(rounds, log_end=5000)
    for offset in range(300, 3000, 300):
        rounds.commit(offset)
        rounds.round(250, 5000)

    assert rounds.lost() == 0


def test_a_consumer_that_deletes_what_it_read_of_a_sudden_backlog_loses_nothing(
    rounds: Rounds,
) -> None:
    rounds.hold()
    for offset in range(11, 16):
        rounds.commit(offset)
        rounds.round(offset, offset)
    for read in (300, 600):
        rounds.commit(read)
        rounds.round(read, 50_000)
        rounds.round(read, 50_000)

    assert rounds.lost() == 0


def test_a_consumer_that_deletes_what_it_committed_loses_nothing(rounds: Rounds) -> None:
    for number in range(2, 60):
        rounds.commit(10 * number)
        rounds.round(10 * number, 10 * number + 5)

    assert rounds.lost() == 0


@pytest.mark.parametrize("silent_rounds", range(6))
def test_a_consumer_that_goes_on_behind_deleted_messages_lost_them(
    rounds: Rounds, silent_rounds: int
) -> None:
    rounds.release()
    for _ in range(silent_rounds):
        rounds.round(3_000, 5_000)
    rounds.commit(5_000)
    for _ in range(4):
        rounds.round(3_000, 5_000)

    assert rounds.lost() == 2_990


def test_who_came_after_the_deletion_cannot_have_read_before(rounds: Rounds) -> None:
    """Deleted, joined and committed within the round."""
    rounds.release()
    rounds.hold()
    rounds.commit(5_000)
    for _ in range(4):
        rounds.round(3_000, 5_000)

    assert rounds.lost() == 2_990


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    "commits", [(193, 211), (150, 193, 211), (120, 150, 180, 193, 211, 230), (*range(100, 300, 8),)]
)
def test_what_was_read_and_deleted_while_lagwatch_was_away_is_not_lost(
    commits: tuple[int, ...], *, at_once: bool
) -> None:
    """A reader that began meanwhile: its commits come before the first look at log starts."""
    rounds = Rounds()
    for _ in range(2):
        rounds.round(100, 300)
    rounds.kill(away_s=150)
    for batch in [commits] if at_once else [(offset,) for offset in commits]:
        rounds.now_ms += 5_000 * len(batch)
        rounds.commit(*batch)
    rounds.now_ms += 40_000
    rounds.hold()
    for _ in range(4):
        rounds.round(200, 400)

    assert rounds.lost() == 0


def test_of_a_consumer_that_was_seen_twice_no_speed_is_known(rounds: Rounds) -> None:
    """It may have read, committed and deleted all of it within the round."""
    rounds.hold()
    rounds.round(0, 40)
    rounds.commit(40)
    rounds.round(0, 40)
    rounds.commit(5_000)
    for _ in range(4):
        rounds.round(3_000, 5_000)

    assert rounds.lost() == 0


def test_polls_do_not_show_what_was_committed_between_them() -> None:
    """A consumer has its messages deleted up to a commit that no poll saw."""
    rounds = Rounds(exact_times=False)
    rounds.round(0, 40)
    rounds.commit(10)
    rounds.round(0, 40)
    rounds.round(30, 60)
    rounds.commit(50)
    for _ in range(4):
        rounds.round(30, 60)

    assert rounds.lost() == 0


def test_a_commit_that_is_reported_late_but_came_before_the_deletion_lost_nothing(
    rounds: Rounds,
) -> None:
    committed_ms = rounds.now_ms - 1_000
    rounds.round(0, 40)
    rounds.round(30, 40)
    now_ms, rounds.now_ms = rounds.now_ms, committed_ms + 1_000
    rounds.commit(35)
    rounds.now_ms = now_ms
    for _ in range(4):
        rounds.round(30, 40)

    assert rounds.lost() == 0


def keep_up(rounds: Rounds, *, every: int = 1, commits: int = 6) -> int:
    """Read 50 messages a round and commit in every so many rounds; returns the log end."""
    end = 40
    for _ in range(commits):
        for _ in range(every):
            end += 50
            rounds.round(0, end)
        rounds.commit(end)
    rounds.round(0, end)
    return end


def hang(rounds: Rounds, end: int, *, rounds_long: int = 12) -> int:
    for _ in range(rounds_long):
        end += 50
        rounds.round(0, end)
    return end


def test_a_consumer_that_hung_and_goes_on_behind_what_was_deleted_meanwhile_lost_it(
    rounds: Rounds,
) -> None:
    committed = keep_up(rounds)
    end = hang(rounds, committed)
    rounds.monitor.take_losses()

    # deleted, reset and committed between two rounds
    rounds.commit(end)
    for _ in range(4):
        rounds.round(end - 5, end)

    assert rounds.lost() == end - 5 - committed
    (loss,) = rounds.monitor.take_losses()
    assert (loss.first, loss.end, loss.exact) == (committed, end - 5, False)


def test_a_consumer_that_hung_and_read_on_before_the_deletion_lost_nothing(
    rounds: Rounds,
) -> None:
    end = hang(rounds, keep_up(rounds))

    rounds.commit(end)
    rounds.round(0, end)
    for _ in range(4):
        rounds.round(end - 5, end)

    assert rounds.lost() == 0


def test_a_consumer_that_hung_and_deletes_what_it_committed_lost_nothing(rounds: Rounds) -> None:
    end = hang(rounds, keep_up(rounds))

    rounds.commit(end - 5)
    rounds.commit(end)
    for _ in range(4):
        rounds.round(end - 5, end)

    assert rounds.lost() == 0


def test_a_batch_that_reads_what_is_then_deleted_lost_nothing(rounds: Rounds) -> None:
    end = hang(rounds, keep_up(rounds, every=12))

    rounds.commit(end)
    for _ in range(4):
        rounds.round(end - 5, end)

    assert rounds.lost() == 0


def test_a_burst_that_is_read_and_deleted_between_two_rounds_lost_nothing(rounds: Rounds) -> None:
    end = keep_up(rounds)
    for _ in range(12):
        rounds.round(0, end)

    rounds.commit(end + 700)
    for _ in range(4):
        rounds.round(end + 695, end + 700)

    assert rounds.lost() == 0


def test_a_consumer_far_behind_whose_messages_are_deleted_once_read_loses_nothing(
    rounds: Rounds,
) -> None:
    for offset in (20, 30, 40):
        rounds.round(0, 5_000)
        rounds.commit(offset)
    rounds.round(35, 5_000)  # deleted after that commit, before this round
    for _ in range(4):
        rounds.round(35, 5_000)

    assert rounds.lost() == 0


# groups that had no members for a while


@pytest.mark.parametrize("rounds_away", range(2, 12))
def test_what_is_deleted_while_the_group_has_no_members_is_lost_however_fast_it_reads(
    rounds: Rounds, rounds_away: int
) -> None:
    """Ten messages a second; 333 are deleted before its member is started again."""
    rounds.hold()
    committed = end = keep_up(rounds)
    rounds.leave()
    for number in range(rounds_away):
        end += 50
        rounds.round(0 if number < rounds_away - 1 else committed + 333, max(end, committed + 400))
    rounds.round(committed + 333, committed + 700)
    rounds.now_ms += 3_000
    rounds.join()
    rounds.now_ms += 3_000
    rounds.commit(committed + 700)
    for _ in range(4):
        rounds.round(committed + 333, committed + 700)

    assert rounds.lost() == 333
    losses = rounds.monitor.take_losses()
    assert [(loss.first, loss.end) for loss in losses] == [(committed, committed + 333)]


@pytest.mark.parametrize("rounds_away", [3, 4, 5])
def test_in_the_time_without_members_nothing_is_read(rounds: Rounds, rounds_away: int) -> None:
    """Deleted so soon after they left that it may have been before."""
    rounds.hold()
    committed = keep_up(rounds)
    rounds.leave()
    for _ in range(rounds_away):
        rounds.round(committed + 333, committed + 400)
    rounds.join()
    rounds.commit(committed + 700)
    for _ in range(4):
        rounds.round(committed + 333, committed + 700)

    assert rounds.lost() == 333


def test_of_a_loss_in_a_long_time_without_members_the_number_is_exact(rounds: Rounds) -> None:
    rounds.hold()
    committed = keep_up(rounds)
    rounds.leave()
    rounds.round(0, committed + 400)
    for _ in range(6):  # half a minute: nobody has looked at the group again
        rounds.round(committed + 333, committed + 400)

    (loss,) = rounds.monitor.take_losses()
    assert (loss.first, loss.end, loss.exact) == (committed, committed + 333, True)


def test_what_is_deleted_after_the_members_came_back_may_have_been_read(rounds: Rounds) -> None:
    """A healthy consumer beside retention is started again."""
    rounds.hold()
    committed = end = keep_up(rounds)
    rounds.leave()
    for _ in range(4):
        end += 50
        rounds.round(committed, end)
    rounds.join()
    rounds.now_ms += 2_000
    rounds.round(end - 20, end)  # it has read them by then, and commits every ten seconds
    rounds.commit(end)
    for _ in range(4):
        rounds.round(end - 20, end)

    assert rounds.lost() == 0


@pytest.mark.parametrize("rounds_away", range(1, 9))
def test_a_member_that_deletes_what_it_reads_and_leaves_before_it_commits_loses_nothing(
    rounds: Rounds, rounds_away: int
) -> None:
    rounds.join()
    end = keep_up(rounds)
    end += 50
    rounds.round(0, end)
    rounds.round(end - 10, end)
    rounds.leave()
    for _ in range(rounds_away):
        rounds.round(end - 10, end)
    rounds.join()
    rounds.round(end - 10, end + 50)
    rounds.commit(end + 50)
    for _ in range(4):
        rounds.round(end - 10, end + 50)

    assert rounds.lost() == 0


def test_a_group_that_is_seen_to_be_empty_after_an_outage_may_have_read_on(rounds: Rounds) -> None:
    """A coordinator that has just started has not heard of its members yet."""
    rounds.join()
    committed = end = keep_up(rounds)
    rounds.now_ms += 130_000
    rounds.leave()
    rounds.round(committed, end)
    rounds.round(committed + 20, end + 50)
    rounds.round(committed + 20, end + 50)
    rounds.join()
    rounds.commit(end + 50)
    for _ in range(4):
        rounds.round(committed + 20, end + 50)

    assert rounds.lost() == 0


# rebalances


def rejoin_after_an_outage(rounds: Rounds, assignor: str, *, rounds_long: int) -> int:
    """A steady reader joins again for so many rounds; what producers had kept is deleted meanwhile.

    Returns the offset that it had committed.
    """
    rounds.hold(assignor)
    committed = end = keep_up(rounds)
    rounds.now_ms += 130_000  # Kafka is away
    end += 1_300  # what producers kept
    for number in range(rounds_long):
        rounds.round(0 if number < rounds_long - 2 else committed + 1_000, end)
        end += 50
        if number % 4 == 0:
            rounds.rebalance()
    rounds.hold(assignor)
    rounds.commit(end)
    for _ in range(4):
        rounds.round(committed + 1_000, end)
    return committed


def test_what_is_deleted_while_a_group_joins_again_is_lost(rounds: Rounds) -> None:
    committed = rejoin_after_an_outage(rounds, "range", rounds_long=6)

    assert rounds.lost() == 1_000
    (loss,) = rounds.monitor.take_losses()
    assert (loss.first, loss.end, loss.exact) == (committed, committed + 1_000, False)


@pytest.mark.parametrize("assignor", ["cooperative-sticky", "stream", ""])
def test_members_that_keep_their_partitions_in_a_rebalance_may_have_read_on(
    rounds: Rounds, assignor: str
) -> None:
    rejoin_after_an_outage(rounds, assignor, rounds_long=6)

    assert rounds.lost() == 0


def test_a_member_that_commits_in_a_rebalance_reads_on(rounds: Rounds) -> None:
    """It works on what it has fetched, and joins when it is done."""
    rounds.hold()
    committed = end = keep_up(rounds)
    rounds.rebalance()
    for number in range(6):
        end += 50
        rounds.round(end - 50 if number > 3 else committed, end)
    rounds.commit(end)
    rounds.round(end - 10, end)
    rounds.hold()
    end += 50
    rounds.commit(end)
    for _ in range(4):
        rounds.round(end - 10, end)

    assert rounds.lost() == 0


@pytest.mark.parametrize("exact_times", [True, False])
def test_who_is_silent_for_long_after_an_outage_has_not_read_what_is_deleted_meanwhile(
    exact_times,
) -> None:
    """Its group could not be described: that it joins again was not seen."""
    rounds = Rounds(exact_times=exact_times)
    rounds.hold()
    committed = end = keep_up(rounds)
    rounds.now_ms += 130_000  # Kafka is away
    end += 1_300
    kept = committed + 1_000
    if not exact_times:
        committed += 100
        rounds.commit(committed)  # made before the outage, and polled after it
    for number in range(9):
        rounds.round(0 if number < 5 else kept, end)
        end += 50
    rounds.commit(end)
    for _ in range(4):
        rounds.round(kept, end)

    assert rounds.lost() == kept - committed


def test_in_an_outage_nothing_is_read(rounds: Rounds) -> None:
    """A commit a minute: the outage is no unusual silence. It had lag before."""
    rounds.hold()
    position = 40
    for _ in range(8):
        position += 480
        rounds.commit(position)
        for _ in range(12):
            rounds.round(0, 20_000)
    rounds.now_ms += 130_000  # Kafka is away
    for _ in range(5):
        rounds.round(position + 3_000, 20_000)
    rounds.commit(position + 3_040)
    for _ in range(4):
        rounds.round(position + 3_000, 20_000)

    assert rounds.lost() == 3_000


# what retention will delete


def behind(rounds: Rounds, log_starts: list[int]) -> tuple[float | None, float | None]:
    """A group reads 10 of 50 messages a round; returns when it loses some, and how near it is."""
    rounds.hold()
    end = 1_000
    for number, log_start in enumerate([0] * 12 + log_starts):
        end += 50
        rounds.commit(100 + 10 * number)
        rounds.round(log_start, end)
    rounds.monitor.judge(EpochMs(rounds.now_ms))
    queries = SnapshotQueries({"here": rounds.monitor}, health=lambda: ())
    found = queries.outlook("here", "g").whole
    return found.loss_in_s, found.retention_used


@pytest.mark.parametrize("log_start", [90, 900])
def test_one_deletion_on_request_is_no_retention(rounds: Rounds, log_start: int) -> None:
    assert behind(rounds, [log_start] * 12) == (None, None)


def test_a_log_start_that_moves_repeatedly_comes_nearer(rounds: Rounds) -> None:
    loss_in_s, used = behind(rounds, [40] * 6 + [90] * 6)

    assert loss_in_s is not None
    assert loss_in_s < 60
    assert used is not None
    assert used > 0.8


def test_a_log_start_above_zero_at_the_first_look_is_that_of_retention() -> None:
    rounds = Rounds()
    for log_end in (1_000, 1_050):
        rounds.round(40, log_end)
        rounds.commit(50)
    rounds.hold()

    assert rounds.monitor.topics.retained_from.tolist() == [40]


class Overtaken:
    """Partitions that one consumer reads in turns, slower than they are written and deleted."""

    KEPT = 3_000
    SEGMENT = 600

    def __init__(self, number: int, *, turn: int, reads: int, commits_at_s: int) -> None:
        """It reads `reads` messages a second, `turn` seconds of one partition, then of the next."""
        self._settings = MonitorSettings(
            intervals=10,
            min_distance_ms=1_000,
            expire_ms=3_600_000,
            allowed_lag=0,
            minimum_complete=0.0,
            history_ms=86_400_000,
        )
        self.monitor = ClusterMonitor("here", self._settings)
        self.now_ms = START_MS
        self._number, self._turn, self._reads = number, turn, reads
        self._commits_at_s = commits_at_s
        self._second = self._order = 0
        self._new = True
        self.position = np.zeros(number, np.int64)
        self.end = np.full(number, 500, np.int64)
        self.lost = 0
        self._kept: list[Any] = []
        self._since: list[tuple[int, Any]] = []
        """Commits since the checkpoint: instant and offsets."""
        self._begin()

    def _begin(self) -> None:
        number = self._number
        self._new = True
        self._apply(CollectorStarted(incarnation=1))
        self._apply(
            Topics(
                version=1,
                names=("t",),
                ids=("id",),
                partitions=np.full(1, number, np.int32),
                leader=np.ones(number, np.int32),
            )
        )
        self._apply(Backlog(read=0, total=0, ready=True))
        member = Member(
            member_id="m",
            client_id="c",
            host="h",
            instance_id="",
            assignment=(("t", tuple(range(number))),),
        )
        info = GroupInfo(
            group="g",
            type="classic",
            state="Stable",
            assignor="range",
            coordinator=1,
            members=(member,),
        )
        self._apply(GroupsSeen(groups=(info,), complete=True))

    def _apply(self, report: Report) -> None:
        self.monitor.apply(report, EpochMs(self.now_ms))

    @property
    def _start(self) -> np.ndarray:
        return np.maximum(self.end - self.KEPT, 0) // self.SEGMENT * self.SEGMENT

    def watch(self, seconds: int, *, writes: int) -> None:
        """Let time pass; a round every five seconds, and a commit of all partitions."""
        for _ in range(seconds):
            self._read_and_write(writes)
            if self._second % 5 == self._commits_at_s:
                self._commit()
            if self._second % 5 == 0:
                self._round()

    def wait(self, seconds: int, *, writes: int) -> None:
        """The same, while lagwatch is killed and started again."""
        if not self._kept:
            self.keep()
        for _ in range(seconds):
            self._read_and_write(writes)
        self.monitor = ClusterMonitor("here", self._settings)
        restore(self.monitor, self._kept, offsets_topic="")
        self._begin()
        for at_ms, offsets in self._since:
            self._tell(at_ms, offsets)

    def keep(self) -> None:
        """Make the checkpoint with which it starts again."""
        self._kept, self._since = list(capture(self.monitor)), []

    def _read_and_write(self, writes: int) -> None:
        self._second += 1
        self.now_ms += 1_000
        self.end += writes
        at = self._second // self._turn % self._number
        skipped = max(int(self._start[at] - self.position[at]), 0)
        self.lost += skipped
        self.position[at] = min(self.position[at] + skipped + self._reads, self.end[at])

    def _round(self) -> None:
        started_ms = self.now_ms - 1_000 + TOOK_MS
        self._apply(
            LogEnds(
                version=1,
                started_ms=EpochMs(started_ms),
                finished_ms=EpochMs(started_ms + TOOK_MS),
                log_start=self._start,
                log_end=self.end.copy(),
                last_stable=self.end.copy(),
            )
        )
        self._apply(CommitsKnown(until_ms=np.array([started_ms])))
        self.monitor.judge(EpochMs(self.now_ms))

    def _commit(self) -> None:
        at_ms, offsets = self.now_ms - 500, self.position.copy()
        self._since.append((at_ms, offsets))
        self._tell(at_ms, offsets)

    def _tell(self, at_ms: int, offsets: np.ndarray) -> None:
        number = self._number
        self._apply(
            Commits(
                first_new_id=0,
                new_groups=("g",) * number if self._new else (),
                new_topics=("t",) * number if self._new else (),
                new_partitions=tuple(range(number)) if self._new else (),
                key=np.arange(number, dtype=np.int32),
                offset=offsets,
                commit_ms=np.full(number, at_ms),
                order=self._order + np.arange(number),
                observed_ms=EpochMs(at_ms + 10),
                exact_times=True,
            )
        )
        self._new = False
        self._order += number

    def counted(self) -> int:
        return int(self.monitor.setbacks.lost(np.arange(self._number)).sum())


class Deleting(Overtaken):
    """A consumer that keeps up, and every few seconds has deleted what it has read."""

    def __init__(self, *, every_s: int, commits_at_s: int) -> None:
        self._every_s = every_s
        self._deleted = np.zeros(1, np.int64)
        super().__init__(1, turn=1, reads=100_000, commits_at_s=commits_at_s)

    @property
    def _start(self) -> np.ndarray:
        return self._deleted.copy()

    def _read_and_write(self, writes: int) -> None:
        super()._read_and_write(writes)
        if self._second % self._every_s == 0:
            self._deleted = self.position.copy()


@pytest.mark.parametrize("kept_s", [-50, 0, 40, None])
@pytest.mark.parametrize("commits_at_s", [1, 3])
@pytest.mark.parametrize("every_s", [1, 16, 19])
def test_who_deletes_what_it_has_read_loses_nothing_over_an_outage(
    every_s: int, commits_at_s: int, kept_s: int | None
) -> None:
    """Nor when lagwatch is killed in it, with a checkpoint of `kept_s` before it began."""
    seen = Deleting(every_s=every_s, commits_at_s=commits_at_s)
    seen.watch(300, writes=60)
    if kept_s is not None and kept_s >= 0:
        seen.keep()
        seen.watch(kept_s, writes=60)
    seen.now_ms += 50_000  # Kafka is away: no messages, no rounds, no commits
    seen.monitor.judge(EpochMs(seen.now_ms))
    if kept_s is not None and kept_s < 0:
        seen.keep()
    seen.now_ms += 23_000
    if kept_s is not None:
        seen.wait(2, writes=0)
    seen.watch(3, writes=60 * 25)  # what was kept
    seen.watch(90, writes=60)

    assert seen.counted() == 0


OVERTAKEN = [
    pytest.param(1, 1, 60, id="one partition"),
    pytest.param(12, 1, 400, id="12 partitions, a second each"),
    pytest.param(12, 5, 1_000, id="12 partitions, 5 s each"),
    pytest.param(24, 2, 1_500, id="24 partitions"),
]


@pytest.mark.parametrize("commits_at_s", [1, 3])
@pytest.mark.parametrize(("number", "turn", "reads"), OVERTAKEN)
def test_what_a_slow_reader_is_said_to_have_lost_is_an_upper_bound(
    number: int, turn: int, reads: int, commits_at_s: int
) -> None:
    seen = Overtaken(number, turn=turn, reads=reads, commits_at_s=commits_at_s)
    seen.watch(300, writes=200)
    said, lost = seen.counted(), seen.lost
    # what was skipped last is known once it has been committed
    seen.watch(number * turn + 30, writes=0)

    assert lost > 1_000
    assert said > lost // 2
    assert seen.lost <= seen.counted() < 1.7 * seen.lost


@pytest.mark.parametrize(("number", "turn", "reads"), OVERTAKEN)
def test_after_a_restart_losses_are_counted_on(number: int, turn: int, reads: int) -> None:
    seen = Overtaken(number, turn=turn, reads=reads, commits_at_s=2)
    seen.watch(240, writes=200)
    seen.wait(20, writes=200)
    seen.watch(number * turn + 60, writes=200)
    said, lost = seen.counted(), seen.lost
    seen.watch(120, writes=200)

    assert seen.counted() - said > 0.8 * (seen.lost - lost)


@pytest.mark.parametrize("commits_at_s", [1, 3])
@pytest.mark.parametrize(("number", "turn", "reads"), [(1, 1, 205), (12, 1, 2_450), (4, 3, 900)])
def test_a_reader_that_keeps_up_right_before_what_is_deleted_loses_nothing(
    number: int, turn: int, reads: int, commits_at_s: int
) -> None:
    seen = Overtaken(number, turn=turn, reads=reads, commits_at_s=commits_at_s)
    seen.watch(300, writes=200)

    assert seen.lost == 0
    assert seen.counted() == 0

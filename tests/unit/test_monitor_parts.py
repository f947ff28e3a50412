"""The parts of a monitor: known commits, members, setbacks, clock skew, states of partitions."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lagwatch.core.evaluate import RowIds, lay_out
from lagwatch.core.model import (
    UNKNOWN,
    EpochMs,
    GroupInfo,
    Member,
    Membership,
    offsets_partition,
)
from lagwatch.core.rows import ABSENCE, longer_from_ms, note_absence, uninterrupted_ms
from lagwatch.core.snapshot import TopicColumns
from lagwatch.monitor.known_commits import KnownCommits
from lagwatch.monitor.members import GroupPatterns, Groups
from lagwatch.monitor.partitions import PartitionStates
from lagwatch.monitor.setbacks import Setbacks
from lagwatch.monitor.skew import ClockSkew
from lagwatch.ports.reports import CommitsKnown, EmptyTails, GroupsSeen, LogEnds


def columns(*values: int):
    return np.array(values, np.int64)


def known(column: NDArray[Any] | None) -> NDArray[Any]:
    assert column is not None
    return column


class TestKnownCommits:
    """Row 0 is of group `g`; the offsets topic has two partitions."""

    def known(self, *until_ms: int, polled=()) -> CommitsKnown:
        return CommitsKnown(until_ms=columns(*until_ms), polled=polled)

    def placed(self, group: str = "g") -> tuple[KnownCommits, int]:
        commits = KnownCommits(away_after_ms=20_000)
        commits.take(self.known(1000, 1000))
        commits.place(np.array([0]), [group], 4)
        return commits, offsets_partition(group, 2)

    def fact(self, commits: KnownCommits, name: str, *, skew_ms: int = 0) -> int:
        """What is known of row 0."""
        facts = commits.facts(skew_ms=skew_ms, all_polled=False)
        assert facts is not None
        return int(getattr(facts, name)[facts.place[0]])

    def test_nothing_is_known_before_the_first_report(self) -> None:
        commits = KnownCommits(away_after_ms=20_000)

        assert commits.until_ms == UNKNOWN
        assert commits.facts(skew_ms=0, all_polled=False) is None

    def test_where_all_offsets_are_polled_that_is_known_before_the_first_report(self) -> None:
        commits = KnownCommits(away_after_ms=20_000)
        commits.place(np.array([0]), ["g"], 4)

        facts = commits.facts(skew_ms=0, all_polled=True)

        assert facts is not None
        assert facts.polled[facts.place].tolist() == [True] * 4
        assert facts.known_ms[facts.place].tolist() == [UNKNOWN] * 4

    def test_another_number_of_partitions_calls_for_new_places(self) -> None:
        commits = KnownCommits(away_after_ms=20_000)

        assert commits.take(self.known(1000))
        assert not commits.take(self.known(2000))
        assert commits.take(self.known(2000, 3000))

    def test_a_row_is_known_up_to_when_its_own_partition_is(self) -> None:
        commits, own = self.placed()
        until_ms = [9000, 9000]
        until_ms[own] = 5000

        commits.take(self.known(*until_ms))

        assert self.fact(commits, "known_ms") == 5000
        assert self.fact(commits, "known_ms", skew_ms=2000) == 3000
        assert commits.until_ms == 9000

    def test_a_partition_that_was_not_read_for_long_was_away(self) -> None:
        commits, _ = self.placed()

        commits.take(self.known(21_000, 21_000))
        assert self.fact(commits, "away_ms") == UNKNOWN
        commits.take(self.known(60_000, 60_000))

        assert self.fact(commits, "away_ms") == 21_000
        assert self.fact(commits, "back_ms") == 60_000

    def test_what_was_known_stays_known(self) -> None:
        commits, _ = self.placed()

        commits.take(self.known(UNKNOWN, UNKNOWN))

        assert self.fact(commits, "known_ms") == 1000

    def test_rows_of_a_partition_that_is_held_back_are_polled(self) -> None:
        commits, own = self.placed()

        commits.take(self.known(1000, 1000, polled=(own,)))
        assert self.fact(commits, "polled")
        commits.take(self.known(1000, 1000, polled=(1 - own,)))
        assert not self.fact(commits, "polled")

    def test_a_partition_is_held_back_since_that_was_first_seen(self) -> None:
        commits, own = self.placed()
        facts = commits.facts(skew_ms=0, all_polled=False)
        assert facts is not None
        assert facts.held_ms is None

        commits.take(self.known(3000, 3000, polled=(own,)))
        commits.take(self.known(9000, 9000, polled=(0, 1)))
        assert self.fact(commits, "held_ms", skew_ms=1000) == 2000
        commits.set_back(2500)
        assert self.fact(commits, "held_ms") == 2500
        commits.take(self.known(9000, 9000, polled=(1 - own,)))
        assert self.fact(commits, "held_ms") == UNKNOWN
        commits.take(self.known(9900, 9900, polled=(own,)))
        assert self.fact(commits, "held_ms") == 9900


ALWAYS = columns(*[UNKNOWN] * 4)
"""Since when four partitions were read: Kafka has never been away."""


def topics(*log_end: int, **more) -> TopicColumns:
    """One topic `t` with so many partitions."""
    unknown = np.full(len(log_end), UNKNOWN, np.int64)
    return TopicColumns(
        names=("t",),
        index={"t": 0},
        first=columns(0, len(log_end)),
        log_start=unknown,
        log_end=columns(*log_end),
        last_stable=more.get("last_stable", unknown),
        leader=np.ones(len(log_end), np.int32),
        ids=("",),
        read_ms=unknown,
        removals=unknown,
    )


class TestGroups:
    """Group `g` has committed partitions 0 and 1 of topic `t`: rows 0 and 1."""

    def groups(self, **patterns: str) -> Groups:
        groups = Groups(GroupPatterns(**patterns), never_commits_ms=300_000)
        groups.make_room(2)
        groups.rows_made(["g"])
        return groups

    def refresh(self, groups: Groups, now_ms: int = 1000, topic: str = "t") -> None:
        groups.refresh(
            lay_out(
                RowIds(
                    group=np.zeros(2, np.int32),
                    topic=np.zeros(2, np.int32),
                    partition=np.arange(2, dtype=np.int32),
                    at=np.arange(2, dtype=np.int32),
                    group_names=["g"],
                    topic_names=[topic],
                ),
                topics(10, 10),
            ),
            now_ms,
        )

    def seen(self, *holds: tuple[str, tuple[int, ...]], state: str = "Stable", members=None):
        held = Member(
            member_id="m", client_id="c", host="h", instance_id="", assignment=tuple(holds)
        )
        info = GroupInfo(
            group="g",
            type="classic",
            state=state,
            assignor="",
            coordinator=1,
            members=(held,) if members is None else members,
        )
        return GroupsSeen(groups=(info,), complete=True)

    def test_a_group_that_was_never_described_has_unknown_members(self) -> None:
        groups = self.groups()

        self.refresh(groups)

        assert groups.membership.tolist() == [Membership.UNKNOWN] * 2

    @pytest.mark.parametrize(
        ("state", "holds", "members", "expected"),
        [
            ("Stable", (0,), None, [Membership.HELD, Membership.UNHELD]),
            ("Empty", (), (), [Membership.EMPTY] * 2),
            ("PreparingRebalance", (0,), None, [Membership.REBALANCING] * 2),
            ("Reconciling", (0,), None, [Membership.REBALANCING] * 2),
            ("Unknown", (), (), [Membership.UNKNOWN] * 2),
        ],
    )
    def test_members_by_partition(self, state, holds, members, expected) -> None:
        groups = self.groups()

        groups.take(self.seen(("t", holds), state=state, members=members), 1000)
        self.refresh(groups)

        assert groups.membership.tolist() == expected

    def test_a_topic_is_left_when_a_stable_group_holds_only_others(self) -> None:
        groups = self.groups()
        groups.take(self.seen(("t", (0,))), 1000)
        self.refresh(groups, 1000)
        assert groups.left_ms is None

        groups.take(self.seen(("other", (0,))), 1000)
        self.refresh(groups, 2000)
        groups.take(self.seen(state="Empty", members=()), 1000)
        self.refresh(groups, 3000)

        assert known(groups.left_ms).tolist() == [2000, 2000]

    def test_a_topic_that_is_held_again_is_not_left(self) -> None:
        groups = self.groups()
        groups.take(self.seen(("other", (0,))), 1000)
        self.refresh(groups)

        assert known(groups.left_ms).tolist() == [1000] * 2
        groups.take(self.seen(("t", (0,))), 1000)
        self.refresh(groups)

        assert known(groups.left_ms).tolist() == [UNKNOWN] * 2

    def test_groups_are_known_as_read_committed_and_as_mirrored_by_their_names(self) -> None:
        groups = self.groups(read_committed="^g", mirrored="g$")

        self.refresh(groups)

        assert (
            known(groups.read_committed).tolist() == known(groups.mirrored).tolist() == [True, True]
        )

    def test_a_memberless_group_on_a_topic_of_a_mirrored_cluster_is_mirrored(self) -> None:
        groups = self.groups()
        groups.topics_changed(["west.checkpoints.internal", "west.orders"])
        groups.take(self.seen(state="Empty", members=()), 1000)

        self.refresh(groups, topic="west.orders")
        assert known(groups.mirrored).tolist() == [True, True]
        groups.take(self.seen(("west.orders", (0,))), 1000)
        self.refresh(groups, topic="west.orders")

        assert known(groups.mirrored).tolist() == [False, False]

    def test_a_group_that_is_not_named_any_more_is_forgotten_but_not_a_refused_one(self) -> None:
        groups = self.groups()
        groups.take(self.seen(("t", (0,))), 1000)

        groups.take(GroupsSeen(groups=(), complete=True, refused=("g",)), 1000)
        assert "g" in groups.info
        groups.take(GroupsSeen(groups=(), complete=False), 1000)
        assert "g" in groups.info
        groups.take(GroupsSeen(groups=(), complete=True), 1000)

        assert (groups.info, groups.owners) == ({}, {})

    def test_a_partition_held_for_five_minutes_with_new_messages_never_commits(self) -> None:
        groups = self.groups()
        groups.take(self.seen(("t", (0, 1, 2, 3))), 1000)
        self.refresh(groups, 1000)

        assert groups.never_commit(topics(10, 10, 10, 10), 1000, ALWAYS) == {}
        assert groups.never_commit(topics(11, 11, 10, 11), 2000, ALWAYS) == {}
        assert groups.never_commit(topics(11, 11, 11, 11), 301_999, ALWAYS) == {}
        found = groups.never_commit(topics(11, 11, 11, 11), 302_000, ALWAYS)

        # 0 and 1 are committed, 2 got its first messages a moment ago
        assert found == {("g", "t", 3): 1000}

    def test_a_partition_whose_messages_are_of_an_open_transaction_is_waited_for(self) -> None:
        groups = self.groups()
        groups.take(self.seen(("t", (0, 1, 2, 3))), 1000)
        self.refresh(groups, 1000)
        held_back = topics(20, 20, 20, 20, last_stable=columns(10, 10, 10, 10))

        groups.never_commit(topics(10, 10, 10, 10), 1000, ALWAYS)
        for at_ms in 2000, 900_000:
            assert groups.never_commit(held_back, at_ms, ALWAYS) == {}

    def test_while_kafka_is_away_no_group_counts_as_one_that_never_commits(self) -> None:
        groups, messages = self.groups(), topics(11, 11, 11, 11)
        groups.take(self.seen(("t", (0, 1, 2, 3))), 1000)
        self.refresh(groups, 1000)
        groups.never_commit(topics(10, 10, 10, 10), 1000, ALWAYS)
        groups.never_commit(messages, 2000, ALWAYS)

        # away from 200 s to 400 s, and so for as long as it has been there again
        assert groups.never_commit(messages, 350_000, columns(*[350_000] * 4)) == {}
        back_ms = columns(*[400_000] * 4)
        assert groups.never_commit(messages, 699_999, back_ms) == {}
        found = groups.never_commit(messages, 700_000, back_ms)

        assert set(found) == {("g", "t", 2), ("g", "t", 3)}

    @pytest.mark.parametrize(("away_ms", "since_ms"), [(200_000, 1000), (300_000, 900_000)])
    def test_members_that_are_away_for_a_moment_have_held_on(self, away_ms, since_ms) -> None:
        groups = self.groups()
        held, none = self.seen(("t", (0, 1, 3))), self.seen(state="Empty", members=())
        left_ms = 900_000 - away_ms
        for seen, at_ms in (held, 1000), (none, left_ms), (held, 900_000):
            groups.take(seen, 1000)
            self.refresh(groups, at_ms)
            groups.never_commit(topics(at_ms, at_ms, at_ms, at_ms), at_ms, ALWAYS)
            if seen is none:
                assert groups.never_commit(topics(*[at_ms + 1] * 4), at_ms + 1, ALWAYS) == {}

        groups.never_commit(topics(*[2_000_000] * 4), 1_000_000, ALWAYS)
        found = groups.never_commit(topics(*[2_000_000] * 4), 1_300_000, ALWAYS)
        assert found == {("g", "t", 3): since_ms}

    @pytest.mark.parametrize("joins_again", [True, False])
    def test_a_group_that_kafka_removed_goes_on_when_its_member_joins_again(
        self, joins_again
    ) -> None:
        groups = self.groups()
        groups.take(self.seen(("t", (0, 1, 3))), 1000)
        self.refresh(groups, 1000)
        groups.never_commit(topics(10, 10, 10, 10), 1000, ALWAYS)
        groups.never_commit(topics(11, 11, 11, 11), 2000, ALWAYS)
        found = {("g", "t", 3): 1000}
        assert groups.never_commit(topics(11, 11, 11, 11), 302_000, ALWAYS) == found

        groups.gone("g")
        groups.take(
            self.seen(("t", (0, 1, 3))) if joins_again else GroupsSeen(groups=(), complete=True),
            310_000,
        )
        self.refresh(groups, 310_000)

        after = groups.never_commit(topics(11, 11, 11, 11), 310_000, ALWAYS)
        assert after == (found if joins_again else {})

    def test_a_row_that_is_given_up_leaves_nothing_to_its_next_owner(self) -> None:
        groups = self.groups(read_committed="^g", mirrored="^g")
        groups.take(self.seen(("other", (0,))), 1000)
        self.refresh(groups)

        groups.clear(np.arange(2))
        groups.make_room(3)

        assert groups.membership.tolist() == [Membership.UNKNOWN] * 3
        assert known(groups.left_ms).tolist() == [UNKNOWN] * 3
        assert not known(groups.mirrored).any()
        assert not known(groups.read_committed).any()


class TestSetbacks:
    @pytest.fixture
    def setbacks(self) -> Setbacks:
        setbacks = Setbacks(loss_shown_ms=1000)
        setbacks.make_room(3)
        return setbacks

    def follow(self, setbacks: Setbacks, before: int, *offsets: int) -> None:
        """Row 1 commits these offsets, a second apart."""
        size = len(offsets)
        setbacks.follow(
            np.ones(size, np.int64),
            columns(before, *offsets[:-1]),
            columns(*offsets),
            1000 * np.arange(1, size + 1),
        )

    def test_losses_that_go_on_have_one_beginning(self, setbacks) -> None:
        for now_ms, until in ((10_000, 5), (10_900, 7), (11_800, 9)):
            setbacks.lose(1, messages=2, until=until, now_ms=now_ms, exact=True)
        went_on = int(known(setbacks.column("lost_since_ms"))[1])
        setbacks.lose(1, messages=2, until=11, now_ms=13_000, exact=True)
        after_a_while = int(known(setbacks.column("lost_since_ms"))[1])
        setbacks.acknowledge(np.array([1]))
        setbacks.lose(1, messages=2, until=13, now_ms=13_100, exact=True)

        assert (went_on, after_a_while) == (10_000, 13_000)
        assert known(setbacks.column("lost_since_ms"))[1] == 13_100

    def test_columns_come_with_the_first_of_their_kind(self, setbacks) -> None:
        self.follow(setbacks, 10, 20, 30)

        assert setbacks.column("rewound_from") is None
        assert setbacks.column("lost") is None

    def test_an_offset_that_went_back_is_marked_with_where_it_was(self, setbacks) -> None:
        self.follow(setbacks, 10, 20, 5, 7)

        assert setbacks.column("rewound_from").tolist() == [UNKNOWN, 20, UNKNOWN]
        assert setbacks.column("rewound_ms").tolist() == [UNKNOWN, 2000, UNKNOWN]

    def test_one_that_went_back_twice_is_compared_with_the_first_fall(self, setbacks) -> None:
        self.follow(setbacks, 10, 20, 15, 5)
        self.follow(setbacks, 5, 3)

        assert setbacks.column("rewound_from")[1] == 20
        assert setbacks.column("rewound_ms")[1] == 2000
        assert setbacks.column("rewound_again_ms")[1] == 1000  # of the later batch

    @pytest.mark.parametrize("offsets", [(20, 5, 20), (20, 5, 25)])
    def test_one_that_returned_is_not_rewound(self, setbacks, offsets) -> None:
        self.follow(setbacks, 10, *offsets)

        assert setbacks.column("rewound_from").tolist() == [UNKNOWN] * 3

    def test_one_that_returned_and_went_back_anew_did_so_the_second_time(self, setbacks) -> None:
        self.follow(setbacks, 10, 20, 500, 400)

        self.follow(setbacks, 400, 500, 400)  # read at once after a restart

        assert setbacks.column("rewound_ms")[1] == 2000
        assert setbacks.column("rewound_from")[1] == 500

    @given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=12))
    def test_commits_read_at_once_are_followed_as_one_by_one(self, commits) -> None:
        at_once, one_by_one = (Setbacks(loss_shown_ms=1000) for _ in range(2))
        at_once.make_room(3)
        one_by_one.make_room(3)
        commits = sorted(commits, key=lambda commit: commit[0])
        newest: dict[int, int] = {}
        before = []
        for row, offset in commits:
            before.append(newest.get(row, -1))
            newest[row] = offset
        rows, offsets = (np.array([each[at] for each in commits], np.int64) for at in (0, 1))
        at_ms = 1000 * np.arange(1, len(commits) + 1)

        at_once.follow(rows, np.array(before, np.int64), offsets, at_ms)
        for at in range(len(commits)):
            one = slice(at, at + 1)
            one_by_one.follow(rows[one], np.array(before[one], np.int64), offsets[one], at_ms[one])

        for name in ("rewound_from", "rewound_ms", "rewound_again_ms"):
            found, expected = at_once.column(name), one_by_one.column(name)
            assert (found is None) == (expected is None)
            assert found is None or found.tolist() == known(expected).tolist()

    def test_losses_add_up_and_are_shown_until_they_are_acknowledged(self, setbacks) -> None:
        rows = np.array([0, 1])
        assert setbacks.lost(rows).tolist() == [0, 0]
        assert setbacks.acknowledge(rows) == 0

        setbacks.lose(1, messages=5, until=15, now_ms=1000, exact=True)
        setbacks.lose(1, messages=7, until=22, now_ms=2000, exact=True)

        assert setbacks.lost(rows).tolist() == [0, 12]
        assert setbacks.counted_until(rows).tolist() == [UNKNOWN, 22]
        assert setbacks.column("lost_ms").tolist() == [UNKNOWN, 2000, UNKNOWN]
        assert setbacks.acknowledge(rows) == 1
        assert setbacks.column("lost_ms").tolist() == [UNKNOWN] * 3
        assert setbacks.lost(rows).tolist() == [0, 12]

    def test_of_what_was_acknowledged_neither_number_nor_bound_is_shown_again(
        self, setbacks
    ) -> None:
        setbacks.lose(1, messages=5, until=15, now_ms=1000, exact=False)
        setbacks.acknowledge(np.array([1]))

        setbacks.lose(1, messages=7, until=22, now_ms=2000, exact=True)

        assert setbacks.lost(np.array([1])).tolist() == [12]
        assert setbacks.column("lost_acknowledged").tolist() == [0, 5, 0]
        assert setbacks.column("lost_bound").tolist() == [0, 0, 0]

    def test_growing_and_clearing_keep_other_rows(self, setbacks) -> None:
        setbacks.lose(0, messages=5, until=15, now_ms=1000, exact=True)
        setbacks.lose(1, messages=6, until=16, now_ms=1000, exact=True)

        setbacks.make_room(4)
        setbacks.clear(np.array([0]))

        assert setbacks.lost(np.arange(4)).tolist() == [0, 6, 0, 0]
        assert setbacks.counted_until(np.arange(4)).tolist() == [UNKNOWN, 16, UNKNOWN, UNKNOWN]


class TestClockSkew:
    def skew(self, *took_ms: int, every_ms: int = 1000) -> ClockSkew:
        skew = ClockSkew()
        for number, each in enumerate(took_ms):
            observed_ms = 1_000_000 + number * every_ms
            skew.see(newest_commit_ms=observed_ms - each, observed_ms=observed_ms)
        return skew

    def test_a_few_batches_say_nothing(self) -> None:
        assert self.skew(*[30_000] * 9).known_ms is None
        assert self.skew(*[30_000] * 9).corrected_ms == 0

    @pytest.mark.parametrize("ahead_ms", [30_000, -30_000])
    def test_the_quickest_batch_says_the_skew(self, ahead_ms) -> None:
        delays_ms = [500, 100, 900, 40, 3000, 200, 200, 200, 200, 200]

        skew = self.skew(*[ahead_ms + delay for delay in delays_ms])

        assert skew.corrected_ms == ahead_ms + 40

    @pytest.mark.parametrize("least_ms", [0, 2000, -2000])
    def test_what_may_be_the_way_of_the_commits_is_not_corrected(self, least_ms) -> None:
        assert self.skew(*[least_ms] * 20).corrected_ms == 0

    def test_a_clock_that_was_set_right_is_believed_after_ten_minutes(self) -> None:
        wrong, right = [-30_000] * 10, [100] * 12

        assert self.skew(*wrong, *right[:2], every_ms=60_000).corrected_ms == -30_000
        assert self.skew(*wrong, *right, every_ms=60_000).corrected_ms == 0

    def test_once_the_clock_was_set_the_next_batches_say_the_skew(self) -> None:
        skew = self.skew(*[100] * 20)

        skew.forget(5_000_000, 7_200_000)
        at_once, too_early = skew.known_ms, skew.set_ahead()
        for number in range(3):
            skew.see(newest_commit_ms=number * 1000, observed_ms=7_200_000 + number * 1000)

        assert (at_once, too_early) == (None, None)
        assert skew.corrected_ms == 7_200_000
        assert (skew.set_ahead(), skew.set_ahead()) == ((5_000_000, 7_200_000 - 100), None)

    def test_a_time_in_which_lagwatch_did_not_run_sets_no_clock_ahead(self) -> None:
        skew = self.skew(*[100] * 20)

        skew.forget(5_000_000, 5_060_000)
        for number in range(3):
            made_ms = 5_070_000 + number * 1000
            skew.see(newest_commit_ms=made_ms, observed_ms=made_ms + 300)

        assert (skew.known_ms, skew.set_ahead()) == (300, None)

    def test_reports_made_before_the_clock_was_set_say_nothing_of_it(self) -> None:
        """They waited to be taken in, and would show that the clock is right."""
        skew = self.skew(*[100] * 20)
        ahead_ms = 40 * 86_400_000
        set_ms = 1_030_000 + ahead_ms

        skew.forget(1_030_000, set_ms)
        for number in range(5):
            skew.see(newest_commit_ms=1_028_000 + number, observed_ms=1_028_100 + number)
        at_once = skew.witnessed_ms
        for number in range(3):
            made_ms = 1_040_000 + number * 1000
            skew.see(newest_commit_ms=made_ms, observed_ms=made_ms + ahead_ms + 50)
        known = skew.witnessed_ms, skew.corrected_ms
        skew.set_back(1_050_000)
        for number in range(3):
            skew.see(newest_commit_ms=1_050_000 + number, observed_ms=1_050_090 + number)

        assert at_once is None
        assert known == (ahead_ms + 50, ahead_ms + 50)
        assert skew.witnessed_ms == 90

    def test_reports_made_before_the_clock_was_set_back_do_not_say_that_it_is_right(self) -> None:
        skew = self.skew(*[100] * 20)

        skew.doubt(1_020_000 - 300_000)
        at_once = skew.witnessed_ms
        for number in range(3):
            skew.see(newest_commit_ms=1_020_000 + number, observed_ms=1_020_100 + number)
        waited = skew.witnessed_ms
        for number in range(3):
            made_ms = 1_030_000 + number * 200_000
            skew.see(newest_commit_ms=made_ms, observed_ms=made_ms - 600_000 + 70)

        assert (at_once, waited, skew.witnessed_ms) == (None, None, -600_000 + 70)

    def test_what_an_earlier_process_saw_is_no_witness(self) -> None:
        restored = ClockSkew()
        restored.seen = self.skew(*[100] * 20).seen
        before = restored.known_ms, restored.witnessed_ms
        for number in range(3):
            made_ms = 2_000_000 + number
            restored.see(newest_commit_ms=made_ms, observed_ms=made_ms + 3_000_000)

        assert before == (100, None)
        assert restored.witnessed_ms == 3_000_000


class TestPartitionStates:
    def round(self, at_s: int, log_end, last_stable=None, asked=None) -> LogEnds:
        ends = columns(*log_end)
        return LogEnds(
            version=1,
            started_ms=EpochMs(at_s * 1000),
            finished_ms=EpochMs(at_s * 1000 + 500),
            log_start=np.zeros_like(ends),
            log_end=ends,
            last_stable=ends if last_stable is None else columns(*last_stable),
            asked=None if asked is None else np.array(asked, np.bool_),
        )

    def states(self, partitions: int) -> PartitionStates:
        states = PartitionStates(away_after_ms=20_000)
        states.remap(np.full(partitions, UNKNOWN, np.int64))
        return states

    def read(self, states: PartitionStates, name: str, *ends: int, skew_ms: int = 0):
        """A column without the last element, which stands for what is not visible."""
        found = states.columns(topics(*ends), columns(*ends), columns(*ends), skew_ms=skew_ms)
        column = getattr(found, name).tolist()
        assert column[-1] == UNKNOWN
        return column[:-1]

    def test_a_partition_that_did_not_answer_for_long_was_away(self) -> None:
        states = self.states(2)
        states.round(self.round(10, (5, 5)), topics(5, 5))
        states.round(self.round(30, (5, -1)), topics(5, 5))

        states.round(self.round(50, (5, 5)), topics(5, 5))

        away_ms, back_ms, *before = states.absences(np.array([0, 1, -1]), skew_ms=0)
        assert away_ms.tolist() == [UNKNOWN, 10_000, UNKNOWN]
        assert back_ms.tolist() == [UNKNOWN, 50_000, UNKNOWN]
        assert [each.tolist() for each in before] == [[UNKNOWN] * 3] * 5
        assert self.read(states, "known_ms", 5, 5) == [50_000, 50_000]

    def test_a_partition_that_was_not_asked_is_taken_to_rest(self) -> None:
        states = self.states(2)
        for at_s, asked in ((0, None), (10, (True, False)), (20, (True, False)), (30, None)):
            states.round(self.round(at_s, (5, 5), asked=asked), topics(5, 5))

        assert self.read(states, "known_ms", 5, 5) == [30_000, 30_000]
        assert self.read(states, "back_ms", 5, 5) == [UNKNOWN, UNKNOWN]

    def test_one_that_is_asked_in_vain_is_known_up_to_its_last_answer(self) -> None:
        states = self.states(2)
        for at_s, asked in ((0, None), (10, (True, False)), (20, (True, False))):
            states.round(self.round(at_s, (5, 5), asked=asked), topics(5, 5))
        states.round(self.round(30, (5, -1)), topics(5, 5))
        known = self.read(states, "known_ms", 5, 5)

        states.round(self.round(40, (5, 5)), topics(5, 5))

        assert known == [30_000, 0]
        away_ms, back_ms, *_ = states.absences(np.array([0, 1]), skew_ms=0)
        assert (away_ms.tolist(), back_ms.tolist()) == ([UNKNOWN, 0], [UNKNOWN, 40_000])

    def test_a_transaction_holds_since_the_last_stable_offset_rests(self) -> None:
        states = self.states(1)
        held = []
        for at_s, end, stable in ((10, 5, 5), (20, 9, 5), (30, 12, 5), (40, 15, 12), (50, 15, 15)):
            before = topics(0, last_stable=columns(5 if at_s < 50 else 12))
            states.round(self.round(at_s, (end,), (stable,)), before)
            held += self.read(states, "held_ms", end)

        assert held == [UNKNOWN, 20_000, 20_000, 40_000, UNKNOWN]

    def test_an_unread_partition_is_held_as_before(self) -> None:
        states = self.states(1)
        states.round(self.round(10, (9,), (5,)), topics(9, last_stable=columns(5)))

        states.round(self.round(20, (-1,), (-1,)), topics(9, last_stable=columns(5)))

        assert self.read(states, "held_ms", 9) == [10_000]

    def test_empty_tails_are_joined_where_they_end_alike(self) -> None:
        states = self.states(2)
        for first, end in ((40, 50), (30, 50)):
            states.tails(self.tail("t", 1, first, end), topics(50, 50))

        assert self.read(states, "empty_first", 50, 50) == [UNKNOWN, 30]
        states.tails(self.tail("t", 1, 55, 60), topics(50, 60))

        assert self.read(states, "empty_first", 50, 60) == [UNKNOWN, 55]
        assert self.read(states, "empty_end", 50, 60) == [UNKNOWN, 60]

    @pytest.mark.parametrize(("topic", "partition"), [("other", 0), ("t", 2)])
    def test_a_tail_of_what_is_not_visible_is_left_out(self, topic, partition) -> None:
        states = self.states(2)

        states.tails(self.tail(topic, partition, 1, 2), topics(5, 5))

        assert self.read(states, "empty_first", 5, 5) == [UNKNOWN, UNKNOWN]

    def tail(self, topic: str, partition: int, first: int, end: int) -> EmptyTails:
        return EmptyTails(
            topic=(topic,),
            partition=np.array([partition], np.int32),
            first=columns(first),
            end=columns(end),
        )

    def test_partitions_keep_their_state_when_topics_change(self) -> None:
        states = self.states(2)
        states.round(self.round(10, (5, 6)), topics(5, 6))

        states.remap(columns(UNKNOWN, 1, 0))

        assert self.read(states, "known_ms", 7, 6, 5) == [UNKNOWN, 10_000, 10_000]

    def test_instants_are_reported_on_kafkas_clock(self) -> None:
        states = self.states(2)
        states.round(self.round(10, (5, -1)), topics(5, 5))

        assert self.read(states, "known_ms", 5, 5, skew_ms=3000) == [7_000, UNKNOWN]


class TestUninterrupted:
    def remembered(self, absences: list[tuple[int, int]]) -> list[NDArray[np.int64]]:
        """`ABSENCE` after these, each of so long a presence and the absence after it."""
        found = [np.array([UNKNOWN]) for _ in ABSENCE]
        at = 0
        for known, absent in absences:
            away, at = at + known, at + known + absent
            note_absence(found, np.array([True]), np.array([away]), np.array([at]))
        return found

    @given(
        since=st.integers(0, 3_000_000),
        length=st.integers(0, 1_000_000),
        absences=st.lists(st.tuples(st.integers(1, 900_000), st.integers(1, 400_000)), max_size=6),
        rejoin=st.integers(0, 400_000),
        left=st.integers(0, 3_000_000),
    )
    def test_the_best_run_of_times_with_kafka_counts_with_the_time_to_rejoin_taken_off(
        self, since, length, absences, rejoin, left
    ) -> None:
        at, there = 0, []
        for known, absent in absences:
            used = max(at + known - left, 0)
            there.append((at, at + known, max(min(rejoin, 60_000 + 4 * absent) - used, 0)))
            at += known + absent
        until = max(at, since) + length
        # three absences are remembered, and so four times with Kafka
        there = [*there, (at, until, 0)][-4:]
        sums = [
            sum(max(0, end - max(since, first)) for first, end, _ in there[begin:stop])
            - sum(grace for _, _, grace in there[begin : stop - 1])
            for begin in range(len(there))
            for stop in range(begin + 1, len(there) + 1)
            if since < there[begin][1] or begin == len(there) - 1
        ]

        columns = [np.array([each]) for each in (since, until)]
        absence, left_ms = self.remembered(absences), np.array([left])
        found = uninterrupted_ms(*columns, *absence, rejoin_ms=rejoin, left_ms=left_ms)

        assert found[0] == max(sums)

    def test_a_broker_that_freezes_now_and_then_does_not_make_a_silence_forgotten(self) -> None:
        minute = 60_000
        # quiet from the second minute on; frozen for a minute, down for two, frozen for 12 s twice
        absences = [(4 * minute, minute), (4 * minute, 2 * minute), (4 * minute, 12_000)]
        absences.append((4 * minute, 12_000))

        columns = [np.array([each * minute]) for each in (2, 23)]
        found = uninterrupted_ms(*columns, *self.remembered(absences))

        assert found[0] >= 8 * minute

    @given(
        since=st.integers(0, 1000),
        away=st.integers(0, 1000),
        absent=st.integers(1, 300),
        than=st.integers(0, 2000),
        rejoin=st.integers(0, 300),
    )
    def test_the_time_on_both_sides_of_an_absence_counts_but_for_that_to_rejoin(
        self, since, away, absent, than, rejoin
    ) -> None:
        absence = self.remembered([(away, absent)])
        first = np.array([since])

        from_ms = longer_from_ms(first, than, *absence, rejoin_ms=rejoin)
        until = np.maximum(from_ms, away + absent)
        long = uninterrupted_ms(first, until, *absence, rejoin_ms=rejoin)[0]
        short = uninterrupted_ms(first, until - 1, *absence, rejoin_ms=rejoin)[0]

        assert long > than
        assert short <= than or until[0] == away + absent or from_ms[0] < since
        if since < away:
            rest = max(until[0] - away - absent, 0)
            assert long == max(away - since, rest, away - since + rest - rejoin)

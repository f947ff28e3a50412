"""How the state of share groups is followed, and what is said where they cannot be described."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from lagwatch.core.model import GroupInfo, Member, SharePartition
from lagwatch.core.wire import CommitKeys
from lagwatch.errors import SourceError
from lagwatch.monitor.shares import Shares
from lagwatch.pollers.committed import CommittedPoller
from lagwatch.pollers.groups import GroupPoller
from lagwatch.pollers.loop import Wake
from lagwatch.pollers.share_state import (
    SHARE_STATE_TOPIC,
    CommittedWithShares,
    ShareStatePoller,
)
from lagwatch.ports.kafka import GroupDescriptions
from lagwatch.ports.reports import CollectorFacts, Commits, GroupsSeen, SharesSeen
from tests.support.kafka_doubles import ORDERS, InMemoryGroups, InMemoryStateTopic, InMemoryTopics
from tests.unit.test_pollers import Desk

OTHER = "m4DYeKQPTbucaw6r_k4FdA"


class DescribedGroups:
    """Share groups that can be described, or not."""

    def __init__(self) -> None:
        self.problem = ""

    async def describe(self, names: Sequence[str]) -> GroupDescriptions:
        if self.problem:
            return GroupDescriptions(
                infos=(), refused=(), missing=(), problems=dict.fromkeys(names, self.problem)
            )
        infos = tuple(
            GroupInfo(
                group=name,
                type="share",
                state="Stable",
                assignor="simple",
                coordinator=-1,
                members=(
                    Member(member_id="m", client_id="c", host="/h", instance_id="", assignment=()),
                ),
            )
            for name in names
        )
        return GroupDescriptions(infos=infos, refused=(), missing=(), problems={})


class Scene:
    """A poller of the state topic with its surroundings."""

    def __init__(self, *, commits: bool = True, visible: bool = True) -> None:
        topics = {"orders": (ORDERS, [1])}
        if visible:
            topics[SHARE_STATE_TOPIC] = ("state", [1])
        self.topics = InMemoryTopics(topics)
        self.desk = Desk(self.topics)
        self.groups_source = InMemoryGroups({})
        self.groups_source.others = ("g",)
        self.described = DescribedGroups()
        self.groups = GroupPoller(
            self.groups_source,
            filters=self.desk.filters,
            facts=self.desk.facts,
            clock=self.desk.clock,
            send=self.desk.outbox,
            wake=Wake(),
            interval_s=30.0,
            counts=lambda: True,
            others=self.described,
        )
        self.topic = InMemoryStateTopic([])
        self.poller = ShareStatePoller(
            lambda: self.topic,
            self.desk.surroundings(self.groups),
            cluster="c",
            keys=CommitKeys(self.desk.filters.commit),
            commits=lambda: commits,
        )
        self.run(self.desk.topics.poll_once)
        self.run(self.groups.poll_once)

    def run(self, *rounds: Callable[[], object]) -> None:
        async def all_of_them() -> None:
            for each in rounds:
                await each()  # type: ignore[misc]  # they are methods of pollers

        asyncio.run(all_of_them())

    def poll(self) -> None:
        self.run(self.poller.poll_once)

    def rows(self) -> list[tuple[int, int, int]]:
        """Offset, time and order of all commits so far."""
        return [
            row
            for report in self.desk.outbox.of(Commits)
            for row in zip(
                report.offset.tolist(),
                report.commit_ms.tolist(),
                report.order.tolist(),
                strict=True,
            )
        ]

    def unseen(self) -> str:
        asyncio.run(self.desk.facts.send(now=True))
        facts = self.desk.outbox.of(CollectorFacts)
        return " ".join(facts[-1].unseen) if facts else ""


def test_a_reader_that_is_stuck_while_there_is_more_is_replaced_and_that_is_said() -> None:
    scene = Scene()
    scene.topic.write(1_000, 0, 8)
    scene.poll()
    scene.topic.write(2_000, 4, 6)
    scene.topic.stuck = True
    said, after_s = "", 0

    for second in range(60):
        scene.run(lambda: scene.desk.clock.sleep(1))
        try:
            scene.poll()
        except SourceError as error:
            said, after_s = str(error), second
    unseen = scene.unseen()

    assert "nothing was read of 1 partitions of __share_group_state for 30 s" in said
    assert "reading goes on with a new client" in said
    assert 30 <= after_s <= 50
    assert [row[1] for row in scene.rows()] == [1_000, 2_000], "what was missed is read"
    assert not unseen


def test_what_is_done_is_sent_as_commits_with_the_times_of_their_records() -> None:
    scene = Scene()
    scene.topic.write(1_000, -1, 0)
    scene.topic.write(2_000, 0, 8)
    scene.topic.write(3_000, 4, 6)

    scene.poll()

    assert scene.rows() == [(8, 2_000, 1), (10, 3_000, 2)], "a state only set up is no commit"
    (commits,) = scene.desk.outbox.of(Commits)
    assert (commits.new_groups, commits.new_topics, commits.new_partitions) == (
        ("g",),
        ("orders",),
        (0,),
    )
    assert commits.exact_times
    assert commits.beside
    (seen,) = scene.desk.outbox.of(SharesSeen)
    assert seen.partitions["g", "orders", 0] == SharePartition(
        start_offset=4, completed=6, delivered_again=0, most_deliveries=0
    )


def test_a_record_that_leaves_the_position_as_it_was_is_no_commit() -> None:
    scene = Scene()
    scene.topic.write(1_000, 3, 2)
    scene.topic.write(2_000, 3, 2)
    scene.poll()
    scene.topic.snapshot(300_000, 3, 2)
    scene.poll()
    scene.topic.snapshot(600_000, 5, 0)

    scene.poll()

    assert scene.rows() == [(5, 1_000, 0)], "Kafka writes snapshots of what rests, too"
    shown = scene.desk.outbox.of(SharesSeen)[-1].partitions["g", "orders", 0]
    assert shown is not None
    assert shown.start_offset == 5, "what changed without a move is shown"

    scene.topic.write(700_000, 6, 0)
    scene.poll()
    assert scene.rows()[-1] == (6, 700_000, 4)


def test_a_state_at_rest_whose_topic_gets_its_name_later_has_the_time_of_its_change() -> None:
    scene = Scene()
    scene.topic.write(1_000, 3, 0, OTHER)
    scene.poll()
    scene.topic.snapshot(300_000, 3, 0, OTHER)
    scene.poll()

    scene.topics.topics["payments"] = (OTHER, [1])
    scene.run(scene.desk.topics.poll_once)
    scene.topic.snapshot(600_000, 3, 0, OTHER)
    scene.poll()

    assert scene.rows() == [(3, 1_000, 0)]


def test_a_position_that_a_new_collector_reads_again_counts_only_where_it_moved() -> None:
    scene = Scene()
    scene.topic.snapshot(300_000, 3, 2)

    scene.poll()

    (commits,) = scene.desk.outbox.of(Commits)
    assert commits.only_changes, "the snapshot may be younger than the change"


def test_a_state_of_a_topic_not_known_yet_waits_for_its_name() -> None:
    scene = Scene()
    scene.topic.write(1_000, 3, 0, OTHER)
    scene.poll()
    assert scene.rows() == []

    scene.topics.topics["payments"] = (OTHER, [1])
    scene.run(scene.desk.topics.poll_once)
    scene.poll()

    assert scene.rows() == [(3, 1_000, 0)]
    assert scene.desk.outbox.of(Commits)[-1].new_topics == ("payments",)


def test_a_removed_state_takes_its_commits_away() -> None:
    scene = Scene()
    scene.topic.write(1_000, 3, 0)
    scene.poll()

    scene.topic.remove(2_000)
    scene.poll()

    assert scene.rows()[-1] == (-1, 2_000, 1)
    assert scene.desk.outbox.of(SharesSeen)[-1].partitions == {("g", "orders", 0): None}


def test_where_reading_becomes_refused_nothing_looks_like_silence() -> None:
    scene = Scene()
    scene.topic.write(1_000, 3, 0)
    scene.poll()

    scene.topic.refuses = True
    with pytest.raises(SourceError):
        scene.poll()

    assert scene.rows()[-1][0] == -1
    assert scene.unseen() == (
        "1 share group: what they have done is not visible: grant: Allow READ on TOPIC it"
    )
    scene.topic.refuses = False
    scene.poll()
    assert scene.rows()[-1][0] == 3, "and it comes back"
    assert scene.unseen() == ""


def test_a_hidden_state_topic_is_said_with_the_number_of_share_groups() -> None:
    scene = Scene(visible=False)
    scene.groups_source.others = ()
    scene.poll()
    assert "1 share group: what they have done is not visible" in scene.unseen()

    scene.run(lambda: scene.desk.clock.sleep(30.0), scene.groups.poll_once)
    scene.poll()

    assert "share group" not in scene.unseen(), "nothing to be said where there are none"


def test_polls_get_what_share_groups_have_done_among_the_other_groups() -> None:
    scene = Scene(commits=False)
    scene.groups_source.offsets = {"classic": {("orders", 0): 7}}
    scene.topic.write(1_000, 3, 2)
    scene.poll()
    assert scene.rows() == []
    source = CommittedWithShares(
        scene.groups_source, scene.poller, groups=scene.groups, clock=scene.desk.clock
    )

    async def asked() -> dict[str, list[int]]:
        return {
            answer.group: list(answer.offsets)
            async for answers in source.committed(["classic", "g"])
            for answer in answers
        }

    assert asyncio.run(asked()) == {"classic": [7], "g": [5]}


def test_where_offsets_are_polled_what_a_share_group_has_done_comes_with_its_position() -> None:
    scene = Scene(commits=False)
    source = CommittedWithShares(
        scene.groups_source, scene.poller, groups=scene.groups, clock=scene.desk.clock
    )
    poller = CommittedPoller(
        source,
        scene.groups_source,
        scene.desk.surroundings(scene.groups),
        interval_s=5.0,
        sent=scene.poller.polled,
    )

    def sent() -> list[tuple[list[int], int]]:
        """Offsets of the newest commits, and start offset of the newest states."""
        commits = [each.offset.tolist() for each in scene.desk.outbox.of(Commits)]
        starts = [
            state.start_offset
            for each in scene.desk.outbox.of(SharesSeen)
            for state in each.partitions.values()
            if state is not None
        ]
        return list(zip(commits, starts, strict=True))

    scene.topic.write(1_000, 3, 2)
    scene.poll()
    assert sent() == [], "the state waits for the poll"
    scene.run(poller.poll_once)
    assert sent() == [([5], 3)]

    scene.topic.write(2_000, 9, 0)
    scene.poll()
    assert len(sent()) == 1
    scene.run(poller.poll_once)
    assert sent()[1:] == [([9], 9)]


def test_groups_that_cannot_be_described_are_said_by_kind_and_keep_what_was_known() -> None:
    scene = Scene()
    scene.described.problem = "kafka-python is not installed"
    scene.groups_source.others = ("g", "h")
    scene.groups.is_kind("h", "streams")

    scene.run(lambda: scene.desk.clock.sleep(30.0), scene.groups.poll_once)

    last = scene.desk.outbox.of(GroupsSeen)[-1]
    assert [(each.group, each.type, each.state) for each in last.groups] == [
        ("h", "streams", "Unknown")
    ]
    assert not last.complete, "g is there all the same"
    assert scene.unseen() == (
        "1 share group: state and members are not visible: kafka-python is not installed "
        "1 streams group: state and members are not visible: kafka-python is not installed"
    )


def test_states_are_kept_by_group_until_they_are_removed() -> None:
    shares = Shares()
    partition = SharePartition(start_offset=1, completed=0, delivered_again=0, most_deliveries=0)
    shares.take(SharesSeen(partitions={("g", "t", 0): partition, ("g", "t", 1): partition}))
    before = shares.by_group

    shares.take(SharesSeen(partitions={("g", "t", 0): None}))

    assert shares.by_group == {"g": {("t", 1): partition}}
    assert before == {"g": {("t", 0): partition, ("t", 1): partition}}, (
        "a snapshot keeps what it had"
    )
    shares.take(SharesSeen(partitions={("g", "t", 1): None}))
    assert shares.by_group == {}

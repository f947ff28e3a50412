"""Which log ends are looked at for control records, how often, and what is reported."""

import asyncio

import numpy as np

from lagwatch.core.model import EpochMs
from lagwatch.pollers.facts import Facts
from lagwatch.pollers.known import LastOffsets
from lagwatch.pollers.loop import EndsRound, PartitionEnds
from lagwatch.pollers.tails import TailPoller
from lagwatch.ports.kafka import TopicListing
from lagwatch.ports.reports import Commits, EmptyTails, Report
from tests.support.kafka_doubles import InMemoryTails
from tests.support.step_clock import StepClock


class Scene:
    """Topic "a" with 30 partitions and topic "b" with one; a group's commits on them."""

    def __init__(self) -> None:
        self.source, self.last, self.reports = InMemoryTails(), LastOffsets(), list[Report]()
        clock = StepClock()
        self.poller = TailPoller(
            self.source,
            last=self.last,
            facts=Facts(clock=clock, send=self._keep, commits_mode="admin"),
            clock=clock,
            send=self._keep,
        )
        self.version = 1
        self.log_end = np.full(31, 100, np.int64)
        self.last_stable: np.ndarray[tuple[int], np.dtype[np.int64]] | None = None

    async def _keep(self, report: Report) -> None:
        self.reports.append(report)

    def commit(self, topic: str, partition: int, offset: int) -> None:
        key = len(self.last)
        self.last.note(
            Commits(
                first_new_id=key,
                new_groups=("g",),
                new_topics=(topic,),
                new_partitions=(partition,),
                key=np.array([key], np.int32),
                offset=np.array([offset], np.int64),
                commit_ms=np.zeros(1, np.int64),
                order=np.zeros(1, np.int64),
                observed_ms=EpochMs(0),
            )
        )

    def rounds(self, count: int) -> list[tuple[str, int, tuple[int, ...], int]]:
        """What is asked for in so many rounds."""
        before = len(self.source.asked)
        for _ in range(count):
            stable = self.log_end if self.last_stable is None else self.last_stable
            ends = PartitionEnds(
                started_ms=EpochMs(0), log_end=self.log_end.copy(), last_stable=stable.copy()
            )
            topics = TopicListing(
                names=("a", "b"),
                partitions=np.array([30, 1], np.int32),
                leader=np.ones(31, np.int32),
            )
            self.poller.note(
                EndsRound(version=self.version, topics=topics, ends=ends, offsets_topic=None)
            )
            asyncio.run(self._poll())
        asked = self.source.asked[before:]
        return [(each.topic, each.partition, each.offsets, each.end) for each in asked]

    async def _poll(self) -> None:
        await self.poller.poll_once()

    def reported_tails(self) -> list[tuple[str, int, int, int]]:
        return [
            row
            for each in self.reports
            if isinstance(each, EmptyTails)
            for row in zip(
                each.topic,
                each.partition.tolist(),
                each.first.tolist(),
                each.end.tolist(),
                strict=True,
            )
        ]


def test_a_log_end_that_has_rested_is_looked_at_once() -> None:
    scene = Scene()
    scene.commit("b", 0, 98)
    scene.commit("b", 0, 99)

    assert scene.rounds(2) == []
    assert scene.rounds(5) == [("b", 0, (98, 99), 100)]
    assert scene.reported_tails() == [("b", 0, 98, 100), ("b", 0, 99, 100)]


def test_what_is_far_away_at_the_end_or_not_listed_is_not_looked_at() -> None:
    scene = Scene()
    scene.log_end[30] = 5000
    for topic, partition, offset in (
        ("b", 0, 3999),
        ("a", 0, 100),
        ("a", 1, 150),
        ("a", 99, 99),
        ("gone", 0, 99),
        ("a", 2, -1),
    ):
        scene.commit(topic, partition, offset)

    assert scene.rounds(5) == []


def test_an_open_transaction_or_a_moving_log_end_is_waited_for() -> None:
    scene = Scene()
    scene.commit("b", 0, 99)
    scene.last_stable = np.full(31, 99, np.int64)

    assert scene.rounds(5) == []
    scene.last_stable = None
    scene.log_end[30] += 1
    assert scene.rounds(2) == []
    assert scene.rounds(1) == [("b", 0, (99,), 101)]


def test_what_came_after_rounds_in_which_nothing_was_found_is_looked_at() -> None:
    scene = Scene()
    scene.commit("b", 0, 100)

    assert scene.rounds(5) == []
    scene.commit("b", 0, 99)
    assert scene.rounds(1) == [("b", 0, (99,), 100)]
    assert scene.rounds(5) == []
    scene.log_end[0] = 120
    scene.commit("a", 0, 118)
    assert scene.rounds(2) == []
    assert scene.rounds(1) == [("a", 0, (118,), 120)]


def test_twenty_partitions_are_read_at_the_same_time() -> None:
    scene = Scene()
    for partition in range(30):
        scene.commit("a", partition, 90)

    assert len(scene.rounds(3)) == 20
    assert len(scene.rounds(1)) == 10
    assert scene.rounds(3) == []


def test_a_range_that_cannot_be_read_is_tried_three_times() -> None:
    scene = Scene()
    scene.commit("b", 0, 99)
    scene.source.empty_from = None

    assert len(scene.rounds(10)) == 3
    assert scene.reported_tails() == []


def test_a_record_in_between_leaves_the_offsets_behind_it() -> None:
    scene = Scene()
    scene.commit("b", 0, 90)
    scene.commit("b", 0, 95)
    scene.source.empty_from = 93

    scene.rounds(3)

    assert scene.reported_tails() == [("b", 0, 95, 100)]


def test_another_listing_of_topics_begins_anew_and_forgets_no_answer() -> None:
    scene = Scene()
    scene.commit("b", 0, 99)
    scene.rounds(3)

    scene.version = 2

    assert scene.rounds(5) == []

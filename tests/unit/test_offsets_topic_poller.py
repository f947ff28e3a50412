"""How the offsets topic is followed: where reading begins, what is reported, when it is ready."""

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from lagwatch.clock import Clock, SystemClock
from lagwatch.config import ClusterSettings
from lagwatch.core.wire import CommitKeys
from lagwatch.errors import SourceError
from lagwatch.pollers.facts import Facts
from lagwatch.pollers.filters import Filters
from lagwatch.pollers.groups import GroupPoller
from lagwatch.pollers.known import LastOffsets, ReaderProgress
from lagwatch.pollers.loop import Wake
from lagwatch.pollers.offsets_topic import OffsetsTopicPoller
from lagwatch.pollers.surroundings import Surroundings
from lagwatch.pollers.topics import TopicPoller
from lagwatch.ports.kafka import (
    GroupDescriptions,
    GroupListing,
    ListedGroup,
    TopicIds,
    TopicListing,
)
from lagwatch.ports.reports import Backlog, Commits, GroupsGone, GroupsSeen, Report
from tests.support.kafka_doubles import InMemoryOffsetsTopic, Record
from tests.support.rounds import a_round
from tests.support.step_clock import StepClock
from tests.support.wire import (
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    encode_offset_value,
)

TOPIC = "__consumer_offsets"


class NoTopics:
    """Only the offsets topic, with as many partitions as the test says."""

    def __init__(self) -> None:
        self.partitions = 0

    async def list_topics(self) -> TopicListing:
        return TopicListing(
            names=(TOPIC,),
            partitions=np.array([self.partitions], np.int32),
            leader=np.ones(self.partitions, np.int32),
        )

    async def topic_ids(self, names: Sequence[str]) -> TopicIds:
        return TopicIds(ids=dict.fromkeys(names, "id"), refused=(), missing=())


class SomeGroups:
    """Groups of these names, without members."""

    def __init__(self, *names: str) -> None:
        self.names = names

    async def list_groups(self) -> GroupListing:
        found = (ListedGroup(name=name, type="classic", state="Empty") for name in self.names)
        return GroupListing(groups=tuple(found), problem="")

    async def describe(self, names: Sequence[str]) -> GroupDescriptions:
        return GroupDescriptions(infos=(), refused=(), missing=tuple(names), problems={})

    async def may_list_all(self) -> bool:
        return True


class Scene:
    """A poller of the offsets topic with its surroundings, and what it reports."""

    def __init__(
        self,
        source: InMemoryOffsetsTopic,
        *,
        start: str = "earliest",
        resume: Mapping[int, int] | None = None,
        resume_id: str = "",
        groups: SomeGroups | None = None,
        clock: Clock | None = None,
    ) -> None:
        clock, filters = clock or SystemClock(), Filters(ClusterSettings(bootstrap="b:1"))
        self.reports: list[Report] = []
        self.known = ReaderProgress(clock)
        facts = Facts(clock=clock, send=self._keep, commits_mode="offsets-topic")
        self.listing = NoTopics()
        self.topics = TopicPoller(
            self.listing,
            filters=filters,
            facts=facts,
            clock=clock,
            send=self._keep,
            wake=Wake(),
            on_change=lambda: None,
            interval_s=60.0,
        )
        self.groups = GroupPoller(
            groups or SomeGroups(),
            filters=filters,
            facts=facts,
            clock=clock,
            send=self._keep,
            wake=Wake(),
            interval_s=60.0,
            counts=lambda: True,
        )
        self.poller = OffsetsTopicPoller(
            source,
            Surroundings(
                filters=filters,
                topics=self.topics,
                groups=self.groups,
                facts=facts,
                last=LastOffsets(),
                clock=clock,
                send=self._keep,
            ),
            cluster="c",
            topic=TOPIC,
            known=self.known,
            keys=CommitKeys(filters.commit),
            start=start,
            resume=resume or {},
            resume_id=resume_id,
        )

    async def _keep(self, report: Report) -> None:
        self.reports.append(report)

    def commits(self) -> list[Commits]:
        return [each for each in self.reports if isinstance(each, Commits)]

    def offsets(self) -> list[int]:
        return [offset for each in self.commits() for offset in each.offset.tolist()]

    def backlog(self) -> Backlog:
        return [each for each in self.reports if isinstance(each, Backlog)][-1]

    def gone(self) -> bool:
        return any(isinstance(each, GroupsGone) for each in self.reports)


def commit(partition: int, at: int, offset: int) -> Record:
    key = encode_offset_key("g", "t", partition)
    return partition, at, key, encode_offset_value(offset, 1_700_000_000_000)


def test_all_is_read_from_the_start_and_then_it_is_ready() -> None:
    source = InMemoryOffsetsTopic(commit(0, 0, 5), commit(1, 0, 7), ends={0: 1, 1: 1})
    scene = Scene(source)

    asyncio.run(poll(scene))

    assert scene.offsets() == [5, 7]
    assert scene.backlog() == Backlog(read=2, total=2, ready=True)
    assert scene.commits()[-1].positions == {0: 1, 1: 1}


def test_from_latest_it_is_ready_at_once() -> None:
    source = InMemoryOffsetsTopic(commit(0, 0, 5), ends={0: 1})
    scene = Scene(source, start="latest")

    asyncio.run(poll(scene))

    assert scene.offsets() == []
    assert scene.backlog() == Backlog(read=0, total=0, ready=True)


def test_a_new_collector_goes_on_where_the_last_one_stopped() -> None:
    source = InMemoryOffsetsTopic(commit(0, 0, 5), commit(0, 1, 6), ends={0: 2})
    scene = Scene(source, resume={0: 1})

    asyncio.run(poll(scene))

    assert scene.offsets() == [6]


def test_a_topic_that_ends_before_the_position_is_another_and_read_from_its_start() -> None:
    source = InMemoryOffsetsTopic(commit(0, 0, 5), commit(0, 1, 6), ends={0: 2})
    scene = Scene(source, resume={0: 40})

    asyncio.run(poll(scene))

    assert scene.offsets() == [5, 6]


def test_a_topic_of_another_id_is_read_from_its_start_and_that_id_is_said() -> None:
    source = InMemoryOffsetsTopic(commit(0, 0, 5), commit(0, 1, 6), ends={0: 2})
    source.topic_id = "here"
    same = Scene(source, resume={0: 1}, resume_id="here")
    asyncio.run(poll(same))
    other = Scene(source, resume={0: 1}, resume_id="elsewhere", start="latest")
    asyncio.run(poll(other))

    assert same.offsets() == [6]
    assert other.offsets() == [5, 6]
    assert other.backlog() == Backlog(read=2, total=2, ready=True, topic_id="here")


def test_a_gap_at_the_end_does_not_keep_it_from_being_ready() -> None:
    source = InMemoryOffsetsTopic(commit(0, 0, 5), ends={0: 10})
    scene = Scene(source)

    asyncio.run(poll(scene))

    assert scene.backlog() == Backlog(read=10, total=10, ready=True)


def test_partitions_added_later_are_read_from_their_start() -> None:
    source = InMemoryOffsetsTopic(commit(0, 0, 5), ends={0: 1})
    scene = Scene(source, start="latest")
    asyncio.run(poll(scene))

    source.records.append(commit(1, 0, 9))
    source.ends[1] = 1
    scene.listing.partitions = 2
    asyncio.run(poll_topics(scene))
    asyncio.run(poll(scene))

    assert source.assigned[-1] == {0: 1, 1: 0}
    assert scene.offsets() == [9]


def test_positions_wait_while_it_is_open_whether_a_group_is_gone() -> None:
    gone: Record = (0, 1, encode_group_key("g"), None)
    source = InMemoryOffsetsTopic(commit(0, 0, 5), gone, ends={0: 2})
    scene = Scene(source)

    asyncio.run(poll(scene))

    assert scene.commits()[-1].positions == {}, "else a collector that dies would forget it"
    assert not scene.gone()


def test_a_new_generation_after_the_backlog_is_a_rebalance_reported_with_the_group() -> None:
    source = InMemoryOffsetsTopic(generation(0, 1), ends={0: 1})
    scene = Scene(source)
    asyncio.run(poll(scene))
    source.records.append(generation(1, 2))
    source.ends[0] = 2

    asyncio.run(poll(scene))
    asyncio.run(poll_groups(scene))

    counts = [each.rebalances for each in scene.reports if isinstance(each, GroupsSeen)]
    assert counts == [{"g": 1}]


@pytest.mark.parametrize(
    ("assignors", "emptied"), [([None], {"g"}), (["range"], set()), (["range", None], set())]
)
def test_a_rebalance_says_whether_it_only_emptied_the_group(
    assignors: list[str | None], emptied: set[str]
) -> None:
    source = InMemoryOffsetsTopic(generation(0, 1), ends={0: 1})
    scene = Scene(source)
    asyncio.run(poll(scene))
    asyncio.run(poll_groups(scene))  # what came before the start is not known
    for number, assignor in enumerate(assignors, 1):
        source.records.append(generation(number, number + 1, assignor))
    source.ends[0] = len(source.records)

    asyncio.run(poll(scene))
    asyncio.run(poll_groups(scene))

    seen = [each.emptied for each in scene.reports if isinstance(each, GroupsSeen)]
    assert seen == [set(), emptied]


@pytest.mark.slow
def test_without_the_topic_it_is_ready_and_waits() -> None:
    scene = Scene(InMemoryOffsetsTopic(ends={}))

    asyncio.run(poll(scene))

    assert scene.backlog() == Backlog(read=0, total=0, ready=True)


@pytest.mark.slow
def test_groups_without_an_offsets_topic_mean_that_it_is_hidden() -> None:
    scene = Scene(InMemoryOffsetsTopic(ends={}), groups=SomeGroups("g"))
    asyncio.run(poll_groups(scene))

    asyncio.run(poll(scene))  # it may have been made just now

    with pytest.raises(SourceError) as caught:
        asyncio.run(poll(scene))

    assert caught.value.kind == "authorization"


def generation(at: int, number: int, assignor: str | None = None) -> Record:
    return 0, at, encode_group_key("g"), encode_group_value(number, assignor=assignor)


def test_a_stuck_reader_is_replaced_and_that_is_said() -> None:
    clock, source = StepClock(), InMemoryOffsetsTopic(commit(0, 0, 5), ends={0: 1})
    scene = Scene(source, clock=clock)
    asyncio.run(poll(scene))
    source.records.append(commit(0, 1, 6))
    source.ends[0] = 2
    source.stuck = True

    async def rounds() -> str:
        for _ in range(20):
            scene.known.note(a_round(clock.now_ms(), [2]))
            await clock.sleep(5)
            try:
                await poll(scene)
            except SourceError as error:
                return str(error)
        return ""

    assert "nothing was read of 1 partitions" in asyncio.run(rounds())
    asyncio.run(poll(scene))
    assert scene.offsets() == [5, 6]


async def poll(scene: Scene) -> None:
    await scene.poller.poll_once()


async def poll_topics(scene: Scene) -> None:
    await scene.topics.poll_once()


async def poll_groups(scene: Scene) -> None:
    await scene.groups.poll_once()

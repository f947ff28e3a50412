"""What `ports.kafka` promises: kept by the sources on a real broker, and by the doubles."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from lagwatch.clock import SystemClock
from lagwatch.kafka.admin import KafkaTopics
from lagwatch.kafka.client import KafkaClients
from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.kafka.groups import KafkaCommitted, KafkaGroups
from lagwatch.kafka.log_ends import KafkaLogEnds
from lagwatch.kafka.offsets_topic import KafkaOffsetsTopic
from lagwatch.kafka.tails import KafkaTails
from lagwatch.kafka.transactions import KafkaTransactions
from lagwatch.ports.kafka import (
    CommittedOffsets,
    CommittedSource,
    ConsumedRecords,
    GroupSource,
    HeldPartition,
    LogEndSource,
    OffsetsTopicSource,
    Tail,
    TailSource,
    TopicListing,
    TopicSource,
    TransactionSource,
)
from tests.support.collecting import settings
from tests.support.kafka import Transactions, commit, create_topic, produce, unique
from tests.support.kafka_doubles import (
    InMemoryGroups,
    InMemoryLogEnds,
    InMemoryOffsetsTopic,
    InMemoryStateTopic,
    InMemoryTails,
    InMemoryTopics,
    InMemoryTransactions,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Of a cluster with what `topic`, `group`, `marked` and `held` say, and maybe more."""

    topic: str
    """Two partitions: 5 records, and 2."""
    group: str
    """Has committed offset 3 of partition 0 of it."""
    marked: Tail
    """Holds control records only."""
    held: HeldPartition
    """Waits for an open transaction."""
    topics: TopicSource
    log_ends: LogEndSource
    groups: GroupSource
    committed: CommittedSource
    log: OffsetsTopicSource
    """Reads partition 0 of `topic`, as if it were the offsets topic."""
    tails: TailSource
    transactions: TransactionSource
    grow: Callable[[], None]
    """Makes more records come to both partitions of `topic`."""


def _on_a_broker(kafka: EmbeddedKafka) -> Sources:
    topic, marked, held = (create_topic(kafka, partitions=2) for _ in range(3))
    produce(kafka, topic, 5)
    produce(kafka, topic, 2, partition=1)
    group = unique("reads")
    commit(kafka, group, topic, 3)
    transactions = Transactions(kafka)
    transactions.write(marked, 5)
    transactions.commit()  # its marker is offset 5
    transactions.write(held, 1)
    clock = SystemClock()
    clients = KafkaClients("here", settings(kafka), clock)
    return Sources(
        topic=topic,
        group=group,
        marked=Tail(topic=marked, partition=0, offsets=(5,), end=6),
        held=HeldPartition(topic=held, partition=0, last_stable=0),
        topics=KafkaTopics(clients),
        log_ends=KafkaLogEnds(clients),
        groups=KafkaGroups(clients),
        committed=KafkaCommitted(clients),
        log=KafkaOffsetsTopic(clients, topic),
        tails=KafkaTails(clients),
        transactions=KafkaTransactions(settings(kafka), clock),
        grow=partial(_grow, kafka, topic),
    )


def _grow(kafka: EmbeddedKafka, topic: str) -> None:
    for partition in range(2):
        produce(kafka, topic, 1, partition=partition)


def _in_memory(log: OffsetsTopicSource) -> Sources:
    groups, log_ends, tails = (
        InMemoryGroups({"g": {("t", 0): 3}}),
        InMemoryLogEnds(),
        InMemoryTails(),
    )
    log_ends.ends, tails.empty_from = [5, 2], 5
    groups.hidden_topics = frozenset(["hidden"])
    return Sources(
        topic="t",
        group="g",
        marked=Tail(topic="m", partition=0, offsets=(5,), end=6),
        held=HeldPartition(topic="h", partition=0, last_stable=0),
        topics=InMemoryTopics({"t": ("id", [1, 1])}),
        log_ends=log_ends,
        groups=groups,
        committed=groups,
        log=log,
        tails=tails,
        transactions=InMemoryTransactions(),
        grow=partial(setattr, log_ends, "ends", [6, 3]),
    )


def _offsets_topic() -> InMemoryOffsetsTopic:
    records = [(0, offset, b"key", b"value") for offset in range(5)]
    return InMemoryOffsetsTopic(*records, ends={0: 5, 1: 0})


def _state_topic() -> InMemoryStateTopic:
    return InMemoryStateTopic([(1, b"key", b"value")] * 5)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as made:
        yield made


@pytest.fixture(params=["broker", "memory", "memory, share state"])
def sources(request: pytest.FixtureRequest, runner: asyncio.Runner) -> Sources:
    del runner  # ends after what runs in it
    if request.param == "broker":
        return _on_a_broker(request.getfixturevalue("kafka"))
    return _in_memory(_offsets_topic() if request.param == "memory" else _state_topic())


def _listed(sources: Sources, runner: asyncio.Runner) -> TopicListing:
    """The topic's own part of the list of topics."""
    every = runner.run(sources.topics.list_topics())
    assert list(every.names) == sorted(every.names)
    assert len(every.leader) == every.partitions.sum()
    at = every.names.index(sources.topic)
    first = int(every.partitions[:at].sum())
    return TopicListing(
        names=(sources.topic,),
        partitions=every.partitions[at : at + 1],
        leader=every.leader[first : first + 2],
    )


def test_topics_are_listed_with_their_partitions_and_leaders(
    sources: Sources, runner: asyncio.Runner
) -> None:
    listed = _listed(sources, runner)

    assert listed.partitions.tolist() == [2]
    assert (listed.leader >= 0).all()


def test_every_topic_asked_for_has_an_id_or_a_reason_why_not(
    sources: Sources, runner: asyncio.Runner
) -> None:
    found = runner.run(sources.topics.topic_ids([sources.topic, "no-such-topic"]))

    assert set(found.ids) == {sources.topic}
    assert found.ids[sources.topic]
    assert (found.refused, found.missing) == ((), ("no-such-topic",))


def test_log_ends_have_the_rows_of_the_listing(sources: Sources, runner: asyncio.Runner) -> None:
    listed = _listed(sources, runner)

    round_ = runner.run(sources.log_ends.log_ends(listed, with_log_start=True))

    assert round_.log_end.tolist() == round_.last_stable.tolist() == [5, 2]
    assert round_.log_start is not None
    assert round_.log_start.tolist() == [0, 0]
    assert (round_.stale, round_.replaced, round_.problems) == (False, False, ())


def test_a_row_that_is_not_wanted_keeps_its_log_end(
    sources: Sources, runner: asyncio.Runner
) -> None:
    listed, ask = _listed(sources, runner), sources.log_ends.log_ends
    runner.run(ask(listed, with_log_start=True))
    sources.grow()

    after = runner.run(ask(listed, with_log_start=False, wanted=np.array([True, False])))

    assert after.log_end.tolist() == after.last_stable.tolist() == [6, 2]
    assert after.log_start is None


@pytest.mark.filterwarnings("ignore:list_groups:DeprecationWarning")
def test_groups_are_listed_and_those_that_are_not_there_are_missing(
    sources: Sources, runner: asyncio.Runner
) -> None:
    listing = runner.run(sources.groups.list_groups())
    described = runner.run(sources.groups.describe(["no-such-group"]))

    assert sources.group in [each.name for each in listing.groups]
    assert listing.problem == ""
    assert (described.infos, described.missing) == ((), ("no-such-group",))
    assert (described.refused, dict(described.problems)) == ((), {})
    assert runner.run(sources.groups.may_list_all())


def test_every_group_asked_for_has_one_answer(sources: Sources, runner: asyncio.Runner) -> None:
    async def ask() -> list[CommittedOffsets]:
        chunks = sources.committed.committed([sources.group, "no-such-group"])
        return [each async for chunk in chunks for each in chunk]

    answers = {each.group: each for each in runner.run(ask())}

    assert set(answers) == {sources.group, "no-such-group"}
    known, unknown = answers[sources.group], answers["no-such-group"]
    assert list(zip(known.topics, known.partitions, known.offsets, strict=True)) == [
        (sources.topic, 0, 3)
    ]
    assert (list(unknown.topics), unknown.refused, unknown.problem) == ([], False, "")
    assert all(each.asked_ms <= each.answered_ms for each in answers.values())


def test_a_topic_without_an_offset_of_the_group_is_surely_deleted(
    sources: Sources, runner: asyncio.Runner
) -> None:
    asked = {"no-such-topic": (sources.group, 0)}

    assert runner.run(sources.committed.not_surely_deleted(asked)) == frozenset()


def _read(source: OffsetsTopicSource, runner: asyncio.Runner, end: int) -> list[ConsumedRecords]:
    """Batches until the position is `end`."""

    async def read() -> list[ConsumedRecords]:
        batches = [await source.read()]
        while batches[-1].positions[0] < end:
            batches.append(await source.read())
        return batches

    return runner.run(asyncio.wait_for(read(), 30))


def test_records_are_read_from_where_reading_begins_once_and_in_order(
    sources: Sources, runner: asyncio.Runner
) -> None:
    spans = runner.run(sources.log.spans())
    assert (spans[0].start, spans[0].end) == (0, 5)
    runner.run(sources.log.assign({0: 2}))

    batches = _read(sources.log, runner, 5)

    orders = np.concatenate([each.orders for each in batches]).tolist()
    assert orders == [2, 3, 4]
    assert all(len(each.keys) == len(each.values) == len(each.orders) for each in batches)
    assert all(each.times_ms is None or len(each.times_ms) == len(each.keys) for each in batches)
    assert [dict(each.positions) for each in batches][-1] == {0: 5}, "only what was assigned"


def test_a_new_client_reads_on_at_the_same_position(
    sources: Sources, runner: asyncio.Runner
) -> None:
    runner.run(sources.log.spans())
    runner.run(sources.log.assign({0: 0}))
    _read(sources.log, runner, 5)

    runner.run(sources.log.renew())
    more = runner.run(sources.log.read())

    assert (len(more.orders), dict(more.positions)) == (0, {0: 5})


def test_every_tail_has_one_answer(sources: Sources, runner: asyncio.Runner) -> None:
    (answer,) = runner.run(sources.tails.read([sources.marked]))

    assert (answer.tail, answer.empty_from, answer.refused) == (sources.marked, 5, False)


# the client that names transactions reads files of its package the old way
@pytest.mark.filterwarnings("ignore:(read|open)_text:DeprecationWarning")
def test_every_held_partition_has_an_answer(sources: Sources, runner: asyncio.Runner) -> None:
    names = runner.run(sources.transactions.names([sources.held]))

    assert set(names) == {sources.held}
    assert names[sources.held].problem == ""
    assert names[sources.held].producer_id is not None
    assert names[sources.held].transactional_id

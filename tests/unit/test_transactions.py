"""Which transactions are reported, and how they are asked for."""

import asyncio

import numpy as np

from lagwatch.clock import SystemClock
from lagwatch.config import ClusterSettings
from lagwatch.core.model import EpochMs, OpenTransaction
from lagwatch.kafka.transactions import KafkaTransactions
from lagwatch.pollers.loop import EndsRound, PartitionEnds
from lagwatch.pollers.transactions import TransactionPoller
from lagwatch.ports.kafka import HeldPartition, TopicListing, TransactionNames
from lagwatch.ports.reports import OpenTransactions, Report
from tests.support.kafka_doubles import InMemoryTransactions
from tests.support.step_clock import StepClock


class Scene:
    """Topics "a" (2 partitions) and "b" (1)."""

    def __init__(self) -> None:
        self.clock, self.source = StepClock(), InMemoryTransactions()
        self.reports: list[Report] = []
        self.poller = TransactionPoller(self.source, clock=self.clock, send=self._keep)

    async def _keep(self, report: Report) -> None:
        self.reports.append(report)

    def a_round(
        self, at_ms: int, log_end: list[int], last_stable: list[int]
    ) -> list[tuple[OpenTransaction, ...]]:
        """What is sent after a round."""
        before = len(self.reports)
        ends = PartitionEnds(
            started_ms=EpochMs(at_ms),
            log_end=np.array(log_end, np.int64),
            last_stable=np.array(last_stable, np.int64),
        )
        topics = TopicListing(
            names=("a", "b"), partitions=np.array([2, 1], np.int32), leader=np.ones(3, np.int32)
        )
        self.poller.note(EndsRound(version=1, topics=topics, ends=ends, offsets_topic=None))
        asyncio.run(self._poll())
        sent = self.reports[before:]
        return [each.transactions for each in sent if isinstance(each, OpenTransactions)]

    async def _poll(self) -> None:
        await self.poller.poll_once()


def test_a_last_stable_offset_that_rests_behind_is_reported_once_and_when_it_is_over() -> None:
    scene = Scene()

    assert scene.a_round(1_000, [9, 9, 9], [9, 9, 4]) == []
    ((held,),) = scene.a_round(4_000, [9, 9, 12], [9, 9, 4])
    assert scene.a_round(9_000, [9, 9, 15], [9, 9, 4]) == []
    assert scene.a_round(14_000, [9, 9, 15], [9, 9, 15]) == [()]
    assert scene.a_round(19_000, [9, 9, 15], [9, 9, 15]) == []

    assert (held.topic, held.partition, held.last_stable, held.since_ms) == ("b", 0, 4, 1_000)
    assert (held.producer_id, held.transactional_id) == (7, "tx")


def test_one_transaction_after_the_other_is_not_one_that_stays_open() -> None:
    scene = Scene()

    sent = [scene.a_round(at * 5_000, [9, 10 * at, 9], [9, 10 * at - 3, 9]) for at in range(1, 9)]

    assert sent == [[]] * 8


def test_it_is_reported_again_now_and_then_and_asked_for_until_it_is_named() -> None:
    scene = Scene()
    scene.source.problem = "no right"
    scene.a_round(1_000, [9, 9, 9], [4, 9, 9])
    scene.a_round(4_000, [9, 9, 9], [4, 9, 9])

    scene.clock.pass_s(30.0)
    ((again,),) = scene.a_round(34_000, [9, 9, 9], [4, 9, 9])
    scene.source.problem = ""
    scene.clock.pass_s(30.0)
    ((named,),) = scene.a_round(64_000, [9, 9, 9], [4, 9, 9])
    scene.clock.pass_s(30.0)
    scene.a_round(94_000, [9, 9, 9], [4, 9, 9])

    assert (again.problem, named.problem) == ("no right", "")
    assert len(scene.source.asked) == 3


def test_a_partition_whose_leader_is_away_keeps_its_transaction() -> None:
    scene = Scene()
    scene.a_round(1_000, [9, 9, 9], [4, 9, 9])
    scene.a_round(4_000, [9, 9, 9], [4, 9, 9])

    assert scene.a_round(9_000, [-1, 9, 9], [-1, 9, 9]) == []
    assert scene.a_round(14_000, [9, 9, 9], [4, 9, 9]) == []


def test_what_the_second_client_library_cannot_do_is_said() -> None:
    held = HeldPartition(topic="t", partition=0, last_stable=1)

    def problem(**options: object) -> str:
        settings = ClusterSettings.model_validate({"bootstrap": "b:1", **options})
        asked = KafkaTransactions(settings, SystemClock())
        return asyncio.run(_names(asked, held)).problem

    assert problem(sasl={"mechanism": "OAUTHBEARER"}).endswith("with SASL OAUTHBEARER")
    assert problem(client={"ssl.engine.location": "x"}).endswith("option ssl.engine.location")


async def _names(asked: KafkaTransactions, held: HeldPartition) -> TransactionNames:
    return (await asked.names([held]))[held]

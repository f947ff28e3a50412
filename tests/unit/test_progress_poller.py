"""What is reported of jobs whose progress is read where they keep it."""

import asyncio
from collections.abc import Sequence

from lagwatch.errors import ProgressError
from lagwatch.pollers.groups import GroupPoller
from lagwatch.pollers.loop import Wake
from lagwatch.pollers.progress import ProgressPoller
from lagwatch.ports.progress import Positions, Step
from lagwatch.ports.reports import Progress, ProgressKnown
from tests.support.kafka_doubles import InMemoryGroups, InMemoryTopics
from tests.unit.test_pollers import Desk


class InMemoryProgress:
    """Steps as a test lays them out, each read once."""

    kind = "in-memory"

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.problem = ""

    def come(self, positions: Positions, at_ms: int | None = None) -> None:
        self.steps.append(Step(positions=positions, at_ms=at_ms))

    async def read(self) -> Sequence[Step]:
        if self.problem:
            raise ProgressError(self.problem)
        steps, self.steps = self.steps, []
        return steps


class Office:
    """The poller of two jobs, `sums` and `other`, and what is around it."""

    def __init__(self, **options: str) -> None:
        self.topics = InMemoryTopics({"orders": ("id", [1, 1])})
        self.desk = Desk(self.topics, **options)
        self.kafka = InMemoryGroups({})
        self.groups = GroupPoller(
            self.kafka,
            filters=self.desk.filters,
            facts=self.desk.facts,
            clock=self.desk.clock,
            send=self.desk.outbox,
            wake=Wake(),
            interval_s=30.0,
            counts=lambda: True,
        )
        self.sums, self.other = InMemoryProgress(), InMemoryProgress()
        self.poller = ProgressPoller(
            {"sums": self.sums, "other": self.other},
            self.desk.surroundings(self.groups),
            interval_s=5.0,
        )
        self.desk.poll()

    def poll(self) -> Sequence[str]:
        """Problems of a round."""
        return asyncio.run(_problems(self.poller))

    def reported(self) -> list[tuple[str, list[tuple[str, int, int]], int]]:
        """Group, places and instant of all reports so far."""
        return [
            (
                each.group,
                list(zip(each.topic, each.partition, each.offset, strict=True)),
                each.at_ms,
            )
            for each in self.desk.outbox.of(Progress)
        ]

    def known(self) -> dict[str, int]:
        return dict(self.desk.outbox.of(ProgressKnown)[-1].until_ms)


async def _problems(poller: ProgressPoller) -> Sequence[str]:
    return await poller.poll_once()


def test_every_step_is_reported_at_its_instant() -> None:
    office = Office()
    now_ms = office.desk.clock.now_ms()
    office.sums.come({"orders": {0: 5, 1: 6}}, now_ms - 2000)
    office.sums.come({"orders": {0: 7, 1: 6}}, now_ms - 1000)

    assert office.poll() == []
    assert office.reported() == [
        ("sums", [("orders", 0, 5), ("orders", 1, 6)], now_ms - 2000),
        ("sums", [("orders", 0, 7), ("orders", 1, 6)], now_ms - 1000),
    ]
    assert office.desk.outbox.of(Progress)[0].kind == "in-memory"
    assert office.desk.outbox.of(Progress)[0].reads == ("orders",)


def test_instants_grow_and_are_never_ahead_of_now() -> None:
    office = Office()
    now_ms = office.desk.clock.now_ms()
    for offset, at_ms in ((1, now_ms - 2000), (2, now_ms - 2000), (3, now_ms + 60_000), (4, None)):
        office.sums.come({"orders": {0: offset}}, at_ms)

    office.poll()

    instants = [at_ms for *_, at_ms in office.reported()]
    assert instants[:3] == [now_ms - 2000, now_ms - 1999, now_ms]
    assert instants == sorted(set(instants))


def test_a_job_that_cannot_be_read_has_its_reason_and_stops_no_other() -> None:
    office = Office()
    office.poll()
    before = office.known()
    asyncio.run(office.desk.clock.sleep(10))
    office.sums.problem = "/checkpoint: there is no such folder"
    office.other.come({"orders": {0: 3}})

    assert office.poll() == ["sums: /checkpoint: there is no such folder"]
    assert [group for group, *_ in office.reported()] == ["other"]
    assert office.known() == {"sums": before["sums"], "other": before["other"] + 10_000}


def test_a_topic_that_is_not_there_is_named_and_reported_once_it_comes() -> None:
    office = Office()
    office.sums.come({"orders": {0: 5}, "gone": {0: 9}})

    (problem,) = office.poll()
    assert "sums" in problem
    assert "gone" in problem
    assert office.reported()[-1][1] == [("orders", 0, 5)]
    office.topics.topics["gone"] = ("id-2", [1])
    office.desk.poll()

    assert office.poll() == []
    assert office.reported()[-1][1] == [("orders", 0, 5), ("gone", 0, 9)]
    number = len(office.reported())
    office.poll()
    assert len(office.reported()) == number


def test_topics_that_are_not_watched_are_left_out_without_a_word() -> None:
    office = Office(topic_deny="^orders$")
    office.sums.come({"orders": {0: 5}})

    assert office.poll() == []
    assert office.reported()[-1][1] == []


def test_a_name_that_kafka_knows_as_a_group_is_refused_until_it_is_gone() -> None:
    office = Office()
    office.kafka.offsets = {"sums": {}}
    asyncio.run(_listed(office.groups))
    office.sums.come({"orders": {0: 5}})

    (problem,) = office.poll()
    assert "another name" in problem
    assert office.reported() == []
    office.kafka.offsets = {}
    asyncio.run(office.desk.clock.sleep(60))
    asyncio.run(_listed(office.groups))

    assert office.poll() == []
    assert office.reported()[-1][1] == [("orders", 0, 5)]


async def _listed(groups: GroupPoller) -> None:
    await groups.poll_once()

"""The line between the serving process and a collector."""

import asyncio
import threading

import numpy as np
import pytest

from lagwatch.collector.link import Assignment, CollectorEnd, Inbox, ServingEnd, socket_pair
from lagwatch.collector.supervisor import Silence
from lagwatch.config import ClusterSettings
from lagwatch.core.model import EpochMs
from lagwatch.ports.reports import Backlog, Commits, SourceHealth, SourceKind
from tests.support.waiting import eventually


def pair() -> tuple[ServingEnd, CollectorEnd]:
    ours, theirs = socket_pair()
    return ServingEnd(ours), CollectorEnd(theirs.detach())


def commits(positions: dict[int, int], rows: int = 1) -> Commits:
    return Commits(
        first_new_id=0,
        new_groups=(),
        new_topics=(),
        new_partitions=(),
        key=np.zeros(rows, np.int32),
        offset=np.arange(rows, dtype=np.int64),
        commit_ms=np.zeros(rows, np.int64),
        order=np.arange(rows, dtype=np.int64),
        observed_ms=EpochMs(1),
        positions=positions,
    )


def test_an_assignment_arrives_whole_with_its_secrets() -> None:
    settings = ClusterSettings.model_validate(
        {
            "bootstrap": "a:1",
            "sasl": {"mechanism": "PLAIN", "username": "u", "password": "secret"},
        }
    )
    sent = Assignment(
        cluster="c",
        settings=settings,
        resume={3: 7},
        resume_id="i",
        watched=("g",),
        log_level="debug",
    )
    serving, collector = pair()

    serving.assign(sent)
    received = collector.assignment()
    serving.close()

    assert received == sent
    assert received.settings.sasl is not None
    assert received.settings.sasl.password is not None
    assert received.settings.sasl.password.get_secret_value() == "secret"
    assert "secret" not in repr(received)


def test_a_collector_hears_that_the_serving_process_hung_up() -> None:
    serving, collector = pair()
    ended = threading.Event()

    def wait() -> None:
        collector.wait_for_end()
        ended.set()

    waiting = threading.Thread(target=wait)
    waiting.start()

    serving.hang_up()

    assert ended.wait(5)
    waiting.join()
    serving.close()


def test_reports_arrive_in_order_and_the_inbox_knows_where_to_resume() -> None:
    async def scene() -> tuple[list[object], dict[int, int]]:
        serving, collector = pair()
        inbox = Inbox()
        collector.send(commits({0: 5, 1: 2}))
        collector.send(Backlog(read=1, total=1, ready=True))
        collector.send(commits({0: 6}))
        collector.send(commits({}))
        filling = asyncio.create_task(inbox.fill(serving))
        reports: list[object] = [await inbox.get() for _ in range(4)]
        filling.cancel()
        await asyncio.gather(filling, return_exceptions=True)
        return reports, dict(inbox.positions())

    reports, positions = asyncio.run(scene())

    assert [type(each).__name__ for each in reports] == ["Commits", "Backlog", "Commits", "Commits"]
    assert positions == {0: 6, 1: 2}


def test_positions_of_another_offsets_topic_are_not_kept() -> None:
    async def scene() -> tuple[str, dict[int, int]]:
        serving, collector = pair()
        inbox = Inbox({0: 500, 1: 700}, "first")
        collector.send(Backlog(read=0, total=9, ready=False, topic_id="second"))
        collector.send(commits({0: 5}))
        filling = asyncio.create_task(inbox.fill(serving))
        for _ in range(2):
            await inbox.get()
        filling.cancel()
        await asyncio.gather(filling, return_exceptions=True)
        return inbox.topic_id, dict(inbox.positions())

    assert asyncio.run(scene()) == ("second", {0: 5})


@pytest.mark.slow
def test_a_full_inbox_makes_the_collector_wait_and_loses_nothing() -> None:
    total, rows = 60, 20_000
    serving, collector = pair()
    sent: list[int] = []

    def send() -> None:
        for number in range(total):
            collector.send(commits({0: number}, rows))
            sent.append(number)

    sender = threading.Thread(target=send)

    async def scene() -> list[int]:
        inbox = Inbox()
        filling = asyncio.create_task(inbox.fill(serving))
        sender.start()
        await asyncio.to_thread(eventually, lambda: _stands_still(sent), "the sender waits")
        waited_at = len(sent)
        assert waited_at < total
        got = []
        for _ in range(total):
            report = await inbox.get()
            assert isinstance(report, Commits)
            got.append(report.positions[0])
        filling.cancel()
        await asyncio.gather(filling, return_exceptions=True)
        return got

    got = asyncio.run(scene())
    sender.join()

    assert got == list(range(total))


def _stands_still(sent: list[int]) -> bool:
    """Has nothing been sent for a while, after something was?"""
    before = len(sent)
    return before > 0 and not threading.Event().wait(0.3) and len(sent) == before


def test_rounds_of_each_reader_are_counted_as_long_as_it_reads() -> None:
    serving, collector = pair()
    inbox, counts = Inbox(), list[tuple[int, int, set[SourceKind]]]()
    topic, shares = SourceKind.OFFSETS_TOPIC, SourceKind.SHARE_STATE

    async def received() -> None:
        filling = asyncio.create_task(inbox.fill(serving))
        for source in (SourceKind.LOG_ENDS, topic, shares, shares, SourceKind.COMMITTED):
            collector.send(SourceHealth(source=source, ok=True, at_ms=EpochMs(1)))
            await inbox.get()
            counts.append((inbox.rounds[topic], inbox.rounds[shares], set(inbox.reads)))
        filling.cancel()
        await asyncio.gather(filling, return_exceptions=True)

    asyncio.run(received())

    assert counts == [
        (0, 0, set()),
        (1, 0, {topic}),
        (1, 1, {topic, shares}),
        (1, 2, {topic, shares}),
        (1, 2, {shares}),
    ]


def test_looks_that_find_the_same_number_count_in_a_row() -> None:
    silence, looks = Silence(), list[int]()
    for number, counts in [(1, True), (1, True), (1, True), (2, True), (2, True), (2, False)]:
        silence.look(number, counts=counts)
        looks.append(silence.looks)

    assert looks == [0, 1, 2, 0, 1, 0]

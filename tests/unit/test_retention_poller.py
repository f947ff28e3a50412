"""The brokers' retention of offsets, as the collector reports it."""

import asyncio
import contextlib

from lagwatch.clock import SystemClock
from lagwatch.errors import SourceError
from lagwatch.pollers.facts import Facts
from lagwatch.pollers.loop import PollLoop, PollPace
from lagwatch.pollers.retention import RETENTION_EVERY_S, RetentionPoller
from lagwatch.ports.reports import CollectorFacts, Report

AWAY = SourceError(cluster="here", kind="timeout", message="away")


class Brokers:
    """Answers in turn."""

    def __init__(self, *answers: int | SourceError | None) -> None:
        self._answers = list(answers)

    async def shortest_ms(self) -> int | None:
        if not self._answers:
            raise asyncio.CancelledError
        answer = self._answers.pop(0)
        if isinstance(answer, SourceError):
            raise answer
        return answer


class Waits(SystemClock):
    """A clock whose waits are noted and take no time."""

    def __init__(self) -> None:
        self.waits_s: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits_s.append(seconds)


def reported(*answers: int | SourceError | None) -> tuple[list[tuple[int | None, bool]], Waits]:
    """What is reported while brokers answer so, and the waits in between."""
    sent: list[Report] = []
    clock = Waits()

    async def send(report: Report) -> None:
        sent.append(report)

    facts = Facts(clock=clock, send=send, commits_mode="admin")
    poller = RetentionPoller(Brokers(*answers), facts=facts)
    pace = PollPace(interval_s=RETENTION_EVERY_S)
    loop = PollLoop(poller, pace=pace, clock=clock, send=lambda _: asyncio.sleep(0))
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(loop.run())
    found = [each for each in sent if isinstance(each, CollectorFacts)]
    return [(each.offsets_retention_ms, each.offsets_retention_refused) for each in found], clock


def test_what_is_known_stays_when_brokers_refuse_or_do_not_answer() -> None:
    found, _ = reported(None, 60_000, AWAY, None, 120_000)

    assert found == [(None, True), (60_000, False), (60_000, True), (120_000, False)]


def test_brokers_that_do_not_answer_are_asked_again_soon() -> None:
    found, clock = reported(AWAY, AWAY, 60_000)

    assert found == [(60_000, False)]
    assert sum(clock.waits_s[:2]) < 10

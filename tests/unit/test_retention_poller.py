"""The brokers' retention of offsets, as the collector reports it."""

import asyncio

from lagwatch.clock import SystemClock
from lagwatch.pollers.facts import Facts
from lagwatch.pollers.retention import RetentionPoller
from lagwatch.ports.reports import CollectorFacts, Report


class Brokers:
    """Answers in turn."""

    def __init__(self, *answers_ms: int | None) -> None:
        self._answers_ms = list(answers_ms)

    async def shortest_ms(self) -> int | None:
        return self._answers_ms.pop(0)


def test_what_is_known_stays_while_brokers_do_not_answer() -> None:
    sent: list[Report] = []

    async def send(report: Report) -> None:
        sent.append(report)

    facts = Facts(clock=SystemClock(), send=send, commits_mode="admin")
    poller = RetentionPoller(Brokers(None, 60_000, None, 120_000), facts=facts)
    for _ in range(4):
        asyncio.run(poller.poll_once())
    asyncio.run(facts.send(now=True))

    known = [each.offsets_retention_ms for each in sent if isinstance(each, CollectorFacts)]
    assert known == [60_000, 120_000]

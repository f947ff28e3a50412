"""The pause that follows the end of an incident, where a group has several policies."""

from typing import Any

import pytest

from lagwatch.config.alerts import AlertsSettings
from lagwatch.core.incident import Reason
from lagwatch.core.model import EpochMs
from lagwatch.notify.policies import PolicyBook
from lagwatch.notify.watch import Decided, Watch
from lagwatch.query import SnapshotQueries
from tests.support.history import Live

_HOOK = {"url": "http://127.0.0.1:9/"}
_STEP_S = 10


class _Reader:
    """A group that reads two topics, each with a policy of its own."""

    def __init__(self, orders_to: str) -> None:
        policies = {
            "orders": {"topic": "^orders$", "channels": [orders_to]},
            "audit": {"topic": "^audit$", "channels": ["audit"]},
        }
        settings: dict[str, Any] = {
            "webhook": {"orders": _HOOK, "audit": _HOOK},
            "policies": {
                name: {"close_for_s": 0, "reopen_s": 900, **each} for name, each in policies.items()
            },
        }
        book = PolicyBook(AlertsSettings(**settings))
        self.live = Live()
        self.live.topics(orders=1, audit=1)
        self.queries = SnapshotQueries({"here": self.live.monitor}, health=tuple)
        self.watch = Watch("here", book, [], {}, started_ms=self.live.now_ms)

    def reads(self, *topics: str, for_s: int) -> list[Decided]:
        """What is decided while it reads these topics, and not the others."""
        decided = []
        for _ in range(0, for_s, _STEP_S):
            for topic in ("orders", "audit"):
                self.live.produce(topic, 0, 100)
            self.live.wait(_STEP_S)
            for topic in topics:
                self.live.commit(("a", topic, 0, self.live.ends[topic, 0]))
            found = self.watch.decide(
                self.live.judge(),
                EpochMs(self.live.now_ms),
                lambda _: False,
                lambda group: self.queries.outlook("here", group),
            )
            self.watch.apply(found)
            decided += found
        return decided


@pytest.mark.parametrize(
    ("orders_to", "reason"),
    [("orders", Reason.FIRST), ("audit", Reason.REOPENED_TOO_SOON)],
)
def test_trouble_is_held_back_only_from_channels_that_heard_of_the_last_one(
    orders_to: str, reason: Reason
) -> None:
    group = _Reader(orders_to)
    group.reads("orders", "audit", for_s=600)
    first = group.reads("orders", for_s=900)
    ended = group.reads("orders", "audit", for_s=60)
    second = group.reads("audit", for_s=900)

    assert [(each.policy.name, each.decision.reason) for each in first + ended] == [
        ("audit", Reason.FIRST),
        ("audit", Reason.HEALED),
    ]
    assert (second[0].policy.name, second[0].decision.reason) == ("orders", reason)

"""The pause that follows the end of an incident, where a group has several policies."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lagwatch.config.alerts import AlertsSettings
from lagwatch.core.incident import NoticeEvent, Reason
from lagwatch.core.model import EpochMs
from lagwatch.notify.alerts import Alerts
from lagwatch.notify.notice import unpack
from lagwatch.notify.policies import PolicyBook
from lagwatch.notify.watch import Decided, Watch
from lagwatch.ports.alerts import NoticeAsk, NoticeRecord
from lagwatch.query import SnapshotQueries
from tests.support.fleet import READY, alert_settings
from tests.support.history import Live, SetClock

_HOOK = {"url": "http://127.0.0.1:9/"}
_STEP_S = 10
_TWO_POLICIES = """
[alerts.webhook.orders]
url = "http://127.0.0.1:9/"
[alerts.webhook.audit]
url = "http://127.0.0.1:9/"
[alerts.policies.orders]
topic = "^orders$"
channels = ["orders"]
[alerts.policies.audit]
topic = "^audit$"
channels = ["audit"]
"""


class _Reader:
    """A group that reads two topics, each with a policy of its own."""

    def __init__(self, orders_to: str, orders_for_s: int = 0, **orders: object) -> None:
        policies: dict[str, dict[str, Any]] = {
            "orders": {
                "topic": "^orders$",
                "channels": [orders_to],
                "for_s": orders_for_s,
                **orders,
            },
            "audit": {"topic": "^audit$", "channels": ["audit"]},
        }
        settings: dict[str, Any] = {
            "webhook": {"orders": _HOOK, "audit": _HOOK, "boss": _HOOK},
            "policies": {
                name: {"close_for_s": 0, "reopen_s": 900, **each} for name, each in policies.items()
            },
        }
        self.book = PolicyBook(AlertsSettings(**settings))
        self.live = Live()
        self.live.topics(orders=1, audit=1)
        self.queries = SnapshotQueries({"here": self.live.monitor}, health=tuple)
        self.watch = Watch("here", self.book, [], {}, started_ms=self.live.now_ms)

    def step(self, *topics: str) -> None:
        """Both topics are written, and these are read."""
        for topic in ("orders", "audit"):
            self.live.produce(topic, 0, 100)
        self.live.wait(_STEP_S)
        for topic in topics:
            self.live.commit(("a", topic, 0, self.live.ends[topic, 0]))

    def reads(self, *topics: str, for_s: int) -> list[Decided]:
        """What is decided while it reads these topics, and not the others."""
        decided = []
        for _ in range(0, for_s, _STEP_S):
            self.step(*topics)
            found = self.watch.decide(
                self.live.judge(),
                EpochMs(self.live.now_ms),
                lambda _: False,
                lambda group: self.queries.outlook("here", group),
            )
            self.watch.apply(found)
            decided += found
        return decided


class _Alerting:
    """Alerts that look at a cluster round by round, and may be interrupted."""

    def __init__(self, folder: Path, text: str, live: Live) -> None:
        self.settings = alert_settings(folder, text)
        self._clock = SetClock(live.now_ms)
        self._alerts = Alerts(self.settings, self._clock)
        self._live = live
        self._queries = SnapshotQueries({"here": live.monitor}, health=lambda: (READY,))

    def look(self) -> None:
        self._clock.ms = self._live.now_ms
        self._alerts.observe(self._live.judge(), self._queries, self._clock.now_ms())

    def interrupt(self, how: str) -> None:
        """`start`, `reload`, or "" for nothing."""
        if how == "start":
            self._alerts.close()
            self._alerts = Alerts(self.settings, self._clock)
        elif how:
            self._alerts.reload(self.settings)

    def end(self) -> Sequence[NoticeRecord]:
        """Close the file; returns the notices."""
        notices, _ = self._alerts.notices(NoticeAsk())
        self._alerts.close()
        return notices


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


@pytest.mark.parametrize("for_s", [0, 300])
def test_an_incident_that_goes_on_under_another_policy_is_sent_to_its_channels(for_s: int) -> None:
    group = _Reader("orders", for_s)
    group.reads("orders", "audit", for_s=600)
    first = group.reads("orders", for_s=900)
    both = group.reads(for_s=900)
    second = group.reads("audit", for_s=60)

    sent = [
        (each.policy.name, each.decision.event, each.decision.reason, each.unheard)
        for each in first + both + second
        if each.decision.event is not NoticeEvent.NOTHING
    ]
    began_ms = group.live.now_ms - 960_000
    assert second == []
    incident = both[-1].after.incident
    assert incident is not None
    assert (incident.notified_ms or 0) >= began_ms + for_s * 1000
    assert sent == [
        ("audit", NoticeEvent.OPEN, Reason.FIRST, ("audit",)),
        ("orders", NoticeEvent.REMIND, Reason.OTHER_POLICY, ("orders",)),
    ]


def test_an_incident_handed_on_at_once_reaches_the_channels_of_its_new_policy_too() -> None:
    group = _Reader("orders", escalate_after_s=60, escalate_to=["orders", "boss"])
    group.reads("orders", "audit", for_s=600)
    group.reads("orders", for_s=900)
    both = group.reads(for_s=900)
    turned_ms = group.live.now_ms - 900_000

    sent = [
        (each.policy.name, each.decision.reason, each.recipients)
        for each in both
        if each.decision.event is not NoticeEvent.NOTHING
    ]
    assert sent == [
        ("orders", Reason.HANDED_ON, ("boss",)),
        ("orders", Reason.OTHER_POLICY, ("orders",)),
    ]
    assert all((each.seen_since_ms or 0) >= turned_ms - 60_000 for each in both)


@pytest.mark.parametrize("interrupted", ["", "reload", "start"])
def test_who_has_heard_is_known_after_a_reload_and_after_a_start(
    tmp_path: Path, interrupted: str
) -> None:
    """The topic of the policy `audit` stops, then that of the policy `orders` instead."""
    group = _Reader("orders")
    alerting = _Alerting(tmp_path, _TWO_POLICIES, group.live)

    def reads(*topics: str, for_s: int) -> None:
        for _ in range(0, for_s, _STEP_S):
            group.step(*topics)
            alerting.look()

    reads("orders", "audit", for_s=600)
    reads("orders", for_s=900)
    alerting.interrupt(interrupted)
    reads(for_s=900)
    reads("audit", for_s=60)
    notices = alerting.end()
    rows = sqlite3.connect(alerting.settings.alerts.file).execute(
        "SELECT n.channel, p.body FROM notices n JOIN payloads p ON p.number = n.payload"
    )
    since_ms = {channel: unpack(body).since_ms for channel, body in rows}

    assert len({notice.incident for notice in notices}) == 1
    # what stops within a minute of a start may have done so before
    later_ms = 0 if interrupted == "start" else 900_000
    assert since_ms["orders"] - since_ms["audit"] == pytest.approx(later_ms, abs=20_000)
    assert {(notice.channel, notice.event) for notice in notices} == {
        ("audit", "open"),
        ("orders", "open"),
    }


_FOR_ERRORS = """
[alerts.webhook.warned]
url = "http://127.0.0.1:9/"
[alerts.webhook.loud]
url = "http://127.0.0.1:9/"
threshold = "error"
[alerts.policies.all]
threshold = "warning"
max_lag = 50
objective_severity = "warning"
"""


@pytest.mark.parametrize("interrupted", ["", "reload", "start"])
def test_a_channel_for_errors_only_does_not_lack_a_warning(
    tmp_path: Path, interrupted: str
) -> None:
    live = Live()
    live.topics(orders=1)
    alerting = _Alerting(tmp_path, _FOR_ERRORS, live)
    for number in range(120):
        alerting.interrupt(interrupted if number == 100 else "")
        live.produce("orders", 0, 100)
        live.wait(_STEP_S)
        live.commit(("a", "orders", 0, live.ends["orders", 0] - 100))
        alerting.look()
    notices = alerting.end()

    assert [(notice.channel, notice.event) for notice in notices] == [("warned", "open")]
    assert notices[0].at_ms < live.now_ms - 200_000


_HEARD_BY_NOBODY = """
[alerts.webhook.loud]
url = "http://127.0.0.1:9/loud"
threshold = "error"
[alerts.webhook.warned]
url = "http://127.0.0.1:9/warned"
[alerts.policies.audit]
topic = "^audit$"
channels = ["loud"]
threshold = "warning"
max_lag = 50
objective_severity = "warning"
[alerts.policies.orders]
topic = "^orders$"
channels = ["warned"]
threshold = "warning"
max_lag = 50
objective_severity = "warning"
"""


@pytest.mark.parametrize("interrupted", ["", "start"])
def test_an_incident_that_no_channel_was_for_is_sent_when_it_moves_to_one(
    tmp_path: Path, interrupted: str
) -> None:
    live = Live()
    live.topics(audit=1, orders=1)
    alerting = _Alerting(tmp_path, _HEARD_BY_NOBODY, live)
    for number in range(140):
        alerting.interrupt(interrupted if number == 100 else "")
        behind = "audit" if number < 120 else "orders"
        for topic in ("audit", "orders"):
            live.produce(topic, 0, 100)
        live.wait(_STEP_S)
        for topic in ("audit", "orders"):
            left = 100 if topic == behind else 0
            live.commit(("a", topic, 0, live.ends[topic, 0] - left))
        alerting.look()
    notices = alerting.end()

    assert [(notice.channel, notice.event) for notice in notices] == [("warned", "open")]

"""Which open incidents reach the channels of a changed configuration."""

from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.fleet import Fleet, ShiftedClock, alert_settings
from tests.support.receiver import Receiver, receiving
from tests.support.running_alerts import running
from tests.support.waiting import eventually

_HEAD = "group_wait_s = 0.02\ngroup_interval_s = 0\n"


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Policies, and the webhooks beside them."""

    policies: str
    channels: tuple[str, ...]

    def text(self, receiver: Receiver) -> str:
        hooks = [
            f'[alerts.webhook.{name}]\nurl = "{receiver.url}/{name}"\nper_minute = 6000\n'
            for name in self.channels
        ]
        return _HEAD + self.policies + "".join(hooks)


def policy(name: str, more: str = "") -> str:
    return f"[alerts.policies.{name}]\nclose_for_s = 0\nreopen_s = 0\n{more}\n"


def events(receiver: Receiver, channel: str) -> list[tuple[str, str]]:
    """Event and severity of each notice that a channel has received."""
    return [
        (notice["event"], notice["severity"])
        for request in receiver.requests
        if request.path == f"/{channel}"
        for notice in request.json["notices"]
        if notice["about"] == "group"
    ]


_ONE = Config(policies=policy("all", 'channels = ["a"]'), channels=("a",))
_BEFORE_AFTER = {
    "its policy has another name": (
        _ONE,
        Config(policies=policy("every", 'channels = ["a", "b"]'), channels=("a", "b")),
    ),
    "its policy gains a channel of before": (
        Config(policies=policy("all", 'channels = ["a"]'), channels=("a", "b")),
        Config(policies=policy("all", 'channels = ["a", "b"]'), channels=("a", "b")),
    ),
    "the first policy comes before its own": (
        _ONE,
        Config(
            policies=policy("pay", 'group = "billing"\nchannels = ["b"]')
            + policy("all", 'channels = ["a"]'),
            channels=("a", "b"),
        ),
    ),
    "policies replace the default": (
        Config(policies="", channels=("a",)),
        Config(
            policies=policy("pay", 'group = "billing"') + policy("rest"),
            channels=("a", "b"),
        ),
    ),
}


@pytest.mark.parametrize("restart", [False, True], ids=["reload", "restart"])
@pytest.mark.parametrize("case", _BEFORE_AFTER)
def test_an_open_incident_reaches_the_channels_that_its_group_has_now(
    tmp_path, clock, *, case, restart
) -> None:
    before, after = _BEFORE_AFTER[case]
    fleet = Fleet(["billing"], clock)
    with receiving() as receiver:
        settings = alert_settings(tmp_path, after.text(receiver))
        with running(alert_settings(tmp_path, before.text(receiver)), clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: bool(events(receiver, "a")) and alerts.idle(), "the opening")
            if not restart:
                alerts.call(lambda: alerts.alerts.reload(settings))
                alerts.sees(fleet)
                eventually(lambda: bool(events(receiver, "b")), "the opening on b")
        with running(settings, clock) as alerts:
            alerts.sees(fleet)
            eventually(lambda: bool(events(receiver, "b")) and alerts.idle(), "the opening on b")
            first = next(request for request in receiver.requests if request.path == "/b")
            fleet.heal("billing")
            alerts.sees(fleet)
            fleet.pass_time(700)
            alerts.sees(fleet)
            eventually(lambda: len(events(receiver, "b")) > 1 and alerts.idle(), "the ends")

    assert events(receiver, "b") == [("open", "error"), ("close", "error")]
    assert [event for event, _ in events(receiver, "a")] == ["open", "close"]
    assert f"[alerts.policies.{first.json['notices'][0]['policy']}]" in after.policies


@pytest.mark.parametrize(
    "more",
    [
        'group = "other"\nchannels = ["b"]',
        'topic = "other"\nchannels = ["b"]',
        'threshold = "never"\nchannels = ["b"]',
    ],
)
def test_a_policy_that_is_not_for_an_incident_tells_its_channels_nothing(
    tmp_path, clock, *, more
) -> None:
    after = Config(policies=policy("new", more) + _ONE.policies, channels=("a", "b"))
    fleet = Fleet(["billing"], clock)
    with receiving() as receiver:
        with running(alert_settings(tmp_path, _ONE.text(receiver)), clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: bool(events(receiver, "a")) and alerts.idle(), "the opening")
        with running(alert_settings(tmp_path, after.text(receiver)), clock) as alerts:
            waiting = alerts.call(alerts.alerts.counts).undelivered

    assert not waiting["b"]
    assert events(receiver, "b") == []


@pytest.mark.parametrize(("limit", "heard"), [("", []), ("max_lag = 90", ["open"])])
def test_a_policy_without_the_limit_that_is_missed_tells_its_channels_nothing(
    tmp_path, clock, *, limit, heard
) -> None:
    before = Config(policies=policy("all", 'max_lag = 100\nchannels = ["a"]'), channels=("a",))
    after = Config(policies=policy("new", f'{limit}\nchannels = ["b"]'), channels=("a", "b"))
    fleet = Fleet(["billing"], clock)
    fleet.slow.add("billing")
    with (
        receiving() as receiver,
        running(alert_settings(tmp_path, before.text(receiver)), clock) as alerts,
    ):
        fleet.pass_time(30)
        alerts.sees(fleet)
        eventually(lambda: bool(events(receiver, "a")) and alerts.idle(), "the opening")
        alerts.call(lambda: alerts.alerts.reload(alert_settings(tmp_path, after.text(receiver))))
        alerts.sees(fleet)
        eventually(alerts.idle, "all notices")

    assert [event for event, _ in events(receiver, "b")] == heard


@pytest.mark.parametrize(
    ("first", "then", "heard"),
    [
        ("warning", "error", [("open", "warning"), ("escalate", "error")]),
        ("error", "warning", [("open", "error"), ("de_escalate", "warning")]),
        ("error", "error", [("open", "error")]),
    ],
)
def test_a_channel_that_returns_hears_once_what_an_incident_has_become(
    tmp_path, clock, *, first, then, heard
) -> None:
    policies = policy("all", 'threshold = "warning"')
    both = Config(policies=policies, channels=("chat", "other"))
    without = Config(policies=policies, channels=("other",))
    fleet = Fleet(["billing"], clock)

    def turn(severity: str) -> None:
        fleet.heal("billing")
        fleet.slow.discard("billing")
        fleet.fail("billing") if severity == "error" else fleet.slow.add("billing")
        fleet.pass_time(60)

    with receiving() as receiver:
        with running(alert_settings(tmp_path, both.text(receiver)), clock) as alerts:
            turn(first)
            alerts.sees(fleet)
            eventually(lambda: bool(events(receiver, "chat")) and alerts.idle(), "the opening")
        with running(alert_settings(tmp_path, without.text(receiver)), clock) as alerts:
            turn(then)
            for _ in range(3):
                fleet.pass_time(120)
                alerts.sees(fleet)
            told = 1 + (then != first)
            eventually(lambda: len(events(receiver, "other")) == told, "the change on the other")
            eventually(alerts.idle, "its delivery")
        for _ in range(2):
            with running(alert_settings(tmp_path, both.text(receiver)), clock) as alerts:
                fleet.pass_time(60)
                alerts.sees(fleet)
                eventually(lambda: len(events(receiver, "chat")) >= len(heard), "the change")
                eventually(alerts.idle, "the delivery of all")

    assert events(receiver, "chat") == heard
    assert events(receiver, "other") == heard


@pytest.mark.parametrize("restart", [False, True], ids=["reload", "restart"])
def test_a_new_channel_hears_what_is_true_now(tmp_path, clock, *, restart) -> None:
    escalated = 'escalate_after_s = 60\nescalate_to = ["boss"]\nchannels = '
    before = Config(
        policies=policy("all", f'{escalated}["a"]\nteam = "old"'), channels=("a", "boss")
    )
    after = Config(
        policies=policy("all", f'{escalated}["a", "b"]\nteam = "new"'), channels=("a", "b", "boss")
    )
    fleet = Fleet(["billing"], clock)

    def notices(channel: str) -> list[dict[str, Any]]:
        requests = [each for each in receiver.requests if each.path == f"/{channel}"]
        return [notice for request in requests for notice in request.json["notices"]]

    with receiving() as receiver:
        settings = alert_settings(tmp_path, after.text(receiver))
        with running(alert_settings(tmp_path, before.text(receiver)), clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            fleet.pass_time(70)
            alerts.sees(fleet)
            eventually(lambda: bool(notices("boss")) and alerts.idle(), "it is handed on")
            fleet.pass_time(300)
            if not restart:
                alerts.call(lambda: alerts.alerts.reload(settings))
                alerts.sees(fleet)
                eventually(lambda: bool(notices("b")), "the opening on b")
        with running(settings, clock) as alerts:
            for _ in range(3):
                alerts.sees(fleet)
                fleet.pass_time(5)
            eventually(lambda: bool(notices("b")) and alerts.idle(), "the opening on b")

    (opened,) = notices("a")
    (heard,) = notices("b")
    (handed_on,) = notices("boss")
    assert (heard["event"], heard["reason"], heard["team"]) == ("open", "new_channel", "new")
    assert heard["since_ms"] == opened["since_ms"]
    assert heard["at_ms"] >= opened["at_ms"] + 370_000
    assert heard["verdict"]["total_lag"] > opened["verdict"]["total_lag"]
    assert handed_on["reason"] == "handed_on"


def test_a_channel_that_comes_as_the_escalation_is_due_hears_of_the_incident(
    tmp_path, clock
) -> None:
    escalated = 'escalate_after_s = 60\nescalate_to = ["boss"]\nchannels = ["a", "b"]'
    after = Config(policies=policy("all", escalated), channels=("a", "b", "boss"))
    fleet = Fleet(["billing"], clock)
    with (
        receiving() as receiver,
        running(alert_settings(tmp_path, _ONE.text(receiver)), clock) as alerts,
    ):
        fleet.fail("billing")
        alerts.sees(fleet)
        eventually(lambda: bool(events(receiver, "a")) and alerts.idle(), "the opening")
        fleet.pass_time(100)
        alerts.call(lambda: alerts.alerts.reload(alert_settings(tmp_path, after.text(receiver))))
        for _ in range(3):
            alerts.sees(fleet)
            fleet.pass_time(5)
        eventually(lambda: bool(events(receiver, "boss")) and alerts.idle(), "it is handed on")

    assert events(receiver, "b") == [("open", "error")]
    assert events(receiver, "boss") == [("open", "error")]
    assert events(receiver, "a") == [("open", "error")]

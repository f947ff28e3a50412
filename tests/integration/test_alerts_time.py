"""Time that jumps, local time that changes, and time to catch up: with real receivers."""

from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from lagwatch.core.model import EpochMs, RuleSet
from lagwatch.ports.alerts import IncidentAsk
from tests.support.fleet import CLUSTER, Fleet, ShiftedClock, alert_settings
from tests.support.receiver import receiving
from tests.support.running_alerts import running
from tests.support.waiting import eventually

_POLICY = "group_wait_s = 0.05\n[alerts.policies.all]\nclose_for_s = 0\nreopen_s = 0\n"


def _hook(url: str) -> str:
    return f'[alerts.webhook.hook]\nurl = "{url}"\nper_minute = 6000\n'


def _clock_at(instant: str) -> ShiftedClock:
    clock = ShiftedClock()
    clock.ahead_ms += round(datetime.fromisoformat(instant).timestamp() * 1000) - clock.now_ms()
    return clock


@pytest.mark.parametrize(
    ("day", "starts"),
    [
        ("sun", "2027-03-28T01:30:00+00:00"),  # 02:30 is skipped: it starts at 03:30 CEST
        ("sun", "2026-10-25T00:30:00+00:00"),  # 02:30 comes twice: the first one, CEST
        ("mon", "2027-03-29T00:30:00+00:00"),
    ],
)
def test_a_weekly_mute_holds_notices_back_when_clocks_change(
    tmp_path: Path, day: str, starts: str
) -> None:
    clock = _clock_at(starts)
    clock.ahead_ms -= 90_000
    mute = (
        f'[alerts.mutes.night]\nreason = "load"\ndays = ["{day}"]\nat = "02:30"\n'
        'duration_s = 600\ntimezone = "Europe/Berlin"\n'
    )
    with receiving() as receiver:
        fleet = Fleet(["before", "during"], clock)
        settings = alert_settings(tmp_path, _POLICY + mute + _hook(receiver.url))
        with running(settings, clock) as alerts:
            fleet.fail("before")
            alerts.sees(fleet)
            eventually(lambda: len(receiver.notices) == 1, "the group that fails before the mute")
            fleet.pass_time(60)  # the mute has begun
            fleet.fail("during")
            alerts.sees(fleet)
            fleet.pass_time(420)  # almost its end
            alerts.sees(fleet)
            muted = alerts.call(lambda: [mute.active for mute in alerts.alerts.mutes()])
            eventually(alerts.idle, "nothing waits")
            held = [notice["group"] for notice in receiver.notices]
            fleet.pass_time(120)
            alerts.sees(fleet)
            eventually(lambda: len(receiver.notices) == 3, "what is still open after the mute")

    assert muted == [True]
    assert held == ["before"]
    assert {(n["group"], n["reason"]) for n in receiver.notices[1:]} == {
        ("before", "mute_ended"),
        ("during", "mute_ended"),
    }


@pytest.mark.parametrize(
    ("jump_s", "waits_s"),
    [
        (0, 60),
        (-3600, 120),  # set back: the wait begins anew
        (3600, 0),  # set ahead: it ends early
    ],
)
def test_a_clock_that_jumps_during_a_wait_makes_it_no_longer_than_anew(
    tmp_path: Path, jump_s: int, waits_s: int
) -> None:
    """The machine's clock jumps; those of Kafka's brokers, and so the verdicts, do not."""
    clock = ShiftedClock()
    jumped_ms = 0
    with receiving() as receiver:
        text = _POLICY.replace("close_for_s", "for_s = 120\nclose_for_s") + _hook(receiver.url)
        fleet = Fleet(["billing"], clock)
        with running(alert_settings(tmp_path, text), clock) as alerts:

            def looks() -> bool:
                """One round; True if an incident is open."""
                fleet.judge()
                snapshot, now_ms = fleet.monitor.snapshot, EpochMs(clock.now_ms() + jumped_ms)
                assert snapshot is not None
                alerts.call(lambda: alerts.alerts.observe(snapshot, fleet.queries, now_ms))
                return alerts.call(alerts.alerts.counts).open_incidents[CLUSTER] > 0

            fleet.fail("billing")
            looks()
            fleet.pass_time(60)
            early = looks()
            jumped_ms = jump_s * 1000
            began_ms = clock.now_ms()
            while not looks() and clock.now_ms() - began_ms < 300_000:
                fleet.pass_time(5)
            waited_s = (clock.now_ms() - began_ms) / 1000
            eventually(lambda: len(receiver.notices) == 1, "the opening")
            jumped_ms = 0
            fleet.heal("billing")
            fleet.pass_time(20)
            ended = not looks()
            eventually(lambda: len(receiver.notices) == 2, "the end")
            (kept,), _ = alerts.call(lambda: alerts.alerts.incidents(IncidentAsk()))

    assert kept.closed_ms is not None
    assert kept.since_ms <= kept.opened_ms <= kept.closed_ms
    assert ("clock_set_back" in receiver.notices[1]["verdict"]) is (jump_s > 0)
    assert not early
    assert waited_s == pytest.approx(waits_s, abs=10)
    assert ended
    assert [notice["event"] for notice in receiver.notices] == ["open", "close"]


def test_a_group_that_will_not_catch_up_in_time_is_reported_and_so_is_its_end(
    tmp_path: Path,
) -> None:
    clock = ShiftedClock()
    with receiving() as receiver:
        text = _POLICY + "catch_up_within_s = 600\n" + _hook(receiver.url)
        fleet = Fleet(["billing", "orders"], clock, rules=RuleSet.LAGWATCH, intervals=10)
        fleet.slow.add("billing")
        with running(alert_settings(tmp_path, text), clock) as alerts:
            for _ in range(40):
                fleet.pass_time(10)
                alerts.sees(fleet)
                if alerts.call(alerts.alerts.counts).open_incidents[CLUSTER]:
                    break
            eventually(lambda: len(receiver.notices) == 1, "the objective that is missed")
            fleet.slow.clear()
            fleet.pass_time(30)
            alerts.sees(fleet)
            eventually(lambda: len(receiver.notices) == 2, "the end")

    opened, ended = receiver.notices
    assert (opened["group"], opened["event"], ended["event"]) == ("billing", "open", "close")
    assert opened["verdict"]["objective"].endswith("allowed are 10 min")
    assert ended["verdict"]["total_lag"] == 0


def test_an_error_is_since_its_own_beginning_not_since_that_of_the_warning_before(
    tmp_path: Path,
) -> None:
    """A channel for errors alone has received nothing of the warning."""
    clock = ShiftedClock()
    with receiving() as receiver, receiving() as pager:
        policy = _POLICY.replace("close_for_s", 'threshold = "warning"\nclose_for_s')
        errors = _hook(pager.url).replace("hook]", "pager]") + 'threshold = "error"\n'
        text = policy + _hook(receiver.url) + errors
        fleet = Fleet(["a"], clock, rules=RuleSet.LAGWATCH, intervals=10)
        fleet.slow.add("a")
        settings = alert_settings(tmp_path, text)
        with running(settings, clock) as alerts:
            for _ in range(90):
                fleet.pass_time(10)
                alerts.sees(fleet)
                if alerts.call(alerts.alerts.counts).open_incidents[CLUSTER]:
                    break
            eventually(lambda: len(receiver.notices) == 1, "the warning")
            stopped_ms = clock.now_ms()
            fleet.failing.add("a")
            while not pager.notices:
                fleet.pass_time(30)
                alerts.sees(fleet)
            eventually(lambda: len(receiver.notices) == 2 and alerts.idle(), "the error")
        with running(settings, clock) as alerts:  # when it began is kept
            fleet.slow.clear()
            fleet.heal("a")
            fleet.pass_time(60)
            while len(pager.notices) < 2:
                fleet.pass_time(30)
                alerts.sees(fleet)
            eventually(alerts.idle, "the end")

    warned, error, _ = receiver.notices
    opened, ended = pager.notices
    assert (warned["severity"], warned["trouble_ms"]) == ("warning", warned["since_ms"])
    assert (opened["event"], opened["verdict"]["rule"]) == ("open", "stopped")
    for notice in (error, opened, ended):
        assert notice["severity"] == "error"
        assert abs(notice["since_ms"] - stopped_ms) < 5_000
        assert notice["trouble_ms"] == warned["since_ms"]


def test_an_incident_lasted_until_the_group_was_good_not_until_that_had_lasted(
    tmp_path: Path,
) -> None:
    clock = ShiftedClock()
    with receiving() as receiver:
        fleet = Fleet(["a"], clock)
        policy = _POLICY.replace("close_for_s = 0", "close_for_s = 60")
        with running(alert_settings(tmp_path, policy + _hook(receiver.url)), clock) as alerts:
            fleet.fail("a")
            alerts.sees(fleet)
            eventually(lambda: len(receiver.notices) == 1, "its beginning")
            fleet.heal("a")
            healed_ms = clock.now_ms()
            alerts.sees(fleet)
            fleet.pass_time(61)
            alerts.sees(fleet)
            eventually(lambda: len(receiver.notices) == 2, "the end of the incident")

    end = receiver.notices[-1]
    assert end["event"] == "close"
    assert abs(end["verdict"]["ended_ms"] - healed_ms) < 5_000


def test_a_mute_goes_on_when_the_clock_that_it_was_made_by_is_set_back(tmp_path: Path) -> None:
    clock, hour_ms = ShiftedClock(), 3_600_000
    fleet = Fleet(["billing"], clock)
    settings = alert_settings(tmp_path, _POLICY + _hook("http://127.0.0.1:1"))
    with running(settings, clock) as alerts:
        made_ms = clock.now_ms()
        for group, starts_ms in (("billing", made_ms), ("later", made_ms + hour_ms)):
            mute = partial(alerts.alerts.mute, cluster=CLUSTER, group=group, reason="", author="")
            alerts.call(partial(mute, starts_ms=starts_ms, ends_ms=starts_ms + hour_ms))
        alerts.sees(fleet)
        clock.ahead_ms -= 3 * hour_ms
        set_back_ms = clock.now_ms()
        alerts.sees(fleet)
        found = {each.group: each for each in alerts.call(alerts.alerts.mutes)}

    billing, later = found["billing"], found["later"]
    assert (billing.active, later.active) == (True, False)
    assert billing.starts_ms == pytest.approx(set_back_ms, abs=5_000)
    assert (billing.ends_ms or 0) - (billing.starts_ms or 0) == hour_ms
    assert later.starts_ms == made_ms + hour_ms

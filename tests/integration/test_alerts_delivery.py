"""Notices reach real receivers, good and bad ones."""

import hashlib
import hmac
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from lagwatch.config.alerts import DAYS
from lagwatch.core.model import GroupInfo, Member, RuleSet
from lagwatch.errors import NotFoundError
from lagwatch.notify.observed import of_group
from lagwatch.ports.alerts import IncidentAsk, MessageState, NoticeAsk
from lagwatch.ports.reports import GroupsSeen
from tests.support.fleet import CLUSTER, Fleet, ShiftedClock, alert_settings
from tests.support.receiver import Receiver, Reply, receiving
from tests.support.running_alerts import Running, running
from tests.support.waiting import eventually

pytestmark = pytest.mark.minutes

POLICY = "[alerts.policies.all]\nclose_for_s = 0\nreopen_s = 0\n"


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as server:
        yield server


def hook(receiver: Receiver, name: str = "hook", more: str = "") -> str:
    return f'[alerts.webhook.{name}]\nurl = "{receiver.url}/{name}"\n{more}\n'


def notices(alerts: Running, **ask):
    return alerts.call(lambda: alerts.alerts.notices(NoticeAsk(**ask)))[0]


def test_a_group_that_stops_is_sent_and_its_end_too(tmp_path, clock, receiver) -> None:
    fleet = Fleet(["billing", "orders"], clock)
    with running(alert_settings(tmp_path, POLICY + hook(receiver)), clock) as alerts:
        fleet.fail("billing")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.taken) == 1, "the opening")
        fleet.heal("billing")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.taken) == 2, "the end")

    opened, closed = (request.json["notices"][0] for request in receiver.taken)
    assert (opened["group"], opened["event"], opened["severity"]) == ("billing", "open", "error")
    assert opened["verdict"]["rule"] == "stopped"
    assert opened["verdict"]["partitions"][0]["evidence"]["current_lag"] > 0
    assert (closed["event"], closed["reason"]) == ("close", "healed")
    assert closed["incident"] == opened["incident"]


def test_each_message_says_of_how_many_groups_incidents_are_open(tmp_path, clock, receiver) -> None:
    fleet = Fleet(["a", "b", "c"], clock)
    mute = '[alerts.mutes.c]\nreason = "test"\ngroup = "^c$"\nstarts = 2020-01-01T00:00:00Z\n'
    mute += "ends = 2099-01-01T00:00:00Z\n"
    with running(alert_settings(tmp_path, POLICY + mute + hook(receiver)), clock) as alerts:
        fleet.fail("c")
        for number, (change, group) in enumerate(
            [(fleet.fail, "a"), (fleet.fail, "b"), (fleet.heal, "a")], start=1
        ):
            change(group)
            alerts.sees(fleet)
            eventually(lambda count=number: len(receiver.taken) == count, "the message")  # type: ignore[misc]

    counts = [request.json["open_groups"][CLUSTER]["error"] for request in receiver.taken]
    assert counts == [1, 2, 1], "the muted group does not count"


def test_a_loss_that_is_open_does_not_hide_a_stop(tmp_path, clock, receiver) -> None:
    fleet = Fleet(["billing"], clock, rules=RuleSet.LAGWATCH)
    settings = alert_settings(tmp_path, POLICY + hook(receiver))
    with running(settings, clock) as alerts:
        fleet.slow.add("billing")
        fleet.pass_time(10)
        fleet.delete_before(fleet.committed("billing") + 50)
        fleet.failing.add("billing")  # for a minute after a commit it may read what it has fetched
        fleet.pass_time(62)
        alerts.sees(fleet)
        eventually(lambda: len(receiver.taken) == 1, "the loss")
        fleet.fail("billing")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.taken) == 2 and alerts.idle(), "the stop")
    with running(settings, clock) as alerts:  # what was named is kept
        for _ in range(3):
            fleet.pass_time(30)
            alerts.sees(fleet)
        fleet.slow.clear()
        fleet.heal("billing")
        fleet.monitor.acknowledge_losses("billing")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.taken) == 3, "the end")

    lost, stopped, ended = receiver.notices
    count = stopped["verdict"]["lost"]
    bound = "up to " if stopped["verdict"].get("lost_is") else ""
    assert ended["verdict"]["lost_in_all"] == count > 0
    assert ended["verdict"]["loss_acknowledged"] is True
    assert f", {bound}{count} messages lost" in receiver.taken[2].json["subject"]
    assert (lost["event"], lost["kinds"]) == ("open", ["records_lost"])
    assert (stopped["event"], stopped["reason"]) == ("escalate", "worse_kind")
    assert stopped["verdict"]["rule"] == "stopped"
    assert (stopped["kinds"], stopped["kinds_before"]) == (
        ["records_lost", "stopped"],
        ["records_lost"],
    )
    assert [notice["event"] for notice in receiver.notices] == ["open", "escalate", "close"]


def _lose(fleet: Fleet, group: str, messages: int) -> None:
    """Delete what a group has not read: at most so many messages, because it reads on for a while.

    For a minute after a commit it may read what it has fetched.
    """
    fleet.slow.add(group)
    fleet.pass_time(10)
    fleet.delete_before(fleet.committed(group) + messages)
    fleet.failing.add(group)
    fleet.pass_time(62)


def test_a_notice_of_a_new_loss_leaves_out_what_was_acknowledged(tmp_path, clock, receiver) -> None:
    fleet = Fleet(["billing"], clock, rules=RuleSet.LAGWATCH)
    settings = alert_settings(tmp_path, POLICY + hook(receiver))
    with running(settings, clock) as alerts:
        _lose(fleet, "billing", 80)
        alerts.sees(fleet)
        eventually(lambda: len(receiver.taken) == 1, "the loss")
        fleet.slow.clear()
        fleet.heal("billing")
        fleet.monitor.acknowledge_losses("billing")
        fleet.pass_time(1)
        alerts.sees(fleet)
        eventually(lambda: len(receiver.taken) == 2, "the end")
        _lose(fleet, "billing", 30)
        alerts.sees(fleet)
        eventually(lambda: len(receiver.taken) == 3, "the next loss")
        snapshot = fleet.monitor.snapshot
        assert snapshot is not None
        seen = of_group(snapshot, 0)

    first, ended, last = receiver.notices
    (partition,) = last["verdict"]["partitions"]
    assert ended["verdict"]["lost_in_all"] == first["verdict"]["lost"]
    assert 30 < first["verdict"]["lost"] <= 80
    assert 0 < last["verdict"]["lost"] <= 30
    assert last["verdict"]["lost"] == partition["lost"] == seen.lost
    assert partition["evidence"]["acknowledged_messages"] == first["verdict"]["lost"]
    assert partition["sentence"].startswith(f"{seen.lost} messages deleted")


def test_a_loss_that_grows_is_sent_again_and_its_figures_are_those_of_now(
    tmp_path, clock, receiver
) -> None:
    fleet = Fleet(["billing"], clock, rules=RuleSet.LAGWATCH)
    settings = alert_settings(tmp_path, POLICY + hook(receiver))
    with running(settings, clock) as alerts:
        _lose(fleet, "billing", 80)
        alerts.sees(fleet)
        eventually(lambda: len(receiver.taken) == 1, "the loss")
    with running(settings, clock) as alerts:  # how much the notice said is kept
        for more in (20, 900):
            fleet.delete_before(fleet.log_start + more)
            fleet.pass_time(65)
            alerts.sees(fleet)
        eventually(lambda: len(receiver.taken) == 2 and alerts.idle(), "that it has grown")
        fleet.delete_before(fleet.log_start + 100)
        fleet.pass_time(65)
        alerts.sees(fleet)
        (incident,) = alerts.call(lambda: alerts.alerts.incidents(IncidentAsk()))[0]

    opened, grown = receiver.notices
    said = opened["verdict"]["lost"]
    assert (grown["event"], grown["reason"]) == ("escalate", "loss_grew")
    assert (grown["verdict"]["lost"], grown["verdict"]["lost_before"]) == (said + 920, said)
    assert f" {said + 1_020:,} messages lost" in incident.behind_now


def test_in_a_storm_the_causes_of_some_are_looked_for_and_the_others_say_so(
    tmp_path, clock, receiver
) -> None:
    # a group counts as ten partitions, so that 1,000 of them are 10,000 partitions
    fleet = Fleet([f"g{number:04}" for number in range(1010)], clock)
    with running(alert_settings(tmp_path, POLICY + hook(receiver)), clock) as alerts:
        fleet.fail(*fleet.groups)
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 1010, "all")

    said = [notice["cause"]["sentence"] for notice in receiver.notices]
    assert sum(text.startswith("Cause: not known, because the group's") for text in said) == 1000
    assert sum(text.startswith("Cause: not looked for, because too many") for text in said) == 10


def test_five_hundred_groups_make_one_message_per_receiver(tmp_path, clock) -> None:
    with receiving() as first, receiving() as second:
        large = "most_bytes = 10000000"
        text = POLICY + hook(first, "first", large) + hook(second, "second", large)
        fleet = Fleet([f"g{number:03}" for number in range(500)], clock)
        with running(alert_settings(tmp_path, text), clock) as alerts:
            fleet.fail(*fleet.groups)
            alerts.sees(fleet)
            eventually(lambda: bool(first.taken and second.taken), "both messages")

            for receiver in (first, second):
                assert len(receiver.requests) == 1
                assert {n["group"] for n in receiver.notices} == set(fleet.groups)


@pytest.mark.thorough  # fewer incidents pass limits in the other tests
def test_five_thousand_incidents_pass_a_receiver_with_a_limit_of_a_megabyte(
    tmp_path, clock, receiver
) -> None:
    receiver.most_bytes = 1_000_000
    large = "most_bytes = 100000000\ntimeout_s = 120"
    fleet = Fleet([f"g{number:04}" for number in range(5000)], clock)
    with running(alert_settings(tmp_path, POLICY + hook(receiver, "hook", large)), clock) as alerts:
        fleet.fail(*fleet.groups)
        alerts.sees(fleet)
        eventually(
            lambda: len({notice["group"] for notice in receiver.notices}) == 5000,
            "every group",
            timeout_s=180,
        )
        counts = alerts.call(alerts.alerts.counts)

    assert len(receiver.requests) > len(receiver.taken)
    assert counts.dead == {"hook": 0}
    keys = [notice["key"] for notice in receiver.notices]
    assert len(keys) == len(set(keys))


def test_without_batches_each_notice_is_a_message(tmp_path, clock, receiver) -> None:
    text = POLICY + hook(receiver, more="batch = false\nper_minute = 6000")
    fleet = Fleet(["a", "b", "c"], clock)
    with running(alert_settings(tmp_path, text), clock) as alerts:
        fleet.fail("a", "b", "c")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.taken) == 3, "three messages")

    assert [len(request.json["notices"]) for request in receiver.taken] == [1, 1, 1]


@pytest.mark.parametrize(
    "bad",
    [
        Reply(status=500),
        Reply(status=503, headers={"Retry-After": "1"}),
        Reply(hang_up=True),
        Reply(after_s=30),
    ],
    ids=["500", "503", "hangs up", "hangs"],
)
def test_what_may_heal_is_tried_again_with_the_same_key(tmp_path, clock, bad) -> None:
    with receiving(bad) as receiver:
        text = POLICY + hook(receiver, more="timeout_s = 2")
        fleet = Fleet(["billing"], clock)
        with running(alert_settings(tmp_path, text), clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: bool(notices(alerts, state="delivered")), "the second attempt")
            (record,) = notices(alerts)

        first, second = receiver.requests
        assert first.key == second.key
        assert first.body == second.body
        assert record.attempts == 2


def test_a_receiver_that_asks_for_time_gets_it(tmp_path, clock) -> None:
    with receiving(Reply(status=429, headers={"Retry-After": "3"})) as receiver:
        fleet = Fleet(["billing"], clock)
        with running(alert_settings(tmp_path, POLICY + hook(receiver)), clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: len(receiver.requests) == 1, "the first attempt")
            refused = time.monotonic()
            eventually(lambda: len(receiver.taken) == 1, "the second attempt")

        assert time.monotonic() - refused >= 2.9


def test_what_will_not_heal_is_a_dead_letter_that_shows_why(tmp_path, clock) -> None:
    with receiving(*[Reply(status=400, body="no such room")] * 50) as receiver:
        text = POLICY + hook(receiver, more="give_up_after_s = 1")
        fleet = Fleet(["billing"], clock)
        with running(alert_settings(tmp_path, text), clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: bool(notices(alerts, state="dead")), "the dead letter")
            (dead,) = notices(alerts, state="dead")
            receiver.replies.clear()
            retried = alerts.call(lambda: alerts.alerts.retry(dead.message))
            eventually(lambda: len(receiver.taken) == 1, "the retry that was asked for")

    assert dead.last_error == "400 Bad Request: no such room"
    assert retried == 1


def test_a_message_is_given_up_at_its_deadline(tmp_path, clock) -> None:
    with receiving(*[Reply(status=500)] * 20) as receiver:
        text = POLICY + hook(receiver, more="give_up_after_s = 2")
        fleet = Fleet(["billing"], clock)
        with running(alert_settings(tmp_path, text), clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: bool(notices(alerts, state="dead")), "the dead letter")
            (dead,) = notices(alerts, state="dead")

    assert dead.attempts >= 2
    assert dead.last_error.startswith("500")


@pytest.mark.parametrize(("after_s", "times"), [(1, 1), (60, 2)])
def test_what_a_receiver_takes_while_lagwatch_ends_is_not_sent_again(
    tmp_path, clock, after_s, times
) -> None:
    fleet = Fleet(["billing"], clock)
    with receiving(Reply(after_s=after_s)) as receiver:
        settings = alert_settings(tmp_path, POLICY + hook(receiver))
        with running(settings, clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: len(receiver.requests) == 1, "it is on its way")
        with running(settings, clock) as alerts:
            eventually(alerts.idle, "nothing waits")

        assert len(receiver.requests) == times
        assert len({request.key for request in receiver.requests}) == 1


def test_a_channel_that_waits_for_its_last_answer_is_in_no_trouble(tmp_path, clock) -> None:
    """A reload removed it while a message was on its way."""
    fleet = Fleet(["billing"], clock)
    with receiving(Reply(after_s=1.5)) as slow, receiving() as other:
        with_both = alert_settings(tmp_path, POLICY + hook(slow, "slow") + hook(other, "other"))
        with running(with_both, clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: len(slow.requests) == 1, "it is on its way")
            reloaded = alert_settings(tmp_path, POLICY + hook(other, "other"))
            alerts.call(lambda: alerts.alerts.reload(reloaded))
            alerts.call(alerts.alerts._check_itself)  # noqa: SLF001
            ending = alerts.call(lambda: alerts.alerts.problem)
            dispatcher = alerts.alerts._dispatcher  # noqa: SLF001
            was_ending = dispatcher.is_ending("slow")
            eventually(lambda: not dispatcher.is_ending("slow"), "its answer")
            alerts.call(alerts.alerts._check_itself)  # noqa: SLF001

        assert (was_ending, ending) == (True, "")
        assert [notice["about"] for notice in other.notices] == ["group"]


def test_a_receiver_that_hangs_delays_no_other(tmp_path, clock) -> None:
    with receiving(*[Reply(after_s=60)] * 10) as hanging, receiving() as good:
        text = POLICY + hook(hanging, "hanging") + hook(good, "good")
        fleet = Fleet(["a", "b"], clock)
        with running(alert_settings(tmp_path, text), clock) as alerts:
            fleet.fail("a")
            alerts.sees(fleet)
            eventually(lambda: len(good.taken) == 1, "the good receiver", timeout_s=20)
            fleet.fail("b")
            alerts.sees(fleet)
            eventually(lambda: len(good.taken) == 2, "the good receiver again", timeout_s=20)

            assert len(hanging.requests) == 1


def test_an_end_that_overtakes_its_opening_replaces_it(tmp_path, clock) -> None:
    with receiving(Reply(status=500), Reply(status=500), Reply(status=500)) as receiver:
        fleet = Fleet(["billing"], clock)
        with running(alert_settings(tmp_path, POLICY + hook(receiver)), clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: len(receiver.requests) == 1, "the refused opening")
            fleet.heal("billing")
            alerts.sees(fleet)
            eventually(lambda: len(receiver.notices) == 1 and alerts.idle(), "the end")

    (notice,) = receiver.notices
    assert (notice["event"], notice["heard"]) == ("close", False)


def test_a_success_lets_go_all_that_waited(tmp_path, clock) -> None:
    with receiving(*[Reply(status=503)] * 3) as receiver:
        text = "group_wait_s = 0.0\n" + POLICY + hook(receiver, more="batch = false\n")
        fleet = Fleet(["a", "b", "c"], clock)
        with running(alert_settings(tmp_path, text), clock) as alerts:
            for group in fleet.groups:
                fleet.fail(group)
                alerts.sees(fleet)
            eventually(lambda: len(receiver.notices) == 3, "all three")

    assert len(receiver.requests) == 6, "no message waited for a back-off of its own"


def test_messages_without_an_error_hold_up_no_error(tmp_path, clock, receiver) -> None:
    text = "group_wait_s = 0.0\ngroup_interval_s = 300\n" + POLICY + hook(receiver)
    fleet = Fleet(["a", "b", "c"], clock)
    with running(alert_settings(tmp_path, text), clock) as alerts:
        fleet.fail("a", "b")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 2 and alerts.idle(), "the first two")
        fleet.heal("a")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 3 and alerts.idle(), "the end of one")
        fleet.heal("b")
        fleet.fail("c")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.taken) == 3, "the error, without the end of the other")

    assert [(each["group"], each["event"]) for each in receiver.taken[2].json["notices"]] == [
        ("c", "open")
    ]


def test_retry_after_binds_the_channel(tmp_path, clock) -> None:
    with receiving(Reply(status=429, headers={"Retry-After": "4"})) as receiver:
        text = "group_wait_s = 0.0\n" + POLICY + hook(receiver)
        fleet = Fleet(["a", "b", "c"], clock)
        with running(alert_settings(tmp_path, text), clock) as alerts:
            fleet.fail("a")
            alerts.sees(fleet)
            eventually(lambda: len(receiver.requests) == 1, "the refused attempt")
            refused = time.monotonic()
            fleet.fail("b", "c")
            alerts.sees(fleet)
            eventually(lambda: len(receiver.notices) == 3, "all three")

        assert time.monotonic() - refused >= 3.9
        assert len(receiver.requests) <= 3


def test_a_clock_that_goes_back_holds_up_nothing(tmp_path, clock) -> None:
    with receiving(Reply(status=500)) as receiver:
        fleet = Fleet(["billing"], clock)
        with running(alert_settings(tmp_path, POLICY + hook(receiver)), clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: len(receiver.requests) == 1, "the refused attempt")
            clock.ahead_ms -= 3_600_000
            eventually(lambda: len(receiver.taken) == 1, "the second attempt", timeout_s=20)


@pytest.mark.thorough  # storms are sent together in test_alerts_storms
def test_what_waits_for_the_rate_limit_goes_out_together(tmp_path, clock, receiver) -> None:
    text = "group_wait_s = 0.0\n" + POLICY + hook(receiver, more="per_minute = 1")
    fleet = Fleet(["a", "b", "c"], clock)
    with running(alert_settings(tmp_path, text), clock) as alerts:
        fleet.fail("a")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.taken) == 1, "the first message")
        fleet.fail("b")  # 55 s later: the next message may not go yet
        alerts.sees(fleet)
        fleet.fail("c")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 3, "all", timeout_s=120)  # the next minute

    assert [len(request.json["notices"]) for request in receiver.taken] == [1, 2]


def test_the_body_is_signed(tmp_path, clock, receiver) -> None:
    fleet = Fleet(["billing"], clock)
    text = POLICY + hook(receiver, more='secret = "hush"\nusername = "me"\npassword = "x"')
    with running(alert_settings(tmp_path, text), clock) as alerts:
        fleet.fail("billing")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.taken) == 1, "the opening")

    (request,) = receiver.taken
    stamp, mac = (
        part.partition("=")[2] for part in request.headers["x-lagwatch-signature"].split(",")
    )
    expected = hmac.new(b"hush", f"{stamp}.".encode() + request.body, hashlib.sha256).hexdigest()
    assert mac == expected
    assert request.headers["authorization"] == "Basic bWU6eA=="


def test_url_headers_and_body_are_templates(tmp_path, clock, receiver) -> None:
    text = POLICY + (
        f'[alerts.webhook.hook]\nurl = "{receiver.url}/{{{{ notice.group }}}}"\n'
        'body = "{{ verdict.rule }} {{ verdict.total_lag }} {{ notice.event }}"\n'
        'close_method = "DELETE"\nclose_body = "bye {{ notice.group }}"\n'
        '[alerts.webhook.hook.headers]\nTitle = "{{ subject }}"\n'
    )
    fleet = Fleet(["billing"], clock)
    with running(alert_settings(tmp_path, text), clock) as alerts:
        fleet.fail("billing")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.taken) == 1, "the opening")
        fleet.heal("billing")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.taken) == 2, "the end")

    opened, closed = receiver.taken
    assert (opened.method, opened.path) == ("POST", "/billing")
    assert opened.body.decode().split()[0::2] == ["stopped", "open"]
    assert opened.headers["title"].startswith("ERROR: billing on here: stopped")
    assert (closed.method, closed.body) == ("DELETE", b"bye billing")


def test_a_header_holds_no_control_characters_of_a_name(tmp_path, clock, receiver) -> None:
    text = POLICY + (
        f'[alerts.webhook.hook]\nurl = "{receiver.url}"\n'
        '[alerts.webhook.hook.headers]\nTitle = "{{ notice.group }}"\n'
    )
    hostile = "bill\x1b[2J\x07ing\r\nX: y"
    fleet = Fleet([hostile], clock)
    with running(alert_settings(tmp_path, text), clock) as alerts:
        fleet.fail(hostile)
        alerts.sees(fleet)
        eventually(lambda: len(receiver.taken) == 1, "the opening")

    (taken,) = receiver.taken
    title = taken.headers["title"].encode("latin-1").decode()
    assert title == "bill\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}ing X: y"
    assert "x" not in taken.headers


def test_a_channel_for_errors_hears_nothing_of_warnings(tmp_path, clock) -> None:
    with receiving() as pager, receiving() as chat:
        text = (
            POLICY
            + 'threshold = "warning"\n'
            + hook(pager, "pager", 'threshold = "error"')
            + hook(chat, "chat")
        )
        fleet = Fleet(["billing", "orders"], clock)
        with running(alert_settings(tmp_path, text), clock) as alerts:
            fleet.slow.add("billing")
            fleet.pass_time(70)
            alerts.sees(fleet)
            eventually(lambda: len(chat.notices) == 1, "the warning")
            fleet.heal("billing")
            fleet.slow.discard("billing")
            fleet.pass_time(8)
            alerts.sees(fleet)
            eventually(lambda: len(chat.notices) == 2, "the end")

        assert chat.notices[0]["severity"] == "warning"
        assert pager.requests == []


def test_a_mute_holds_notices_back_until_it_ends(tmp_path, clock, receiver) -> None:
    fleet = Fleet(["billing"], clock)
    with running(alert_settings(tmp_path, POLICY + hook(receiver)), clock) as alerts:
        now_ms = clock.now_ms()
        mute = alerts.call(
            lambda: alerts.alerts.mute(
                cluster="",
                group="billing",
                reason="deploying",
                author="me",
                starts_ms=now_ms,
                ends_ms=now_ms + 3_600_000,
            )
        )
        fleet.fail("billing")
        alerts.sees(fleet)
        muted = alerts.call(alerts.alerts.counts)
        alerts.call(lambda: alerts.alerts.unmute(mute.id))
        alerts.sees(fleet)
        eventually(lambda: len(receiver.taken) == 1, "the opening, late")

    assert muted.open_incidents == {"here": 1}
    assert muted.undelivered == {"hook": 0}
    assert receiver.notices[0]["reason"] == "mute_ended"


@pytest.mark.parametrize("kind", ["run_time", "recurring"])
def test_what_opened_before_a_mute_is_said_when_it_is_still_open_after_it(
    tmp_path, clock, receiver, kind
) -> None:
    fleet = Fleet(["billing"], clock)
    soon = datetime.fromtimestamp(clock.now_ms() / 1000 + 600, UTC)
    weekly = (
        f'[alerts.mutes.work]\nreason = "work"\ndays = ["{DAYS[soon.weekday()]}"]\n'
        f'at = "{soon:%H:%M}"\nduration_s = 1200\ntimezone = "UTC"\n'
    )
    text = POLICY + hook(receiver) + (weekly if kind == "recurring" else "")
    with running(alert_settings(tmp_path, text), clock) as alerts:
        fleet.fail("billing")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.taken) == 1, "the opening")
        if kind == "run_time":
            starts_ms = clock.now_ms() + 600_000
            alerts.call(
                lambda: alerts.alerts.mute(
                    cluster="",
                    group="billing",
                    reason="work",
                    author="me",
                    starts_ms=starts_ms,
                    ends_ms=starts_ms + 1_200_000,
                )
            )
        fleet.pass_time(900)
        alerts.sees(fleet)
        within = len(receiver.taken)
        fleet.pass_time(1200)
        alerts.sees(fleet)
        eventually(lambda: len(receiver.taken) == 2, "the notice after the mute")

    assert within == 1
    assert [each["event"] for each in receiver.notices] == ["open", "remind"]
    assert receiver.notices[1]["reason"] == "mute_ended"


def test_verdicts_on_stale_log_ends_decide_nothing(tmp_path, clock, receiver) -> None:
    fleet = Fleet(["billing"], clock)
    with running(alert_settings(tmp_path, POLICY + hook(receiver)), clock) as alerts:
        fleet.fail("billing")
        clock.ahead_ms += 60_000  # Kafka has not answered for a minute
        alerts.sees(fleet)

        assert alerts.call(alerts.alerts.counts).open_incidents == {"here": 0}


def test_policies_of_topics_take_their_own_partitions(tmp_path, clock, receiver) -> None:
    text = f'[alerts.policies.ignored]\ntopic = "^orders$"\nthreshold = "never"\n{hook(receiver)}'
    fleet = Fleet(["billing"], clock, topic="orders")
    with running(alert_settings(tmp_path, text), clock) as alerts:
        fleet.fail("billing")
        alerts.sees(fleet)

        assert alerts.call(alerts.alerts.counts).open_incidents == {"here": 0}


def test_an_incident_that_stays_open_is_sent_to_the_next_channel_and_ends_there(
    tmp_path, clock
) -> None:
    with receiving() as team, receiving() as boss, receiving() as archive:
        text = (
            'also_to = ["archive"]\n'
            + POLICY.replace("reopen_s", 'escalate_after_s = 600\nescalate_to = ["boss"]\nreopen_s')
            + "remind_s = 60\n"
            + hook(team, "team")
            + hook(boss, "boss")
            + hook(archive, "archive")
        )
        fleet = Fleet(["billing"], clock)
        with running(alert_settings(tmp_path, text), clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: bool(team.notices and archive.notices), "the opening")
            (incident,) = alerts.call(lambda: alerts.alerts.incidents(IncidentAsk()))[0]
            alerts.call(lambda: alerts.alerts.acknowledge(incident.id, author="me"))
            fleet.pass_time(120)
            alerts.sees(fleet)
            early = list(boss.notices)
            fleet.pass_time(600)
            alerts.sees(fleet)
            eventually(lambda: len(boss.notices) == 1, "the escalation")
            fleet.heal("billing")
            alerts.sees(fleet)
            eventually(lambda: len(boss.notices) == 2, "the end")
            eventually(lambda: len(team.notices) == 2, "the end at the first channel")
            after = alerts.call(lambda: alerts.alerts.incident(incident.id))

    assert early == []
    assert [(n["event"], n["reason"]) for n in boss.notices] == [
        ("open", "handed_on"),
        ("close", "healed"),
    ]
    assert [n["event"] for n in team.notices] == ["open", "close"], "no reminder"
    assert [n["event"] for n in archive.notices] == ["open", "close"]
    assert after.acknowledged_by == "me"


@pytest.mark.parametrize("sealed", [True, False])
def test_a_reminder_that_waits_is_not_sent_once_somebody_acknowledges(
    tmp_path, clock, receiver, *, sealed: bool
) -> None:
    wait = "" if sealed else "group_wait_s = 300\ngroup_interval_s = 300\n"
    fleet = Fleet(["billing"], clock)
    text = POLICY + "remind_s = 60\n" + hook(receiver)
    with running(alert_settings(tmp_path, text), clock) as alerts:
        fleet.fail("billing")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 1 and alerts.idle(), "the opening")
    receiver.replies = [Reply(status=503)]
    with running(alert_settings(tmp_path, wait + text), clock) as alerts:
        fleet.pass_time(120)
        alerts.sees(fleet)
        if sealed:
            eventually(lambda: not receiver.replies, "the reminder is tried")
        (incident,) = alerts.call(lambda: alerts.alerts.incidents(IncidentAsk()))[0]
        alerts.call(lambda: alerts.alerts.acknowledge(incident.id, author="me"))
        left = (
            notices(alerts, state=MessageState.WAITING),
            notices(alerts, state=MessageState.QUEUED),
        )
    with running(alert_settings(tmp_path, text), clock) as alerts:
        fleet.heal("billing")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 2, "the end")

    assert [*left[0], *left[1]] == []
    assert [notice["event"] for notice in receiver.notices] == ["open", "close"]


def test_a_group_that_reads_again_too_slowly_is_not_ok(tmp_path, clock, receiver) -> None:
    fleet = Fleet(["billing"], clock, rules=RuleSet.LAGWATCH, intervals=10)
    with running(alert_settings(tmp_path, POLICY + hook(receiver)), clock) as alerts:
        fleet.fail("billing")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 1, "the opening")
        fleet.slow.add("billing")
        fleet.failing.clear()
        for _ in range(30):
            fleet.pass_time(5)
            alerts.sees(fleet)
            if not alerts.call(alerts.alerts.counts).open_incidents[CLUSTER]:
                break
        eventually(lambda: len(receiver.notices) == 2, "the end")

    (end,) = receiver.taken[1].json["notices"]
    assert (end["event"], end["verdict"]["status"]) == ("close", "OK")
    assert end["verdict"]["lag_grows_per_s"] == pytest.approx(9, rel=0.3)
    subject = receiver.taken[1].json["subject"]
    assert subject.startswith("Incident ended: billing on ")
    assert "still behind: its lag grows by" in subject


@pytest.mark.parametrize("delivered", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_an_escalation_says_so_when_a_reminder_is_due_as_well(
    tmp_path, clock, *, delivered: bool
) -> None:
    """Whether it has reached its channel before the next round or not."""
    with receiving() as team, receiving() as boss:
        escalates = 'escalate_after_s = 600\nescalate_to = ["boss"]\nchannels = ["team"]\n'
        text = f"{POLICY}remind_s = 600\n{escalates}{hook(team, 'team')}{hook(boss, 'boss')}"
        fleet = Fleet(["billing"], clock)
        with running(alert_settings(tmp_path, text), clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: bool(team.notices), "the opening")
            fleet.pass_time(600)
            alerts.sees(fleet)
            if delivered:
                eventually(lambda: bool(boss.notices), "what is handed on")
            fleet.pass_time(1)
            alerts.sees(fleet)
            eventually(lambda: bool(boss.notices) and len(team.notices) == 2, "both")
            fleet.pass_time(600)
            alerts.sees(fleet)
            eventually(lambda: len(boss.notices) == 2, "the next reminder")
            eventually(lambda: len(team.notices) == 3, "the next reminder of the team")

    assert [(n["event"], n["reason"]) for n in boss.notices] == [
        ("open", "handed_on"),
        ("remind", "reminder_due"),
    ]
    assert [n["reason"] for n in team.notices] == ["first", "reminder_due", "reminder_due"]


def test_an_acknowledgement_and_an_escalation_survive_a_restart(tmp_path, clock, receiver) -> None:
    text = POLICY + "remind_s = 60\n" + hook(receiver)
    fleet = Fleet(["billing"], clock)
    with running(alert_settings(tmp_path, text), clock) as alerts:
        fleet.fail("billing")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 1 and alerts.idle(), "the opening")
        (incident,) = alerts.call(lambda: alerts.alerts.incidents(IncidentAsk()))[0]
        alerts.call(lambda: alerts.alerts.acknowledge(incident.id, author="me"))
        with pytest.raises(NotFoundError):
            alerts.call(lambda: alerts.alerts.acknowledge("none", author="me"))

    with running(alert_settings(tmp_path, text), clock) as alerts:
        fleet.pass_time(120)
        alerts.sees(fleet)
        fleet.heal("billing")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 2, "the end")

    assert [notice["event"] for notice in receiver.notices] == ["open", "close"]


def test_a_group_that_misses_its_objective_says_which(tmp_path, clock, receiver) -> None:
    text = POLICY.replace("reopen_s", "max_lag = 100\nreopen_s") + hook(receiver)
    fleet = Fleet(["billing"], clock)
    fleet.slow.add("billing")
    with running(alert_settings(tmp_path, text), clock) as alerts:
        fleet.pass_time(30)
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 1, "the notice")

    assert "more than 100 allowed" in receiver.notices[0]["verdict"]["objective"]


def test_an_error_that_is_only_a_missed_limit_by_now_says_what_it_was(
    tmp_path, clock, receiver
) -> None:
    """The incident stays an ERROR until the milder verdict has lasted."""
    limits = (
        'max_lag = 100\nobjective_severity = "warning"\nthreshold = "warning"\nremind_s = 5\n'
        "reopen_s"
    )
    policy = POLICY.replace("reopen_s", limits).replace("close_for_s = 0", "close_for_s = 60")
    fleet = Fleet(["billing"], clock)
    with running(alert_settings(tmp_path, policy + hook(receiver)), clock) as alerts:
        fleet.fail("billing")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 1, "the error")
        fleet.catching_up.add("billing")
        fleet.heal("billing")
        alerts.sees(fleet)
        fleet.pass_time(6)
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 2, "the reminder")

    still = receiver.notices[1]
    assert (still["severity"], still["kinds"]) == ("error", [])
    assert still["verdict"]["eased"] == ["stopped"]
    assert ": stopped until " in receiver.requests[-1].json["subject"]


def test_a_group_that_reads_nothing_when_it_misses_a_limit_is_not_called_too_slow(
    tmp_path, clock, receiver
) -> None:
    """It may be dead, which only a longer silence shows."""
    limits = POLICY.replace("reopen_s", "max_lag = 300\nreopen_s")
    fleet = Fleet(["billing"], clock, rules=RuleSet.LAGWATCH, intervals=40)
    fleet.pass_time(40)
    with running(alert_settings(tmp_path, limits + hook(receiver)), clock) as alerts:
        fleet.failing.add("billing")
        fleet.pass_time(40)
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 1, "the notice")

    (notice,) = receiver.notices
    assert notice["verdict"]["status"] == "OK"
    assert (notice["cause"] or {"name": "none"})["name"] != "all_slow"


def test_a_group_that_misses_a_limit_has_a_cause_and_a_forecast(tmp_path, clock, receiver) -> None:
    """Although its verdict is OK: it falls behind, and Kafka deletes what it has not read."""
    limits = POLICY.replace("reopen_s", "max_lag = 300\nreopen_s")
    fleet = Fleet(["billing"], clock, rules=RuleSet.LAGWATCH, intervals=40)
    fleet.slow.add("billing")
    with running(alert_settings(tmp_path, limits + hook(receiver)), clock) as alerts:
        for fleet.log_start in (400, 800):  # a single deletion may have been asked for
            fleet.pass_time(30)
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 1, "the notice")

    (notice,) = receiver.notices
    verdict = notice["verdict"]
    assert (verdict["status"], notice["kinds"]) == ("OK", [])
    assert notice["cause"]["name"] == "all_slow"
    assert verdict["catch_up_reason"] == "falling_behind"
    ahead = fleet.committed("billing") - fleet.log_start
    assert verdict["loss_in_s"] == pytest.approx(ahead / 9, rel=0.1)


def test_a_group_that_holds_its_distance_is_not_called_slow(tmp_path, clock, receiver) -> None:
    limits = POLICY.replace("reopen_s", "max_lag = 300\nreopen_s")
    fleet = Fleet(["billing"], clock, rules=RuleSet.LAGWATCH, intervals=40)
    fleet.slow.add("billing")
    fleet.pass_time(40)
    fleet.slow.clear()
    fleet.steady.add("billing")
    fleet.pass_time(60)
    with running(alert_settings(tmp_path, limits + hook(receiver)), clock) as alerts:
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 1, "the notice")

    (notice,) = receiver.notices
    assert notice["verdict"]["status"] == "OK"
    assert notice["cause"] is None


def test_an_end_says_when_the_rest_will_be_read(tmp_path, clock, receiver) -> None:
    limits = POLICY.replace("reopen_s", "max_lag = 300\nreopen_s")
    fleet = Fleet(["billing"], clock, rules=RuleSet.LAGWATCH, intervals=40)
    fleet.slow.add("billing")
    with running(alert_settings(tmp_path, limits + hook(receiver)), clock) as alerts:
        fleet.pass_time(180)
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 1, "the opening")
        fleet.slow.clear()
        fleet.catching_up.add("billing")
        # the forecast is sure once the rise before it is older than what it goes by
        for _ in range(90):
            fleet.pass_time(10)
            alerts.sees(fleet)
            if len(receiver.notices) == 2:
                break
        eventually(lambda: len(receiver.notices) == 2, "the end")

    ended = receiver.notices[1]
    assert ended["event"] == "close"
    left, takes_s = ended["verdict"]["total_lag"], ended["verdict"]["catch_up_s"]
    assert left > 200
    assert takes_s == pytest.approx(left / 2, rel=0.3)


def test_a_restart_does_not_forget_who_owned_the_partitions_last(tmp_path, clock, receiver) -> None:
    def members(fleet: Fleet, *held: Member) -> None:
        state = "Stable" if held else "Empty"
        info = GroupInfo(
            group="billing",
            type="classic",
            state=state,
            assignor="range",
            coordinator=1,
            members=held,
        )
        report = GroupsSeen(groups=(info,), complete=False)
        fleet.monitor.apply(report, clock.now_ms())

    settings = alert_settings(tmp_path, POLICY + "remind_s = 60\n" + hook(receiver))
    fleet = Fleet(["billing"], clock, rules=RuleSet.LAGWATCH)
    owner = Member(
        member_id="m",
        client_id="billing-1",
        host="/10.0.3.14",
        instance_id="",
        assignment=(("orders", (0,)),),
    )
    members(fleet, owner)
    fleet.fail("billing")
    members(fleet)
    fleet.pass_time(61)  # a partition that a member held is judged after six minutes
    with running(settings, clock) as alerts:
        alerts.sees(fleet)
        eventually(lambda: bool(receiver.notices) and alerts.idle(), "the opening")

    again = Fleet(["billing"], clock, rules=RuleSet.LAGWATCH)
    again.fail("billing")
    members(again)
    again.pass_time(1)
    with running(settings, clock) as alerts:
        alerts.sees(again)
        eventually(lambda: len(receiver.notices) > 1, "the reminder")

    assert [notice["verdict"].get("last_owner") for notice in receiver.notices] == [
        "client billing-1 on 10.0.3.14"
    ] * 2

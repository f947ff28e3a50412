"""lagwatch looks after itself: unseen clusters, failing channels, odd files, full disks."""

import sqlite3
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from lagwatch.config.settings import Settings
from lagwatch.core.model import GroupStatus
from lagwatch.notify.database import Database
from lagwatch.ports.alerts import IncidentAsk, NoticeAsk
from lagwatch.ports.queries import ClusterHealth
from tests.support.fleet import CLUSTER, Fleet, ShiftedClock, alert_settings
from tests.support.receiver import Receiver, Reply, receiving
from tests.support.running_alerts import Running, running
from tests.support.small_disk import small_disk
from tests.support.stepped_delivery import Unsteady, world
from tests.support.waiting import eventually

POLICY = "group_wait_s = 0.02\n[alerts.policies.all]\nclose_for_s = 0\nreopen_s = 0\n"
HEALTH = ClusterHealth(
    cluster=CLUSTER,
    ready=True,
    age_s=0.0,
    backlog_read=1,
    backlog_total=1,
    commits_mode="offsets-topic",
    collector_restarts=0,
    problems=(),
    unseen=(),
)


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


def hook(url: str, name: str = "hook", more: str = "") -> str:
    return f'[alerts.webhook.{name}]\nurl = "{url}/{name}"\nper_minute = 6000\n{more}\n'


def look(alerts: Running) -> None:
    """One look at itself, as it takes every few seconds."""
    alerts.call(alerts.alerts._check_itself)  # noqa: SLF001


@pytest.mark.parametrize("seen_before", [False, True])
def test_a_cluster_never_seen_has_been_away_at_least_since_the_start(
    seen_before, tmp_path, clock
) -> None:
    began_ms = clock.now_ms() - 61_000
    since_ms = began_ms - 5_000 if seen_before else began_ms
    away = replace(HEALTH, ready=False, data_age_s=61.0, since_ms=since_ms, began_ms=began_ms)
    with receiving() as receiver:
        settings = alert_settings(tmp_path, POLICY + hook(receiver.url))
        with running(settings, clock) as alerts:
            alerts.call(lambda: alerts.alerts.look_after(lambda: [away], str))
            look(alerts)
            eventually(lambda: len(receiver.notices) == 1, "the incident")

    (opened,) = receiver.notices
    assert (opened["since_ms"], opened["since_at_least"]) == (since_ms, not seen_before)


def test_a_cluster_that_is_not_seen_is_an_incident_with_its_reason(tmp_path, clock) -> None:
    health = [HEALTH]
    with receiving() as receiver:
        settings = alert_settings(tmp_path, POLICY + hook(receiver.url))
        with running(settings, clock) as alerts:
            alerts.call(lambda: alerts.alerts.look_after(lambda: health, str))
            health[0] = replace(
                HEALTH,
                ready=False,
                data_age_s=59.0,
                problems=("log ends: connection refused", "alerts: own"),
            )
            look(alerts)
            early = alerts.call(lambda: alerts.alerts.incidents(IncidentAsk()))[0]
            health[0] = replace(health[0], data_age_s=61.0)
            look(alerts)
            eventually(lambda: len(receiver.notices) == 1, "the incident")
            counted = alerts.call(alerts.alerts.counts).open_incidents
            health[0] = HEALTH
            look(alerts)
            clock.ahead_ms += 11_000
            look(alerts)
            eventually(lambda: len(receiver.notices) == 2, "its end")
            left = alerts.call(alerts.alerts.counts).open_incidents

    assert early == []
    assert (counted[CLUSTER], left[CLUSTER]) == (1, 0)
    opened, closed = receiver.notices
    assert (opened["about"], opened["cluster"], opened["event"]) == ("cluster", CLUSTER, "open")
    assert "connection refused" in opened["verdict"]["problem"]
    assert "own" not in opened["verdict"]["problem"]
    assert (
        receiver.taken[0]
        .json["subject"]
        .startswith(f"ERROR: lagwatch does not see cluster {CLUSTER}, since")
    )
    assert (closed["event"], closed["incident"]) == ("close", opened["incident"])


@pytest.mark.parametrize(("down_s", "unreachable", "opens"), [
    (20, True, True),
    (3600, True, False),
    (20, False, False),
])  # fmt: skip
def test_an_outage_in_which_lagwatch_is_restarted_counts_on(
    tmp_path, clock, *, down_s: int, unreachable: bool, opens: bool
) -> None:
    away = replace(HEALTH, ready=False, unreachable=True, reason="refused", data_age_s=50.0)
    with receiving() as receiver:
        settings = alert_settings(tmp_path, POLICY + hook(receiver.url))
        with running(settings, clock) as alerts:
            alerts.call(lambda: alerts.alerts.look_after(lambda: [away], str))
            look(alerts)
        clock.ahead_ms += down_s * 1000
        again = replace(away, data_age_s=12.0, unreachable=unreachable)
        with running(settings, clock) as alerts:
            alerts.call(lambda: alerts.alerts.look_after(lambda: [again], str))
            look(alerts)
            found = alerts.call(lambda: alerts.alerts.incidents(IncidentAsk()))[0]

    assert [incident.about for incident in found] == ["cluster"] * opens


def test_an_outage_that_is_over_does_not_count_towards_the_next(tmp_path, clock) -> None:
    away = replace(HEALTH, ready=False, unreachable=True, reason="refused", data_age_s=50.0)
    with receiving() as receiver:
        settings = alert_settings(tmp_path, POLICY + hook(receiver.url))
        health = [away]
        with running(settings, clock) as alerts:
            alerts.call(lambda: alerts.alerts.look_after(lambda: health, str))
            look(alerts)
            health[0] = HEALTH
            look(alerts)
        with running(settings, clock) as alerts:
            health[0] = away
            alerts.call(lambda: alerts.alerts.look_after(lambda: health, str))
            look(alerts)
            found = alerts.call(lambda: alerts.alerts.incidents(IncidentAsk()))[0]

    assert found == []


def test_what_was_given_up_is_no_dead_letter_once_later_news_took_it_along(tmp_path, clock) -> None:
    with receiving(*[Reply(status=400)] * 50) as receiver:
        text = POLICY + hook(receiver.url, more="give_up_after_s = 1")
        fleet = Fleet(["billing"], clock)
        with running(alert_settings(tmp_path, text), clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: alerts.call(alerts.alerts.counts).dead["hook"] == 1, "a dead letter")
            fleet.heal("billing")
            alerts.sees(fleet)
            gone = NoticeAsk(state="dead")
            eventually(
                lambda: (
                    [n.event for n in alerts.call(lambda: alerts.alerts.notices(gone))[0]]
                    == ["close"]
                ),
                "its end, given up as well",
            )
            fleet.pass_time(8)
            receiver.replies.clear()
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: len(receiver.notices) == 1 and alerts.idle(), "the next incident")
            dead = alerts.call(alerts.alerts.counts).dead["hook"]
            look(alerts)

            assert dead == 0
            assert alerts.alerts.problem == ""
            (notice,) = receiver.notices
            assert (notice["event"], len(notice["earlier"])) == ("open", 1)


def test_notices_that_wait_for_per_minute_are_said_to(tmp_path, clock) -> None:
    with receiving() as receiver:
        settings = alert_settings(tmp_path, POLICY + hook(receiver.url).replace("6000", "1"))
        fleet = Fleet(["billing", "orders"], clock)
        with running(settings, clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: len(receiver.notices) == 1 and alerts.idle(), "the first")
            look(alerts)
            before = alerts.alerts.remark
            fleet.fail("orders")
            alerts.sees(fleet)
            look(alerts)
            (notice,) = alerts.call(lambda: alerts.alerts.notices(NoticeAsk(state="waiting")))[0]

            assert before == ""
            assert alerts.alerts.remark == (
                "channel hook: 1 notice waiting, because its per_minute is used up"
            )
            assert alerts.alerts.problem == "", "the heartbeat goes on"
            assert notice.next_attempt_ms is not None
            assert notice.next_attempt_ms > clock.now_ms()


def test_a_backlog_that_is_being_read_is_no_incident(tmp_path, clock) -> None:
    reading = replace(HEALTH, ready=False, data_age_s=600.0, backlog_read=5, backlog_total=100)
    settings = alert_settings(tmp_path, POLICY + hook("http://127.0.0.1:1"))
    with running(settings, clock) as alerts:
        alerts.call(lambda: alerts.alerts.look_after(lambda: [reading], str))
        look(alerts)

        assert alerts.call(lambda: alerts.alerts.incidents(IncidentAsk()))[0] == []
        reading = replace(reading, unreachable=True, reason="log ends: connection refused")
        look(alerts)

        (incident,) = alerts.call(lambda: alerts.alerts.incidents(IncidentAsk()))[0]
        assert incident.about == "cluster", "no broker answers: nothing is read any more"


@contextmanager
def _not_delivering(
    folder: Path, clock: ShiftedClock, text: str, good: Receiver
) -> Iterator[Running]:
    """A group fails, and the channel `bad` does not deliver it; `good` does."""
    settings = alert_settings(
        folder, text + hook("http://127.0.0.1:1", "bad") + hook(good.url, "good")
    )
    fleet = Fleet(["billing"], clock)

    def failing() -> bool:
        look(alerts)
        return "bad" in alerts.alerts.problem

    with running(settings, clock) as alerts:
        fleet.fail("billing")
        alerts.sees(fleet)
        eventually(failing, "it fails")
        yield alerts


def test_a_fallback_that_fails_itself_is_reported_through_the_others(tmp_path, clock) -> None:
    with receiving() as good:
        text = 'fallback = ["bad"]\nundelivered_after_s = 0\n' + POLICY
        with _not_delivering(tmp_path, clock, text, good) as alerts:
            look(alerts)
            eventually(lambda: len(good.notices) == 2, "the group, and word about the channel")

    assert [notice["group"] for notice in good.notices] == ["billing", "bad"]


@pytest.mark.parametrize(("step_s", "after_s", "told"), [(-3600, 1, True), (3600, 600, False)])
def test_how_long_a_channel_fails_does_not_hang_on_the_clock(
    step_s, after_s, told, tmp_path, clock
) -> None:
    with receiving() as good:
        text = f"undelivered_after_s = {after_s}\n" + POLICY
        with _not_delivering(tmp_path, clock, text, good) as alerts:
            clock.ahead_ms += step_s * 1000
            threading.Event().wait(1.5)
            look(alerts)
            incidents = alerts.call(lambda: alerts.alerts.incidents(IncidentAsk()))[0]

    assert ("channel" in [incident.about for incident in incidents]) is told


def test_a_channel_that_fails_over_restarts_is_reported(tmp_path, clock) -> None:
    with receiving() as good:
        abouts = []
        for _ in range(2):
            with _not_delivering(tmp_path, clock, POLICY, good) as alerts:
                incidents = alerts.call(lambda: alerts.alerts.incidents(IncidentAsk()))[0]
                abouts.append(sorted(incident.about for incident in incidents))
            clock.ahead_ms += 310_000

    assert abouts == [["group"], ["channel", "group"]]


def test_a_channel_that_gives_up_is_reported_through_the_fallback(tmp_path, clock) -> None:
    with receiving(*[Reply(status=400, body="no such room")] * 50) as bad, receiving() as good:
        text = 'fallback = ["good"]\n' + POLICY.replace("reopen_s", 'channels = ["bad"]\nreopen_s')
        settings = alert_settings(
            tmp_path, text + hook(bad.url, "bad", "give_up_after_s = 1") + hook(good.url, "good")
        )
        fleet = Fleet(["billing"], clock)
        with running(settings, clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: alerts.call(alerts.alerts.counts).dead["bad"] == 1, "a dead letter")
            look(alerts)
            eventually(lambda: len(good.notices) == 1, "word about it")
            problem = alerts.alerts.problem

    (notice,) = good.notices
    assert (notice["about"], notice["group"]) == ("channel", "bad")
    assert "1 notice given up" in notice["verdict"]["problem"]
    assert "channel bad" in problem


def test_history_that_is_not_recorded_is_an_incident_until_it_is(tmp_path, clock) -> None:
    problem = ["the spool is full"]
    with receiving() as receiver:
        text = "undelivered_after_s = 60\n" + POLICY + hook(receiver.url)
        with running(alert_settings(tmp_path, text), clock) as alerts:
            alerts.call(lambda: alerts.alerts.look_after(tuple, lambda: problem[0]))
            look(alerts)
            early = alerts.call(lambda: alerts.alerts.incidents(IncidentAsk()))[0]
            clock.ahead_ms += 61_000
            look(alerts)
            eventually(lambda: len(receiver.notices) == 1, "word about it")
            problem[0] = ""
            look(alerts)
            eventually(lambda: len(receiver.notices) == 2, "the end")

    opened, ended = receiver.notices
    assert early == []
    assert (opened["about"], opened["event"]) == ("history", "open")
    assert "the spool is full" in opened["verdict"]["problem"]
    assert (ended["incident"], ended["event"]) == (opened["incident"], "close")


def test_wrong_credentials_are_retried_and_reported(tmp_path, clock) -> None:
    with receiving(*[Reply(status=401)] * 50) as bad, receiving() as good:
        text = "undelivered_after_s = 0\n" + POLICY
        settings = alert_settings(tmp_path, text + hook(bad.url, "bad") + hook(good.url, "good"))
        fleet = Fleet(["billing"], clock)
        with running(settings, clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: len(bad.requests) == 1, "the refused attempt")
            eventually(lambda: len(good.notices) == 1, "the other channel's notice")
            look(alerts)
            eventually(lambda: len(good.notices) == 2, "word about the refusal")
            bad.replies.clear()
            alerts.call(lambda: alerts.alerts.retry_channel("bad"))
            eventually(lambda: any(n["group"] == "billing" for n in bad.notices), "the delivery")

    assert "401" in good.notices[1]["verdict"]["problem"]


def test_a_channel_that_does_not_deliver_is_not_well_again_because_of_a_restart(
    tmp_path, clock
) -> None:
    with receiving(Reply(status=503), *[Reply(after_s=60)] * 9) as bad, receiving() as good:
        text = "undelivered_after_s = 0\n" + POLICY
        channels = hook(bad.url, "bad") + hook(good.url, "good")
        settings = alert_settings(tmp_path, text + channels)
        fleet = Fleet(["billing"], clock)
        with running(settings, clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: len(bad.requests) == 1, "the refused attempt")
            look(alerts)
            eventually(lambda: len(good.notices) == 2, "word about the refusal")
        with running(settings, clock) as alerts:
            look(alerts)
            clock.ahead_ms += 11_000
            look(alerts)
            clock.ahead_ms += 11_000
            look(alerts)
            open_now = alerts.call(lambda: alerts.alerts.incidents(IncidentAsk(state="open")))[0]

    assert "bad" in [each.group for each in open_now]
    assert {notice["event"] for notice in good.notices} == {"open"}


def of_groups(receiver: Receiver) -> list[dict[str, Any]]:
    return [notice for notice in receiver.notices if notice["about"] == "group"]


def test_a_renamed_channel_loses_nothing(tmp_path, clock) -> None:
    fleet = Fleet(["billing"], clock)
    with receiving(*[Reply(status=503)] * 100) as away:
        settings = alert_settings(tmp_path, POLICY + hook(away.url, "old"))
        with running(settings, clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: len(away.requests) >= 1, "the refused attempt")

    with receiving() as receiver, capture_logs() as logs:
        settings = alert_settings(tmp_path, POLICY + hook(receiver.url, "new"))
        with running(settings, clock) as alerts:
            alerts.sees(fleet)
            eventually(lambda: bool(of_groups(receiver)), "the open incident on the new channel")
            look(alerts)
            problem = alerts.alerts.problem
            counts = alerts.call(alerts.alerts.counts)
            moved = alerts.call(lambda: alerts.alerts.retry_channel("old", to="new"))

    said = [log for log in logs if log["event"] == "channel_not_configured"]
    assert [(warning["channel"], warning["notices"]) for warning in said] == [("old", 1)]
    assert counts.undelivered["old"] == 1
    assert "not configured" in problem
    assert of_groups(receiver)[0]["group"] == "billing"
    assert moved == 0, "the new channel has this incident already"


def test_a_renamed_channel_does_not_come_back_when_its_incident_ends(tmp_path, clock) -> None:
    fleet = Fleet(["billing"], clock)
    with receiving() as receiver:
        with running(alert_settings(tmp_path, POLICY + hook(receiver.url, "old")), clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: len(receiver.notices) >= 1 and alerts.idle(), "the opening")
        with running(alert_settings(tmp_path, POLICY + hook(receiver.url, "new")), clock) as alerts:
            alerts.sees(fleet)
            eventually(lambda: len(receiver.notices) >= 2, "the opening on the new channel")
            fleet.heal("billing")
            alerts.sees(fleet)
            clock.ahead_ms += 700_000
            alerts.sees(fleet)
            eventually(lambda: receiver.notices[-1]["event"] == "close", "the end")
            look(alerts)
            counts = alerts.call(alerts.alerts.counts)
            problem = alerts.alerts.problem

    assert counts.undelivered.get("old", 0) == 0
    assert problem == ""


@pytest.mark.parametrize(
    ("before", "after", "fallback", "hears"),
    [
        ("ops", "ops2", "chat", False),  # it is no fallback
        ("bad", "bad2", "chat", False),  # the one that does not deliver
        ("chat", "chat2", "chat2", True),
    ],
)
def test_a_renamed_channel_hears_of_another_that_fails_only_as_a_fallback(
    tmp_path, clock, *, before, after, fallback, hears
) -> None:
    """`bad` does not deliver, which is the news of the fallback `chat` alone."""
    with (
        receiving(*[Reply(status=503)] * 300) as bad,
        receiving() as ops,
        receiving() as chat,
    ):
        receivers = {"bad": bad, "ops": ops, "chat": chat}

        def settings(fallback: str, renamed: dict[str, str]) -> Settings:
            channels = [
                hook(receiver.url, renamed.get(name, name)) for name, receiver in receivers.items()
            ]
            head = f'undelivered_after_s = 0\nfallback = ["{fallback}"]\n'
            return alert_settings(tmp_path, head + POLICY + "".join(channels))

        fleet = Fleet(["billing"], clock)
        with running(settings("chat", {}), clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: len(bad.requests) >= 1, "the refused attempt")
            look(alerts)
            eventually(lambda: len(chat.notices) == 2, "word about the refusal")
            eventually(lambda: len(ops.notices) == 1, "the opening")
        receivers[before].replies.clear()
        received = len(receivers[before].notices)
        with running(settings(fallback, {before: after}), clock) as alerts:
            alerts.sees(fleet)
            eventually(lambda: len(receivers[before].notices) > received, "open incidents")
            look(alerts)
            eventually(
                lambda: not alerts.call(alerts.alerts.counts).undelivered[after],
                "all open incidents",
            )

    assert [n["about"] for n in ops.notices if n["about"] != "group"] == []
    about_bad = [n for n in receivers[before].notices[received:] if n["about"] == "channel"]
    assert bool(about_bad) == hears


def test_what_waits_for_a_removed_channel_goes_to_another(tmp_path, clock) -> None:
    fleet = Fleet(["billing"], clock)
    with receiving(*[Reply(status=503)] * 100) as away, receiving() as receiver:
        other = hook(receiver.url, "other")
        text = POLICY.replace("reopen_s", 'channels = ["old"]\nreopen_s') + other
        with running(alert_settings(tmp_path, text + hook(away.url, "old")), clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: len(away.requests) >= 1, "the refused attempt")
        text = text.replace('["old"]', '["spare"]') + hook(receiver.url, "spare")
        with running(alert_settings(tmp_path, text), clock) as alerts:
            moved = alerts.call(lambda: alerts.alerts.retry_channel("old", to="other"))
            eventually(
                lambda: "/other" in [request.path for request in receiver.requests],
                "the moved notice",
            )

    assert moved == 1


def test_a_group_removed_by_request_is_not_ok_again(tmp_path, clock) -> None:
    fleet = Fleet(["billing", "orders"], clock)
    with (
        receiving() as receiver,
        running(alert_settings(tmp_path, POLICY + hook(receiver.url)), clock) as alerts,
    ):
        fleet.fail("billing")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 1, "the opening")
        alerts.call(lambda: alerts.alerts.removed(CLUSTER, "billing"))
        fleet.monitor.forget("billing", None)  # at once, although the policy waits to close
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 2, "the end")

    assert receiver.taken[1].json["subject"].startswith(f"REMOVED: billing on {CLUSTER}")


def test_a_group_that_kafka_deletes_is_gone_and_not_ok_again(tmp_path, clock) -> None:
    fleet = Fleet(["billing", "orders"], clock)
    with (
        receiving() as receiver,
        running(alert_settings(tmp_path, POLICY + hook(receiver.url)), clock) as alerts,
    ):
        fleet.fail("billing")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 1, "the opening")
        fleet.delete("billing")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 2, "the end")

    assert receiver.taken[1].json["subject"].startswith(f"LIKELY DELETED: billing on {CLUSTER}")
    assert receiver.notices[1]["verdict"]["gone"] == "likely_deleted"
    assert receiver.notices[1]["reason"] == "group_gone"
    assert "OK" not in receiver.taken[1].json["subject"]


def test_a_group_that_was_deleted_while_lagwatch_was_down_ends_so_within_a_minute(
    tmp_path, clock
) -> None:
    fleet = Fleet(["billing", "orders"], clock)
    with receiving() as receiver:
        settings = alert_settings(tmp_path, POLICY + hook(receiver.url))
        with running(settings, clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: len(receiver.notices) == 1, "the opening")
        fleet.delete("billing")
        with running(settings, clock) as alerts:
            fleet.lists("orders")
            alerts.sees(fleet)
            # the opening comes again if the process ended before its delivery was noted
            before = {notice["event"] for notice in receiver.notices}
            fleet.pass_time(61)
            alerts.sees(fleet)
            eventually(lambda: receiver.notices[-1]["event"] == "close", "the end")

    assert before == {"open"}
    subject = receiver.taken[-1].json["subject"]
    assert subject.startswith(f"LIKELY DELETED: billing on {CLUSTER}")


def test_a_deletion_during_a_long_mute_is_no_expiry(tmp_path, clock) -> None:
    fleet = Fleet(["billing", "orders"], clock)
    with (
        receiving() as receiver,
        running(alert_settings(tmp_path, POLICY + hook(receiver.url)), clock) as alerts,
    ):
        fleet.fail("billing")
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 1, "the opening")
        now_ms = clock.now_ms()
        mute = {"cluster": "", "group": "billing", "reason": "x", "author": "me"}
        made = alerts.call(
            lambda: alerts.alerts.mute(**mute, starts_ms=now_ms, ends_ms=now_ms + 10**9)
        )
        fleet.delete("billing")
        alerts.sees(fleet)
        clock.ahead_ms += 8 * 86_400_000
        fleet.pass_time(1)
        alerts.sees(fleet)
        alerts.call(lambda: alerts.alerts.unmute(made.id))
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 2, "the end")

    assert receiver.notices[1]["verdict"]["gone"] == "likely_deleted"


def test_a_notice_says_since_when_the_group_has_read_nothing(tmp_path, clock) -> None:
    fleet = Fleet(["billing", "orders"], clock)
    with (
        receiving() as receiver,
        running(alert_settings(tmp_path, POLICY + hook(receiver.url)), clock) as alerts,
    ):
        alerts.sees(fleet)
        last_commit_ms = clock.now_ms()
        fleet.fail("billing")
        fleet.pass_time(30)
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 1, "the opening")

    (notice,) = receiver.notices
    assert abs(notice["since_ms"] - last_commit_ms) <= 2000
    assert notice["opened_ms"] >= last_commit_ms + 30_000


def test_what_was_given_up_counts_after_a_restart(tmp_path, clock) -> None:
    fleet = Fleet(["billing"], clock)
    with receiving(*[Reply(status=400)] * 50) as bad:
        settings = alert_settings(tmp_path, POLICY + hook(bad.url, more="give_up_after_s = 1"))
        with running(settings, clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: alerts.call(alerts.alerts.counts).dead["hook"] == 1, "a dead letter")
        with running(settings, clock) as alerts:
            look(alerts)
            counts = alerts.call(alerts.alerts.counts)
            problem = alerts.alerts.problem

    assert counts.dead == {"hook": 1}
    assert "1 notice given up" in problem


def test_an_odd_row_is_set_aside_and_the_others_are_delivered(tmp_path, clock) -> None:
    fleet = Fleet(["a", "b"], clock)
    settings = alert_settings(tmp_path, POLICY + hook("http://127.0.0.1:1"))
    with running(settings, clock) as alerts:
        fleet.fail("a", "b")
        alerts.sees(fleet)
    with sqlite3.connect(settings.alerts.file) as file:
        file.execute(
            "UPDATE payloads SET body = x'00' WHERE number = (SELECT min(number) FROM payloads)"
        )
        file.execute("DELETE FROM contents")  # this connection heeds no foreign keys
        file.execute("DELETE FROM messages")
        file.execute("UPDATE notices SET state = 'waiting', message = NULL")
    file.close()

    with (
        receiving() as receiver,
        capture_logs() as logs,
        running(alert_settings(tmp_path, POLICY + hook(receiver.url)), clock) as alerts,
    ):
        eventually(lambda: len(receiver.notices) == 1, "the notice that can be read")
        left = alerts.call(lambda: alerts.alerts.notices(NoticeAsk(state="unreadable")))[0]

    assert len(left) == 1
    assert "notice_not_readable" in {log["event"] for log in logs}


def _opened(settings: Settings, fleet: Fleet, clock: ShiftedClock, receiver: Receiver) -> None:
    """Let an incident open for each group of the fleet, and all receive it."""
    with running(settings, clock) as alerts:
        fleet.fail(*fleet.groups)
        alerts.sees(fleet)
        eventually(
            lambda: len(receiver.notices) >= len(fleet.groups) and alerts.idle(), "the openings"
        )


def test_an_instant_that_is_in_no_calendar_stops_no_other_notice(tmp_path, clock) -> None:
    fleet = Fleet(["a", "b"], clock)
    settings = alert_settings(tmp_path, POLICY + hook("http://127.0.0.1:1"))
    with running(settings, clock) as alerts:
        fleet.fail("a", "b")
        alerts.sees(fleet)
        kept = alerts.call(
            lambda: alerts.alerts._database.connection.execute(  # noqa: SLF001
                "SELECT number, body FROM payloads ORDER BY number LIMIT 1"
            ).fetchone()
        )
    odd = zlib.compress(
        orjson.dumps({**orjson.loads(zlib.decompress(kept["body"])), "since_ms": 9 * 10**15})
    )
    with sqlite3.connect(settings.alerts.file) as file:
        file.execute("UPDATE payloads SET body = ? WHERE number = ?", (odd, kept["number"]))
    file.close()

    with (
        receiving() as receiver,
        running(alert_settings(tmp_path, POLICY + hook(receiver.url)), clock) as alerts,
    ):
        eventually(lambda: len(receiver.notices) == 1, "the notice that can be read")
        look(alerts)
        left = alerts.call(lambda: alerts.alerts.notices(NoticeAsk(state="unreadable")))[0]
        problem, remark = alerts.alerts.problem, alerts.alerts.remark

    assert len(left) == 1
    assert "years 1970 to 9999" in left[0].last_error
    assert "1 notice not readable" in remark
    assert problem == ""


def test_a_notice_that_cannot_be_written_stops_no_other_and_is_named(tmp_path, clock) -> None:
    fleet = Fleet(["a", "b"], clock)
    with receiving() as receiver:
        settings = alert_settings(tmp_path, POLICY + hook(receiver.url))
        with running(settings, clock) as alerts:
            database = alerts.alerts._database  # noqa: SLF001
            fleet.fail("a", "b")
            alerts.call(lambda: _make_odd(alerts, fleet, database))
            eventually(lambda: len(receiver.notices) == 1, "the notice that can be written")
            eventually(lambda: alerts.call(alerts.alerts.counts).dead["hook"] == 1, "the other")
            look(alerts)
            problem = alerts.alerts.problem
            failing = alerts.call(alerts.alerts.counts).deliveries["hook"].failing_since_ms

    (taken,) = receiver.notices
    odd = ({"a", "b"} - {taken["group"]}).pop()
    assert f"1 notice given up ({odd} on {CLUSTER}: cannot be written: ValueError: year" in problem
    assert failing is None


def _make_odd(alerts: Running, fleet: Fleet, database: Database) -> None:
    """A round of the fleet, of which one notice says that messages were lost in the year 287168."""
    fleet.shown_to(alerts.alerts)
    number, body = database.connection.execute(
        "SELECT number, body FROM payloads ORDER BY number LIMIT 1"
    ).fetchone()
    document = orjson.loads(zlib.decompress(body))
    document["verdict"] |= {"lost": 7, "lost_ms": 9 * 10**15}
    odd = zlib.compress(orjson.dumps(document))
    database.connection.execute("UPDATE payloads SET body = ? WHERE number = ?", (odd, number))


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ("since_ms = 9000000000000000", "9000000000000000 ms is not within"),
        ("severity = 77", "77 is not a valid GroupStatus"),
        ("severity = 0", ""),
        ("about = 'planet'", "'planet' is not a valid About"),
    ],
)
def test_an_incident_that_cannot_be_read_ends_for_those_who_heard_of_it(
    tmp_path, clock, damage, why
) -> None:
    fleet = Fleet(["billing", "orders"], clock)
    with receiving() as receiver:
        settings = alert_settings(tmp_path, POLICY + hook(receiver.url))
        _opened(settings, fleet, clock, receiver)
        with sqlite3.connect(settings.alerts.file) as file:
            file.execute(f"UPDATE incidents SET {damage} WHERE name = 'billing'")  # noqa: S608
        file.close()
        both = POLICY + hook(receiver.url) + hook(receiver.url, "new")
        with capture_logs() as logs, running(alert_settings(tmp_path, both), clock) as alerts:
            eventually(lambda: len(receiver.notices) == 3 and alerts.idle(), "the end")
            remark = alerts.alerts.remark
            counts = alerts.call(alerts.alerts.counts)
            listed = alerts.call(lambda: alerts.alerts.incidents(IncidentAsk(state="")))[0]
            alerts.sees(fleet)  # it is still bad
            eventually(lambda: len(receiver.notices) == 6 and alerts.idle(), "another incident")

    first, _, ended, *later = receiver.notices
    (greeted,) = (notice for notice in later if notice["reason"] == "new_channel")
    again = [notice for notice in later if notice is not greeted]
    subjects = [request.json["subject"] for request in receiver.taken]
    assert (ended["event"], ended["group"], ended["reason"]) == ("close", "billing", "not_readable")
    assert ended["incident"] in {notice["incident"] for notice in receiver.notices[:2]}
    assert f"Incident ended: billing on {CLUSTER}, what was kept of it cannot be read" in subjects
    assert (greeted["group"], greeted["event"]) == ("orders", "open")
    assert {(notice["group"], notice["event"]) for notice in again} == {("billing", "open")}
    assert counts.open_incidents == {CLUSTER: 1}
    assert f"1 open incident could not be read at the start, and ended: billing on {CLUSTER}" in (
        remark
    )
    assert {record.group: record.closed_ms is None for record in listed} == {
        "billing": False,
        "orders": True,
    }
    (said,) = [log for log in logs if log["event"] == "incident_not_readable"]
    assert why in said["reason"]
    assert first["event"] == "open"


def test_an_incident_nobody_heard_of_that_cannot_be_read_is_shown_and_not_sent(
    tmp_path, clock
) -> None:
    fleet = Fleet(["billing"], clock)
    settings = alert_settings(tmp_path, POLICY + hook("http://127.0.0.1:1"))
    with running(settings, clock) as alerts:
        fleet.fail("billing")
        alerts.sees(fleet)
    with sqlite3.connect(settings.alerts.file) as file:
        file.execute("UPDATE incidents SET severity = 77")
        file.execute("DELETE FROM contents")  # this connection heeds no foreign keys
        file.execute("DELETE FROM messages")
        file.execute("UPDATE notices SET state = 'waiting', message = NULL")
    file.close()

    with running(settings, clock) as alerts:
        look(alerts)
        left = alerts.call(lambda: alerts.alerts.notices(NoticeAsk(state="unreadable")))[0]
        remark = alerts.alerts.remark

    assert [notice.group for notice in left] == ["billing"]
    assert "77" in left[0].last_error
    assert "1 notice not readable" in remark


def test_an_incident_of_which_only_the_bad_partitions_cannot_be_read_goes_on(
    tmp_path, clock
) -> None:
    fleet = Fleet(["billing"], clock)
    with receiving() as receiver:
        settings = alert_settings(tmp_path, POLICY + hook(receiver.url))
        _opened(settings, fleet, clock, receiver)
        with sqlite3.connect(settings.alerts.file) as file:
            file.execute("UPDATE incidents SET bad = x'00ff'")
        file.close()
        with running(settings, clock) as alerts:
            alerts.sees(fleet)
            fleet.heal("billing")
            alerts.sees(fleet)
            eventually(lambda: len(receiver.notices) == 2 and alerts.idle(), "the end")

    opened, closed = receiver.notices
    assert (opened["incident"], closed["event"]) == (closed["incident"], "close")


def test_a_disk_of_three_megabytes_is_survived_and_returned_to(tmp_path, clock) -> None:
    groups = [f"consumer-group-{number:04}" for number in range(3000)]
    with receiving() as receiver, small_disk(tmp_path / "disk", 3) as disk:
        settings = alert_settings(disk, POLICY + hook(receiver.url))
        other = disk / "other"
        fleet = Fleet(groups, clock)
        with running(settings, clock) as alerts:
            other.write_bytes(bytes(1_500_000))  # something else fills the disk
            fleet.fail(*groups)
            alerts.sees(fleet)
            eventually(lambda: len(receiver.notices) >= 3000 and alerts.idle(), "all openings")
            problem = alerts.alerts.problem
            opened = [notice["group"] for notice in receiver.notices]
            fleet.heal(*groups[100:])
            alerts.sees(fleet)
            eventually(
                lambda: len(receiver.notices) >= 5900 and alerts.idle(), "all ends", timeout_s=180
            )
            alerts.call(alerts.alerts._database.return_to_disk)  # noqa: SLF001
            still = alerts.alerts.problem
            other.unlink()
            alerts.call(lambda: alerts.alerts._store.prune(clock.now_ms()))  # noqa: SLF001
            eventually(lambda: not alerts.alerts.problem, "the return to the disk", timeout_s=60)
            received = len(receiver.notices)

        with running(settings, clock) as alerts:
            counts = alerts.call(alerts.alerts.counts)
            on_disk = (disk / "alerts.sqlite").stat().st_size

    assert sorted(opened) == groups, "each once"
    assert "the disk is full" in problem
    assert "the disk is full" in still
    assert received == len(receiver.notices) == 5900
    assert counts.open_incidents == {CLUSTER: 100}
    assert counts.undelivered == {"hook": 0}
    assert on_disk < 3_000_000


def test_a_disk_of_one_megabyte_is_not_filled_by_the_log_of_the_file(tmp_path) -> None:
    groups = [f"consumer-group-{number:02}" for number in range(20)]
    sizes = []
    with (
        small_disk(tmp_path / "disk", 1) as disk,
        world(disk, Unsteady(lambda: None)) as here,
    ):
        for _ in range(40):
            for group in groups:
                here.bad(group, GroupStatus.ERR)
            here.deliver_for(10)
            for group in groups:
                here.good(group)
            here.deliver_for(10)
            here.store.prune(here.clock.now_ms())
            sizes.append((disk / "0.sqlite-wal").stat().st_size)
        in_memory = here.database.in_memory
        here.database.tidy(here.clock.now_ms())
        just_written = (disk / "0.sqlite-wal").stat().st_size
        here.database.tidy(here.clock.now_ms())
        idle = (disk / "0.sqlite-wal").stat().st_size

    assert not in_memory
    assert max(sizes) < 400_000
    assert just_written > 0, "it may be written to again at once"
    assert idle == 0


def test_a_full_disk_stops_nothing_and_repeats_nothing(tmp_path, clock) -> None:
    with receiving() as receiver:
        settings = alert_settings(tmp_path, POLICY + hook(receiver.url))
        # more than fits into the pages that the empty tables have already
        fleet = Fleet([f"g{number:02}" for number in range(60)], clock)
        with running(settings, clock) as alerts:
            database = alerts.alerts._database  # noqa: SLF001
            alerts.call(lambda: fill(database))
            fleet.fail(*fleet.groups)
            alerts.sees(fleet)
            eventually(lambda: len(receiver.notices) == 60 and alerts.idle(), "all openings")
            problem = alerts.alerts.problem
            alerts.call(lambda: make_room(database))
            back = alerts.call(database.return_to_disk)
            requests = len(receiver.requests)

        with running(settings, clock) as alerts:
            counts = alerts.call(alerts.alerts.counts)

    assert "the disk is full" in problem
    assert back
    assert requests == 1
    assert counts.open_incidents == {CLUSTER: 60}
    assert counts.undelivered.get("hook", 0) == 0


def test_the_heart_beats_while_all_is_well_and_only_then(tmp_path, clock) -> None:
    health = [HEALTH]
    with receiving() as watcher:
        beat = f'[alerts.heartbeat]\nurl = "{watcher.url}/ping"\ninterval_s = 1\n'
        with running(alert_settings(tmp_path, beat), clock) as alerts:
            alerts.call(lambda: alerts.alerts.look_after(lambda: health, str))
            eventually(lambda: len(watcher.requests) >= 2, "two beats")
            with capture_logs() as logs:
                health[0] = replace(HEALTH, ready=False)
                eventually(
                    lambda: "heartbeat_not_sent" in {log["event"] for log in logs}, "the silence"
                )
                beats = len(watcher.requests)
                health[0] = HEALTH
                eventually(lambda: len(watcher.requests) > beats, "the next beat")

    assert {(request.method, request.path) for request in watcher.requests} == {("GET", "/ping")}
    (silence,) = [log for log in logs if log["event"] == "heartbeat_not_sent"]
    assert silence["reason"] == f"no fresh data of {CLUSTER}"


def test_a_group_steadily_behind_misses_its_objective(tmp_path, clock) -> None:
    fleet = Fleet(["billing", "orders"], clock)
    policy = POLICY + "max_lag = 400\n"
    with (
        receiving() as receiver,
        running(alert_settings(tmp_path, policy + hook(receiver.url)), clock) as alerts,
    ):
        fleet.slow.add("billing")
        fleet.pass_time(60)  # it moves, but reads a tenth of what comes
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 1, "the missed objective")
        fleet.slow.discard("billing")
        fleet.pass_time(2)
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 2, "its end")

    opened, closed = receiver.notices
    assert (opened["group"], opened["severity"]) == ("billing", "error")
    assert opened["verdict"]["status"] != "ERR", "only the objective makes it an error"
    assert "more than 400 allowed" in opened["verdict"]["objective"]
    assert "more than 400 allowed" in receiver.taken[0].json["subject"]
    assert closed["event"] == "close"


def fill(database: Database) -> None:
    """As a full disk: SQLite says `database or disk is full` to whatever needs a page more."""
    connection = database.connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")


def make_room(database: Database) -> None:
    on_disk = database._on_disk  # noqa: SLF001
    assert on_disk is not None
    on_disk.execute("PRAGMA max_page_count = 1000000")


def test_the_heart_beats_while_a_receiver_refuses_for_a_moment(tmp_path, clock) -> None:
    busy = Reply(status=429, headers={"Retry-After": "3600"})
    with receiving() as watcher, receiving(*[busy] * 100) as receiver:
        text = (
            "undelivered_after_s = 12\n"
            f'{POLICY}[alerts.webhook.hook]\nurl = "{receiver.url}"\n'
            f'[alerts.heartbeat]\nurl = "{watcher.url}/ping"\ninterval_s = 1\n'
        )
        fleet = Fleet(["billing"], clock)
        with running(alert_settings(tmp_path, text), clock) as alerts, capture_logs() as logs:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: "channel hook" in alerts.alerts.problem, "the refusal")
            beats = len(watcher.requests)
            eventually(lambda: len(watcher.requests) >= beats + 3, "three more beats")
            early = [log["reason"] for log in logs if log["event"] == "heartbeat_not_sent"]
            eventually(
                lambda: any(log["event"] == "heartbeat_not_sent" for log in logs), "the silence"
            )

    assert not early
    reason = next(log["reason"] for log in logs if log["event"] == "heartbeat_not_sent")
    assert reason.startswith("channel hook: 1 notice waiting")

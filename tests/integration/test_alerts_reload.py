"""SIGHUP takes policies, mutes and channels from the file as it is now; nothing else is lost."""

import os
import signal
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from lagwatch.errors import ConfigError
from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.fleet import Fleet, ShiftedClock, alert_settings
from tests.support.kafka import create_topic, produce, unique
from tests.support.receiver import Reply, receiving
from tests.support.running_alerts import running as running_alerts
from tests.support.served import Served, serving
from tests.support.traffic import committing, running
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(300)
_QUICK = '[evaluator]\nstop_after_s = 10\nstall_after_s = 10\n[history]\nstore = "none"\n'
_MUTE = '[alerts.mutes.work]\nreason = "work"\nstarts = "2020-01-01"\nends = "2100-01-01"\n'


def sections(folder: Path, url: str, more: str = "") -> str:
    return (
        f'{_QUICK}[alerts]\nfile = "{folder / "alerts.sqlite"}"\ngroup_wait_s = 0.1\n'
        f'[alerts.webhook.hook]\nurl = "{url}"\n{more}'
    )


def reload(served: Served, change) -> None:
    """Write the file anew and send SIGHUP."""
    path = served.log.with_name("lagwatch.toml")
    path.write_text(change(path.read_text()))
    served.process.send_signal(signal.SIGHUP)


def reloads(served: Served) -> int:
    return served.log.read_text().count("configuration_reloaded")


def commits(served: Served, group: str, topic: str) -> int:
    answer = served.get(f"/api/v1/clusters/here/groups/{group}?topic={topic}&partition=0")
    return len(answer["window"]["commits"])


def test_a_reload_changes_mutes_and_channels_and_keeps_the_windows(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic, group = create_topic(kafka, "reload"), unique("stalled")
    produce(kafka, topic, 100)
    with (
        receiving() as receiver,
        running(committing(kafka, group, topic, lambda _: 1, every_s=1.0)),
        serving(
            kafka.bootstrap_servers,
            # other tests leave groups in trouble on this broker
            cluster={
                "commits": "offsets-topic",
                "log_end_interval_s": 1,
                "group_allow": f"^{group}$",
            },
            sections=sections(tmp_path, f"{receiver.url}/old", _MUTE),
        ) as served,
    ):
        served.wait_ready()
        eventually(
            lambda: served.get("/api/v1/alerts/incidents")["incidents"],
            "an incident that is muted",
            timeout_s=120,
        )
        before = commits(served, group, topic)
        reload(served, lambda text: text.replace(_MUTE, "").replace("/old", "/new"))
        eventually(lambda: reloads(served) == 1, "the reload", timeout_s=60)
        kept = commits(served, group, topic)
        eventually(lambda: bool(receiver.requests), "the notice after the mute", timeout_s=120)
        mutes = served.get("/api/v1/alerts/mutes")["mutes"]

    assert kept >= before > 0
    assert mutes == []
    assert {request.path for request in receiver.requests} == {"/new"}
    assert receiver.notices[0]["reason"] == "mute_ended"


def test_a_broken_file_changes_nothing_and_readyz_says_so(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    with serving(
        kafka.bootstrap_servers, sections=sections(tmp_path, "http://127.0.0.1:1", _MUTE)
    ) as served:
        served.wait_ready()
        reload(served, lambda text: text.replace(_MUTE, "[alerts.webhook.chat]\nurl = 7\n"))
        eventually(
            lambda: any("alerts.webhook.chat.url" in problem for problem in problems(served)),
            "the problem",
            timeout_s=60,
        )
        muted = served.get("/api/v1/alerts/mutes")["mutes"]
        reload(served, lambda text: text.replace("[alerts.webhook.chat]\nurl = 7\n", ""))
        eventually(lambda: not problems(served), "the end of the problem", timeout_s=60)
        unmuted = served.get("/api/v1/alerts/mutes")["mutes"]
        log = served.log.read_text()

    assert [mute["id"] for mute in muted] == ["config:work"]
    assert unmuted == []
    assert "configuration_not_reloaded" in log


def test_a_channel_that_is_the_same_goes_on_undisturbed(tmp_path: Path) -> None:
    def text(name: str) -> str:
        return (
            "group_wait_s = 0.02\n[alerts.policies.all]\nclose_for_s = 0\nreopen_s = 0\n"
            f'[alerts.webhook.slow]\nurl = "{slow.url}"\ntimeout_s = 60\n'
            f'[alerts.webhook.{name}]\nurl = "{other.url}/{name}"\n'
        )

    clock = ShiftedClock()
    fleet = Fleet(["billing"], clock)
    with receiving(Reply(after_s=3)) as slow, receiving() as other:
        with running_alerts(alert_settings(tmp_path, text("before")), clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: bool(slow.requests and other.requests), "both requests")
            # what was not kept as delivered would wait for its channel for ever
            eventually(
                lambda: not alerts.call(alerts.alerts.counts).undelivered["before"],
                "the answer to the other",
            )
            settings = alert_settings(tmp_path, text("after"))
            alerts.call(lambda: alerts.alerts.reload(settings))
            alerts.sees(fleet)
            eventually(lambda: len(other.requests) == 2, "the open incident for the new channel")
            eventually(alerts.idle, "the end of the slow request")
        paths = [request.path for request in other.requests]

    assert paths == ["/before", "/after"]
    assert len(slow.requests) == 1


def test_a_channel_that_was_removed_and_comes_back_hears_the_ends_it_has_missed(
    tmp_path: Path,
) -> None:
    def text(*names: str) -> str:
        hooks = [f'[alerts.webhook.{name}]\nurl = "{urls[name]}"\n' for name in names]
        policy = "[alerts.policies.all]\nclose_for_s = 0\nreopen_s = 0\n"
        return f'time_zone = "Asia/Tokyo"\ngroup_wait_s = 0.02\n{policy}{"".join(hooks)}'

    clock = ShiftedClock()
    fleet = Fleet(["billing", "orders"], clock)
    with receiving() as away, receiving() as stays:
        urls = {"away": away.url, "stays": stays.url}
        with (
            capture_logs() as log,
            running_alerts(alert_settings(tmp_path, text(*urls)), clock) as alerts,
        ):
            fleet.fail("billing", "orders")
            alerts.sees(fleet)
            eventually(lambda: len(away.notices) == len(stays.notices) == 2, "the openings")
            eventually(alerts.idle, "both as delivered")
            without = alert_settings(tmp_path, text("stays"))
            alerts.call(lambda: alerts.alerts.reload(without))
            fleet.heal("billing")
            alerts.sees(fleet)
            eventually(lambda: len(stays.notices) == 3, "the end, for the other channel")
            eventually(alerts.idle, "it as delivered")
            again = alert_settings(tmp_path, text(*urls))
            alerts.call(lambda: alerts.alerts.reload(again))
            eventually(lambda: len(away.notices) == 3, "the end that it has missed")
            eventually(alerts.idle, "it as delivered")
            alerts.call(lambda: alerts.alerts.reload(without))
            alerts.call(lambda: alerts.alerts.reload(again))
            alerts.sees(fleet)
            counts = alerts.call(alerts.alerts.counts)

    (end,) = away.notices[2:]
    removed = [each for each in log if each["event"] == "channel_removed"]
    assert (end["event"], end["group"], end["reason"]) == ("close", "billing", "healed")
    assert end["incident"] == stays.notices[2]["incident"]
    assert away.taken[-1].json["subject"].startswith("OK again: billing on here, after")
    assert [(each["channel"], each["open_incidents"]) for each in removed] == [
        ("away", 2),
        ("away", 1),
    ]
    assert counts.undelivered["away"] == 0, "it hears each end once"


def test_another_file_is_refused(tmp_path: Path) -> None:
    hook = '[alerts.webhook.hook]\nurl = "http://127.0.0.1:1"\n'
    other = tmp_path / "other"
    other.mkdir()
    with running_alerts(alert_settings(tmp_path, hook), ShiftedClock()) as alerts:
        settings = alert_settings(other, hook)

        with pytest.raises(ConfigError, match=r"alerts\.file .* Restart lagwatch"):
            alerts.call(lambda: alerts.alerts.reload(settings))


def problems(served: Served) -> list[str]:
    return [each for each in served.health()["problems"] if each.startswith("configuration:")]


def test_a_pipe_in_the_place_of_the_configuration_is_refused_at_a_reload() -> None:
    """To open one waits until somebody writes into it, and all of lagwatch would wait."""
    with serving("127.0.0.1:1", sections='[history]\nstore = "none"') as served:
        path = served.log.with_name("lagwatch.toml")
        path.unlink()
        os.mkfifo(path)

        served.process.send_signal(signal.SIGHUP)

        eventually(lambda: "it is a pipe or device" in served.log.read_text(), "it is refused")
        assert served.get("/healthz")

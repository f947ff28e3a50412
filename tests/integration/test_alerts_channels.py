"""The other channels: a real Alertmanager, a real SMTP server, and what the chats are sent."""

import asyncio
import email
import email.policy
import socket
import sqlite3
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from email.message import EmailMessage
from functools import partial
from pathlib import Path

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult
from structlog.testing import capture_logs
from typer.testing import CliRunner

from lagwatch.cli.app import app
from lagwatch.clock import SystemClock
from lagwatch.notify.channels.alertmanager import Alertmanager, AlertmanagerSettings
from lagwatch.ports.alerts import IncidentAsk
from lagwatch.service import _notices
from tests.support.alert_situations import hostile, situations
from tests.support.alertmanager import alertmanager
from tests.support.certificates import self_signed
from tests.support.fleet import Fleet, ShiftedClock, alert_settings
from tests.support.receiver import Receiver, Reply, receiving
from tests.support.running_alerts import Running, running
from tests.support.waiting import eventually

POLICY = '[alerts.policies.all]\nthreshold = "warning"\nclose_for_s = 0\nreopen_s = 0\n'


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as server:
        yield server


class TestAlertmanager:
    def test_it_receives_an_alert_and_its_end(self, tmp_path, receiver) -> None:
        clock = in_the_past()
        with alertmanager(tmp_path / "am", receiver.url) as peer:
            text = POLICY + (
                f'[alerts.alertmanager.am]\nurls = ["{peer.url}", "http://127.0.0.1:1"]\n'
                'labels = { team = "kafka" }\n'
            )
            fleet = Fleet(["billing"], clock)
            with running(alert_settings(tmp_path, text), clock) as alerts:
                fleet.fail("billing")
                alerts.sees(fleet)
                eventually(lambda: len(peer.alerts()) == 1, "the alert")
                (alert,) = peer.alerts()
                eventually(lambda: bool(receiver.requests), "Alertmanager's own notice")
                fleet.heal("billing")
                alerts.sees(fleet)
                eventually(lambda: not peer.alerts(), "the alert to be resolved")
                eventually(
                    lambda: any(r.json["status"] == "resolved" for r in receiver.requests),
                    "Alertmanager's own notice of the end",
                )

        assert alert["labels"] == {
            "alertname": "KafkaConsumerGroupLag",
            "cluster": "here",
            "group": "billing",
            "severity": "error",
            "team": "kafka",
        }
        assert alert["annotations"]["rule"] == "stopped"
        assert alert["status"]["state"] == "active"

    def test_an_alert_is_kept_alive_until_it_ends(self, tmp_path, receiver) -> None:
        clock = in_the_past()
        with alertmanager(tmp_path / "am", receiver.url) as peer:
            text = POLICY + f'[alerts.alertmanager.am]\nurls = ["{peer.url}"]\nkeep_alive_s = 1\n'
            fleet = Fleet(["billing"], clock)
            with running(alert_settings(tmp_path, text), clock) as alerts:
                fleet.fail("billing")
                alerts.sees(fleet)
                eventually(lambda: len(peer.alerts()) == 1, "the alert")
                first = peer.alerts()[0]["endsAt"]
                eventually(lambda: peer.alerts()[0]["endsAt"] > first, "a later end")

    def test_an_incident_that_cannot_be_read_any_more_does_not_fire_for_ever(
        self, tmp_path, receiver
    ) -> None:
        clock = in_the_past()
        answers = [Reply(status=202, body='{"status":"success"}')] * 3
        with alertmanager(tmp_path / "am", receiver.url) as peer, receiving(*answers) as pager:
            settings = alert_settings(
                tmp_path,
                f'{POLICY}[alerts.alertmanager.am]\nurls = ["{peer.url}"]\n'
                f'[alerts.pagerduty.pager]\nrouting_key = "k"\nurl = "{pager.url}"\n',
            )
            fleet = Fleet(["billing"], clock)
            with running(settings, clock) as alerts:
                fleet.fail("billing")
                alerts.sees(fleet)
                eventually(lambda: len(peer.alerts()) == 1 and alerts.idle(), "the alert")
            with sqlite3.connect(settings.alerts.file) as file:
                file.execute("UPDATE incidents SET since_ms = 9000000000000000")
            file.close()
            with running(settings, clock) as alerts:
                eventually(lambda: not peer.alerts(), "the alert to be resolved")
                eventually(lambda: len(pager.taken) == 2 and alerts.idle(), "the page to be")

        first, last = (request.json for request in pager.taken)
        assert (first["event_action"], last["event_action"]) == ("trigger", "resolve")
        assert first["dedup_key"] == last["dedup_key"]

    @pytest.mark.parametrize("situation", ["odd_names", "emoji alone", "cyrillic storm"])
    def test_it_takes_names_of_four_thousand_characters(
        self, tmp_path, receiver, situation
    ) -> None:
        message = {**situations(), **hostile()}[situation]
        groups = {(notice.cluster, notice.group) for notice in message.notices}

        async def send(url: str) -> str:
            channel = Alertmanager("am", AlertmanagerSettings(urls=[url]), SystemClock())
            try:
                return await channel.send(message)
            finally:
                await channel.close()

        with alertmanager(tmp_path / "am", receiver.url) as peer:
            assert asyncio.run(send(peer.url)) == "accepted by 1 of 1 peers"
            taken = {(a["labels"]["cluster"], a["labels"]["group"]) for a in peer.alerts()}

        assert taken == groups

    def test_a_watchdog_fires_while_all_is_well_and_only_then(self, tmp_path, clock) -> None:
        well = [True]
        with receiving() as peer:
            text = (
                f'{POLICY}[alerts.alertmanager.am]\nurls = ["{peer.url}"]\nwatchdog = true\n'
                "[alerts.heartbeat]\ninterval_s = 1\n"
            )
            with running(alert_settings(tmp_path, text), clock) as alerts:
                eventually(lambda: len(peer.taken) >= 2, "two beats")
                alerts.call(
                    lambda: alerts.alerts.look_after(tuple, lambda: "" if well[0] else "full")
                )
                well[0] = False
                with capture_logs() as logs:
                    eventually(
                        lambda: any(log["event"] == "heartbeat_not_sent" for log in logs),
                        "the silence",
                    )

        (beat,) = peer.taken[0].json
        assert beat["labels"] == {"alertname": "LagwatchWatchdog", "severity": "none"}
        ends, starts = (datetime.fromisoformat(beat[name]) for name in ("endsAt", "startsAt"))
        assert (ends - starts).total_seconds() == 5


class TestEmail:
    def test_it_comes_over_starttls_as_text_and_html_with_the_curve(self, tmp_path, clock) -> None:
        cert, key = self_signed(tmp_path)
        with smtp_server(cert, key) as mailbox:
            text = POLICY + (
                f'[alerts.email.ops]\nhost = "localhost"\nport = {mailbox.port}\n'
                f'ca_file = "{cert}"\nusername = "lagwatch"\npassword = "hush"\n'
                'sender = "lagwatch@example.com"\nto = ["ops@example.com", "b@example.com"]\n'
            )
            fleet = Fleet(["billing", "<b>"], clock)
            with running(alert_settings(tmp_path, text), clock) as alerts:
                fleet.fail("billing")
                alerts.sees(fleet)
                eventually(lambda: len(mailbox.mails) == 1, "the first mail")
                fleet.heal("billing")
                alerts.sees(fleet)
                eventually(lambda: len(mailbox.mails) == 2, "the second mail")

        opened, closed = mailbox.mails
        assert mailbox.encrypted == [True, True]
        assert opened["Subject"].startswith("ERROR: billing on here: stopped")
        assert opened["To"] == "ops@example.com, b@example.com"
        plain, html = opened.get_body(("plain",)), opened.get_body(("html",))
        assert plain is not None
        assert html is not None
        assert "orders/0: no commit for" in plain.get_content()
        assert 'src="cid:curve"' in html.get_content()
        (picture,) = [part for part in opened.walk() if part.get_content_type() == "image/png"]
        assert struct.unpack(">II", picture.get_content()[16:24]) == (480, 120)
        assert picture["Content-ID"] == "<curve>"
        assert closed["In-Reply-To"] == opened["Message-ID"]
        assert closed["Subject"].startswith("OK again: billing on here")

    def test_the_name_of_a_group_is_not_decoded_to_another_one(self, tmp_path, clock) -> None:
        name = "=?utf-8?q?billing?=\u202e"
        with smtp_server(None, None) as mailbox:
            text = POLICY + (
                f'[alerts.email.ops]\nhost = "localhost"\nport = {mailbox.port}\n'
                'security = "none"\nsender = "lagwatch@example.com"\nto = ["ops@example.com"]\n'
            )
            fleet = Fleet([name], clock)
            with running(alert_settings(tmp_path, text), clock) as alerts:
                fleet.fail(name)
                alerts.sees(fleet)
                eventually(lambda: len(mailbox.mails) == 1, "the mail")

        subject = str(mailbox.mails[0]["Subject"])
        assert subject.startswith("ERROR: = ?utf-8?q?billing?=\N{REPLACEMENT CHARACTER} on here")

    def test_a_server_without_starttls_is_sent_nothing(self, tmp_path, clock) -> None:
        with smtp_server(None, None) as mailbox:
            text = POLICY + (
                f'[alerts.email.ops]\nhost = "localhost"\nport = {mailbox.port}\n'
                'sender = "lagwatch@example.com"\nto = ["ops@example.com"]\ngive_up_after_s = 0\n'
            )
            fleet = Fleet(["billing"], clock)
            with running(alert_settings(tmp_path, text), clock) as alerts:
                fleet.fail("billing")
                alerts.sees(fleet)
                eventually(
                    lambda: alerts.call(alerts.alerts.counts).dead == {"ops": 1}, "a dead letter"
                )

        assert mailbox.mails == []

    def test_a_refused_recipient_is_a_problem_and_the_other_gets_the_mail_once(
        self, tmp_path, clock
    ) -> None:
        with smtp_server(None, None) as mailbox, receiving() as other:
            mailbox.refused = {"gone@example.com"}
            text = (
                'fallback = ["hook"]\nundelivered_after_s = 1\n[alerts.policies.all]\n'
                'channels = ["ops"]\nclose_for_s = 0\nreopen_s = 0\n'
                f'[alerts.webhook.hook]\nurl = "{other.url}"\n'
                f'[alerts.email.ops]\nhost = "localhost"\nport = {mailbox.port}\n'
                'security = "none"\nsender = "lagwatch@example.com"\n'
                'to = ["ops@example.com", "gone@example.com"]\n'
            )
            fleet = Fleet(["billing"], clock)
            with (
                capture_logs() as logs,
                running(alert_settings(tmp_path, text), clock) as alerts,
            ):
                fleet.fail("billing")
                alerts.sees(fleet)
                eventually(alerts.idle, "the mail, to the other recipient")
                clock.ahead_ms += 2000
                alerts.call(alerts.alerts._check_itself)  # noqa: SLF001
                problem = alerts.alerts.problem
                counted = _notices(alerts.call(alerts.alerts.counts))["ops"].undelivered
                eventually(lambda: len(other.notices) == 1, "the fallback")
                mailbox.refused = set()
                fleet.heal("billing")
                alerts.sees(fleet)
                eventually(lambda: len(mailbox.mails) == 2, "the end, to both")
                eventually(lambda: not refusals(alerts), "the end of the problem")
                alerts.call(alerts.alerts._check_itself)  # noqa: SLF001
                after = alerts.alerts.problem

        assert mailbox.recipients == [
            ["ops@example.com"],
            ["ops@example.com", "gone@example.com"],
        ]
        assert "channel ops: 1 notice not for all" in problem
        assert "gone@example.com: 550 5.1.1 no such user" in problem
        assert (counted, after) == (1, "")
        assert other.notices[0]["about"] == "channel"
        (warning,) = [log for log in logs if log["event"] == "recipients_refused"]
        assert warning["log_level"] == "warning"
        assert "gone@example.com: 550 5.1.1 no such user" in warning["reason"]

    def test_a_trial_fails_when_a_recipient_is_refused(self, tmp_path) -> None:
        config = tmp_path / "lagwatch.toml"
        with smtp_server(None, None) as mailbox:
            mailbox.refused = {"gone@example.com"}
            config.write_text(
                '[clusters.here]\nbootstrap = ["localhost:9092"]\n[history]\nstore = "none"\n'
                f'[alerts.email.ops]\nhost = "localhost"\nport = {mailbox.port}\n'
                'security = "none"\nsender = "lagwatch@example.com"\n'
                'to = ["ops@example.com", "gone@example.com"]\n'
            )
            result = CliRunner().invoke(app, ["alert", "test", "ops", "-c", str(config)])

        assert result.exit_code == 2
        assert "gone@example.com: 550 5.1.1 no such user" in result.stderr


class TestChats:
    def test_slack_gets_blocks_with_names_escaped(self, tmp_path, clock, receiver) -> None:
        body = self.sent(tmp_path, clock, receiver, "slack", f'webhook_url = "{receiver.url}"')

        assert body["text"].startswith("ERROR: &lt;b&gt; on here")
        (attachment,) = body["attachments"]
        assert attachment["color"] == "#c0392b"
        assert [block["type"] for block in attachment["blocks"]] == ["section"]

    def test_teams_gets_an_adaptive_card(self, tmp_path, clock, receiver) -> None:
        body = self.sent(tmp_path, clock, receiver, "teams", f'webhook_url = "{receiver.url}"')

        (attachment,) = body["attachments"]
        assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
        assert attachment["content"]["body"][0]["inlines"][0]["color"] == "Attention"

    @pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's
    def test_apprise_hands_it_on(self, tmp_path, clock, receiver) -> None:
        address = receiver.url.removeprefix("http://")
        body = self.sent(
            tmp_path, clock, receiver, "apprise", f'service_urls = ["json://{address}/x"]'
        )

        assert body["title"].startswith("ERROR: <b> on here")
        assert body["type"] == "failure"

    def sent(self, folder: Path, clock: ShiftedClock, receiver: Receiver, kind: str, option: str):
        receiver.replies.append(Reply(body="1" if kind == "teams" else "ok"))
        fleet = Fleet(["<b>"], clock)
        text = f"{POLICY}[alerts.{kind}.chat]\n{option}\n"
        with running(alert_settings(folder, text), clock) as alerts:
            fleet.fail("<b>")
            alerts.sees(fleet)
            eventually(lambda: len(receiver.taken) == 1, "the message")
        return receiver.taken[0].json


class TestPagerDuty:
    def test_what_fails_together_pages_once_and_is_resolved_by_the_last(
        self, tmp_path, clock
    ) -> None:
        with receiving(*[Reply(status=202, body='{"status":"success"}')] * 9) as receiver:
            text = (
                f'{POLICY}[alerts.pagerduty.pager]\nrouting_key = "key"\nurl = "{receiver.url}"\n'
            )
            fleet = Fleet(["a", "b", "c"], clock)
            with running(alert_settings(tmp_path, text), clock) as alerts:
                fleet.fail("a", "b")
                alerts.sees(fleet)
                eventually(lambda: len(receiver.taken) == 1, "the page")
                fleet.heal("a")
                alerts.sees(fleet)
                eventually(lambda: len(receiver.taken) == 2 and alerts.idle(), "what is left")
                fleet.heal("b")
                alerts.sees(fleet)
                eventually(lambda: len(receiver.taken) == 3, "the end")

        events = [request.json for request in receiver.taken]
        assert [event["event_action"] for event in events] == ["trigger", "trigger", "resolve"]
        left = events[1]["payload"]
        assert left["summary"] == (
            "Still ERROR: 1 consumer group of this page: b on here; ended: a on here"
        )
        assert left["severity"] == "critical"
        assert left["custom_details"]["still_open"] == ["ERROR: b on here"]
        assert left["custom_details"]["ended"][0].startswith("OK again: a on here")
        assert len({event["dedup_key"] for event in events}) == 1
        assert events[0]["payload"]["severity"] == "critical"
        assert events[0]["payload"]["summary"].startswith("ERROR: 2 consumer groups on ")

    def test_an_update_of_one_group_names_the_others_of_its_page(self, tmp_path, clock) -> None:
        answers = [Reply(status=202, body='{"status":"success"}')] * 9
        with receiving(*answers) as receiver:
            policy = POLICY + "remind_s = 60\n"
            text = (
                f'{policy}[alerts.pagerduty.pager]\nrouting_key = "key"\nurl = "{receiver.url}"\n'
            )
            fleet = Fleet([f"g{number}" for number in range(8)], clock)
            with running(alert_settings(tmp_path, text), clock) as alerts:
                fleet.fail(*fleet.groups)
                alerts.sees(fleet)
                eventually(lambda: len(receiver.taken) == 1 and alerts.idle(), "the page")
                page = alerts.call(lambda: alerts.alerts.incidents(IncidentAsk()))[0]
                for record in page:
                    if record.group != "g3":
                        identity = record.id
                        alerts.call(partial(alerts.alerts.acknowledge, identity, author="x"))
                fleet.pass_time(70)
                alerts.sees(fleet)
                eventually(lambda: len(receiver.taken) == 2, "the reminder of one group")

        first, second = (request.json for request in receiver.taken)
        assert first["dedup_key"] == second["dedup_key"]
        summary = second["payload"]["summary"]
        assert summary.startswith("Still ERROR: g3 on here: stopped")
        assert summary.endswith(
            "; still open on this page: g0 on here, g1 on here, g2 on here, g4 on here, g5 on here"
            " and 2 more"
        )
        assert len(second["payload"]["custom_details"]["still_open"]) == 7


def refusals(alerts: Running) -> int:
    """Notices that a recipient of the mails refused."""
    return alerts.call(alerts.alerts.counts).deliveries["ops"].partly


def in_the_past() -> ShiftedClock:
    """A clock that is right after a fleet has begun and failed: Alertmanager has its own."""
    clock = ShiftedClock()
    clock.ahead_ms = -63_000
    return clock


class Mailbox:
    """What an SMTP server took."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.encrypted: list[bool] = []
        self.recipients: list[list[str]] = []
        self.refused: set[str] = set()
        self.port = 0

    async def handle_RCPT(  # noqa: N802 aiosmtpd's name
        self, server, session, envelope, address, options
    ) -> str:
        del server, session, options
        if address in self.refused:
            return "550 5.1.1 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope) -> str:  # noqa: N802 aiosmtpd's name
        del server
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        assert isinstance(mail, EmailMessage)
        self.encrypted.append(session.ssl is not None)
        self.recipients.append(list(envelope.rcpt_tos))
        self.mails.append(mail)
        return "250 taken"


@contextmanager
def smtp_server(cert: Path | None, key: Path | None) -> Iterator[Mailbox]:
    """It wants STARTTLS and the user `lagwatch:hush`; without a certificate, nothing of it."""
    mailbox = Mailbox()

    def authenticate(server, session, envelope, mechanism, data) -> AuthResult:
        del server, session, envelope, mechanism
        return AuthResult(success=(data.login, data.password) == (b"lagwatch", b"hush"))

    class Server(Controller):
        def factory(self) -> SMTP:
            if cert is None:
                return SMTP(mailbox, enable_SMTPUTF8=True)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(cert, key)
            return SMTP(
                mailbox,
                require_starttls=True,
                tls_context=context,
                auth_required=True,
                authenticator=authenticate,
            )

    with socket.create_server(("127.0.0.1", 0)) as probe:
        mailbox.port = probe.getsockname()[1]
    controller = Server(mailbox, hostname="127.0.0.1", port=mailbox.port)
    controller.start()
    try:
        yield mailbox
    finally:
        controller.stop()

"""What every channel sends in each situation, kept as files to be read.

Write the files anew with `REWRITE=1 pytest tests/unit/test_alerts_rendered.py`, and read them.
"""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from lagwatch.clock import SystemClock
from lagwatch.core.first_steps import START
from lagwatch.core.incident import NoticeEvent
from lagwatch.notify.channels import pagerduty
from lagwatch.notify.channels.alertmanager import Alertmanager, AlertmanagerSettings
from lagwatch.notify.channels.email import Email, EmailSettings
from lagwatch.notify.channels.registry import KINDS
from lagwatch.notify.channels.slack import Slack, SlackSettings
from lagwatch.notify.channels.teams import Teams, TeamsSettings
from lagwatch.notify.channels.webhook import Webhook, WebhookSettings
from lagwatch.notify.message_words import Tone, body, plain_text, runbook, subject, tone
from lagwatch.notify.notice import Json, Message, Notice
from lagwatch.notify.render import document
from lagwatch.notify.words import details, headline, lead
from tests.support.alert_situations import AT_MS, situations

_FOLDER = Path(__file__).parents[1] / "data" / "alerts_rendered"
_LONGEST_FILE = 12_000
"""A storm is kept cut; its limits have tests of their own."""
SITUATIONS = situations()


class StoppedClock(SystemClock):
    """Always the same moment."""

    def now_ms(self):
        return AT_MS


SLACK = Slack("s", SlackSettings(webhook_url="http://127.0.0.1:1"), StoppedClock())
TEAMS = Teams("t", TeamsSettings(webhook_url="http://127.0.0.1:1"), StoppedClock())


def _json(document: object) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False)


def _alertmanager(message: Message) -> str:
    channel = Alertmanager(
        "am", AlertmanagerSettings(urls=["http://127.0.0.1:9093"]), StoppedClock()
    )
    return _json(channel.alerts(message))


def _email(message: Message) -> str:
    settings = EmailSettings(host="localhost", sender="lagwatch@example.com", to=["o@example.com"])
    mail = Email("ops", settings, StoppedClock()).compose(message)
    parts = [mail.get_body((kind,)) for kind in ("plain", "html")]
    head = "".join(f"{name}: {mail[name]}\n" for name in ("Subject", "In-Reply-To") if mail[name])
    return head + "\n" + "\n".join(part.get_content() for part in parts if part is not None)


def _webhook(message: Message) -> str:
    channel = Webhook(
        "hook",
        WebhookSettings(url="http://127.0.0.1:1/{{ notice.group }}", most_bytes=10_000_000),
        StoppedClock(),
    )
    method, url, content, _ = channel.request(message)
    return f"{method} {url}\n{_json(json.loads(content))}"


CHANNELS: dict[str, Callable[[Message], str]] = {
    "alertmanager": _alertmanager,
    "apprise": lambda message: f"{subject(message)}\n\n{body(message, 4000)}",
    "email": _email,
    "pagerduty": lambda message: _json(pagerduty.events(message)),
    "slack": lambda message: _json(SLACK.payload(message)),
    "teams": lambda message: _json(TEAMS.payload(message)),
    "webhook": _webhook,
}


FOR_MACHINES: Final = {"alertmanager", "pagerduty", "webhook"}
"""Channels whose receivers match names by machine; all others send texts for people."""


def test_every_channel_is_rendered() -> None:
    assert set(CHANNELS) == set(KINDS)


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("channel", CHANNELS)
def test_a_channel_sends_what_the_file_shows(channel: str, situation: str) -> None:
    path = _FOLDER / channel / f"{situation}.txt"
    shown = CHANNELS[channel](SITUATIONS[situation])[:_LONGEST_FILE].rstrip() + "\n"
    if os.environ.get("REWRITE"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(shown, encoding="utf-8")

    assert shown == path.read_text(encoding="utf-8")


def test_a_storm_counts_what_it_leaves_out_and_keeps_the_link() -> None:
    text = plain_text(SITUATIONS["a_storm"], 2900)

    assert len(text) <= 2900
    shown = text.count("ERROR: group-")
    assert 5 <= shown <= 20
    assert f"… and {1000 - shown} more" in text
    assert text.endswith("https://lagwatch.example.com/")


def test_a_storm_is_sorted_by_what_may_have_one_cause() -> None:
    lines = plain_text(SITUATIONS["several_causes"], 2900).splitlines()

    headings = _headings(SITUATIONS["several_causes"])
    assert [line.partition(",")[0] for line in headings] == [
        "12 consumer groups of topic sample-topic on prod",
        "2 consumer groups of topic mail on prod",
        "1 consumer group of topic sample-topic on test",
    ]
    shown = [line for line in lines if line.startswith("• ERROR: ")]
    assert all("in time, 1 of 3 partitions, since" in line for line in shown)
    assert f"• … and {15 - len(shown)} more" in lines


def _headings(message: Message) -> list[str]:
    return [line for line in plain_text(message, 2900).splitlines() if line[:1].isdigit()]


def test_a_storm_names_the_cause_that_its_groups_share() -> None:
    storm = SITUATIONS["several_causes"]
    certain = storm.notices[0].cause
    assert certain is not None
    likely = {**certain, "certainty": "likely"}
    others = {**certain, "name": "all_slow"}
    unknown = {**certain, "name": None, "certainty": "unknown"}

    def with_causes(*causes: Json | None) -> Message:
        notices = zip(storm.notices[:4], causes, strict=True)
        return replace(storm, notices=tuple(replace(each, cause=cause) for each, cause in notices))

    assert "team payments. Cause of all: no members. What to do" in _headings(storm)[0]
    assert (
        "Likely cause of 2 of 4: no members."
        in (_headings(with_causes(certain, likely, others, None))[0])
    )
    assert (
        "Cause of 1 of 4: no members."
        in (_headings(with_causes(certain, unknown, unknown, None))[0])
    )
    assert "ause of" not in _headings(with_causes(unknown, unknown, None, None))[0]
    assert "team payments. Cause: no members." in _headings(storm)[2]


def test_groups_of_several_topics_with_the_same_cause_have_one_heading() -> None:
    storm = SITUATIONS["several_causes"]
    no_members = storm.notices[0].cause
    assert no_members is not None

    def with_causes(*causes: Json | None) -> Message:
        """A group on a topic of its own for each cause."""
        notices = [
            replace(
                storm.notices[0],
                group=f"group-{number}",
                cause=cause,
                verdict={**storm.notices[0].verdict, "partitions": [{"topic": f"t{number}"}]},
            )
            for number, cause in enumerate(causes)
        ]
        return replace(storm, notices=tuple(notices))

    def broker_away(age: str) -> Json:
        text = f"a broker is away: the partition has no leader; the data are {age} old"
        return {**no_members, "name": "broker_away", "text": text, "sentence": f"Cause: {text}."}

    unknown = {**no_members, "name": None, "certainty": "unknown"}
    other_host = {**no_members, "text": "it left b", "sentence": "Cause (certain): it left b."}

    many = with_causes(*[no_members] * 30)
    (heading,) = _headings(many)
    assert heading.startswith("30 consumer groups on prod, policy payments")
    assert f"Cause of all: {no_members['text']}. What to do" in heading
    assert plain_text(many, 2900).splitlines()[2].endswith(", topic t0")
    (heading,) = _headings(with_causes(*[broker_away("9 s")] * 3))
    assert "the partition has no leader; the data are 9 s old." in heading
    (heading,) = _headings(with_causes(broker_away("9 s"), broker_away("12 s")))
    assert "Cause of all: broker away." in heading
    headings = _headings(with_causes(no_members, no_members, other_host, unknown, None))
    assert [heading.partition(",")[0] for heading in headings] == [
        "2 consumer groups on prod",
        *(f"1 consumer group of topic t{number} on prod" for number in (3, 4, 2)),
    ]


def test_a_name_of_any_length_leaves_room_for_the_facts() -> None:
    headline = plain_text(SITUATIONS["odd_names"]).splitlines()[0]

    assert "1,204 messages behind, 3 min 14 s in time" in headline
    assert len(headline) < 300


def test_a_group_that_is_gone_is_never_ok() -> None:
    text = plain_text(SITUATIONS["gone"])

    assert "OK" not in text
    assert text.startswith("GONE: billing on prod")
    assert tone(SITUATIONS["gone"]) is Tone.NEUTRAL


def test_only_a_message_about_groups_that_healed_is_green() -> None:
    healed, gone = SITUATIONS["healed_with_messages_left"], SITUATIONS["gone"]

    assert tone(healed) is Tone.GOOD
    assert tone(replace(healed, notices=(*healed.notices, *gone.notices))) is Tone.NEUTRAL
    assert tone(SITUATIONS["stopped"]) is Tone.ERROR


def test_an_end_says_for_how_long_and_what_is_left() -> None:
    text = plain_text(SITUATIONS["healed_with_messages_left"])

    assert text.startswith("OK again: billing on prod, after 28 min 15 s, 9,040 messages left")
    assert "Left to read: 9,040 messages." in text


def test_no_text_shows_raw_evidence() -> None:
    for message in SITUATIONS.values():
        text = plain_text(message)
        assert "_ms" not in text
        assert str(AT_MS)[:6] not in text


_TURNS: Final = "\u202e\u2066\u200f\u202a\u2069\u200e"
"""Characters after which a reader sees the rest of the line in another order."""


def _turned(name: str) -> Message:
    """A situation in which what others may name turns the direction of text."""
    message = SITUATIONS[name]
    hostile = f"pay{_TURNS}gpj"

    def of(notice: Notice) -> Notice:
        partitions = [
            {**each, "topic": hostile, "client_id": hostile, "sentence": f"of {hostile}"}
            for each in notice.verdict.get("partitions", ())
        ]
        verdict = {**notice.verdict, "partitions": partitions, "last_owner": f"client {hostile}"}
        cause = notice.cause and {**notice.cause, "sentence": f"Left: {hostile}."}
        curve_of = f"lag of {hostile}/0"
        return replace(notice, group=hostile, verdict=verdict, cause=cause, curve_of=curve_of)

    return replace(message, notices=tuple(map(of, message.notices)))


@pytest.mark.parametrize("situation", ["stopped", "healed_with_messages_left", "a_storm"])
@pytest.mark.parametrize("channel", sorted(set(KINDS) - FOR_MACHINES))
def test_a_name_does_not_turn_the_direction_of_a_text(channel: str, situation: str) -> None:
    sent = CHANNELS[channel](_turned(situation))

    assert not set(sent) & set(_TURNS)
    assert "pay\ufffd" in sent


@pytest.mark.parametrize("situation", ["stopped", "a_storm"])
def test_texts_for_machines_keep_a_name_exactly(situation: str) -> None:
    message = _turned(situation)
    name = message.notices[0].group
    sent = document(message)
    alert = json.loads(_alertmanager(message))[0]
    trigger = pagerduty.events(message)[0]["payload"]

    assert sent["notices"][0]["group"] == name
    assert alert["labels"]["group"] == name
    for text in (
        *(sent["subject"], alert["annotations"]["summary"], alert["annotations"]["description"]),
        *(alert["annotations"]["owners"], alert["annotations"]["partitions"]),
        *(trigger["summary"], trigger["custom_details"]["text"]),
        *(*trigger["custom_details"]["groups"], trigger["component"]),
    ):
        assert not set(text) & set(_TURNS)


def test_without_a_runbook_a_notice_has_the_first_steps_for_its_cause() -> None:
    notice = SITUATIONS["no_runbook"].notices[0]
    assert notice.cause is not None
    stored_before = {name: part for name, part in notice.cause.items() if name != "to_do"}

    def to_do(notice: Notice) -> list[str]:
        return [line for line in details(notice) if line.startswith("What to do")]

    steps = " ".join(START[:2])
    assert to_do(notice) == [f"What to do: {steps}"]
    assert to_do(replace(notice, runbook="call Anna")) == ["What to do: call Anna"]
    assert to_do(replace(notice, event=NoticeEvent.CLOSE)) == []
    assert to_do(replace(notice, cause=stored_before)) == []
    assert to_do(replace(notice, cause=None)) == []
    assert _headings(SITUATIONS["several_without_runbook"])[0].endswith(f"What to do: {steps}")


def test_long_names_that_differ_in_their_ends_are_told_apart() -> None:
    """In the headline, in the subject of several, and in what PagerDuty shows of a page."""
    notice = SITUATIONS["stopped"].notices[0]
    names = [f"{'Ж' * 300}-{number}" for number in range(3)]
    notices = tuple(replace(notice, key=name, incident=name, group=name) for name in names)
    message = replace(SITUATIONS["stopped"], notices=notices)
    (event,) = pagerduty.events(message)

    shown = body(message, 100_000)
    for number in range(3):
        assert f"ЖЖ-{number}" in headline(notices[number])
        assert f"ЖЖ-{number}" in lead(notices[number], with_cluster=True, word=False)
        assert f"ЖЖ-{number}" in shown
        assert f"ЖЖ-{number}" in "\n".join(event["payload"]["custom_details"]["groups"])
    assert max(map(len, (headline(each) for each in notices))) < 300


@pytest.mark.parametrize("of", ["https://wiki/run book", "https://wiki/<team>", "https://wiki/\n2"])
def test_a_runbook_that_is_no_url_is_no_link(of) -> None:
    """Receivers may refuse the whole message."""
    notice = replace(SITUATIONS["stopped"].notices[0], runbook=of)
    message = replace(SITUATIONS["stopped"], notices=(notice,))

    assert "links" not in pagerduty.events(message)[0]
    assert runbook(message) == ""
    assert "What to do: https://wiki/" in "\n".join(details(notice))


def test_a_runbook_of_several_lines_keeps_them() -> None:
    notice = replace(SITUATIONS["stopped"].notices[0], runbook="First this.\nThen that.")

    assert "What to do: First this.\nThen that." in list(details(notice))

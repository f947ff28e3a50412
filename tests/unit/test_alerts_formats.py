"""What every channel sends fits the published schema and limits of its receiver.

Names are also hostile: 4,000 characters, Cyrillic, emoji, markup, alone and in a storm.
"""

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email import message_from_bytes, policy
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlsplit

import jsonschema
import pytest
from slack_sdk.models.blocks import ActionsBlock, Block, ButtonElement

from lagwatch.clock import SystemClock
from lagwatch.notify.channels import alertmanager, pagerduty
from lagwatch.notify.channels.alertmanager import Alertmanager, AlertmanagerSettings
from lagwatch.notify.channels.email import Email, EmailSettings
from lagwatch.notify.channels.http import as_json
from lagwatch.notify.channels.slack import Slack, SlackSettings
from lagwatch.notify.channels.teams import Teams, TeamsSettings
from lagwatch.notify.message_words import overview, plain_text
from tests.support.alert_situations import hostile, situations

EVERY: Final = {**situations(), **hostile()}
_CLOCK: Final = SystemClock()
_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def _date_time(value: object) -> bool:
    return not isinstance(value, str) or (
        bool(_RFC3339.fullmatch(value)) and datetime.fromisoformat(value).tzinfo is not None
    )


def _uri(value: object) -> bool:
    return not isinstance(value, str) or (
        value.isascii()
        and value.isprintable()
        and " " not in value
        and bool(urlsplit(value).netloc)
    )


_FORMATS: Final = jsonschema.FormatChecker(formats=())
_FORMATS.checks("date-time")(_date_time)
_FORMATS.checks("uri")(_uri)


def _faults(schema: Mapping[str, Any], document: object) -> list[str]:
    """What is wrong with a document, by its place."""
    found = jsonschema.validators.validator_for(schema)(schema, format_checker=_FORMATS)
    return [f"{error.json_path}: {error.message[:200]}" for error in found.iter_errors(document)]


_CARDS: Final = json.loads(
    files("adaptive_cards").joinpath("schemas/schema-1.4.json").read_text(encoding="utf-8")
)
"""Microsoft's schema of Adaptive Cards 1.4, as that package ships it."""
_MOST_OF_TEAMS: Final = 28 * 1024
"""Source: Microsoft, "Limits and specifications for Microsoft Teams"."""


@pytest.mark.parametrize("situation", EVERY)
def test_teams_accepts_the_card(situation: str) -> None:
    payload = Teams("t", TeamsSettings(webhook_url="http://127.0.0.1:1"), _CLOCK).payload(
        EVERY[situation]
    )

    (attachment,) = payload["attachments"]
    card = attachment["content"]
    assert card.pop("msteams") == {"width": "Full"}  # an extension of Teams
    assert card["version"] == "1.4"
    assert _faults(_CARDS, card) == []
    body = as_json(payload)
    assert len(body) <= _MOST_OF_TEAMS
    assert len(body.decode().encode("utf-16-le")) <= _MOST_OF_TEAMS  # as Teams keeps it


def test_the_schema_of_cards_finds_what_is_no_card() -> None:
    card = {"type": "AdaptiveCard", "version": "1.4", "body": [{"type": "TextBlok", "text": "a"}]}

    assert _faults(_CARDS, card)


@pytest.mark.parametrize("situation", EVERY)
def test_slack_accepts_the_blocks(situation: str) -> None:
    """Source: Slack's SDK, which knows fields of blocks and their limits; "chat.postMessage"."""
    payload = Slack("s", SlackSettings(webhook_url="http://127.0.0.1:1"), _CLOCK).payload(
        EVERY[situation]
    )

    (attachment,) = payload["attachments"]
    assert 0 < len(payload["text"]) <= 4000
    assert 0 < len(attachment["blocks"]) <= 50
    for block in attachment["blocks"]:
        assert _as_slack_reads(block) == block
    # more text is refused as msg_blocks_too_long, which is not documented
    assert len(json.dumps(attachment["blocks"], ensure_ascii=False)) <= 13_000


def _as_slack_reads(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """The block as Slack's SDK writes it, without the fields that it does not know.

    Raises:
        SlackObjectFormationError: a field is missing or too long.
    """
    read = Block.parse(dict(block))
    assert read is not None
    if isinstance(read, ActionsBlock):
        for element in read.elements:
            assert isinstance(element, ButtonElement)
            element.validate_json()
    found: Mapping[str, Any] = read.to_dict()
    return found


_TEXT: Final = {"type": "string", "minLength": 1}
_EVENT: Final = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["routing_key", "event_action", "dedup_key"],
    "additionalProperties": False,
    "properties": {
        "routing_key": {"type": "string", "minLength": 32, "maxLength": 32},
        "event_action": {"enum": ["trigger", "acknowledge", "resolve"]},
        "dedup_key": {**_TEXT, "maxLength": 255},
        "client": {"type": "string"},
        "client_url": {"type": "string", "format": "uri"},
        "links": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["href"],
                "additionalProperties": False,
                "properties": {"href": _TEXT, "text": {"type": "string"}},
            },
        },
        "payload": {
            "type": "object",
            "required": ["summary", "source", "severity"],
            "additionalProperties": False,
            "properties": {
                "summary": {**_TEXT, "maxLength": 1024},
                "source": _TEXT,
                "severity": {"enum": ["critical", "warning", "error", "info"]},
                "timestamp": {"type": "string", "format": "date-time"},
                "component": {"type": "string"},
                "group": {"type": "string"},
                "class": {"type": "string"},
                "custom_details": {"type": "object"},
            },
        },
    },
    "if": {"properties": {"event_action": {"const": "trigger"}}},
    "then": {"required": ["payload"]},
}
"""The fields of an event. Source: PagerDuty, "Send an event to PagerDuty" (Events API v2)."""


@pytest.mark.parametrize("situation", EVERY)
def test_pagerduty_accepts_the_events(situation: str) -> None:
    events = pagerduty.events(EVERY[situation])

    for event in events:
        whole = {"routing_key": "0" * 32, **event}
        assert _faults(_EVENT, whole) == []
        assert len(as_json(whole)) <= 512 * 1024


_LABELS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_ALERTS: Final = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "array",
    "items": {
        "type": "object",
        "required": ["labels"],
        "additionalProperties": False,
        "properties": {
            "labels": {
                **_LABELS,
                "required": ["alertname"],
                "propertyNames": {"pattern": "^[a-zA-Z_][a-zA-Z0-9_]*$"},
            },
            "annotations": {
                **_LABELS,
                "propertyNames": {"pattern": "^[a-zA-Z_][a-zA-Z0-9_]*$"},
            },
            "startsAt": {"type": "string", "format": "date-time"},
            "endsAt": {"type": "string", "format": "date-time"},
            "generatorURL": {"type": "string", "format": "uri"},
        },
    },
}
"""Alerts that may be posted. Source: Alertmanager, api/v2/openapi.yaml, postableAlerts."""
_MOST_OF_ALERTMANAGER: Final = 1_000_000
"""Alertmanager itself has no limit; a proxy before it usually has one of 1 MB."""


@pytest.mark.parametrize("situation", EVERY)
def test_alertmanager_accepts_the_alerts(situation: str) -> None:
    settings = AlertmanagerSettings(urls=["http://127.0.0.1:9093"])

    bodies = list(
        alertmanager.bodies(Alertmanager("am", settings, _CLOCK).alerts(EVERY[situation]))
    )

    assert bodies
    for body in bodies:
        assert _faults(_ALERTS, json.loads(body)) == []
        assert len(body) <= _MOST_OF_ALERTMANAGER
    posted = sum(len(json.loads(body)) for body in bodies)
    assert posted >= len(EVERY[situation].notices)


@pytest.mark.parametrize(
    ("situation", "fires", "ends"),
    [
        ("stopped", "error", []),
        ("escalated", "error", ["warning"]),
        ("a_worse_kind", "error", []),
        ("healed_with_messages_left", None, ["error"]),
    ],
)
def test_alertmanager_hears_the_end_of_what_it_heard_of_only(situation, fires, ends) -> None:
    settings = AlertmanagerSettings.model_validate({"urls": ["http://127.0.0.1:9093"]})
    (notice,) = EVERY[situation].notices
    ended = datetime.fromtimestamp(notice.at_ms / 1000, UTC).isoformat(timespec="milliseconds")

    alerts = Alertmanager("am", settings, _CLOCK).alerts(EVERY[situation])

    found = {alert["labels"]["severity"]: alert["endsAt"] != ended for alert in alerts}
    assert found == ({fires: True} if fires else {}) | dict.fromkeys(ends, False)


@pytest.mark.parametrize("situation", EVERY)
def test_mail_servers_and_programs_accept_the_mail(situation: str) -> None:
    """Source: RFC 5322, 2.1.1: lines of 998 characters."""
    settings = EmailSettings(host="localhost", sender="lagwatch@example.com", to=["o@example.com"])
    mail = Email("ops", settings, _CLOCK).compose(EVERY[situation])

    raw = bytes(mail)
    assert raw.isascii()
    assert max(map(len, raw.splitlines())) <= 998
    read = message_from_bytes(raw, policy=policy.default)
    assert [part.defects for part in read.walk() if part.defects] == []
    assert read["Subject"].strip() == mail["Subject"]
    assert 0 < len(mail["Subject"]) <= 250
    plain, html = (_decoded(read.get_body((kind,))) for kind in ("plain", "html"))
    assert "\N{REPLACEMENT CHARACTER}" not in plain + html


def _decoded(part: Any) -> str:  # noqa: ANN401 what the standard library calls a message
    assert part is not None
    return str(part.get_content())


def _links(payloads: Iterable[Mapping[str, Any]]) -> list[str]:
    return [str(event["client_url"]) for event in payloads if "client_url" in event]


@pytest.mark.parametrize("situation", [name for name in EVERY if name.endswith("alone")])
def test_a_group_with_an_endless_name_is_linked_to_the_page(situation: str) -> None:
    message = EVERY[situation]

    assert overview(message) == "https://lagwatch.example.com/"
    assert _links(pagerduty.events(message)) == ["https://lagwatch.example.com/"]
    assert plain_text(message, 4000).endswith("https://lagwatch.example.com/")
    assert len(plain_text(message, 4000)) <= 4000

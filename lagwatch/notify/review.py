"""What is allowed in `[alerts]`, but cannot be meant: for `lagwatch config check` and the log."""

import json
import re
from collections.abc import Iterator, Mapping
from email.utils import parseaddr
from typing import Final

from lagwatch.config.alerts import AlertsSettings, MuteSettings, PolicySettings
from lagwatch.config.alerts_channels import EmailSettings, PagerDutySettings, WebhookSettings
from lagwatch.config.settings import Settings
from lagwatch.errors import Fault
from lagwatch.notify.render import TemplateError, Templates
from lagwatch.notify.sample import sample_messages

_PAGERDUTY: Final = "https://events.pagerduty.com/"
_KEY_LENGTH: Final = 32
_SMTPS: Final = 465
_ALL: Final = frozenset({"", ".*", ".+", "^.*$", "^.+$"})
"""Patterns that match every name."""
_HTTP: Final = ("http://", "https://")


def review(settings: Settings) -> list[Fault]:
    """Every doubt, with what to do about it."""
    alerts = settings.alerts
    return [
        *_policies(alerts),
        *_patterns(alerts.policies, "policies", settings.clusters),
        *_patterns(alerts.mutes, "mutes", settings.clusters),
        *_page(alerts),
        *(fault for name, one in alerts.webhook.items() for fault in _webhook(name, one)),
        *(fault for name, one in alerts.email.items() for fault in _email(name, one)),
        *(fault for name, one in alerts.pagerduty.items() for fault in _pagerduty(name, one)),
    ]


def _policies(alerts: AlertsSettings) -> Iterator[Fault]:
    channels = [name for name, _ in alerts.channels()]
    catch_all = ""
    for name, policy in alerts.policies.items():
        key = f"alerts.policies.{name}"
        if catch_all:
            problem = f"is never reached: {catch_all} before it matches every group"
            yield _fault(key, "", problem, f"Put it before alerts.policies.{catch_all}.")
        elif {policy.cluster, policy.group, policy.topic} <= _ALL:
            catch_all = name
        if policy.threshold != "never" and not channels:
            remedy = "Add one, for example [alerts.webhook.NAME]."
            yield _fault(key, "", "sends to no channel: there is none", remedy)
    named = {name for one in alerts.policies.values() for name in one.channels}
    everyone = not alerts.policies or any(not one.channels for one in alerts.policies.values())
    for name in channels:
        if not everyone and name not in named and name not in alerts.fallback:
            yield _fault(
                f"channel {name}",
                "",
                "no policy sends to it",
                "Name it in the channels of a policy, or in alerts.fallback.",
            )


def _patterns(
    tables: Mapping[str, PolicySettings] | Mapping[str, MuteSettings],
    kind: str,
    clusters: Mapping[str, object],
) -> Iterator[Fault]:
    for name, one in tables.items():
        if not any(re.search(one.cluster, cluster) for cluster in clusters):
            yield _fault(
                f"alerts.{kind}.{name}.cluster",
                f'"{one.cluster}"',
                "matches no cluster of this configuration",
                f"There are: {', '.join(sorted(clusters))}.",
            )


def _page(alerts: AlertsSettings) -> Iterator[Fault]:
    url = alerts.page_url.get_secret_value()
    if url and not url.startswith(_HTTP):
        problem, remedy = "is no http(s) URL, so links would not work", "Write https://host."
        yield _fault("alerts.page_url", "", problem, remedy)


def _webhook(name: str, settings: WebhookSettings) -> Iterator[Fault]:
    prefix = f"alerts.webhook.{name}"
    for option in ("url", "close_url"):
        url = getattr(settings, option).get_secret_value()
        if url and not url.startswith((*_HTTP, "{{", "{%")):
            yield _fault(f"{prefix}.{option}", "", "is no http(s) URL", "Write https://host/path.")
    if "json" not in settings.content_type.lower():
        return
    templates = Templates()
    opening, closing = sample_messages()
    close_body = settings.close_body or settings.body
    for option, template, message in (
        ("body", settings.body, opening),
        ("close_body", close_body, closing),
    ):
        source = template.get_secret_value()
        if not source:
            continue
        try:
            json.loads(templates.compile(source).render(message))
        except (ValueError, TemplateError) as error:
            problem = f"makes no JSON of the sample: {error}"
            yield _fault(
                f"{prefix}.{option}",
                "",
                problem,
                "See `lagwatch alert render`, or set content_type; `| json` quotes a text.",
            )


def _email(name: str, settings: EmailSettings) -> Iterator[Fault]:
    prefix = f"alerts.email.{name}"
    for option, addresses in (("sender", (settings.sender,)), ("to", settings.to)):
        for address in addresses:
            bare = parseaddr(address)[1]
            if not re.fullmatch(r"[^@\s]+@[^@\s]+", bare):
                yield _fault(
                    f"{prefix}.{option}",
                    f'"{address}"',
                    "is no mail address",
                    "Write ops@example.com, or Ops <ops@example.com>.",
                )
    if settings.port == _SMTPS and settings.security == "starttls":
        problem = "is the port of SMTP over TLS, where STARTTLS does not work"
        yield _fault(f"{prefix}.port", "465", problem, 'Set security = "tls", or port = 587.')


def _pagerduty(name: str, settings: PagerDutySettings) -> Iterator[Fault]:
    key = settings.routing_key.get_secret_value() if settings.routing_key else ""
    if settings.url.get_secret_value().startswith(_PAGERDUTY) and len(key) != _KEY_LENGTH:
        yield _fault(
            f"alerts.pagerduty.{name}.routing_key",
            "***",
            f"has {len(key)} characters, an integration key has {_KEY_LENGTH}",
            "Copy it from the service's integration of type Events API v2.",
        )


def _fault(key: str, value: str, problem: str, remedy: str) -> Fault:
    return Fault(key=key, value=value, problem=problem, remedy=remedy)

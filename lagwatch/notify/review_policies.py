"""Finds policies and mutes whose options cannot have the effect that they name."""

import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, starmap
from math import ceil
from pathlib import Path
from typing import Final
from urllib.parse import quote

from lagwatch.clock import SystemClock
from lagwatch.config.alerts import DAYS, AlertsSettings, MuteSettings, PolicySettings
from lagwatch.config.alerts_channels import HTTP
from lagwatch.config.secret import without_user
from lagwatch.config.settings import Settings
from lagwatch.core.words import duration
from lagwatch.errors import Fault
from lagwatch.notify.channels.registry import kind_of
from lagwatch.notify.objectives import LEAST_SHARES
from lagwatch.notify.words import NOT_IN_A_URL

_ALL: Final = re.compile(r"\^?(\(?\.[*+]?\)?)?\$?")
"""Patterns that match every name: these, unless they ask for a name of a single letter."""
_LEAST_REMINDED_S: Final = 60.0
_LONGEST_MUTE_S: Final = 31 * 86_400
"""For a pattern of all groups: no maintenance of everything lasts longer than a month."""
_LIMITS: Final = ("max_time_lag_s", "max_lag", "catch_up_within_s", "lost_records")
_NOT_BURROWS: Final = frozenset(
    {
        *(*_LIMITS, "objective_share", "objective_severity"),
        *("for_s", "close_for_s", "reopen_s", "escalate_after_s", "escalate_to"),
        *("minimum_complete", "minimum_lag", "minimum_time_lag_s"),
    }
)
"""Options of a policy without effect where it decides as Burrow does."""
_BEGINNING: Final = re.compile(r"\^[A-Za-z0-9_-]+")
_BRANCHES: Final = re.compile(r"\|(?![^()]*\))|[\[\\].*\||\|.*[\[\\]")
"""Of a pattern that may match what does not begin as it does: also what is hard to judge."""
_LITERAL: Final = re.compile(r"[A-Za-z0-9_-]+")
_WHOLE: Final = re.compile(rf"\^({_LITERAL.pattern})\$")
"""The pattern of a single name."""
_EMPTY_CHOICE: Final = re.compile(r"^\||(?<!\\)\|$")
_NOT_IN_A_URL: Final = re.compile(NOT_IN_A_URL)
_SPACE: Final = re.compile(r"^\^?\s|(?<!\\)\s\$?$")
_GLOB: Final = re.compile(r"(?<=[A-Za-z0-9_-])\*")
"""As shells and Kafka's ACLs write any characters."""
_ANCHORS: Final = re.compile(r"\\[AZ]|[\^$()]|\?:")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:(?!\s)", re.IGNORECASE)
_HOST: Final = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+|\S*/\S*", re.IGNORECASE)


def is_all(*patterns: str) -> bool:
    """True if each of these patterns matches every name."""
    return all(_ALL.fullmatch(each) and re.search(each, "ab") for each in patterns)


def covers(patterns: Sequence[str], others: Sequence[str]) -> bool:
    """True if it is certain that each of the first matches whatever its counterpart matches."""
    return all(starmap(_covers, zip(patterns, others, strict=True)))


def _covers(pattern: str, other: str) -> bool:
    if pattern == other or is_all(pattern):
        return True
    begins = _BEGINNING.match(other)
    if begins is None or not _BEGINNING.fullmatch(pattern) or _BRANCHES.search(other):
        return False
    optional = other[begins.end() :].startswith(("*", "?", "{"))
    return begins.group()[: -1 if optional else None].startswith(pattern)


def _denies(deny: str, pattern: str) -> bool:
    """True if it is certain that `deny` matches every name that the pattern matches."""
    if name := _WHOLE.fullmatch(pattern):
        return re.search(deny, name[1]) is not None
    both_plain = _LITERAL.fullmatch(deny) and _LITERAL.fullmatch(pattern)
    return _covers(deny, pattern) or (both_plain is not None and deny in pattern)


def denied_policies(settings: Settings) -> Iterator[Fault]:
    """Policies for groups or topics that no cluster watches."""
    for name, policy in settings.alerts.policies.items():
        clusters = {
            cluster: filters
            for cluster, filters in settings.clusters.items()
            if re.search(policy.cluster, cluster)
        }
        for option, pattern in (("group", policy.group), ("topic", policy.topic)):
            denied = [getattr(filters, f"{option}_deny") for filters in clusters.values()]
            if denied and all(deny and _denies(deny, pattern) for deny in denied):
                problem = (
                    f"is never used: {option}_deny of every cluster it is for "
                    f"({', '.join(clusters)}) leaves out these {option}s"
                )
                remedy = f"Remove the policy, or narrow {option}_deny."
                yield _fault(f"alerts.policies.{name}.{option}", pattern, problem, remedy)


def policy_doubts(alerts: AlertsSettings) -> Iterator[Fault]:
    """Options of policies that contradict each other or have no effect."""
    for name, policy in alerts.policies.items():
        key = f"alerts.policies.{name}"
        yield from _never_sent(key, policy)
        yield from _never_received(key, policy, alerts)
        yield from _never_burnt(key, policy)
        yield from _timing(key, policy)
        yield from _floors(key, policy)
        yield from _names(key, policy)
        yield from _runbook(key, policy)
        yield from _escalation(key, policy, alerts)
        yield from _as_burrow(key, policy)
        yield from _twice(f"{key}.channels", policy.channels)
        yield from _twice(f"{key}.escalate_to", policy.escalate_to)
        yield from _never_resolved(name, policy, alerts)


def mute_doubts(alerts: AlertsSettings) -> Iterator[Fault]:
    """Mutes that match nothing, or are over."""
    now_ms = SystemClock().now_ms()
    for name, mute in alerts.mutes.items():
        key = f"alerts.mutes.{name}"
        yield from _names(key, mute)
        if mute.ends and mute.ends_at.timestamp() * 1000 <= now_ms:
            yield _fault(f"{key}.ends", mute.ends, "is past: it mutes nothing", "Remove the mute.")
        if is_all(mute.cluster, mute.group) and (for_long := _for_long(mute)):
            problem = f"mutes all groups {for_long}, so that no group is ever reported"
            yield _fault(key, "", problem, "Name clusters or groups, or a shorter window.")


def file_doubts(alerts: AlertsSettings) -> Iterator[Fault]:
    """A file that cannot be made: its missing folders are, where that is possible."""
    if alerts.file.is_dir():
        problem, remedy = "is a folder", "Name a file in it."
        yield _fault("alerts.file", str(alerts.file), problem, remedy)
        return
    folder = alerts.file.absolute().parent
    found = next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
    if not found.is_dir() or not os.access(found, os.W_OK | os.X_OK):
        problem = "cannot be written here" if found.is_dir() else "is no folder"
        remedy = "Name a file in a folder that lagwatch may write to."
        yield _fault("alerts.file", str(alerts.file), f"{found} {problem}", remedy)


def _limits(policy: PolicySettings) -> list[str]:
    """The options of its limits that are set."""
    return [option for option in _LIMITS if getattr(policy, option)]


def _errors_only(alerts: AlertsSettings) -> set[str]:
    """Channels that get errors only."""
    return {name for name, channel in alerts.channels() if channel.threshold == "error"}


def _receivers(policy: PolicySettings, alerts: AlertsSettings) -> set[str]:
    """Channels that get the notices of a policy from the first on."""
    others = {name for name, _ in alerts.channels()} - {*policy.escalate_to}
    return {*(policy.channels or others), *alerts.also_to}


def _never_sent(key: str, policy: PolicySettings) -> Iterator[Fault]:
    limits = _limits(policy)
    if not limits and "objective_severity" in policy.model_fields_set:
        problem, remedy = "has no limit to be missed", f"Set one of {', '.join(_LIMITS)}."
        yield _fault(f"{key}.objective_severity", policy.objective_severity, problem, remedy)
    if policy.objective_share and not limits:
        problem, remedy = "has no limit to keep to", f"Set one of {', '.join(_LIMITS)}."
        yield _fault(f"{key}.objective_share", policy.objective_share, problem, remedy)
    if not limits:
        return
    shown = ", ".join(limits)
    if policy.threshold == "never":
        problem = f"opens no incident, so {shown} has no effect"
        remedy = 'Set threshold = "error", or remove the limits.'
        yield _fault(f"{key}.threshold", "never", problem, remedy)
    if policy.threshold == "error" and policy.objective_severity == "warning":
        problem = f'is below threshold = "error", so a missed limit ({shown}) is never sent'
        remedy = 'Set objective_severity = "error", or threshold = "warning".'
        yield _fault(f"{key}.objective_severity", "warning", problem, remedy)


def _never_received(key: str, policy: PolicySettings, alerts: AlertsSettings) -> Iterator[Fault]:
    """Warnings, of which all channels get errors only; and incidents without any channel."""
    limits, receivers = _limits(policy), _receivers(policy, alerts)
    if policy.threshold == "never" or not any(True for _ in alerts.channels()):
        return
    if not receivers:
        problem = "leaves no other channel, so nothing is sent before escalate_after_s"
        remedy = "Name the channels of the policy, or add one."
        shown = ", ".join(policy.escalate_to)
        yield _fault(f"{key}.escalate_to", shown, problem, remedy)
    elif policy.threshold == "warning" and receivers <= _errors_only(alerts):
        every = ", ".join(sorted(receivers))
        remedy = 'Set threshold = "warning" for a channel'
        if limits and policy.objective_severity == "warning":
            problem = (
                f"is below the threshold of all its channels ({every}), so a missed limit "
                f"({', '.join(limits)}) is never sent"
            )
            remedy = f'{remedy}, or objective_severity = "error".'
            yield _fault(f"{key}.objective_severity", "warning", problem, remedy)
        else:
            problem = f"is below the threshold of all its channels ({every}), so no warning is sent"
            remedy = f'{remedy}, or threshold = "error" here.'
            yield _fault(f"{key}.threshold", "warning", problem, remedy)


def _never_burnt(key: str, policy: PolicySettings) -> Iterator[Fault]:
    """A share that is so low that a limit missed all the time does not spend its budget."""
    share = policy.objective_share
    if not share:
        return
    slow, fast = (ceil(least * 1000) / 1000 for least in (LEAST_SHARES.slow, LEAST_SHARES.fast))
    if share < LEAST_SHARES.slow:
        problem = "leaves so much that no incident ever opens"
        yield _fault(f"{key}.objective_share", share, problem, f"Set {slow:g} or more.")
    elif share < LEAST_SHARES.fast and policy.threshold == "error":
        problem = (
            "leaves so much that only its slow burn is ever found, which is a warning: "
            'with threshold = "error" no incident opens'
        )
        remedy = f'Set {fast:g} or more, or threshold = "warning".'
        yield _fault(f"{key}.objective_share", share, problem, remedy)


def _timing(key: str, policy: PolicySettings) -> Iterator[Fault]:
    """Times that do not fit together."""
    if 0 < policy.escalate_after_s < policy.for_s:
        problem = (
            f"is less than for_s ({policy.for_s:g}); it counts from the opening, when the trouble "
            "has lasted for_s"
        )
        remedy = f"Set it to {policy.for_s:g} or more."
        yield _fault(f"{key}.escalate_after_s", f"{policy.escalate_after_s:g}", problem, remedy)
    if 0 < policy.remind_s < _LEAST_REMINDED_S:
        yield _fault(
            f"{key}.remind_s",
            f"{policy.remind_s:g}",
            "repeats every open incident more often than once a minute",
            f"Set it to {_LEAST_REMINDED_S:g} or more; 0 sends no reminders.",
        )
    elif 0 < policy.remind_s < policy.for_s and "remind_s" in policy.model_fields_set:
        problem = (
            f"is less than for_s ({policy.for_s:g}): it repeats sooner what is first reported "
            "after that time"
        )
        remedy = f"Set it to {policy.for_s:g} or more; 0 sends no reminders."
        yield _fault(f"{key}.remind_s", f"{policy.remind_s:g}", problem, remedy)
    if policy.send_once and policy.remind_s and "remind_s" in policy.model_fields_set:
        problem = "has no effect with send_once = true, which sends no reminders"
        yield _fault(f"{key}.remind_s", f"{policy.remind_s:g}", problem, "Remove one of the two.")


def _escalation(key: str, policy: PolicySettings, alerts: AlertsSettings) -> Iterator[Fault]:
    """Channels to which nothing escalates."""
    errors_only = _errors_only(alerts)
    known = {*policy.channels, *alerts.also_to}
    for channel in policy.escalate_to:
        if channel in known:
            problem = "gets the notices of the policy already, so nothing escalates"
            remedy = "Name another channel, or remove it from channels and alerts.also_to."
            yield _fault(f"{key}.escalate_to", channel, problem, remedy)
        elif channel in errors_only and policy.threshold == "warning":
            problem = "gets errors only, so an incident that is a warning never escalates to it"
            remedy = f'Set threshold = "warning" for {channel}, or name another channel.'
            yield _fault(f"{key}.escalate_to", channel, problem, remedy)


def _twice(key: str, channels: Sequence[str]) -> Iterator[Fault]:
    for channel in dict.fromkeys(channels):
        if channels.count(channel) > 1:
            yield _fault(key, channel, "is listed twice", "Name it once.")


def _never_resolved(name: str, policy: PolicySettings, alerts: AlertsSettings) -> Iterator[Fault]:
    """Channels whose receivers keep an incident open until they receive its end."""
    notified = {*_receivers(policy, alerts), *policy.escalate_to}
    keep = [
        channel
        for channel, settings in alerts.channels()
        if channel in notified and kind_of(settings).needs_ends
    ]
    if keep and not policy.send_close:
        yield Fault(
            key=f"alerts.policies.{name}.send_close",
            value="false",
            problem=f"never resolves what {', '.join(keep)} opens",
            remedy="Set it to true, or name other channels.",
        )


def _as_burrow(key: str, policy: PolicySettings) -> Iterator[Fault]:
    """Burrow's notifier knows few of the options."""
    if not policy.burrow_compatible:
        return
    for option in sorted(policy.model_fields_set & _NOT_BURROWS):
        value = getattr(policy, option)
        if value != type(policy).model_fields[option].default:
            problem = "has no effect with burrow_compatible = true, as Burrow has no such option"
            shown = ", ".join(value) if isinstance(value, tuple) else value
            yield _fault(f"{key}.{option}", shown, problem, "Remove one of the two.")


def _for_long(mute: MuteSettings) -> str:
    """For how long a mute goes on without a break, in words; "" if that is not too long."""
    if mute.starts:
        length_s = (mute.ends_at - mute.starts_at).total_seconds()
        return f"for {duration(length_s)}" if length_s > _LONGEST_MUTE_S else ""
    days = sorted(DAYS.index(day) for day in mute.days)
    breaks = [after - before for before, after in pairwise([*days, days[0] + len(DAYS)])]
    return "at all times" if mute.duration_s >= max(breaks) * 86_400 else ""


def _floors(key: str, policy: PolicySettings) -> Iterator[Fault]:
    """Below its floor a group counts as OK, also if it misses a limit."""
    for floor, limit in (("minimum_lag", "max_lag"), ("minimum_time_lag_s", "max_time_lag_s")):
        least, most = getattr(policy, floor), getattr(policy, limit)
        if 0 < most < least:
            problem = f"is above {limit} ({most:g}): between the two nothing is sent"
            yield _fault(f"{key}.{floor}", f"{least:g}", problem, f"Set it to {most:g} or less.")


def _names(key: str, entry: PolicySettings | MuteSettings) -> Iterator[Fault]:
    for option in ("cluster", "group", "topic"):
        pattern = getattr(entry, option, "")
        if pattern and not _ANCHORS.sub("", pattern) and not re.search(pattern, "a"):
            problem, remedy = "matches no name", 'Write "" for all names, or a part of a name.'
            yield _fault(f"{key}.{option}", pattern, problem, remedy)
        if _EMPTY_CHOICE.search(pattern):
            problem = "matches every name, because one of its alternatives is empty"
            yield _fault(f"{key}.{option}", pattern, problem, "Remove the | at its start or end.")
        if _GLOB.search(pattern):
            problem = "is a regular expression, in which * repeats the letter before it"
            remedy = f"For any characters write .*: {_GLOB.sub(r'.*', pattern)}"
            yield _fault(f"{key}.{option}", pattern, problem, remedy)
        if _SPACE.search(pattern):
            problem, remedy = "has a space at its start or end", "Remove it, or write it as [ ]."
            yield _fault(f"{key}.{option}", pattern, problem, remedy)


def _runbook(key: str, policy: PolicySettings) -> Iterator[Fault]:
    """A runbook may be a text; what looks like an address must be one that can be opened."""
    text = policy.runbook
    if without_user(text) != text:
        problem, remedy = "shows its user and password to all who read alerts", "Leave them out."
        yield _fault(f"{key}.runbook", without_user(text), problem, remedy)
        return
    if text.startswith(HTTP) and (odd := _NOT_IN_A_URL.search(text)):
        what = "a space" if odd.group().isspace() else odd.group()
        problem = f"has {what}, which no URL has, so it is no link"
        remedy = f"Write {_NOT_IN_A_URL.sub(lambda each: quote(each.group()), text)}"
        yield _fault(f"{key}.runbook", text, problem, f"{remedy} or begin it with a word.")
        return
    if text.startswith(HTTP) or not (_SCHEME.match(text) or _HOST.fullmatch(text)):
        return
    problem, remedy = "is no http(s) URL, so it is no link", "Write https://host/path, or a text."
    yield _fault(f"{key}.runbook", text, problem, remedy)


def _fault(key: str, value: object, problem: str, remedy: str) -> Fault:
    quoted = isinstance(value, str) and value and not value.isdigit()
    shown = f'"{value}"' if quoted else str(value)
    return Fault(key=key, value=shown, problem=problem, remedy=remedy)

"""Finds what is wrong with `[alerts]` beyond single options, for `config check` and the log."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Final

from lagwatch.clock import SystemClock
from lagwatch.config.alerts import AlertsSettings, MuteSettings, PolicySettings
from lagwatch.config.alerts_channels import HTTP, ChannelSettings
from lagwatch.config.section import OrFile
from lagwatch.config.settings import Settings
from lagwatch.config.walk import mark
from lagwatch.core.rates import FEWEST, SHORTEST_MS
from lagwatch.errors import ConfigError, Fault
from lagwatch.notify.channels.registry import kind_of, open_channel
from lagwatch.notify.render import Templates
from lagwatch.notify.review_addresses import address_doubts
from lagwatch.notify.review_policies import (
    covers,
    denied_policies,
    file_doubts,
    is_all,
    mute_doubts,
    policy_doubts,
)

_LEAST_KEPT_S: Final = 3600.0


def review(settings: Settings) -> list[Fault]:
    """Settings that are allowed and cannot be meant, with what to do about them."""
    alerts = settings.alerts
    return [
        *_policies(alerts),
        *_patterns(alerts.policies, "policies", settings.clusters),
        *_patterns(alerts.mutes, "mutes", settings.clusters),
        *_page(alerts),
        *_kept(alerts),
        *_unseen(settings),
        *_rates(settings),
        *_quick(settings),
        *_elsewhere(settings),
        *policy_doubts(alerts),
        *denied_policies(settings),
        *mute_doubts(alerts),
        *file_doubts(alerts),
        *address_doubts(alerts),
        *_doubts(alerts),
    ]


def template_faults(alerts: AlertsSettings) -> Iterator[Fault]:
    """What is wrong with the templates of all channels."""
    for name, settings in alerts.channels():
        yield from _of_templates(name, settings)


def _of_templates(name: str, settings: ChannelSettings) -> Iterator[Fault]:
    kind = kind_of(settings)
    for template in kind.templates(settings):
        if template.source:
            key = f"alerts.{kind.table}.{name}.{template.option}"
            templates = Templates(html=template.html, url=template.url, secret=template.secret)
            yield from templates.faults(key, template.source)


def opening_faults(alerts: AlertsSettings) -> Iterator[Fault]:
    """What is wrong with certificates, libraries and URLs: found only by opening the channels.

    A channel with a broken template cannot be opened: that is said by `template_faults`.
    """
    for name, settings in alerts.channels():
        if any(_of_templates(name, settings)):
            continue
        try:
            open_channel(name, settings, SystemClock())
        except ConfigError as error:
            yield from error.faults


def _doubts(alerts: AlertsSettings) -> Iterator[Fault]:
    for name, settings in alerts.channels():
        if any(_of_templates(name, settings)):
            continue  # it cannot be tried
        kind = kind_of(settings)
        for doubt in kind.doubts(settings):
            if _is_absent(settings, doubt.key):
                continue
            yield replace(doubt, key=f"alerts.{kind.table}.{name}.{doubt.key}")
        if settings.give_up_after_s < settings.timeout_s:
            yield _fault(
                f"alerts.{kind.table}.{name}.give_up_after_s",
                f"{settings.give_up_after_s:g}",
                f"is less than timeout_s ({settings.timeout_s:g}): a receiver that is away for a "
                "moment loses its notices",
                "Set it to some hours.",
            )


def _is_absent(settings: ChannelSettings, option: str) -> bool:
    """True of what is needed and missing, also because its file cannot be read: that is said."""
    field = type(settings).model_fields.get(option)
    or_file = mark(field, OrFile) if field is not None else None
    return or_file is not None and or_file.needed and not getattr(settings, option)


def _policies(alerts: AlertsSettings) -> Iterator[Fault]:
    channels = [name for name, _ in alerts.channels()]
    catch_all = ""
    seen: dict[str, tuple[str, ...]] = {}
    for name, policy in alerts.policies.items():
        key = f"alerts.policies.{name}"
        applies_to = policy.cluster, policy.group, policy.topic
        before = next((known for known, all_of in seen.items() if covers(all_of, applies_to)), "")
        same = seen.get(before) == applies_to
        seen[name] = applies_to
        if catch_all:
            problem = f"is never reached: {catch_all} before it matches every group"
            yield _fault(key, "", problem, f"Put it before alerts.policies.{catch_all}.")
        elif is_all(*applies_to):
            catch_all = name
        elif before and not same:
            problem = f"is never reached: {before} before it matches all of its groups"
            yield _fault(key, "", problem, f"Put it before alerts.policies.{before}.")
        elif before:
            problem = f"is never reached: {before} before it has the same patterns"
            yield _fault(key, "", problem, f"Join it with alerts.policies.{before}.")
        if policy.threshold != "never" and not channels:
            remedy = "Add one, for example [alerts.webhook.NAME]."
            yield _fault(key, "", "sends to no channel: there is none", remedy)
    named = {
        name
        for policy in alerts.policies.values()
        for name in (*policy.channels, *policy.escalate_to)
    }
    named |= {*alerts.also_to, *alerts.fallback}
    if len(channels) == 1 and channels == [*dict.fromkeys(alerts.fallback)]:
        yield _fault(
            "alerts.fallback",
            f'"{channels[0]}"',
            "is the only channel: when it does not deliver, no other says so",
            "Add another channel.",
        )
    everyone = not alerts.policies or any(
        not policy.channels for policy in alerts.policies.values()
    )
    for name in channels:
        if not everyone and name not in named:
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
    for name, entry in tables.items():
        if not any(re.search(entry.cluster, cluster) for cluster in clusters):
            yield _fault(
                f"alerts.{kind}.{name}.cluster",
                f'"{entry.cluster}"',
                "matches no cluster of this configuration",
                f"There are: {', '.join(sorted(clusters))}.",
            )


def _page(alerts: AlertsSettings) -> Iterator[Fault]:
    url = alerts.page_url.get_secret_value()
    if url and not url.startswith(HTTP):
        problem, remedy = "is no http(s) URL, so links would not work", "Write https://host."
        yield _fault("alerts.page_url", "", problem, remedy)
    if "?" in url or "#" in url:
        problem = "has a query or a fragment, so that no link reaches a group"
        yield _fault("alerts.page_url", "", problem, "Write https://host/path.")
    if "@" in url.partition("://")[2].partition("/")[0]:
        problem = "holds a user name or password, which every receiver of a notice would read"
        yield _fault("alerts.page_url", "", problem, "Write https://host/path.")


def _kept(alerts: AlertsSettings) -> Iterator[Fault]:
    if alerts.keep_s < _LEAST_KEPT_S:
        yield _fault(
            "alerts.keep_s",
            f"{alerts.keep_s:g}",
            "forgets incidents, and what was given up of them, soon after they end",
            "Set it to some days.",
        )
        return
    for name, settings in alerts.channels():
        if alerts.keep_s < settings.give_up_after_s:
            yield _fault(
                "alerts.keep_s",
                f"{alerts.keep_s:g}",
                f"is less than give_up_after_s of {name} ({settings.give_up_after_s:g}): what it "
                "gives up may be forgotten at once, before it can be sent again",
                f"Set it to {settings.give_up_after_s:g} or more.",
            )
            return


def _unseen(settings: Settings) -> Iterator[Fault]:
    """A cluster counts as unseen only once its data are stale."""
    unseen_s = settings.alerts.cluster_unseen_s
    for name, cluster in settings.clusters.items():
        polled = cluster.commits == "admin"
        stale_s = cluster.polled_stale_after_s if polled else cluster.stale_after_s
        if unseen_s < stale_s and "cluster_unseen_s" in settings.alerts.model_fields_set:
            yield _fault(
                "alerts.cluster_unseen_s",
                f"{unseen_s:g}",
                f"has no effect below the {stale_s:g} s after which data of {name} are stale, "
                "three times the interval at which they are read",
                f"Set it to {stale_s:g} or more.",
            )


def _quick(settings: Settings) -> Iterator[Fault]:
    """A time lag is known to about the interval at which log ends are read."""
    every_s = max((each.log_end_interval_s for each in settings.clusters.values()), default=0.0)
    for name, policy in settings.alerts.policies.items():
        if 0 < policy.max_time_lag_s <= every_s:
            yield _fault(
                f"alerts.policies.{name}.max_time_lag_s",
                f"{policy.max_time_lag_s:g}",
                f"is no more than log_end_interval_s ({every_s:g}): groups that keep up miss it",
                f"Set it to {3 * every_s:g} or more.",
            )


def report_channels(settings: Settings) -> Iterator[Fault]:
    """Channels of the report that there are not."""
    names = {name for name, _ in settings.alerts.channels()}
    for channel in settings.jobs.report.channels:
        if channel not in names:
            known = f"There are: {', '.join(sorted(names))}." if names else "Add it to [alerts]."
            problem = "is no channel of this configuration"
            yield _fault("jobs.report.channels", f'"{channel}"', problem, known)


def _elsewhere(settings: Settings) -> Iterator[Fault]:
    """Other parts that name channels, or the file of the alerts."""
    yield from report_channels(settings)
    file = settings.alerts.file
    if settings.checkpoint.path and Path(settings.checkpoint.path).absolute() == file.absolute():
        problem = "is also checkpoint.path, which is a folder"
        yield _fault("alerts.file", f'"{file}"', problem, "Give each a path of its own.")


def _rates(settings: Settings) -> Iterator[Fault]:
    """A forecast needs a rate, and a rate a window that is long enough."""
    windows, least_s = settings.windows, SHORTEST_MS / 1000
    apart_s = windows.min_distance_s
    if windows.intervals >= FEWEST and (windows.intervals - 1) * apart_s >= least_s:
        return
    remedy = "Set windows.min_distance_s to 1."
    if apart_s:
        remedy = f"Set it to {max(FEWEST, ceil(least_s / apart_s) + 1)} or more."
    for name, policy in settings.alerts.policies.items():
        if policy.catch_up_within_s:
            yield _fault(
                "windows.intervals",
                str(windows.intervals),
                f"gives groups that commit often no rate, so alerts.policies.{name}"
                f".catch_up_within_s is never missed by them: a rate needs {FEWEST} commits over "
                f"{least_s:g} s, and windows.min_distance_s is {apart_s:g}",
                remedy,
            )


def _fault(key: str, value: str, problem: str, remedy: str) -> Fault:
    return Fault(key=key, value=value, problem=problem, remedy=remedy)

"""Finds the policy of a group: the first match in the file, topic by topic."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from lagwatch.config.alerts import AlertsSettings, PolicySettings
from lagwatch.core.incident import NEVER, Policy
from lagwatch.core.model import GroupStatus
from lagwatch.notify.objectives import BEHIND_MS, least, objective

THRESHOLDS: Final[Mapping[str, GroupStatus]] = {
    "warning": GroupStatus.WARN,
    "error": GroupStatus.ERR,
    "never": NEVER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matcher:
    cluster: re.Pattern[str]
    group: re.Pattern[str]
    topic: re.Pattern[str]
    policy: Policy

    def matches_group(self, cluster: str, group: str) -> bool:
        return bool(self.cluster.search(cluster) and self.group.search(group))


class PolicyBook:
    """The policies in their order."""

    def __init__(self, settings: AlertsSettings) -> None:
        names = [name for name, _ in settings.channels()]
        self._matchers = tuple(
            _Matcher(
                cluster=re.compile(entry.cluster),
                group=re.compile(entry.group),
                topic=re.compile(entry.topic),
                policy=_policy(name, entry, names, settings.also_to),
            )
            for name, entry in settings.policies_in_effect().items()
        )
        self.objectives = {
            name: found
            for name, entry in settings.policies_in_effect().items()
            if (found := objective(entry)) is not None
        }
        limits = tuple(self.objectives.values())
        behind_ms = [BEHIND_MS if limit.catch_up_within_ms else 0 for limit in limits]
        self.least_time_lag_ms = least([*(limit.max_time_lag_ms for limit in limits), *behind_ms])
        """A group with less misses no objective; 0: no objective looks at it."""
        self.least_lag = least(limit.max_lag for limit in limits)
        self.counts_lost = any(limit.lost_records for limit in limits)
        self.by_name: Mapping[str, Policy] = {
            matcher.policy.name: matcher.policy for matcher in self._matchers
        }

    def of(self, cluster: str, group: str, topics: Iterable[str]) -> Mapping[str, Policy | None]:
        """The policy of each topic that the group reads; None: no policy applies."""
        candidates = [
            matcher for matcher in self._matchers if matcher.matches_group(cluster, group)
        ]
        return {
            topic: next(
                (matcher.policy for matcher in candidates if matcher.topic.search(topic)), None
            )
            for topic in topics
        }

    def of_incident(
        self, cluster: str, group: str, topics: Collection[str], before: str
    ) -> Policy | None:
        """The policy that an open incident belongs to now; None: none applies any more.

        `topics`: those that are bad, the worst first; none are known of some incidents. `before` is
        the name of its policy until now, which is kept if it still applies.
        """
        policies = [policy for policy in self.of(cluster, group, topics).values() if policy]
        if not policies:
            policies = [
                matcher.policy
                for matcher in ([] if topics else self._matchers)
                if matcher.matches_group(cluster, group)
            ]
        kept = next((policy for policy in policies if policy.name == before), None)
        return kept or (policies[0] if policies else None)

    def rank(self, policy: Policy) -> int:
        """Position in the file."""
        return next(at for at, matcher in enumerate(self._matchers) if matcher.policy is policy)


def _policy(
    name: str, settings: PolicySettings, every: Iterable[str], also_to: tuple[str, ...]
) -> Policy:
    others = tuple(channel for channel in every if channel not in settings.escalate_to)
    return Policy(
        name=name,
        channels=tuple(dict.fromkeys([*(settings.channels or others), *also_to])),
        escalate_to=settings.escalate_to,
        escalate_ms=_ms(settings.escalate_after_s),
        threshold=THRESHOLDS[settings.threshold],
        open_for_ms=_ms(settings.for_s),
        close_for_ms=_ms(settings.close_for_s),
        remind_ms=_ms(settings.remind_s),
        reopen_ms=_ms(settings.reopen_s),
        send_once=settings.send_once,
        send_close=settings.send_close,
        minimum_complete=settings.minimum_complete,
        minimum_lag=settings.minimum_lag,
        minimum_time_lag_ms=_ms(settings.minimum_time_lag_s),
        burrow=settings.burrow_compatible,
    )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)

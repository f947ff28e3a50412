"""Objectives of policies: limits that make a group bad whatever its verdict, and their budgets.

Without a share, a group is bad while it misses a limit. With one (`objective_share`), it is bad
while it spends the error budget of a month too fast: 2 % of it within an hour, or 5 % within six.
Both must hold for the last twelfth of that time, too, so that an incident ends soon after the
trouble. Time in which nothing was seen counts neither as missed nor as kept: windows are of time
that was seen.

Source: Google, "The Site Reliability Workbook", chapter 5, multiwindow, multi-burn-rate alerts.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from lagwatch.config.alerts import PolicySettings
from lagwatch.core.incident import Observation, Reason
from lagwatch.core.model import GroupStatus
from lagwatch.core.words import DELETED, counted, duration
from lagwatch.notify.budget import LONGEST_MS, LONGEST_ROUND_MS, Key, Spent

_JUDGED: Final = (GroupStatus.OK, GroupStatus.WARN)
"""Verdicts that an objective may make worse."""
_BUDGET_OF_MS: Final = 30 * 86_400_000
_SHORT: Final = 12
"""A window's last part, in which the budget must be spent as fast."""
_FAST_MS, _FAST_SHARE = 3_600_000, 0.02
_SLOW_MS, _SLOW_SHARE = LONGEST_MS, 0.05
_FORECAST_EVERY_MS: Final = 10_000
BEHIND_MS: Final = 60_000
"""Time lag from which a group must catch up, and for how long it must have had it."""

Forecast = Callable[[], float | None]
"""Seconds until the group has caught up (`core.forecast.remaining_s`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """Limits; 0 means no limit. An unknown value misses no limit."""

    max_time_lag_ms: int
    max_lag: int
    catch_up_within_ms: int
    lost_records: int
    share: float
    """Share of time in which the limits are to be kept; 0: always."""
    severity: GroupStatus

    @property
    def budget_ms(self) -> float:
        """Time in a month in which the limits may be missed."""
        return (1 - self.share) * _BUDGET_OF_MS

    @property
    def limits(self) -> str:
        """The limits alone: what was spent under others says nothing of these."""
        limits = (self.max_time_lag_ms, self.max_lag, self.catch_up_within_ms, self.lost_records)
        return " ".join(map(str, limits))

    def missed(self, seen: Observation, remaining_s: float | None) -> str:
        """Which limit is missed and by how much; "" when none is, or too little is known.

        A lag that is known needs no verdict. `remaining_s`: until it has caught up; infinite: it
        will not; None: not known.
        """
        judged = seen.status in (*_JUDGED, GroupStatus.ERR)
        if not judged and seen.status is not GroupStatus.UNKNOWN:
            return ""
        if judged and self.loses_too_many(seen):
            bound = "up to " if seen.lost_at_most else ""
            return f"{bound}{counted(seen.lost, 'message')} {DELETED}"
        if 0 < self.max_time_lag_ms < seen.time_lag_ms:
            behind, limit = (duration(ms / 1000) for ms in (seen.time_lag_ms, self.max_time_lag_ms))
            bound = "at least " if seen.time_lag_is_bound else ""
            return f"{bound}{behind} behind in time, more than the {limit} allowed"
        left = seen.total_lag - seen.deleted - seen.perhaps_deleted
        if 0 < self.max_lag < left:
            return f"{counted(left, 'message')} behind, more than {self.max_lag:,} allowed"
        return self._too_slow(seen, remaining_s) if judged else ""

    def loses_too_many(self, seen: Observation) -> bool:
        return 0 < self.lost_records <= seen.lost

    def since_ms(self, seen: Observation, now_ms: int) -> int:
        """By when a limit that is missed now was missed.

        The oldest unread message has waited for longer than the limit since it was that old.
        """
        if 0 < self.max_time_lag_ms < seen.time_lag_ms:
            return now_ms - (seen.time_lag_ms - self.max_time_lag_ms)
        return now_ms

    def _too_slow(self, seen: Observation, remaining_s: float | None) -> str:
        if not self.catch_up_within_ms or remaining_s is None:
            return ""
        left = seen.total_lag - seen.deleted - seen.perhaps_deleted
        behind = f"{counted(left, 'message')} behind"
        limit = duration(self.catch_up_within_ms / 1000)
        if remaining_s == inf:
            return f"{behind}, and does not catch up at its speed; allowed are {limit}"
        if remaining_s * 1000 <= self.catch_up_within_ms:
            return ""
        return f"{behind}, caught up in about {duration(remaining_s)}; allowed are {limit}"


def objective(settings: PolicySettings) -> Objective | None:
    """The objective of a policy; None if it sets no limit, or decides as Burrow does."""
    limits = (settings.max_time_lag_s, settings.max_lag, settings.catch_up_within_s)
    if settings.burrow_compatible or not any((*limits, settings.lost_records)):
        return None
    return Objective(
        max_time_lag_ms=round(settings.max_time_lag_s * 1000),
        max_lag=settings.max_lag,
        catch_up_within_ms=round(settings.catch_up_within_s * 1000),
        lost_records=settings.lost_records,
        share=settings.objective_share,
        severity=GroupStatus.ERR if settings.objective_severity == "error" else GroupStatus.WARN,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastShares:
    """Shares from which a limit that is missed all the time spends the budget too fast."""

    fast: float
    slow: float


LEAST_SHARES: Final = LeastShares(
    fast=1 - _FAST_MS / (_FAST_SHARE * _BUDGET_OF_MS),
    slow=1 - _SLOW_MS / (_SLOW_SHARE * _BUDGET_OF_MS),
)


@dataclass(slots=True, kw_only=True)
class _Behind:
    """A group that is a minute behind or more."""

    since_ms: int
    asked_ms: int | None = None
    """When its forecast was asked."""
    remaining_s: float | None = None


class Objectives:
    """Judges what is seen by the objectives; remembers who is behind and what was spent."""

    def __init__(
        self,
        by_policy: Mapping[str, Objective],
        spent: Mapping[Key, Spent] | None = None,
        *,
        round_ms: int = LONGEST_ROUND_MS,
    ) -> None:
        """`spent`: what is kept from before the start.

        `round_ms`: between two rounds there is less, unless nothing could be seen.
        """
        self.by_policy = by_policy
        self._round_ms = round_ms
        self._spent: dict[Key, Spent] = dict(spent or {})
        self._behind: dict[Key, _Behind] = {}
        self._missed_ms: dict[Key, int] = {}
        """Since when each limit is missed without a break."""
        self._unsure: set[Key] = set()
        """Limits of which it was not known in the last round whether they are missed."""
        self._found_missed: set[Key] = set()
        """Limits that were missed when the lag of their group was first known."""
        self._first_ms: int | None = None
        """The first round: what came before was not seen."""
        self._now_ms = self._before_ms = 0
        """This round and the one before."""

    def use(self, by_policy: Mapping[str, Objective]) -> None:
        """Judge by these from now on; budgets whose limits are others begin anew."""
        before, self.by_policy = self.by_policy, by_policy
        changed = {
            name
            for name, found in by_policy.items()
            if name in before and before[name].limits != found.limits
        }
        self._spent = {key: spent for key, spent in self._spent.items() if key[1] not in changed}
        for known in (self._behind, self._missed_ms):
            for key in [key for key in known if key[1] not in by_policy]:
                known.pop(key)

    def not_watched(
        self, missed: Objective | None, policy: str, seen: Observation, *, only_limits: bool
    ) -> Reason | None:
        """Why a group misses no limit any more, if the configuration is the reason.

        `missed`: the limits that it missed last; None: it missed none, or they are not known after
        a restart. `only_limits`: nothing else was wrong. Whether `catch_up_within_s` would still be
        missed is not known. A budget that was spent too fast would be so for a while yet.
        """
        found = self.by_policy.get(policy)
        if missed is not None and missed.share > 0 and found is None:
            return Reason.LIMIT_REMOVED
        if missed is not None and missed != found and missed.missed(seen, None):
            return Reason.LIMIT_REMOVED if found is None else Reason.LIMIT_CHANGED
        return Reason.LIMIT_REMOVED if found is None and only_limits else None

    def groups(self) -> Iterable[str]:
        """Groups of which something is remembered: they must be judged in every round."""
        return {group for group, _ in (*self._spent, *self._behind, *self._missed_ms)}

    def ask_anew(self, group: str) -> None:
        """What is forecast of a group next is as of then."""
        for (name, _), behind in self._behind.items():
            if name == group:
                behind.asked_ms = None

    def forget(self, group: str) -> None:
        """Forget a group that is gone, except for its budgets."""
        for known in (self._behind, self._missed_ms):
            for key in [key for key in known if key[0] == group]:
                known.pop(key)
        self._unsure = {key for key in self._unsure if key[0] != group}

    def spent_since(self, since_ms: int, now_ms: int) -> Mapping[Key, Spent]:
        """Budgets of which something was spent after an instant.

        Drops those that no window reaches any more: their groups or policies may be gone.
        """
        self._spent = {
            key: spent for key, spent in self._spent.items() if now_ms - spent.counts_ms < _SLOW_MS
        }
        return {key: spent for key, spent in self._spent.items() if spent.changed_ms > since_ms}

    def begin_round(self, now_ms: int) -> None:
        """A round begins, whether or not it judges any group."""
        if now_ms != self._now_ms:
            self._before_ms, self._now_ms = self._now_ms, now_ms
        if self._first_ms is None:
            self._first_ms = now_ms

    def judged(
        self,
        group: str,
        policy: str,
        seen: Observation,
        now_ms: int,
        forecast: Forecast,
        *,
        missed_before: bool = False,
        known_before: bool = True,
    ) -> tuple[Observation, str]:
        """What is seen, as bad as the objective makes it, and why ("" if it does not).

        `forecast` is asked where a limit depends on it, at most every ten seconds.
        `missed_before`: the group has an open incident because of a limit, as far as is known: if
        it is not known whether the limits are kept now, the status is unknown. `known_before`: its
        lag was known in the round before.
        """
        found = self.by_policy.get(policy)
        if found is None:
            return seen, ""
        self.begin_round(now_ms)
        key = group, policy
        severity = found.severity
        seen = replace(seen, too_many_lost=found.loses_too_many(seen))
        remaining_s = self._remaining_s(key, found, seen, now_ms, forecast, at_once=missed_before)
        missed = limit = found.missed(seen, remaining_s)
        is_open = _is_open(found, seen, remaining_s, missed_before=missed_before)
        if is_open and not (missed or found.share):
            # whether it is kept is not known: an incident stays as it is
            self._unsure.add(key)
            stays = seen.status < severity if missed_before else seen.status is GroupStatus.OK
            return (replace(seen, status=GroupStatus.UNKNOWN) if stays else seen), ""
        at_least = False
        if found.share:
            severity, missed, began_ms = self._burnt(key, found, missed, now_ms)
            at_least = bool(missed) and self._spent[key].is_after_gap(began_ms)
        else:
            began_ms = now_ms
            if missed:
                began_ms = self._began_ms(key, found, seen, now_ms, known_before=known_before)
            at_least = began_ms <= (self._first_ms or 0) or key in self._found_missed
        if not missed:
            self._missed_ms.pop(key, None)
            self._found_missed.discard(key)
        self._unsure.discard(key)
        if not missed or not self._worsens(seen, severity, limit, now_ms):
            return seen, missed
        if 0 <= seen.since_ms <= began_ms:
            began_ms, at_least = seen.since_ms, seen.since_at_least
        judged = replace(seen, status=severity, since_ms=began_ms, since_at_least=at_least)
        return judged, missed

    def _worsens(self, seen: Observation, severity: GroupStatus, limit: str, now_ms: int) -> bool:
        """Does an objective make worse what is seen? `limit`: which one is missed now.

        Without a verdict only a limit does that is missed now, and not at once after a start: the
        next commit of the group may be about to come then.
        """
        if seen.status is GroupStatus.UNKNOWN:
            return bool(limit) and now_ms - (self._first_ms or 0) >= self._round_ms
        return seen.status in _JUDGED and seen.status < severity

    def _began_ms(
        self, key: Key, found: Objective, seen: Observation, now_ms: int, *, known_before: bool
    ) -> int:
        """By when the limit that is missed now was missed, as far as any round could see."""
        # a lag that may be greater than its value may have been over the limit before
        bound = seen.time_lag_is_bound and 0 < found.max_time_lag_ms < seen.time_lag_ms
        if key not in self._missed_ms and (bound or not known_before):
            self._found_missed.add(key)
        since_ms = found.since_ms(seen, now_ms)
        if key not in self._missed_ms and known_before and not bound and key not in self._unsure:
            # offsets that were set back wait for messages that are older than the trouble
            since_ms = max(since_ms, self._before_ms)
        self._missed_ms[key] = min(self._missed_ms.get(key, now_ms), now_ms, since_ms)
        return self._missed_ms[key]

    def _remaining_s(
        self,
        key: Key,
        found: Objective,
        seen: Observation,
        now_ms: int,
        forecast: Forecast,
        *,
        at_once: bool,
    ) -> float | None:
        """When a group that has been behind for a while, or `at_once`, will have caught up."""
        if not found.catch_up_within_ms or seen.time_lag_ms < BEHIND_MS:
            self._behind.pop(key, None)
            return None
        behind = self._behind.setdefault(key, _Behind(since_ms=now_ms))
        if now_ms - behind.since_ms < BEHIND_MS and not at_once:
            return None
        if behind.asked_ms is None or now_ms - behind.asked_ms >= _FORECAST_EVERY_MS:
            behind.asked_ms, behind.remaining_s = now_ms, forecast()
        return behind.remaining_s

    def _burnt(
        self, key: Key, found: Objective, missed: str, now_ms: int
    ) -> tuple[GroupStatus, str, int]:
        """How bad it is that the budget is spent as fast as it is, why, and since when.

        Since a limit was first missed in the window, and after the burn before ended.
        """
        spent = self._spent.get(key)
        if spent is None:
            if not missed:
                return found.severity, "", now_ms
            spent = self._spent[key] = Spent(seen_ms=self._before_ms)
        spent.note(now_ms, missed=bool(missed), round_ms=self._round_ms)
        spent.forget(spent.from_ms(now_ms, _SLOW_MS))
        if not spent.within(now_ms, _SLOW_MS) and not missed:
            del self._spent[key]
        for severity, window_ms, share in (
            (found.severity, _FAST_MS, _FAST_SHARE),
            (GroupStatus.WARN, _SLOW_MS, _SLOW_SHARE),
        ):
            allowed_ms = share * found.budget_ms
            gone_ms = spent.within(now_ms, window_ms)
            recent_ms = spent.within(now_ms, window_ms // _SHORT)
            if gone_ms >= allowed_ms and recent_ms >= allowed_ms / _SHORT:
                spent.burns = True
                said = _burn_sentence(found, gone_ms, window_ms, missed)
                return severity, said, spent.began_ms(now_ms, window_ms)
        if spent.burns:
            spent.burns, spent.ended_ms = False, now_ms
        return found.severity, "", now_ms


def _is_open(
    found: Objective, seen: Observation, remaining_s: float | None, *, missed_before: bool
) -> bool:
    """True if a limit may be missed, as far as is known."""
    most_ms = found.max_time_lag_ms
    if most_ms and (seen.time_lag_open or most_ms < seen.time_lag_most_ms):
        return True
    if 0 < found.max_lag < seen.total_lag - seen.deleted:
        return True
    unsure = missed_before and found.catch_up_within_ms > 0 and remaining_s is None
    return unsure and not 0 <= seen.time_lag_ms < BEHIND_MS


def _burn_sentence(found: Objective, gone_ms: int, window_ms: int, missed: str) -> str:
    part = gone_ms / found.budget_ms if found.budget_ms else 1.0
    now = f"; now {missed}" if missed else ""
    return (
        f"objective missed for {duration(gone_ms / 1000)} of the last {duration(window_ms / 1000)}:"
        f" {part:.0%} of the error budget of 30 days ({found.share:.4g} of time within){now}"
    )


def least(limits: Iterable[int]) -> int:
    """The lowest limit above 0; 0 without one."""
    return min((limit for limit in limits if limit > 0), default=0)

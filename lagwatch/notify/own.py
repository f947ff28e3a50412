"""Incidents of lagwatch itself: a cluster not seen, a channel that does not deliver, history.

Such an incident opens once its condition has held for long enough, and closes ten seconds after
the condition has ended. It is stored and delivered like any other.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from lagwatch.clock import STANDSTILL_S
from lagwatch.core.incident import QUIET, Decision, Graded, Policy, Reason, State, step
from lagwatch.core.model import EpochMs, GroupStatus
from lagwatch.core.words import counted
from lagwatch.notify.dispatch import DeliveryCounts
from lagwatch.notify.notice import About, Notice, level
from lagwatch.notify.store import Change, Kept, Listener, new_id
from lagwatch.notify.verdict import nothing_known
from lagwatch.ports.queries import ClusterHealth
from lagwatch.ports.reports import SourceKind

POLICY: Final = "lagwatch"
_OWN_PARTS: Final = (
    "alerts:",
    "history:",
    "configuration:",
    "checkpoints:",
    "figures:",
    "service:",
)
"""Problems of parts that all clusters share: they explain no cluster."""
_SOURCES: Final = frozenset(SourceKind)
_CLOSE_FOR_MS: Final = 10_000
_REMIND_MS: Final = 14_400_000
_SET_S: Final = 5.0
"""A clock that went so much further than the monotonic one was set, and not only corrected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Something wrong with a part of lagwatch."""

    about: About
    cluster: str
    """"" for a part that all clusters share."""
    name: str
    """Of the channel; ""."""
    since_ms: int
    held_s: float
    """For how long this process has seen it hold."""
    open_for_s: float
    """How long it must hold before it is an incident."""
    problem: str
    listeners: tuple[Listener, ...]
    why: str = ""
    """The reason in a few words, for the headline; ""."""
    since_at_least: bool = False
    """It may have begun before `since_ms`: lagwatch never saw it otherwise."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.about.value, self.cluster, self.name


class SteadyClock:
    """Since when the clock has not been set and lagwatch has run, as seen from look to look."""

    def __init__(self) -> None:
        self._offset_s: float | None = None
        """The clock minus the monotonic one, at the last look."""
        self._set_s = -inf
        """When it was set, or lagwatch ran again, on the monotonic clock."""
        self._looked_s = inf

    def for_s(self, now_ms: int, monotonic_s: float) -> float:
        """How long ago that was; infinite if it never was."""
        offset_s = now_ms / 1000 - monotonic_s
        was_set = self._offset_s is not None and abs(offset_s - self._offset_s) > _SET_S
        if was_set or monotonic_s - self._looked_s > STANDSTILL_S:
            self._set_s = monotonic_s
        self._offset_s, self._looked_s = offset_s, monotonic_s
        return monotonic_s - self._set_s


@dataclass(slots=True)
class _Tracked:
    state: State
    incident: str
    listeners: tuple[Listener, ...] = ()
    problem: str = ""


class OwnIncidents:
    """Decides from round to round; `changes` then `apply`, as for groups."""

    def __init__(self, kept: Iterable[Kept]) -> None:
        self._tracked = {
            (known.about.value, known.cluster, known.group): _Tracked(
                state=known.state, incident=known.incident
            )
            for known in kept
            if known.incident
        }

    @property
    def open_incidents(self) -> Counter[str]:
        """By cluster; those of parts that all clusters share are not among them."""
        return Counter(
            cluster
            for (_, cluster, _), tracked in self._tracked.items()
            if cluster and tracked.state.incident is not None
        )

    def channels(self) -> dict[str, EpochMs]:
        """Since when each channel has not delivered that has an open incident."""
        return {
            name: tracked.state.incident.since_ms
            for (about, _, name), tracked in self._tracked.items()
            if about == About.CHANNEL.value and tracked.state.incident is not None
        }

    def changes(
        self,
        conditions: Sequence[Condition],
        every: tuple[Listener, ...],
        now_ms: EpochMs,
        *,
        configured: Collection[str],
    ) -> list[Change]:
        """What opens, is repeated and closes; `every` receives ends whose channels are unknown.

        `configured`: the channels and clusters there are. A condition of any other has not healed.
        """
        wrong = {condition.key: condition for condition in conditions}
        made = []
        for key in {**self._tracked, **wrong}:
            change = self._change(key, wrong.get(key), every, now_ms)
            if change is not None:
                part = change.group or change.cluster
                if key not in wrong and part and part not in configured:
                    change = _of_removed(change)
                made.append(change)
        return made

    def acknowledge(self, incident: str) -> None:
        """Send no more reminders of an incident, if it is one of these."""
        for tracked in self._tracked.values():
            if tracked.incident == incident and tracked.state.incident is not None:
                acknowledged = replace(tracked.state.incident, acknowledged=True)
                tracked.state = replace(tracked.state, incident=acknowledged)

    def apply(self, changes: Iterable[Change]) -> None:
        """Take over changes that have been stored."""
        for change in changes:
            key = (change.about.value, change.cluster, change.group)
            if change.after.incident is None:
                self._tracked.pop(key, None)
            else:
                tracked = self._tracked.setdefault(key, _Tracked(state=QUIET, incident=""))
                tracked.state, tracked.incident = change.after, change.incident
                tracked.listeners = change.listeners
                tracked.problem = str(change.notice.verdict.get("problem", ""))

    def _change(
        self,
        key: tuple[str, str, str],
        condition: Condition | None,
        every: tuple[Listener, ...],
        now_ms: EpochMs,
    ) -> Change | None:
        tracked = self._tracked.get(key)
        before = tracked.state if tracked is not None else QUIET
        waited = condition is not None and condition.held_s >= condition.open_for_s
        if before.incident is None and not waited:
            return None
        if condition is not None:
            graded = Graded(
                severity=GroupStatus.ERR,
                reason=Reason.FIRST,
                since_ms=EpochMs(condition.since_ms),
                since_at_least=condition.since_at_least,
            )
        else:
            graded = Graded(severity=GroupStatus.OK, reason=Reason.HEALTHY)
        policy = Policy(name=POLICY, close_for_ms=_CLOSE_FOR_MS, remind_ms=_REMIND_MS)
        after, decision = step(before, graded, policy, now_ms)
        if decision.silent:
            if tracked is not None:
                tracked.state = after
            return None
        incident = after.incident or before.incident
        if incident is None:
            return None
        listeners = (
            condition.listeners
            if condition is not None
            else (tracked.listeners if tracked is not None else ()) or every
        )
        problem = condition.problem if condition is not None else ""
        why = condition.why if condition is not None else ""
        about, cluster, name = key
        identity = (tracked.incident if tracked is not None else "") or new_id()
        notice = Notice(
            key="",
            incident=identity,
            event=decision.event,
            about=About(about),
            cluster=cluster,
            group=name,
            severity=level(incident.severity),
            reason=decision.reason.value,
            policy=POLICY,
            since_ms=incident.since_ms,
            since_at_least=incident.since_at_least,
            opened_ms=incident.opened_ms,
            at_ms=now_ms,
            url="",
            verdict=nothing_known(cluster, name, now_ms)
            | {"problem": problem, "why": why}
            | _ended(before, decision),
        )
        return Change(
            incident=identity,
            about=About(about),
            cluster=cluster,
            group=name,
            policy=POLICY,
            before=before,
            after=after,
            decision=decision,
            complete=1.0,
            notice=notice,
            listeners=listeners,
            as_burrow=False,
        )


def _ended(before: State, decision: Decision) -> dict[str, int]:
    """When it was well again: some time before the incident ends."""
    if decision.reason is not Reason.HEALED or before.good_since_ms is None:
        return {}
    return {"ended_ms": before.good_since_ms}


def _of_removed(change: Change) -> Change:
    """The end of an incident of a part that is not configured any more."""
    verdict = {**change.notice.verdict, "removed": True}
    return replace(change, notice=replace(change.notice, verdict=verdict))


def unseen(
    health: Iterable[ClusterHealth],
    unseen_s: float,
    listeners: tuple[Listener, ...],
    now_ms: int,
    *,
    steady_s: float,
    before_s: Callable[[str], float] = lambda _: 0.0,
) -> Iterator[Condition]:
    """Clusters of which no fresh data come, with the reason.

    A backlog that is being read is progress, however long it takes, as long as a broker answers.
    The clock was last set, or lagwatch itself stood still, `steady_s` ago: data that are older may
    only seem so, or lagwatch did not read newer ones. Time before the start of lagwatch does not
    count towards an incident, but belongs to it: the data are as old as they are. While no broker
    answers, what processes before saw of that counts as well: `before_s` of the cluster.
    """
    for state in health:
        reads_backlog = 0 < state.backlog_read < state.backlog_total and not state.unreachable
        if state.ready or reads_backlog:
            continue
        seen = [problem for problem in state.problems if not problem.startswith(_OWN_PARTS)]
        # what else fails while no broker answers, fails because of that
        reason = state.reason if state.unreachable else _said_once(state.reason, seen)
        held_s = min(state.data_age_s, steady_s)
        since_ms = state.since_ms
        if since_ms is None or held_s < state.data_age_s:
            since_ms = now_ms - round(held_s * 1000)
        yield Condition(
            about=About.CLUSTER,
            cluster=state.cluster,
            name="",
            since_ms=since_ms,
            held_s=held_s + (before_s(state.cluster) if state.unreachable else 0.0),
            open_for_s=unseen_s,
            problem=f"No fresh data of it: {reason or 'the reason is not known'}. "
            "Incidents of its groups neither open nor close meanwhile.",
            listeners=listeners,
            why=_without_source(state.reason),
            since_at_least=state.began_ms is not None and since_ms == state.began_ms,
        )


def _without_source(reason: str) -> str:
    """`connection: refused by …` without the part of lagwatch that it comes from."""
    source, _, message = reason.partition(": ")
    return message if source in _SOURCES else reason


def _said_once(reason: str, problems: Iterable[str]) -> str:
    """The reason, and problems it does not name yet: several parts may fail for the same cause."""
    said = reason
    for problem in problems:
        _, _, message = problem.partition(": ")
        if (message or problem) not in said:
            said = f"{said}; {problem}" if said else problem
    return said


def undelivered(
    channel: str, counts: DeliveryCounts, *, waiting: int, dead: int, why: str = ""
) -> str:
    """What a channel could not deliver, in words; "" if nothing.

    `why`: the newest that was given up, with the reason.
    """
    parts = []
    if waiting and counts.failing_since_ms is not None:
        parts.append(
            f"{counted(waiting, 'notice')} waiting, last answer: {counts.last_error}; they will be "
            f"sent again, and `lagwatch alert test {channel}` shows what it answers now"
        )
    if counts.partly:
        parts.append(f"{counted(counts.partly, 'notice')} not for all: {counts.partly_error}")
    if dead:
        remedy = f"`lagwatch alert retry --channel {channel}` sends them again"
        reason = f" ({why})" if why else ""
        parts.append(f"{counted(dead, 'notice')} given up{reason}; {remedy}")
    return "; ".join(parts)


def used_up(waiting: int) -> str:
    """What waits because a channel sends no more messages in a minute, in words."""
    return f"{counted(waiting, 'notice')} waiting, because its per_minute is used up"


def not_readable(notices: int) -> str:
    """What cannot be sent because it cannot be read, in words; ""."""
    if not notices:
        return ""
    shown = "`lagwatch alert notices --state unreadable` names them"
    return f"{counted(notices, 'notice')} not readable, and not sent; {shown}"


def not_configured(channel: str, waiting: int) -> str:
    """What waits for a channel that is not configured, in words."""
    return (
        f"{counted(waiting, 'notice')} waiting for a channel that is not configured; "
        f"`lagwatch alert retry --channel {channel} --to NAME` sends them to another"
    )


def at_zone(changes: Iterable[Change], zone: str, url: str) -> list[Change]:
    """With the time zone in which instants are written, and the address of the page."""
    return [
        replace(change, notice=replace(change.notice, zone=zone, url=url)) for change in changes
    ]

"""Decides what a verdict does to a group's incident: open, remind, escalate, de-escalate, close.

A pure state machine, one state per group and cluster. `step` takes the last state, what is seen
now, the policy and the instant, and returns the next state and a decision. The same function
serves the live monitor and the back-test.

The *incident* (it opens, changes severity and closes) is separate from the notices about it
(`NoticeEvent`, `notified`). An incident may be open without a notice (muted, or re-opened too
soon); if no notice of it was sent, none is sent of its end.
"""

from dataclasses import dataclass, replace
from enum import StrEnum, unique
from typing import Final

from lagwatch.core.model import EpochMs, GroupStatus, Rule
from lagwatch.core.trouble import Kinds, worse

_GROWN: Final = 2
"""A loss is news again when it is so many times what the last notice said."""
_GROWN_AFTER_MS: Final = 60_000
"""Not sooner than this after the last notice: a loss that begins doubles within seconds."""
NEVER: Final = GroupStatus.UNKNOWN
"""As a threshold: no verdict opens an incident."""


@unique
class Act(StrEnum):
    """Change of the incident."""

    NONE = "none"
    OPEN = "open"
    ESCALATE = "escalate"
    DE_ESCALATE = "de_escalate"
    CLOSE = "close"


@unique
class NoticeEvent(StrEnum):
    """Kind of notice that is sent to the channels."""

    NOTHING = "nothing"
    OPEN = "open"
    REMIND = "remind"
    ESCALATE = "escalate"
    DE_ESCALATE = "de_escalate"
    CLOSE = "close"


@unique
class Reason(StrEnum):
    """Why a decision was taken; a metric label and a log field."""

    HEALTHY = "healthy"
    NOT_JUDGED = "not_judged"
    """The verdict is unknown: it opens nothing and closes nothing."""
    INCOMPLETE = "incomplete"
    """Windows are filled less than the policy asks: treated as not judged."""
    BELOW_THRESHOLD = "below_threshold"
    BELOW_FLOOR = "below_floor"
    """Bad by its rule, but under the policy's floor of messages or seconds."""
    WAITING = "waiting"
    """Bad for less time than `open_after_ms`."""
    FIRST = "first"
    ESCALATED = "escalated"
    DE_ESCALATED = "de_escalated"
    WORSE_KIND = "worse_kind"
    """As severe as before, but a worse kind of trouble than the notices have named."""
    LOSS_GREW = "loss_grew"
    """At least twice as many messages were lost as the last notice said."""
    REMINDER_DUE = "reminder_due"
    HANDED_ON = "handed_on"
    """Open for so long that it is sent to further channels of the policy."""
    OTHER_POLICY = "other_policy"
    """The incident continues under another policy, whose channels got no notice of it."""
    NEW_CHANNEL = "new_channel"
    """Its policy has other channels than before, which got no notice of it."""
    ACKNOWLEDGED = "acknowledged"
    """No reminder: the incident is acknowledged."""
    ALREADY_SENT = "already_sent"
    SEND_ONCE = "send_once"
    """A notice was sent, and the policy sends no more."""
    MUTED = "muted"
    MUTE_ENDED = "mute_ended"
    REOPENED_TOO_SOON = "reopened_too_soon"
    STILL_OPEN = "still_open"
    """Sent late: the incident is still open after the pause that follows a close."""
    HEALING = "healing"
    """Good for less time than `close_after_ms`."""
    HEALED = "healed"
    ENDED_WHILE_MUTED = "ended_while_muted"
    """Healed while muted; sent when the mute has ended."""
    GROUP_GONE = "group_gone"
    LIMIT_REMOVED = "limit_removed"
    """A limit was missed, and the policy has none any more."""
    LIMIT_CHANGED = "limit_changed"
    """A limit was missed, and still would be, as the policy was before."""
    THRESHOLD_CHANGED = "threshold_changed"
    """As bad as when it opened, which is below the threshold that the policy has now."""
    NO_POLICY = "no_policy"
    """No policy applies to the group any more."""
    NOT_FOLLOWED = "not_followed"
    """The cluster's filters leave the group out."""
    HELD_BY_MUTE = "held_by_mute"
    """Healed while muted: the end is sent when the mute ends."""
    NEVER_SENT = "never_sent"
    """Closed without a notice, because no notice of its opening was sent."""
    SEND_CLOSE_OFF = "send_close_off"


UNWATCHED: Final = frozenset(
    {
        Reason.LIMIT_REMOVED,
        Reason.LIMIT_CHANGED,
        Reason.THRESHOLD_CHANGED,
        Reason.NO_POLICY,
        Reason.NOT_FOLLOWED,
    }
)
"""The configuration has changed: it is not said that the group is well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """When a verdict opens an incident, which channels get notices, and how often."""

    name: str
    channels: tuple[str, ...] = ()
    threshold: GroupStatus = GroupStatus.ERR
    """WARN or ERR; `NEVER`: groups of this policy have no incidents."""
    open_for_ms: int = 0
    """How long a verdict must hold before it opens or escalates."""
    close_for_ms: int = 0
    """How long a better verdict must hold before it closes or de-escalates."""
    remind_ms: int = 0
    """Between two notices of an open incident; 0 = no reminders."""
    reopen_ms: int = 0
    """The notice of an incident that opens sooner than this after the last close waits until then,
    unless the incident is worse than the last."""
    escalate_ms: int = 0
    """An incident open for so long is also sent to `escalate_to`; 0 = never."""
    escalate_to: tuple[str, ...] = ()
    send_once: bool = False
    """Send the opening, escalations and (with `send_close`) the end; nothing in between."""
    send_close: bool = True
    minimum_complete: float = 0.0
    minimum_lag: int = 0
    """Messages: a group whose known lag is less is not bad."""
    minimum_time_lag_ms: int = 0
    """A group whose time lag is known to be less is not bad."""
    burrow: bool = False
    """Decide as Burrow's notifier does, its defects included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The parts of a verdict that policies use."""

    status: GroupStatus
    complete: float = 1.0
    total_lag: int = 0
    deleted: int = 0
    """Messages of `total_lag` that are lost."""
    perhaps_deleted: int = 0
    """Further ones that were deleted: members may have fetched them before."""
    time_lag_ms: int = -1
    """-1 unknown."""
    time_lag_open: bool = False
    """True if `time_lag_ms` is only a lower bound."""
    time_lag_most_ms: int = -1
    """Upper bound of the time lag of a partition of which no more is known, and that may be further
    behind than `time_lag_ms`; -1: no such partition."""
    since_ms: int = -1
    """When the trouble began that makes it as bad as it is; -1 unknown."""
    since_at_least: bool = False
    """It may have begun before `since_ms`, when lagwatch did not look."""
    lost: int = 0
    """Messages deleted before they were read; 0 once the loss is acknowledged."""
    too_many_lost: bool = False
    """More messages were lost than a limit allows: floors of the lag do not matter."""
    lost_at_most: bool = False
    """True if `lost` is only an upper bound."""
    kinds: Kinds = frozenset()
    """The rules by which its partitions are bad."""

    @property
    def time_lag_is_bound(self) -> bool:
        """True if it may be further behind than `time_lag_ms`."""
        return self.time_lag_open or self.time_lag_most_ms > self.time_lag_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """Severity of an observation under a policy."""

    severity: GroupStatus | None
    """OK, WARN or ERR; None when it cannot be judged."""
    reason: Reason
    since_ms: EpochMs | None = None
    """When the trouble began, as far as the verdict says."""
    since_at_least: bool = False
    """Then or before."""
    kinds: Kinds = frozenset()
    """The kinds of trouble of an observation that is bad."""
    lost: int = 0
    """Messages lost and not acknowledged, of an observation that is bad."""
    unheard: bool = False
    """Its policy has channels that have not heard of the open incident."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """An open incident."""

    since_ms: EpochMs
    """When the trouble began; when the verdict does not say, when the group was seen bad first."""
    since_at_least: bool = False
    """Then or before: lagwatch found the trouble when it began to look."""
    opened_ms: EpochMs
    """When the incident was opened."""
    severity: GroupStatus
    error_ms: EpochMs | None = None
    """When the WARNING became an ERROR; None: it is no ERROR, or was one from the start."""
    worse_ms: EpochMs | None = None
    """When that began which its notices name, if the incident had begun before it: a worse kind of
    trouble, or one as severe as before a milder one."""
    again_ms: EpochMs | None = None
    """When its trouble began again after a while without; None if it never ended."""
    notified: GroupStatus | None = None
    """Severity of the last notice; None: no notice was sent."""
    notified_ms: EpochMs | None = None
    handed_on: bool = False
    """Also sent to the channels of `Policy.escalate_to`."""
    acknowledged: bool = False
    """Someone works on it: no reminders are sent."""
    named: Kinds | None = None
    """The kinds of trouble that its notices have named; None: not known, or no notice was sent."""
    lost: int | None = None
    """Messages that were lost when its last notice was sent, without those that were acknowledged
    since; None: not known."""
    clock_set_back: bool = False
    """The clock was set back since it was opened: its instants are shifted."""
    eased: bool = False
    """It was de-escalated before: the next time takes longer, so that nothing flaps."""

    @property
    def as_bad_ms(self) -> EpochMs:
        """Since when it is as severe as it is."""
        return self.since_ms if self.error_ms is None else self.error_ms

    @property
    def named_ms(self) -> EpochMs:
        """When the trouble began that its notices name."""
        first_ms = self.as_bad_ms if self.worse_ms is None else self.worse_ms
        return first_ms if self.again_ms is None else max(first_ms, self.again_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """State of a group between two verdicts; a new group has `QUIET`."""

    incident: Incident | None = None
    bad_since_ms: EpochMs | None = None
    """Without an incident: bad without a break since."""
    good_since_ms: EpochMs | None = None
    """With an open incident: good without a break since."""
    other_since_ms: EpochMs | None = None
    """With an open incident: of another severity without a break since."""
    other: GroupStatus | None = None
    worse_since_ms: EpochMs | None = None
    """Incident open, with a worse kind of trouble than it has named without a break since."""
    held_back: Reason | None = None
    """Why no notice was sent when the incident opened; or that a mute has begun since."""
    quiet_until_ms: EpochMs | None = None
    """After a close: the next notice waits until then, unless the incident is worse."""
    last_severity: GroupStatus | None = None
    """Severity of the previous incident."""

    @property
    def idle(self) -> bool:
        """True if it equals a new state."""
        return self == QUIET

    @property
    def held_ms(self) -> EpochMs | None:
        """Since when the group is good, if a mute holds the end of its incident back."""
        return self.good_since_ms if self.held_back is Reason.HELD_BY_MUTE else None


QUIET: Final = State()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What happens to the incident, which notice is sent, and why."""

    act: Act = Act.NONE
    event: NoticeEvent = NoticeEvent.NOTHING
    reason: Reason

    @property
    def silent(self) -> bool:
        """True if nothing changes and no notice is sent."""
        return self.act is Act.NONE and self.event is NoticeEvent.NOTHING


Step = tuple[State, Decision]


def grade(seen: Observation, policy: Policy) -> Graded:
    """Severity of an observation under a policy.

    An unknown time lag is under no floor: unknown is not 0. `total_lag` is the sum of the lags
    that are known; the partitions that made the group bad are always among them.
    """
    if seen.status in (GroupStatus.UNKNOWN, GroupStatus.NOTFOUND):
        return Graded(severity=None, reason=Reason.NOT_JUDGED)
    if policy.burrow or seen.status is GroupStatus.OK:
        return Graded(severity=seen.status, reason=Reason.HEALTHY)
    if seen.status < policy.threshold:
        return Graded(severity=GroupStatus.OK, reason=Reason.BELOW_THRESHOLD)
    if seen.complete < policy.minimum_complete:
        return Graded(severity=None, reason=Reason.INCOMPLETE)
    most_ms = max(seen.time_lag_ms, seen.time_lag_most_ms)
    little = not seen.time_lag_open and 0 <= most_ms < policy.minimum_time_lag_ms
    if not seen.too_many_lost and (seen.total_lag < policy.minimum_lag or little):
        return Graded(severity=GroupStatus.OK, reason=Reason.BELOW_FLOOR)
    since_ms = None if seen.since_ms < 0 else EpochMs(seen.since_ms)
    return Graded(
        severity=seen.status,
        reason=Reason.FIRST,
        since_ms=since_ms,
        since_at_least=seen.since_at_least,
        kinds=seen.kinds,
        lost=seen.lost,
    )


def gone() -> Graded:
    """The group does not exist any more."""
    return Graded(severity=GroupStatus.OK, reason=Reason.GROUP_GONE)


def step(
    state: State, graded: Graded, policy: Policy, now_ms: EpochMs, *, muted: bool = False
) -> Step:
    """The next state and what to do about it."""
    state = by_clock(state, policy, now_ms)
    if policy.burrow:
        return _as_burrow(state, graded, policy, now_ms, muted=muted)
    if graded.severity is None:
        return state, Decision(reason=graded.reason)
    if state.incident is None:
        return _without(state, graded, policy, now_ms, muted=muted)
    if graded.severity is GroupStatus.OK:
        return _better(state, state.incident, graded, policy, now_ms, muted=muted)
    return _still_bad(state, state.incident, graded, policy, now_ms, muted=muted)


def by_clock(state: State, policy: Policy, now_ms: EpochMs) -> State:
    """The state after a clock was set back; the same as it is if nothing is later than now.

    Waits begin anew that would be longer than the policy says. An incident that was opened in what
    is the future now was opened now: by as much, at least, its trouble began earlier.
    """
    sinces = state.bad_since_ms, state.good_since_ms, state.other_since_ms, state.worse_since_ms
    if max(at_ms or 0 for at_ms in sinces) > now_ms:
        bad_ms, good_ms, other_ms, worse_ms = (_at_most(at_ms, now_ms) for at_ms in sinces)
        state = replace(
            state,
            bad_since_ms=bad_ms,
            good_since_ms=good_ms,
            other_since_ms=other_ms,
            worse_since_ms=worse_ms,
        )
    quiet_ms = EpochMs(now_ms + policy.reopen_ms)
    if not policy.burrow and (state.quiet_until_ms or 0) > quiet_ms:
        state = replace(state, quiet_until_ms=quiet_ms)
    incident = state.incident
    if incident is None or max(incident.opened_ms, incident.notified_ms or 0) <= now_ms:
        return state
    incident = replace(incident, notified_ms=_at_most(incident.notified_ms, now_ms))
    back_ms = incident.opened_ms - now_ms
    if back_ms > 0:
        since_ms = EpochMs(incident.since_ms - back_ms)
        incident = replace(
            incident,
            since_ms=since_ms,
            error_ms=_earlier_by(incident.error_ms, back_ms),
            worse_ms=_earlier_by(incident.worse_ms, back_ms),
            again_ms=_earlier_by(incident.again_ms, back_ms),
            since_at_least=True,
            opened_ms=now_ms,
            clock_set_back=True,
        )
    return replace(state, incident=incident)


def _at_most(at_ms: EpochMs | None, now_ms: EpochMs) -> EpochMs | None:
    return None if at_ms is None else min(at_ms, now_ms)


def _earlier_by(at_ms: EpochMs | None, back_ms: int) -> EpochMs | None:
    return None if at_ms is None else EpochMs(at_ms - back_ms)


def _without(state: State, graded: Graded, policy: Policy, now_ms: EpochMs, *, muted: bool) -> Step:
    """No incident is open."""
    severity = graded.severity
    if severity is None or severity is GroupStatus.OK:
        return _rest(state, now_ms), Decision(reason=graded.reason)
    since_ms = now_ms if state.bad_since_ms is None else state.bad_since_ms
    if now_ms - since_ms < policy.open_for_ms:
        return replace(state, bad_since_ms=since_ms), Decision(reason=Reason.WAITING)
    # a warning while it waited was never sent: what opens the incident began when its verdict says
    incident = Incident(
        since_ms=since_ms if graded.since_ms is None else min(graded.since_ms, now_ms),
        since_at_least=graded.since_at_least,
        opened_ms=now_ms,
        severity=severity,
    )
    opened = replace(state, incident=incident, bad_since_ms=None)
    noted, decision = _notify(opened, incident, graded, policy, now_ms, muted=muted)
    return noted, replace(decision, act=Act.OPEN)


def _rest(state: State, now_ms: EpochMs) -> State:
    """State of a good group without an incident: keeps only the pause after a close."""
    if state.quiet_until_ms is None or now_ms >= state.quiet_until_ms:
        return QUIET
    return State(quiet_until_ms=state.quiet_until_ms, last_severity=state.last_severity)


def _better(
    state: State,
    incident: Incident,
    graded: Graded,
    policy: Policy,
    now_ms: EpochMs,
    *,
    muted: bool,
) -> Step:
    """The group of an open incident is good."""
    since_ms = now_ms if state.good_since_ms is None else state.good_since_ms
    held = state.held_ms is not None
    if state.held_back is Reason.HELD_BY_MUTE and not held:
        state = replace(state, held_back=None)  # it was bad again since then
    healing = replace(
        state, good_since_ms=since_ms, other=None, other_since_ms=None, worse_since_ms=None
    )
    if now_ms - since_ms < policy.close_for_ms:
        return healing, Decision(reason=Reason.HEALING)
    if incident.notified is None:
        return _rest(state, now_ms), Decision(act=Act.CLOSE, reason=Reason.NEVER_SENT)
    if muted and policy.send_close:
        held_back = replace(healing, held_back=Reason.HELD_BY_MUTE)
        return held_back, Decision(reason=Reason.HELD_BY_MUTE)
    closed = State(
        quiet_until_ms=EpochMs(now_ms + policy.reopen_ms) if policy.reopen_ms else None,
        last_severity=incident.notified if policy.reopen_ms else None,
    )
    if not policy.send_close:
        return closed, Decision(act=Act.CLOSE, reason=Reason.SEND_CLOSE_OFF)
    why = Reason.ENDED_WHILE_MUTED if held else Reason.HEALED
    if graded.reason in (Reason.GROUP_GONE, *UNWATCHED):
        why = graded.reason
    return closed, Decision(act=Act.CLOSE, event=NoticeEvent.CLOSE, reason=why)


def _still_bad(
    state: State,
    incident: Incident,
    graded: Graded,
    policy: Policy,
    now_ms: EpochMs,
    *,
    muted: bool,
) -> Step:
    """The group of an open incident is bad: as bad, worse or less so."""
    state, act = _severity_moved(state, incident, graded, policy, now_ms)
    state = _loss_seen(_kinds_seen(state, graded.kinds, now_ms), graded.lost)
    noted, decision = _notify(
        state, state.incident or incident, graded, policy, now_ms, muted=muted
    )
    if decision.event is not NoticeEvent.NOTHING:
        noted = _begun_with(noted, graded, decision.reason)
    return noted, decision if act is Act.NONE else replace(decision, act=act)


def _begun_with(state: State, graded: Graded, reason: Reason) -> State:
    """With when that began which is said of an incident now.

    That may be before what opened it: a loss is noticed late, and a limit may be missed before a
    silence is long enough for a stop. A worse kind of trouble usually began after it.
    """
    incident, since_ms = state.incident, graded.since_ms
    if incident is None or since_ms is None or graded.severity is not incident.severity:
        return state
    if incident.again_ms is not None and since_ms < incident.again_ms:  # part of it went on
        incident = replace(incident, again_ms=None)
        state = replace(state, incident=incident)
    if since_ms < incident.since_ms:
        begun = replace(incident, since_ms=since_ms, since_at_least=graded.since_at_least)
        return replace(state, incident=replace(begun, error_ms=None, worse_ms=None))
    if incident.error_ms is not None and since_ms < incident.error_ms:
        return replace(state, incident=replace(incident, error_ms=since_ms, worse_ms=None))
    if reason is Reason.WORSE_KIND or since_ms < incident.named_ms:
        worse_ms = since_ms if since_ms > incident.as_bad_ms else None
        return replace(state, incident=replace(incident, worse_ms=worse_ms))
    return state


def _severity_moved(
    state: State,
    incident: Incident,
    graded: Graded,
    policy: Policy,
    now_ms: EpochMs,
) -> tuple[State, Act]:
    """The incident follows a severity that has held for long enough."""
    severity = graded.severity
    if severity is None or severity == incident.severity:
        if state.good_since_ms is not None or state.other is not None:
            incident = _begun_again(state, incident, graded, now_ms)
            state = replace(
                state, incident=incident, good_since_ms=None, other=None, other_since_ms=None
            )
        return state, Act.NONE
    rising = severity > incident.severity
    since_ms = state.other_since_ms if state.other is severity else None
    since_ms = now_ms if since_ms is None else since_ms
    easing_ms = max(policy.close_for_ms, policy.reopen_ms if incident.eased else 0)
    if now_ms - since_ms < (policy.open_for_ms if rising else easing_ms):
        waiting = replace(state, good_since_ms=None, other=severity, other_since_ms=since_ms)
        return waiting, Act.NONE
    began_ms = min(since_ms if graded.since_ms is None else graded.since_ms, now_ms)
    moved = replace(
        incident,
        severity=severity,
        error_ms=began_ms if rising and began_ms > incident.since_ms else None,
        worse_ms=None,
        eased=incident.eased or not rising,
    )
    state = replace(state, incident=moved, good_since_ms=None, other=None, other_since_ms=None)
    return state, Act.ESCALATE if rising else Act.DE_ESCALATE


def _begun_again(state: State, incident: Incident, graded: Graded, now_ms: EpochMs) -> Incident:
    """An incident that is as severe again as it is, and was better for a while, or well."""
    since_ms = now_ms if graded.since_ms is None else min(graded.since_ms, now_ms)
    if since_ms <= incident.named_ms:
        return incident
    if state.good_since_ms is None:
        return replace(incident, worse_ms=since_ms)
    return replace(incident, again_ms=since_ms)


def _kinds_seen(state: State, kinds: Kinds, now_ms: EpochMs) -> State:
    """Since when there has been a worse kind of trouble than the notices of the incident name."""
    incident = state.incident
    if incident is None or incident.notified is None:
        return state
    if incident.named is None:  # kept by a version that did not note it
        return replace(state, incident=replace(incident, named=kinds))
    if not worse(kinds, incident.named):
        return state if state.worse_since_ms is None else replace(state, worse_since_ms=None)
    return state if state.worse_since_ms is not None else replace(state, worse_since_ms=now_ms)


def _loss_seen(state: State, lost: int) -> State:
    """A loss that was acknowledged is not compared with what is lost after it."""
    incident = state.incident
    if incident is None or incident.notified is None:
        return state
    if incident.lost is not None and incident.lost <= lost:
        return state
    return replace(state, incident=replace(incident, lost=lost))


def _has_grown(incident: Incident, graded: Graded, now_ms: EpochMs) -> bool:
    """Is so much more lost than the notices say that this is news, and not too soon after them?"""
    if incident.lost is None or incident.notified_ms is None:
        return False
    if Rule.RECORDS_LOST not in graded.kinds & (incident.named or frozenset()):
        return False
    grown = graded.lost >= max(_GROWN * incident.lost, 1)
    return grown and now_ms - incident.notified_ms >= _GROWN_AFTER_MS


def _notify(
    state: State,
    incident: Incident,
    graded: Graded,
    policy: Policy,
    now_ms: EpochMs,
    *,
    muted: bool,
) -> Step:
    """Which notice of an open incident is sent now, if any."""
    event, reason = _due(state, incident, graded, policy, now_ms)
    if (
        event is NoticeEvent.NOTHING
        and not muted
        and _may_remind_after_mute(state, incident, policy)
    ):
        event = NoticeEvent.REMIND
    if event is NoticeEvent.NOTHING:
        held_back: Reason | None = reason
        if incident.notified is not None:
            held_back = Reason.MUTED if muted else None
        if state.held_back is not held_back:
            state = replace(state, held_back=held_back)
        return state, Decision(reason=reason)
    if muted:
        return replace(state, held_back=Reason.MUTED), Decision(reason=Reason.MUTED)
    if state.held_back in _BY_MUTE and reason is not Reason.HANDED_ON:
        reason = Reason.MUTE_ENDED
    if reason is Reason.HANDED_ON:
        return replace(state, incident=replace(incident, handed_on=True)), Decision(
            event=event, reason=reason
        )
    reported = replace(
        incident,
        notified=incident.severity,
        notified_ms=now_ms,
        named=(incident.named or frozenset()) | graded.kinds,
        lost=graded.lost,
    )
    after = replace(state, incident=reported, held_back=None, worse_since_ms=None)
    return after, Decision(event=event, reason=reason)


_BY_MUTE: Final = (Reason.MUTED, Reason.HELD_BY_MUTE)


def _may_remind_after_mute(state: State, incident: Incident, policy: Policy) -> bool:
    """True if a mute has just ended: what is open still is said, also if it opened before it."""
    ended = incident.notified is not None and state.held_back in _BY_MUTE
    return ended and not (policy.send_once or incident.acknowledged)


def _due(
    state: State, incident: Incident, graded: Graded, policy: Policy, now_ms: EpochMs
) -> tuple[NoticeEvent, Reason]:
    if incident.notified is None:
        return _first(state, incident, policy, now_ms)
    if incident.severity > incident.notified:
        return NoticeEvent.ESCALATE, Reason.ESCALATED
    if (reason := _worse(state, incident, graded, policy, now_ms)) is not None:
        return NoticeEvent.ESCALATE, reason
    waited_ms = now_ms - incident.opened_ms
    if policy.escalate_ms and not incident.handed_on and waited_ms >= policy.escalate_ms:
        return NoticeEvent.REMIND, Reason.HANDED_ON
    if incident.severity < incident.notified and not policy.send_once:
        return NoticeEvent.DE_ESCALATE, Reason.DE_ESCALATED
    return _repeated(incident, graded, policy, now_ms)


def _worse(
    state: State, incident: Incident, graded: Graded, policy: Policy, now_ms: EpochMs
) -> Reason | None:
    """In what an incident is worse than its notices say, if it is as severe."""
    worse_ms = state.worse_since_ms
    if worse_ms is not None and now_ms - worse_ms >= policy.open_for_ms:
        return Reason.WORSE_KIND
    return Reason.LOSS_GREW if _has_grown(incident, graded, now_ms) else None


def _is_for_others(incident: Incident, graded: Graded, policy: Policy, now_ms: EpochMs) -> bool:
    """Are channels to hear of an incident that went on under their policy for long enough?"""
    if not graded.unheard or graded.severity is not incident.severity:
        return False
    return graded.since_ms is None or now_ms - graded.since_ms >= policy.open_for_ms


def _repeated(
    incident: Incident, graded: Graded, policy: Policy, now_ms: EpochMs
) -> tuple[NoticeEvent, Reason]:
    """The notice that is due while nothing changes: for further channels, or a reminder."""
    if _is_for_others(incident, graded, policy, now_ms):
        return NoticeEvent.REMIND, Reason.OTHER_POLICY
    if policy.send_once:
        return NoticeEvent.NOTHING, Reason.SEND_ONCE
    notified_ms = now_ms if incident.notified_ms is None else incident.notified_ms
    if not policy.remind_ms or now_ms - notified_ms < policy.remind_ms:
        return NoticeEvent.NOTHING, Reason.ALREADY_SENT
    if incident.acknowledged:
        return NoticeEvent.NOTHING, Reason.ACKNOWLEDGED
    return NoticeEvent.REMIND, Reason.REMINDER_DUE


def _first(
    state: State, incident: Incident, policy: Policy, now_ms: EpochMs
) -> tuple[NoticeEvent, Reason]:
    too_soon = state.quiet_until_ms is not None and now_ms < state.quiet_until_ms
    worse = state.last_severity is not None and incident.severity > state.last_severity
    if too_soon and not worse and not _never_ended(state, incident, policy):
        return NoticeEvent.NOTHING, Reason.REOPENED_TOO_SOON
    if state.held_back is Reason.REOPENED_TOO_SOON:
        return NoticeEvent.OPEN, Reason.STILL_OPEN
    return NoticeEvent.OPEN, Reason.FIRST


def _never_ended(state: State, incident: Incident, policy: Policy) -> bool:
    """True if what is wrong now was wrong before the last incident closed, unseen so far.

    One partition began to be read again, and another one stood still by then. A warning says less:
    a lag that goes up and down may have begun to rise at any time.
    """
    if state.quiet_until_ms is None or incident.severity is not GroupStatus.ERR:
        return False
    return incident.since_ms < state.quiet_until_ms - policy.reopen_ms


def _as_burrow(
    state: State, graded: Graded, policy: Policy, now_ms: EpochMs, *, muted: bool
) -> Step:
    """Burrow's decision, so that a migration can be compared notice by notice.

    The incident opens at the first status above OK, whatever the threshold. `quiet_until_ms` holds
    when a notice was last sent: it survives the incident unless its close is sent. `remind_ms` is
    Burrow's send-interval. A muted notice is not sent and does not count as sent.

    Source: Burrow, core/internal/notifier/coordinator.go, checkAndSendResponseToModules.
    """
    status = graded.severity
    if status is None:
        return state, Decision(reason=graded.reason)
    act, incident = _moved(state.incident, status, now_ms)
    silent = State(incident=incident, quiet_until_ms=state.quiet_until_ms)
    event, reason = _burrow_due(state, graded, act, policy, now_ms)
    if event is NoticeEvent.NOTHING or muted:
        return silent, Decision(
            act=act, reason=Reason.MUTED if event is not NoticeEvent.NOTHING else reason
        )
    if event is NoticeEvent.CLOSE:
        return QUIET, Decision(act=act, event=event, reason=reason)
    if incident is not None:
        incident = replace(incident, notified=status, notified_ms=now_ms)
    sent = State(incident=incident, quiet_until_ms=now_ms)
    return sent, Decision(act=act, event=event, reason=reason)


def _moved(
    incident: Incident | None, status: GroupStatus, now_ms: EpochMs
) -> tuple[Act, Incident | None]:
    """An incident that follows the status without delay."""
    if status is GroupStatus.OK:
        return (Act.NONE if incident is None else Act.CLOSE), None
    if incident is None:
        return Act.OPEN, Incident(since_ms=now_ms, opened_ms=now_ms, severity=status)
    if status is incident.severity:
        return Act.NONE, incident
    rising = status > incident.severity
    return (Act.ESCALATE if rising else Act.DE_ESCALATE), replace(incident, severity=status)


def _burrow_due(
    state: State, graded: Graded, act: Act, policy: Policy, now_ms: EpochMs
) -> tuple[NoticeEvent, Reason]:
    sent_ms = state.quiet_until_ms
    if act is Act.CLOSE and policy.send_close:
        return NoticeEvent.CLOSE, Reason.HEALED
    if graded.severity is None or graded.severity < policy.threshold:
        return NoticeEvent.NOTHING, Reason.BELOW_THRESHOLD
    if sent_ms is None or graded.unheard:
        first = NoticeEvent.OPEN, Reason.FIRST
        return first if sent_ms is None else (NoticeEvent.REMIND, Reason.OTHER_POLICY)
    if policy.send_once:
        return NoticeEvent.NOTHING, Reason.SEND_ONCE
    if now_ms - sent_ms <= policy.remind_ms:
        return NoticeEvent.NOTHING, Reason.ALREADY_SENT
    return NoticeEvent.REMIND, Reason.REMINDER_DUE


def channel_event(
    event: NoticeEvent, severity: GroupStatus, threshold: GroupStatus, *, knows: bool
) -> NoticeEvent:
    """The event that a channel gets, given the minimum severity sent to it.

    `knows`: the channel got a notice of this incident before. It then also gets the end and a
    de-escalation; otherwise anything severe enough is an opening.
    """
    if event is NoticeEvent.NOTHING:
        return NoticeEvent.NOTHING
    if event is NoticeEvent.CLOSE:
        return NoticeEvent.CLOSE if knows else NoticeEvent.NOTHING
    if severity < threshold:
        return (
            NoticeEvent.DE_ESCALATE
            if knows and event is NoticeEvent.DE_ESCALATE
            else NoticeEvent.NOTHING
        )
    return event if knows else NoticeEvent.OPEN

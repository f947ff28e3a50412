"""The incidents of a cluster: which groups to look at, and what is decided about them.

A healthy group without an incident costs nothing: bad groups are found in the columns of the
snapshot, and only these and the groups with stored state are looked at individually.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np

from lagwatch.core.departure import LastSeen
from lagwatch.core.forecast import GroupOutlook, remaining_s
from lagwatch.core.incident import (
    QUIET,
    Decision,
    Graded,
    NoticeEvent,
    Observation,
    Policy,
    Reason,
    State,
    by_clock,
    gone,
    grade,
    step,
)
from lagwatch.core.model import UNKNOWN, EpochMs, GroupStatus, PartitionStatus, Rule
from lagwatch.core.rules import Ok, rules_ok
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.core.trouble import Kinds
from lagwatch.notify.budget import Key, Spent
from lagwatch.notify.notice import OpenGroups
from lagwatch.notify.objectives import Objective, Objectives
from lagwatch.notify.observed import (
    IS_BAD,
    KnownLags,
    Topics,
    is_loss_acknowledged,
    losers,
    loss,
    of_group,
    of_topics,
    topics_of,
    windows_of,
)
from lagwatch.notify.policies import PolicyBook
from lagwatch.notify.store import Kept, LastBad, Marks, Named, new_id
from lagwatch.notify.unseen import Gap, Unseen

_ROUND_MS: Final = 30_000
"""Between two rounds there is less, unless Kafka was away or lagwatch did not run."""
_SAMPLES: Final = 240
"""Most samples of lag kept per group; older ones are thinned out."""
_SETTLING_MS: Final = 600_000
"""After a start, windows fill again: for so long they may say that all is well too soon."""
_LOOKS_MS: Final = 60_000
"""What is in trouble so soon after a start may have been before."""
KEEP_BAD_EVERY_MS: Final = 60_000
"""How often it is stored when partitions were bad: after a crash it may have been so much later."""
_LOOKS_AT_ONCE: Final = 150
"""Groups of a storm that are looked at before others may run: three take a millisecond or so."""
_DECIDED_AT_ONCE: Final = 100
"""Decisions of a storm before that: each takes a millisecond or two, as it is stored."""
_GONE_FOR_MS: Final = 60_000
"""After a start, for so long a group of an incident must be missing: a broker that has just started
lists only the groups that it has loaded."""

Muted = Callable[[str], bool]
OutlookOf = Callable[[str], GroupOutlook]
"""Rates and forecast of a group of the snapshot."""


@dataclass(slots=True)
class _Tracked:
    """What is remembered of a group."""

    state: State = QUIET
    policy: Policy | None = None
    """Under which its incident opened, or its verdict is bad."""
    policy_name: str = ""
    heard: frozenset[str] = frozenset()
    """Channels that notices of its incident were for."""
    sent_by: str = ""
    """The policy whose channels heard last."""
    handed_on_ms: int | None = None
    """When its incident was handed on, since lagwatch started."""
    incident: str = ""
    complete: float = 0.0
    restored: bool = False
    """Its incident is from before the start and has not been seen bad since."""
    samples: list[tuple[int, int]] = field(default_factory=list)
    """(instant in ms, total lag) since it turned bad."""
    last: LastSeen | None = None
    """Its last signs of life, since lagwatch started."""
    gone_ms: int | None = None
    """When it was first not in the snapshot any more."""
    removed: bool = False
    """Removed from lagwatch by request, and not back since."""
    missed: Objective | None = None
    """The limits that it missed when it was last seen bad; None if it missed no limit."""
    bad_ms: dict[int, int] = field(default_factory=dict)
    """When each of its windows was last seen bad."""
    bad_before: LastBad = field(default_factory=dict)
    """When partitions without a window yet were last seen bad, from before the start."""
    still_bad: set[int] = field(default_factory=set)
    """The windows that were bad when they were last judged."""
    topics: Collection[str] = ()
    """Those that it has committed to, as far as that is known."""
    troubled: dict[tuple[str, int], int] = field(default_factory=dict)
    """Topic and partition → window of what was in trouble when it was last seen bad; or
    `_NOT_KNOWN`, or `_WAS_GONE`: the group was gone since."""
    lost: int = 0
    """Messages lost and not acknowledged, when it was last judged, if that was its trouble."""
    lost_in_all: int = 0
    """Messages lost since its trouble began, also those that were acknowledged since."""
    lost_in_all_at_most: bool = False
    """Some of these may have been read."""
    before: Mapping[tuple[str, int], Named] = field(default_factory=dict)
    """What is known of those of before the start when they were in trouble for certain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A decision that is not silent, not stored yet."""

    group: str
    tracked: _Tracked
    """What was remembered of the group when it was decided: kept with the decision."""
    number: int | None
    """Index of the group in the snapshot; None if the group no longer exists."""
    incident: str
    policy: Policy
    before: State
    after: State
    decision: Decision
    unheard: tuple[str, ...]
    """Those of its channels that no notice of the incident was for."""
    recipients: tuple[str, ...]
    """Channels that the notice is for, if there is one."""
    seen_since_ms: EpochMs | None
    """Since when what the policy watches is in trouble, if that is known, and another sent last."""
    complete: float
    samples: tuple[tuple[int, int], ...]
    missed: str
    """The objective that is missed, in words; ""."""
    kinds: Kinds
    """The kinds of trouble it has now."""
    lost: int
    """Messages deleted unread, if that is one of its kinds of trouble."""
    lost_at_most: bool
    """Some of these may have been read."""
    lost_ms: int | None
    """When the last of them were noticed missing."""
    lost_in_all: int
    """Messages lost since its trouble began, also those that were acknowledged since."""
    lost_in_all_at_most: bool
    """Some of these may have been read."""
    loss_acknowledged: bool
    """What it has lost was acknowledged, all of it."""
    last: LastSeen | None
    """The last signs of life of a group that no longer exists, if they are known."""
    gone_ms: int | None
    """When it was first missed; None while it exists."""
    removed: bool
    """The group is gone because it was removed from lagwatch by request."""
    gone_topics: Topics
    """Topics that it has no committed offsets of any more: all, or those that were in trouble."""
    begun_anew: bool
    """What was in trouble lost its offsets, and has committed others since."""
    unseen_ms: int
    good_after_ms: int | None
    """The group was good when lagwatch looked again; this is when it had looked before."""
    """For how long of its trouble nothing was seen of the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """What one round of decisions is about."""

    snapshot: ClusterSnapshot
    now_ms: EpochMs
    muted: Muted
    outlook: OutlookOf


class Watch:
    """All incidents of one cluster."""

    def __init__(
        self,
        cluster: str,
        book: PolicyBook,
        kept: Iterable[Kept],
        spent: Mapping[Key, Spent],
        *,
        started_ms: int,
        follows: Callable[[str], bool] = lambda _: True,
        unseen: Unseen | None = None,
    ) -> None:
        """`follows`: does the cluster's configuration let a group in?"""
        self._cluster = cluster
        self._book = book
        self._objectives = Objectives(book.objectives, spent, round_ms=_ROUND_MS)
        self.decided_ms = 0
        """The last round; 0: none yet."""
        self._unseen = unseen or Unseen()
        self.gap: Gap | None = None
        """Before the last round nothing was seen from one instant to the other."""
        self._started_ms = started_ms
        self._follows = follows
        self._tracked: dict[str, _Tracked] = {}
        self._policies: dict[str, Mapping[str, Policy | None]] = {}
        self._layout: object = None
        self._known_before = KnownLags()
        self._begun: ClusterSnapshot | None = None
        self._waiting: dict[str, int | None] = {}
        """Groups to look at in this round, with their numbers; None: it has gone."""
        self.reasons: Counter[Reason] = Counter(dict.fromkeys(Reason, 0))
        """How often each reason decided, over all rounds."""
        for incident in kept:
            self._restore(incident)

    def use(self, book: PolicyBook) -> None:
        """Decide by these policies from now on."""
        self._book = book
        self._objectives.use(book.objectives)
        self._policies.clear()
        for tracked in self._tracked.values():
            tracked.policy = book.by_name.get(tracked.policy_name)

    def take_heard(
        self, heard: Mapping[str, frozenset[str]], thresholds: Mapping[str, GroupStatus]
    ) -> None:
        """Take over which channels notices of each open incident were for.

        `thresholds`: from which severity each channel gets notices. One that gets none of an
        incident as bad as it is lacks nothing.
        """
        for tracked in self._tracked.values():
            incident = tracked.state.incident
            tracked.heard = frozenset()
            if incident is not None and incident.notified is not None:
                spared = {name for name, least in thresholds.items() if least > incident.severity}
                tracked.heard = heard.get(tracked.incident, frozenset()) | spared

    @property
    def in_trouble(self) -> frozenset[str]:
        """Groups with an open incident."""
        return frozenset(
            group for group, tracked in self._tracked.items() if tracked.state.incident is not None
        )

    @property
    def open_incidents(self) -> int:
        return len(self.in_trouble)

    def open_groups(self) -> OpenGroups:
        """How many groups have an incident of which a notice was sent, by its severity."""
        incidents = [each.state.incident for each in self._tracked.values()]
        found = Counter(each.severity for each in incidents if each and each.notified is not None)
        return OpenGroups(errors=found[GroupStatus.ERR], warnings=found[GroupStatus.WARN])

    def marks(self) -> dict[str, Marks]:
        """Those of incidents that have any."""
        found = {
            each.incident: Marks(
                each.state.held_ms, each.state.incident.again_ms, each.state.good_since_ms
            )
            for each in self._tracked.values()
            if each.state.incident is not None
        }
        return {incident: marks for incident, marks in found.items() if any(marks)}

    def bad_since(self, since_ms: int, snapshot: ClusterSnapshot) -> dict[str, LastBad]:
        """When the partitions of groups with an incident were last seen bad, by incident.

        Of groups that were seen bad after an instant.
        """
        found: dict[str, LastBad] = {}
        for group, tracked in self._tracked.items():
            number = snapshot.group_index.get(group)
            seen_ms = max(tracked.bad_ms.values(), default=0)
            if tracked.state.incident is None or number is None or seen_ms <= since_ms:
                continue
            places = windows_of(snapshot, number)
            seen = {place: tracked.bad_ms.get(window) for place, window in places}
            known = {place: at_ms for place, at_ms in seen.items() if at_ms is not None}
            found[tracked.incident] = {**tracked.bad_before, **known}
        return found

    def spent_since(self, since_ms: int, now_ms: int) -> Mapping[Key, Spent]:
        """Error budgets of which something was spent after an instant."""
        return self._objectives.spent_since(since_ms, now_ms)

    def decide(
        self, snapshot: ClusterSnapshot, now_ms: EpochMs, muted: Muted, outlook: OutlookOf
    ) -> list[Decided]:
        """Decisions to store and then to `apply`.

        Silent ones take effect at once and are not returned. Of a storm only some groups are looked
        at, and `unfinished` is true: call again with the newest snapshot, after others have run.
        """
        if self._begun is not snapshot or not self._waiting:
            self._begin(snapshot, now_ms)
        else:
            self.gap = None
        decided = []
        this = _Round(snapshot=snapshot, now_ms=now_ms, muted=muted, outlook=outlook)
        for _ in range(_LOOKS_AT_ONCE):
            if not self._waiting:
                break
            group = next(iter(self._waiting))
            decision = self._look(this, group, self._waiting.pop(group))
            if decision is None:
                continue
            decided.append(decision)
            if decision.decision.reason is Reason.HANDED_ON:
                decision.tracked.handed_on_ms = this.now_ms
            if len(decided) >= _DECIDED_AT_ONCE:
                break
        if not self._waiting:
            self._known_before = KnownLags(snapshot)
        return decided

    @property
    def unfinished(self) -> bool:
        """Are there groups left to look at in this round?"""
        return bool(self._waiting)

    def begin_anew(self) -> None:
        """What was decided last could not be stored: the next round decides it again."""
        self._waiting.clear()

    def _begin(self, snapshot: ClusterSnapshot, now_ms: EpochMs) -> None:
        """A new round: find the groups to look at, first those that the last one did not reach."""
        self._begun = snapshot
        self.decided_ms, self.gap = now_ms, self._unseen.note(now_ms)
        self._objectives.begin_round(now_ms)
        if snapshot.rows.topic is not self._layout:
            self._policies.clear()
            self._layout = snapshot.rows.topic
        columns = snapshot.group
        suspect = (columns.status == GroupStatus.WARN) | (columns.status == GroupStatus.ERR)
        if self._book.least_time_lag_ms:
            suspect |= columns.time_lag_ms > self._book.least_time_lag_ms
        if self._book.least_lag:
            suspect |= columns.total_lag > self._book.least_lag
        if self._book.counts_lost:
            suspect |= losers(snapshot)
        bad = suspect.nonzero()[0].tolist()
        found: dict[str, int | None] = {snapshot.groups[number]: number for number in bad}
        for group in (*self._tracked, *self._objectives.groups()):
            if group not in found:
                found[group] = snapshot.group_index.get(group)
        # also those that are well again: else a storm of others would keep their incidents open
        left = (group for group in self._waiting if group in found)
        numbers = {**{group: found[group] for group in left}, **found}
        looked_at = sum(number is not None for number in numbers.values())
        self.reasons[Reason.HEALTHY] += len(snapshot.groups) - looked_at
        self._waiting = numbers

    def apply(self, decided: Iterable[Decided]) -> None:
        """Take over decisions that have been stored."""
        for decision in decided:
            tracked = self._tracked.setdefault(decision.group, decision.tracked)
            tracked.policy, tracked.policy_name = decision.policy, decision.policy.name
            if decision.decision.event is not NoticeEvent.NOTHING:
                tracked.heard |= {*decision.recipients}
                if decision.decision.reason is not Reason.HANDED_ON:
                    tracked.sent_by = decision.policy.name
            tracked.incident = decision.incident if decision.after.incident is not None else ""
            tracked.last = decision.last
            if decision.after.incident is None:
                tracked.heard = frozenset()
                tracked.lost_in_all, tracked.lost_in_all_at_most = 0, False
            self._set(decision.group, tracked, decision.after)

    def acknowledge(self, incident: str) -> None:
        """Send no more reminders of an incident, if it is one of these."""
        for tracked in self._tracked.values():
            if tracked.incident == incident and tracked.state.incident is not None:
                acknowledged = replace(tracked.state.incident, acknowledged=True)
                tracked.state = replace(tracked.state, incident=acknowledged)

    def remove(self, group: str) -> None:
        """The group is removed from lagwatch by request: its incident ends with the next round."""
        if group in self._tracked:
            self._tracked[group].removed = True

    def _restore(self, kept: Kept) -> None:
        policy = self._book.by_name.get(kept.policy)
        state = kept.state
        if policy is not None and policy.burrow and state.incident is not None:
            notified_ms = state.incident.notified_ms
            state = State(incident=state.incident, quiet_until_ms=notified_ms)
        lost = 0 if state.incident is None else state.incident.lost or 0
        self._tracked[kept.group] = _Tracked(
            state=state,
            policy=policy,
            policy_name=kept.policy,
            sent_by=kept.policy,
            incident=kept.incident,
            complete=kept.complete,
            restored=bool(kept.incident),
            last=kept.last,
            bad_before=kept.bad,
            lost=lost,
            lost_in_all=lost,
            topics=frozenset(topic for topic, _ in (*kept.bad, *kept.named)),
            troubled=dict.fromkeys((*kept.bad, *kept.named), _NOT_KNOWN),
            before={
                **{place: Named(at_ms=ms, log_end=UNKNOWN) for place, ms in kept.bad.items()},
                **{
                    place: replace(named, at_ms=max(named.at_ms, kept.bad.get(place, 0)))
                    for place, named in kept.named.items()
                },
            },
        )

    def _look(self, this: _Round, group: str, number: int | None) -> Decided | None:
        snapshot, now_ms = this.snapshot, this.now_ms
        tracked = self._tracked.get(group)
        if group in snapshot.hidden and tracked is not None and not tracked.removed:
            # whether it still is in trouble, and with which offsets, is not known
            tracked.troubled = dict.fromkeys(tracked.troubled, _NOT_KNOWN)
            return None
        policy, graded, missed = self._graded(this, group, number, tracked)
        if policy is None:
            return None
        if tracked is None:
            tracked = _Tracked()
        _note_life(tracked, this, group, number)
        tracked.topics = self._policies.get(group, tracked.topics)
        bad_windows: list[int] = []
        if number is not None:
            if tracked.bad_before:
                _take_up(tracked, snapshot, number)
            bad_windows = _note_judged(tracked, snapshot, number)
        if (
            (tracked.restored and self._is_settling(this, group, number, tracked, graded))
            or _is_half_judged(snapshot, number, tracked, graded)
            or _has_gone_quiet(snapshot, number, tracked, graded, policy)
        ):
            graded = Graded(severity=None, reason=Reason.NOT_JUDGED)
        is_bad = graded.severity in (GroupStatus.WARN, GroupStatus.ERR)
        unheard = tuple(
            each for each in _recipients(policy, tracked.state) if each not in tracked.heard
        )
        lost, at_most, lost_ms = loss(snapshot, number, graded.kinds)
        _note_loss(tracked, graded, lost, at_most=at_most)
        if is_bad and number is not None:
            graded = replace(graded, unheard=bool(unheard))
            tracked.restored = False
            tracked.missed = self._objectives.by_policy.get(policy.name) if missed else None
            tracked.complete = float(snapshot.group.complete[number])
            tracked.bad_ms |= dict.fromkeys(bad_windows, now_ms)
            # without bad windows a limit is missed, and nothing else is wrong
            tracked.troubled = tracked.troubled if bad_windows else _behind(snapshot, number)
            _sample(tracked.samples, now_ms, int(snapshot.group.total_lag[number]))
        before = _for_channels(by_clock(tracked.state, policy, now_ms), tracked.policy, policy)
        waits = replace(policy, close_for_ms=0) if tracked.removed else policy
        after, decision = step(before, graded, waits, now_ms, muted=this.muted(group))
        if number is None or is_bad or before is not QUIET:
            self.reasons[decision.reason] += 1
        if decision.silent:
            tracked.policy, tracked.policy_name = policy, policy.name
            self._set(group, tracked, after)
            return None
        return Decided(
            group=group,
            tracked=tracked,
            number=number,
            incident=tracked.incident or new_id(),
            policy=policy,
            before=before,
            after=after,
            decision=_by_same_policy(decision, tracked, policy),
            unheard=unheard,
            recipients=_sent_to(
                decision.reason, policy, after, unheard, recent=_is_recent(tracked, policy, now_ms)
            ),
            seen_since_ms=None if tracked.sent_by == policy.name else self._since_ms(graded),
            complete=tracked.complete,
            samples=tuple(tracked.samples),
            missed=self._missed_now(this, group, number, tracked, decision=decision, missed=missed),
            kinds=graded.kinds,
            lost=lost,
            lost_at_most=at_most,
            lost_ms=lost_ms,
            lost_in_all=tracked.lost_in_all,
            lost_in_all_at_most=tracked.lost_in_all_at_most,
            loss_acknowledged=is_loss_acknowledged(snapshot, number),
            last=tracked.last,
            gone_ms=tracked.gone_ms,
            removed=tracked.removed,
            gone_topics=_gone_topics(tracked, snapshot, number),
            begun_anew=number is not None and _has_begun_anew(tracked, snapshot, number),
            unseen_ms=0
            if before.incident is None
            else self._unseen.within_ms(before.incident.as_bad_ms, now_ms),
            good_after_ms=self._unseen.before_ms(before.good_since_ms or now_ms),
        )

    def _since_ms(self, graded: Graded) -> EpochMs | None:
        """Since when a group is in trouble, unless that is only since lagwatch looks."""
        since_ms = graded.since_ms
        if since_ms is None or since_ms <= self._started_ms + _LOOKS_MS:
            return None
        return since_ms

    def _set(self, group: str, tracked: _Tracked, state: State) -> None:
        tracked.state = state
        if state.idle:
            self._tracked.pop(group, None)
        else:
            self._tracked[group] = tracked

    def _graded(
        self, this: _Round, group: str, number: int | None, tracked: _Tracked | None
    ) -> tuple[Policy | None, Graded, str]:
        """The policy that decides, how bad it finds the group, and which objective is missed.

        Of a bad group, the policy that finds it worst; the first of them in the file. Of any
        other, the one under which its incident opened.
        """
        before = tracked.policy if tracked is not None else None
        if before is None and tracked is not None:  # the policy was removed from the file
            before = Policy(name=tracked.policy_name)
        if number is None:
            self._objectives.forget(group)
            left_out = Graded(severity=GroupStatus.OK, reason=Reason.NOT_FOLLOWED)
            return before, gone() if self._follows(group) else left_out, ""
        found = []
        for policy, seen, topics in self._seen(this.snapshot, group, number):
            judged, missed = self._objectives.judged(
                group,
                policy.name,
                seen,
                this.now_ms,
                partial(_remaining_s, this.outlook, group, topics),
                missed_before=self._missed_before(tracked, this.now_ms),
                known_before=group in self._known_before,
            )
            graded = self._unless_unwatched(grade(judged, policy), seen, tracked, policy)
            found.append((policy, graded, missed))
        bad = [finding for finding in found if finding[1].severity not in (None, GroupStatus.OK)]
        if bad:
            return min(
                bad, key=lambda finding: (-(finding[1].severity or 0), self._book.rank(finding[0]))
            )
        unjudged = next((finding for finding in found if finding[1].severity is None), None)
        first = unjudged or (found[0] if found else None)
        if first is None:  # no policy applies to the group (any more)
            return before, Graded(severity=GroupStatus.OK, reason=Reason.NO_POLICY), ""
        return before or first[0], first[1], first[2]

    def _missed_now(
        self,
        this: _Round,
        group: str,
        number: int | None,
        tracked: _Tracked,
        *,
        decision: Decision,
        missed: str,
    ) -> str:
        """The limit that is `missed`; for a notice by a forecast of this moment, as all of it."""
        if not missed or decision.event is NoticeEvent.NOTHING:
            return missed
        self._objectives.ask_anew(group)
        return self._graded(this, group, number, tracked)[2] or missed

    def _missed_before(self, tracked: _Tracked | None, now_ms: int) -> bool:
        """True if the group has an open incident and missed a limit when it was last seen bad.

        That is not kept over a restart: it counts as so until the windows are full again.
        """
        if tracked is None or tracked.state.incident is None:
            return False
        settles = tracked.restored and now_ms - self._started_ms < _SETTLING_MS
        return settles or tracked.missed is not None

    def _unless_unwatched(
        self, graded: Graded, seen: Observation, tracked: _Tracked | None, policy: Policy
    ) -> Graded:
        """With the reason if a group is good only because its policy was changed."""
        incident = None if tracked is None else tracked.state.incident
        if tracked is None or incident is None or graded.severity is not GroupStatus.OK:
            return graded
        if graded.reason is Reason.BELOW_THRESHOLD and incident.severity < policy.threshold:
            return replace(graded, reason=Reason.THRESHOLD_CHANGED)
        reason = self._objectives.not_watched(
            tracked.missed, policy.name, seen, only_limits=incident.named == frozenset()
        )
        return graded if reason is None else replace(graded, reason=reason)

    def _seen(
        self, snapshot: ClusterSnapshot, group: str, number: int
    ) -> list[tuple[Policy, Observation, Topics | None]]:
        """Each policy that applies to the group, with what it observes of which topics."""
        policies = self._policies.get(group)
        if policies is None:
            policies = self._policies[group] = self._book.of(
                self._cluster, group, topics_of(snapshot, number)
            )
        kinds = {id(policy): policy for policy in policies.values()}
        if len(kinds) == 1:
            policy = next(iter(kinds.values()))
            return [] if policy is None else [(policy, of_group(snapshot, number), None)]
        parts = [
            (policy, frozenset(topic for topic, each in policies.items() if each is policy))
            for policy in kinds.values()
            if policy is not None
        ]
        return [(policy, of_topics(snapshot, number, topics), topics) for policy, topics in parts]

    def _is_settling(
        self, this: _Round, group: str, number: int | None, tracked: _Tracked, graded: Graded
    ) -> bool:
        """True if the group may look better only because little is known yet after a start."""
        if not _is_better(graded, tracked.state):
            return False
        snapshot, started_ms = this.snapshot, this.now_ms - self._started_ms
        if number is None:
            gone = tracked.removed or _is_surely_gone(this, group, tracked)
            return not gone and started_ms < _SETTLING_MS
        if started_ms < _unmoved_ms(snapshot, number, tracked):
            return True
        if started_ms >= _SETTLING_MS:
            return False
        return float(snapshot.group.complete[number]) < tracked.complete


def _by_same_policy(decision: Decision, tracked: _Tracked, policy: Policy) -> Decision:
    """The policy has other channels than before, where it is the one that sent before."""
    if decision.reason is Reason.OTHER_POLICY and tracked.sent_by == policy.name:
        return replace(decision, reason=Reason.NEW_CHANNEL)
    return decision


def _recipients(policy: Policy, state: State) -> tuple[str, ...]:
    """The channels of the policy, and those of its escalation once the incident is handed on."""
    incident = state.incident
    further = policy.escalate_to if incident is not None and incident.handed_on else ()
    return (*dict.fromkeys((*policy.channels, *further)),)


def _is_recent(tracked: _Tracked, policy: Policy, now_ms: int) -> bool:
    """Was its incident handed on so lately that its new channels need no reminder yet?"""
    handed_on_ms = tracked.handed_on_ms
    return handed_on_ms is not None and 0 <= now_ms - handed_on_ms < policy.remind_ms


def _sent_to(
    reason: Reason, policy: Policy, after: State, unheard: tuple[str, ...], *, recent: bool
) -> tuple[str, ...]:
    """The channels that a notice for this reason is for; `recent` as `_is_recent` says."""
    if reason is Reason.HANDED_ON:
        return tuple(each for each in policy.escalate_to if each not in policy.channels)
    if reason in (Reason.OTHER_POLICY, Reason.NEW_CHANNEL):
        return unheard
    if reason is Reason.REMINDER_DUE and recent:
        return policy.channels
    return _recipients(policy, after)


def _is_surely_gone(this: _Round, group: str, tracked: _Tracked) -> bool:
    """True if all commits are read, Kafka lists its groups, and this one is in neither."""
    listed, gone_ms = this.snapshot.listed, tracked.gone_ms
    if listed is None or group in listed or gone_ms is None:
        return False
    return this.now_ms - gone_ms >= _GONE_FOR_MS


def _note_life(tracked: _Tracked, this: _Round, group: str, number: int | None) -> None:
    """Note the last signs of life of a group, and when it was first missed."""
    if number is None:
        tracked.gone_ms = this.now_ms if tracked.gone_ms is None else tracked.gone_ms
        tracked.troubled = dict.fromkeys(tracked.troubled, _WAS_GONE)
        return
    tracked.gone_ms, tracked.removed = None, False
    snapshot = this.snapshot
    info = snapshot.info.get(group)
    if info is not None and (info.type == "share" or info.state == "Unknown"):
        return  # the positions of share groups, and of jobs that keep their own, do not expire
    first, end = snapshot.group.first[number : number + 2].tolist()
    commit_ms = int(snapshot.rows.commit_ms[first:end].max(initial=-1))
    if commit_ms >= 0:
        commit_ms += snapshot.around.skew_ms
    has_members = info is not None and info.state not in _WITHOUT_MEMBERS
    alive_ms = int(snapshot.judged_ms) if has_members else commit_ms
    before = tracked.last
    if before is not None:  # its committed offsets may be gone, and others never committed
        commit_ms, alive_ms = max(commit_ms, before.commit_ms), max(alive_ms, before.alive_ms)
    tracked.last = LastSeen(commit_ms=commit_ms, alive_ms=max(commit_ms, alive_ms))


def _note_loss(tracked: _Tracked, graded: Graded, lost: int, *, at_most: bool) -> None:
    """Add up what was lost; what was acknowledged is not lost again when more is."""
    if graded.severity is None:
        return
    grown = lost - tracked.lost
    if grown > 0:
        tracked.lost_in_all += grown
        tracked.lost_in_all_at_most |= at_most
    tracked.lost = lost


_NOT_KNOWN: Final = -1
_WAS_GONE: Final = -2
_WITHOUT_MEMBERS: Final = frozenset({"Empty", "Dead"})


def _remaining_s(outlook: OutlookOf, group: str, topics: Topics | None) -> float | None:
    """Seconds until the group has caught up in these topics; None: in all it reads."""
    found = outlook(group)
    if topics is None:
        return remaining_s([found.whole])
    return remaining_s(each for place, each in found.partitions.items() if place[0] in topics)


def _unmoved_ms(snapshot: ClusterSnapshot, number: int, tracked: _Tracked) -> int:
    """For how long after a start a group may look well although nothing was read since it was bad.

    After a crash the silence before it does not count: a partition that had stopped only pauses,
    until it is silent for its limit again. 0: all that pauses has been read from since then.
    """
    incident = tracked.state.incident
    if incident is None:
        return 0
    rows = snapshot.group.rows_of(number)
    columns, around = snapshot.rows, snapshot.around
    windows = columns.window[rows]
    moved_ms = around.pace.moved_ms[windows] + around.skew_ms
    known_ms = max(incident.opened_ms, incident.as_bad_ms)
    bad_ms = [max(tracked.bad_ms.get(window, 0), known_ms) for window in windows.tolist()]
    unmoved = np.isin(columns.rule[rows], _RESTING) & (moved_ms <= np.array(bad_ms, np.int64))
    if not unmoved.any():
        return 0
    return max(_SETTLING_MS, int(columns.limit_ms[rows][unmoved].max()) + _SETTLING_MS)


_NOT_JUDGED: Final = (Rule.WARMING_UP, Rule.SILENT_BEFORE_START)
_RESTING: Final = rules_ok(Ok.RESTING)


def _is_better(graded: Graded, state: State) -> bool:
    """True if the group is less bad than its open incident."""
    incident = state.incident
    return incident is not None and (
        graded.severity is not None and graded.severity < incident.severity
    )


def _is_half_judged(
    snapshot: ClusterSnapshot, number: int | None, tracked: _Tracked, graded: Graded
) -> bool:
    """True if the group has an open incident and some of its partitions cannot be judged (yet).

    Of a group that was silent before lagwatch began anew it is not known whether it has stopped:
    what was in error then has not healed. Nor has a partition that was bad, and whose log end is
    not known any more.
    """
    if number is None or not _is_better(graded, tracked.state):
        return False
    rows = snapshot.group.rows_of(number)
    columns = snapshot.rows
    unknown = columns.window[rows][columns.status[rows] == PartitionStatus.UNKNOWN]
    unjudged = bool(np.isin(columns.rule[rows], _NOT_JUDGED).any())
    return unjudged or not tracked.still_bad.union(tracked.troubled.values()).isdisjoint(
        unknown.tolist()
    )


def _has_gone_quiet(
    snapshot: ClusterSnapshot,
    number: int | None,
    tracked: _Tracked,
    graded: Graded,
    policy: Policy,
) -> bool:
    """True if a partition that was in trouble only pauses: it may have died, which is not better.

    A stop takes a while to be sure. Until then the partition is OK by its verdict, as long as its
    offset does not move. One that has moved for `close_for_s` since it was bad may pause again.
    """
    if number is None or policy.burrow or not _is_better(graded, tracked.state):
        return False
    rows = snapshot.group.rows_of(number)
    columns, around = snapshot.rows, snapshot.around
    paused = columns.window[rows][np.isin(columns.rule[rows], _RESTING)]
    moved_ms = around.pace.moved_ms[paused] + around.skew_ms
    unsure_ms = policy.close_for_ms + (KEEP_BAD_EVERY_MS if tracked.restored else 0)
    return any(
        window in tracked.bad_ms and at_ms <= tracked.bad_ms[window] + unsure_ms
        for window, at_ms in zip(paused.tolist(), moved_ms.tolist(), strict=True)
    )


def _for_channels(state: State, last: Policy | None, policy: Policy) -> State:
    """Without the pause that follows a close, if other channels are to hear of this incident.

    `last`: the policy of the incident that closed. Those channels have heard nothing of it.
    """
    if state.quiet_until_ms is None or state.incident is not None:
        return state
    if last is None or policy.burrow or set(policy.channels) <= set(last.channels):
        return state
    return replace(state, quiet_until_ms=None, last_severity=None)


def _take_up(tracked: _Tracked, snapshot: ClusterSnapshot, number: int) -> None:
    """Apply what is kept from before the start to the partitions that have windows by now."""
    left = dict(tracked.bad_before)
    for place, window in windows_of(snapshot, number):
        at_ms = left.pop(place, None)
        if at_ms is not None:
            tracked.bad_ms.setdefault(window, at_ms)
            tracked.still_bad.add(window)
    tracked.bad_before = left


def _note_judged(tracked: _Tracked, snapshot: ClusterSnapshot, number: int) -> list[int]:
    """Note which windows are bad, and return them; the unknown stay as they were judged last."""
    rows = snapshot.group.rows_of(number)
    columns = snapshot.rows
    windows, status = columns.window[rows], columns.status[rows]
    bad = IS_BAD[status]
    bad_windows: list[int] = windows[bad].tolist()
    if tracked.still_bad:
        tracked.still_bad.difference_update(windows[status != PartitionStatus.UNKNOWN].tolist())
    if bad_windows:
        tracked.still_bad.update(bad_windows)
        topics = map(snapshot.topic_names.__getitem__, columns.topic[rows][bad].tolist())
        places = zip(topics, columns.partition[rows][bad].tolist(), strict=True)
        tracked.troubled = dict(zip(places, bad_windows, strict=True))
    return bad_windows


def _gone_topics(tracked: _Tracked, snapshot: ClusterSnapshot, number: int | None) -> Topics:
    """Topics whose offsets the group has lost: all that are known, or those that were in trouble.

    Trouble with such a topic has not healed.
    """
    if number is None:
        return frozenset(tracked.topics)
    return frozenset(topic for topic, _ in tracked.troubled).difference(topics_of(snapshot, number))


def _has_begun_anew(tracked: _Tracked, snapshot: ClusterSnapshot, number: int) -> bool:
    """True if a partition that was in trouble has another window: it lost its offset since."""
    now = dict(windows_of(snapshot, number))
    return any(
        _has_begun_since(snapshot, place, now[place], tracked.before.get(place))
        if window == _NOT_KNOWN
        else now[place] != window
        for place, window in tracked.troubled.items()
        if place in now
    )


def _has_begun_since(
    snapshot: ClusterSnapshot, place: tuple[str, int], window: int, named: Named | None
) -> bool:
    """True if a topic is shorter than it was, or the first commit of a window is newer than that.

    Of a window that is only made from what the offsets topic still holds that is not known.
    """
    if named is None:
        return False
    if 0 <= _log_end(snapshot, place) < named.log_end:
        return True
    around = snapshot.around
    if around.first_ms < 0 or around.first_ms + around.skew_ms > named.at_ms:
        return False
    return int(around.pace.since_s[window]) * 1000 + around.skew_ms > named.at_ms


def _log_end(snapshot: ClusterSnapshot, place: tuple[str, int]) -> int:
    """Of a topic and partition; -1 unknown."""
    topics, (topic, partition) = snapshot.topics, place
    index = topics.index.get(topic)
    if index is None:
        return UNKNOWN
    ends = topics.log_end[topics.first[index] : topics.first[index + 1]]
    return int(ends[partition]) if partition < ends.size else UNKNOWN


def _behind(snapshot: ClusterSnapshot, number: int) -> dict[tuple[str, int], int]:
    """Topic and partition → window of what a group has not read."""
    rows = snapshot.group.rows_of(number)
    unread = snapshot.rows.lag[rows] > 0
    return {
        place: window
        for (place, window), behind in zip(windows_of(snapshot, number), unread, strict=True)
        if behind
    }


def _sample(samples: list[tuple[int, int]], now_ms: int, lag: int) -> None:
    samples.append((now_ms, lag))
    if len(samples) > _SAMPLES:
        del samples[1:-1:2]

"""Makes what is stored and sent of the decisions of one round about groups.

The decisions come from `watch`; what a notice says of its group is asked of the queries.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

from lagwatch.config.settings import Settings
from lagwatch.core.causes import Cause, CauseName, Certainty
from lagwatch.core.departure import Retention, departure, gone_after_ms
from lagwatch.core.forecast import GroupOutlook
from lagwatch.core.incident import NoticeEvent, Reason
from lagwatch.core.model import EpochMs, GroupStatus, GroupVerdict, Rule
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.core.trouble import RANK, kind_words
from lagwatch.errors import NotFoundError
from lagwatch.notify.notice import Json, Notice, level
from lagwatch.notify.store import Change, Listener
from lagwatch.notify.verdict import (
    behind_json,
    cause_json,
    forecast_json,
    furthest_behind,
    is_steady,
    judged_slow,
    limit_json,
    nothing_known,
    verdict_json,
)
from lagwatch.notify.watch import Decided
from lagwatch.notify.window_curve import TOTAL, window_curve
from lagwatch.ports.queries import Partitions, Queries

_FEW_SAMPLES: Final = 5
_DETAILED: Final = 20
"""Notices of one round whose curve may be read from the windows, which takes a while."""
_NARROW: Final = 200
"""Partitions of a group up to which its windows are read for a curve."""
_OUTLOOKS_AT_ONCE: Final = 100
"""Groups; they are held as objects, one for each partition."""
MOST_EXPLAINED: Final = 10_000
"""Partitions of all groups of one round whose cause is looked for."""
_COUNTS_AT_LEAST: Final = 10
"""A group counts as so many: looking at a single partition takes about as long."""
_TOO_MANY: Final = Cause(
    name=None,
    certainty=Certainty.UNKNOWN,
    text="not looked for, because too many incidents changed at once; `lagwatch explain` looks",
    refuted_by="",
    evidence={},
    topic=None,
    partition=None,
)
_HEALED: Final = (Reason.HEALED, Reason.ENDED_WHILE_MUTED)


class RoundChanges:
    """The changes of one round."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        queries: Queries,
        decided: Sequence[Decided],
        *,
        settings: Settings,
        listeners: Mapping[str, Listener],
        last_owner: Callable[[str], str],
        now_ms: EpochMs,
        explains: int = MOST_EXPLAINED,
    ) -> None:
        """Of the decisions of a storm this may be a part.

        Args:
            snapshot: what was decided about.
            queries: where verdicts, causes and forecasts are asked for.
            decided: the decisions.
            settings: of alerts.
            listeners: channels by name.
            last_owner: who left the group last, as earlier notices of an incident say; "".
            now_ms: the present time.
            explains: so many partitions at most are looked at for causes.
        """
        self._snapshot = snapshot
        self._queries = queries
        self._decided = decided
        self._settings = settings
        self._listeners = listeners
        self._last_owner = last_owner
        self._now_ms = now_ms
        self._explained, self.explains = _explained(decided, snapshot, explains)
        """`explains`: what is left of that."""
        self._outlooks = _Outlooks(queries, snapshot.cluster, decided, self._explained)

    def all(self) -> list[Change]:
        """One for each decision, in their order."""
        return [
            self._change(decided, with_windows=number < _DETAILED and self._is_narrow(decided))
            for number, decided in enumerate(self._decided)
        ]

    def _change(self, decided: Decided, *, with_windows: bool) -> Change:
        event = decided.decision.event
        verdict = self._verdict(decided)
        if decided.missed and not verdict["partitions"]:
            verdict = {**verdict, **self._of_limit(decided.group)}
        if event is NoticeEvent.CLOSE and verdict.get("status") == GroupStatus.OK.name:
            verdict = {**verdict, **self._behind(decided.group)}
        sends = event is not NoticeEvent.NOTHING
        notice = self._notice(decided, verdict, with_windows=with_windows and sends)
        if sends and event is not NoticeEvent.CLOSE:
            notice = self._with_cause(notice, decided)
        return Change(
            incident=decided.incident,
            cluster=self._snapshot.cluster,
            group=decided.group,
            policy=decided.policy.name,
            before=decided.before,
            after=decided.after,
            decision=decided.decision,
            complete=decided.complete,
            notice=notice,
            listeners=tuple(
                self._listeners[name] for name in decided.recipients if name in self._listeners
            ),
            as_burrow=decided.policy.burrow,
            last=decided.last,
        )

    def _notice(self, decided: Decided, verdict: Json, *, with_windows: bool) -> Notice:
        alerts, cluster = self._settings.alerts, self._snapshot.cluster
        incident = decided.after.incident or decided.before.incident
        severity = incident.severity if incident is not None else GroupStatus.ERR
        opened_ms = self._snapshot.at_ms if incident is None else incident.opened_ms
        since_ms = _began_ms(decided) or opened_ms
        if decided.decision.reason in (Reason.OTHER_POLICY, Reason.HANDED_ON):
            # its channels hear of what they watch, which may be in trouble since later
            since_ms = max(since_ms, decided.seen_since_ms or 0)
        trouble_ms = since_ms if incident is None else incident.since_ms
        curve, curve_of = decided.samples, TOTAL
        if len(curve) < _FEW_SAMPLES and with_windows:
            curve, curve_of = self._window_curve(decided, verdict, since_ms) or (curve, curve_of)
        policy = alerts.policies.get(decided.policy.name)
        return Notice(
            key="",
            incident=decided.incident,
            event=decided.decision.event,
            cluster=cluster,
            group=decided.group,
            severity=level(severity),
            reason=decided.decision.reason.value,
            policy=decided.policy.name,
            since_ms=since_ms,
            trouble_ms=trouble_ms,
            since_at_least=(
                incident is not None and incident.since_at_least and since_ms == trouble_ms
            ),
            opened_ms=opened_ms,
            at_ms=self._now_ms,
            url=page_link(alerts.page_url.get_secret_value(), cluster, decided.group),
            runbook=policy.runbook if policy is not None else "",
            team=policy.team if policy is not None else "",
            zone=alerts.time_zone,
            kinds=kind_words(decided.kinds),
            kinds_before=kind_words(
                (decided.before.incident and decided.before.incident.named) or ()
            ),
            verdict={**verdict, **self._of_incident(decided)},
            curve=curve,
            curve_of=curve_of,
        )

    def _of_incident(self, decided: Decided) -> Json:
        """What the verdict of a notice holds beside that of its group."""
        found = _healed(decided, self._now_ms)
        if decided.lost:
            found |= {"lost": decided.lost, "lost_ms": decided.lost_ms}
            if decided.lost_at_most:
                found["lost_is"] = "upper_bound"
            if decided.decision.reason is Reason.LOSS_GREW and decided.before.incident is not None:
                found["lost_before"] = decided.before.incident.lost
        if decided.missed:
            found["objective"] = decided.missed
        found |= _eased(decided)
        if decided.decision.event is NoticeEvent.CLOSE:
            found |= self._without_offsets(decided)
            found |= _lost_in_all(decided)
            found |= _breaks(decided)
            found |= {"unseen_s": decided.unseen_ms / 1000} if decided.unseen_ms else {}
        if decided.gone_ms is not None:
            found |= {"removed": True} if decided.removed else self._departed(decided)
            found["ended_ms"] = min(decided.gone_ms, self._snapshot.at_ms)
        incident = decided.after.incident or decided.before.incident
        if incident is not None and incident.clock_set_back:
            found["clock_set_back"] = True
        if incident is not None and incident.acknowledged:
            found["acknowledged"] = True
        return found

    def _verdict(self, decided: Decided) -> Json:
        """The verdict as JSON; NOTFOUND for a group that no longer exists."""
        cluster, group = self._snapshot.cluster, decided.group
        try:
            return verdict_json(self._queries.verdict(cluster, group, Partitions.BAD))
        except NotFoundError:
            return nothing_known(cluster, group, self._now_ms, GroupStatus.NOTFOUND.name)

    def _is_narrow(self, decided: Decided) -> bool:
        """True if the group has so few partitions that its windows are read quickly."""
        number = decided.number
        return number is not None and int(self._snapshot.group.partition_count[number]) <= _NARROW

    def _window_curve(
        self, decided: Decided, verdict: Json, since_ms: int
    ) -> tuple[tuple[tuple[int, int], ...], str] | None:
        """The lag over the windows of the group, and whose it is; None: not known."""
        try:
            detail = self._queries.detail(self._snapshot.cluster, decided.group)
        except NotFoundError:
            return None
        return window_curve(detail, verdict, since_ms)

    def _with_cause(self, notice: Notice, decided: Decided) -> Notice:
        """With why the group is bad, its forecast, and who left it last."""
        if decided.group not in self._explained:
            return replace(notice, cause=cause_json(_TOO_MANY))
        cause, forecast = self._explanation(decided)
        notice = replace(notice, verdict={**notice.verdict, **forecast})
        if cause is None:
            return notice
        # after a restart only earlier notices of the incident know who it was
        seen = cause.evidence.get("last_member")
        last = str(seen) if seen else self._last_owner(notice.incident)
        verdict = {**notice.verdict, "last_owner": last} if last else notice.verdict
        return replace(notice, cause=cause_json(cause), verdict=verdict)

    def _explanation(self, decided: Decided) -> tuple[Cause | None, Json]:
        """Why the group is bad, and its forecast.

        No cause: nothing is wrong, or it misses a limit and no cause fits; or the group is gone.
        """
        queries = self._queries
        try:
            verdict = queries.verdict(self._snapshot.cluster, decided.group, Partitions.COMMITTED)
            outlook = self._outlooks.of(decided.group)
            cause = queries.cause(verdict, outlook)
            if cause is None and decided.missed:
                slow = judged_slow(verdict)
                cause = _of_being_late(queries.cause(slow, outlook), verdict, outlook)
        except NotFoundError:
            return None, {}
        return cause, forecast_json(outlook)

    def _behind(self, group: str) -> Json:
        """What keeps a group behind whose verdict is good, if anything does, and its forecast."""
        try:
            verdict = self._queries.verdict(self._snapshot.cluster, group, Partitions.BAD)
            outlook = self._outlooks.of(group)
        except NotFoundError:
            return {}
        return {**behind_json(verdict, outlook), **forecast_json(outlook)}

    def _of_limit(self, group: str) -> Json:
        """Of a group that misses a limit without a bad partition: those behind, and its speed."""
        try:
            verdict = self._queries.verdict(self._snapshot.cluster, group, Partitions.COMMITTED)
            trend = self._outlooks.of(group).whole.lag_trend_per_s
        except NotFoundError:
            return {}
        return limit_json(verdict, trend)

    def _without_offsets(self, decided: Decided) -> Json:
        """Topics without offsets of the group any more: those that Kafka still has, and the others.

        `begun_anew`: there are others by now.
        """
        if not decided.gone_topics:
            return {"begun_anew": True} if decided.begun_anew else {}
        in_kafka = decided.gone_topics.intersection(self._queries.topics(self._snapshot.cluster))
        return {
            "deleted_topics": sorted(decided.gone_topics - in_kafka),
            "topics_without_offsets": sorted(in_kafka),
        }

    def _departed(self, decided: Decided) -> Json:
        """How a group went that is in Kafka no more, and what that is known by."""
        retention, last = self._retention(), decided.last
        gone_ms = decided.gone_ms or 0
        forget_ms = round(self._settings.windows.expire_group_s * 1000)
        went = departure(last, gone_ms, retention=retention, forget_ms=forget_ms)
        kept_ms = retention.likely_ms
        return {
            "gone": went.value,
            "gone_ms": gone_ms,
            "gone_after_ms": gone_after_ms(last),
            "last_sign_ms": None if last is None or last.alive_ms < 0 else last.alive_ms,
            "offsets_retention_s": None if kept_ms is None else kept_ms // 1000,
        }

    def _retention(self) -> Retention:
        for each in self._queries.health():
            if each.cluster == self._snapshot.cluster:
                return Retention(
                    known_ms=each.offsets_retention_ms, refused=each.offsets_retention_refused
                )
        return Retention()


def _eased(decided: Decided) -> Json:
    """What made an ERROR of an incident that has become milder, until that has lasted."""
    incident, state = decided.after.incident, decided.after
    if incident is None or incident.severity is not GroupStatus.ERR:
        return {}
    milder = state.other is not None and state.other < GroupStatus.ERR
    until_ms = state.other_since_ms if milder else state.good_since_ms
    kinds = [rule for rule in incident.named or () if rule in RANK and rule not in decided.kinds]
    if until_ms is None or not kinds:
        return {}
    return {"eased": kind_words(kinds), "eased_ms": until_ms}


def _healed(decided: Decided, now_ms: int) -> dict[str, Any]:
    """Since when the group is well, and when lagwatch had looked before if it did not see it."""
    if decided.decision.reason not in _HEALED:
        return {}
    found = {"ended_ms": decided.before.good_since_ms or now_ms}
    after_ms = decided.good_after_ms
    return found if after_ms is None else {**found, "ended_after_ms": after_ms}


def _breaks(decided: Decided) -> Json:
    """Was the group of an incident that has ended well for a while in between?"""
    incident = decided.before.incident
    return {"with_breaks": True} if incident is not None and incident.again_ms else {}


def _lost_in_all(decided: Decided) -> Json:
    """What was lost over an incident that has ended, and whether that was acknowledged."""
    if not decided.lost_in_all:
        return {}
    bound = {"lost_in_all_is": "upper_bound"} if decided.lost_in_all_at_most else {}
    return {
        "lost_in_all": decided.lost_in_all,
        **bound,
        "loss_acknowledged": decided.loss_acknowledged,
    }


class _Outlooks:
    """Outlooks of the groups of a round: of many groups at once they take much less time."""

    def __init__(
        self,
        queries: Queries,
        cluster: str,
        decided: Iterable[Decided],
        explained: Collection[str],
    ) -> None:
        """`decided`: in the order in which they are asked for."""
        self._cluster = cluster
        self._queries = queries
        self._left = deque(
            each.group
            for each in decided
            if each.group in explained or each.decision.event is NoticeEvent.CLOSE
        )
        self._known: Mapping[str, GroupOutlook] = {}

    def of(self, group: str) -> GroupOutlook:
        """The outlook of one of these groups, or of any other.

        Raises:
            NotFoundError: the group is gone.
        """
        if group not in self._known and group in self._left:
            while self._left[0] != group:
                self._left.popleft()
            count = min(len(self._left), _OUTLOOKS_AT_ONCE)
            groups = [self._left.popleft() for _ in range(count)]
            self._known = self._queries.outlooks(self._cluster, groups)
        if group in self._known:
            return self._known[group]
        return self._queries.outlook(self._cluster, group)


def _began_ms(decided: Decided) -> int | None:
    """When the trouble began that a notice names; of an end, since when it was as severe."""
    incident = decided.after.incident
    if incident is not None:
        return incident.named_ms
    return None if decided.before.incident is None else decided.before.incident.as_bad_ms


def page_link(root: str, cluster: str, group: str) -> str:
    """URL of a group on the page; "" if `alerts.page_url` is not set."""
    return f"{root.rstrip('/')}/?{urlencode({'group': group, 'of': cluster})}" if root else ""


def _explained(
    decided: Sequence[Decided], snapshot: ClusterSnapshot, room: int
) -> tuple[frozenset[str], int]:
    """The groups whose cause is looked for: in a storm some of them, because it takes a while.

    As many as have `room` partitions together; returns what of it is left, too.
    """
    chosen = set()
    for each in decided:
        if each.number is not None and each.decision.event is not NoticeEvent.NOTHING:
            room -= max(snapshot.group.committed_partitions(each.number), _COUNTS_AT_LEAST)
            if room >= 0:
                chosen.add(each.group)
    return frozenset(chosen), room


def _of_being_late(
    cause: Cause | None, verdict: GroupVerdict, outlook: GroupOutlook
) -> Cause | None:
    """The cause, unless it is not known, or calls slow a group that holds its distance or pauses.

    `verdict`: the true one. Who pauses may be dead: only a longer silence shows it.
    """
    if cause is None or cause.name is None:
        return None
    paused = any(each.rule is Rule.PAUSED for each in furthest_behind(verdict))
    not_slow = paused or is_steady(outlook)
    return None if cause.name is CauseName.ALL_SLOW and not_slow else cause

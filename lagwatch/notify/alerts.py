"""The alerts of one process: fed with snapshots, delivering by itself."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final
from urllib.parse import urlencode

import structlog

from lagwatch.clock import Clock
from lagwatch.config.settings import Settings
from lagwatch.core.incident import Reason, Tell
from lagwatch.core.model import EpochMs, GroupStatus
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.errors import NotFoundError
from lagwatch.notify.channels.build import build
from lagwatch.notify.database import Database
from lagwatch.notify.dispatch import DeliveryCounts, Dispatcher, Outlet
from lagwatch.notify.mutes import MuteRule, active, from_record, from_settings
from lagwatch.notify.notice import Json, Notice, level, verdict_json
from lagwatch.notify.outbox import Outbox
from lagwatch.notify.policies import THRESHOLDS, PolicyBook
from lagwatch.notify.records import Records
from lagwatch.notify.store import Change, IncidentStore, Listener
from lagwatch.notify.watch import Decided, Watch
from lagwatch.ports import (
    IncidentAsk,
    IncidentRecord,
    Mute,
    NoticeAsk,
    NoticeRecord,
    PolicyRecord,
    Queries,
)

_PRUNE_EVERY_S: Final = 3600.0
_STALE_ROUNDS: Final = 3
"""Rounds of log ends that may be missed before verdicts are not trusted."""
_FEW_SAMPLES: Final = 5
_LOGGED_INCIDENTS: Final = 20
_DETAILED: Final = 20
"""Notices of one round whose curve may be read from the windows, which takes a while."""

_NARROW: Final = 200
"""Partitions of a group up to which its windows are read for a curve."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCounts:
    """For metrics; every reason and channel is there from the start, at 0."""

    reasons: Mapping[Reason, int]
    """Decisions by reason, over all clusters."""
    deliveries: Mapping[str, DeliveryCounts]
    """By channel."""
    undelivered: Mapping[str, int]
    """Notices not delivered yet, by channel."""
    dead: Mapping[str, int]
    """Dead messages that are kept, by channel."""
    open_incidents: Mapping[str, int]
    """By cluster."""


class Alerts:
    """Give it every snapshot (`observe`), and let it deliver (`run`).

    Implements `lagwatch.ports.AlertsView`.
    """

    def __init__(self, settings: Settings, clock: Clock, *, chance: Random | None = None) -> None:
        """Check the templates, open the file and take up what it holds.

        Raises:
            ConfigError: a template or certificate is broken, or the file cannot be used.
        """
        alerts = settings.alerts
        self._settings = settings
        self._clock = clock
        now_ms = clock.now_ms()
        channels = build(alerts, clock)
        self._listeners = {
            name: Listener(channel=name, threshold=THRESHOLDS[one.threshold])
            for name, one in alerts.channels()
        }
        self._outlets = {
            name: Outlet(
                name=name,
                channel=channels[name],
                settings=one,
                wait_ms=round(alerts.group_wait_s * 1000),
            )
            for name, one in alerts.channels()
        }
        self._book = PolicyBook(alerts)
        self._database = Database(alerts.file, now_ms=now_ms)
        self._store = IncidentStore(self._database)
        self._outbox = Outbox(self._database)
        self._records = Records(self._database)
        chance = chance or Random()  # noqa: S311 jitter is no secret
        self._dispatcher = Dispatcher(self._outbox, self._outlets, clock, chance)
        kept = list(self._store.kept(now_ms))
        self._watches = {
            cluster: Watch(
                cluster,
                self._book,
                (one for one in kept if one.cluster == cluster),
                started_ms=now_ms,
            )
            for cluster in settings.clusters
        }
        self._configured_mutes = tuple(
            from_settings(name, one) for name, one in alerts.mutes.items()
        )
        self._mutes: tuple[MuteRule, ...] = ()
        self._read_mutes()
        self._problem = ""

    @property
    def problem(self) -> str:
        """What keeps incidents from being kept now; ""."""
        return self._problem

    def observe(self, snapshot: ClusterSnapshot, queries: Queries, now_ms: EpochMs) -> None:
        """Look at what has just been judged; what is decided is kept when it returns.

        Costs next to nothing as long as nothing changes. Nothing is decided on a snapshot that is
        not ready or whose log ends are stale: silence of the monitor is not silence of a group.
        """
        watch = self._watches.get(snapshot.cluster)
        if watch is None or not self._is_trustworthy(snapshot, queries):
            return
        rules = active(self._mutes, now_ms)
        muted = partial(_is_muted, rules, snapshot.cluster)
        decided = watch.decide(snapshot, now_ms, muted)
        if not decided:
            return
        changes = [
            self._change(
                one,
                snapshot,
                queries,
                now_ms,
                with_windows=number < _DETAILED and _is_narrow(snapshot, one),
            )
            for number, one in enumerate(decided)
        ]
        try:
            self._store.record(changes, now_ms)
        except sqlite3.Error as error:
            # nothing was kept, so nothing has changed: the next round decides the same again
            if str(error) != self._problem:
                _log.error("alerts_not_kept", cluster=snapshot.cluster, reason=str(error))
            self._problem = str(error)
            return
        self._problem = ""
        watch.apply(decided)
        self._dispatcher.wake()
        _log_changes(snapshot.cluster, changes)

    async def run(self) -> None:
        """Deliver until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._dispatcher.run(), name="deliver")
            tasks.create_task(self._prune(), name="prune alerts")

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def counts(self) -> AlertCounts:
        """Totals since the start, and what is kept now."""
        reasons = dict.fromkeys(Reason, 0)
        for watch in self._watches.values():
            for reason, count in watch.reasons.items():
                reasons[reason] += count
        depths = {name: self._outbox.depth(name) for name in self._outlets}
        return AlertCounts(
            reasons=reasons,
            deliveries={name: outlet.counts for name, outlet in self._outlets.items()},
            undelivered={name: depth[0] for name, depth in depths.items()},
            dead={name: depth[1] for name, depth in depths.items()},
            open_incidents={name: one.open_incidents for name, one in self._watches.items()},
        )

    def incidents(self, ask: IncidentAsk) -> tuple[Sequence[IncidentRecord], str]:
        return self._records.incidents(ask)

    def incident(self, incident: str) -> IncidentRecord:
        return self._records.incident(incident)

    def notices(self, ask: NoticeAsk) -> tuple[Sequence[NoticeRecord], str]:
        return self._records.notices(ask)

    def retry(self, message: str) -> int:
        channel, count = self._records.retry(message, now_ms=self._clock.now_ms())
        _log.info("dead_message_retried", channel=channel, message=message, notices=count)
        self._dispatcher.wake()
        return count

    def mutes(self) -> Sequence[Mute]:
        now_ms = self._clock.now_ms()
        configured = self._settings.alerts.mutes
        return [
            *(
                Mute(
                    id=rule.id,
                    cluster=configured[name].cluster,
                    group=configured[name].group,
                    reason=rule.reason,
                    author="configuration",
                    starts_ms=_starts_ms(rule),
                    ends_ms=rule.window.ends_ms(now_ms),
                    active=rule.window.ends_ms(now_ms) is not None,
                )
                for name, rule in zip(configured, self._configured_mutes, strict=True)
            ),
            *self._records.mutes(now_ms),
        ]

    def mute(
        self, *, cluster: str, group: str, reason: str, author: str, starts_ms: int, ends_ms: int
    ) -> Mute:
        made = self._records.mute(
            cluster=cluster,
            group=group,
            reason=reason,
            author=author,
            starts_ms=starts_ms,
            ends_ms=ends_ms,
            now_ms=self._clock.now_ms(),
        )
        self._read_mutes()
        _log.info("muted", mute=made.id, cluster=cluster, group=group, reason=reason, by=author)
        return made

    def unmute(self, mute: str) -> None:
        self._records.unmute(mute)
        self._read_mutes()
        _log.info("unmuted", mute=mute)

    def policies(self) -> Sequence[PolicyRecord]:
        return [
            PolicyRecord(name=name, settings=one.model_dump(mode="json"))
            for name, one in self._settings.alerts.policies_in_effect().items()
        ]

    def policy_of(self, cluster: str, group: str, topics: Sequence[str]) -> Mapping[str, str]:
        found = self._book.of(cluster, group, topics or ("",))
        return {topic: "" if policy is None else policy.name for topic, policy in found.items()}

    def _is_trustworthy(self, snapshot: ClusterSnapshot, queries: Queries) -> bool:
        if snapshot.data_ms < 0:
            return False
        cluster = self._settings.clusters[snapshot.cluster]
        limit_ms = _STALE_ROUNDS * cluster.log_end_interval_s * 1000
        if snapshot.at_ms - snapshot.data_ms > limit_ms:
            return False
        return any(one.cluster == snapshot.cluster and one.ready for one in queries.health())

    def _change(
        self,
        decided: Decided,
        snapshot: ClusterSnapshot,
        queries: Queries,
        now_ms: EpochMs,
        *,
        with_windows: bool,
    ) -> Change:
        verdict = _verdict(decided, snapshot.cluster, queries, now_ms)
        told = decided.decision.tell is not Tell.NOTHING
        policy = decided.policy
        return Change(
            incident=decided.incident,
            cluster=snapshot.cluster,
            group=decided.group,
            policy=policy.name,
            before=decided.before,
            after=decided.after,
            decision=decided.decision,
            complete=decided.complete,
            verdict=verdict,
            notice=self._notice(decided, snapshot, verdict, queries, with_windows)
            if told
            else None,
            listeners=tuple(
                self._listeners[name] for name in policy.channels if name in self._listeners
            ),
            as_burrow=policy.burrow,
        )

    def _notice(
        self,
        decided: Decided,
        snapshot: ClusterSnapshot,
        verdict: Json,
        queries: Queries,
        with_windows: bool,  # noqa: FBT001 passed on
    ) -> Notice:
        incident = decided.after.incident or decided.before.incident
        severity = incident.severity if incident is not None else GroupStatus.ERR
        curve, curve_of = decided.samples, "total lag"
        if len(curve) < _FEW_SAMPLES and with_windows:
            curve, curve_of = _window_curve(snapshot.cluster, verdict, queries) or (curve, curve_of)
        now_ms = snapshot.at_ms if incident is None else incident.opened_ms
        return Notice(
            key="",
            incident=decided.incident,
            event=decided.decision.tell,
            cluster=snapshot.cluster,
            group=decided.group,
            severity=level(severity),
            reason=decided.decision.reason.value,
            policy=decided.policy.name,
            since_ms=incident.since_ms if incident is not None else now_ms,
            opened_ms=now_ms,
            at_ms=self._clock.now_ms(),
            url=page_link(self._settings.alerts.page_url, snapshot.cluster, decided.group),
            verdict=verdict,
            curve=curve,
            curve_of=curve_of,
        )

    def _read_mutes(self) -> None:
        asked_for = self._records.mutes(self._clock.now_ms())
        self._mutes = (*self._configured_mutes, *map(from_record, asked_for))

    async def _prune(self) -> None:
        while True:
            before_ms = self._clock.now_ms() - round(self._settings.alerts.keep_s * 1000)
            try:
                self._store.prune(before_ms)
            except sqlite3.Error as error:
                _log.warning("alerts_not_pruned", reason=str(error))
            await self._clock.sleep(_PRUNE_EVERY_S)


def page_link(root: str, cluster: str, group: str) -> str:
    """Where the page shows a group; "" when the page's own address is not configured."""
    return f"{root.rstrip('/')}/?{urlencode({'group': group, 'of': cluster})}" if root else ""


def _is_narrow(snapshot: ClusterSnapshot, decided: Decided) -> bool:
    """Are its windows quickly read?"""
    number = decided.number
    return number is not None and int(snapshot.group.partition_count[number]) <= _NARROW


def _is_muted(rules: Iterable[MuteRule], cluster: str, group: str) -> bool:
    return any(rule.covers(cluster, group) for rule in rules)


def _starts_ms(rule: MuteRule) -> int | None:
    return getattr(rule.window, "starts_ms", None)


def _verdict(decided: Decided, cluster: str, queries: Queries, now_ms: int) -> Json:
    """All that is known; of a group that is gone, that it is."""
    try:
        return verdict_json(queries.verdict(cluster, decided.group, show_all=False))
    except NotFoundError:
        return {
            "cluster": cluster,
            "group": decided.group,
            "at_ms": now_ms,
            "status": GroupStatus.NOTFOUND.name,
            **dict.fromkeys(("rule", "complete", "partition_count", "total_lag", "time_lag_s")),
            **dict.fromkeys(("unknown_partitions", "time_lag_reason", "max_lag")),
            "owners": [],
            "partitions": [],
            "partitions_left_out": 0,
        }


def _window_curve(
    cluster: str, verdict: Json, queries: Queries
) -> tuple[tuple[tuple[int, int], ...], str] | None:
    """Lag at the commits in the window of the partition that lags most, and now."""
    worst = verdict.get("max_lag")
    if not worst:
        return None
    try:
        detail = queries.detail(cluster, verdict["group"])
        window = detail.topics[worst["topic"]][worst["partition"]].window
    except (NotFoundError, KeyError, IndexError):
        return None
    points = [(one.commit_ms, one.lag) for one in window if one is not None and one.lag is not None]
    if worst["current_lag"] is not None:
        points.append((verdict["at_ms"], worst["current_lag"]))
    points = [point for at, point in enumerate(points) if at == 0 or point[0] > points[at - 1][0]]
    return tuple(points), f"lag of {worst['topic']}/{worst['partition']}"


def _log_changes(cluster: str, changes: Sequence[Change]) -> None:
    """One line per incident; when there are many at once, one line for all and the rest quietly."""
    many = len(changes) > _LOGGED_INCIDENTS
    if many:
        reasons = Counter(change.decision.reason.value for change in changes)
        _log.info("incidents", cluster=cluster, incidents=len(changes), **reasons)
    write = _log.debug if many else _log.info
    for change in changes:
        incident = change.after.incident or change.before.incident
        write(
            "incident",
            cluster=cluster,
            group=change.group,
            incident=change.incident,
            act=change.decision.act.value,
            tell=change.decision.tell.value,
            reason=change.decision.reason.value,
            policy=change.policy,
            severity=level(incident.severity) if incident is not None else "",
        )


__all__ = ["AlertCounts", "Alerts"]

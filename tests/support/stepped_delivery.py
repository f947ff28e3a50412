"""A channel whose time passes only when a test says so; its receiver fails as the test decides."""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from lagwatch.core.incident import Act, Decision, Incident, NoticeEvent, Reason, State
from lagwatch.core.model import EpochMs, GroupStatus
from lagwatch.errors import NotifyError, Refusal
from lagwatch.notify.backoff import ChannelBackoff
from lagwatch.notify.channels.base import ChannelLimits
from lagwatch.notify.channels.webhook import WebhookSettings
from lagwatch.notify.database import Database
from lagwatch.notify.dispatch import Deliverer, Outlet
from lagwatch.notify.notice import Json, Message, Notice
from lagwatch.notify.outbox import Outbox
from lagwatch.notify.store import Change, IncidentStore, Listener

CHANNEL = "hook"


class SteppedClock:
    """Time passes only when a test says so."""

    def __init__(self) -> None:
        self.s = 0.0
        self.wall_ms = 1_800_000_000_000

    def now_ms(self) -> EpochMs:
        return EpochMs(self.wall_ms)

    def monotonic_s(self) -> float:
        return self.s

    async def sleep(self, delay_s: float) -> None:
        raise AssertionError(f"nothing sleeps {delay_s} s here")

    def pass_s(self, seconds: float) -> None:
        self.s += seconds
        self.wall_ms += round(seconds * 1000)


@dataclass
class Unsteady:
    """A receiver that keeps the last word about each group; `fails` decides about each attempt.

    A failure after the fact (the answer is lost) counts as heard.
    """

    fails: Callable[[], Exception | None]
    loses_answer: Callable[[], bool] = lambda: False
    word: dict[str, str] = field(default_factory=dict)
    heard: list[Message] = field(default_factory=list)
    attempts: int = 0
    limits: ChannelLimits = ChannelLimits()  # noqa: RUF009 it is frozen

    async def send(self, message: Message) -> str:
        self.attempts += 1
        error = self.fails()
        if error is not None and not self.loses_answer():
            raise error
        self.heard.append(message)
        for notice in message.notices:
            self.word[notice.group] = "ok" if notice.closing else notice.severity
        if error is not None:
            raise error
        return "fine"

    async def close(self) -> None:
        """Nothing is open."""


class World:
    """Incidents decided by a test, kept and delivered by the real parts."""

    def __init__(
        self,
        database: Database,
        receiver: Unsteady,
        limits: ChannelLimits,
        chance: random.Random,
        runner: asyncio.Runner,
        *,
        interval_s: float,
        per_minute: int,
    ) -> None:
        self._runner = runner
        self.clock = SteppedClock()
        self.database = database
        self.store = IncidentStore(database)
        self.outbox = Outbox(database)
        self.receiver = receiver
        self.state: dict[str, tuple[str, Incident]] = {}
        self._made = 0
        settings = WebhookSettings(url="http://127.0.0.1:1/", per_minute=per_minute)
        outlet = Outlet(
            name=CHANNEL,
            channel=receiver,
            settings=settings,
            wait_s=1.0,
            interval_s=interval_s,
            limits=limits,
        )
        self.outlet = outlet
        self.newest: dict[str, Json] = {}
        """How far behind each group is now."""
        self.deliverer = self._deliverer(ChannelBackoff(chance))

    def restart(self) -> None:
        """Another process goes on with the same file."""
        backoff = ChannelBackoff(random.Random(0))  # noqa: S311
        self.deliverer = self._deliverer(backoff)

    def _deliverer(self, backoff: ChannelBackoff) -> Deliverer:
        return Deliverer(
            self.outbox,
            self.outlet,
            self.clock,
            backoff,
            newest=lambda notice: self.newest.get(notice.group),
            open_of=lambda _: None,
        )

    @property
    def truth(self) -> dict[str, str]:
        words = {GroupStatus.WARN: "warning", GroupStatus.ERR: "error"}
        return {group: words[incident.severity] for group, (_, incident) in self.state.items()}

    def bad(self, group: str, severity: GroupStatus, *, since_at_least: bool = False) -> None:
        now_ms = self.clock.now_ms()
        known = self.state.get(group)
        if known is not None and known[1].severity is severity:
            return
        if known is None:
            self._made += 1
            identity, before = f"i{self._made}", None
            after = Incident(
                since_ms=now_ms,
                since_at_least=since_at_least,
                opened_ms=now_ms,
                severity=severity,
                notified=severity,
            )
            act, event, reason = Act.OPEN, NoticeEvent.OPEN, Reason.FIRST
        else:
            identity, before = known
            after = Incident(
                since_ms=before.since_ms,
                opened_ms=before.opened_ms,
                severity=severity,
                notified=severity,
            )
            worse = severity > before.severity
            act = Act.ESCALATE if worse else Act.DE_ESCALATE
            event = NoticeEvent.ESCALATE if worse else NoticeEvent.DE_ESCALATE
            reason = Reason.ESCALATED if worse else Reason.DE_ESCALATED
        self.state[group] = (identity, after)
        self._record(group, identity, before, after, Decision(act=act, event=event, reason=reason))

    def good(self, group: str) -> None:
        known = self.state.pop(group, None)
        if known is not None:
            decision = Decision(act=Act.CLOSE, event=NoticeEvent.CLOSE, reason=Reason.HEALED)
            self._record(group, known[0], known[1], None, decision)

    def bad_again(self, group: str) -> None:
        """It is bad soon after an end: that is not sent before it has lasted for a while."""
        now_ms = self.clock.now_ms()
        self._made += 1
        incident = Incident(since_ms=now_ms, opened_ms=now_ms, severity=GroupStatus.ERR)
        self.state[group] = (f"i{self._made}", incident)
        decision = Decision(act=Act.OPEN, reason=Reason.REOPENED_TOO_SOON)
        self._record(group, f"i{self._made}", None, incident, decision)

    def still_bad(self, group: str) -> None:
        """It has lasted."""
        identity, before = self.state[group]
        after = replace(before, notified=before.severity)
        self.state[group] = (identity, after)
        decision = Decision(event=NoticeEvent.OPEN, reason=Reason.STILL_OPEN)
        self._record(group, identity, before, after, decision)

    def remind(self, group: str) -> None:
        """It is bad still."""
        identity, incident = self.state[group]
        decision = Decision(event=NoticeEvent.REMIND, reason=Reason.REMINDER_DUE)
        self._record(group, identity, incident, incident, decision)

    def only_flapped(self, group: str) -> None:
        """It has not."""
        identity, before = self.state.pop(group)
        decision = Decision(act=Act.CLOSE, reason=Reason.NEVER_SENT)
        self._record(group, identity, before, None, decision)

    def deliver_for(self, seconds: float) -> None:
        """Let the deliverer work for so long."""
        end_s = self.clock.s + seconds
        while self.clock.s < end_s:
            pause_s = self._runner.run(self.deliverer.turn())
            self.clock.pass_s(min(pause_s or 0.02, max(0.001, end_s - self.clock.s)))

    def _record(
        self,
        group: str,
        identity: str,
        before: Incident | None,
        after: Incident | None,
        decision: Decision,
    ) -> None:
        incident = after or before
        assert incident is not None
        now_ms = self.clock.now_ms()
        notice = Notice(
            key="",
            incident=identity,
            event=decision.event,
            cluster="here",
            group=group,
            severity="error" if incident.severity is GroupStatus.ERR else "warning",
            reason=decision.reason.value,
            policy="all",
            since_ms=incident.since_ms,
            opened_ms=incident.opened_ms,
            at_ms=now_ms,
            url="",
            verdict={"rule": "stopped", "total_lag": 7},
        )
        change = Change(
            incident=identity,
            cluster="here",
            group=group,
            policy="all",
            before=State(incident=before),
            after=State(
                incident=after,
                held_back=decision.reason if decision.reason is Reason.REOPENED_TOO_SOON else None,
            ),
            decision=decision,
            complete=1.0,
            notice=notice,
            listeners=(Listener(channel=CHANNEL, threshold=GroupStatus.WARN),),
            as_burrow=False,
        )
        self.store.record([change], now_ms)


@contextmanager
def world(
    folder: Path,
    receiver: Unsteady,
    *,
    seed: int = 0,
    limits: ChannelLimits = ChannelLimits(),  # noqa: B008 it is frozen
    interval_s: float = 0.0,
    per_minute: int = 6000,
) -> Iterator[World]:
    chance = random.Random(seed)  # noqa: S311
    with (
        Database(folder / f"{seed}.sqlite", now_ms=0) as database,
        asyncio.Runner() as runner,
    ):
        yield World(
            *(database, receiver, limits, chance, runner),
            interval_s=interval_s,
            per_minute=per_minute,
        )


def down() -> NotifyError:
    return NotifyError(channel=CHANNEL, message="503", retryable=True)


def too_large() -> NotifyError:
    return NotifyError(channel=CHANNEL, message="413", retryable=False, refusal=Refusal.TOO_LARGE)

"""The last word a receiver hears about a group is true, however the receiver fails."""

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lagwatch.core.incident import Act, Decision, Incident, Reason, State, Tell
from lagwatch.core.model import EpochMs, GroupStatus
from lagwatch.errors import NotifyError, Refusal
from lagwatch.notify.backoff import ChannelBackoff
from lagwatch.notify.channels.base import Limits
from lagwatch.notify.channels.webhook import WebhookSettings
from lagwatch.notify.database import Database
from lagwatch.notify.dispatch import Deliverer, Outlet
from lagwatch.notify.notice import Message, Notice
from lagwatch.notify.outbox import Outbox
from lagwatch.notify.store import Change, IncidentStore, Listener
from lagwatch.notify.words import details

CHANNEL = "hook"
GROUPS = ("billing", "orders", "mail")


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

    fails: Callable[[], NotifyError | None]
    loses_answer: Callable[[], bool] = lambda: False
    word: dict[str, str] = field(default_factory=dict)
    heard: list[Message] = field(default_factory=list)
    attempts: int = 0
    limits: Limits = Limits()  # noqa: RUF009 it is frozen

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
        limits: Limits,
        chance: random.Random,
        runner: asyncio.Runner,
        *,
        interval_s: float,
    ) -> None:
        self._runner = runner
        self.clock = SteppedClock()
        self.database = database
        self.store = IncidentStore(database)
        self.outbox = Outbox(database)
        self.receiver = receiver
        self.state: dict[str, tuple[str, Incident]] = {}
        self._made = 0
        settings = WebhookSettings(url="http://127.0.0.1:1/", per_minute=6000)
        outlet = Outlet(
            name=CHANNEL,
            channel=receiver,
            settings=settings,
            wait_s=1.0,
            interval_s=interval_s,
            limits=limits,
        )
        self.deliverer = Deliverer(
            self.outbox,
            outlet,
            self.clock,
            ChannelBackoff(chance),
        )

    @property
    def truth(self) -> dict[str, str]:
        words = {GroupStatus.WARN: "warning", GroupStatus.ERR: "error"}
        return {group: words[incident.severity] for group, (_, incident) in self.state.items()}

    def bad(self, group: str, severity: GroupStatus) -> None:
        now_ms = self.clock.now_ms()
        known = self.state.get(group)
        if known is not None and known[1].severity is severity:
            return
        if known is None:
            self._made += 1
            identity, before = f"i{self._made}", None
            after = Incident(since_ms=now_ms, opened_ms=now_ms, severity=severity, told=severity)
            act, tell, reason = Act.OPEN, Tell.OPEN, Reason.FIRST
        else:
            identity, before = known
            after = Incident(
                since_ms=before.since_ms,
                opened_ms=before.opened_ms,
                severity=severity,
                told=severity,
            )
            worse = severity > before.severity
            act = Act.ESCALATE if worse else Act.DE_ESCALATE
            tell = Tell.ESCALATE if worse else Tell.DE_ESCALATE
            reason = Reason.ESCALATED if worse else Reason.DE_ESCALATED
        self.state[group] = (identity, after)
        self._record(group, identity, before, after, Decision(act=act, tell=tell, reason=reason))

    def good(self, group: str) -> None:
        known = self.state.pop(group, None)
        if known is not None:
            decision = Decision(act=Act.CLOSE, tell=Tell.CLOSE, reason=Reason.HEALED)
            self._record(group, known[0], known[1], None, decision)

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
            event=decision.tell,
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
            after=State(incident=after),
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
    limits: Limits = Limits(),  # noqa: B008 it is frozen
    interval_s: float = 0.0,
) -> Iterator[World]:
    chance = random.Random(seed)  # noqa: S311
    with (
        Database(folder / f"{seed}.sqlite", now_ms=0) as database,
        asyncio.Runner() as runner,
    ):
        yield World(database, receiver, limits, chance, runner, interval_s=interval_s)


def down() -> NotifyError:
    return NotifyError(channel=CHANNEL, message="503", retryable=True)


def too_large() -> NotifyError:
    return NotifyError(channel=CHANNEL, message="413", retryable=False, refusal=Refusal.TOO_LARGE)


REFUSALS = (
    down,
    lambda: NotifyError(channel=CHANNEL, message="429", retryable=True, retry_after_s=120),
    lambda: NotifyError(channel=CHANNEL, message="cut", retryable=True, refusal=Refusal.CUT),
    lambda: NotifyError(
        channel=CHANNEL, message="401", retryable=False, refusal=Refusal.NOT_ACCEPTED
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_after_an_outage_the_last_word_is_true(tmp_path, seed) -> None:
    chance = random.Random(seed)  # noqa: S311
    outage = {"on": False}
    refuse = chance.choice(REFUSALS)
    flaky = chance.choice([0.0, 0.3])

    def fails() -> NotifyError | None:
        bad = chance.random() < 0.9 if outage["on"] else chance.random() < flaky
        return refuse() if bad else None

    receiver = Unsteady(fails, loses_answer=lambda: chance.random() < 0.3)
    limits = Limits(most_notices=chance.choice([1, 2, 5000]))
    interval_s = chance.choice([0.0, 30.0])
    with world(tmp_path, receiver, seed=seed, limits=limits, interval_s=interval_s) as here:
        for _ in range(chance.randint(5, 25)):
            outage["on"] = chance.random() < 0.6
            group = chance.choice(GROUPS)
            chance.choice(
                [
                    lambda g=group: here.bad(g, GroupStatus.ERR),
                    lambda g=group: here.bad(g, GroupStatus.WARN),
                    lambda g=group: here.good(g),
                ]
            )()
            here.deliver_for(chance.choice([0.1, 2, 30, 200]))
        outage["on"], flaky = False, 0.0

        here.deliver_for(2000)

        expected = {group: here.truth.get(group, "ok") for group in receiver.word}
        assert receiver.word == expected
        assert here.truth.keys() <= receiver.word.keys()
        assert here.outbox.depth(CHANNEL) == (0, 0)


def test_a_stale_end_is_never_replayed_after_a_newer_error(tmp_path) -> None:
    away = {"on": True}
    receiver = Unsteady(lambda: down() if away["on"] else None)
    with world(tmp_path, receiver) as here:
        here.bad("billing", GroupStatus.ERR)
        here.deliver_for(30)
        here.good("billing")
        here.deliver_for(30)
        here.bad("billing", GroupStatus.ERR)
        here.deliver_for(60)
        away["on"] = False

        here.deliver_for(400)

        (message,) = receiver.heard
        (notice,) = message.notices
        assert (notice.event, notice.incident) == (Tell.OPEN, "i2")
        (earlier,) = notice.earlier
        assert (earlier.incident, earlier.heard) == ("i1", False)
        assert earlier.ended_ms is not None
        assert earlier.ended_ms - earlier.since_ms == 30_000


def test_every_attempt_of_a_message_is_the_same_until_it_is_overtaken(tmp_path) -> None:
    seen: list[Message] = []
    failures = iter([down(), down(), None])

    class Watching(Unsteady):
        async def send(self, message: Message) -> str:
            seen.append(message)
            return await super().send(message)

    with world(tmp_path, Watching(lambda: next(failures, None))) as here:
        here.bad("billing", GroupStatus.WARN)
        here.deliver_for(20)

    assert len(seen) == 3
    assert {row.id for row in seen} == {seen[0].id}
    assert [row.notices for row in seen] == [seen[0].notices] * 3


def test_news_of_one_group_does_not_wait_for_anothers_poison(tmp_path) -> None:
    def wrong() -> NotifyError:
        return NotifyError(channel=CHANNEL, message="400", retryable=False)

    class Picky(Unsteady):
        async def send(self, message: Message) -> str:
            if any(notice.group == "mail" for notice in message.notices):
                raise wrong()
            return await super().send(message)

    receiver = Picky(lambda: None)
    with world(tmp_path, receiver) as here:
        for group in GROUPS:
            here.bad(group, GroupStatus.ERR)

        here.deliver_for(60)

        assert receiver.word == {"billing": "error", "orders": "error"}
        assert here.outbox.depth(CHANNEL) == (0, 1)


def test_a_message_that_is_too_large_is_split_until_it_fits(tmp_path) -> None:
    class Small(Unsteady):
        async def send(self, message: Message) -> str:
            if len(message.notices) > 3:
                raise too_large()
            return await super().send(message)

    receiver = Small(lambda: None)
    with world(tmp_path, receiver) as here:
        groups = [f"g{number}" for number in range(50)]
        for group in groups:
            here.bad(group, GroupStatus.ERR)

        here.deliver_for(60)

        assert set(receiver.word) == set(groups)
        assert here.outbox.depth(CHANNEL) == (0, 0)
        keys = [notice.key for message in receiver.heard for notice in message.notices]
        assert len(keys) == len(set(keys)) == 50


def test_a_receiver_that_finds_everything_too_large_for_a_while_loses_nothing(tmp_path) -> None:
    answers = iter([too_large()] * 12)
    receiver = Unsteady(lambda: next(answers, None))
    with world(tmp_path, receiver) as here:
        for group in ("billing", "orders"):
            here.bad(group, GroupStatus.ERR)

        here.deliver_for(10_000)

        assert receiver.word == {"billing": "error", "orders": "error"}
        assert here.outbox.depth(CHANNEL) == (0, 0)


def test_a_receiver_that_wants_credentials_is_tried_until_it_is_given_up(tmp_path) -> None:
    receiver = Unsteady(REFUSALS[3])
    with world(tmp_path, receiver) as here:
        here.bad("billing", GroupStatus.ERR)

        here.deliver_for(80_000)
        before = here.outbox.depth(CHANNEL)
        here.deliver_for(20_000)

        assert before == (1, 0)
        assert here.outbox.depth(CHANNEL) == (0, 1)
        assert receiver.attempts < 250, "it is tried slowly"


def test_news_that_waits_survives_a_clock_set_back(tmp_path) -> None:
    failures = iter([down()])
    receiver = Unsteady(lambda: next(failures, None))
    with world(tmp_path, receiver) as here:
        here.bad("billing", GroupStatus.ERR)
        here.deliver_for(1.2)
        here.clock.wall_ms -= 3_600_000

        here.deliver_for(5)

        assert receiver.word == {"billing": "error"}


@pytest.mark.slow
def test_a_day_of_storms_costs_few_bytes_per_incident(tmp_path) -> None:
    groups = [f"consumer-group-{number:04}" for number in range(60)]
    with world(tmp_path, Unsteady(lambda: None)) as here:
        for _ in range(24):
            for group in groups:
                here.bad(group, GroupStatus.ERR)
            here.deliver_for(10)
            for group in groups:
                here.good(group)
            here.deliver_for(10)
        (pages,) = here.database.connection.execute("PRAGMA page_count").fetchone()
        (free,) = here.database.connection.execute("PRAGMA freelist_count").fetchone()
        payloads = here.database.connection.execute("SELECT count(*) FROM payloads").fetchone()[0]

    # 72,000 incidents, as of 3,000 groups in a day of hourly failures, make less than 50 MB
    assert payloads == 0
    assert (pages - free - 40) * 4096 / (24 * len(groups)) < 650


def test_a_warning_never_goes_out_as_an_error(tmp_path) -> None:
    receiver = Unsteady(lambda: None)
    with world(tmp_path, receiver, limits=Limits(one_severity=True)) as here:
        here.bad("billing", GroupStatus.ERR)
        here.bad("orders", GroupStatus.WARN)
        here.bad("mail", GroupStatus.ERR)
        here.deliver_for(10)

    groups = {m.severity: {n.group for n in m.notices} for m in receiver.heard}
    assert groups == {"error": {"billing", "mail"}, "warning": {"orders"}}


def test_a_notice_holds_few_of_the_incidents_that_a_channel_missed(tmp_path) -> None:
    away = {"on": False}
    receiver = Unsteady(lambda: down() if away["on"] else None)
    with world(tmp_path, receiver) as here:
        here.bad("billing", GroupStatus.ERR)
        here.deliver_for(30)
        away["on"] = True
        for _ in range(200):
            here.good("billing")
            here.deliver_for(60)
            here.bad("billing", GroupStatus.ERR)
            here.deliver_for(60)
        away["on"] = False
        here.deliver_for(2000)

        (notice,) = receiver.heard[-1].notices
        assert (notice.event, notice.incident) == (Tell.OPEN, "i201")
        assert notice.earlier[0].heard
        assert [one.incident for one in notice.earlier[-2:]] == ["i199", "i200"]
        assert len(notice.earlier) + notice.earlier_left_out == 200
        assert len(json.dumps(notice.as_json())) < 20_000
        assert list(details(notice))[-1] == "… and 195 incidents before that."
        assert here.outbox.depth(CHANNEL) == (0, 0)


def test_what_overtakes_is_found_without_a_look_at_every_incident_for_each(tmp_path) -> None:
    def steps(groups: int) -> int:
        receiver = Unsteady(down)
        with world(tmp_path, receiver, seed=groups) as here:
            for _ in range(4):
                for number in range(groups):
                    here.bad(f"g{number}", GroupStatus.ERR)
                here.deliver_for(1.5)
                for number in range(groups):
                    here.good(f"g{number}")
            counted = [0]
            connection = here.database.connection
            connection.set_progress_handler(lambda: counted.__setitem__(0, counted[0] + 1), 100)
            here.outbox.sealed(CHANNEL)
            connection.set_progress_handler(None, 0)
            return counted[0]

    assert steps(400) < 16 * steps(50)  # eight times as many groups


def test_a_rolling_failure_makes_few_messages_and_the_first_at_once(tmp_path) -> None:
    receiver = Unsteady(lambda: None)
    with world(tmp_path, receiver, interval_s=30.0) as here:
        groups = [f"g{number:02}" for number in range(30)]
        here.bad(groups[0], GroupStatus.ERR)
        here.deliver_for(1.5)
        first = len(receiver.heard)
        for group in groups[1:]:
            here.bad(group, GroupStatus.ERR)
            here.deliver_for(5)
        here.deliver_for(60)

        assert first == 1
        assert set(receiver.word) == set(groups)
        assert len(receiver.heard) <= 8


@pytest.mark.slow
def test_five_thousand_incidents_pass_a_receiver_that_takes_few_at_once(tmp_path) -> None:
    largest = 200

    class Small(Unsteady):
        async def send(self, message: Message) -> str:
            if len(message.notices) > largest:
                raise too_large()
            return await super().send(message)

    receiver = Small(lambda: None)
    with world(tmp_path, receiver) as here:
        for number in range(5000):
            here.bad(f"g{number:04}", GroupStatus.ERR)

        here.deliver_for(120)

        assert len(receiver.word) == 5000
        assert here.outbox.depth(CHANNEL) == (0, 0)

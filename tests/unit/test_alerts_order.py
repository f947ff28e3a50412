"""The last word a receiver hears about a group is true, however the receiver fails."""

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from lagwatch.core.incident import NoticeEvent
from lagwatch.core.model import GroupStatus
from lagwatch.errors import NotifyError, Refusal
from lagwatch.notify.channels.base import ChannelLimits
from lagwatch.notify.notice import Message
from lagwatch.notify.records import AlertRecords
from lagwatch.notify.words import details
from lagwatch.ports.alerts import IncidentAsk
from tests.support.stepped_delivery import CHANNEL, Unsteady, World, down, too_large, world

GROUPS = ("billing", "orders", "mail")


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
    limits = ChannelLimits(most_notices=chance.choice([1, 2, 5000]))
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
        assert (notice.event, notice.incident) == (NoticeEvent.OPEN, "i2")
        (earlier,) = notice.earlier
        assert (earlier.incident, earlier.heard) == ("i1", False)
        assert earlier.ended_ms is not None
        assert earlier.ended_ms - earlier.since_ms == 30_000


@pytest.mark.parametrize("lasts", [True, False])
def test_an_end_that_waits_is_not_sent_while_the_group_is_bad_again(tmp_path, *, lasts) -> None:
    away = {"on": True}
    receiver = Unsteady(lambda: down() if away["on"] else None)
    with world(tmp_path, receiver) as here:
        here.bad("billing", GroupStatus.ERR)
        here.bad("orders", GroupStatus.ERR)
        here.deliver_for(30)
        here.good("billing")
        here.good("orders")
        here.deliver_for(30)
        here.bad_again("billing")
        away["on"] = False
        here.deliver_for(400)
        meanwhile = dict(receiver.word)
        if lasts:
            here.still_bad("billing")
        else:
            here.only_flapped("billing")
        here.deliver_for(30)

        assert meanwhile == {"orders": "ok"}
        assert receiver.word == {"orders": "ok", "billing": "error" if lasts else "ok"}
        assert here.outbox.depth(CHANNEL) == (0, 0)


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
        assert here.outbox.depth(CHANNEL) == (1, 0)


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


def test_the_size_that_a_receiver_refuses_is_remembered_and_costs_no_allowance(tmp_path) -> None:
    class Small(Unsteady):
        refused = 0

        async def send(self, message: Message) -> str:
            if len(message.notices) > 9:
                self.refused += 1
                raise too_large()
            return await super().send(message)

    receiver = Small(lambda: None)
    with world(tmp_path, receiver, per_minute=30) as here:
        for number in range(120):
            here.bad(f"g{number}", GroupStatus.ERR)
        here.deliver_for(10)
        first = receiver.refused
        assert len(receiver.word) == 120
        here.deliver_for(60)
        for number in range(120):
            here.good(f"g{number}")

        here.deliver_for(10)

        assert set(receiver.word.values()) == {"ok"}
        assert first <= 4, "120, 60, 30 and 15"
        assert receiver.refused <= first + 1


def test_an_error_goes_before_ends_and_warnings_of_other_groups_that_wait(tmp_path) -> None:
    receiver = Unsteady(lambda: None)
    limits = ChannelLimits(most_notices=5)
    with world(tmp_path, receiver, limits=limits, per_minute=6) as here:
        for number in range(60):
            here.bad(f"g{number}", GroupStatus.WARN)
        here.deliver_for(300)
        for number in range(60):
            here.good(f"g{number}")
        here.bad("late", GroupStatus.WARN)
        here.deliver_for(1.5)
        here.bad("billing", GroupStatus.ERR)
        here.bad("late", GroupStatus.ERR)

        here.deliver_for(22)

        assert (receiver.word.get("billing"), receiver.word.get("late")) == ("error", "error")
        here.deliver_for(200)
        assert receiver.word == {f"g{number}": "ok" for number in range(60)} | here.truth


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


def test_a_receiver_whose_address_is_wrong_after_an_outage_is_tried_again_soon(tmp_path) -> None:
    answers: list[NotifyError | None] = [*(down() for _ in range(10)), REFUSALS[3]()]
    receiver = Unsteady(lambda: answers.pop(0) if answers else None)
    with world(tmp_path, receiver) as here:
        here.bad("billing", GroupStatus.ERR)
        while len(answers) > 1:
            here.deliver_for(1)
        while answers:
            here.deliver_for(1)

        here.deliver_for(31)

        assert receiver.word == {"billing": "error"}


def test_news_is_given_up_for_its_own_age_and_not_for_that_of_older_news(tmp_path) -> None:
    day_s = 86_400  # after which a message is given up
    outage = {"on": True}
    receiver = Unsteady(lambda: down() if outage["on"] else None)
    with world(tmp_path, receiver) as here:
        here.bad("billing", GroupStatus.ERR)
        here.deliver_for(day_s + 3600)
        given_up = here.outbox.depth(CHANNEL)
        here.clock.pass_s(2 * day_s)  # nothing is tried: nothing waits
        here.bad("orders", GroupStatus.ERR)
        here.deliver_for(day_s - 3600)
        here.bad("mail", GroupStatus.ERR)
        here.good("orders")
        here.bad("orders", GroupStatus.ERR)
        here.deliver_for(2 * 3600)
        waits = here.outbox.depth(CHANNEL)
        outage["on"] = False
        here.deliver_for(3600)

    assert given_up == (0, 1)
    assert waits[1] == 1, "only what was given up before"
    assert receiver.word == {"orders": "error", "mail": "error"}


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
    with world(tmp_path, receiver, limits=ChannelLimits(one_severity=True)) as here:
        here.bad("billing", GroupStatus.ERR)
        here.bad("orders", GroupStatus.WARN)
        here.bad("mail", GroupStatus.ERR)
        here.deliver_for(10)

    groups = {m.severity: {n.group for n in m.notices} for m in receiver.heard}
    assert groups == {"error": {"billing", "mail"}, "warning": {"orders"}}


@pytest.mark.slow
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
        assert (notice.event, notice.incident) == (NoticeEvent.OPEN, "i201")
        assert notice.earlier[0].heard
        assert [each.incident for each in notice.earlier[-2:]] == ["i199", "i200"]
        assert len(notice.earlier) + notice.earlier_left_out == 200
        assert len(json.dumps(notice.as_json())) < 20_000
        assert list(details(notice))[-1] == "… and 195 incidents before that."
        assert here.outbox.depth(CHANNEL) == (0, 0)


@pytest.mark.slow
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


class _Refuses(Unsteady):
    """Refuses the ends of incidents for good while `on`."""

    on = True

    async def send(self, message: Message) -> str:
        if self.on and message.closing:
            raise NotifyError(channel=CHANNEL, message="400", retryable=False)
        return await super().send(message)


@contextmanager
def _end_given_up(folder: Path, receiver: _Refuses) -> Iterator[World]:
    """The end of the first incident of `billing`, which the receiver heard of, is given up."""
    with world(folder, receiver) as here:
        here.bad("billing", GroupStatus.ERR)
        here.deliver_for(10)
        here.good("billing")
        here.deliver_for(2 * 86_400)
        assert here.outbox.depth(CHANNEL) == (0, 1)
        yield here


def test_an_end_that_was_given_up_goes_along_with_the_next_news_of_its_group(tmp_path) -> None:
    receiver = _Refuses(lambda: None)
    with _end_given_up(tmp_path, receiver) as here:
        here.bad("billing", GroupStatus.WARN)

        here.deliver_for(10)

        (notice,) = receiver.heard[-1].notices
        assert [(each.incident, each.heard) for each in notice.earlier] == [("i1", True)]
        assert receiver.word == here.truth
        assert here.outbox.depth(CHANNEL) == (0, 0)


@pytest.mark.parametrize("closed", [False, True])
def test_a_retry_keeps_the_end_of_an_incident_that_a_later_one_overtook(
    tmp_path, *, closed
) -> None:
    """As files of earlier versions hold it: given up, while the later incident was delivered."""
    receiver = _Refuses(lambda: None)
    with _end_given_up(tmp_path, receiver) as here:
        here.database.write(lambda c: c.execute("UPDATE notices SET state = 'away'"))
        here.bad("billing", GroupStatus.WARN)
        here.deliver_for(10)
        receiver.on = False
        if closed:
            here.good("billing")
            here.deliver_for(10)
        here.database.write(
            lambda c: c.execute("UPDATE notices SET state = 'dead' WHERE state = 'away'")
        )

        queued = AlertRecords(here.database).retry_channel(CHANNEL)
        here.deliver_for(100)

        assert queued == 1
        assert receiver.word == here.truth or closed
        here.good("billing")
        here.deliver_for(100)
        ends = [n for m in receiver.heard if m.closing for n in m.notices]
        ended = {n.incident for n in ends} | {e.incident for n in ends for e in n.earlier}
        assert ended == {"i1", "i2"}
        assert receiver.word == {"billing": "ok"}
        assert here.outbox.depth(CHANNEL) == (0, 0)


@pytest.mark.parametrize("odd", ["severity = 77", "summary = 'not json'", "summary = '[1]'"])
def test_an_incident_that_cannot_be_read_is_named_and_left_out(tmp_path, odd) -> None:
    with world(tmp_path, Unsteady(lambda: None)) as here:
        for group in ("billing", "orders"):
            here.bad(group, GroupStatus.ERR)
        here.database.write(
            lambda c: c.execute(f"UPDATE incidents SET {odd} WHERE name = 'billing'")  # noqa: S608 fixed
        )
        records = AlertRecords(here.database)

        with capture_logs() as logs:
            pages = [records.incidents(IncidentAsk())[0] for _ in range(2)]

        assert [[each.group for each in page] for page in pages] == [["orders"]] * 2
        assert [each["group"] for each in logs] == ["billing"], "once"


@pytest.mark.parametrize("tried", [False, True])
def test_the_first_message_about_an_incident_is_no_reminder(tmp_path, tried) -> None:
    away = {"on": True}
    receiver = Unsteady(lambda: down() if away["on"] else None)
    with world(tmp_path, receiver) as here:
        here.bad("orders", GroupStatus.ERR)
        here.deliver_for(30)
        here.bad("billing", GroupStatus.ERR)
        here.deliver_for(300 if tried else 0)
        here.remind("billing")
        away["on"] = False

        here.deliver_for(400)

    (notice,) = (n for m in receiver.heard for n in m.notices if n.group == "billing")
    assert (notice.event, notice.reason) == (NoticeEvent.OPEN, "first")

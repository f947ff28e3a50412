"""One notice that a receiver always fails on delays no other; a receiver that is down is spared."""

from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from lagwatch.core.model import GroupStatus
from lagwatch.errors import NotifyError, Refusal
from lagwatch.notify.channels.http import refusal
from lagwatch.notify.notice import Message
from tests.support.stepped_delivery import CHANNEL, Unsteady, down, too_large, world


def broken() -> NotifyError:
    return NotifyError(channel=CHANNEL, message="500", retryable=True, refusal=refusal(500))


def refused() -> NotifyError:
    return NotifyError(channel=CHANNEL, message="400", retryable=False, refusal=refusal(400))


def odd() -> ValueError:
    return ValueError("year 287168 is out of range")


class Allergic(Unsteady):
    """Always fails on messages that hold certain groups."""

    poison: tuple[str, ...] = ("poison",)
    error: Callable[[], Exception] = staticmethod(broken)

    async def send(self, message: Message) -> str:
        if any(notice.group in self.poison for notice in message.notices):
            self.attempts += 1
            raise self.error()
        return await super().send(message)


@pytest.mark.parametrize("error", [broken, too_large])
@pytest.mark.parametrize("poison", [("g7",), ("g0", "g31")])
def test_a_batch_that_holds_a_poisoned_notice_is_delivered_but_for_it(
    tmp_path, error, poison
) -> None:
    receiver = Allergic(lambda: None)
    receiver.error, receiver.poison = error, poison
    with world(tmp_path, receiver) as here:
        for number in range(40):
            here.bad(f"g{number}", GroupStatus.ERR)

        here.deliver_for(180)

        assert len(receiver.word) == 40 - len(poison)
        assert here.outbox.depth(CHANNEL) == (len(poison), 0)
        counts = here.outlet.counts
        assert counts.failing_since_ms is not None, "what is not delivered alarms"
        assert counts.last_error == str(error())


@pytest.mark.parametrize("error", [broken, too_large])
def test_later_news_does_not_wait_for_a_poisoned_notice(tmp_path, error) -> None:
    receiver = Allergic(lambda: None)
    receiver.error = error
    with world(tmp_path, receiver) as here:
        here.bad("poison", GroupStatus.ERR)
        here.deliver_for(1200)
        for group in ("first", "second", "third"):
            here.bad(group, GroupStatus.ERR)

            here.deliver_for(3)

            assert receiver.word.get(group) == "error"
        tries = receiver.attempts
        here.deliver_for(4 * 3600)
        assert receiver.attempts - tries <= 40, "it is retried slowly"


def test_a_poisoned_notice_is_delivered_once_it_is_accepted_and_the_alarm_ends(tmp_path) -> None:
    receiver = Allergic(lambda: None)
    with world(tmp_path, receiver) as here:
        for group in ("poison", "billing"):
            here.bad(group, GroupStatus.ERR)
        here.deliver_for(600)
        receiver.poison = ()

        here.deliver_for(900)

        assert receiver.word == {"poison": "error", "billing": "error"}
        assert here.outlet.counts.failing_since_ms is None


def test_later_news_of_the_poisoned_group_itself_keeps_its_order(tmp_path) -> None:
    receiver = Allergic(lambda: None)
    with world(tmp_path, receiver) as here:
        for group in ("poison", "billing"):
            here.bad(group, GroupStatus.ERR)
        here.deliver_for(300)
        here.good("poison")
        here.bad("poison", GroupStatus.WARN)
        here.deliver_for(60)
        receiver.poison = ()

        here.deliver_for(900)

        assert receiver.word["poison"] == "warning"
        heard = [notice for message in receiver.heard for notice in message.notices]
        assert [notice.group for notice in heard].count("poison") == 1


def test_a_receiver_that_is_down_gets_few_requests_and_few_messages_afterwards(tmp_path) -> None:
    away = {"on": True}
    receiver = Unsteady(lambda: broken() if away["on"] else None)
    with world(tmp_path, receiver) as here:
        for number in range(200):
            here.bad(f"g{number}", GroupStatus.ERR)
        here.deliver_for(3600)
        tries = receiver.attempts
        away["on"] = False

        here.deliver_for(600)

        # 9 attempts up to the longest pause, then one each 150 to 300 s
        assert tries <= 9 + 3600 / 150
        assert len(receiver.word) == 200
        assert len(receiver.heard) <= 8


def test_a_receiver_that_is_down_gets_no_request_for_each_notice_that_comes(tmp_path) -> None:
    receiver = Unsteady(broken)
    with world(tmp_path, receiver) as here:
        for number in range(360):
            here.bad(f"g{number}", GroupStatus.ERR)
            here.deliver_for(10)

        assert receiver.attempts <= 9 + 3600 / 150 + 1


def test_a_receiver_that_answers_at_random_gets_everything(tmp_path) -> None:
    answers = iter(([broken(), None, broken(), broken(), None] * 2000)[1:])
    receiver = Unsteady(lambda: next(answers))
    with world(tmp_path, receiver) as here:
        for number in range(100):
            here.bad(f"g{number}", GroupStatus.ERR)
            here.deliver_for(20)

        here.deliver_for(600)

        assert receiver.word == here.truth
        assert here.outbox.depth(CHANNEL) == (0, 0)


@pytest.mark.parametrize("left_s", [0, 100])
def test_a_restart_heeds_what_the_receiver_asked_for(tmp_path, left_s) -> None:
    asked = iter([NotifyError(channel=CHANNEL, message="429", retryable=True, retry_after_s=600)])
    receiver = Unsteady(lambda: next(asked, None))
    with world(tmp_path, receiver) as here:
        here.bad("billing", GroupStatus.ERR)
        here.deliver_for(600 - left_s)
        here.restart()

        here.deliver_for(90)

        assert len(receiver.heard) == (0 if left_s else 1)
        here.deliver_for(30)
        assert len(receiver.heard) == 1
        assert here.outbox.paused_until_ms(CHANNEL) is None


def test_an_answer_of_the_kind_5xx_may_be_due_to_the_message_and_429_is_not() -> None:
    assert {refusal(status) for status in (500, 502, 503)} == {Refusal.FAILED}
    assert refusal(429) is Refusal.UNAVAILABLE
    assert down().refusal is Refusal.UNAVAILABLE


@pytest.mark.parametrize("lasts_s", [20, 3600])
def test_a_receiver_that_refuses_everything_for_a_while_gets_everything(tmp_path, lasts_s) -> None:
    wrong = {"on": True}
    receiver = Unsteady(lambda: refused() if wrong["on"] else None)
    with world(tmp_path, receiver) as here:
        for group in ("billing", "orders", "mail"):
            here.bad(group, GroupStatus.ERR)
            here.deliver_for(lasts_s / 3)
        tries = receiver.attempts
        wrong["on"] = False
        here.bad("news", GroupStatus.ERR)

        here.deliver_for(30)

        assert receiver.word == here.truth
        assert here.outbox.depth(CHANNEL) == (0, 0)
        assert here.outlet.counts.failing_since_ms is None
        assert tries < 100, "it is tried more and more slowly"


def test_what_is_refused_while_others_pass_holds_up_none_and_is_given_up_in_minutes(
    tmp_path,
) -> None:
    receiver = Allergic(lambda: None)
    receiver.error = refused
    with world(tmp_path, receiver) as here:
        for number in range(40):
            here.bad(f"g{number}", GroupStatus.ERR)
        here.bad("poison", GroupStatus.ERR)
        here.deliver_for(60)
        soon = here.outbox.depth(CHANNEL)
        here.bad("billing", GroupStatus.ERR)
        here.deliver_for(3)
        assert here.truth.keys() - receiver.word.keys() == {"poison"}

        here.deliver_for(900)

        assert soon == (1, 0), "a few tries take longer"
        assert here.outbox.depth(CHANNEL) == (0, 1)


@pytest.mark.parametrize("poison", [("g7",), ("g0", "g31")])
def test_a_notice_that_cannot_be_written_is_given_up_at_once_and_blames_no_receiver(
    tmp_path, poison
) -> None:
    receiver = Allergic(lambda: None)
    receiver.error, receiver.poison = odd, poison
    with world(tmp_path, receiver) as here, capture_logs() as logs:
        for number in range(40):
            here.bad(f"g{number}", GroupStatus.ERR)

        here.deliver_for(5)

        assert len(receiver.word) == 40 - len(poison)
        assert here.outbox.depth(CHANNEL) == (0, len(poison))
        counts = here.outlet.counts
        assert (counts.failing_since_ms, counts.last_error, counts.failed) == (None, "", 0)
        assert counts.dead == len(poison)
    named = [log for log in logs if log["event"] == "notice_not_written"]
    assert {log["group"] for log in named} == {*poison}
    assert {log["reason"] for log in named} == {
        "cannot be written: ValueError: year 287168 is out of range"
    }


def test_a_library_that_cannot_reach_the_receiver_is_tried_again(tmp_path) -> None:
    answers = iter([ConnectionResetError("gone"), None])
    receiver = Unsteady(lambda: next(answers))
    with world(tmp_path, receiver) as here:
        here.bad("billing", GroupStatus.ERR)

        here.deliver_for(10)

        assert receiver.word == {"billing": "error"}
        assert here.outbox.depth(CHANNEL) == (0, 0)

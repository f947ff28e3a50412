"""What is remembered of messages that were accepted in part."""

from lagwatch.notify.channels.accepted import Accepted


def test_each_request_about_a_notice_is_remembered_until_its_message_is_delivered() -> None:
    accepted = Accepted()
    accepted.add(["a", "b"], "trigger")
    accepted.add(["a"], "resolve")

    accepted.forget(["a", "never seen"])

    assert accepted.has("b", "trigger")
    assert not accepted.has("b", "resolve")
    assert not accepted.has("a", "trigger")
    assert not accepted.has("a", "resolve")


def test_the_oldest_notices_are_forgotten_beyond_the_limit() -> None:
    accepted = Accepted()

    accepted.add(map(str, range(20_001)))

    assert not accepted.has("0")
    assert accepted.has("1")
    assert accepted.has("20000")

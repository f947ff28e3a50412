"""What of a message fits into a service of Apprise."""

from dataclasses import replace

import apprise
import pytest

from lagwatch.notify.channels.service_room import Room, room_of
from lagwatch.notify.message_words import body, overview, subject
from lagwatch.notify.notice import Message, ReportMessage
from tests.support.alert_situations import situations

pytestmark = pytest.mark.filterwarnings(  # Apprise's
    "ignore:'imghdr' is deprecated:DeprecationWarning"
)

LONG = "payment-service-consumer-of-invoices-and-orders"
SITUATIONS = situations()


def storm(groups: int) -> Message:
    message = SITUATIONS["stopped"]
    first = message.notices[0]
    return replace(
        message,
        notices=tuple(replace(first, group=f"{LONG}-{number:04}") for number in range(groups)),
    )


def room(url: str) -> Room:
    services = apprise.Apprise()
    assert services.add(url)
    return room_of(services[0])


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("discord://1234567890/abcdefghijk", Room(title=250, body=2000, together=True)),
        (f"pover://{'u' * 30}@{'t' * 30}", Room(title=250, body=1024, together=False)),
        ("rocket://abc/def@host/#c?mode=webhook", Room(title=250, body=1000, together=True)),
        ("ntfy://topic", Room(title=200, body=4000, together=True)),
        ("json://host", Room(title=250, body=4000, together=False)),
        ("json://host/?overflow=truncate", Room(title=250, body=4000, together=False)),
        ("discord://1234567890/abcdefghijk?overflow=split", Room()),
    ],
)
def test_the_room_of_a_service_is_that_of_its_plugin(url: str, expected: Room) -> None:
    assert room(url) == expected


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("characters", [4000, 2000, 1024, 280, 160, 67, 1])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_message_fits_whatever_the_room(
    situation: str, characters: int, *, together: bool
) -> None:
    message = SITUATIONS[situation]
    long = tuple(
        replace(notice, group="g" * 4000, cluster="cluster-" + "x" * 300)
        for notice in message.notices
    )

    for each in (message, replace(message, notices=long)):
        title, text = Room(title=100, body=characters, together=together).message(each)

        assert 0 < len(title) <= 100
        assert len(text) + (len(title) if together else 0) <= characters


def test_what_is_left_out_is_counted_and_the_link_is_kept() -> None:
    message = storm(400)

    title, text = Room(body=2000, together=True).message(message)

    assert 1600 < len(title) + len(text) <= 1998
    lines = text.split("\n")
    shown = sum(LONG in line for line in lines)
    assert f"… and {400 - shown} more" in "\n".join(lines).replace("• ", "")
    assert lines[-1] == overview(message)


def test_a_text_message_has_the_subject_and_the_link() -> None:
    message = SITUATIONS["stopped"]
    link = overview(message)
    assert 0 < len(link) < 80

    title, text = Room(body=160, together=True).message(message)

    assert title.removesuffix("…") in subject(message)
    assert text.endswith(link)
    assert len(title) + 2 + len(text) <= 160


def test_where_there_is_room_nothing_is_cut() -> None:
    message = SITUATIONS["stopped"]

    assert Room().message(message) == (subject(message), body(message, 4000))


def test_a_report_is_cut_as_well() -> None:
    report = ReportMessage(id="r", at_ms=0, subject="s" * 500, text="t" * 9000)

    title, text = Room(body=2000, together=True).report(report)

    assert (len(title), len(title) + 2 + len(text)) == (250, 2000)

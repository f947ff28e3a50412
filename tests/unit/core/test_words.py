"""Numbers in sentences."""

import pytest

from lagwatch.core.words import counted, duration, fill


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.04, "0 s"),
        (1.25, "1.3 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min"),
        (60, "1 min"),
        (570, "9 min 30 s"),
        (3600, "1 h"),
        (3661, "1 h 1 min"),
        (86_400, "1 d"),
        (90_000, "1 d 1 h"),
    ],
)
def test_a_duration_has_its_two_greatest_units(seconds, words) -> None:
    assert duration(seconds) == words


def test_one_message_is_not_messages() -> None:
    assert [counted(number, "message") for number in (0, 1, 1200)] == [
        "0 messages",
        "1 message",
        "1,200 messages",
    ]


@pytest.mark.parametrize(
    ("sentence", "value", "words"),
    [
        ("{x}", 1200, "1,200"),
        ("{x:message}", 1, "1 message"),
        ("{x:span}", 90_000, "1 min 30 s"),
        ("{x:members}", "empty", "the group has no members"),
        ("{x}", "as it is", "as it is"),
    ],
)
def test_a_value_takes_the_form_that_is_asked_for(sentence, value, words) -> None:
    assert fill(sentence, {"x": value}) == words


@pytest.mark.parametrize("numbers", [{}, {"x": None}])
def test_what_is_unknown_is_said_to_be_so_and_never_0(numbers) -> None:
    said = fill("{x}, {x:message}, {x:span}; {x:members}", numbers)

    assert said == (
        "unknown, an unknown number of messages, an unknown time; its members are not known"
    )

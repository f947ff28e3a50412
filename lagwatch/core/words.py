"""Numbers in words, and sentences with numbers in them: the same wherever people read them."""

import re
from collections.abc import Mapping, Sequence
from math import floor
from typing import Final

Evidence = dict[str, int | float | str | None]
Numbers = Mapping[str, int | float | str | None]
"""Evidence of a verdict by name; None is unknown."""

_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400

LONGEST_GROUP: Final = 500
"""Characters of a name. Kafka sets no bound; who may commit could fill memory and metrics."""
LAST_MS: Final = 253_402_000_000_000
"""The last instant that has a date, in the year 9999 whatever the time zone."""
DELETED: Final = "deleted before the group read them"
"""So ends the sentence about a limit of lost messages that is missed."""


def duration(seconds: float) -> str:
    """A length of time with its two greatest units: `9 min 30 s`."""
    rounded = floor(seconds * 10 + 0.5) / 10  # rounds halves up, as the page does in words.js
    if rounded < _MINUTE_S:
        return f"{rounded:.1f} s" if rounded % 1 else f"{rounded:.0f} s"
    whole = int(rounded)
    for unit_s, unit, part_s, part in _UNITS:
        if whole >= unit_s:
            rest = whole % unit_s // part_s
            return (
                f"{whole // unit_s} {unit} {rest} {part}" if rest else f"{whole // unit_s} {unit}"
            )
    raise AssertionError("a minute is the smallest unit")


_CONNECTION: Final = "connection: "


def each_once(problems: Sequence[str], reason: str = "") -> list[str]:
    """Problems of a cluster's parts without those that `reason` says already.

    Where the connection has a fault, several parts name it: only that of the connection is kept.
    """
    faults = [each.removeprefix(_CONNECTION) for each in problems if each.startswith(_CONNECTION)]
    return [
        each
        for each in problems
        if each not in reason
        and (each.startswith(_CONNECTION) or not any(fault in each for fault in faults))
    ]


_NONE: Final = "0 s"
_AT_LEAST: Final = "at_least"
_SIGNS: Final = {_AT_LEAST: "≥ ", "at_most": "≤ ", "estimate": "~ "}


def bounded(seconds: float, bound: str) -> str:
    """A time lag with the sign of its bound, a word of `TimeLagBound`: `≥ 9 min 30 s`.

    At least nothing is `unknown`.
    """
    said = duration(seconds)
    return "unknown" if said == _NONE and bound == _AT_LEAST else _SIGNS.get(bound, "") + said


_UNITS: Final = (
    (_DAY_S, "d", _HOUR_S, "h"),
    (_HOUR_S, "h", _MINUTE_S, "min"),
    (_MINUTE_S, "min", 1, "s"),
)


_SPOKEN: Final = {"silent_before_start": "silent, a job or stopped"}
"""Rules whose names claim more than they know: a job may have run since lagwatch began."""


def named(pattern: str) -> re.Pattern[str]:
    """Finds what has this name alone; `*` is any characters, "" means all.

    Each part is taken where it occurs first, for good: with many `*` and a long name, other ways to
    divide it would take for ever to try, and find nothing more.
    """
    if not pattern:
        return re.compile("")
    first, *parts = map(re.escape, pattern.split("*"))
    between = "".join(f"(?>.*?{part})" for part in parts[:-1] if part)
    last = f".*{parts[-1]}" if parts else ""
    return re.compile(rf"\A{first}{between}{last}\Z", re.DOTALL)


def spoken(word: str) -> str:
    """The word of a rule as people read it: `falling behind`."""
    return _SPOKEN.get(word, word.replace("_", " "))


def printable(text: str) -> str:
    """The text without characters that could move the cursor, end a line or turn its direction.

    Anyone who may commit to Kafka chooses the names of groups.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def counted(number: float, noun: str) -> str:
    """`1 message`, `1,200 messages`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def client(client_id: str, host: str) -> str:
    """A member of a group: `client mailer-1 on 10.0.3.14`; "" when neither is known.

    `host` as Kafka writes it, with or without its slash.
    """
    host = host.lstrip("/")
    if client_id and host:
        return f"client {client_id} on {host}"
    return f"client {client_id}" if client_id else host and f"host {host}"


_MEMBERS: Final = {
    "unknown": "its members are not known",
    "empty": "the group has no members",
    "held": "a member holds the partition",
    "unheld": "no member holds the partition",
    "rebalancing": "the group is rebalancing",
}


class _Shown:
    """A value of the evidence that a sentence shows in the form it asks for."""

    def __init__(self, value: float | str | None) -> None:
        self._value = value

    def __format__(self, form: str) -> str:
        """In the form asked for.

        `span`: milliseconds as a duration; `members`: a clause; `host`: without its slash; `was`:
        that or `were`; a noun: so many of it.
        """
        value = self._value
        if value is None:
            return _UNKNOWN.get(form, f"an unknown number of {form}s")
        if isinstance(value, str):
            if form == "host":
                return value.lstrip("/")
            return _MEMBERS.get(value, value) if form == "members" else value
        if form == "span":
            return duration(value / 1000)
        if form == "was":
            return "was" if value == 1 else "were"
        return counted(value, form) if form else f"{value:,}"


_UNKNOWN: Final = {
    "span": "an unknown time",
    "": "unknown",
    "was": "were",
    "host": "an unknown host",
    "members": _MEMBERS["unknown"],
}


class _Values(dict[str, _Shown]):
    def __missing__(self, name: str) -> _Shown:
        return _Shown(None)


def fill(sentence: str, numbers: Numbers) -> str:
    """A sentence with `{name:form}` filled in; what the evidence lacks is unknown."""
    return sentence.format_map(_Values({name: _Shown(each) for name, each in numbers.items()}))

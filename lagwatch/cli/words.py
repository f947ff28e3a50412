"""Rules and numbers in words."""

from collections.abc import Mapping
from typing import Final

from lagwatch.core.model import Rule

SENTENCES: Final[Mapping[str, str]] = {
    Rule.NEVER_COMMITTED.word: "The group never committed this partition.",
    Rule.LOG_END_UNKNOWN.word: "The log end offset is not known, so there is nothing to compare.",
    Rule.WINDOW_INCOMPLETE.word: "The window holds too few commits to be judged.",
    Rule.LAG_WITHIN_ALLOWED.word: "The lag is within what is allowed.",
    Rule.STOPPED.word: "No commit for longer than the whole window spans, and there is lag.",
    Rule.REWOUND.word: "The committed offset went back and did not return to where it was.",
    Rule.LAG_WAS_WITHIN_ALLOWED.word: "The lag was within what is allowed once in the window.",
    Rule.STALLED.word: "Commits arrive, but the committed offset does not move.",
    Rule.LAG_NOT_DECREASING.word: "The group moves, but its lag never falls in the window.",
    Rule.PROGRESSING.word: "The group moves, and its lag falls at times.",
}
"""What each rule means, by its word."""

COLOURS: Final[Mapping[str, str]] = {
    "OK": "green",
    "WARN": "yellow",
    "ERR": "bold red",
    "STOP": "bold red",
    "STALL": "bold red",
    "REWIND": "bold red",
}
"""Style of a status; any other is dim."""


def number(value: float | None) -> str:
    """A number with separators; `unknown` for None."""
    return "unknown" if value is None else f"{value:,}"


def quantity(name: str, value: float | None) -> str:
    """A number of the evidence with its unit, told by its name; durations in seconds."""
    if value is None:
        return "unknown"
    if name in {"silent_ms", "window_span_ms"}:
        return f"{value / 1000:,.3f} s"
    if name.endswith("_ms"):
        return f"{value} ms"
    return f"{value:,}"


def duration(seconds: float | None) -> str:
    """A time lag for people: `4 m 10 s`; `-` when it is not known."""
    if seconds is None:
        return "-"
    if seconds < 60:  # noqa: PLR2004 seconds in a minute
        return f"{seconds:.1f} s" if seconds else "0 s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} m" if hours else f"{minutes} m {rest} s"

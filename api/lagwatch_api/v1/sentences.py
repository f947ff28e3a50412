"""A verdict as one English sentence with its evidence.

The instant stands beside the text, not in it: whoever shows it knows the reader's time zone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lagwatch.core.model import PartitionStatus, PartitionVerdict, Rule, UnknownReason

Numbers = Mapping[str, int | float | None]

HEADLINES: Final[Mapping[PartitionStatus, str]] = {
    PartitionStatus.OK: "OK",
    PartitionStatus.WARN: "FALLING BEHIND",
    PartitionStatus.STOP: "STOPPED",
    PartitionStatus.STALL: "STALLED",
    PartitionStatus.REWIND: "REWOUND",
    PartitionStatus.UNKNOWN: "UNKNOWN",
}
_UNKNOWN_BECAUSE: Final[Mapping[UnknownReason | None, str]] = {
    None: "the log end offset is not known",
    UnknownReason.TOPIC_NOT_VISIBLE: "the topic was deleted, or lagwatch may not describe it",
    UnknownReason.NO_LEADER: "the partition has no leader",
    UnknownReason.NOT_POLLED_YET: "the log end offset has not been read yet",
    UnknownReason.REFUSED: "the broker refused to tell the log end offset",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """`headline` [since `since_ms`]: `text`."""

    headline: str
    since_ms: int | None
    at_least: bool
    """The window begins at `since_ms`: it may have begun earlier."""
    text: str


def sentence(verdict: PartitionVerdict) -> Sentence:
    """What is said about a partition, in words."""
    since_ms = None
    at_least = False
    if verdict.status is PartitionStatus.STOP and verdict.end is not None:
        since_ms = verdict.end.commit_ms
    elif verdict.status in {PartitionStatus.WARN, PartitionStatus.STALL} and verdict.start:
        since_ms, at_least = verdict.start.commit_ms, True
    return Sentence(
        headline=HEADLINES[verdict.status],
        since_ms=since_ms,
        at_least=at_least,
        text=_text(verdict),
    )


def _text(verdict: PartitionVerdict) -> str:  # noqa: C901, PLR0911 one sentence a rule
    seen = verdict.evidence
    match verdict.rule:
        case Rule.NEVER_COMMITTED:
            return "the group never committed an offset here"
        case Rule.LOG_END_UNKNOWN:
            return _UNKNOWN_BECAUSE[verdict.unknown_reason]
        case Rule.WINDOW_INCOMPLETE:
            return f"{_commits(seen)} so far are too few to judge; the lag is {_lag(seen)}"
        case Rule.LAG_WITHIN_ALLOWED:
            return _within(seen)
        case Rule.STOPPED:
            return (
                f"no commit for {_span(seen, 'silent_ms')}, longer than the whole window of "
                f"{_span(seen, 'window_span_ms')}; offset {_number(seen, 'committed_offset')} "
                f"with {_lag(seen)} to read"
            )
        case Rule.REWOUND:
            return (
                f"the committed offset went back from {_number(seen, 'offset_before')} to "
                f"{_number(seen, 'offset_after')} within {_span(seen, 'window_span_ms')}; "
                f"the lag is {_lag(seen)}"
            )
        case Rule.LAG_WAS_WITHIN_ALLOWED:
            return (
                f"the lag is {_lag(seen)}, but fell to {_number(seen, 'lowest_lag')} within the "
                f"last {_span(seen, 'window_span_ms')}"
            )
        case Rule.STALLED:
            return (
                f"offset {_number(seen, 'end_offset')} unchanged over {_commits(seen)} in "
                f"{_span(seen, 'window_span_ms')} {_meanwhile(seen)}"
            )
        case Rule.LAG_NOT_DECREASING:
            return (
                f"read {_moved(seen)} over {_commits(seen)} in {_span(seen, 'window_span_ms')} "
                f"{_meanwhile(seen)}; the lag went from {_number(seen, 'start_lag')} to "
                f"{_number(seen, 'end_lag')} and never fell"
            )
        case Rule.PROGRESSING:
            return (
                f"read {_moved(seen)} over {_commits(seen)} in {_span(seen, 'window_span_ms')} "
                f"{_meanwhile(seen)}; the lag of {_lag(seen)} falls at times"
            )


def _within(seen: Numbers) -> str:
    if not seen.get("current_lag"):
        return "everything is read"
    return f"the lag of {_lag(seen)} is within the allowed {_number(seen, 'allowed_lag')}"


def _moved(seen: Numbers) -> str:
    start, end = seen.get("start_offset"), seen.get("end_offset")
    if start is None or end is None:
        return "an unknown number of messages"
    return f"{end - start:,} message{'' if end - start == 1 else 's'}"


def _meanwhile(seen: Numbers) -> str:
    """By how much the log grew since the window began: log end = committed offset + lag.

    The newest lag is younger than that of the last commit, which may have been interpolated.
    """
    start, start_lag, end = (seen.get(name) for name in ("start_offset", "start_lag", "end_offset"))
    lags = [lag for name in ("end_lag", "current_lag") if (lag := seen.get(name)) is not None]
    if start is None or start_lag is None or end is None or not lags:
        return "while there is lag"
    grown = end + max(lags) - start - start_lag
    return f"while the log grew by {grown:,}" if grown > 0 else "while there is lag"


def _commits(seen: Numbers) -> str:
    commits = seen.get("commits")
    return "1 commit" if commits == 1 else f"{_number(seen, 'commits')} commits"


def _lag(seen: Numbers) -> str:
    lag = seen.get("current_lag")
    return "unknown" if lag is None else f"{lag:,} message{'' if lag == 1 else 's'}"


def _number(seen: Numbers, name: str) -> str:
    value = seen.get(name)
    return "unknown" if value is None else f"{value:,}"


def _span(seen: Numbers, name: str) -> str:
    """A duration for people: `9 min 30 s`."""
    value = seen.get(name)
    if value is None:
        return "an unknown time"
    seconds = value / 1000
    if seconds < 60:  # noqa: PLR2004 seconds in a minute
        return f"{seconds:.1f} s" if seconds % 1 else f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"

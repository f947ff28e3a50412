"""The rules, one row each: name, status, when it holds, which numbers it shows, and its sentence.

The tables `BURROW` and `LAGWATCH` are in order of precedence: the first rule that holds decides.
Verdicts, evidence, the sentences of the command line, the API, the page and the notices, and the
tables in the documentation are all made from these rows.

Source of Burrow's rules: Burrow, core/internal/evaluator/caching.go.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN, Membership, PartitionStatus, Rule, RuleSet
from lagwatch.core.pace import RESTS, UNIT_MS
from lagwatch.core.rows import NEVER_MS, Rows, WindowColumns, lowest_known
from lagwatch.core.words import Evidence, Numbers, counted, fill

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Int8 = NDArray[np.int8]
Bools = NDArray[np.bool_]


@unique
class Ok(StrEnum):
    """What a rule of status OK says of a partition that has something to read."""

    IF_IT_MOVES = "if_it_moves"
    """OK because its offset moves, or little is left: a silence is judged by other rules."""
    RESTING = "resting"
    """OK for now, although its offset does not move."""
    UNREAD = "unread"
    """OK for good: the group need not read what is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """One rule."""

    rule: Rule
    status: PartitionStatus
    holds: Callable[[Rows], Bools]
    meaning: str
    """When it holds, in one sentence for the documentation."""
    evidence: tuple[str, ...]
    """The numbers it looked at, by name."""
    sentence: str
    """What it says of a partition, with `{number:form}`; see `words.fill`."""
    since: Callable[[Rows], Int64] | None = None
    """When the trouble began; None where there is none."""
    since_at_least: bool = False
    """It may have begun earlier: what the rule goes by looks no further back."""
    headline: str | None = None
    """Heads the sentence; None: the word of the status. Every warning has its own."""
    ok: Ok | None = None
    """None where the status is not OK."""


# what rules look for


def _always(rows: Rows) -> Bools:
    return np.ones(rows.size, np.bool_)


def _empty(rows: Rows) -> Bools:
    return np.equal(rows.windows.count, 0)


def _log_end_unknown(rows: Rows) -> Bools:
    return rows.lag < 0


def _incomplete(rows: Rows) -> Bools:
    slots = rows.windows.slots
    incomplete: Bools = rows.windows.count < rows.limits.minimum_complete * slots
    return incomplete


def _within_allowed(rows: Rows) -> Bools:
    return rows.lag <= rows.allowed_lag


def _nothing_to_read(rows: Rows) -> Bools:
    return (rows.readable_lag <= rows.allowed_lag) & ~_beyond(rows)


def _beyond(rows: Rows) -> Bools:
    """Mask of rows whose committed offset is beyond the log end."""
    log_end = rows.partition("log_end")
    return (log_end >= 0) & (rows.committed > log_end)


def silent_longer_than_the_window(rows: Rows) -> Bools:
    """Mask of rows silent for longer than their window spans, and not recently at the log end.

    A window of one commit spans no time, so any silence counts. A group that was at the log end a
    short while ago had nothing to commit.

    Source: checkIfOffsetsStopped, checkIfRecentLagZero.
    """
    recent_end = rows.partition("recent_end")
    at_the_end = (recent_end >= 0) & (recent_end <= rows.committed)
    return rows.come(rows.commit_ms + rows.span_ms + 1) & ~at_the_end


def first_rewind(windows: WindowColumns) -> tuple[Bools, Int64, Int64]:
    """Mask of rows whose offset fell and did not recover, with the offsets around the fall.

    Only the first fall is looked at.

    Source: checkIfOffsetsRewind, checkIfRewindRecovered.
    """
    slots = windows.slots
    if slots == 1:  # a window of one entry cannot fall
        nothing = np.zeros(windows.count.size, np.int64)
        return nothing.astype(np.bool_), nothing, nothing
    offsets = windows.in_time(windows.offset)
    valid = np.arange(1, slots)[:, None] < windows.count[None, :]
    falls = (offsets[1:] < offsets[:-1]) & valid
    fell = falls.any(axis=0)
    # `argmax` of a mask is its first True; without any it is 0, which `fell` leaves out
    first = falls.argmax(axis=0)
    rows = windows.rows
    before, after = offsets[first, rows], offsets[np.minimum(first + 1, slots - 1), rows]
    later = valid & (np.arange(1, slots)[:, None] > first[None, :])
    recovered = (later & (offsets[1:] >= before[None, :])).any(axis=0)
    return fell & ~recovered, before, after


def _rewound_in_window(rows: Rows) -> Bools:
    fell = np.flatnonzero(rows.movement.falls)
    rewound = np.zeros(rows.size, np.bool_)
    if fell.size:
        rewound[fell] = first_rewind(rows.windows.take(fell))[0]
    return rewound


def _lag_was_within_allowed(rows: Rows) -> Bools:
    return rows.movement.lowest_lag <= rows.allowed_lag


def _still(rows: Rows) -> Bools:
    return rows.movement.still


def never_decreases(windows: WindowColumns) -> Bools:
    """Mask of rows whose known lags never fall from one to the next; True for fewer than two.

    Source: checkIfLagNotDecreasing.
    """
    lags = windows.in_time(windows.lag)
    known = (lags >= 0) & (np.arange(lags.shape[0])[:, None] < windows.count[None, :])
    # compared with the highest before: as long as lags never fell, that is the previous known one
    highest = np.maximum.accumulate(np.where(known, lags, UNKNOWN), axis=0)
    falls: Bools = np.logical_or.reduce(known & (lags < highest), axis=0)
    return ~falls


def _lag_not_decreasing(rows: Rows) -> Bools:
    grows = ~rows.movement.shrinks
    gaps = np.flatnonzero(rows.movement.gaps)
    if gaps.size:  # an unknown lag is stepped over: that takes another look
        grows[gaps] = never_decreases(rows.windows.take(gaps))
    return grows


def _not_subscribed(rows: Rows) -> Bools:
    left_ms = rows.fact("left_ms")
    left: Bools = left_ms >= 0
    return left & rows.come(left_ms + rows.limits.step_ms, left)


def _mirrored(rows: Rows) -> Bools:
    return rows.holds("mirrored")


def _ahead(rows: Rows) -> Bools:
    # a commit may be younger than the log end it is compared with
    beyond = _beyond(rows)
    ahead: Bools = beyond & rows.come(rows.commit_ms + READ_LATER_MS, beyond)
    seen_ms = rows.seen_ms
    if seen_ms is None or not ahead.any():
        return ahead
    # that holds by lagwatch's clock alone, too: how it differs from Kafka's may not be known yet
    read_ms = rows.partition("known_ms") + rows.around.skew_ms
    settled = read_ms - seen_ms >= READ_LATER_MS
    # the answer of a round comes later than its question: so look again in the next one
    rows.note(rows.now_ms, ahead & ~settled)
    return ahead & settled


def _lost(rows: Rows) -> Bools:
    lost_ms = rows.fact("lost_ms")
    noticed = lost_ms >= 0
    lost: Bools = noticed & ~rows.come(lost_ms + rows.limits.loss_shown_ms, noticed)
    if not lost.any():
        return lost
    # a stop that comes on top is not hidden; but a warning hides no loss
    silent = rows.overdue & rows.watched & (rows.readable_lag > rows.allowed_lag)
    return lost & ~(silent & ~_silent_before_start(rows))


def _control_records_only(rows: Rows) -> Bools:
    first, end = rows.partition("empty_first"), rows.partition("empty_end")
    proved = (first >= 0) & (first <= rows.committed) & (rows.partition("log_end") <= end)
    return (rows.lag > rows.allowed_lag) & proved


def _at_last_stable(rows: Rows) -> Bools:
    last_stable = rows.partition("last_stable")
    waits: Bools = (last_stable >= 0) & (last_stable < rows.partition("log_end"))
    there: Bools = (rows.committed == last_stable) | (
        rows.holds("read_committed") & (rows.committed > last_stable)
    )
    return waits & there


def _held(rows: Rows) -> Bools:
    held_ms = rows.partition("held_ms")
    waits = _at_last_stable(rows) & (held_ms >= 0)
    return waits & rows.come(held_ms + _HELD_MS, waits)


def _rewound(rows: Rows) -> Bools:
    lower = rows.fact("rewound_from") > rows.committed
    if not lower.any():
        return lower
    # commits sent twice may arrive in the wrong order; the next one mends that, if Kafka is there
    settled_ms = rows.there_for_ms(rows.fact("rewound_ms"), rows.limits.step_ms // 2)
    settled = rows.come(settled_ms, lower)
    over = rows.come(rows.fact("rewound_again_ms") + 10 * rows.limits.step_ms, lower)
    return lower & settled & ~over


def _warming_up(rows: Rows) -> Bools:
    # it has not moved yet, but is not quiet for long enough to be sure
    unseen = (rows.windows.count < _TWO_COMMITS) & ~rows.overdue
    return unseen | (rows.overdue & ~rows.watched) | rows.may_be_overdue | _beyond(rows)


def _silent_before_start(rows: Rows) -> Bools:
    first_ms, step_ms = rows.around.first_ms, rows.limits.step_ms
    watched = first_ms >= 0
    new = watched & ~rows.come(first_ms + _DAY_STEPS * step_ms, np.full(rows.size, watched))
    pace = rows.around.pace
    moved_ms = pace.moved_ms[rows.row]
    # one run does not show yet when the next one begins, and a job that rested for longer than its
    # period has another one; who dies at work leaves later
    run_ms = pace.run_s[rows.row].astype(np.int64) * 1000
    period_ms = pace.periods.length_ms(rows.row)
    ran = pace.may_be_job[rows.row] & (moved_ms > first_ms)
    ran &= (period_ms == 0) | (period_ms < run_ms - first_ms)
    if ran.any():
        ran &= ~rows.come(moved_ms + _DAY_STEPS * step_ms, ran) & rows.ended
    once = _ran_once(rows)
    if not (new | ran | once).any():
        return new
    silent_ms = first_ms - moved_ms
    # a group that worked for much longer than it has been silent now is not a batch job
    began_s = np.where(_rested(rows), pace.run_s[rows.row], pace.since_s[rows.row])
    worked_ms = moved_ms - began_s.astype(np.int64) * 1000
    long = silent_ms >= _LONG_STEPS * step_ms
    rested_ms = np.where(long, RESTS * silent_ms, silent_ms * 3 // 2)
    may_rest = (silent_ms >= _WHILE_STEPS * step_ms) & (worked_ms <= rested_ms)
    # polls do not say how long the offset had been there when it was first seen
    still = (rows.commit_fact("polled") == 1) & (pace.moves[rows.row] <= 1) & (silent_ms >= 0)
    may_rest |= still
    # a group that has had a member since then, and has not moved, is not a job between two runs
    without = (pace.held_s[rows.row] == 0) & ~rows.visited
    may_be: Bools = (new & may_rest & without) | ran | once
    may_be &= rows.overdue & ~pace.down[rows.row]
    # who commits the same offset again and again is not between two runs
    return may_be & ~rows.commits_on if may_be.any() else may_be


def _ran_once(rows: Rows) -> Bools:
    """Mask of rows with one short run so far, whose members left right behind its last commit.

    Who works for longer and goes is a consumer that was closed; so is one that committed for longer
    with nothing to read.
    """
    moved_ms = rows.around.pace.moved_ms[rows.row]
    once = rows.ended & rows.worked_briefly() & ~_rested(rows)
    return once & ~rows.come(moved_ms + _DAY_STEPS * rows.limits.step_ms, once)


def _rested(rows: Rows) -> Bools:
    """Mask of rows that once paused for more than five minutes before they worked last."""
    pace = rows.around.pace
    units = np.maximum(pace.past.noted[rows.row], pace.past.known[rows.row])
    rested: Bools = units.astype(np.int64) * UNIT_MS > _WHILE_STEPS * rows.limits.step_ms
    return rested & (pace.run_s[rows.row] > 0)


def _stopped(rows: Rows) -> Bools:
    return rows.overdue & ~rows.commits_on


def _falling_behind(rows: Rows) -> Bools:
    pace, step_ms = rows.around.pace, rows.limits.step_ms
    usual_ms = pace.rises.length_ms(rows.row)
    long = rows.rising_ms >= np.maximum(5 * step_ms, usual_ms * 3 // 2 + step_ms)
    # between two commits any lag rises, and between the first ones that is not yet known
    long &= rows.pace_known & (rows.rising_ms >= 2 * rows.pause_ms)
    # a group far behind whose lag is about the same all the time has peaks now and then, too
    long &= pace.rose_by(rows.row) * _MUCH >= rows.readable_lag
    # it has caught up at half of that: at the limit itself a time lag goes to and fro
    enough_ms = rows.pause_ms + step_ms
    enough_ms = np.where(pace.behind[rows.row], enough_ms, 2 * enough_ms)
    late = late_for(rows.waits_ms, enough_ms)
    rows.note(rows.around.asked_ms + enough_ms - rows.waits_ms, long & ~late)
    behind = long & late
    if not behind.any():
        return behind
    # who was behind, and goes quiet, has not caught up; only what may be a job rests then
    rests = rows.ended & (_rested(rows) | _ran_once(rows))
    goes_on = rows.moves | (pace.behind[rows.row] & ~rests)
    return behind & goes_on


def late_for(time_lag_ms: Int64, limit_ms: Int64) -> Bools:
    """Mask of rows whose oldest unread message is at least as old as the limit.

    True, too, where it is older than the history of log ends.
    """
    return (time_lag_ms >= limit_ms) | (time_lag_ms < 0)


def _paused(rows: Rows) -> Bools:
    """Uses wall time, including time that does not count as silence: it is no progress either."""
    return rows.come(rows.quiet_since_ms + rows.limits.step_ms // 2)


READ_LATER_MS: Final = 5_000
"""A log end read so long after a commit was seen is younger than the commit."""
_LITTLE_MS: Final = 10_000
"""Less silence left out of the count is not worth a word."""
_OVER_MS: Final = 60_000
"""A window whose last commit is older no longer shows what the group does."""
_MUCH: Final = 50
"""A lag rises when it has risen by this part of itself."""
_HELD_MS: Final = 900_000
"""The longest time Kafka lets a transaction stay open by default (`transaction.max.timeout.ms`)."""
_TWO_COMMITS: Final = 2
_WHILE_STEPS: Final = 5
"""Five minutes by default."""
_LONG_STEPS: Final = 60
"""An hour by default."""
_DAY_STEPS: Final = 25 * 60
"""A day and an hour by default: what runs nightly has been seen to run by then."""


# since when


def _since_quiet(rows: Rows) -> Int64:
    return rows.quiet_began_ms


def _since_commit(rows: Rows) -> Int64:
    return rows.commit_ms


def _since_oldest(rows: Rows) -> Int64:
    return rows.commit_ms - rows.span_ms


def _since_lost(rows: Rows) -> Int64:
    since_ms, last_ms = rows.fact("lost_since_ms"), rows.fact("lost_ms")
    # checkpoints of earlier versions say when the last ones were noticed only
    return np.where(since_ms >= 0, since_ms, last_ms)


def _since_assigned(rows: Rows) -> Int64:
    return rows.around.pace.since_s[rows.row].astype(np.int64) * 1000


# the rows

_LAG: Final = ("current_lag", "readable_lag")
_MOVEMENT: Final = (
    *("current_lag", "start_offset", "end_offset", "start_lag", "end_lag"),
    *("window_span_ms", "commits"),
)
_TRANSACTION: Final = (
    *("transaction_age_ms", "producer_id", "transactional_id", "transaction_unnamed"),
)
_QUIET: Final = ("quiet_ms", "counted_ms", "limit_ms", "usual_pause_ms", "membership")

LOG_END_UNKNOWN: Final = RuleRow(
    rule=Rule.LOG_END_UNKNOWN,
    status=PartitionStatus.UNKNOWN,
    holds=_log_end_unknown,
    meaning="The log end offset is not known, so there is nothing to compare with.",
    evidence=("commits", "committed_offset"),
    sentence="{unknown_because}",
)
WINDOW_INCOMPLETE: Final = RuleRow(
    rule=Rule.WINDOW_INCOMPLETE,
    status=PartitionStatus.OK,
    ok=Ok.IF_IT_MOVES,
    holds=_incomplete,
    meaning="The window holds fewer commits than `evaluator.minimum_complete` asks for.",
    evidence=("current_lag", "commits"),
    sentence="{commits:commit} so far are too few to judge; the lag is {current_lag:message}",
)
LAG_WITHIN_ALLOWED: Final = RuleRow(
    rule=Rule.LAG_WITHIN_ALLOWED,
    status=PartitionStatus.OK,
    ok=Ok.IF_IT_MOVES,
    holds=_within_allowed,
    meaning="The lag is not above `evaluator.allowed_lag`.",
    evidence=("current_lag", "allowed_lag"),
    sentence="{within_allowed}",
)
PROGRESSING: Final = RuleRow(
    rule=Rule.PROGRESSING,
    status=PartitionStatus.OK,
    ok=Ok.IF_IT_MOVES,
    holds=_always,
    meaning="The group is behind, moves, and no other rule holds.",
    evidence=(*_MOVEMENT, "readable_lag"),
    sentence=("{moved} over {commits:commit} in {window_span_ms:span}{meanwhile}; {to_read}"),
)
NEVER_COMMITTED: Final = RuleRow(
    rule=Rule.NEVER_COMMITTED,
    status=PartitionStatus.OK,
    ok=Ok.UNREAD,
    holds=_empty,
    meaning="The group never committed an offset for this partition of its topic.",
    evidence=("commits",),
    sentence="the group never committed an offset here",
)

BURROW: Final[Sequence[RuleRow]] = (
    NEVER_COMMITTED,
    LOG_END_UNKNOWN,
    WINDOW_INCOMPLETE,
    LAG_WITHIN_ALLOWED,
    RuleRow(
        rule=Rule.STOPPED,
        status=PartitionStatus.STOP,
        holds=silent_longer_than_the_window,
        meaning="There is lag, and no commit for longer than the whole window spans.",
        evidence=(
            *("current_lag", "committed_offset", "last_commit_ms", "silent_ms"),
            *("window_span_ms", "commits", "recent_log_end"),
        ),
        sentence=(
            "no commit for {silent_ms:span}, longer than the whole window of "
            "{window_span_ms:span}; offset {committed_offset} with {current_lag:message} to read"
        ),
        since=_since_commit,
    ),
    RuleRow(
        rule=Rule.REWOUND,
        status=PartitionStatus.REWIND,
        holds=_rewound_in_window,
        meaning="The committed offset went back within the window and did not return.",
        evidence=("current_lag", "offset_before", "offset_after", "window_span_ms"),
        sentence=(
            "the committed offset went back from {offset_before} to {offset_after} within "
            "{window_span_ms:span}; the lag is {current_lag:message}"
        ),
        since=_since_oldest,
    ),
    RuleRow(
        rule=Rule.LAG_WAS_WITHIN_ALLOWED,
        status=PartitionStatus.OK,
        ok=Ok.IF_IT_MOVES,
        holds=_lag_was_within_allowed,
        meaning="The lag was not above `evaluator.allowed_lag` at some commit in the window.",
        evidence=("current_lag", "lowest_lag", "allowed_lag", "window_span_ms"),
        sentence=(
            "the lag is {current_lag:message}, but was {lowest_lag} at one of the last commits"
        ),
    ),
    RuleRow(
        rule=Rule.STALLED,
        status=PartitionStatus.STALL,
        holds=_still,
        meaning="All commits of the window are of the same offset, and there is lag.",
        evidence=_MOVEMENT,
        sentence=(
            "offset {end_offset} unchanged over {commits:commit} in "
            "{window_span_ms:span}{meanwhile}"
        ),
        since=_since_oldest,
        since_at_least=True,
    ),
    RuleRow(
        rule=Rule.LAG_NOT_DECREASING,
        status=PartitionStatus.WARN,
        headline="FALLING BEHIND",
        holds=_lag_not_decreasing,
        meaning="The group moves, and its lag never falls between two commits of the window.",
        evidence=_MOVEMENT,
        sentence=(
            "{moved} over {commits:commit} in {window_span_ms:span}{meanwhile}; the lag went "
            "from {start_lag} to {end_lag} and never fell"
        ),
        since=_since_oldest,
        since_at_least=True,
    ),
    PROGRESSING,
)
"""Burrow's rules, in Burrow's order."""

LAGWATCH: Final[Sequence[RuleRow]] = (
    RuleRow(
        rule=Rule.NEVER_COMMITS,
        status=PartitionStatus.WARN,
        headline="NEVER COMMITS",
        holds=_empty,
        meaning=(
            "A member holds the partition, messages that can be read came five minutes ago, and "
            "the group has not committed an offset. While that member works off a backlog of "
            "other partitions, it has an hour. Members may come and go meanwhile: the rule ends "
            "with a commit, when no member has come for fifteen minutes, or with the group. "
            "The five minutes begin anew after an outage of Kafka and at a start of lagwatch."
        ),
        evidence=("commits", "held_for_ms", "interrupted", "log_end_offset"),
        sentence=(
            "{held} for at least {held_for_ms:span} and messages came, but the group has not "
            "committed any offset"
        ),
        since=_since_assigned,
        # members that were there at the first look may have held it for long
        since_at_least=True,
    ),
    RuleRow(
        rule=Rule.NOT_SUBSCRIBED,
        status=PartitionStatus.OK,
        ok=Ok.UNREAD,
        holds=_not_subscribed,
        meaning=(
            "The group has members, and none of them subscribes to this topic any more; the "
            "committed offset is a remainder."
        ),
        evidence=(*_LAG, "committed_offset", "left_for_ms"),
        sentence=(
            "no member subscribes to the topic any more, for {left_for_ms:span}; the offset "
            "{committed_offset} is a remainder"
        ),
    ),
    RuleRow(
        rule=Rule.MIRRORED,
        status=PartitionStatus.OK,
        ok=Ok.UNREAD,
        holds=_mirrored,
        meaning="The offset is written by a mirror of another cluster; the group runs there.",
        evidence=(*_LAG, "committed_offset"),
        sentence=(
            "the offset {committed_offset} is copied from another cluster, where the group runs"
        ),
    ),
    RuleRow(
        rule=Rule.AHEAD_OF_LOG_END,
        status=PartitionStatus.ERR,
        headline="BEYOND THE LOG END",
        holds=_ahead,
        meaning=(
            "The committed offset is beyond the log end: the log was cut short or replaced, or a "
            "wrong offset was committed. The group will reset itself or wait for that offset."
        ),
        evidence=("committed_offset", "log_end_offset", "last_commit_ms"),
        sentence=(
            "the committed offset {committed_offset} is beyond the log end {log_end_offset}: the "
            "log was cut short, the topic was replaced, or a wrong offset was committed"
        ),
        since=_since_commit,
    ),
    RuleRow(
        rule=Rule.RECORDS_LOST,
        status=PartitionStatus.ERR,
        headline="MESSAGES LOST",
        holds=_lost,
        meaning=(
            "Messages were deleted before the group read them; shown for `evaluator.loss_shown_s` "
            "or until it is acknowledged."
        ),
        evidence=(
            *_LAG,
            "lost_messages",
            "lost_is",
            "acknowledged_messages",
            "committed_offset",
            "log_start_offset",
        ),
        sentence=(
            "{up_to}{lost_messages:message} deleted before the group read them{and_before}; the "
            "log begins at {log_start_offset}, the committed offset is {committed_offset}"
        ),
        since=_since_lost,
        # a loss is noticed some time after it: at a first look, long after it
        since_at_least=True,
    ),
    LOG_END_UNKNOWN,
    RuleRow(
        rule=Rule.CONTROL_RECORDS_ONLY,
        status=PartitionStatus.OK,
        ok=Ok.UNREAD,
        holds=_control_records_only,
        meaning=(
            "What is left up to the log end are marks of transactions and aborted records: a "
            "read_committed reader found nothing there."
        ),
        evidence=(*_LAG, "committed_offset", "log_end_offset"),
        sentence=(
            "everything is read: up to the log end {log_end_offset} there are only marks of "
            "transactions and aborted messages"
        ),
    ),
    RuleRow(
        rule=Rule.HELD_BY_TRANSACTION,
        status=PartitionStatus.WARN,
        headline="HELD BY A TRANSACTION",
        holds=_held,
        meaning=(
            "The group has read up to the last stable offset, where a transaction has been open "
            "for fifteen minutes."
        ),
        evidence=("current_lag", "last_stable_offset", *_TRANSACTION),
        sentence=(
            "everything is read up to offset {last_stable_offset}, where {transaction} has been "
            "open for {transaction_age_ms:span}; {current_lag:message} wait for it"
        ),
        since=lambda rows: rows.partition("held_ms"),
    ),
    RuleRow(
        rule=Rule.WAITS_FOR_TRANSACTION,
        status=PartitionStatus.OK,
        ok=Ok.IF_IT_MOVES,
        holds=_at_last_stable,
        meaning="The group has read up to the last stable offset, where a transaction is open.",
        evidence=("current_lag", "last_stable_offset", *_TRANSACTION),
        sentence=(
            "everything is read up to offset {last_stable_offset}, where {transaction} has been "
            "open for {transaction_age_ms:span}"
        ),
    ),
    RuleRow(
        rule=Rule.LAG_WITHIN_ALLOWED,
        status=PartitionStatus.OK,
        ok=Ok.IF_IT_MOVES,
        holds=_nothing_to_read,
        meaning="What the group can still read is not above `evaluator.allowed_lag`.",
        evidence=(*_LAG, "allowed_lag"),
        sentence="{within_allowed}",
    ),
    WINDOW_INCOMPLETE,
    RuleRow(
        rule=Rule.REWOUND,
        status=PartitionStatus.REWIND,
        holds=_rewound,
        meaning=(
            "The committed offset went back and did not return within thirty seconds, in which an "
            "outage of Kafka and the minute after it do not count; shown until it is back, for ten "
            "minutes at most. Not if it was beyond the log end: then it is set right."
        ),
        evidence=("current_lag", "offset_before", "committed_offset", "rewound_ms"),
        sentence=(
            "the committed offset went back from {offset_before} {rewound_ms:span} ago and is at "
            "{committed_offset} now; the lag is {current_lag:message}"
        ),
        since=lambda rows: rows.fact("rewound_ms"),
    ),
    RuleRow(
        rule=Rule.WARMING_UP,
        status=PartitionStatus.UNKNOWN,
        holds=_warming_up,
        meaning=(
            "Too little was seen of the group to call its silence a stop; the evidence says from "
            "when it can be judged."
        ),
        evidence=(*_LAG, "commits", "quiet_ms", "judged_from_ms", "membership"),
        sentence="{too_little} to judge",
    ),
    RuleRow(
        rule=Rule.SILENT_BEFORE_START,
        status=PartitionStatus.WARN,
        headline="SILENT",
        holds=_silent_before_start,
        meaning=(
            "The group without members had been silent for five minutes or more when lagwatch "
            "first saw it: a batch job between two runs, or stopped. It is no STOP for a day and "
            "an hour, unless it was seen to work for longer than it has been silent. The same "
            "holds after its first runs, when its members left right behind a commit, and for a "
            "new group after a first run of less than two minutes. It does not "
            "hold while the group goes on committing the same offset, nor after members came and "
            "went three times without reading what waits: they die again and again."
        ),
        evidence=(
            *_LAG,
            "committed_offset",
            "last_commit_ms",
            "silent_before_ms",
            "runs_seen",
            *_QUIET,
        ),
        sentence=(
            "nothing read for {quiet_ms:span}{before_start}; {membership:members}: a batch job "
            "between two runs, or stopped; {readable_lag:message} to read"
        ),
        since=_since_quiet,
    ),
    RuleRow(
        rule=Rule.WAITS_ITS_TURN,
        status=PartitionStatus.OK,
        ok=Ok.RESTING,
        holds=lambda rows: rows.waits_turn,
        meaning=(
            "The offset has not moved for longer than is usual, while the member that holds the "
            "partition works off a backlog in others: a client hands out what it has fetched of "
            "one partition before it goes on with the next. For an hour at most."
        ),
        evidence=(*_LAG, "committed_offset", *_QUIET),
        sentence=(
            "nothing read for {quiet_ms:span}{counted} with {readable_lag:message} to read: its "
            "member works off the backlog of other partitions"
        ),
    ),
    RuleRow(
        rule=Rule.STOPPED,
        status=PartitionStatus.STOP,
        holds=_stopped,
        meaning=(
            "There are messages to read, the offset has not moved for longer than is usual for "
            "this group, and commits have ended; where offsets are polled: and no member is seen "
            "to hold the partition."
        ),
        evidence=(*_LAG, "committed_offset", "last_commit_ms", "commits_are", *_QUIET),
        sentence=(
            "{nothing} for {quiet_ms:span}{counted}{longer}; {membership:members}{blind}; offset "
            "{committed_offset} with {readable_lag:message} to read"
        ),
        since=_since_quiet,
    ),
    RuleRow(
        rule=Rule.STALLED,
        status=PartitionStatus.STALL,
        holds=lambda rows: rows.overdue,
        meaning=(
            "There are messages to read, and the offset has not moved for longer than is usual "
            "for this group, although it goes on committing; where offsets are polled: although "
            "a member holds the partition."
        ),
        evidence=(*_LAG, "committed_offset", "last_commit_ms", "commits_are", *_QUIET),
        sentence=(
            "offset {committed_offset} unchanged for {quiet_ms:span}{counted}{longer}{although}"
            "{blind}; {membership:members}; {readable_lag:message} to read"
        ),
        since=_since_quiet,
    ),
    RuleRow(
        rule=Rule.FALLING_BEHIND,
        status=PartitionStatus.WARN,
        headline="FALLING BEHIND",
        holds=_falling_behind,
        meaning=(
            "The group moves, or has gone quiet while it was behind. Its lag has been rising for "
            "longer than is usual for it and by 2 % of itself at least, sudden bursts excluded, "
            "and its oldest unread message is older than two minutes and two usual pauses. "
            "It has caught up when that message is half as old, or its lag has not risen for a "
            "while."
        ),
        evidence=(
            *_MOVEMENT,
            "readable_lag",
            "rising_ms",
            "usual_rise_ms",
            "time_lag_ms",
            "silent_ms",
        ),
        sentence=(
            "{what_rises} has risen over the last {rising_ms:span} and is {risen:message} now; the "
            "group {moved} over {commits:commit} in {window_span_ms:span}{since_then}"
        ),
        since=lambda rows: rows.rises_since_ms,
    ),
    RuleRow(
        rule=Rule.PAUSED,
        status=PartitionStatus.OK,
        ok=Ok.RESTING,
        holds=_paused,
        meaning="The offset has not moved for a while, which is still usual for the group.",
        evidence=(*_LAG, "committed_offset", *_QUIET),
        sentence=(
            "nothing read for {quiet_ms:span}{counted} with {readable_lag:message} to read; "
            "{membership:members}: up to {limit_ms:span} is no stop for this group"
        ),
    ),
    PROGRESSING,
)
"""The default rules."""

TABLES: Final[Mapping[RuleSet, Sequence[RuleRow]]] = {
    RuleSet.LAGWATCH: LAGWATCH,
    RuleSet.BURROW: BURROW,
}

STATUS_BY_RULE: Final[Mapping[Rule, PartitionStatus]] = {
    row.rule: row.status for row in (*BURROW, *LAGWATCH)
}
"""A rule has the same status in both tables."""

STATUS_OF_RULE: Int8 = np.array([STATUS_BY_RULE[rule] for rule in Rule], np.int8)
"""`STATUS_OF_RULE[rule]` is the partition status of each rule."""


def rules_ok(ok: Ok) -> tuple[Rule, ...]:
    """The rules of either table that are OK in this way."""
    return tuple(dict.fromkeys(row.rule for row in (*BURROW, *LAGWATCH) if row.ok is ok))


def row_of(rules: RuleSet, rule: Rule) -> RuleRow:
    """The row of a rule; one of the other table where this one does not have it."""
    return _ROW_OF[rules, rule]


# read backwards: of two rows of a rule the first one counts
_ROW_OF: Final = {
    (rules, row.rule): row
    for rules, table in TABLES.items()
    for row in reversed((*table, *LAGWATCH, *BURROW))
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the rules decided, by row."""

    rule: Int8
    since_ms: Int64
    """When the trouble began; -1 where there is none."""
    lowest_lag: Int64 | None
    """Lowest known lag in the window; -1 when none is known, None when no window was looked at."""
    limit_ms: Int32
    """Longest silence that counts as usual; -1 if the deciding rule did not use it."""
    due_ms: Int64
    """When the verdict may change although nothing happens: judge again then."""


_LIMIT_IS_SHOWN: Final = frozenset({"limit_ms", "judged_from_ms"})
"""Evidence that is made from `Judgement.limit_ms`."""
_NARROW_BELOW: Final = 0.5
"""Once less than this share of the rows is undecided, only these are looked at."""


def judge(table: Sequence[RuleRow], rows: Rows) -> Judgement:
    """Ask the rules in their order; the first that holds decides.

    What is found of a row does not depend on which other rows are judged with it.
    """
    judged = Judgement(
        rule=np.full(rows.size, table[-1].rule, np.int8),
        since_ms=np.full(rows.size, UNKNOWN, np.int64),
        lowest_lag=np.full(rows.size, UNKNOWN, np.int64) if looks_at_windows(table) else None,
        limit_ms=np.full(rows.size, UNKNOWN, np.int32),
        due_ms=np.full(rows.size, NEVER_MS, np.int64),
    )
    place = np.arange(rows.size)
    left = np.ones(rows.size, np.bool_)
    looked = False
    for each in table:
        looked |= "lowest_lag" in each.evidence
        holds = left & each.holds(rows)
        decided = np.flatnonzero(holds)
        if decided.size:
            judged.rule[place[decided]] = each.rule
            _keep(each, rows, judged, decided, place)
        # only rows that were still undecided may be due because of what this rule asked
        rows.settle(left)
        left &= ~holds
        if judged.lowest_lag is not None and looked and decided.size:
            judged.lowest_lag[place[decided]] = lowest_known(rows.movement)[decided]
        undecided = int(np.count_nonzero(left))
        if not undecided:
            break
        # copying rows costs as much as a rule or two: worth it only when many are decided
        if undecided < _NARROW_BELOW * rows.size:
            judged.due_ms[place] = rows.due_ms
            kept = np.flatnonzero(left)
            rows, place, left = rows.take(kept), place[kept], left[kept]
    judged.due_ms[place] = rows.due_ms
    return judged


def _keep(
    row: RuleRow, rows: Rows, judged: Judgement, decided: NDArray[np.intp], place: NDArray[np.intp]
) -> None:
    """Keep the values of the rows that a rule decided, for their evidence."""
    if row.since is not None:
        judged.since_ms[place[decided]] = row.since(rows)[decided]
    if not _LIMIT_IS_SHOWN.isdisjoint(row.evidence):
        limit_ms = np.minimum(rows.limit_ms[decided], np.iinfo(np.int32).max)
        judged.limit_ms[place[decided]] = limit_ms


def looks_at_windows(table: Sequence[RuleRow]) -> bool:
    """True if rules of this table use the lags within windows."""
    return any("lowest_lag" in row.evidence for row in table)


def evidence(row: RuleRow, numbers: Numbers) -> Evidence:
    """The numbers that made a rule hold, unknown ones as None."""
    return {name: numbers.get(name) for name in row.evidence}


def sentence(row: RuleRow, numbers: Numbers, *, unknown_because: str = "") -> str:
    """The rule's sentence with its evidence filled in."""
    because = unknown_because or "the log end offset is not known"
    phrases = {
        "unknown_because": because,
        "within_allowed": _within(numbers),
        "moved": _moved(numbers),
        "to_read": _to_read(numbers),
        "meanwhile": _meanwhile(numbers),
        "transaction": _transaction(numbers),
        "before_start": _before_start(numbers),
        "too_little": _too_little(numbers),
        "since_then": _since_then(numbers),
        "counted": _counted(numbers),
        "longer": _longer(numbers),
        "held": "members have held the partition, with interruptions,"
        if numbers.get("interrupted")
        else "a member has held the partition",
        **_rising(numbers),
        "up_to": _lost_bound(numbers),
        "and_before": _acknowledged(numbers),
        **_commits_seen(numbers),
    }
    return fill(row.sentence, {**numbers, **phrases})


def _rising(numbers: Numbers) -> Numbers:
    """A lag that rises, which is that of the messages that can be read."""
    lag, readable = numbers.get("current_lag"), numbers.get("readable_lag")
    if readable is None or readable == lag:
        return {"what_rises": "the lag", "risen": lag}
    return {"what_rises": "the lag of messages that can be read", "risen": readable}


def _lost_bound(numbers: Numbers) -> str:
    if numbers.get("lost_is") == "upper_bound":
        return "up to "
    lost, committed, log_start = (
        numbers.get(name) for name in ("lost_messages", "committed_offset", "log_start_offset")
    )
    if (
        not isinstance(lost, int)
        or not isinstance(committed, int)
        or not isinstance(log_start, int)
    ):
        return ""
    # what is deleted is counted a round later, when all commits made before it are known
    before = numbers.get("acknowledged_messages")
    known = lost + before if isinstance(before, int) else lost
    return "at least " if known < log_start - committed else ""


def _acknowledged(numbers: Numbers) -> str:
    """Of losses, those that are known already."""
    before = numbers.get("acknowledged_messages")
    if not isinstance(before, int) or not before:
        return ""
    were = "was" if before == 1 else "were"
    return f" (and {before:,} before that, which {were} acknowledged)"


def _within(numbers: Numbers) -> str:
    lag = numbers.get("readable_lag", numbers.get("current_lag"))
    whole = numbers.get("current_lag")
    if isinstance(lag, int) and lag > 0:
        return fill(
            "the lag of {lag:message} is within the allowed {allowed_lag}", {**numbers, "lag": lag}
        )
    if isinstance(whole, int) and whole > 0:
        return f"everything that can be read is read; {counted(whole, 'message')} cannot be read"
    return "everything is read"


def _moved(numbers: Numbers) -> str:
    start, end = numbers.get("start_offset"), numbers.get("end_offset")
    if not isinstance(start, int) or not isinstance(end, int):
        return "read an unknown number of messages"
    if end < start:
        return f"went back by {counted(start - end, 'message')}"
    return f"read {counted(end - start, 'message')}"


def _since_then(numbers: Numbers) -> str:
    """Clause: how long ago the window ended, if its figures are no longer those of now."""
    silent_ms = numbers.get("silent_ms")
    if not isinstance(silent_ms, int) or silent_ms < _OVER_MS:
        return ""
    return fill(", and has made no progress for {silent_ms:span} since", numbers)


def _to_read(numbers: Numbers) -> str:
    """Of a lag whose first messages were deleted, or whose last cannot be read yet, the rest."""
    lag, readable = numbers.get("current_lag"), numbers.get("readable_lag")
    if not isinstance(readable, int) or readable == lag:
        return fill("{current_lag:message} to read", numbers)
    return fill("{readable_lag:message} to read, of a lag of {current_lag}", numbers)


def _transaction(numbers: Numbers) -> str:
    """The open transaction by its names, as far as they are known."""
    producer, name = numbers.get("producer_id"), numbers.get("transactional_id")
    if producer is None:
        return "a transaction of an unknown producer"
    if name is None:
        return f"a transaction of producer {producer} with an unknown transactional id"
    return f"the transaction {name} of producer {producer}"


def _before_start(numbers: Numbers) -> str:
    """Clause: how much of a silence lagwatch has seen itself."""
    if numbers.get("runs_seen"):
        return ", since a run that lagwatch saw"
    if numbers.get("silent_before_ms") is None:
        return ", as long as lagwatch has been looking"
    return fill(", {silent_before_ms:span} of it before lagwatch first saw the group", numbers)


def _too_little(numbers: Numbers) -> str:
    lag = numbers.get("readable_lag", numbers.get("current_lag"))
    if not lag:
        return "its commits are ahead of the newest log end that could be read: too early"
    return fill(
        "{lag:message} to read and {commits:commit} seen so far: too little",
        {**numbers, "lag": lag},
    )


def _counted(numbers: Numbers) -> str:
    """Clause: how much of a silence counts, if Kafka or lagwatch was away meanwhile."""
    quiet_ms, counted_ms = numbers.get("quiet_ms"), numbers.get("counted_ms")
    if not isinstance(quiet_ms, int) or not isinstance(counted_ms, int):
        return ""
    if quiet_ms - counted_ms < _LITTLE_MS:
        return ""
    return fill(
        " ({counted_ms:span} count: for the rest Kafka or lagwatch was away, or just back)",
        {"counted_ms": counted_ms},
    )


def _longer(numbers: Numbers) -> str:
    """Clause: how long the group may pause.

    What was once found down stays so until it moves, although the limit is higher by now: members
    that came get more time than a group without any.
    """
    counted_ms, limit_ms = (
        numbers.get("counted_ms", numbers.get("quiet_ms")),
        numbers.get("limit_ms"),
    )
    if isinstance(counted_ms, int) and isinstance(limit_ms, int) and counted_ms <= limit_ms:
        return ", and it was judged so before"
    return fill(", longer than the {limit_ms:span} that this group may pause", numbers)


def _commits_seen(numbers: Numbers) -> Mapping[str, str]:
    """Clause about the commits of a group without progress: polls see offsets only."""
    if numbers.get("commits_are") == "polled":
        return {
            "nothing": "no progress seen",
            "although": "",
            "blind": "; its offsets are polled, so commits of the same offset cannot be seen",
        }
    return {
        "nothing": "nothing read",
        "although": ", although it goes on committing",
        "blind": "",
    }


def _meanwhile(numbers: Numbers) -> str:
    """Messages appended since the window began, by log end = committed offset + lag.

    The newest lag is younger than that of the last commit, which may have been interpolated.
    """
    names = ("start_offset", "start_lag", "end_offset")
    start, start_lag, end = (numbers.get(name) for name in names)
    lags = [numbers.get("end_lag"), numbers.get("current_lag")]
    known = [lag for lag in lags if isinstance(lag, int)]
    if not (
        isinstance(start, int) and isinstance(start_lag, int) and isinstance(end, int) and known
    ):
        return ""
    grown = end + max(known) - start - start_lag
    return f" while the log grew by {grown:,}" if grown > 0 else ""


def membership_word(number: int) -> str:
    """`Membership` as a word of the evidence."""
    return Membership(number).name.lower()

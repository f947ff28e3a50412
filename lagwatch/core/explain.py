"""Judge windows and replay operations given as data, through the same columns as the live path."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lagwatch.core.model import UNKNOWN, Membership, PartitionStatus, Rule, RuleSet
from lagwatch.core.pace import Pace
from lagwatch.core.rows import Around, Limits, PartitionColumns, RowFacts, Rows, WindowColumns
from lagwatch.core.rules import (
    TABLES,
    Judgement,
    evidence,
    first_rewind,
    judge,
    membership_word,
    row_of,
    sentence,
)
from lagwatch.core.window import CommitColumns, Windows, unwrapped
from lagwatch.core.words import Evidence, Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowInput:
    """One partition's window, oldest first; the four sequences are of equal length."""

    offset: Sequence[int]
    commit_ms: Sequence[int]
    lag: Sequence[int | None]
    broker_offsets: Sequence[int]
    """Log end offsets of the last while."""
    current_lag: int
    now_ms: int
    allowed_lag: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A verdict with its rule and the evidence."""

    status: PartitionStatus
    rule: Rule
    evidence: Mapping[str, int | float | str | None]
    sentence: str


def explain(
    inputs: Sequence[WindowInput], *, rules: RuleSet = RuleSet.BURROW
) -> tuple[Explained, ...]:
    """Judge each window; the answers are in the order of the inputs.

    A bare window says nothing about members, transactions or deleted records: the rules of
    lagwatch then judge by the commits and lags alone.
    """
    if not inputs:
        return ()
    rows = _rows(inputs)
    found = judge(TABLES[rules], rows)
    fell, before, after = first_rewind(rows.windows)
    falls = {int(row): (int(before[row]), int(after[row])) for row in np.flatnonzero(fell)}
    return tuple(
        _explained(rules, Rule(rule), _numbers(each, rows, found, place) | _fall(falls.get(place)))
        for place, (each, rule) in enumerate(zip(inputs, found.rule.tolist(), strict=True))
    )


def _rows(inputs: Sequence[WindowInput]) -> Rows:
    columns = _columns(inputs)
    size = len(inputs)
    lag = np.array([each.current_lag for each in inputs], np.int64)
    committed = np.array([each.offset[-1] if each.offset else 0 for each in inputs], np.int64)
    recent = np.array([min(each.broker_offsets, default=UNKNOWN) for each in inputs], np.int64)
    around = Around(
        pace=_pace(inputs),
        facts=RowFacts.none(size),
        partitions=PartitionColumns.of(
            np.where(lag >= 0, committed + lag, UNKNOWN), recent_end=recent
        ),
        limits=Limits(),
    )
    return Rows(
        around,
        columns,
        row=np.arange(size),
        at=np.arange(size, dtype=np.int32),
        now_ms=np.array([each.now_ms for each in inputs], np.int64),
        lag=lag,
        readable_lag=lag,
        time_lag_ms=np.full(size, UNKNOWN, np.int64),
        allowed_lag=np.array([each.allowed_lag for each in inputs], np.int64),
    )


def _pace(inputs: Sequence[WindowInput]) -> Pace:
    """The pace of rows as far as their windows show it."""
    pace = Pace()
    pace.make_room(len(inputs))
    for row, each in enumerate(inputs):
        moves = [
            at_ms
            for at_ms, offset, before in zip(
                each.commit_ms, each.offset, [None, *each.offset][: len(each.offset)], strict=True
            )
            if offset != before
        ]
        if moves:
            times = np.array(moves, np.int64)
            pauses = np.diff(times, prepend=times[0] - UNKNOWN)
            pauses[0] = UNKNOWN
            place = np.array([row])
            pace.begin(place, times[:1])
            pace.move(np.full(times.size, row), times, pauses)
    return pace


def _columns(inputs: Sequence[WindowInput]) -> WindowColumns:
    slots = max(1, *(len(each.offset) for each in inputs))
    shape = (slots, len(inputs))
    offset, commit_ms, lag = (np.full(shape, UNKNOWN, np.int64) for _ in range(3))
    count = np.array([len(each.offset) for each in inputs], np.int64)
    for row, each in enumerate(inputs):
        size = len(each.offset)
        offset[:size, row] = each.offset
        commit_ms[:size, row] = each.commit_ms
        lag[:size, row] = [UNKNOWN if value is None else value for value in each.lag]
    return WindowColumns(
        offset=offset,
        commit_ms=commit_ms,
        lag=lag,
        count=count,
        oldest=np.zeros(len(inputs), np.int8),
        newest=count - 1,
    )


def _fall(offsets: tuple[int, int] | None) -> Evidence:
    return {} if offsets is None else {"offset_before": offsets[0], "offset_after": offsets[1]}


def _numbers(each: WindowInput, rows: Rows, found: Judgement, place: int) -> Evidence:
    """The evidence of one window, unknown numbers as None."""
    start_ms, end_ms = (each.commit_ms[0], each.commit_ms[-1]) if each.commit_ms else (None, None)
    numbers: Evidence = {
        "commits": len(each.offset),
        "current_lag": _known(each.current_lag),
        "readable_lag": _known(each.current_lag),
        "allowed_lag": each.allowed_lag,
        "committed_offset": each.offset[-1] if each.offset else None,
        "start_offset": each.offset[0] if each.offset else None,
        "end_offset": each.offset[-1] if each.offset else None,
        "start_lag": each.lag[0] if each.lag else None,
        "end_lag": each.lag[-1] if each.lag else None,
        "lowest_lag": None if found.lowest_lag is None else _known(int(found.lowest_lag[place])),
        "last_commit_ms": end_ms,
        "recent_log_end": min(each.broker_offsets, default=None),
        "limit_ms": _known(int(found.limit_ms[place])),
        "usual_pause_ms": int(rows.pause_ms[place]),
        "commits_are": "read",
        "membership": membership_word(Membership.UNKNOWN),
    }
    if start_ms is not None and end_ms is not None:
        numbers |= {
            "silent_ms": each.now_ms - end_ms,
            "window_span_ms": end_ms - start_ms,
            "quiet_ms": int(rows.quiet_ms[place]),
            "judged_from_ms": int(rows.judged_from_ms[place]),
        }
    return numbers


def _explained(rules: RuleSet, rule: Rule, numbers: Numbers) -> Explained:
    row = row_of(rules, rule)
    return Explained(
        status=row.status,
        rule=rule,
        evidence=evidence(row, numbers),
        sentence=sentence(row, numbers),
    )


def _known(value: int) -> int | None:
    return None if value < 0 else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One step of a replay: a log end offset was read, or a commit arrived."""

    op: Literal["broker", "commit"]
    offset: int
    order: int = 0
    at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedCommit:
    """An entry of the resulting window."""

    offset: int
    order: int
    at_ms: int
    lag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What the windows hold after the last operation."""

    group_found: bool
    window: tuple[ReplayedCommit | None, ...] | None
    """`intervals` slots, oldest first, None in front; None when there is no group."""
    broker_offsets: tuple[int, ...] | None
    current_lag: int
    last_commit_ms: int
    verdict: Explained | None
    """As of the newest instant of the operations; None when there is no group."""


def replay(
    *,
    intervals: int,
    min_distance_ms: int,
    operations: Sequence[Operation],
    rules: RuleSet = RuleSet.BURROW,
) -> Replayed:
    """Run operations on one partition; a commit before any log end offset is known is dropped.

    The lag of a commit is taken against the newest log end offset, as Burrow does it.

    Raises:
        ValueError: `intervals` is out of range.
    """
    windows = Windows(intervals=intervals, min_distance_ms=min_distance_ms)
    ends: list[int] = []
    last_commit_ms = 0
    for step in operations:
        if step.op == "broker":
            ends = [*ends, step.offset][-intervals:]
            continue
        if not ends:
            continue
        if not windows.rows:
            windows.add_rows(1)
        if _commit(windows, step, ends[-1]):
            last_commit_ms = step.at_ms
    if not windows.rows:
        return Replayed(
            group_found=False,
            window=None,
            broker_offsets=None,
            current_lag=0,
            last_commit_ms=0,
            verdict=None,
        )
    held = windows.entries(0)
    near = next(step.order for step in reversed(operations) if step.op == "commit")
    entries = tuple(
        ReplayedCommit(
            offset=offset,
            order=unwrapped(order, near=near),
            at_ms=at_ms,
            lag=None if lag < 0 else lag,
        )
        for offset, order, at_ms, lag in zip(
            held.offset, held.order, held.commit_ms, held.lag, strict=True
        )
    )
    current_lag = max(0, ends[-1] - held.offset[-1])
    (verdict,) = explain(
        [
            WindowInput(
                offset=held.offset,
                commit_ms=held.commit_ms,
                lag=[None if lag < 0 else lag for lag in held.lag],
                broker_offsets=ends,
                current_lag=current_lag,
                now_ms=max(step.at_ms for step in operations),
            )
        ],
        rules=rules,
    )
    return Replayed(
        group_found=True,
        window=(None,) * (intervals - len(entries)) + entries,
        broker_offsets=tuple(ends),
        current_lag=current_lag,
        last_commit_ms=last_commit_ms,
        verdict=verdict,
    )


def _commit(windows: Windows, step: Operation, log_end: int) -> bool:
    """Insert one commit into row 0; True when it is the newest now."""
    arrived = windows.insert(
        CommitColumns(
            row=np.zeros(1, np.int32),
            offset=np.array([step.offset], np.int64),
            commit_ms=np.array([step.at_ms], np.int64),
            order=np.array([step.order], np.int64),
            lag=np.array([max(0, log_end - step.offset)], np.int64),
            observed_s=np.zeros(1, np.uint32),
        )
    )
    return bool(arrived[0])

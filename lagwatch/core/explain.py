"""Judge windows and replay operations given as data, through the same columns as the live path."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lagwatch.core.evaluate import Evidence, Seen, evidence
from lagwatch.core.model import STATUS_BY_RULE, UNKNOWN, PartitionStatus, Rule
from lagwatch.core.rules import WindowColumns, judge
from lagwatch.core.window import CommitColumns, Windows, unwrapped


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
    """A verdict with the rule that decided and what it saw."""

    status: PartitionStatus
    rule: Rule
    evidence: Evidence


def explain(inputs: Sequence[WindowInput]) -> tuple[Explained, ...]:
    """Judge each window; the answers stand in the order of the inputs."""
    if not inputs:
        return ()
    columns = _columns(inputs)
    recent = np.array([min(each.broker_offsets, default=UNKNOWN) for each in inputs], np.int64)
    facts = judge(
        columns,
        current_lag=np.array([each.current_lag for each in inputs], np.int64),
        recent_end=recent,
        now_ms=np.array([each.now_ms for each in inputs], np.int64),
        allowed_lag=np.array([each.allowed_lag for each in inputs], np.int64),
    )
    return tuple(
        _explained(
            each,
            rule=Rule(rule),
            lowest_lag=lowest_lag,
            recent_end=recent_end,
            rewind=facts.rewinds.get(row),
        )
        for row, (each, rule, lowest_lag, recent_end) in enumerate(
            zip(
                inputs,
                facts.rule.tolist(),
                facts.lowest_lag.tolist(),
                recent.tolist(),
                strict=True,
            )
        )
    )


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


def _explained(
    each: WindowInput,
    *,
    rule: Rule,
    lowest_lag: int,
    recent_end: int,
    rewind: tuple[int, int] | None,
) -> Explained:
    def ends(values: Sequence[int | None]) -> tuple[int, int]:
        first, last = (values[0], values[-1]) if values else (None, None)
        return (UNKNOWN if first is None else first, UNKNOWN if last is None else last)

    (start_offset, end_offset), (start_ms, end_ms) = ends(each.offset), ends(each.commit_ms)
    start_lag, end_lag = ends(each.lag)
    seen = Seen(
        rule=rule,
        now_ms=each.now_ms,
        current_lag=each.current_lag,
        allowed_lag=each.allowed_lag,
        commits=len(each.offset),
        start_offset=start_offset,
        end_offset=end_offset,
        start_ms=start_ms,
        end_ms=end_ms,
        start_lag=start_lag,
        end_lag=end_lag,
        lowest_lag=lowest_lag,
        recent_end=recent_end,
        rewind=rewind,
    )
    return Explained(status=STATUS_BY_RULE[rule], rule=rule, evidence=evidence(seen))


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


def replay(*, intervals: int, min_distance_ms: int, operations: Sequence[Operation]) -> Replayed:
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
    return Replayed(
        group_found=True,
        window=(None,) * (intervals - len(entries)) + entries,
        broker_offsets=tuple(ends),
        current_lag=max(0, ends[-1] - held.offset[-1]),
        last_commit_ms=last_commit_ms,
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

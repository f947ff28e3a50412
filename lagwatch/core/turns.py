"""Partitions that wait while the member that holds them works off the backlog of others.

A client fetches ahead: librdkafka up to 100,000 messages of each partition
(`queued.min.messages`). It hands out what it has of one partition before it goes on with the next,
so with a backlog a partition may rest for many minutes although its consumer reads all the time.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.rows import FRESH_STEPS, Turns, no_turns
from lagwatch.core.snapshot import ClusterSnapshot

NOBODY: Final = -1
"""Holder of a partition that no member holds, or whose member holds no other one."""


def follow(before: Turns, snapshot: ClusterSnapshot, holder: NDArray[np.int32]) -> Turns:
    """Which rows wait now.

    A member counts as at work on a backlog while it reads a partition whose oldest unread message
    is a minute old or more. What waits was as far behind when it was read last, and that is as long
    ago as it takes to call it stalled at the earliest.

    Args:
        before: the result for the snapshot before.
        snapshot: the newest verdicts.
        holder: a number by stored row, the same for all partitions of a member; see `NOBODY`.
    """
    rows, around = snapshot.rows, snapshot.around
    limits = around.limits
    idle_ms = around.asked_ms - around.pace.moved_ms[rows.window]
    held_by = holder[rows.window]
    waits = (rows.readable_lag > 0) & (idle_ms >= limits.stall_after_ms) & (held_by != NOBODY)
    waiting = np.flatnonzero(waits)
    left_ms = rows.some_times(waiting).lag_ms - idle_ms[waiting]
    waiting = waiting[left_ms >= limits.step_ms]
    if not waiting.size:
        return no_turns()
    members = np.unique(held_by[waiting])
    fresh = idle_ms < FRESH_STEPS * limits.step_ms
    busy = np.flatnonzero(fresh)
    busy = busy[np.isin(held_by[busy], members)]
    behind = rows.some_times(busy).lag_ms - idle_ms[busy] >= limits.step_ms
    busy = busy[behind]
    read_ms = np.full(members.size, UNKNOWN, np.int64)
    moved_ms = around.asked_ms - idle_ms[busy]
    np.maximum.at(read_ms, np.searchsorted(members, held_by[busy]), moved_ms)
    row = rows.window[waiting]
    newest_ms = read_ms[np.searchsorted(members, held_by[waiting])]
    newest_ms = np.maximum(newest_ms, before.of(row))
    known = newest_ms > around.asked_ms - FRESH_STEPS * limits.step_ms
    order = np.argsort(row[known])
    return Turns(row[known][order].astype(np.int32), newest_ms[known][order])

"""Partitions that wait while the member that holds them works off the backlog of others.

A client fetches ahead: librdkafka up to 100,000 messages of each partition
(`queued.min.messages`). It hands out what it has of one partition before it goes on with the next,
so with a backlog a partition may rest for many minutes although its consumer reads all the time.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.rows import FRESH_STEPS, Around, Turns, no_turns
from lagwatch.core.snapshot import RowColumns

NOBODY: Final = -1
"""Holder of a partition that no member holds, or whose member holds no other one."""
_KEPT_STEPS: Final = 60
"""An hour by default: longer no partition waits."""


def follow(
    before: Turns,
    rows: RowColumns,
    around: Around,
    holder: NDArray[np.int32],
    unknown: NDArray[np.bool_],
) -> Turns:
    """Which rows may wait now; `Rows.waits_turn` says for how long after their member read.

    A member counts as at work on a backlog while it reads a partition whose oldest unread message
    is a minute old or more. What waits was as far behind when it was read last, and that is as long
    ago as it takes to call it stalled at the earliest.

    Args:
        before: the result of the round before.
        rows: the newest verdicts.
        around: what they were made from.
        holder: a number by stored row, the same for all partitions of a member; see `NOBODY`.
        unknown: stored rows of whose members nothing is known: who waited waits.
    """
    limits = around.limits
    behind = np.flatnonzero(rows.readable_lag > 0)
    row = rows.window[behind]
    idle_ms, held_by = around.asked_ms - around.pace.moved_ms[row], holder[row]
    known_ms = before.of(row)
    carried = unknown[row] & (known_ms >= 0)
    waits = (idle_ms >= limits.stall_after_ms) & ((held_by != NOBODY) | carried)
    reads = idle_ms < FRESH_STEPS * limits.step_ms
    if not waits.any() or not (reads.any() or before.row.size):
        return no_turns()

    def far(chosen: NDArray[np.intp]) -> NDArray[np.intp]:
        """Those that were a minute behind or more when they were read last."""
        left_ms = rows.some_times(behind[chosen]).lag_ms - idle_ms[chosen]
        return chosen[left_ms >= limits.step_ms]

    members = np.intersect1d(held_by[waits], held_by[reads])
    busy = far(np.flatnonzero(reads & np.isin(held_by, members)))
    read_ms = np.full(members.size, UNKNOWN, np.int64)
    np.maximum.at(read_ms, np.searchsorted(members, held_by[busy]), around.asked_ms - idle_ms[busy])
    newest_ms = known_ms
    held = np.flatnonzero(np.isin(held_by, members))
    found_ms = read_ms[np.searchsorted(members, held_by[held])]
    newest_ms[held] = np.maximum(newest_ms[held], found_ms)
    # how much of the time since then counts is said by the rows
    lately = newest_ms > around.asked_ms - _KEPT_STEPS * limits.step_ms
    waiting = far(np.flatnonzero(waits & lately))
    waiting = waiting[np.argsort(row[waiting])]
    return Turns(row[waiting].astype(np.int32), newest_ms[waiting])

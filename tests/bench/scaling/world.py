"""Seconds of a group: messages come, consumers read and commit, an autoscaler sets their number.

What a policy sees is what lagwatch sees: committed offsets and log ends of some seconds ago.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

REBALANCE_S = 8
"""Nobody reads for so long after the number of consumers changed."""
START_S = 20
"""A new consumer takes so long to start."""
COMMIT_S = 5
_COMMIT_PHASE_S = 2
"""Not in step with those who look."""
SYNC_S = 15
"""How often the autoscaler decides (the HorizontalPodAutoscaler's default)."""
PARTITIONS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What is produced, and what one consumer does."""

    name: str
    produced_per_s: NDArray[np.float64]
    """[seconds]"""
    capacity_per_s: NDArray[np.float64]
    """[seconds] of one consumer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a policy may know at an instant."""

    at_s: int
    committed: int
    log_end: int
    consumers: int


Policy = Callable[[View], int]
"""Consumers wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a policy did on one trace."""

    within: float
    """Share of the time in which the true time lag was within the objective."""
    consumer_hours: float
    changes: int


def run(trace: Trace, policy: Policy, *, target_s: float, interval_s: int = 5) -> Outcome:
    """Live through a trace, beginning with three consumers."""
    seconds = trace.produced_per_s.size
    log_end = np.cumsum(trace.produced_per_s)
    read, committed = 0.0, 0.0
    consumers, wanted, due_s, paused_s = 3, 3, 0, 0
    good, used_s, changes = 0, 0, 0
    for now in range(seconds):
        if wanted != consumers and now >= due_s:
            consumers, paused_s, changes = wanted, now + REBALANCE_S, changes + 1
        used_s += consumers
        if now >= paused_s:
            speed = min(consumers, PARTITIONS) * trace.capacity_per_s[now]
            read = min(log_end[now], read + speed)
        if now % COMMIT_S == _COMMIT_PHASE_S:
            committed = read
        # how old the first message is that is not committed
        oldest = int(np.searchsorted(log_end, committed + 1e-6))
        good += max(0, now - oldest) <= target_s
        if now % interval_s == 0:
            view = View(
                at_s=now,
                committed=math.floor(committed),
                log_end=math.floor(log_end[now]),
                consumers=consumers,
            )
            number = policy(view)
            if now % SYNC_S == 0 and number != wanted:
                due_s = now + (START_S if number > consumers else 0)
                wanted = number
    return Outcome(within=good / seconds, consumer_hours=used_s / 3600, changes=changes)

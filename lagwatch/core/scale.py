"""How many consumers a group needs, from its rates and the time lag it may have.

A number of pending messages says nothing about time: 10,000 messages are a second of one group and
a day of another. So the goal is a rate. The group needs

    produced + lag / target          (messages per second)

to work off its lag within the target, and never less than `produced / BUSY`, so that consumers are
not busy all the time. Divided by what one consumer does while messages wait, that is
a number of consumers. The capacity of one consumer is learned from the group itself.

Damping is that of Kubernetes' HorizontalPodAutoscaler: more at once, fewer only when no advice of
the last minutes was higher (`stabilizationWindowSeconds`).
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any, Final

BUSY: Final = 0.8
"""Share of its time for which a consumer should be busy."""
WINDOW_MS: Final = 60_000
"""Time over which rates are measured."""
SHORTEST_MS: Final = 20_000
"""Least measured time for a rate."""
CALM_MS: Final = 300_000
"""Advice is lowered only after it was lower for this long."""
_LONGEST_STEP_MS: Final = 60_000
"""Two observations further apart than this give no rate."""
_SATURATED_S: Final = 10.0
"""A lag that takes longer to read is real; a shorter one may just await the next commit."""
_CAPACITIES: Final = 30
"""Number of capacity measurements that are kept."""
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The goal of an autoscaler."""

    time_lag_s: float
    least: int = 1
    most: int | None = None
    """None: as many as there are partitions; of a share group as many as are needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A group at an instant."""

    at_ms: int
    places: Sequence[tuple[str, int]]
    """Topics and partitions that the group reads, in the order of the columns."""
    committed: Sequence[int]
    """-1 unknown."""
    log_end: Sequence[int]
    """-1 unknown."""
    consumers: int | None
    """Members that hold partitions; None where it is not known."""
    partitions: int
    """Partitions of all topics of the group: more consumers would be idle."""
    shared: bool = False
    """A share group (KIP-932): several members read the same partition, and all of them count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleAdvice:
    """How many consumers a group should have; None is unknown."""

    at_ms: int
    """When it was last computed from complete data; -1 never."""
    desired: int | None
    held: str
    """Why the last good number was kept; "" for a new number."""
    produced_per_s: float | None
    consumed_per_s: float | None
    per_consumer_per_s: float | None
    """Capacity of one consumer, in messages per second; None if not learned yet."""
    lag: int | None
    consumers: int | None
    partitions: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """Advances between two observations."""

    at_ms: int
    took_ms: int
    produced: int
    consumed: int
    lag_before: int
    lag: int
    consumers: int


class Scaler:
    """Advice for one group and goal. Not safe for concurrent use."""

    def __init__(self, goal: Goal) -> None:
        self.goal = goal
        self._before: Seen | None = None
        self._steps: deque[_Step] = deque()
        self._capacity: deque[float] = deque(maxlen=_CAPACITIES)
        self._measured_ms = 0
        self._wanted: deque[tuple[int, int]] = deque()
        """Recent results before damping, by instant."""
        self.advice = ScaleAdvice(
            at_ms=-1,
            desired=None,
            held="nothing is known yet",
            produced_per_s=None,
            consumed_per_s=None,
            per_consumer_per_s=None,
            lag=None,
            consumers=None,
            partitions=None,
        )

    def kept(self) -> Mapping[str, Any]:
        """What outlives a restart, as JSON: the last good number, and what it is damped by."""
        return {
            "goal": asdict(self.goal),
            "advice": asdict(self.advice),
            "capacity": list(self._capacity),
            "wanted": list(self._wanted),
        }

    @classmethod
    def restored(cls, kept: Mapping[str, Any]) -> "Scaler":
        """From what `kept` gave; the number is held until rates are measured."""
        scaler = cls(Goal(**kept["goal"]))
        scaler.advice = ScaleAdvice(**kept["advice"])
        scaler._capacity.extend(kept["capacity"])
        scaler._wanted.extend(map(tuple, kept["wanted"]))
        scaler.hold("rates are not measured yet since lagwatch was restarted")
        return scaler

    def hold(self, why: str) -> ScaleAdvice:
        """Keep the last good number, because there are no data now."""
        self._before = None
        self._steps.clear()
        return self._held(why)

    def observe(self, seen: Seen) -> ScaleAdvice:
        """Take an observation and advise."""
        if self._before is not None and seen.at_ms <= self._before.at_ms:
            return self.advice
        before, self._before = self._before, seen
        lag = _lag(seen)
        if lag is None or seen.consumers is None:
            self._steps.clear()
            return self._held("the lag or the members are not known")
        if self.advice.desired is None and seen.consumers:
            # the first advice changes nothing
            self._want(seen.at_ms, seen.consumers)
            self._advise(seen, self._bounded(seen.consumers, seen))
        if before is None or not self._take(before, seen, lag):
            return self._held("rates are not measured yet")
        return self._computed(seen, lag)

    def _take(self, before: Seen, seen: Seen, lag: int) -> bool:
        """Note the advances; False while they do not suffice for rates."""
        took_ms = seen.at_ms - before.at_ms
        lag_before = _lag(before)
        joined = before.places == seen.places and took_ms <= _LONGEST_STEP_MS
        if not joined or lag_before is None or before.consumers is None:
            self._steps.clear()
            return False
        self._steps.append(
            _Step(
                at_ms=seen.at_ms,
                took_ms=took_ms,
                produced=_moved(before.log_end, seen.log_end),
                consumed=_moved(before.committed, seen.committed),
                lag_before=lag_before,
                lag=lag,
                consumers=min(before.consumers, seen.consumers or 0),
            )
        )
        while seen.at_ms - self._steps[0].at_ms >= WINDOW_MS:
            self._steps.popleft()
        return sum(step.took_ms for step in self._steps) >= SHORTEST_MS

    def _computed(self, seen: Seen, lag: int) -> ScaleAdvice:
        took_s = sum(step.took_ms for step in self._steps) / 1000
        produced = sum(step.produced for step in self._steps) / took_s
        consumed = sum(step.consumed for step in self._steps) / took_s
        self._learn(seen.at_ms, consumed)
        wanted = self._needed(seen, lag, produced, consumed)
        self._want(seen.at_ms, wanted)
        desired = max(number for _, number in self._wanted)
        self._advise(
            seen,
            self._bounded(desired, seen),
            produced_per_s=produced,
            consumed_per_s=consumed,
            lag=lag,
        )
        return self.advice

    def _learn(self, at_ms: int, consumed: float) -> None:
        """Learn the capacity of one consumer; it shows only while messages wait all the time."""
        consumers = {step.consumers for step in self._steps}
        least = min(min(step.lag, step.lag_before) for step in self._steps)
        if len(consumers) > 1 or 0 in consumers or consumed <= 0:
            return
        if least < consumed * _SATURATED_S or at_ms - self._measured_ms < SHORTEST_MS:
            return
        self._measured_ms = at_ms
        self._capacity.append(consumed / consumers.pop())

    def _needed(self, seen: Seen, lag: int, produced: float, consumed: float) -> int:
        """Consumers, before damping."""
        now = seen.consumers or 0
        needed_per_s = max(produced / BUSY, produced + lag / self.goal.time_lag_s)
        if self._capacity:
            return math.ceil(needed_per_s / median(self._capacity) - _ROUNDING)
        if now == 0:
            return 1 if needed_per_s > 0 else 0
        late = lag > max(produced, consumed) * self.goal.time_lag_s
        if late:
            # not known by how much: the next measurement will say
            return 2 * now
        calm = all(at_ms <= seen.at_ms - CALM_MS or number <= now for at_ms, number in self._wanted)
        idle = lag <= produced * min(_SATURATED_S, self.goal.time_lag_s / 2)
        long_seen = self._wanted and seen.at_ms - self._wanted[0][0] >= CALM_MS - _LONGEST_STEP_MS
        # too many consumers never show what one can do: try with one less
        return now - 1 if calm and idle and long_seen else now

    def _want(self, at_ms: int, number: int) -> None:
        while self._wanted and at_ms - self._wanted[0][0] >= CALM_MS:
            self._wanted.popleft()
        self._wanted.append((at_ms, number))

    def _bounded(self, number: int, seen: Seen) -> int:
        bounds = [] if seen.shared else [seen.partitions]
        if self.goal.most is not None:
            bounds.append(self.goal.most)
        return min([max(self.goal.least, number), *bounds])

    def _advise(
        self,
        seen: Seen,
        desired: int,
        *,
        produced_per_s: float | None = None,
        consumed_per_s: float | None = None,
        lag: int | None = None,
    ) -> None:
        self.advice = ScaleAdvice(
            at_ms=seen.at_ms,
            desired=desired,
            held="",
            produced_per_s=produced_per_s,
            consumed_per_s=consumed_per_s,
            per_consumer_per_s=median(self._capacity) if self._capacity else None,
            lag=lag,
            consumers=seen.consumers,
            partitions=seen.partitions,
        )

    def _held(self, why: str) -> ScaleAdvice:
        self.advice = replace(self.advice, held=why)
        return self.advice


def _lag(seen: Seen) -> int | None:
    """Sum over the partitions; None when one is unknown, because a partial sum would mislead."""
    total = 0
    for committed, log_end in zip(seen.committed, seen.log_end, strict=True):
        if committed < 0 or log_end < 0:
            return None
        total += max(0, log_end - committed)
    return total


def _moved(before: Sequence[int], after: Sequence[int]) -> int:
    """Messages; an offset that went back moved nothing."""
    return sum(max(0, new - old) for old, new in zip(before, after, strict=True))

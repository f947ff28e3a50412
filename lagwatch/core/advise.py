"""How many consumers and partitions a group needs for a topic, from its recorded rates.

The capacity of a consumer can be measured only while it is saturated, that is, while messages wait
all the time. The rate of a group that always keeps up is that of the producers; its capacity is
then unknown, and the advice says so instead of guessing.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final

MIN_BUCKETS: Final = 6
"""A rate counts as a consumer's capacity from this many saturated five-minute buckets on."""
KEPT_UP: Final = 0.99
"""Share of what is produced that a group must have read to have kept up."""
_MOST: Final = 1e15
"""Greater numbers of consumers are cut to this: a rate near 0 makes the quotient infinite."""
_ROUNDING: Final = 1e-9
"""Share of a quotient of rates that is an error of arithmetic."""
_NOISE: Final = 0.005
_MOST_NOISE: Final = 0.02
"""Measured rates have noise: a quotient above an integer by that share of itself, and by so much at
most, counts as that integer."""


@unique
class AdviceKind(StrEnum):
    """What to do."""

    ADD_PARTITIONS = "add_partitions"
    """More consumers are needed than there are partitions to share among them."""
    ADD_CONSUMERS = "add_consumers"
    ENOUGH = "enough"
    UNTOLD = "untold"
    """The data do not suffice; `reason` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The recorded load of a group on one topic, in buckets of five minutes."""

    peak_per_s: float | None
    """Messages produced per second at peak (95th percentile of buckets); None unknown."""
    buckets: int
    """Buckets with a known rate produced."""
    rate_per_s: float | None
    """Messages per second of one saturated consumer (median); None: never saturated."""
    saturated_buckets: int
    """Buckets in which at least one consumer, known by its host, was saturated."""
    unowned_buckets: int
    """Buckets in which messages waited all the time in a partition whose owner is unknown."""
    partly_buckets: int
    """Buckets in which messages waited all the time in only some partitions of a consumer."""
    read_share: float | None
    """Messages read as a share of those produced; None unknown."""
    partitions: int
    consumers: int | None
    """Consumers at the end; None unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to do, and the sentence that gives the reasons with their numbers."""

    kind: AdviceKind
    needed: int | None
    """Number of consumers, and the least number of partitions.

    None when the data do not suffice.
    """
    reason: str


def needed_consumers(peak_per_s: float, rate_per_s: float, headroom: float) -> int:
    """The fewest consumers that take the peak while each is used to at most `headroom` (0..1]."""
    consumers = min(peak_per_s / (rate_per_s * headroom), _MOST)
    consumers -= max(min(_NOISE * consumers, _MOST_NOISE), _ROUNDING * consumers)
    return max(1, math.ceil(consumers))


def advise(load: Load, *, headroom: float) -> Advice:
    """Compare what is produced at peak with what one consumer can do."""
    if load.peak_per_s is None or load.rate_per_s is None or _too_little(load):
        return Advice(kind=AdviceKind.UNTOLD, needed=None, reason=_why_untold(load))
    needed = needed_consumers(load.peak_per_s, load.rate_per_s, headroom)
    kind = _kind(needed, load)
    reason = _peak(load) + _capacity(load, headroom) + _conclusion(kind, needed, load)
    return Advice(kind=kind, needed=needed, reason=reason)


def _too_little(load: Load) -> bool:
    return not load.peak_per_s or not load.rate_per_s or load.saturated_buckets < MIN_BUCKETS


def _kind(needed: int, load: Load) -> AdviceKind:
    if needed > load.partitions:
        return AdviceKind.ADD_PARTITIONS
    if load.consumers is not None and needed > load.consumers:
        return AdviceKind.ADD_CONSUMERS
    return AdviceKind.ENOUGH


def _peak(load: Load) -> str:
    return (
        f"At peak {rate(load.peak_per_s)} messages/s are produced "
        f"(95th percentile of {load.buckets:,} five-minute rates); "
    )


def _capacity(load: Load, headroom: float) -> str:
    return (
        f"one consumer does {rate(load.rate_per_s)} messages/s (median of "
        f"{_counted(load.saturated_buckets, 'bucket')} in which it was saturated). "
        f"To use it to at most {headroom:.0%}, "
    )


def _conclusion(kind: AdviceKind, needed: int, load: Load) -> str:
    want = f"{_counted(needed, 'consumer')} {'is' if needed == 1 else 'are'} needed"
    there = _there(load)
    match kind:
        case AdviceKind.ADD_PARTITIONS:
            return (
                f"{want}; there are {there}, and a partition has one consumer at a time: "
                f"make it {_counted(needed, 'partition')} and {_counted(needed, 'consumer')}."
            )
        case AdviceKind.ADD_CONSUMERS:
            more = needed - (load.consumers or 0)
            return f"{want}; there are {there}: start {more:,} more."
        case _:
            return f"{want}; there are {there}: enough."


def _there(load: Load) -> str:
    partitions = _counted(load.partitions, "partition")
    if load.consumers is None:
        return f"{partitions} and the number of consumers is unknown"
    return f"{_counted(load.consumers, 'consumer')} and {partitions}"


def _why_untold(load: Load) -> str:
    return "The data cannot tell: " + " ".join(_obstacle(load))


def _obstacle(load: Load) -> Iterator[str]:
    """The first reason why there is no answer, and what is known nevertheless."""
    if load.peak_per_s is None:
        yield "it is not known how much was produced."
    elif load.peak_per_s == 0:
        yield f"nothing was produced at peak, in {_counted(load.buckets, 'five-minute bucket')}."
    elif load.saturated_buckets == 0 and load.unowned_buckets:
        yield (
            f"messages waited all the time in {_counted(load.unowned_buckets, 'bucket')} of five "
            "minutes, but it was unknown which consumer held the partitions."
        )
    elif load.saturated_buckets == 0 and load.partly_buckets:
        yield (
            f"in {_counted(load.partly_buckets, 'bucket')} of five minutes messages waited in some "
            "partitions of a consumer while it had read all of its others: the load is skewed, and "
            "more consumers would not take it."
        )
    elif load.saturated_buckets == 0:
        yield (
            f"no consumer was saturated in {_counted(load.buckets, 'bucket')} of five minutes, "
            "so what one can do was not seen."
        )
        yield _kept_up(load)
    else:
        yield (
            f"a consumer was saturated in only {_counted(load.saturated_buckets, 'bucket')} of "
            f"five minutes, and {MIN_BUCKETS} are needed to measure what it can do."
        )


def _kept_up(load: Load) -> str:
    if load.read_share is None:
        return "How much was read is not known."
    if load.read_share < KEPT_UP:
        return (
            f"The group read {load.read_share:.0%} of what was produced all the same: it stood "
            "still, or was held up by something else than its own speed."
        )
    kept_up = f"kept up with a peak of {rate(load.peak_per_s)} messages/s"
    if load.consumers == 0:
        return f"The group {kept_up}, and has no consumers now."
    who = "Those there are" if load.consumers is None else _counted(load.consumers, "consumer")
    return f"{who} {kept_up}."


def rate(per_s: float | None) -> str:
    """`1,850`, `42.5`, `0.031`: three figures, no more; `unknown`."""
    if per_s is None:
        return "unknown"
    if per_s >= 100:  # noqa: PLR2004 three figures before the point
        return f"{per_s:,.0f}"
    return f"{per_s:.3g}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"

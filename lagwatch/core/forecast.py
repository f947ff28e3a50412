"""When a group will have caught up and when it will lose messages, from its rates.

The forecast is lag / (consumed - produced). Its interval is to hold nine times of ten. It accounts
for speeds that vary from commit to commit, and that drift, the more the longer ahead; for how wrong
such forecasts of the same row were over the last minutes; and for speeds that grow or fall. `make
bench ONLY=forecast` replays traces against it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf, isnan
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.lags import POINTS, STEP_MS, PastLags
from lagwatch.core.rates import Rates, Turn, turn

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

_SURE: Final = 1.645
"""Standard deviations to each side that nine of ten are within."""
_DRIFT: Final = 0.007
"""Relative drift of speeds within the time of a window, as a standard deviation."""
_WEIGHT: Final = 1.0
"""So many past forecasts say as much as what is known without any."""
_LASTS: Final = 2.0
"""Speeds that grow or fall go on doing so for so many times as long as that was seen."""
_FEWEST_STEPS: Final = 6
"""Steps of past lags that a change of speed is looked for in, at least."""
_KEPT: Final = 2.0
"""A lag of what comes in so many usual intervals between commits is that of a group that keeps
up."""
_SLOWLY: Final = 0.2
"""Such a lag that falls by less than this part of what is produced goes up and down by chance."""
_LITTLE: Final = 0.05
"""Part of what is produced by which a lag changes that is about steady."""
_MOST: Final = 2 / 3
"""A lag that grows by more of what is produced is not called steady, however small it is yet."""
_NEAR_S: Final = 60
"""A lag of what is produced in this time goes up and down by more than that."""
_LONGEST_S: Final = 366 * 86_400
"""A forecast beyond a year is given as unknown."""


class CatchUpReason(StrEnum):
    """Why a group has, or lacks, a catch-up time."""

    CAUGHT_UP = "caught_up"
    CATCHING_UP = "catching_up"
    NOT_MOVING = "not_moving"
    """It reads nothing."""
    FALLING_BEHIND = "falling_behind"
    """More is produced than it reads."""
    TOO_SLOW = "too_slow"
    """At this speed it takes more than a year."""
    RATES_UNKNOWN = "rates_unknown"
    """Too few commits, or log ends that were not read."""
    WAITS_FOR_TRANSACTION = "waits_for_transaction"
    """Nothing more can be read before an open transaction ends."""
    LAG_UNKNOWN = "lag_unknown"
    KEEPS_UP = "keeps_up"
    """It is behind by what comes between two commits, and stays so."""


_REASONS: Final = tuple(CatchUpReason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Rates and forecast of a partition or a group; None is unknown."""

    produced_per_s: float | None
    consumed_per_s: float | None
    lag_trend_per_s: float | None
    """Messages per second by which the lag grows."""
    catch_up_s: float | None
    catch_up_low_s: float | None
    """Nine of ten catch up between these two."""
    catch_up_high_s: float | None
    """None beside a known `catch_up_s`: it may never catch up."""
    catch_up_reason: CatchUpReason
    loss_in_s: float | None
    """Until retention reaches the committed offset; None when it does not, or is not known."""
    retention_used: float | None
    """Share of the retained log that is ahead of the group, 0..1."""
    steady: bool = False
    """It grows or shrinks by no more than chance may explain, and by a twentieth of what is
    produced at most, unless it is less than what comes in a minute: a forecast says little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlooks:
    """`Outlook`s as columns; NaN is unknown."""

    rates: Rates
    catch_up_s: Float64
    low_s: Float64
    high_s: Float64
    reason: NDArray[np.int8]
    """Position in `CatchUpReason`."""
    loss_in_s: Float64
    retention_used: Float64
    steady: NDArray[np.bool_]

    def every(self) -> list[Outlook]:
        """The outlook of each row, in their order."""
        columns = (
            self.rates.produced_per_s,
            self.rates.consumed_per_s,
            self.rates.trend_per_s,
            self.catch_up_s,
            self.low_s,
            self.high_s,
            self.loss_in_s,
            self.retention_used,
        )
        # whole columns at once: a group may have thousands of partitions
        known = [[_known(value) for value in column.tolist()] for column in columns]
        return [
            Outlook(
                produced_per_s=produced,
                consumed_per_s=consumed,
                lag_trend_per_s=trend,
                catch_up_s=takes,
                catch_up_low_s=low,
                catch_up_high_s=high,
                catch_up_reason=_REASONS[reason],
                loss_in_s=loss,
                retention_used=used,
                steady=steady,
            )
            for reason, steady, produced, consumed, trend, takes, low, high, loss, used in zip(
                self.reason.tolist(), self.steady.tolist(), *known, strict=True
            )
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOutlook:
    """Of a group as a whole, and of its partitions by (topic, partition)."""

    whole: Outlook
    """Rates are sums, or `Taking.whole`'s; unknown when one is. The others are those of its worst
    partition, or of all that take turns together."""
    slowest: tuple[str, int] | None
    """The partition that catches up last, or never; None when none is behind."""
    lag_skew: float | None
    """Greatest lag of a partition over the mean of all; None without lag."""
    partitions: dict[tuple[str, int], Outlook]


def outlooks(
    rates: Rates,
    *,
    lag: Int64,
    waits: NDArray[np.bool_],
    committed: Int64,
    log_start: Int64,
    log_end: Int64,
    past: PastLags,
) -> Outlooks:
    """Forecasts of rows; -1 is unknown in the columns given; `past` as `Lags.of` has it.

    `lag` counts what can be read; `waits`: rows with more behind an open transaction.
    """
    drain = -rates.trend_per_s
    left = _left(lag, rates)
    takes_s, reason = _catch_up(lag, left, drain, rates.consumed_per_s)
    keeps_up = _keeps_up(lag, rates, reason)
    takes_s[keeps_up], reason[keeps_up] = np.nan, _REASONS.index(CatchUpReason.KEEPS_UP)
    held = waits & (lag == 0)
    takes_s[held], reason[held] = np.nan, _REASONS.index(CatchUpReason.WAITS_FOR_TRANSACTION)
    caught_up = reason == _REASONS.index(CatchUpReason.CAUGHT_UP)
    will = reason == _REASONS.index(CatchUpReason.CATCHING_UP)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        unsure = _unsure(rates, past, takes_s)
        change = _change(rates, past, takes_s)
        low_s = np.where(will, left / (drain + unsure + np.maximum(change, 0)), takes_s)
        least = drain - unsure + np.minimum(change, 0)
        # that it has caught up shows at its next commit
        high_s = np.where(will & (least > 0), left / least + rates.gap_s, np.nan)
        high_s = np.where(caught_up, 0.0, high_s)
        falls = reason == _REASONS.index(CatchUpReason.FALLING_BEHIND)
        by_chance = (will & np.isnan(high_s)) | (
            falls & (-drain <= _unsure(rates, past, rates.span_s))
        )
        little = np.abs(drain) <= _LITTLE * rates.produced_per_s
        near = (lag <= _NEAR_S * rates.produced_per_s) & (drain >= -_MOST * rates.produced_per_s)
        steady = by_chance & (little | near)
        length = log_end - log_start
        trimmed = (log_start > 0) & (length > 0) & (lag >= 0)
        used = np.where(trimmed, np.minimum(lag / np.maximum(length, 1), 1.0), np.nan)
        # a log of constant length loses as much at its start as it gains at its end
        nears = trimmed & (lag > 0) & (drain < 0)
        ahead = np.maximum(committed - log_start, 0)
        loss_s = np.where(nears, ahead / -drain, np.nan)
    return Outlooks(
        rates=rates,
        catch_up_s=takes_s,
        low_s=low_s,
        high_s=high_s,
        reason=reason,
        loss_in_s=loss_s,
        retention_used=used,
        steady=steady,
    )


def _keeps_up(lag: Int64, rates: Rates, reason: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Rows whose lag hardly shrinks, and is no more than what is produced between two commits."""
    never = (CatchUpReason.FALLING_BEHIND, CatchUpReason.TOO_SLOW)
    with np.errstate(invalid="ignore"):
        slowly = -rates.trend_per_s < _SLOWLY * rates.produced_per_s
        usual: NDArray[np.bool_] = lag <= _KEPT * rates.produced_per_s * rates.gap_s
    slowly &= reason == _REASONS.index(CatchUpReason.CATCHING_UP)
    return (np.isin(reason, [_REASONS.index(each) for each in never]) | slowly) & usual


def _unsure(rates: Rates, past: PastLags, takes_s: Float64) -> Float64:
    """By how much the speed ahead may differ from the measured one, to either side."""
    flow = rates.consumed_per_s + rates.produced_per_s
    drift = _DRIFT * flow * np.sqrt(1 + takes_s / rates.span_s)
    before2 = _chance(rates, takes_s) ** 2 + (_SURE * drift) ** 2
    error2, number = _past_errors(past, rates.span_s, takes_s)
    found2 = (_WEIGHT * before2 + number * _SURE**2 * error2) / (_WEIGHT + number)
    unsure: Float64 = np.sqrt(found2)
    return unsure


def _change(rates: Rates, past: PastLags, takes_s: Float64) -> Float64:
    """By how much the speed ahead differs if it goes on growing or falling."""
    turned = rates.turn.or_surer(_past_turn(past, rates.span_s, takes_s))
    # from the middle of the window to that of the time ahead
    ahead_s = (rates.span_s + np.minimum(takes_s, _LASTS * turned.over_s)) / 2
    change: Float64 = turned.beyond_chance * ahead_s
    return change


def _left(lag: Int64, rates: Rates) -> Float64:
    """Messages still to be read, less those that were probably read since the last commit."""
    read = np.nan_to_num(rates.consumed_per_s * rates.since_s)
    left: Float64 = np.where(lag > 0, np.maximum(lag - read, 0.0), lag)
    return left


def _catch_up(
    lag: Int64, left: Float64 | Int64, drain: Float64, consumed_per_s: Float64
) -> tuple[Float64, NDArray[np.int8]]:
    """Seconds until rows have caught up, not a number unless they will; and the reasons."""
    reason = np.full(lag.size, _REASONS.index(CatchUpReason.CATCHING_UP), np.int8)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        takes_s = np.where(drain > 0, left / drain, np.nan)
        for why, where in (
            (CatchUpReason.TOO_SLOW, takes_s > _LONGEST_S),
            (CatchUpReason.FALLING_BEHIND, drain <= 0),
            (CatchUpReason.RATES_UNKNOWN, np.isnan(drain)),
            (CatchUpReason.NOT_MOVING, consumed_per_s == 0),
            (CatchUpReason.CAUGHT_UP, lag == 0),
            (CatchUpReason.LAG_UNKNOWN, lag < 0),
        ):
            reason[where] = _REASONS.index(why)
    caught_up = reason == _REASONS.index(CatchUpReason.CAUGHT_UP)
    will = reason == _REASONS.index(CatchUpReason.CATCHING_UP)
    return np.where(caught_up, 0.0, np.where(will, takes_s, np.nan)), reason


def from_lags(lags: Sequence[tuple[int, int]]) -> float | None:
    """Seconds until it has caught up where only lags are known; `remaining_s` says how.

    `lags` are (instant in ms, messages), oldest first; the speed is that from the first to the
    last.
    """
    (first_ms, first), (last_ms, last) = lags[0], lags[-1]
    if last_ms <= first_ms:
        return None
    drain = np.array([(first - last) * 1000 / (last_ms - first_ms)])
    lag = np.array([last], np.int64)
    takes_s, reason = _catch_up(lag, lag, drain, np.array([np.nan]))
    return _remaining_s(_known(takes_s[0]), _REASONS[reason[0]])


def remaining_s(outlooks: Iterable[Outlook]) -> float | None:
    """Seconds until the slowest has caught up; infinite: it will not; None: not known."""
    late = max(
        outlooks,
        key=lambda each: (_RANK[each.catch_up_reason], each.catch_up_s or 0.0),
        default=None,
    )
    return None if late is None else _remaining_s(late.catch_up_s, late.catch_up_reason)


_NEVER: Final = (
    CatchUpReason.NOT_MOVING,
    CatchUpReason.FALLING_BEHIND,
    CatchUpReason.TOO_SLOW,
)


def _remaining_s(takes_s: float | None, reason: CatchUpReason) -> float | None:
    if reason is CatchUpReason.KEEPS_UP:
        return 0.0
    return inf if reason in _NEVER else takes_s


def _chance(rates: Rates, takes_s: Float64) -> Float64:
    """By how much the future mean speed may differ by chance from that of the window.

    Both are means of speeds that vary alike. With few of them the normal distribution is too
    narrow; the factor is close to Student's t.
    """
    free = np.maximum(rates.steps - 1, 1)
    student = _SURE * (1 + 0.9 / free + 1.9 / free**2)
    parts = (1 + rates.span_s / np.maximum(takes_s, 1)) / np.maximum(rates.steps, 1)
    chance: Float64 = student * np.nan_to_num(rates.spread_per_s) * np.sqrt(parts)
    return chance


def _past_errors(past: PastLags, span_s: Float64, takes_s: Float64) -> tuple[Float64, Float64]:
    """How wrong such forecasts were of late: mean square, and of how many that do not overlap.

    A past forecast is the speed over as long as the window; it is compared with the speed that
    came, over as much of the time ahead as the lags reach back. Rows without any have 0 of them.
    """
    error2, number = np.zeros(span_s.size), np.zeros(span_s.size)
    step_s = STEP_MS / 1000
    unbroken = np.cumprod(~np.isnan(past.lag[::-1]), axis=0).sum(axis=0)
    with np.errstate(invalid="ignore"):
        back = _power(np.minimum(span_s / step_s, unbroken / 3))
        ahead = _power(np.minimum(takes_s / step_s, (unbroken - 1 - back) / 2))
    some = (unbroken > back + ahead) & ~np.isnan(takes_s)
    for before, after in {*zip(back[some].tolist(), ahead[some].tolist(), strict=True)}:
        rows = np.flatnonzero(some & (back == before) & (ahead == after))
        lag, commit_s = past.lag[:, rows].astype(np.float64), past.commit_ms[:, rows] / 1000
        speed = _speed(lag, commit_s, before)[: POINTS - before - after]
        off = _speed(lag, commit_s, after)[before:] - speed
        counts = (np.arange(off.shape[0])[:, None] >= POINTS - unbroken[rows]) & ~np.isnan(off)
        tries = counts.sum(axis=0)
        error2[rows] = (np.where(counts, off, 0.0) ** 2).sum(axis=0) / np.maximum(tries, 1)
        number[rows] = tries / max(before, after)
    return error2, number


def _past_turn(past: PastLags, span_s: Float64, takes_s: Float64) -> Turn:
    """How speeds grew or fell over as long as the window, or the time ahead if that is longer."""
    lag, commit_s = past.lag.astype(np.float64), past.commit_ms / 1000
    speed = _speed(lag, commit_s, 1)
    steps = np.nan_to_num(np.fmax(span_s, takes_s)) / (STEP_MS / 1000)
    recent = np.arange(POINTS - 1)[:, None] >= POINTS - 1 - np.maximum(steps, _FEWEST_STEPS)
    unbroken = np.cumprod(~np.isnan(past.lag[::-1]), axis=0)[::-1][:-1] > 0
    known = recent & unbroken & ~np.isnan(speed)
    return turn(speed, (commit_s[1:] + commit_s[:-1]) / 2, known)


def _speed(lag: Float64, commit_s: Float64, steps: int) -> Float64:
    """How fast the lag shrank from each point to that so many steps later."""
    gone_s = commit_s[steps:] - commit_s[:-steps]
    return (lag[:-steps] - lag[steps:]) / np.where(gone_s > 0, gone_s, np.nan)


def _power(steps: Float64) -> Int64:
    """The greatest power of two that is not more; at least 1."""
    exponent = np.floor(np.log2(np.maximum(np.nan_to_num(steps), 1.0)))
    return (2**exponent).astype(np.int64)


_RANK: Final = {
    CatchUpReason.CAUGHT_UP: 0,
    CatchUpReason.KEEPS_UP: 1,
    CatchUpReason.LAG_UNKNOWN: 2,
    CatchUpReason.CATCHING_UP: 3,
    CatchUpReason.WAITS_FOR_TRANSACTION: 4,
    CatchUpReason.RATES_UNKNOWN: 5,
    CatchUpReason.TOO_SLOW: 6,
    CatchUpReason.FALLING_BEHIND: 7,
    CatchUpReason.NOT_MOVING: 8,
}


class Taking(NamedTuple):
    """Of a group whose consumers read some of its partitions after others."""

    whole: Outlook
    """Outlook of the group's whole lag, with rates of all partitions over the same time."""
    turns: frozenset[tuple[str, int]]
    """Partitions that rest while others are read, and are fine by their verdicts: what they do
    says nothing of the group."""


def without_catch_up(outlook: GroupOutlook) -> GroupOutlook:
    """The outlook without a catch-up time, for a group whose lag is only partly known."""
    whole = replace(
        outlook.whole,
        catch_up_s=None,
        catch_up_low_s=None,
        catch_up_high_s=None,
        catch_up_reason=CatchUpReason.LAG_UNKNOWN,
        steady=False,
    )
    return replace(outlook, whole=whole)


def of_group(
    partitions: dict[tuple[str, int], Outlook],
    lags: dict[tuple[str, int], int | None],
    taking: Taking | None = None,
) -> GroupOutlook:
    """Outlook of the group: that of its slowest partition, and of the one nearest to a loss.

    Partitions that take turns count as one, with the lag of the whole group.
    """
    each = list(partitions.values())
    turns = frozenset[tuple[str, int]]() if taking is None else taking.turns
    behind = {
        place: outlook
        for place, outlook in partitions.items()
        if (lags[place] or 0) > 0 or outlook.catch_up_reason is CatchUpReason.WAITS_FOR_TRANSACTION
    }
    alone = {place: each for place, each in behind.items() if place not in turns}
    slowest = max(
        alone or behind or partitions,
        key=lambda place: (*_lateness(partitions[place]), lags[place] or 0),
        default=None,
    )
    late = None if slowest is None else partitions[slowest]
    resting = turns & behind.keys()
    if (
        taking is not None
        and resting
        and (not alone or late is None or _lateness(taking.whole) > _lateness(late))
    ):
        late = taking.whole
        slowest = max(resting, key=lambda place: (lags[place] or 0, place))
    known = [lag for lag in lags.values() if lag is not None]
    total = sum(known)
    produced, consumed = (
        _sum([getattr(outlook, name) for outlook in each])
        for name in ("produced_per_s", "consumed_per_s")
    )
    if taking is not None:
        consumed = taking.whole.consumed_per_s
    return GroupOutlook(
        whole=Outlook(
            produced_per_s=produced,
            consumed_per_s=consumed,
            lag_trend_per_s=None if produced is None or consumed is None else produced - consumed,
            catch_up_s=None if late is None else late.catch_up_s,
            catch_up_low_s=None if late is None else late.catch_up_low_s,
            catch_up_high_s=None if late is None else late.catch_up_high_s,
            catch_up_reason=CatchUpReason.LAG_UNKNOWN if late is None else late.catch_up_reason,
            loss_in_s=min(
                (outlook.loss_in_s for outlook in each if outlook.loss_in_s is not None),
                default=None,
            ),
            retention_used=max(
                (outlook.retention_used for outlook in each if outlook.retention_used is not None),
                default=None,
            ),
            steady=late is not None and late.steady,
        ),
        slowest=slowest if behind else None,
        lag_skew=max(known) * len(known) / total if total else None,
        partitions=partitions,
    )


def _lateness(outlook: Outlook) -> tuple[int, float]:
    return _RANK[outlook.catch_up_reason], outlook.catch_up_s or 0.0


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _known(value: float) -> float | None:
    return None if isnan(value) else round(value, 3)

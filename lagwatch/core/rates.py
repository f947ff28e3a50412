"""How fast partitions are written and read, over the time of a window of commits.

Rates are messages per second, columns of equal length; not a number: unknown, which is not 0.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.log_end import OUTAGE_MS, LogEndHistory
from lagwatch.core.model import UNKNOWN
from lagwatch.core.rows import WindowColumns

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

FEWEST: Final = 3
"""Commits that a window needs for a rate."""
SHORTEST_MS: Final = 5_000
"""Time that a window must span for a rate."""
LONG_MS: Final = 60_000
"""A group that has been silent for longer than this, and than its whole window, reads nothing."""
_PAUSES: Final = 32
"""Parts of the measured time in which pauses between appends are looked for."""
_LONGER: Final = 1.5
"""A partition rests whose log end has not grown for so many of its longest pauses."""
_ONCE_MS: Final = 300_000
"""The shortest of them that is taken for granted where it was seen to grow once only."""
_FEWEST_TURN: Final = 5
"""Speeds that say whether they grow or fall."""
_COMPARED_MS: Final = 10_000
"""Time before and after an instant from which speeds are compared."""
_BEFORE_MS: Final = 3_600_000
"""How far back before the instant: the night says nothing about the morning."""
_RESTS: Final = 2.5
"""A row that is silent for so many of its usual intervals between commits, or was, rests."""
_REST_MS: Final = 5_000
"""A shorter silence is no rest."""
_WINDOW: Final = 9
"""Intervals between the commits of a full window."""
_PARTS: Final = 6
"""Parts of a common stretch of time whose speeds are compared."""
_THINNED: Final = 8
"""Samples are no further apart than an eighth of their age, and a few usual distances."""
_USUAL: Final = 4


class Turn(NamedTuple):
    """By how much per second the speed grows at which lags shrink; columns of equal length."""

    per_s2: Float64
    """The slope of a line through speeds; not a number: too few of them."""
    error2: Float64
    """Its uncertainty: the square of the standard error."""
    over_s: Float64
    """The time that the speeds are of."""

    def or_surer(self, other: "Turn") -> "Turn":
        """Of each row that with the smaller error."""
        mine = np.isnan(other.error2) | (self.error2 <= other.error2)
        return Turn(*(np.where(mine, own, their) for own, their in zip(self, other, strict=True)))

    @property
    def beyond_chance(self) -> Float64:
        """The slope less what chance explains of it; 0 where it is unknown."""
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.sqrt(np.maximum(1 - self.error2 / self.per_s2**2, 0.0))
        sure: Float64 = np.nan_to_num(self.per_s2 * share)
        return sure


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Rates of some rows over the time of their windows."""

    produced_per_s: Float64
    consumed_per_s: Float64
    spread_per_s: Float64
    """Standard deviation of consumed less produced from commit to commit."""
    steps: Int64
    """Number of speeds it is computed from."""
    turn: "Turn"
    """Of the speeds within the window."""
    span_s: Float64
    """The time that they were measured over."""
    gap_s: Float64
    """Usual time between two commits."""
    since_s: Float64
    """Time since the last commit in which it has read on, as far as can be expected."""

    @property
    def trend_per_s(self) -> Float64:
        """By how much the lag grows; negative while it shrinks."""
        return self.produced_per_s - self.consumed_per_s

    def take(self, index: NDArray[np.integer]) -> "Rates":
        """Some of the rows."""
        return Rates(
            produced_per_s=self.produced_per_s[index],
            consumed_per_s=self.consumed_per_s[index],
            spread_per_s=self.spread_per_s[index],
            steps=self.steps[index],
            turn=Turn(*(column[index] for column in self.turn)),
            span_s=self.span_s[index],
            gap_s=self.gap_s[index],
            since_s=self.since_s[index],
        )


def rates(
    windows: WindowColumns,
    at: NDArray[np.integer],
    history: LogEndHistory,
    *,
    now_ms: int,
    skew_ms: int,
    stopped: NDArray[np.bool_] | None = None,
    caught_up: NDArray[np.bool_] | None = None,
) -> Rates:
    """Rates of rows.

    A group that has been silent for longer than between two commits has not read since: that time
    counts; after a silence longer than the window (and `LONG_MS`) it reads nothing. A rewind is not
    negative reading: only what was read forward counts. What is produced is measured over a time as
    long as the window, up to the newest log end, which may be older than the newest commit; once
    the log end has not grown for a minute, and for longer than it usually pauses, that is nothing.

    Args:
        windows: their windows.
        at: their topic-partitions; -1 for those that are not visible.
        history: log ends, on lagwatch's clock.
        now_ms: up to when commits and log ends are known, on Kafka's clock.
        skew_ms: how far lagwatch's clock is ahead of Kafka's.
        stopped: rows that are known to read nothing, however short their silence is, and however
            few their commits are.
        caught_up: rows without anything to read: silent for a minute, they read nothing, however
            few their commits are.
    """
    offset, commit_ms = (windows.in_time(column) for column in (windows.offset, windows.commit_ms))
    count = windows.count.astype(np.int64)
    slot = np.arange(offset.shape[0])[:, None]
    follows = (slot >= 1) & (slot < count)
    steps = np.where(follows, np.diff(offset, axis=0, prepend=offset[:1]), 0)
    gone_ms = np.where(follows, np.diff(commit_ms, axis=0, prepend=commit_ms[:1]), 0)
    first_ms = commit_ms[0]
    last_ms = first_ms + gone_ms.sum(axis=0)
    span_ms = last_ms - first_ms
    usual_ms = span_ms // np.maximum(count - 1, 1)
    silent_ms = np.maximum(now_ms - last_ms - usual_ms, 0)
    enough = (count >= FEWEST) & (span_ms >= SHORTEST_MS)
    silent = silent_ms > np.maximum(span_ms, LONG_MS)
    idle = np.zeros_like(enough)
    if stopped is not None:
        silent |= stopped
        idle |= stopped & (now_ms - first_ms >= SHORTEST_MS)
    if caught_up is not None:
        idle |= caught_up & (now_ms - last_ms > LONG_MS)
    idle &= (count > 0) & ~enough
    silent, enough = silent | idle, enough | idle
    elapsed_s = np.where(enough, (span_ms + silent_ms) / 1000, np.nan)
    read = np.where(silent, 0, np.maximum(steps, 0).sum(axis=0))
    consumed = read / elapsed_s
    produced = _produced(at, history, first_ms + skew_ms, now_ms + skew_ms, least_ms=span_ms)
    speed, pairs = _speeds(windows, commit_ms, slot < count)
    spread, number = _spread(speed, pairs)
    return Rates(
        produced_per_s=np.where(enough, produced, np.nan),
        consumed_per_s=consumed,
        spread_per_s=np.where(enough, spread, np.nan),
        steps=number,
        turn=turn(-speed, (commit_ms[1:] + commit_ms[:-1]) / 2000, pairs),
        span_s=elapsed_s,
        gap_s=np.where(enough, usual_ms / 1000, np.nan),
        since_s=np.where(enough, np.clip(now_ms - last_ms, 0, usual_ms) / 1000, np.nan),
    )


class Reading(NamedTuple):
    """How rows were read, by the commits in their windows."""

    rests: NDArray[np.bool_]
    """Silent for longer than usual, or was within the window, or not read in it at all."""
    read: Int64
    """Messages read forward up to each commit since the one before; [commits, rows]."""
    begin_ms: Int64
    """When reading them began."""
    commit_ms: Int64
    end_ms: Int64
    """Up to when it is known what was read: the last commit, or now less the usual time to the
    next one."""
    usual_ms: Int64
    """Median time between two commits."""

    def take(self, index: NDArray[np.integer]) -> "Reading":
        """Some of the rows."""
        return Reading(
            rests=self.rests[index],
            read=self.read[:, index],
            begin_ms=self.begin_ms[:, index],
            commit_ms=self.commit_ms[:, index],
            end_ms=self.end_ms[index],
            usual_ms=self.usual_ms[index],
        )

    def until(self, at_ms: Float64) -> Float64:
        """Messages read from the first commit of the window to these instants."""
        over_ms = np.maximum(self.commit_ms - self.begin_ms, 1)
        share = np.clip((at_ms - self.begin_ms) / over_ms, 0.0, 1.0)
        read: Float64 = (self.read * share).sum(axis=0)
        return read


def reading(
    windows: WindowColumns, now_ms: int, away_between: Callable[[Int64, Int64], NDArray[np.bool_]]
) -> Reading:
    """How rows were read.

    What is committed after a long silence was read at its end, unless it is known only that
    something was read: see `away_between`.

    Args:
        windows: their windows.
        now_ms: as for `rates`.
        away_between: True where Kafka or lagwatch was away between two instants, both of the shape
            [commits, rows].
    """
    offset, commit_ms = (
        windows.in_time(column).astype(np.int64) for column in (windows.offset, windows.commit_ms)
    )
    count = windows.count.astype(np.int64)
    slot = np.arange(offset.shape[0])[:, None]
    follows = (slot >= 1) & (slot < count)
    gap_ms = np.where(follows, np.diff(commit_ms, axis=0, prepend=commit_ms[:1]), 0)
    read = np.where(follows, np.diff(offset, axis=0, prepend=offset[:1]), 0)
    last_ms = commit_ms[0] + gap_ms.sum(axis=0)
    # the slots that are not used are sorted to the end
    rising = np.sort(np.where(follows, gap_ms, np.iinfo(np.int64).max), axis=0)
    middle = np.maximum(count - 2, 0) // 2
    usual_ms = np.where(count >= 2, rising[middle, np.arange(count.size)], 0)  # noqa: PLR2004
    long_ms = np.maximum(_RESTS * usual_ms, _REST_MS)
    paused = follows & (gap_ms > long_ms)
    if paused.any():
        paused &= ~away_between(commit_ms - gap_ms, commit_ms)
    silent = now_ms - last_ms > long_ms
    return Reading(
        rests=(count > 0) & (silent | paused.any(axis=0) | (read <= 0).all(axis=0)),
        read=np.maximum(read, 0),
        begin_ms=commit_ms - np.where(paused, usual_ms, gap_ms),
        commit_ms=commit_ms,
        # commits may be newer than what is known of all of them
        end_ms=np.maximum(now_ms - np.clip(now_ms - last_ms, 0, usual_ms), last_ms),
        usual_ms=usual_ms,
    )


def together(measured: Rates, found: Reading, group: NDArray[np.integer], groups: int) -> Rates:
    """Rates of groups whose partitions take turns: all over one common stretch of time.

    It is as long as a window of the group's, a minute at least if all commits reach back so far.
    Rates of rows are each over the time of its own window: a sum counts one that has just paused
    beside the one that began. Unknown where that of a row is.

    Args:
        measured: rates of rows.
        found: how these were read.
        group: the group of each row, 0 to `groups` - 1.
        groups: number of groups.
    """
    reads = measured.consumed_per_s > 0
    read = found._replace(read=np.where(reads, found.read, 0))
    usual_ms = np.zeros(groups)
    np.maximum.at(usual_ms, group, np.where(reads, found.usual_ms, 0))
    stretch_ms = np.maximum(_WINDOW * usual_ms, LONG_MS)
    np.minimum.at(stretch_ms, group, np.where(reads, found.end_ms - found.commit_ms[0], np.inf))
    unknown = np.bincount(group, np.isnan(measured.consumed_per_s), groups) > 0
    stretch_ms[unknown | (stretch_ms < SHORTEST_MS)] = np.nan
    row_ms = np.nan_to_num(stretch_ms)[group]
    marks = np.stack(
        [
            np.bincount(group, read.until(found.end_ms - row_ms * (1 - part / _PARTS)), groups)
            for part in range(_PARTS + 1)
        ]
    )
    speed = np.diff(marks, axis=0) * 1000 * _PARTS / stretch_ms
    nothing = np.full(groups, np.nan)
    produced = np.zeros(groups)
    np.add.at(produced, group, measured.produced_per_s)
    return Rates(
        produced_per_s=produced,
        consumed_per_s=(marks[-1] - marks[0]) * 1000 / stretch_ms,
        spread_per_s=speed.std(axis=0, ddof=1),
        # parts shorter than the time between two commits do not vary on their own
        steps=np.clip(np.nan_to_num(stretch_ms) // np.maximum(usual_ms, 1), 2, _PARTS).astype(
            np.int64
        ),
        turn=Turn(nothing, nothing, np.zeros(groups)),
        span_s=stretch_ms / 1000,
        gap_s=usual_ms / 1000,
        since_s=np.zeros(groups),
    )


def produced_around(
    at: NDArray[np.integer], history: LogEndHistory, since_ms: int
) -> tuple[float | None, float | None]:
    """What was appended per second to all of these partitions, before an instant and since.

    Before it: within an hour at most, and of each partition since it was first known. None where
    one of them is not known, or was sampled for less than 10 s. After an outage producers write
    what they held back: the outage, in which nothing could be written, then counts with the time
    since; so it is for a partition whose leader alone was away.

    Args:
        at: the topic-partitions.
        history: log ends.
        since_ms: the instant, on lagwatch's clock.
    """
    if not history.at_ms.size or not at.size or (at < 0).any():
        return None, None
    first = history.first_above(at, np.full(at.size, UNKNOWN, np.int64))
    if (first >= history.at_ms.size).any():
        return None, None
    begins_ms = with_outage(at, history, since_ms)
    # a topic that is new was not written slowly before it was there
    from_ms = np.maximum(history.at_ms[first], begins_ms - _BEFORE_MS)
    newest_ms = np.full(at.size, history.at_ms[-1])
    return _sum_between(at, history, from_ms, begins_ms), _sum_between(
        at, history, np.maximum(from_ms, begins_ms), newest_ms
    )


def with_outage(at: NDArray[np.integer], history: LogEndHistory, since_ms: int) -> Int64:
    """The instant, or the beginning of the outage whose backlog may have been written since.

    Of each partition: its leader alone may have been away. Writing a backlog takes about as long
    as the outage did, at twice the usual speed.
    """
    first_ms, last_ms = history.away(at)
    held_back = (last_ms >= 0) & (last_ms >= since_ms - (last_ms - first_ms))
    whole_ms = _with_whole_outage(history, since_ms)
    begins_ms: Int64 = np.where(held_back, np.minimum(first_ms, whole_ms), whole_ms)
    return begins_ms


def _with_whole_outage(history: LogEndHistory, since_ms: int) -> int:
    """`with_outage` for outages of the whole cluster, in which there are no samples."""
    at_ms = history.at_ms
    newest_ms = int(at_ms[-1])
    long_ms = np.diff(at_ms)
    usual_ms = (newest_ms - at_ms[1:]) // _THINNED + _USUAL * history.spacing_ms
    away = np.flatnonzero(long_ms > np.maximum(OUTAGE_MS, usual_ms))
    for hole in reversed(away.tolist()):
        if at_ms[hole + 1] < since_ms - long_ms[hole]:
            break
        since_ms = min(since_ms, int(at_ms[hole]))
    return since_ms


def _sum_between(
    at: NDArray[np.integer], history: LogEndHistory, from_ms: Int64, to_ms: Int64
) -> float | None:
    span_ms = to_ms - from_ms
    if (span_ms < _COMPARED_MS).any():
        return None
    before, after = history.at(at, from_ms), history.at(at, to_ms)
    if (before < 0).any() or (after < before).any():
        return None
    return float(((after - before) * 1000 / span_ms).sum())


def _produced(
    at: NDArray[np.integer], history: LogEndHistory, from_ms: Int64, to_ms: int, *, least_ms: Int64
) -> Float64:
    """Messages appended per second from each instant on, over `least_ms` at least.

    As far as samples reach.
    """
    if not history.at_ms.size or not at.size:
        return np.full(at.size, np.nan)
    known_ms = min(to_ms, int(history.at_ms[-1]))
    from_ms = np.maximum(np.minimum(from_ms, known_ms - least_ms), history.at_ms[0])
    place = np.maximum(at, 0)
    before, after = history.at(place, from_ms), history.at(place, np.full(at.size, known_ms))
    span_ms = known_ms - from_ms
    known = (at >= 0) & (before >= 0) & (after >= before) & (span_ms >= SHORTEST_MS)
    grown = np.where(known, after - before, 0)
    lately = history.at(place, np.full(at.size, known_ms - LONG_MS))
    rests = np.flatnonzero((grown > 0) & (from_ms < known_ms - LONG_MS) & (lately == after))
    if rests.size:
        rests = rests[_rest(place[rests], history, from_ms[rests], known_ms)]
        grown[rests] = 0
    return np.where(known, grown * 1000 / np.maximum(span_ms, 1), np.nan)


def _rest(
    at: NDArray[np.integer], history: LogEndHistory, from_ms: Int64, known_ms: int
) -> NDArray[np.bool_]:
    """Mask of partitions that have not grown for longer than they paused since an instant.

    All have grown since then, and none has in the last minute.
    """
    # the first sample with the newest log end
    grew = history.first_above(at, history.at(at, np.full(at.size, known_ms)) - 1)
    grew_ms = history.at_ms[grew]
    part_ms = np.maximum((grew_ms - from_ms) // _PAUSES, 1)
    paused = np.zeros(at.size, np.int64)
    longest, times, before = paused.copy(), paused.copy(), history.at(at, from_ms)
    for part in range(1, _PAUSES + 1):
        end = history.at(at, from_ms + part * part_ms)
        times += end > before
        paused = np.where(end > before, 0, paused + 1)
        longest, before = np.maximum(longest, paused), end
    # a pause may reach into the parts beside it; old samples are too far apart to show it
    pause_ms = np.maximum((longest + 2) * part_ms, (known_ms - from_ms) // _THINNED)
    # between two samples a log end is drawn on a line, as if it grew all the time
    repeated = (times > 1) & (grew_ms - from_ms >= 2 * history.spacing_ms)
    pause_ms = np.where(repeated, pause_ms, np.maximum(pause_ms, _ONCE_MS))
    rests: NDArray[np.bool_] = known_ms - grew_ms > _LONGER * pause_ms
    return rests


def _speeds(
    windows: WindowColumns, commit_ms: Int64, used: NDArray[np.bool_]
) -> tuple[Float64, NDArray[np.bool_]]:
    """Speeds at which the lag shrank from commit to commit, 0 where unknown; which are known."""
    lag = windows.in_time(windows.lag)
    known = used & (lag >= 0)
    pairs = known[1:] & known[:-1]
    gone_s = np.diff(commit_ms, axis=0) / 1000
    pairs &= gone_s > 0
    return np.where(pairs, np.diff(lag, axis=0) / np.where(gone_s > 0, gone_s, 1.0), 0.0), pairs


def _spread(speed: Float64, pairs: NDArray[np.bool_]) -> tuple[Float64, Int64]:
    """Standard deviation of these speeds, and how many they are."""
    number = pairs.sum(axis=0)
    mean = speed.sum(axis=0) / np.maximum(number, 1)
    off = np.where(pairs, speed - mean, 0.0)
    deviation = np.sqrt((off**2).sum(axis=0) / np.maximum(number - 1, 1))
    return np.where(number >= FEWEST - 1, deviation, np.nan), number


def turn(speed: Float64, at_s: Float64, known: NDArray[np.bool_]) -> Turn:
    """The line through known speeds at which lags shrank, at these instants; [speeds, rows]."""
    number = np.maximum(known.sum(axis=0), 1)
    off_s = np.where(known, at_s - np.where(known, at_s, 0.0).sum(axis=0) / number, 0.0)
    off = np.where(known, speed - np.where(known, speed, 0.0).sum(axis=0) / number, 0.0)
    square = (off_s**2).sum(axis=0)
    enough = (number >= _FEWEST_TURN) & (square > 0)
    square = np.where(enough, square, np.nan)
    slope = (off_s * off).sum(axis=0) / square
    rest = np.where(known, off - slope * off_s, 0.0)
    error2 = (rest**2).sum(axis=0) / np.maximum(number - 2, 1) / square
    over_s = off_s.max(axis=0, initial=0.0) - off_s.min(axis=0, initial=0.0)
    return Turn(slope, error2, over_s)

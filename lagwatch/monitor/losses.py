"""Messages that were deleted before a group read them."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.log_end import LogEndHistory
from lagwatch.core.model import UNKNOWN, EpochMs, TimeLagReason
from lagwatch.core.snapshot import DOUBTED_MS
from lagwatch.core.window import CommitColumns, Entries, Windows
from lagwatch.monitor.leaps import Leap
from lagwatch.monitor.rows import Identity, RowTable
from lagwatch.monitor.setbacks import Setbacks
from lagwatch.monitor.vacancies import Vacancies, Vacancy
from lagwatch.ports.queries import Loss

Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]
Slots = NDArray[np.integer]
Key = TypeVar("Key")
Value = TypeVar("Value")

_EVER_MS: Final = 1 << 62
"""Later than any instant."""
_FEWEST: Final = 16
_MOST: Final = 120
"""So many spans of log starts are kept: ten minutes, or less of very many partitions."""
_MOST_CELLS: Final = 1_000_000
_DESCRIBED_MS: Final = 30_000
"""So long after a start groups may not be described yet."""
_MOST_SKIPPED: Final = 16
"""Losses of a group-partition that are kept: more than a window has commits."""
_PLAUSIBLE: Final = 3
"""A consumer reads at most this many times as fast as it was ever seen to."""
_GAPS: Final = 3
"""Intervals between commits of which the longest is taken for the usual one."""
_HUNG: Final = 4
"""A consumer that is silent for so many of them has not been reading all the time."""
_PATIENCE_MS: Final = 60_000
_LONG_PATIENCE_MS: Final = 300_000
"""A member may have read what it has not committed for so long; the latter while its usual
interval is not known."""
_HUNG_MS: Final = 30_000
"""Nor has one that is silent for longer than this, at least."""
_REJOINS_MS: Final = 60_000
"""A group that is seen without members within this time after an outage may not have lost them."""
_SEEN_LATE_MS: Final = 10_000, 30_000
"""Members that came may be seen so late: where the offsets topic has a record of it, and else."""
_FAR: Final = 10
"""A consumer whose lag is this many times its step has read nearly nothing of what there is."""
_LEAP: Final = 1.5
"""A step of so many usual ones is more than reading on."""
_UNBIASED: Final = 2
"""So many steps that passed no log start show how fast a consumer reads."""
_MOST_LOSSES: Final = 10_000
"""At most this many losses wait to be recorded."""
_BEHIND: Final = 4
"""One that went over so many times its lag may be near the log end."""
_THROWN_BACK: Final = 2
"""So often a group must seem to have been thrown back to the log start of a topic."""
_ONCE_MS: Final = 10_000
"""What a group passes within this time, in several partitions, may be one deletion."""
_EVENLY: Final = 4
"""The fastest step of a consumer that reads evenly is so many times as fast as the slowest one."""
_THROWN_SHARE: Final = 0.5
"""A consumer that has read less than this part of what it reads in a time began to later."""
_ROUND_MS: Final = 1_000
"""A round of log ends takes so long, at most, as a rule."""
_EVEN_MS: Final = 2_000, 10_000
"""Over a shorter time, or a quarter of the time between two commits, none reads evenly; it does
over the longer one."""
_MOST_DOUBTS: Final = 1_000
"""What a group passed in a topic, and may have read, is kept so often."""


@dataclass(slots=True, kw_only=True)
class _Span:
    """Rounds in a row that found the same log starts."""

    since_ms: int
    """End of the first of them."""
    until_ms: int
    """End of the last of them."""
    start: Int64
    """By topic-partition; -1 unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pass:
    """A commit that passed a log start."""

    row: int
    at: int
    before: int
    """The offset committed before it."""
    offset: int
    lag: int
    start: int
    """Log start soon after it."""
    window: Entries
    """The commits before it."""
    last_ms: int
    """When the last of them came, and this one, on lagwatch's clock; -1: there is none."""
    committed_ms: int
    late_ms: int
    """A poll finds a commit so long after it, at most; 0 where commits are read."""
    alone: bool
    """No other commit of the row was reported with it before it."""

    @property
    def since_ms(self) -> int:
        """Earliest instant at which the offset before it can have been committed."""
        # of a poll its round of log ends, which ends soon after it, is the one to compare with
        return self.last_ms - max(self.late_ms - _ROUND_MS, 0)

    @property
    def step(self) -> int:
        return self.offset - self.before

    @property
    def passed_to(self) -> int:
        """End of what was deleted of the messages that it passed."""
        return min(self.start, self.offset)

    @property
    def skipped(self) -> int:
        return self.passed_to - self.before

    def leap(self, usual: float) -> Leap:
        """It as a leap over what is read as usual in the same time."""
        return Leap(
            before=self.before,
            end=self.passed_to,
            offset=self.offset,
            took_ms=self.committed_ms - self.last_ms,
            usual=usual,
            at_ms=self.committed_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Doubt:
    """Messages that were deleted, and that a group has either read or skipped."""

    identity: Identity
    at_ms: int
    first: int
    end: int


class LogStarts:
    """Log starts by topic-partition over the last rounds. One owner writes.

    Commits of a round become known a round or two after its log starts: so these are kept.
    """

    def __init__(self) -> None:
        self._spans: list[_Span] = []
        self._away_ms = (UNKNOWN, UNKNOWN)
        """Ends of the last round of an earlier process, and of the first one of this."""

    def restore(self, start: Int64, finished_ms: int) -> None:
        """Take in the log starts of the last round of an earlier process."""
        self.add(start, finished_ms)
        self._away_ms = finished_ms, _EVER_MS

    @property
    def unwatched(self) -> tuple[int, int]:
        """The time between two processes; (-1, -1): there was none before."""
        return self._away_ms

    def is_unwatched(self, at_ms: int) -> bool:
        """Was an instant between two processes?"""
        return self._away_ms[0] <= at_ms < self._away_ms[1]

    def gap_ms(self, since_ms: int, until_ms: int) -> int:
        """How much of a time was between two processes; Kafka may have been away then as well."""
        if self._away_ms[0] < 0:
            return 0
        return max(min(self._away_ms[1], until_ms) - max(self._away_ms[0], since_ms), 0)

    def was_watched(self, at_ms: int) -> bool:
        """Is there a round before an instant, and one soon after it?"""
        known = bool(self._spans) and self._spans[0].since_ms <= at_ms
        return known and not self.is_unwatched(at_ms)

    @property
    def since_ms(self) -> int:
        """End of the first round of the newest log starts; -1 when there is none."""
        return self._spans[-1].since_ms if self._spans else UNKNOWN

    @property
    def until_ms(self) -> int:
        """End of the last round; -1 when there was none."""
        return self._spans[-1].until_ms if self._spans else UNKNOWN

    @property
    def is_young(self) -> bool:
        """Has this process begun only now?"""
        restored_ms = self._away_ms[1]
        began_ms = restored_ms if restored_ms >= 0 or not self._spans else self._spans[0].since_ms
        return self.until_ms - began_ms < _DESCRIBED_MS

    @property
    def newest(self) -> Int64:
        """Log starts of the newest round."""
        return self._spans[-1].start if self._spans else np.zeros(0, np.int64)

    def add(self, start: Int64, finished_ms: int) -> None:
        """Take in the log starts of a round that ended at `finished_ms`."""
        if self._away_ms[1] == _EVER_MS:
            self._away_ms = self._away_ms[0], finished_ms
        if self._spans and np.array_equal(self._spans[-1].start, start):
            self._spans[-1].until_ms = finished_ms
            return
        self._spans.append(_Span(since_ms=finished_ms, until_ms=finished_ms, start=start))
        if len(self._spans) > max(_FEWEST, min(_MOST, _MOST_CELLS // max(start.size, 1))):
            # the oldest may be the only one up to which commits are known
            del self._spans[1]

    def remap(self, source: Int64) -> None:
        """Renumber: new column i is old column `source[i]`, or a new one for -1."""
        for span in self._spans:
            span.start = np.append(span.start, UNKNOWN)[source]

    def known_at(self, at: Slots, known_ms: Int64) -> Int64:
        """Log start of each partition in the newest round that ended by `known_ms`; -1 unknown."""
        found = np.full(at.size, UNKNOWN, np.int64)
        for span in self._spans:
            found = np.where(span.since_ms <= known_ms, np.append(span.start, UNKNOWN)[at], found)
        return found

    def known_before(self, at: int, at_ms: int) -> int:
        """The same of one partition."""
        return self.last_before(at, at_ms)[0]

    def last_before(self, at: int, at_ms: int) -> tuple[int, int]:
        """The same, and the end of the first round that found it; -1 unknown."""
        found = UNKNOWN, UNKNOWN
        for span in self._spans:
            if span.since_ms > at_ms:
                break
            if span.start[at] != found[0]:
                found = int(span.start[at]), span.since_ms
        return found

    def reached(self, at: int, at_ms: int) -> int:
        """Log start of a partition in the first round that ended at or after an instant.

        What it was at the instant itself is not known, but it was no higher. -1: no round came.
        """
        for span in self._spans:
            if span.until_ms >= at_ms and span.start[at] >= 0:
                return int(span.start[at])
        return UNKNOWN

    def gone_since_ms(self, at: int, offset: int) -> int:
        """End of the first round that found the message at `offset` of a partition deleted.

        -1 when none did.
        """
        found = UNKNOWN
        for span in reversed(self._spans):
            if span.start[at] <= offset:
                break
            found = span.since_ms
        return found

    def there_until_ms(self, at: int, offset: int) -> int:
        """End of the last round that found the message at `offset` of a partition not deleted.

        If none did, the end of the first round; -1 when there was no round.
        """
        for span in reversed(self._spans):
            if 0 <= span.start[at] <= offset:
                return span.until_ms
        return self._spans[0].since_ms if self._spans else UNKNOWN


class Losses:
    """Finds losses and counts them by row. One owner writes."""

    def __init__(
        self,
        windows: Windows,
        setbacks: Setbacks,
        table: RowTable,
        history: LogEndHistory,
        *,
        known_ms: Callable[[Slots], Int64],
        is_remainder: Callable[[Slots], Bools],
        held_ms: Callable[[Slots], Int64],
        never_held: Callable[[Slots], Bools],
        undescribed: Callable[[Slots], Bools],
        unsettled: Callable[[Slots], Bools],
        seen_ms: Callable[[int, int, int], int],
        vacancies: Vacancies,
    ) -> None:
        """`known_ms`: up to when all commits of some rows are admitted; -1 not known.

        `is_remainder`: which rows hold offsets that no consumer of this cluster reads on from.
        `held_ms`: since when a member holds the partitions of some rows; -1 none does.
        `never_held`: rows whose partition no member was ever seen to hold.
        `undescribed`: rows of whose members nothing is known.
        `unsettled`: those of them whose members are about to be known.
        `seen_ms`: the longest stretch between two instants in which a row's partition was read.
        """
        self.starts = LogStarts()
        self._windows = windows
        self._setbacks = setbacks
        self._table = table
        self._history = history
        self._known_ms = known_ms
        self._is_remainder = is_remainder
        self._held_ms = held_ms
        self._never_held = never_held
        self._undescribed = undescribed
        self._unsettled = unsettled
        self._seen_ms = seen_ms
        self._vacancies = vacancies
        self._compared_ms = UNKNOWN
        """`LogStarts.since_ms` of the log starts that were last compared with all rows."""
        self._rows_came = False
        """True if rows were made since then."""
        self._found: deque[Loss] = deque(maxlen=_MOST_LOSSES)
        self._leaps: dict[int, tuple[Identity, Leap]] = {}
        """By row: leaps of which it is not known yet whether they were skips."""
        self._skipped: dict[Identity, deque[tuple[int, int]]] = {}
        """First offset and end of the last losses of each group-partition."""
        self._doubts: dict[tuple[str, str], deque[_Doubt]] = {}
        """By group and topic, oldest first."""
        self._suspected: dict[tuple[str, str], tuple[int, int]] = {}
        """By group and topic: how often it seemed to be thrown back, and when it last passed."""
        self._proved_ms: dict[tuple[str, str], int] = {}
        """When a group was last seen to skip messages of a topic."""

    def rows_came(self) -> None:
        """Rows were made, which may be below the log start."""
        self._rows_came = True

    def restored(self) -> None:
        """Rows of an earlier process were put in: some groups were seen to skip messages lately."""
        lost_ms = self._setbacks.column("lost_ms")
        if lost_ms is None:
            return
        for row in np.flatnonzero(lost_ms[: self._windows.rows] >= 0).tolist():
            key = self._table.identity(row)[:2]
            self._proved_ms[key] = max(int(lost_ms[row]), self._proved_ms.get(key, 0))

    def take(self) -> tuple[Loss, ...]:
        """Losses noticed since the last call."""
        found = tuple(self._found)
        self._found.clear()
        return found

    def look_for_jumps(
        self,
        commits: CommitColumns,
        before: Int64,
        now_ms: EpochMs,
        *,
        log_start: Int64,
        exact_times: bool,
        skew_ms: int,
    ) -> None:
        """Commits that passed the log start before a loss was counted: was what they passed read?

        A consumer whose next message was deleted goes on at the log start. What it skipped is lost
        when it could not have read so much since its last commit, as fast as it has been seen to
        read, or is far from the log end: then the log start has caught up with it. So it is when it
        lies, for the second time, where only one lies that was thrown back. One that was at the log
        end before and after has read what came, and one below the log start what it has fetched:
        the speed of a consumer that has nothing more to read says nothing. Of one that committed as
        usual the commits after a skip decide: it may have become faster. When it read last and when
        the messages were deleted is known to a round only, so the loss is an upper bound. What was
        deleted while the group held no partitions is lost however fast it reads. A commit right at
        the log start is that of a consumer which has its messages deleted once they are read, as
        Kafka Streams does; unless the log began there before it was made, or it is further than it
        can have read, and it was far from the log end before and after.

        A consumer of many partitions goes on in one after the other: then a skip in one looks like
        reading. Once a group has lost messages of a topic, whatever it passed within ten minutes
        and may have read counts as well, so that the number stays an upper bound.
        """
        if self.starts.since_ms < 0:
            return
        row, offset = commits.row, commits.offset
        at = self._table.at[row]
        newest = np.append(log_start, UNKNOWN)[at]
        passes = (before >= 0) & (before < newest) & (before < offset)
        if not self._leaps and not passes.any():
            return
        passes &= self._setbacks.counted_until(row) < offset
        leapt = np.isin(row, np.array([*self._leaps], np.intp))
        committed_ms = commits.commit_ms + skew_ms
        for index in np.flatnonzero(np.isin(row, row[passes | leapt])).tolist():
            commit = int(offset[index]), int(committed_ms[index]), int(commits.lag[index])
            self._follow(int(row[index]), *commit, now_ms, passes=bool(passes[index]))
            if not passes[index]:
                continue
            same = row[: index + 1] == row[index]
            # of the instant of the commit it is not known: no higher than soon after it
            start = self.starts.reached(int(at[index]), int(committed_ms[index]))
            window = self._windows.entries(int(row[index]))
            found = _Pass(
                row=int(row[index]),
                at=int(at[index]),
                before=int(before[index]),
                offset=int(offset[index]),
                lag=int(commits.lag[index]),
                start=int(newest[index]) if start < 0 else start,
                window=window,
                last_ms=window.commit_ms[-1] + skew_ms if window.commit_ms else UNKNOWN,
                committed_ms=int(committed_ms[index]),
                late_ms=0 if exact_times else min(_gaps_ms(window), default=_LONG_PATIENCE_MS),
                alone=bool(same.sum() == 1),
            )
            # what was committed while the messages were there was read; and a consumer may have
            # its messages deleted up to a commit of its own
            there_ms = self.starts.there_until_ms(found.at, found.before)
            own = found.start in offset[:index][same[:index]]
            if found.skipped > 0 and found.committed_ms >= there_ms and not own:
                self._judge(found, now_ms, exact_times=exact_times, skew_ms=skew_ms)

    def _judge(self, found: "_Pass", now_ms: EpochMs, *, exact_times: bool, skew_ms: int) -> None:
        """Count what was lost of what a commit passed, if that is so."""
        vacancy = self._vacancy(found.row, found.committed_ms, skew_ms)
        gone = self._gone_meanwhile(vacancy, found.at, found.before)
        if vacancy is not None and gone > found.before:
            # what was deleted right before members came is known later; so may be that they came
            late_ms = _SEEN_LATE_MS[0 if vacancy.recorded else 1]
            came_ms = min(vacancy.lasted_until_ms() + late_ms, found.committed_ms)
            reached = self.starts.reached(found.at, came_ms)
            gone = max(gone, found.start if reached < 0 else reached)
        lost_to = min(found.passed_to, gone)
        # of a poll the commits since the poll before it are not known
        late = found.alone and self._gone_before(found, usual=2 if exact_times else 3)
        # what is lost has begun: it did not read on from there, but at the log start at best
        begun = found.before < max(self._counted(found.row), late)
        if begun:
            lost_to = found.passed_to
        # it is at the log end all the time, or has fetched it before
        has_read = (vacancy is None and self._keeps_up(found)) or (
            found.offset < self.starts.known_before(found.at, found.since_ms)
        )
        if not (begun or has_read):
            verdict = self._cannot_have_read(found, vacancy, exact_times=exact_times)
            if verdict is None:
                self._doubt(found, now_ms)
                return
            suspected = self._is_suspected(found, now_ms, skew_ms)
            if verdict or suspected:
                _, usual = self._readable(found, vacancy, exact_times=exact_times)
                if usual > 0 and vacancy is None and self._may_have_become_faster(found):
                    # of leaps in a row the first is the one whose usual speed is known
                    leap = self._table.identity(found.row), found.leap(usual)
                    self._leaps.setdefault(found.row, leap)
                else:
                    lost_to = found.passed_to
        if lost_to < found.passed_to and not has_read:
            self._setbacks.doubt(found.row, now_ms)
        # one that is near the log end cannot have been thrown back to the log start
        behind = _BEHIND * found.lag >= found.step and not has_read
        behind |= found.row in self._leaps
        self._settle(found.row, (found.before, lost_to, found.passed_to), now_ms, behind=behind)

    def _doubt(self, found: "_Pass", now_ms: EpochMs) -> None:
        """It seems to have its messages deleted once they are read.

        One that is nearer to the log start than to the log end may have been thrown back there.
        """
        start = self.starts.known_before(found.at, found.committed_ms)
        if 0 <= start <= found.offset < start + found.lag:
            self._setbacks.doubt(found.row, now_ms)
            passed = found.before, found.before, found.passed_to
            self._settle(found.row, passed, now_ms, behind=True)

    def _may_have_become_faster(self, found: "_Pass") -> bool:
        """Did it commit as usual before this, so that its speed is known, and may change?

        One that has read less beyond the log start than it would have was thrown back to it.
        """
        known = len(found.window.commit_ms) > _GAPS and found.alone
        thrown = self._share_of_even(found) <= _THROWN_SHARE
        return known and not thrown and not self._was_silent(found)

    def _follow(
        self, row: int, offset: int, at_ms: int, lag: int, now_ms: EpochMs, *, passes: bool
    ) -> None:
        """A commit came: does it say whether the leap before it was a skip?"""
        identity, leap = self._leaps.get(row, (None, None))
        if leap is None:
            return
        skip = leap.is_skip(offset, at_ms, lag, passes=passes)
        if skip is None and identity == self._table.identity(row):
            return
        del self._leaps[row]
        if skip and identity == self._table.identity(row):
            self._settle(row, (leap.before, leap.end, leap.end), now_ms, behind=False)

    def _cannot_have_read(
        self, found: "_Pass", vacancy: Vacancy | None, *, exact_times: bool
    ) -> bool | None:
        """Is it further than it can have read? None: it has its messages deleted once read."""
        window, step, skipped = found.window, found.step, found.skipped
        may_delete = found.offset == found.start and not self._was_set_to(
            found.at, found.offset, found.committed_ms
        )
        # or it had its messages deleted, and went on to do so before the next round
        read_on = found.before >= self.starts.known_before(found.at, found.since_ms)
        may_delete |= found.offset < found.start and found.lag < step and read_on
        readable, expected = self._readable(found, vacancy, exact_times=exact_times)
        # a lag proves nothing while the messages may have been there when they were committed
        gone_ms = self.starts.gone_since_ms(found.at, found.before)
        far = found.last_ms < gone_ms <= found.committed_ms and 2 * skipped > step
        far &= found.lag > _FAR * step
        # one that reads on what it has fetched goes past the log start at its usual speed
        far &= step > _LEAP * expected
        # Of few commits no speed is known: then only who came later cannot have read before,
        # nor fetched it. And of a poll it is not known what was committed before it.
        held_ms = self._held_ms(np.array([found.row]))[0]
        reads_on = self.starts.is_unwatched(found.committed_ms) or (
            bool(window.commit_ms) and 0 <= held_ms <= found.last_ms
        )
        reads_on |= self.starts.is_young and bool(self._undescribed(np.array([found.row]))[0])
        many = len(window.commit_ms) > _GAPS
        far &= many or not reads_on
        # nor of one that had nothing more to read: it may be much faster
        absent = vacancy is not None or self._was_silent(found)
        measured = many and (absent or _was_behind(window))
        # One that leapt from far behind has skipped what is still there as well; after an absence
        # or an outage, and of what came since its last commit, that may have been read.
        behind = bool(window.lag) and 2 * window.lag[-1] >= step
        unread = step if measured and behind and not absent else skipped
        too_far = (measured or (exact_times and not reads_on)) and unread > readable
        far_before = bool(window.lag) and min(window.lag[-1], found.lag) > _FAR * step
        if may_delete and not (too_far and far_before):
            return None
        return far or too_far

    def _keeps_up(self, found: "_Pass") -> bool:
        """Was it near the log end before and after, and committed as usual in between?

        Then it read what came meanwhile, however much that was at once, and however soon it was
        deleted: one that is thrown back to the log start is far from the log end.
        """
        window = found.window
        if not window.lag or not found.alone or self._was_silent(found):
            return False
        step = max(np.diff(window.offset).tolist(), default=found.step)
        before = window.offset[-1], window.lag[-1], found.last_ms
        after = found.offset, found.lag, found.committed_ms
        return all(self._is_near_end(found, *each, step=step) for each in (before, after))

    def _is_near_end(self, found: "_Pass", offset: int, lag: int, at_ms: int, *, step: int) -> bool:
        """Was a commit no further from the log end than a step, and nearer to it than to the start?

        Between two rounds a log end is a guess: a burst that came after the commit counts as lag.
        """
        start = self.starts.known_before(found.at, at_ms)
        near = 0 <= lag <= step and start >= 0 and 2 * lag <= offset + lag - start
        known_end = int(self._history.before(at_ms - found.late_ms)[found.at])
        return near or 0 <= known_end <= offset

    def _was_silent(self, found: "_Pass") -> bool:
        """Was the time before this commit several times as long as the longest one before?"""
        gaps_ms = _gaps_ms(found.window)
        there_ms = self._seen_ms(found.row, found.last_ms, found.committed_ms)
        return len(gaps_ms) >= _GAPS and there_ms > max(_HUNG_MS, _HUNG * max(gaps_ms))

    def _is_suspected(self, found: "_Pass", now_ms: EpochMs, skew_ms: int) -> bool:
        """Has its group been thrown back to the log start for the second time, as it seems?

        Once may be chance. A reader that passes a log start as it reads speaks against it. One that
        was below the log start already says nothing: it reads what it has fetched.
        """
        if not _reads_evenly(found.window) or self._reads_fetched(found):
            return False
        key = self._table.identity(found.row)[:2]
        times, seen_ms = self._suspected.get(key, (0, now_ms - _ONCE_MS))
        if now_ms - seen_ms < _ONCE_MS:
            return False
        times = times if now_ms - seen_ms < DOUBTED_MS else 0
        share = self._share_of_even(found)
        thrown = share <= _THROWN_SHARE or self._has_leapt(found, skew_ms)
        if not thrown and not share >= 1:  # it is not known, or in between
            return False
        times = times + 1 if thrown else max(times - 1, 0)
        _put(self._suspected, key, (times, now_ms))
        return times >= _THROWN_BACK

    def _share_of_even(self, found: "_Pass") -> float:
        """How far it is beyond the newest log start, as a share of what it reads since then.

        It would be 1 at least if it read evenly between its two commits: at the last deletion it
        was at that log start, or further. Not a number when that cannot be said.
        """
        start, since_ms = self.starts.last_before(found.at, found.committed_ms)
        took_ms, since_then_ms = found.committed_ms - found.last_ms, found.committed_ms - since_ms
        if not 0 <= found.last_ms < since_ms or not found.before < start <= found.offset:
            return np.nan
        if self._reads_fetched(found):
            return np.nan
        if since_then_ms < min(max(_EVEN_MS[0], took_ms // 4), _EVEN_MS[1]):
            return np.nan
        return (found.offset - start) * took_ms / (found.step * since_then_ms)

    def _reads_fetched(self, found: "_Pass") -> bool:
        """Was it below the log start already when it committed before?"""
        return found.before < self.starts.known_before(found.at, found.since_ms)

    def _has_leapt(self, found: "_Pass", skew_ms: int) -> bool:
        """Was it much faster over this log start than over times without one?"""
        offset = np.array(found.window.offset, np.int64)
        starts = np.array(
            [self.starts.reached(found.at, each + skew_ms) for each in found.window.commit_ms[1:]],
            np.int64,
        )
        took_ms = np.maximum(np.diff(found.window.commit_ms), 1)
        read = (np.diff(offset) / took_ms)[(starts >= 0) & (starts <= offset[:-1])]
        if read.size < _GAPS or not found.before < found.start <= found.offset:
            return False
        usual = float(np.median(read)) * (found.committed_ms - found.last_ms)
        return found.step > _LEAP * usual

    def count(self, now_ms: EpochMs, *, skew_ms: int) -> None:
        """Rows whose next message was deleted before this round began: what was deleted is lost.

        The log start is that of the newest round after which all commits are known and admitted:
        so a consumer that committed and let its messages be deleted is not taken for a loser. Nor
        is a member that may have fetched what was deleted: clients fetch up to 100,000 messages
        ahead. Its next commits show whether it skips them. The same holds for a consumer that
        assigns itself its partitions, of which nothing but its commits is seen, as long as they
        move. What is deleted while a group has no members is lost at once.
        """
        newest = self.starts.newest
        if not newest.size:
            return
        if not self._rows_came and self._compared_ms == self.starts.since_ms:
            return  # committed offsets only rise: nothing new can be below the log start
        rows = np.flatnonzero(self._windows.count[: self._windows.rows] > 0)
        committed = self._windows.last_offset(rows)
        below = np.flatnonzero(np.append(newest, UNKNOWN)[self._table.at[rows]] > committed)
        if not below.size:
            self._compared_ms, self._rows_came = self.starts.since_ms, False
            return
        rows, committed = rows[below], committed[below]
        known_ms = self._known_ms(rows)
        floor = self.starts.known_at(self._table.at[rows], known_ms)
        counted = np.maximum(self._setbacks.counted_until(rows), committed)
        lost = (floor > counted) & ~self._is_remainder(rows)
        lost &= ~self._unsettled(rows)
        held, never_held = self._held_ms(rows) >= 0, self._never_held(rows)
        for index in np.flatnonzero(lost).tolist():
            row, end = int(rows[index]), int(floor[index])
            reads = held[index] or (never_held[index] and self._seen_to_read(row))
            # all that its members committed before they left is admitted by then
            vacancy = self._vacancy(row, int(known_ms[index]), skew_ms)
            vacant = vacancy is not None and vacancy.until_ms < 0 and not vacancy.rebalancing
            partition = int(self._table.at[row]), int(committed[index])
            gone = self._gone_meanwhile(vacancy, *partition, known_ms=int(known_ms[index]))
            unread = vacant and end <= gone
            if reads and not unread and self._may_read_on(row, skew_ms):
                continue
            self._lose(row, int(counted[index]), end, now_ms, exact=unread or not held[index])

    def _readable(
        self, found: "_Pass", vacancy: Vacancy | None, *, exact_times: bool
    ) -> tuple[float, float]:
        """Messages that a group can have read between two commits; and as usual."""
        row, at, window = found.row, found.at, found.window
        last_ms, committed_ms = between_ms = found.last_ms, found.committed_ms
        skew_ms = last_ms - window.commit_ms[-1] if window.commit_ms else 0
        took_ms = committed_ms - last_ms if window.commit_ms else 0
        if found.alone and not self.starts.gap_ms(*between_ms):
            waited_ms, reason = self._history.waited(
                np.array([at]), np.array([found.before]), np.array([committed_ms])
            )
            waited_ms[reason == TimeLagReason.CAUGHT_UP] = 0
            took_ms = _reading_ms(window, took_ms, waited_ms=int(waited_ms[0]))
        took_ms = max(self._there_ms(row, between_ms, took_ms, vacancy), 0)
        usual, fastest = self._speeds(row, at, window, skew_ms=skew_ms)
        speed = _PLAUSIBLE * fastest
        away_ms = self._away_ms(row, window, committed_ms, skew_ms)
        since_ms = last_ms if exact_times else None
        # of what was kept a part is left at the first commit after it: no long time before this one
        gaps_ms = _gaps_ms(window)
        follows = committed_ms - last_ms <= 2 * max(gaps_ms, default=-1)
        behind = max(window.lag[-1], 0) if window.lag and follows else 0
        kept = self._kept(at, speed * away_ms, since_ms, behind=behind)
        return speed * took_ms + kept, usual * took_ms

    def _was_set_to(self, at: int, log_start: int, committed_ms: int) -> bool:
        """Did the log of a partition begin at a log start before that was committed?"""
        began_ms = self.starts.gone_since_ms(at, log_start - 1)
        return 0 <= began_ms <= committed_ms

    def _vacancy(self, row: int, known_ms: int, skew_ms: int) -> Vacancy | None:
        """The last time in which a row's group held no partitions, begun by an instant.

        None when there was none, or Kafka was away shortly before it: members may be there that
        have not found their coordinator again. A group that rebalances has found it. Nor of a
        consumer that assigns itself its partitions: no member of its group was ever seen to hold
        them, or it commits meanwhile.
        """
        found = self._vacancies.of(self._table.identity(row)[0])
        if found is None or found.since_ms > known_ms or self._never_held(np.array([row]))[0]:
            return None
        window = self._windows.entries(row)
        pairs = zip(window.commit_ms, window.offset, strict=True)
        before = [offset for at_ms, offset in pairs if at_ms + skew_ms <= found.since_ms]
        # an operator who sets the offset that there was reads nothing
        if len(before) < len(window.offset) and before[-1:] != [window.offset[-1]]:
            return None
        rejoins_ms = 0 if found.rebalancing else _REJOINS_MS
        began_ms, until_ms = found.since_ms - rejoins_ms, found.lasted_until_ms()
        return found if self._seen_ms(row, began_ms, until_ms) >= until_ms - began_ms else None

    def _gone_meanwhile(
        self, vacancy: Vacancy | None, at: int, committed: int, *, known_ms: int = UNKNOWN
    ) -> int:
        """Log start up to which messages were deleted while a group held no partitions; -1.

        Only if the first of them, at its committed offset, was there when that began.
        `known_ms`: up to when it is known whether members came.
        """
        if vacancy is None:
            return UNKNOWN
        # without a record of it, that the members left is seen late
        late_ms = 0 if vacancy.recorded else _SEEN_LATE_MS[1]
        if self.starts.there_until_ms(at, committed) < vacancy.since_ms - late_ms:
            return UNKNOWN
        until_ms = np.array([vacancy.lasted_until_ms(known_ms)])
        return int(self.starts.known_at(np.array([at]), until_ms)[0])

    def _there_ms(
        self, row: int, between_ms: tuple[int, int], took_ms: int, vacancy: Vacancy | None
    ) -> int:
        """How much of the time between two commits a row's partition was there and held, at most.

        Before and after an absence: the longer one is known. While lagwatch was away it may have
        been there all the time.
        """
        last_ms, committed_ms = between_ms
        if self.starts.is_unwatched(committed_ms):
            return took_ms
        took_ms -= _vacant_ms(vacancy, last_ms, committed_ms, took_ms)
        there_ms = self._seen_ms(row, last_ms, committed_ms)
        absent = last_ms >= 0 and there_ms < committed_ms - last_ms
        return min(took_ms, 2 * there_ms) if absent else took_ms

    def _gone_before(self, found: "_Pass", *, usual: int) -> int:
        """Log start when a group began to read that was long silent after an outage; -1.

        Had it read at once what producers kept, it would have committed as usual: it joined again,
        and began to read so many of the longest pauses between two commits before this one.
        """
        row, window = found.row, found.window
        last_ms, committed_ms = found.last_ms, found.committed_ms
        at_ms = np.array(window.commit_ms, np.int64)
        at_ms += last_ms - at_ms[-1:]  # on lagwatch's clock
        # a commit of before an outage may be polled after it only: the outage is no pause
        gaps_ms = [min(b - a, self._seen_ms(row, a, b)) for a, b in pairwise(at_ms.tolist())]
        if len(gaps_ms) < _GAPS:
            return UNKNOWN
        there_ms = self._seen_ms(row, last_ms, committed_ms)
        silent = there_ms > max(_HUNG_MS, _HUNG * max(gaps_ms))
        if not silent or there_ms >= committed_ms - last_ms:
            return UNKNOWN
        began_ms = np.array([committed_ms - usual * max(gaps_ms)])
        return int(self.starts.known_at(self._table.at[[row]], began_ms)[0])

    def _speeds(self, row: int, at: int, window: Entries, *, skew_ms: int) -> tuple[float, float]:
        """Messages read per millisecond between commits of a window: second fastest, fastest.

        The second is the usual one: the fastest may be of a leap. Of a step that skipped what is
        counted as lost, or passed a log start, only what is beyond it: a consumer that has skipped
        messages before would else seem fast enough to have read what it skips now. Where nearly
        every step passes a log start, it may be reading there: then those count whole. So do steps
        below the log start: it reads what it has fetched.
        """
        offset = np.array(window.offset, np.int64)
        before, after = offset[:-1], offset[1:]
        committed_ms = [each + skew_ms for each in window.commit_ms]
        start = np.array(
            [
                self.starts.reached(at, each) if self.starts.was_watched(each) else UNKNOWN
                for each in committed_ms[1:]
            ],
            np.int64,
        )
        known = [self.starts.known_before(at, each) for each in committed_ms[:-1]]
        clean = (start <= before) | (after < np.array(known, np.int64))
        if clean.sum() >= _UNBIASED:
            before = np.where(clean, before, np.maximum(before, np.minimum(start, after)))
        counted = self._counted(row)
        for first, end in self._skipped.get(self._table.identity(row), ()):
            if end <= counted:  # else it is of a topic that was deleted and made anew
                before = np.where((before <= first) & (end <= after), end, before)
        took_ms = np.maximum(np.diff(window.commit_ms), 1)
        speeds = sorted(((after - before) / took_ms).tolist()) or [0.0]
        return speeds[-2:][0], speeds[-1]

    def _away_ms(self, row: int, window: Entries, committed_ms: int, skew_ms: int) -> int:
        """For how long a row's partition was away since the first commit of its window.

        It may have been so while lagwatch was.
        """
        first_ms = window.commit_ms[0] + skew_ms if window.commit_ms else int(committed_ms)
        there_ms = self._seen_ms(row, first_ms, committed_ms)
        away_ms = max(int(committed_ms) - first_ms - there_ms, 0)
        return max(away_ms, self.starts.gap_ms(first_ms, int(committed_ms)))

    def _kept(self, at: int, most: float, since_ms: int | None, *, behind: int) -> float:
        """What producers kept while Kafka was away is read at once afterwards, and no more.

        `most`: as much as is read in that time. `since_ms`: last commit; None: not known exactly.
        `behind`: the lag at it, for a part may be read only after the first commits.
        """
        if most == 0 or since_ms is None:
            return most
        return min(most, behind + self._appended_since(at, since_ms))

    def _appended_since(self, at: int, since_ms: int) -> float:
        """Messages written to a partition since an instant, at most; infinite if not known."""
        known_ms = self._history.at_ms
        if not known_ms.size or not known_ms[0] <= since_ms:
            return np.inf
        before, end = int(self._history.since(since_ms)[at]), int(self._history.latest()[at])
        return end - before if before >= 0 else np.inf

    def _seen_to_read(self, row: int) -> bool:
        """Do several commits of the window show that the consumer goes on?"""
        offset = self._windows.entries(row).offset
        return len(offset) > _GAPS and offset[0] < offset[-1]

    def _may_read_on(self, row: int, skew_ms: int) -> bool:
        """Has the consumer not hung since its last commit, as far as is known?"""
        window = self._windows.entries(row)
        gaps_ms = _gaps_ms(window)
        patience_ms = _PATIENCE_MS if len(gaps_ms) >= _GAPS else _LONG_PATIENCE_MS
        silent_ms = self._seen_ms(row, window.commit_ms[-1] + skew_ms, self.starts.until_ms)
        return silent_ms <= max(patience_ms, _HUNG * max(gaps_ms, default=0))

    def _settle(
        self, row: int, passed: tuple[int, int, int], now_ms: EpochMs, *, behind: bool
    ) -> None:
        """Count what a commit passed: offset before it, end of what was lost, and log start."""
        group, topic, partition = self._table.identity(row)
        before, end, log_start = passed
        first = max(before, self._counted(row))
        if end > first:
            _put(self._proved_ms, (group, topic), now_ms)
            doubts = self._doubts.pop((group, topic), ())
            # losses are counted up to an offset: so in the order of offsets
            for doubt in doubts:
                if doubt.first < before:
                    self._count_doubt(doubt, now_ms)
            first = max(first, self._counted(row))
            if end > first:
                self._lose(row, first, end, now_ms, exact=False)
            for doubt in doubts:
                self._count_doubt(doubt, now_ms)
            first = max(first, end)
        if not (behind and log_start > first):
            return
        if self._skips_lately((group, topic), now_ms):
            self._lose(row, first, log_start, now_ms, exact=False)
            return
        kept = self._doubts.get((group, topic)) or deque(maxlen=_MOST_DOUBTS)
        identity = group, topic, partition
        kept.append(_Doubt(identity=identity, at_ms=now_ms, first=first, end=log_start))
        _put(self._doubts, (group, topic), kept)

    def _skips_lately(self, key: tuple[str, str], now_ms: int) -> bool:
        """Was a group seen to skip messages of a topic within ten minutes?"""
        return now_ms - self._proved_ms.get(key, -DOUBTED_MS) < DOUBTED_MS

    def _count_doubt(self, doubt: _Doubt, now_ms: EpochMs) -> None:
        row = self._table.row_of(doubt.identity)
        if row is None or now_ms - doubt.at_ms > DOUBTED_MS:
            return
        first = max(doubt.first, self._counted(row))
        # a log start before it is that of a topic which was deleted and made anew
        if first < doubt.end <= np.append(self.starts.newest, UNKNOWN)[self._table.at[row]]:
            self._lose(row, first, doubt.end, now_ms, exact=False)

    def _counted(self, row: int) -> int:
        return int(self._setbacks.counted_until(np.array([row]))[0])

    def _lose(self, row: int, first: int, end: int, now_ms: EpochMs, *, exact: bool) -> None:
        group, topic, partition = self._table.identity(row)
        self._setbacks.lose(row, messages=end - first, until=end, now_ms=now_ms, exact=exact)
        skipped = self._skipped.get((group, topic, partition)) or deque(maxlen=_MOST_SKIPPED)
        skipped.append((first, end))
        _put(self._skipped, (group, topic, partition), skipped)
        self._found.append(
            Loss(
                group=group,
                topic=topic,
                partition=partition,
                at_ms=now_ms,
                first=first,
                end=end,
                exact=exact,
            )
        )


def _put(found: dict[Key, Value], key: Key, value: Value) -> None:
    """As the newest entry; the oldest one goes when there are too many."""
    found.pop(key, None)
    found[key] = value
    if len(found) > _MOST_LOSSES:
        del found[next(iter(found))]


def _gaps_ms(window: Entries) -> list[int]:
    return [b - a for a, b in pairwise(window.commit_ms)]


def _was_behind(window: Entries) -> bool:
    """Did several steps of a window end further from the log end than they were long?"""
    steps = np.diff(np.array(window.offset, np.int64))
    return int((np.array(window.lag[1:], np.int64) > steps).sum()) >= _GAPS


def _reads_evenly(window: Entries) -> bool:
    """Is no step of a window much slower or faster than the others?"""
    speeds = np.diff(np.array(window.offset, np.int64)) / np.maximum(_gaps_ms(window), 1)
    return speeds.size >= _UNBIASED and 0 < speeds.max() <= _EVENLY * speeds.min()


def _reading_ms(window: Entries, took_ms: int, *, waited_ms: int) -> int:
    """How much of the time since its last commit a consumer can have been reading.

    One that commits as it reads, and fell silent for several times its usual interval although its
    next message was there for so long, hung until shortly before it committed again.
    """
    gaps_ms = _gaps_ms(window)
    if len(gaps_ms) < _GAPS or min(took_ms, waited_ms) <= max(_HUNG_MS, _HUNG * max(gaps_ms)):
        return took_ms
    return 2 * max(gaps_ms)


def _vacant_ms(vacancy: Vacancy | None, last_ms: int, committed_ms: int, took_ms: int) -> int:
    """By how much longer `took_ms` is than a group had members between two commits."""
    if vacancy is None:
        return 0
    began_ms = max(vacancy.since_ms, last_ms)
    vacant_ms = min(vacancy.lasted_until_ms(), committed_ms) - began_ms
    return max(took_ms - (committed_ms - last_ms - max(vacant_ms, 0)), 0)

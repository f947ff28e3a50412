"""Commits and log ends of the past, fed to the live monitor as it would have seen them.

Nothing is judged here: windows, lags, time lags and verdicts are those of `ClusterMonitor`, rows
those of the recorder. A replay only feeds them in the order of time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN, EpochMs
from lagwatch.core.record import Capture, Text
from lagwatch.jobs.backfill.recording import Methods, Part, Recording
from lagwatch.jobs.backfill.rows import (
    CommitRows,
    GoneRows,
    LogEndRows,
    no_commits,
    no_groups_gone,
    no_log_ends,
)
from lagwatch.monitor import ClusterMonitor
from lagwatch.monitor.settings import MonitorSettings
from lagwatch.ports.reports import Commits, GroupsGone, LogEnds, Topics

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]

_STALE_INTERVALS: Final = 2
_STALE_AT_LEAST_MS: Final = 60_000
"""A round judged on log ends older than this is left out, as by the recorder of the service."""
_NEVER_MS: Final = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """Settings of a replay."""

    monitor: MonitorSettings
    interval_ms: int
    """Distance of the samples."""
    full_every: int
    """Rounds after which even an unchanged partition is written; 1 = every round."""


def replay(
    cluster: str,
    settings: ReplaySettings,
    *,
    sample_ms: Int64,
    commits: CommitRows,
    log_ends: LogEndRows,
    gone: GoneRows | None = None,
    complete_from: Mapping[int, int] | None = None,
) -> list[Part]:
    """As `Replay`, in one call; for small amounts of data."""
    run = Replay(cluster, settings, sample_ms=sample_ms, complete_from=complete_from or {})
    fed = run.feed(commits=commits, log_ends=log_ends, gone=gone or no_groups_gone())
    return [*fed, *run.finish()]


class Replay:
    """Replays one cluster, or some groups of it; give it everything in the order of time."""

    def __init__(
        self,
        cluster: str,
        settings: ReplaySettings,
        *,
        sample_ms: Int64,
        complete_from: Mapping[int, int],
    ) -> None:
        """`sample_ms` are the instants of the samples, rising.

        `complete_from` says from when on no commits are missing, by partition of the offsets topic.
        """
        self._stale_ms = max(_STALE_AT_LEAST_MS, _STALE_INTERVALS * settings.interval_ms)
        # log ends of the past are farther apart than live ones: that is no absence of Kafka
        away_after_ms = max(settings.monitor.away_after_ms, self._stale_ms)
        self._monitor = ClusterMonitor(
            cluster, replace(settings.monitor, away_after_ms=away_after_ms)
        )
        self._sample_ms = sample_ms
        self._sampled = 0
        self._complete_from = complete_from
        self._recording = Recording(
            interval_ms=settings.interval_ms, full_every=settings.full_every
        )
        self._keys: dict[tuple[str, str, int], int] = {}
        self._topics = _Positions()
        self._moment_ms = UNKNOWN
        """The present instant; more of its rows may follow."""
        self._round = False
        """True if it has log ends."""
        self._committed = np.zeros(0, np.int64)
        """Offset last committed, by the id of a group-partition; -1 none."""
        self.stale = 0
        """Rounds left out because log ends were missing."""

    def feed(
        self,
        *,
        commits: CommitRows | None = None,
        log_ends: LogEndRows | None = None,
        gone: GoneRows | None = None,
    ) -> Iterator[Part]:
        """Take the next rows in; each kind rising, none older than those that were fed before."""
        queue = _Queue(
            commits if commits is not None else no_commits(),
            log_ends if log_ends is not None else no_log_ends(),
            gone if gone is not None else no_groups_gone(),
        )
        keys = self._keys_of(queue.commits)
        at = self._positions_of(queue.log_ends)
        queue.log_ends = self._without_earlier_topics(queue, keys, at)
        methods = self._topics.methods(queue.log_ends.method)
        for moment_ms in self._moments(queue).tolist():
            if moment_ms > self._moment_ms:
                yield from self._close()
            self._commit(queue, keys, moment_ms)
            ends = queue.log_ends_until(moment_ms)
            if ends.stop > ends.start:
                self._topics.put(at[ends], queue.log_ends, ends, methods)
                self._round = True
            self._moment_ms = moment_ms
        if queue.last_ms > self._moment_ms:
            yield from self._close()
            self._commit(queue, keys, queue.last_ms)

    def finish(self) -> Iterator[Part]:
        """No more rows will come: take the samples that are left."""
        yield from self._close()
        for moment_ms in self._sample_ms[self._sampled :].tolist():
            self._moment_ms = moment_ms
            yield from self._close()
        yield from self._recording.finish()

    def _moments(self, queue: "_Queue") -> Int64:
        """Instants of the buffered rows that need an action, rising."""
        due = np.searchsorted(self._sample_ms, queue.last_ms, side="right")
        samples = self._sample_ms[self._sampled : due]
        moments = np.union1d(np.unique(queue.log_ends.at_ms), samples)
        if UNKNOWN < self._moment_ms <= queue.last_ms:
            moments = np.union1d(moments, [self._moment_ms])
        return moments.astype(np.int64)

    # commits

    def _keys_of(self, commits: CommitRows) -> Int32:
        """The id of each commit's group-partition; new ones are announced to the monitor."""
        if not commits.size:
            return np.zeros(0, np.int32)
        groups, topics = commits.group, commits.topic
        width = int(commits.partition.max()) + 1
        packed = groups.codes.astype(np.int64) * len(topics.words) + topics.codes
        packed = packed * width + commits.partition
        _, first, number = np.unique(packed, return_index=True, return_inverse=True)
        identities = [
            (groups.words[group], topics.words[topic], partition)
            for group, topic, partition in zip(
                groups.codes[first].tolist(),
                topics.codes[first].tolist(),
                commits.partition[first].tolist(),
                strict=True,
            )
        ]
        new = [identity for identity in identities if identity not in self._keys]
        if new:
            self._announce(new)
            self._committed = np.append(self._committed, np.full(len(new), UNKNOWN, np.int64))
            self._learn_completeness(commits, first)
        table = np.array([self._keys[identity] for identity in identities], np.int32)
        return table[number]

    def _announce(self, new: Sequence[tuple[str, str, int]]) -> None:
        first = len(self._keys)
        self._keys.update((identity, first + place) for place, identity in enumerate(new))
        none = np.zeros(0, np.int64)
        report = Commits(
            first_new_id=first,
            new_groups=tuple(group for group, _, _ in new),
            new_topics=tuple(topic for _, topic, _ in new),
            new_partitions=tuple(partition for _, _, partition in new),
            key=np.zeros(0, np.int32),
            offset=none,
            commit_ms=none,
            order=none,
            observed_ms=EpochMs(0),
        )
        self._monitor.apply(report, EpochMs(0))

    def _learn_completeness(self, commits: CommitRows, rows: NDArray[np.intp]) -> None:
        groups = commits.group.take(rows).tolist()
        for group, place in zip(groups, commits.offsets_partition[rows].tolist(), strict=True):
            self._recording.complete_from(group or "", self._complete_from.get(place, 0))

    def _commit(self, queue: "_Queue", keys: Int32, until_ms: int) -> None:
        """Report the commits, and deletions, up to an instant."""
        rows = queue.commits_until(until_ms)
        commits = queue.commits
        if rows.stop > rows.start:
            order = commits.order[rows]
            # records keep their order; their times may run a few milliseconds across it
            sorted_ = np.argsort(order, kind="stable")
            report = Commits(
                first_new_id=0,
                new_groups=(),
                new_topics=(),
                new_partitions=(),
                key=keys[rows][sorted_],
                offset=commits.offset[rows][sorted_],
                commit_ms=commits.commit_ms[rows][sorted_],
                order=order[sorted_],
                observed_ms=EpochMs(int(commits.at_ms[rows.stop - 1])),
            )
            self._monitor.apply(report, EpochMs(until_ms))
            self._committed[report.key] = report.offset
        gone = queue.gone_until(until_ms)
        if gone.stop > gone.start:
            names = queue.gone.group.take(np.arange(gone.start, gone.stop)).tolist()
            orders = queue.gone.order[gone].tolist()
            self._monitor.apply(
                GroupsGone(groups=tuple(name or "" for name in names), orders=tuple(orders)),
                EpochMs(until_ms),
            )

    # log ends

    def _positions_of(self, rows: LogEndRows) -> Int64:
        """The position of each row's partition; the monitor learns of topics it does not know."""
        at = self._topics.positions(rows)
        listing = self._topics.take_news()
        if listing is not None:
            self._monitor.apply(listing, EpochMs(max(self._moment_ms, 0)))
        return at

    def _without_earlier_topics(self, queue: "_Queue", keys: Int32, at: Int64) -> LogEndRows:
        """Log ends of 0 are not known of a partition of which one is below a commit made before it.

        That commit is of an earlier topic: one that was made anew names the offset of its first
        record for every instant before that record.
        """
        rows, commits = queue.log_ends, queue.commits
        zero = rows.log_end == 0
        if not zero.any():
            return rows
        last_ms = np.full(self._topics.size + 1, UNKNOWN, np.int64)
        np.maximum.at(last_ms, at[zero], rows.at_ms[zero])
        # of group-partitions without log ends: the last place, which is no partition's
        placed = np.array(
            [self._topics.position(topic, number) for _, topic, number in self._keys], np.int64
        )
        first_ms = np.full(last_ms.size, _NEVER_MS, np.int64)
        first_ms[placed[self._committed > 0]] = 0
        made = commits.offset > 0
        np.minimum.at(first_ms, placed[keys[made]], commits.at_ms[made])
        unknown = zero & (last_ms >= first_ms)[at]
        return replace(
            rows,
            log_end=np.where(unknown, UNKNOWN, rows.log_end),
            log_start=np.where(unknown, UNKNOWN, rows.log_start),
        )

    # judging

    def _close(self) -> Iterator[Part]:
        """Finish the present instant: report its log ends, take its sample."""
        now_ms = EpochMs(self._moment_ms)
        if self._round:
            self._monitor.apply(self._topics.report(now_ms), now_ms)
            self._round = False
        left = self._sample_ms[self._sampled : self._sampled + 1]
        if left.size and int(left[0]) == now_ms:
            self._sampled += 1
            yield from self._sample(now_ms)

    def _sample(self, now_ms: EpochMs) -> Iterator[Part]:
        snapshot = self._monitor.judge(now_ms)
        if snapshot.data_ms < 0 or now_ms - snapshot.data_ms > self._stale_ms:
            self.stale += 1
            self._recording.skipped()
            return
        taken = Capture(snapshot=snapshot, rebalances=None)
        yield from self._recording.round(taken, self._topics.known_by, at_ms=int(now_ms))


class _Queue:
    """Buffered rows, and the position up to which each kind was taken."""

    def __init__(self, commits: CommitRows, log_ends: LogEndRows, gone: GoneRows) -> None:
        # rising, so that the rows up to an instant are the first ones
        self._commit_ms = np.maximum.accumulate(commits.at_ms)
        self.commits, self.log_ends, self.gone = commits, log_ends, gone
        lasts = [each[-1] for each in (self._commit_ms, log_ends.at_ms, gone.at_ms) if each.size]
        self.last_ms = int(max(lasts, default=UNKNOWN))
        self._taken = [0, 0, 0]

    def commits_until(self, at_ms: int) -> slice:
        return self._until(0, self._commit_ms, at_ms)

    def log_ends_until(self, at_ms: int) -> slice:
        return self._until(1, self.log_ends.at_ms, at_ms)

    def gone_until(self, at_ms: int) -> slice:
        return self._until(2, self.gone.at_ms, at_ms)

    def _until(self, kind: int, times: Int64, at_ms: int) -> slice:
        start = self._taken[kind]
        stop = start + int(np.searchsorted(times[start:], at_ms, side="right"))
        self._taken[kind] = stop
        return slice(start, stop)


class _Positions:
    """All topic-partitions with log ends, and the values of the present round."""

    def __init__(self) -> None:
        self._partitions: dict[str, int] = {}
        self._first: dict[str, int] = {}
        self._version = 0
        self._news = False
        self._words: list[str] = []
        self._end = np.zeros(0, np.int64)
        self._start = np.zeros(0, np.int64)
        self._method = np.zeros(0, np.int8)

    @property
    def size(self) -> int:
        """Number of partitions."""
        return int(self._end.size)

    @property
    def known_by(self) -> Methods:
        """How the newest log end of each partition is known; must not be kept."""
        return Methods(code=self._method, words=self._words)

    def positions(self, rows: LogEndRows) -> Int64:
        """Position of each row's partition; room is made for new ones."""
        if not rows.size:
            return np.zeros(0, np.int64)
        topic, words = rows.topic.codes, rows.topic.words
        most = np.full(len(words), UNKNOWN, np.int64)
        np.maximum.at(most, topic, rows.partition)
        more = {
            word: int(last) + 1
            for word, last in zip(words, most.tolist(), strict=True)
            if last + 1 > self._partitions.get(word, 0)
        }
        if more:
            self._grow(more)
        first = np.array([self._first.get(word, UNKNOWN) for word in words], np.int64)
        return first[topic] + rows.partition

    def _grow(self, more: Mapping[str, int]) -> None:
        before, first_before = dict(self._partitions), dict(self._first)
        self._partitions |= more
        self._partitions = dict(sorted(self._partitions.items()))
        numbers = np.cumsum([0, *self._partitions.values()]).tolist()
        self._first = dict(zip(self._partitions, numbers, strict=False))
        moved = np.full(numbers[-1], UNKNOWN, np.int64)
        for name, count in before.items():
            moved[self._first[name] : self._first[name] + count] = first_before[name] + np.arange(
                count
            )
        self._end = np.append(self._end, UNKNOWN)[moved]
        self._start = np.append(self._start, UNKNOWN)[moved]
        self._method = np.append(self._method, np.int8(UNKNOWN))[moved]
        self._version += 1
        self._news = True

    def take_news(self) -> Topics | None:
        """The topics, if there are more than in the last report."""
        if not self._news:
            return None
        self._news = False
        counts = list(self._partitions.values())
        return Topics(
            version=self._version,
            names=tuple(self._partitions),
            ids=("",) * len(counts),
            partitions=np.array(counts, np.int32),
            leader=np.full(sum(counts), UNKNOWN, np.int32),
        )

    def methods(self, method: Text) -> NDArray[np.int8]:
        """The number of each row's method."""
        table = []
        for word in method.words:
            if word not in self._words:
                self._words.append(word)
            table.append(self._words.index(word))
        return np.array([*table, UNKNOWN], np.int8)[method.codes]

    def put(self, at: Int64, rows: LogEndRows, some: slice, methods: NDArray[np.int8]) -> None:
        """Add these rows to the present round."""
        log_end = rows.log_end[some]
        self._end[at], self._start[at] = log_end, rows.log_start[some]
        known = log_end >= 0
        self._method[at[known]] = methods[some][known]

    def position(self, topic: str, partition: int) -> int:
        """Position of a partition; -1 if it has no log ends."""
        known = partition < self._partitions.get(topic, 0)
        return self._first[topic] + partition if known else UNKNOWN

    def report(self, at_ms: EpochMs) -> LogEnds:
        """The completed round; the next one begins without any value."""
        ends = LogEnds(
            version=self._version,
            started_ms=at_ms,
            finished_ms=at_ms,
            log_start=self._start.copy(),
            log_end=self._end.copy(),
            last_stable=np.full(self._end.size, UNKNOWN, np.int64),
        )
        self._end[:] = UNKNOWN
        self._start[:] = UNKNOWN
        return ends


__all__ = ["Replay", "ReplaySettings", "replay"]

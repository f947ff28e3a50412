"""Readers of many kinds of topics with a short retention: what each loses is known exactly.

Each is a group of its own with a partition of its own. One that finds its next message deleted goes
on at the log start, as `auto.offset.reset=earliest` does, or at the log end; what it has fetched it
still reads.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lagwatch.core.model import EpochMs, GroupInfo, Member
from lagwatch.monitor import ClusterMonitor
from lagwatch.monitor.settings import MonitorSettings
from lagwatch.ports.reports import (
    Backlog,
    CollectorStarted,
    Commits,
    CommitsKnown,
    GroupsSeen,
    LogEnds,
    Report,
    Topics,
)

START_MS = 1_800_000_000_000
TICK_S = 0.25
ROUND_S = 5.0
DESCRIBED_S = 15.0


@dataclass(slots=True, kw_only=True)
class Reader:
    """Rates are messages a second, times are seconds."""

    reads: float
    writes: float = 100.0
    commits_s: float = 5.0
    burst: tuple[float, int] = (1e9, 0)
    """How often so many more messages are written at once."""
    deletes_s: float = 10.0
    kept_s: float = 60.0
    """A deletion leaves what is younger."""
    buffer: int = 0
    """It fetches so many messages ahead."""
    behind_s: float = 0.0
    """How far behind it is at the start."""
    away: tuple[float, float] = (1.0, 1.0)
    """Of each such time it is a member for the first part."""
    hangs: tuple[float, float] = (0.0, 0.0)
    """From, to."""
    slow: tuple[float, float, float] = (1.0, 0.0, 0.0)
    """Of each such time it reads for the second part at the third's speed only."""
    latest: bool = False
    """It goes on at the log end when its next message was deleted."""
    lost: int = 0
    committed: int = 0
    log_start: int = 0
    log_end: int = 0
    there: bool = True
    _position: float = 0.0
    _fetched: float = 0.0
    _written: float = 0.0
    _ends: list[tuple[float, int]] = field(default_factory=list)
    _phase: float = 0.0
    _next_s: float = 0.0

    def begin(self, chance: random.Random) -> None:
        """As if it had run for long."""
        self._phase = chance.uniform(0, 1000)
        self._next_s = chance.uniform(0, self.commits_s)
        self._written = self.writes * max(self.kept_s + self.deletes_s, 60)
        self.log_end = int(self._written)
        self.log_start = max(0, self.log_end - int(self.writes * self.kept_s))
        position = max(self.log_end - self.writes * self.behind_s, self.log_start)
        self._position = self._fetched = position
        self.committed = int(position)

    def step(self, now_s: float) -> bool:
        """A quarter of a second passes; does it commit?"""
        self._write(now_s)
        self._delete(now_s)
        was_there, (period_s, on_s) = self.there, self.away
        self.there = (now_s + self._phase) % period_s < on_s
        if was_there and not self.there:
            self.committed, self._fetched = int(self._position), self._position
            return True
        if not self.there or self.hangs[0] <= now_s < self.hangs[1]:
            return False
        period_s, slow_s, slowly = self.slow
        self._read(slowly if (now_s + self._phase) % period_s < slow_s else self.reads)
        if now_s < self._next_s:
            return False
        self._next_s += self.commits_s * ((now_s - self._next_s) // self.commits_s + 1)
        self.committed = int(self._position)
        return True

    def _happens(self, every_s: float, now_s: float) -> bool:
        at_s = now_s + self._phase
        return at_s // every_s != (at_s - TICK_S) // every_s

    def _write(self, now_s: float) -> None:
        self._written += self.writes * TICK_S
        if self._happens(self.burst[0], now_s):
            self._written += self.burst[1]
        self.log_end = int(self._written)
        self._ends.append((now_s, self.log_end))

    def _delete(self, now_s: float) -> None:
        if not self._happens(self.deletes_s, now_s):
            return
        old = [end for at_s, end in self._ends if at_s <= now_s - self.kept_s]
        if old:
            self.log_start = max(self.log_start, old[-1])
            self._ends = self._ends[len(old) :]

    def _read(self, speed: float) -> None:
        if self._fetched < self.log_start and self._fetched <= self._position:
            self.lost += self.log_start - int(self._position)
            self._position = self._fetched = self.log_end if self.latest else self.log_start
        if self._fetched >= self.log_start:
            ahead = max(self.buffer, speed * TICK_S)
            self._fetched = min(self.log_end, max(self._fetched, self._position + ahead))
        self._position = min(self._position + speed * TICK_S, self._fetched)


class Readers:
    """Reads their commits, or polls them, in rounds of five seconds."""

    def __init__(self, readers: Sequence[Reader], *, exact_times: bool, seed: int) -> None:
        self.readers = readers
        self._exact_times = exact_times
        chance = random.Random(seed)  # noqa: S311 no secret
        for reader in readers:
            reader.begin(chance)
        self.monitor = ClusterMonitor(
            "here",
            MonitorSettings(
                intervals=10,
                min_distance_ms=1_000,
                expire_ms=3_600_000,
                allowed_lag=0,
                minimum_complete=0.0,
                history_ms=86_400_000,
            ),
        )
        self._now_s = 0.0
        self._order = 0
        self._told = [-1] * len(readers)
        self._there = [reader.there for reader in readers]
        self._polled_ms = -1
        number = len(readers)
        self._apply(CollectorStarted(incarnation=1))
        self._apply(
            Topics(
                version=1,
                names=("t",),
                ids=("id",),
                partitions=np.full(1, number, np.int32),
                leader=np.ones(number, np.int32),
            )
        )
        self._apply(Backlog(read=0, total=0, ready=True))

    @property
    def _now_ms(self) -> int:
        return START_MS + round(self._now_s * 1000)

    def _apply(self, report: Report) -> None:
        self.monitor.apply(report, EpochMs(self._now_ms))

    def unseen(self, seconds: float) -> None:
        """Time passes before lagwatch is started; it reads what was committed last."""
        for _ in range(round(seconds / TICK_S)):
            self._now_s += TICK_S
            for reader in self.readers:
                reader.step(self._now_s)
        if seconds and self._exact_times:
            self._tell(list(range(len(self.readers))))

    def watch(self, seconds: float) -> None:
        for _ in range(round(seconds / TICK_S)):
            self._now_s += TICK_S
            new = [
                number
                for number, reader in enumerate(self.readers)
                if reader.step(self._now_s) and self._exact_times
            ]
            came_or_left = self._came_or_left()
            if self._now_s % DESCRIBED_S == 0 or (came_or_left and self._exact_times):
                self._describe(came_or_left)
            round_is_due = self._now_s % ROUND_S == 0
            if round_is_due and not self._exact_times:
                new = [
                    number
                    for number, reader in enumerate(self.readers)
                    if reader.committed != self._told[number]
                ]
            if new:
                self._tell(new)
            if round_is_due:
                self._round()

    def _tell(self, numbers: list[int]) -> None:
        first = self._order == 0
        everybody = len(self.readers)
        for number in numbers:
            self._told[number] = self.readers[number].committed
        polled = np.full(len(numbers), self._polled_ms, np.int64)
        self._apply(
            Commits(
                first_new_id=0 if first else everybody,
                new_groups=tuple(f"g{each}" for each in range(everybody)) if first else (),
                new_topics=("t",) * everybody if first else (),
                new_partitions=tuple(range(everybody)) if first else (),
                key=np.array(numbers, np.int32),
                offset=np.array([self._told[number] for number in numbers]),
                commit_ms=np.full(len(numbers), self._now_ms),
                order=self._order + np.arange(len(numbers)),
                observed_ms=EpochMs(self._now_ms),
                exact_times=self._exact_times,
                only_changes=not self._exact_times,
                after_ms=None if self._exact_times else polled,
            )
        )
        self._order += len(numbers)

    def _round(self) -> None:
        self._polled_ms = self._now_ms
        log_end = np.array([reader.log_end for reader in self.readers])
        self._apply(
            LogEnds(
                version=1,
                started_ms=EpochMs(self._now_ms),
                finished_ms=EpochMs(self._now_ms),
                log_start=np.array([reader.log_start for reader in self.readers]),
                log_end=log_end,
                last_stable=log_end,
            )
        )
        self._apply(CommitsKnown(until_ms=np.array([self._now_ms])))
        self.monitor.judge(EpochMs(self._now_ms))

    def _came_or_left(self) -> list[int]:
        there = [reader.there for reader in self.readers]
        before, self._there = self._there, there
        return [number for number, now in enumerate(there) if now != before[number]]

    def _describe(self, came_or_left: list[int]) -> None:
        """The offsets topic, where it is read, has a record of those who came or left."""
        infos = []
        for number, reader in enumerate(self.readers):
            member = Member(
                member_id=f"m{number}",
                client_id="c",
                host="h",
                instance_id="",
                assignment=(("t", (number,)),),
            )
            infos.append(
                GroupInfo(
                    group=f"g{number}",
                    type="classic",
                    state="Stable" if reader.there else "Empty",
                    assignor="range" if reader.there else "",
                    coordinator=1,
                    members=(member,) if reader.there else (),
                )
            )
        left = frozenset(f"g{each}" for each in came_or_left if not self.readers[each].there)
        self._apply(
            GroupsSeen(
                groups=tuple(infos),
                complete=True,
                rebalances={f"g{each}": 1 for each in came_or_left} if self._exact_times else None,
                emptied=left if self._exact_times else frozenset(),
            )
        )

    def counted(self) -> list[int]:
        """What is said of each."""
        rows = [
            self.monitor.table.row_of((f"g{each}", "t", each)) for each in range(len(self._told))
        ]
        lost = self.monitor.setbacks.lost
        return [0 if row is None else int(lost(np.array([row]))[0]) for row in rows]

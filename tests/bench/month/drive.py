"""Drives the monitors through a simulated month on a virtual clock."""

import gc
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from lagwatch.core.model import EpochMs
from lagwatch.monitor import ClusterMonitor
from lagwatch.ports.reports import Report
from tests.bench.month import breaks, monitors
from tests.bench.month.feed import Collector, instant
from tests.bench.month.plan import DAY_S, START_MS, Plan, Size
from tests.bench.month.score import Score, Watcher
from tests.bench.month.shared import Made, Part, Received, Source, make
from tests.bench.month.traffic import CHUNK_S, STEP_S, Chunk, Commits, no_commits

_GROUPS_EVERY_S: Final = 30
_ALL_GROUPS_EVERY_S: Final = 21_600
"""The others of these reports name only groups that changed: reading all takes most of a round."""
_SEEN_AFTER_S: Final = 0.3
"""From a commit until the collector has read it."""
_JUDGED_AFTER_MS: Final = 200
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
"""Files there are in memory."""


@dataclass(slots=True, kw_only=True)
class Side:
    """One rule set: its monitor, and who notes what it says."""

    rules: str
    watcher: Watcher
    saved: bytes | None = None
    """The newest checkpoint."""
    monitor: ClusterMonitor = field(init=False)
    position: int = 0
    """In the offsets topic: where the monitor goes on reading."""

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """A new monitor, which goes on from the checkpoint if there is one."""
        self.monitor = monitors.new_monitor(self.rules, self.watcher.round_s)
        if self.saved is not None:
            self.position = monitors.restore(self.monitor, self.saved)

    def apply(self, reports: Iterable[Report], now_ms: EpochMs) -> None:
        for report in reports:
            self.monitor.apply(report, now_ms)

    def judge(self, now_s: float) -> None:
        snapshot = self.monitor.judge(EpochMs(instant(now_s) + _JUDGED_AFTER_MS))
        self.watcher.see(now_s, snapshot)


class Month:
    """One shard: a cluster, its collector, and a monitor per rule set."""

    def __init__(
        self,
        plan: Plan,
        rule_sets: tuple[str, ...] = monitors.RULE_SETS,
        source: Source | None = None,
    ) -> None:
        """Without a source of traffic it is made here."""
        self._plan = plan
        self._traffic = source or Made(plan)
        self._collector = Collector(plan)
        self.sides = [
            Side(rules=rules, watcher=Watcher(plan, plan.size.days_of(rules) * DAY_S))
            for rules in rule_sets
        ]
        self._judging = self.sides
        """Those whose days are not over."""
        self._made = no_commits()
        self._read = 0
        """How many of `_made` were sent."""
        self._committed = np.full(plan.rows.rate.size, -1)
        self._control = np.flatnonzero(plan.rows.control)
        self._lost_collector = False
        self._down = False
        # written once a minute; only the last one before a restart is ever read
        every_s = monitors.CHECKPOINT_EVERY_S
        self._checkpoints = {
            np.ceil(start_s / every_s - 1) * every_s for start_s, _ in plan.breaks.lagwatch_restarts
        }

    def run(self) -> dict[str, Score]:
        """Live through the month; returns the score by rule set."""
        self._start(0.0, self._traffic.tail(0.0))
        while self._traffic.now_s < self._plan.end_s:
            chunk = self._traffic.chunk()
            self._judging = [side for side in self.sides if chunk.start_s < side.watcher.until_s]
            if not self._judging:
                continue
            self._take(chunk)
            for step in range(
                self._plan.size.round_s // STEP_S,
                CHUNK_S // STEP_S + 1,
                self._plan.size.round_s // STEP_S,
            ):
                self._round(chunk, step, chunk.start_s + step * STEP_S)
        self._traffic.finish()
        return {side.rules: side.watcher.result() for side in self.sides}

    def _take(self, chunk: Chunk | Part) -> None:
        left = self._made.part(self._read, len(self._made))
        self._made = left.followed_by(chunk.commits)
        self._read = 0

    def _round(self, chunk: Chunk | Part, step: int, now_s: float) -> None:
        """One round of log ends and judgement, or what is left of it while something is broken."""
        shape, since_s = self._plan.breaks, now_s - self._plan.size.round_s
        # some are over before the next round
        self._down |= _began(shape.lagwatch_restarts, since_s, now_s)
        self._lost_collector |= _began(shape.collector_deaths, since_s, now_s)
        if _inside(shape.lagwatch_restarts, now_s):
            return
        if self._down:
            self._restart(now_s)
        if not _inside(shape.collector_deaths, now_s):
            self._report(chunk, step, now_s, outage=_inside(shape.outages, now_s))
        for side in self._judging:
            side.judge(now_s)
            if now_s in self._checkpoints:
                side.saved = monitors.save(side.monitor)

    def _report(self, chunk: Chunk | Part, step: int, now_s: float, *, outage: bool) -> None:
        collector, reports = self._collector, list[Report]()
        if self._lost_collector:
            self._lost_collector = False
            reports += collector.starts(new_service=False)
        if outage:
            self._send([*reports, *collector.health(now_s, ok=False)], now_s)
            return
        news = self._news(now_s - _SEEN_AFTER_S)
        reports += collector.commits(news, now_s)
        # commits are read all the time: those of a topic that is re-created come before that
        reports += collector.topics(now_s)
        reports += collector.gone(
            now_s - self._plan.size.round_s, now_s, int(news.order[-1]) if len(news) else 0
        )
        log_end, last_stable = chunk.log_end(step), chunk.last_stable(step)
        if now_s % _GROUPS_EVERY_S == 0:
            reports += collector.groups(now_s, everything=now_s % _ALL_GROUPS_EVERY_S == 0)
            reports += collector.empty_tails(self._control, self._committed, log_end)
            open_now = [(each.start_s, each.row) for each in chunk.open_now if each.end_s > now_s]
            reports += collector.open_transactions(now_s, open_now, last_stable)
        reports += collector.round(
            now_s, chunk.log_start, log_end, last_stable, away=self._away(now_s)
        )
        reports += collector.known(now_s - _SEEN_AFTER_S)
        self._send(reports, now_s)

    def _send(self, reports: list[Report], now_s: float) -> None:
        for side in self._judging:
            side.apply(reports, instant(now_s))

    def _news(self, until_s: float) -> Commits:
        """Commits made up to an instant and not yet sent."""
        until_ms = START_MS + int(until_s * 1000)
        last = int(np.searchsorted(self._made.at_ms, until_ms))
        news = self._made.part(self._read, max(last, self._read))
        self._read = max(last, self._read)
        self._committed[news.row] = news.offset
        return news

    def _away(self, now_s: float) -> list[int]:
        """Rows whose partition has no leader."""
        brokers = [
            broker
            for start_s, end_s, broker in self._plan.breaks.restarts
            if start_s <= now_s < end_s
        ]
        return np.flatnonzero(np.isin(self._plan.rows.broker, brokers)).tolist() if brokers else []

    def _start(self, now_s: float, backlog: Commits) -> None:
        """A new lagwatch: it reads what the offsets topic still holds, then it is ready."""
        collector = self._collector
        self._committed[backlog.row] = backlog.offset
        self._send([*collector.starts(new_service=True), *collector.topics(now_s)], now_s)
        self._send(collector.commits(backlog, now_s), now_s)
        self._send(
            [*collector.groups(now_s, everything=True), *collector.backlog(len(backlog))], now_s
        )

    def _restart(self, now_s: float) -> None:
        self._down, self._lost_collector = False, False
        until_s = now_s - _SEEN_AFTER_S
        self._news(until_s)
        for side in self._judging:
            side.begin()
        # all sides were saved at the same instant, and so go on at the same place
        position = min(side.position for side in self._judging)
        self._start(now_s, self._traffic.tail(until_s, position))


def _began(stretches: Iterable[tuple[float, float]], since_s: float, until_s: float) -> bool:
    return any(since_s < start_s <= until_s for start_s, _ in stretches)


def _inside(stretches: Iterable[tuple[float, float]], at_s: float) -> bool:
    return any(start_s <= at_s < end_s for start_s, end_s in stretches)


def run_shard(
    size: Size,
    shard: int,
    rule_sets: tuple[str, ...] = monitors.RULE_SETS,
    folder: str | None = None,
) -> dict[str, Score]:
    """Plan and run one shard; with a folder, on the traffic that another process makes there."""
    plan = breaks.make(size, shard)
    month = Month(plan, rule_sets, None if folder is None else Received(plan, folder))
    gc.freeze()  # half a million events stay to the end: collections need not look through them
    try:
        return month.run()
    finally:
        gc.unfreeze()


def run(size: Size, *, processes: int = 1) -> Mapping[str, Score]:
    """All shards; the score by rule set.

    With several processes so many shards are run at a time, and each rule set of a shard has a
    process of its own. A further one makes the traffic of both.
    """
    if processes == 1:
        scores = [run_shard(size, shard) for shard in range(size.shards)]
    else:
        scores = _run_apart(size, processes)
    return {
        rules: Score.joined([each[rules] for each in scores if rules in each])
        for rules in monitors.RULE_SETS
    }


def _run_apart(size: Size, processes: int) -> list[dict[str, Score]]:
    context = get_context("spawn")
    with (
        TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder,
        ProcessPoolExecutor(
            min(processes, size.shards) * (1 + len(monitors.RULE_SETS)), mp_context=context
        ) as pool,
    ):
        makes: list[Future[None]] = []
        reads: list[Future[dict[str, Score]]] = []
        for shard in range(size.shards):
            place = Path(folder, str(shard))
            place.mkdir()
            # before its readers: all of them are begun in this order
            makes.append(pool.submit(make, size, shard, str(place), len(monitors.RULE_SETS)))
            reads += [
                pool.submit(run_shard, size, shard, (rules,), str(place))
                for rules in monitors.RULE_SETS
            ]
        every: list[Future[Any]] = [*makes, *reads]
        for each in as_completed(every):
            each.result()  # the first that failed is the cause of the others
        return [each.result() for each in reads]

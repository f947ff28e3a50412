"""Draws groups as Kafka's users run them: kinds of life, each with parameters from wide ranges.

Nothing here knows how lagwatch judges.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tests.bench.month.plan import (
    BEFORE_S,
    DAY_S,
    EVER_S,
    Event,
    Jump,
    Label,
    Life,
    OpenFor,
    Rows,
    Size,
    State,
    Topic,
    Trouble,
)

_HOUR_S: Final = 3600.0
_MONTH_S: Final = 30 * DAY_S
_CADENCES_S: Final = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0)
_CADENCE_SHARES: Final = (0.01, 0.02, 0.27, 0.20, 0.15, 0.20, 0.15)
_PARTITIONS: Final = (1, 2, 3, 4, 6, 12)
_PARTITION_SHARES: Final = (0.44, 0.26, 0.12, 0.14, 0.02, 0.02)
_DEPLOYMENTS: Final = frozenset({"deployment", "rolling", "static_away"})
_APART_S: Final = 3 * _HOUR_S
"""Troubles of one group begin at least this long after the one before has ended."""


@dataclass(slots=True, kw_only=True)
class Habits:
    """How a group consumes and what is produced for it; the parameters of its rows."""

    rate: float
    headroom: float
    """What members can process, in multiples of the highest rate."""
    swing: float = 0.0
    cadence_s: float = 5.0
    when_idle: bool = True
    behind_s: float = 0.5
    transactional: bool = False
    control: bool = False
    read_committed: bool = False
    retention_s: float = EVER_S


class Dice:
    """Random numbers in the forms lives are drawn from."""

    def __init__(self, *seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def between(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def wide(self, low: float, high: float) -> float:
        """Each order of magnitude as likely as the next."""
        return float(np.exp(self.rng.uniform(np.log(low), np.log(high))))

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def number(self, low: int, high: int) -> int:
        """Of low..high."""
        return int(self.rng.integers(low, high + 1))

    def one_of(self, values: tuple[float, ...], shares: tuple[float, ...]) -> float:
        return float(self.rng.choice(values, p=shares))

    def instants(self, per_month: float, start_s: float, end_s: float) -> list[float]:
        """Instants at this mean rate, rising."""
        number = int(self.rng.poisson(per_month * (end_s - start_s) / _MONTH_S))
        return sorted(self.rng.uniform(start_s, end_s, number).tolist())


class Drawing:
    """One group while it is being drawn."""

    def __init__(self, size: Size, shard: int, number: int, first_row: int) -> None:
        self.dice = Dice(size.seed, shard, number)
        self.end_s = size.days * DAY_S
        kinds, weights = list(_KINDS), np.array([weight for weight, _ in _KINDS.values()])
        self.kind = kinds[int(self.dice.rng.choice(len(kinds), p=weights / weights.sum()))]
        partitions = int(self.dice.one_of(_PARTITIONS, _PARTITION_SHARES))
        name = f"{self.kind}-{shard}-{number:05}"
        self.life = Life(
            number=number,
            name=name,
            kind=self.kind,
            topics=[Topic(name=f"{name}.a", lo=first_row, hi=first_row + partitions)],
            members=self.dice.number(1, partitions),
        )
        self.habits = Habits(rate=1.0, headroom=5.0)

    def draw(self) -> tuple[Life, Rows]:
        """The life and its rows."""
        _KINDS[self.kind][1](self)
        self.life.cadence_s, self.life.rate = self.habits.cadence_s, self.habits.rate
        self.life.when_idle = self.habits.when_idle
        self._deploy_no_dead_group()
        return self.life, self._rows()

    def _deploy_no_dead_group(self) -> None:
        """Drop deployments that begin while the group is stopped: it has no member to restart."""
        stops = [each for each in self.life.troubles if each.label is Label.STOP]
        self.life.events = [
            event
            for event in self.life.events
            if event.why not in _DEPLOYMENTS
            or not any(stop.start_s < event.start_s < stop.end_s for stop in stops)
        ]

    def _rows(self) -> Rows:
        rng, habits = self.dice.rng, self.habits
        number = self.life.hi - self.life.lo
        skew = rng.lognormal(0.0, 0.3, number)
        rate = habits.rate * skew
        member = np.arange(number) * self.life.members // number
        phase = rng.uniform(0, habits.cadence_s, self.life.members)[member]
        return Rows(
            group=np.full(number, self.life.number),
            rate=rate,
            # a group with a message an hour reads it at once, whatever its headroom
            capacity=np.maximum(
                rate * (1 + habits.swing) * habits.headroom, np.where(rate < 0.05, 1.0, 0.0)
            ),
            swing=np.full(number, habits.swing),
            peak_s=np.full(number, rng.uniform(0, DAY_S)),
            noise=np.full(number, rng.uniform(0.02, 0.5)),
            cadence_s=np.full(number, habits.cadence_s),
            phase_s=phase,
            # commits closer than a second replace each other, which makes a long run longer
            jitter=np.full(number, 0.0 if habits.cadence_s < 5 else rng.choice([0.001, 0.02, 0.2])),
            behind_s=np.full(number, habits.behind_s),
            when_idle=np.full(number, habits.when_idle),
            control=np.full(number, habits.control),
            transactional=np.full(number, habits.transactional),
            read_committed=np.full(number, habits.read_committed),
            retention_s=np.full(number, habits.retention_s),
            broker=rng.integers(0, 1 << 20, number),
        )

    # what groups do

    def habit(self, low_rate: float, high_rate: float, **others: float) -> None:
        """Usual habits of a group that always runs."""
        dice = self.dice
        cadence_s = dice.one_of(_CADENCES_S, _CADENCE_SHARES)
        self.habits = Habits(
            rate=dice.wide(low_rate, high_rate),
            headroom=dice.wide(1.5, 20),
            cadence_s=cadence_s,
            when_idle=dice.chance(0.55),
            behind_s=min(dice.wide(0.05, 10), cadence_s),
        )
        for name, value in others.items():
            setattr(self.habits, name, value)

    def happens(self, start_s: float, length_s: float, why: str, **others) -> None:
        """An event on all rows, or those given by lo and hi."""
        rows: dict[str, Any] = {"lo": self.life.lo, "hi": self.life.hi} | others
        self.life.events.append(
            Event(
                start_s=start_s, end_s=start_s + length_s, group=self.life.number, why=why, **rows
            )
        )

    def away(self, start_s: float, length_s: float, why: str, *, clean: bool = True) -> None:
        """All members leave, or die: then the coordinator lists them until their sessions end."""
        session_s = 0.0 if clean else self.dice.between(10, 45)
        self.happens(start_s, length_s, why, speed=0.0, commits=False, final=clean)
        if length_s > session_s:
            self.happens(start_s + session_s, length_s - session_s, why, state=State.EMPTY)
        self.happens(start_s + length_s, self.dice.between(1, 10), why, state=State.REBALANCING)

    def deploys(self, per_month: float) -> None:
        """Deployments, each group in a way of its own."""
        way = self.dice.one_of((0, 1, 2), (0.5, 0.3, 0.2))
        self.life.static = way == 2
        for at_s in self.dice.instants(per_month, -BEFORE_S, self.end_s):
            (self._deploy_at_once, self._deploy_rolling, self._deploy_static)[int(way)](at_s)

    def _deploy_at_once(self, at_s: float) -> None:
        self.away(at_s, self.dice.between(20, 150), "deployment", clean=self.dice.chance(0.8))

    def _deploy_rolling(self, at_s: float) -> None:
        """Member by member: the partitions move, with a pause each time."""
        if self.life.members == 1:
            self._deploy_at_once(at_s)
            return
        for _ in range(self.life.members):
            pause_s = self.dice.wide(1, 12)
            self.happens(
                at_s, pause_s, "rolling", speed=0.0, commits=False, state=State.REBALANCING
            )
            at_s += pause_s + self.dice.between(5, 40)

    def _deploy_static(self, at_s: float) -> None:
        """Static members keep their partitions while they are away."""
        for member in range(self.life.members):
            away_s = self.dice.between(8, 60)
            lo, hi = self.member_rows(member)
            self.happens(at_s, away_s, "static_away", lo=lo, hi=hi, speed=0.0, commits=False)
            at_s += away_s + self.dice.between(1, 20)

    def member_rows(self, member: int) -> tuple[int, int]:
        """Rows of the first topic that a member holds."""
        number = self.life.topics[0].hi - self.life.lo
        held = np.flatnonzero(np.arange(number) * self.life.members // number == member)
        return self.life.lo + int(held[0]), self.life.lo + int(held[-1]) + 1

    def usual(self, deploys: float = 4.0) -> None:
        """What happens to any group that always runs: deployments, slow records, troubles."""
        if self.dice.chance(0.7):
            self.deploys(self.dice.wide(0.5, 2 * deploys))
        if self.dice.chance(0.2):
            self.slow_records(self.dice.wide(1, 20))
        self.troubles()

    def slow_records(self, per_month: float) -> None:
        """One record takes long: its member neither reads on nor commits, and is alive."""
        for at_s in self.dice.instants(per_month, -BEFORE_S, self.end_s):
            lo, hi = self.member_rows(self.dice.number(0, self.life.members - 1))
            self.happens(
                at_s, self.dice.wide(20, 200), "slow_record", lo=lo, hi=hi, speed=0.0, commits=False
            )

    # troubles

    def troubles(self, probability: float = 0.35) -> None:
        """Real ones: none for most groups, up to three for others."""
        if not self.dice.chance(probability):
            return
        at_s = self.dice.wide(0.05, 0.5) * self.end_s
        for _ in range(self.dice.number(1, 3)):
            longest_s = min(24 * _HOUR_S, (self.end_s - at_s) * 0.6)
            if longest_s < 20 * 60:
                return
            length_s = self.dice.wide(10 * 60, longest_s)
            self.trouble(at_s, length_s)
            at_s += length_s * 2 + _APART_S + self.dice.between(0, 0.3) * self.end_s

    def trouble(self, at_s: float, length_s: float) -> None:
        """One of the troubles this group can have."""
        kinds = [self._stop, self._stop]
        if self.habits.rate > 0.05:
            kinds.append(self._slow_down)
            if self.life.hi - self.life.lo > 1:
                kinds.append(self._partial_stop)
            if self.habits.when_idle:
                kinds.append(self._stall)
        kinds[self.dice.number(0, len(kinds) - 1)](at_s, length_s)

    def labelled(self, label: Label, start_s: float, end_s: float, *rows: int) -> None:
        """Note a trouble; of all rows unless two are given."""
        lo, hi = rows or (self.life.lo, self.life.hi)
        self.life.troubles.append(
            Trouble(label=label, group=self.life.number, lo=lo, hi=hi, start_s=start_s, end_s=end_s)
        )

    def _stop(self, at_s: float, length_s: float) -> None:
        self.away(at_s, length_s, "stop", clean=self.dice.chance(0.5))
        self.labelled(Label.STOP, at_s, at_s + length_s)

    def _partial_stop(self, at_s: float, length_s: float) -> None:
        row = self.dice.number(self.life.lo, self.life.topics[0].hi - 1)
        commits = self.habits.when_idle and self.dice.chance(0.3)
        self.happens(at_s, length_s, "partial_stop", lo=row, hi=row + 1, speed=0.0, commits=commits)
        self.labelled(Label.PARTIAL, at_s, at_s + length_s, row, row + 1)

    def _stall(self, at_s: float, length_s: float) -> None:
        lo, hi = self.life.lo, self.life.hi
        if self.dice.chance(0.5):
            lo, hi = self.member_rows(self.dice.number(0, self.life.members - 1))
        self.happens(at_s, length_s, "stall", lo=lo, hi=hi, speed=0.0)
        self.labelled(Label.STALL, at_s, at_s + length_s, lo, hi)

    def _slow_down(self, at_s: float, length_s: float) -> None:
        length_s = max(length_s, 30 * 60)
        # speed is a factor on the capacity, which is so many times the highest rate
        speed = self.dice.between(0.1, 0.8) / (self.habits.headroom * (1 + self.habits.swing))
        self.happens(at_s, length_s, "slow_down", speed=speed)
        self.labelled(Label.SLOW, at_s, at_s + length_s)

    # jobs that run now and then

    def runs(self, period_s: float, run_s: tuple[float, float], jitter_s: float) -> None:
        """Runs once a period; between runs the group is Empty. Some jobs fail to run at times."""
        dice = self.dice
        length_s = dice.wide(*run_s)
        offset_s = dice.between(0, period_s)
        failing = 0.0 if period_s < _HOUR_S else dice.one_of((0.0, 0.6), (0.5, 0.5))
        skips = self._skips(period_s, failing * 2)
        starts = np.arange(-BEFORE_S - 2 * period_s + offset_s, self.end_s + period_s, period_s)
        ended_s, missed = -EVER_S, None
        for number, due_s in enumerate(starts.tolist()):
            if number in skips:
                missed = due_s if missed is None else missed
                continue
            start_s = max(due_s + abs(float(dice.rng.normal(0, jitter_s))), ended_s + 5)
            self.happens(
                ended_s,
                start_s - ended_s,
                "between_runs",
                speed=0.0,
                commits=False,
                state=State.EMPTY,
                final=True,
            )
            ended_s = start_s + length_s * float(dice.rng.lognormal(0, 0.15))
            if missed is not None:
                self.labelled(Label.MISSED_RUN, missed, ended_s)
                missed = None
        self.happens(ended_s, EVER_S, "between_runs", speed=0.0, commits=False, state=State.EMPTY)
        drained = dice.between(0.1, 0.6)
        self.habits.headroom = max(period_s / (drained * length_s), 1.2)

    def _skips(self, period_s: float, per_month: float) -> set[int]:
        """Numbers of the runs that fail; a later one succeeds before the month ends."""
        skips: set[int] = set()
        for at_s in self.dice.instants(per_month, 0.05 * self.end_s, 0.9 * self.end_s):
            first = int((at_s + BEFORE_S) / period_s) + 2
            most = 1 if period_s >= DAY_S else 5
            run = range(first, first + self.dice.number(1, most))
            if (run[-1] + 2) * period_s - BEFORE_S - 2 * period_s < self.end_s - period_s:
                skips.update(run)
        return skips


def _steady(d: Drawing) -> None:
    d.habit(0.5, 3000)
    d.usual()


def _bursty(d: Drawing) -> None:
    """Producers that send several times as much for some minutes: the lag rises and drains."""
    d.habit(0.2, 500, headroom=d.dice.wide(1.5, 6))
    for at_s in d.dice.instants(d.dice.wide(30, 600), -BEFORE_S, d.end_s):
        d.happens(at_s, d.dice.wide(60, 1200), "burst", produce=d.dice.wide(2, 12))
    d.usual()


def _day_night(d: Drawing) -> None:
    d.habit(0.2, 1000, swing=d.dice.between(0.5, 0.99), headroom=d.dice.wide(1.1, 5))
    d.usual()


def _idle(d: Drawing) -> None:
    """Topics that are idle for hours or days, and groups that commit on or not."""
    d.habit(0.05, 200)
    at_s, idle_s, busy_s = -BEFORE_S, d.dice.wide(1, 40) * _HOUR_S, d.dice.wide(60, 7200)
    while at_s < d.end_s:
        length_s = idle_s * d.dice.wide(0.5, 2)
        d.happens(at_s, length_s, "idle", produce=0.0)
        at_s += length_s + busy_s * d.dice.wide(0.5, 2)
    d.usual()


def _sparse(d: Drawing) -> None:
    d.habit(1 / _HOUR_S, 1 / 60, when_idle=d.dice.chance(0.4))
    d.usual()


def _hourly(d: Drawing) -> None:
    d.habit(0.01, 200)
    d.runs(_HOUR_S * d.dice.one_of((0.5, 1, 2, 4), (0.2, 0.5, 0.15, 0.15)), (60, 1500), 60)


def _nightly(d: Drawing) -> None:
    d.habit(0.005, 100)
    d.runs(DAY_S, (300, 3 * _HOUR_S), d.dice.wide(60, 1800))


def _five_minutes(d: Drawing) -> None:
    d.habit(0.01, 100)
    d.habits.cadence_s = min(d.habits.cadence_s, 10.0)
    d.runs(300.0, (15, 150), d.dice.wide(1, 30))


def _slow_committer(d: Drawing) -> None:
    cadence_s = d.dice.one_of((90.0, 150.0, 300.0, 600.0), (0.2, 0.4, 0.25, 0.15))
    d.habit(0.2, 1000, cadence_s=cadence_s)
    d.usual()


def _slow_records(d: Drawing) -> None:
    d.habit(0.05, 50)
    d.slow_records(d.dice.wide(20, 500))
    d.usual()


def _deployed(d: Drawing) -> None:
    d.habit(0.2, 2000)
    d.deploys(d.dice.wide(10, 90))
    d.troubles()


def _transactional(d: Drawing) -> None:
    """Control records behind the data, and transactions that stay open for a while."""
    (d.habit if d.dice.chance(0.5) else _rare_habit(d))(0.05, 500)
    d.habits.transactional = True
    d.habits.control = d.dice.chance(0.6)
    d.habits.read_committed = d.dice.chance(0.8)
    for row in range(d.life.lo, d.life.hi):
        for at_s in d.dice.instants(d.dice.wide(1, 20), -BEFORE_S, d.end_s):
            length_s = d.dice.wide(5, 900)
            d.life.open_for.append(OpenFor(start_s=at_s, end_s=at_s + length_s, row=row))
    d.usual()


def _rare_habit(d: Drawing) -> Callable[[float, float], None]:
    def habit(_low: float, _high: float) -> None:
        d.habit(1 / _HOUR_S, 1 / 60)

    return habit


def _losing(d: Drawing) -> None:
    """Short retention, and a group that is dead or slow for longer."""
    retention_s = d.dice.between(2, 6) * _HOUR_S
    d.habit(0.5, 500, retention_s=retention_s)
    length_s = retention_s * d.dice.between(1.3, 2.5)
    latest_s = d.end_s - 2 * length_s
    if latest_s < 0.05 * d.end_s:
        return
    at_s = d.dice.between(0.02 * d.end_s, latest_s)
    if d.dice.chance(0.6):
        d.away(at_s, length_s, "stop", clean=d.dice.chance(0.5))
        d.labelled(Label.STOP, at_s, at_s + length_s)
    else:
        speed = d.dice.between(0.05, 0.3) / (d.habits.headroom * (1 + d.habits.swing))
        d.happens(at_s, length_s, "slow_down", speed=speed)
        d.labelled(Label.SLOW, at_s, at_s + length_s)
    d.labelled(Label.LOSS, at_s, at_s + length_s)


def _leaving(d: Drawing) -> None:
    """Unsubscribes from one of two topics and goes on with the other."""
    d.habit(0.5, 500)
    first = d.life.topics[0]
    left_s = d.dice.between(-0.05, 0.9) * d.end_s
    second = Topic(name=f"{d.life.name}.b", lo=first.hi, hi=first.hi + d.dice.number(1, 3))
    second.left_s = left_s
    d.life.topics.append(second)
    d.away(left_s - 60, 60, "deployment")
    d.happens(left_s, EVER_S, "topic_left", lo=second.lo, hi=second.hi, speed=0.0, commits=False)


def _recreated(d: Drawing) -> None:
    """The topic is deleted and created under the same name while the group is down."""
    d.habit(0.5, 500)
    at_s = d.dice.between(0.02, 0.95) * d.end_s
    away_s = d.dice.between(60, 240)
    d.away(at_s - away_s / 2, away_s, "recreation")
    d.life.topics[0].recreated_s = at_s
    d.life.jumps += [Jump(at_s=at_s, row=row, back=EVER_S) for row in range(d.life.lo, d.life.hi)]


def _set_back(d: Drawing) -> None:
    """An operator sets the offsets back while the group is down."""
    d.habit(0.5, 500, headroom=d.dice.wide(3, 20))
    for at_s in d.dice.instants(3, 0.02 * d.end_s, 0.8 * d.end_s)[:1]:
        away_s = d.dice.between(60, 300)
        d.away(at_s - away_s / 2, away_s, "offsets_set_back")
        back_s = d.dice.wide(300, 6 * _HOUR_S)
        d.life.jumps += [
            Jump(at_s=at_s, row=row, back=max(1.0, back_s * d.habits.rate))
            for row in range(d.life.lo, d.life.hi)
        ]
        d.labelled(Label.RESET, at_s - away_s / 2, at_s + away_s / 2)


def _newborn(d: Drawing) -> None:
    """Appears during the month, with its topic."""
    d.habit(0.1, 500)
    born_s = d.dice.between(0.02, 0.9) * d.end_s
    d.life.topics[0].born_s = born_s
    d.life.joined_s = born_s + d.dice.between(5, 300)
    d.happens(-EVER_S, EVER_S + born_s, "unborn", produce=0.0)
    d.happens(-EVER_S, EVER_S + d.life.joined_s, "unborn", speed=0.0, commits=False)
    if d.dice.chance(0.5):
        for at_s in d.dice.instants(8, d.life.joined_s + 600, max(d.end_s, born_s + 601)):
            d.away(at_s, d.dice.between(20, 150), "deployment")


def _retired(d: Drawing) -> None:
    """Stops for good; somebody deletes the group a little later."""
    d.habit(0.1, 500)
    at_s = d.dice.between(0.1, 0.9) * d.end_s
    d.life.gone_s = at_s + d.dice.wide(30, 3600)
    d.away(at_s, EVER_S, "retired")
    d.labelled(Label.RETIRED, at_s, d.life.gone_s)


_KINDS: Mapping[str, tuple[float, Callable[[Drawing], None]]] = {
    "steady": (18, _steady),
    "bursty": (9, _bursty),
    "day_night": (8, _day_night),
    "idle": (6, _idle),
    "sparse": (5, _sparse),
    "hourly": (6, _hourly),
    "nightly": (6, _nightly),
    "five_minutes": (3, _five_minutes),
    "slow_committer": (8, _slow_committer),
    "slow_records": (6, _slow_records),
    "deployed": (8, _deployed),
    "transactional": (7, _transactional),
    "losing": (2, _losing),
    "leaving": (2, _leaving),
    "recreated": (1.5, _recreated),
    "set_back": (1.5, _set_back),
    "newborn": (2, _newborn),
    "retired": (1, _retired),
}
"""Kind → its weight and how it is drawn."""


def draw(size: Size, shard: int) -> tuple[tuple[Life, ...], Rows]:
    """All groups of a shard; each depends on the seed, the shard and its own number only."""
    lives, parts, row = [], [], 0
    for number in range(size.of_shard(shard)):
        life, rows = Drawing(size, shard, number, row).draw()
        lives.append(life)
        parts.append(rows)
        row = life.hi
    return tuple(lives), Rows.joined(parts)

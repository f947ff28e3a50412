"""Holds verdicts against the truth: false pages, troubles missed, how late the others came."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import GroupStatus, PartitionStatus, Rule
from lagwatch.core.snapshot import ClusterSnapshot
from tests.bench.month.plan import EVER_S, Event, Label, Life, OpenFor, Plan, Trouble
from tests.bench.month.truth import Excuses, must_be_found

_MERGE_S: Final = 600.0
"""Episodes of a group that are closer than this are one page."""
_LOOK_BACK_S: Final = 1800.0
"""What happened to a group this long before a page may be its cause."""
_NOTED_IN_FULL: Final = 3
"""Pages noted with their evidence, per kind of life and rule."""
_STOPPED: Final = frozenset({PartitionStatus.STOP, PartitionStatus.STALL})


@dataclass(slots=True, kw_only=True)
class Episode:
    """One stretch in which a group was ERR, or WARN; pauses under ten minutes included."""

    group: int
    start_s: float
    last_s: float
    rule: str
    row: str = ""
    """Topic and partition that decided."""
    evidence: Mapping[str, float] = field(default_factory=dict)


class Episodes:
    """Finds the episodes of all groups for one status, round by round."""

    def __init__(self, groups: int) -> None:
        self._last_s = np.full(groups, -EVER_S)
        self._latest: dict[int, Episode] = {}
        self.all: list[Episode] = []

    def see(self, now_s: float, holds: NDArray[np.bool_]) -> list[Episode]:
        """Take in one round; returns the episodes that began."""
        now = np.flatnonzero(holds)
        new = now[self._last_s[now] < now_s - _MERGE_S]
        began = []
        for group in new.tolist():
            self._close(group)
            self._latest[group] = Episode(group=group, start_s=now_s, last_s=now_s, rule="")
            began.append(self._latest[group])
        self.all += began
        self._last_s[now] = now_s
        return began

    def finish(self) -> None:
        """Note when each group was last so."""
        for group in self._latest:
            self._close(group)

    def _close(self, group: int) -> None:
        if group in self._latest:
            self._latest[group].last_s = float(self._last_s[group])


class Watcher:
    """Reads the snapshots of one monitor."""

    def __init__(self, plan: Plan, until_s: float) -> None:
        """Of a monitor that judges from the plan's start to an instant."""
        self._plan = plan
        self.until_s = until_s
        self.round_s = plan.size.round_s
        self._number = {life.name: life.number for life in plan.lives}
        self._names: tuple[str, ...] | None = None
        self._groups = np.zeros(0, np.int64)
        self._place = np.zeros(0, np.int64)
        number = len(plan.lives)
        self.errors, self.warnings = Episodes(number), Episodes(number)
        self._status = np.zeros(number, np.int8)
        self._noted: dict[tuple[str, str], int] = defaultdict(int)
        self._right: dict[int, list[tuple[float, bool]]] = defaultdict(list)
        self._troubles = [trouble for life in plan.lives for trouble in life.troubles]
        self._coming = sorted(
            range(len(self._troubles)), key=lambda each: self._troubles[each].start_s
        )
        self._current: list[int] = []

    def see(self, now_s: float, snapshot: ClusterSnapshot) -> None:
        """Take in one round."""
        if snapshot.groups is not self._names:
            self._names = snapshot.groups
            self._groups = np.array([self._number[name] for name in snapshot.groups], np.int64)
            self._place = np.full(len(self._plan.lives), -1)
            self._place[self._groups] = np.arange(self._groups.size)
        self._status[:] = 0
        self._status[self._groups] = snapshot.group.status
        for episode in self.errors.see(now_s, self._status == GroupStatus.ERR):
            self._note(episode, snapshot)
        for episode in self.warnings.see(now_s, self._status == GroupStatus.WARN):
            self._note(episode, snapshot)
        self._follow_troubles(now_s, snapshot)

    def _note(self, episode: Episode, snapshot: ClusterSnapshot) -> None:
        rows, place = snapshot.rows, int(self._place[episode.group])
        row = int(snapshot.group.worst_row[place])
        episode.rule = Rule(int(rows.rule[row])).word
        key = (self._plan.lives[episode.group].kind, episode.rule)
        self._noted[key] += 1
        if self._noted[key] > 50 * _NOTED_IN_FULL:
            return
        episode.row = f"{snapshot.topic_names[rows.topic[row]]}/{rows.partition[row]}"
        at = int(rows.at[row])
        episode.evidence = {
            "committed": int(rows.committed[row]),
            "log_start": int(snapshot.topics.log_start[at]),
            "log_end": int(snapshot.topics.log_end[at]),
            "last_stable": int(snapshot.topics.last_stable[at]),
            "lag": int(rows.lag[row]),
            "lowest_lag": int(rows.lowest_lag[row]),
            "time_lag_s": round(int(rows.time_lag_ms[row]) / 1000, 1),
            "silent_s": round((snapshot.judged_ms - int(rows.commit_ms[row])) / 1000, 1),
            "commits": int(rows.commits[row]),
        }

    def _follow_troubles(self, now_s: float, snapshot: ClusterSnapshot) -> None:
        while self._coming and self._troubles[self._coming[0]].start_s <= now_s:
            self._current.append(self._coming.pop(0))
        if not self._current:
            return
        for number in self._current:
            right = self._is_right(self._troubles[number], snapshot)
            told = self._right[number]
            if not told or told[-1][1] != right:
                told.append((now_s, right))
        self._current = [each for each in self._current if self._troubles[each].end_s > now_s]

    def _is_right(self, trouble: Trouble, snapshot: ClusterSnapshot) -> bool:
        place = int(self._place[trouble.group])
        if place < 0:
            return False
        status = int(snapshot.group.status[place])
        match trouble.label:
            case Label.SLOW:
                return status in {GroupStatus.WARN, GroupStatus.ERR}
            case Label.LOSS:
                return status == GroupStatus.ERR
            case _:
                first, last = snapshot.group.first[place : place + 2]
                rows = snapshot.rows.status[first:last]
                return status == GroupStatus.ERR and not _STOPPED.isdisjoint(rows.tolist())

    def result(self) -> "Score":
        """Every verdict, held against the truth; call when the month is over."""
        self.errors.finish()
        self.warnings.finish()
        excuses = Excuses(self._plan)
        causes = _Causes(self._plan)
        pages, warnings = (
            [
                _told(episode, self._plan, excuses, causes)
                for episode in episodes.all
                if not excuses.cover(episode.group, episode.start_s)
            ]
            for episodes in (self.errors, self.warnings)
        )
        return Score(
            group_days=self._plan.group_days(self.until_s),
            pages=len(self.errors.all),
            false_pages=pages,
            false_warnings=warnings,
            troubles=[
                self._outcome(number, trouble)
                for number, trouble in enumerate(self._troubles)
                if must_be_found(trouble, self._plan)
                and trouble.end_s > 0
                # one that these rules saw to its end, or to the end of the month
                and min(trouble.end_s, self._plan.end_s) <= self.until_s
            ],
        )

    def _outcome(self, number: int, trouble: Trouble) -> "Outcome":
        life = self._plan.lives[trouble.group]
        true_s = max(trouble.true_s or 0.0, 0.0)
        delay_s = None
        for at_s, right in self._right[number]:
            if right:
                delay_s = max(0.0, at_s - true_s)
            elif at_s <= true_s:
                delay_s = None
            if delay_s is not None and at_s >= true_s:
                break
        return Outcome(
            label=trouble.label.value,
            kind=life.kind,
            group=life.name,
            start_s=trouble.start_s,
            true_s=true_s,
            end_s=trouble.end_s,
            delay_s=delay_s,
            worst_time_lag_s=trouble.worst_time_lag_s,
            about=about(life),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseCall:
    """A page, or a warning, of a group with which nothing was wrong."""

    kind: str
    group: str
    start_s: float
    length_s: float
    rule: str
    cause: str
    """What happened to the group lately."""
    row: str
    evidence: Mapping[str, float]
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A trouble that had to be found."""

    label: str
    kind: str
    group: str
    start_s: float
    true_s: float
    end_s: float
    delay_s: float | None
    """None: missed."""
    worst_time_lag_s: float
    about: str


@dataclass(slots=True, kw_only=True)
class Score:
    """What one rule set made of one month."""

    group_days: float
    pages: int
    """Episodes of ERR, true and false."""
    false_pages: list[FalseCall]
    false_warnings: list[FalseCall]
    troubles: list[Outcome]

    @classmethod
    def joined(cls, scores: Sequence["Score"]) -> "Score":
        """Those of several shards."""
        return cls(
            group_days=sum(score.group_days for score in scores),
            pages=sum(score.pages for score in scores),
            false_pages=[each for score in scores for each in score.false_pages],
            false_warnings=[each for score in scores for each in score.false_warnings],
            troubles=[each for score in scores for each in score.troubles],
        )

    def per_1000_group_days(self, number: int) -> float:
        return 1000 * number / self.group_days

    @property
    def delays_s(self) -> list[float]:
        return [each.delay_s for each in self.troubles if each.delay_s is not None]

    @property
    def missed(self) -> list[Outcome]:
        return [each for each in self.troubles if each.delay_s is None]


class _Causes:
    """What happened to each group, to name what a false page may come from."""

    def __init__(self, plan: Plan) -> None:
        self._events: dict[int, list[Event]] = defaultdict(list)
        for event in plan.events:
            self._events[event.group].append(event)
        self._open: dict[int, list[OpenFor]] = {
            life.number: life.open_for for life in plan.lives if life.open_for
        }
        breaks = plan.breaks
        self._breaks = [
            *((start_s, end_s, "lagwatch_restart") for start_s, end_s in breaks.lagwatch_restarts),
            *((start_s, end_s, "collector_death") for start_s, end_s in breaks.collector_deaths),
            *((start_s, end_s, "outage") for start_s, end_s in breaks.outages),
            (-1.0, 0.0, "first_start"),
        ]

    def of(self, group: int, at_s: float) -> str:
        """The events around an instant, the last to begin first; "" when there was none."""
        near = [
            (start_s, why)
            for start_s, end_s, why in self._breaks
            if start_s <= at_s <= end_s + _LOOK_BACK_S
        ]
        near += [
            (event.start_s, event.why)
            for event in self._events[group]
            if event.start_s <= at_s <= event.end_s + _LOOK_BACK_S
        ]
        near += [
            (each.start_s, "open_transaction")
            for each in self._open.get(group, ())
            if each.start_s <= at_s <= each.end_s + _LOOK_BACK_S
        ]
        return "+".join(dict.fromkeys(why for _, why in sorted(near, reverse=True)))


def _told(episode: Episode, plan: Plan, excuses: Excuses, causes: _Causes) -> FalseCall:
    life = plan.lives[episode.group]
    return FalseCall(
        kind=life.kind,
        group=life.name,
        start_s=episode.start_s,
        length_s=excuses.seconds(life.number, episode.start_s, episode.last_s),
        rule=episode.rule,
        cause=causes.of(life.number, episode.start_s),
        row=episode.row,
        evidence=episode.evidence,
        about=about(life),
    )


def about(life: Life) -> str:
    """The parameters of a life, for the report."""
    return (
        f"{life.rate:.3g} msg/s, commits every {life.cadence_s:g} s"
        f"{'' if life.when_idle else ' on progress only'}, {life.hi - life.lo} partitions, "
        f"{life.members} {'static ' if life.static else ''}members"
    )


def count(calls: Iterable[FalseCall]) -> Mapping[tuple[str, str, str], list[FalseCall]]:
    """By kind of life, last cause and rule; the most frequent first."""
    found: dict[tuple[str, str, str], list[FalseCall]] = defaultdict(list)
    for call in calls:
        found[call.kind, call.cause.split("+")[0] or "-", call.rule].append(call)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))

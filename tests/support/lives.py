"""Lives of a group, told in a small notation and judged by the real monitor in virtual time.

A life is a block of lines. Its first line says why it ends as it does; a line of settings may
follow (`commits=polled`: offsets are polled, every round; `rounds=60`: rounds a minute apart); the
others are `WHEN ACTION` or `WHEN EXPECTATION`. In each round, every five seconds by default, log
ends are read and the group is judged.

WHEN is `90s`, `5m`, `2h`, a range `5m..2h`, or a range with a step `5m..2h/30s`.

Actions (of partition 0, or of partition 1 after `p1`):
    append 10           ten messages are written
    commit end          the group commits the log end; `end-5`: five below it
    commit +10, -10     so many further or back, never beyond the log end
    commit 120          this offset
    delete 40           messages before this offset are deleted
    stable 150, end     last stable offset; `end`: no transaction is open
    tail 90             a reader found only control records from this offset to the log end
    members hold, none, apart, rebalancing, unknown
                        a member holds all partitions; there is none; it holds another topic; …
    members visit       a member comes and goes between two looks at the group
    partitions 2        the topic gets more partitions
    leader none, back   log ends of the topic cannot be read; they can again
    kafka away, back    the cluster is unreachable: for lagwatch and for the group
    commits away, back  only the commits cannot be read
    restart             lagwatch starts again and reads all commits from the beginning
    lagwatch away, back lagwatch does not run; it starts again with its last checkpoint
    lagwatch frozen, thawed
                        its process is stopped; it goes on: commits made meanwhile arrive at once,
                        after log ends were read
    recreate            the topic is deleted and created with another id
    notice              lagwatch learns of it

Expectations:
    is STATUS rule      in every round of WHEN
    fresh STATUS rule   in every round of WHEN whose data are fresh
    never STATUS …      in no round of WHEN
    has STATUS rule     in at least one round of WHEN
    unlisted            lagwatch shows no such partition
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np

from lagwatch.core.forecast import GroupOutlook
from lagwatch.core.model import EpochMs, GroupInfo, Member, PartitionVerdict
from lagwatch.errors import NotFoundError
from lagwatch.monitor import ClusterMonitor
from lagwatch.monitor.checkpoint import capture, restore
from lagwatch.monitor.checkpoint_file import decode, encode, pack, unpack
from lagwatch.monitor.members import GroupPatterns
from lagwatch.monitor.settings import MonitorSettings
from lagwatch.ports.queries import Partitions
from lagwatch.ports.reports import (
    Backlog,
    CollectorStarted,
    Commits,
    CommitsKnown,
    EmptyTails,
    GroupsSeen,
    LogEnds,
    Report,
    Topics,
)
from lagwatch.query import SnapshotQueries

START_MS: Final = 1_800_000_000_000
ROUND_S: Final = 5
GROUP: Final = "g"
TOPIC: Final = "t"
_FIRST_END: Final = 1000
_UNITS: Final = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a life."""

    text: str
    at_s: tuple[int, ...]
    """When it acts; for an expectation its first and its last instant."""
    partition: int
    verb: str
    words: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Life:
    """One block of the notation."""

    why: str
    settings: Mapping[str, str]
    actions: tuple[Line, ...]
    expectations: tuple[Line, ...]

    @property
    def seconds(self) -> int:
        return max(line.at_s[-1] for line in (*self.actions, *self.expectations))

    @property
    def round_s(self) -> int:
        return int(self.settings.get("rounds", ROUND_S))

    @property
    def rounds(self) -> int:
        return self.seconds // self.round_s

    @property
    def rules(self) -> set[str]:
        """Words of the rules that it expects."""
        return {
            line.words[1]
            for line in self.expectations
            if line.verb in {"is", "has"} and len(line.words) > 1
        }


_EXPECTATIONS: Final = frozenset({"is", "fresh", "never", "has", "unlisted"})
_LINE: Final = re.compile(
    r"(?P<first>\w+)(?:\.\.(?P<last>\w+)(?:/(?P<step>\w+))?)? +(?:p(?P<partition>\d) +)?"
    r"(?P<verb>\w+) *(?P<words>.*)"
)


def lives(text: str) -> Iterator[Life]:
    """The lives of a file; lines that begin with `#` are left out."""
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for block in re.split(r"\n\s*\n", plain.strip()):
        why, *lines = block.splitlines()
        settings: dict[str, str] = {}
        if lines[0].startswith("with "):
            settings = dict(each.split("=", 1) for each in lines.pop(0).split()[1:])
        told = [_line(line) for line in lines]
        yield Life(
            why=why,
            settings=settings,
            actions=tuple(line for line in told if line.verb not in _EXPECTATIONS),
            expectations=tuple(line for line in told if line.verb in _EXPECTATIONS),
        )


def _line(text: str) -> Line:
    found = _LINE.fullmatch(text.strip())
    assert found is not None, f"not a line of a life: {text}"
    first = _seconds(found["first"])
    last = _seconds(found["last"]) if found["last"] else first
    steps = range(first, last + 1, _seconds(found["step"])) if found["step"] else (first, last)
    return Line(
        text=text,
        at_s=tuple(dict.fromkeys(steps)),
        partition=int(found["partition"] or 0),
        verb=found["verb"],
        words=tuple(found["words"].split()),
    )


def _seconds(text: str) -> int:
    return int(text[:-1]) * _UNITS[text[-1]]


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What lagwatch said of one partition in one round."""

    at_s: int
    partition: int
    verdict: PartitionVerdict
    stale: bool

    @property
    def words(self) -> tuple[str, str]:
        return self.verdict.status.name, self.verdict.rule.word


def played(life: Life) -> Iterator[tuple[int, "World", Mapping[int, PartitionVerdict]]]:
    """Play a life: after each round its second, the world, and the verdicts by partition."""
    world = World(life.settings)
    events = sorted(
        ((at_s, number, line) for number, line in enumerate(life.actions) for at_s in line.at_s),
        key=lambda event: event[:2],
    )
    place = 0
    for at_s in range(0, life.seconds + life.round_s, life.round_s):
        while place < len(events) and events[place][0] <= at_s:
            world.act(events[place][2], at_s=events[place][0])
            place += 1
        yield at_s, world, world.round(at_s)


def live(life: Life) -> list[Shown]:
    """Play a life; what was said in each round."""
    return [
        Shown(at_s=at_s, partition=number, verdict=verdict, stale=world.stale)
        for at_s, world, verdicts in played(life)
        for number, verdict in verdicts.items()
    ]


def broken(life: Life, shown: Iterable[Shown]) -> list[str]:
    """The expectations that do not hold, with what was said instead."""
    told = list(shown)
    return [
        f"{line.text.strip()}: {said}" for line in life.expectations for said in _breaks(line, told)
    ]


def _breaks(line: Line, shown: list[Shown]) -> list[str]:
    first, last = line.at_s[0], line.at_s[-1]
    found = [
        each for each in shown if each.partition == line.partition and first <= each.at_s <= last
    ]
    if line.verb == "unlisted":
        return [f"{found[0].at_s} s: {found[0].words}"] if found else []
    if not found:
        return ["the partition is not listed"]
    wanted = line.words
    match line.verb:
        case "fresh":
            bad = [each for each in found if not each.stale and each.words != wanted]
        case "is":
            bad = [each for each in found if each.words[: len(wanted)] != wanted]
        case "never":
            bad = [each for each in found if each.words[0] in wanted]
        case _:
            holds = any(each.words[: len(wanted)] == wanted for each in found)
            bad = [] if holds else found
    return [_said(bad)] if bad else []


def _said(found: list[Shown]) -> str:
    """The first instants of each verdict, to read from the failure what went on."""
    spans = [
        f"{each.at_s} s {' '.join(each.words)}"
        for before, each in zip([None, *found], found, strict=False)
        if before is None or before.words != each.words
    ]
    return ", ".join(spans[:12])


@dataclass
class _Log:
    """A partition as Kafka has it."""

    start: int = 0
    end: int = _FIRST_END
    stable: int | None = None
    """None: as the end."""
    committed: int | None = None


@dataclass
class _Made:
    """A commit in the offsets topic."""

    partition: int
    offset: int
    commit_ms: int
    order: int = field(default=0)


class World:
    """Kafka, one group, and a lagwatch that watches them; seconds are those of lagwatch's clock."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings
        self._skew_ms = 1000 * int(settings.get("skew", "0"))
        """How far lagwatch's clock is ahead of Kafka's."""
        self._now_ms = START_MS
        self._logs = [_Log() for _ in range(int(settings.get("partitions", "1")))]
        self._made: list[_Made] = []
        self._polled = settings.get("commits") == "polled"
        self._topic_id = 1
        self._version = 0
        self._keys: list[int] = []
        """Partitions by their key: in the order of their first commits."""
        self._away = self._leaderless = self._commits_away = False
        self._saved: bytes | None = None
        """The checkpoint, while lagwatch does not run."""
        self._kept: list[_Made] | None = None
        """Commits made while lagwatch is frozen, until it has read log ends again."""
        self._frozen = False
        self._round_ms = 0
        self._members = ""
        self._names = tuple(settings.get("topics", TOPIC).split(","))
        self._begin()

    def _begin(self, saved: bytes | None = None) -> None:
        """A new lagwatch, with the checkpoint of the one before or without any."""
        settings = self._settings
        self.monitor = ClusterMonitor(
            "here",
            MonitorSettings(
                intervals=10,
                min_distance_ms=1000,
                expire_ms=7 * 86_400_000,
                allowed_lag=int(settings.get("allowed_lag", "0")),
                minimum_complete=float(settings.get("minimum_complete", "0")),
                history_ms=86_400_000,
                away_after_ms=max(20_000, 1500 * int(settings.get("rounds", ROUND_S))),
                stop_after_ms=1000 * int(settings.get("stop_after", "180")),
                stall_after_ms=1000 * int(settings.get("stall_after", "360")),
                patterns=GroupPatterns(
                    mirrored=settings.get("mirrored", ""),
                    read_committed=settings.get("read_committed", ""),
                ),
            ),
        )
        self._queries = SnapshotQueries({"here": self.monitor}, health=tuple)
        self._keys.clear()
        if saved is not None:
            restore(self.monitor, unpack(*decode(saved)), offsets_topic="__consumer_offsets")
        elif self._polled:  # nothing is known of what was polled before
            self._made.clear()
        self._tell(CollectorStarted(incarnation=1))
        self._tell_topics()
        if self._members:
            self._tell_members()
        if self._made and not (self._polled and saved):
            self._send(self._made)
        self._tell(Backlog(read=len(self._made), total=len(self._made), ready=True))

    def act(self, line: Line, *, at_s: int) -> None:
        """Do what a line says, at its instant."""
        self._now_ms = START_MS + 1000 * at_s
        log = self._logs[line.partition] if line.partition < len(self._logs) else None
        words = line.words
        actions: Mapping[str, Callable[[], Any]] = {
            "append": lambda: self._append(log, int(words[0])),
            "commit": lambda: self._commit(line.partition, words[0]),
            "delete": lambda: setattr(log, "start", int(words[0])),
            "stable": lambda: setattr(log, "stable", _offset(words[0])),
            "tail": lambda: self._tail(line.partition, int(words[0])),
            "members": lambda: self._set_members(words[0]),
            "partitions": lambda: self._grow(int(words[0])),
            "leader": lambda: setattr(self, "_leaderless", words[0] == "none"),
            "kafka": lambda: setattr(self, "_away", words[0] == "away"),
            "commits": lambda: setattr(self, "_commits_away", words[0] == "away"),
            "restart": self._begin,
            "lagwatch": lambda: self._lagwatch(words[0]),
            "recreate": self._recreate,
            "notice": self._tell_topics,
        }
        actions[line.verb]()

    def round(self, at_s: int) -> Mapping[int, PartitionVerdict]:
        """Read log ends, judge; verdicts by partition."""
        self._now_ms = START_MS + 1000 * at_s
        if self._saved is not None or self._frozen:
            return {}
        if not self._away:
            self._tell_log_ends(before_ms=0 if self._kept is None else 1500)
            if self._kept is not None:
                late, self._kept = self._kept, None
                self._send(late)
            if not self._commits_away:
                self._read_commits()
        self.monitor.judge(EpochMs(self._now_ms))
        try:
            verdict = self._queries.verdict("here", GROUP, Partitions.ALL)
        except NotFoundError:
            return {}
        return {each.partition: each for each in verdict.partitions if each.topic == TOPIC}

    @property
    def outlook(self) -> GroupOutlook:
        """How fast the group reads, and where that leads."""
        return self._queries.outlook("here", GROUP)

    @property
    def stale(self) -> bool:
        """Is what lagwatch shows older than it may be?"""
        return self.monitor.snapshot is None or self.monitor.snapshot.stale

    # Kafka

    def _append(self, log: _Log | None, messages: int) -> None:
        if log is not None and not self._away:
            log.end += messages

    def _commit(self, partition: int, what: str) -> None:
        if self._away:
            return
        log = self._logs[partition]
        if what.startswith("end"):
            offset = log.end + int(what.removeprefix("end") or 0)
        elif what[0] in "+-":
            offset = min((log.committed or 0) + int(what), log.end)
        else:
            offset = int(what)
        log.committed = offset
        if not self._polled:
            self._make(partition, offset)

    def _make(self, partition: int, offset: int) -> None:
        made = _Made(partition, offset, self._now_ms - self._skew_ms, order=len(self._made) + 1)
        self._made.append(made)
        if self._kept is None:
            self._send([made])
        else:
            self._kept.append(made)

    def _recreate(self) -> None:
        self._topic_id += 1
        self._logs = [_Log(end=0) for _ in self._logs]

    def _grow(self, partitions: int) -> None:
        self._logs += [_Log(end=0) for _ in range(partitions - len(self._logs))]
        self._tell_topics()

    def _set_members(self, what: str) -> None:
        if what == "visit":
            self._members = "none"
            self._tell_members(rebalances=2)
            return
        self._members = what
        self._tell_members()

    # lagwatch

    def _lagwatch(self, what: str) -> None:
        match what:
            case "away":
                self._saved = encode({}, map(pack, capture(self.monitor)))
            case "back":
                saved, self._saved = self._saved, None
                self._begin(saved)
            case "frozen":
                self._frozen, self._kept = True, []
            case "thawed":
                self._frozen = False

    def _tell(self, report: Report) -> None:
        if self._saved is not None:
            return
        self.monitor.apply(report, EpochMs(self._now_ms))

    def _read_commits(self) -> None:
        if self._polled:
            seen = {made.partition: made.offset for made in self._made}
            for partition, log in enumerate(self._logs):
                if log.committed is not None and log.committed != seen.get(partition):
                    self._make(partition, log.committed)
        until_ms = np.array([self._round_ms], np.int64)
        self._tell(CommitsKnown(until_ms=until_ms, polled=(0,) if self._polled else ()))

    def _send(self, made: list[_Made]) -> None:
        if self._saved is not None:
            return
        new = [
            number
            for number in dict.fromkeys(each.partition for each in made)
            if number not in self._keys
        ]
        self._keys += new
        column = partial(np.array, dtype=np.int64)
        self._tell(
            Commits(
                first_new_id=len(self._keys) - len(new),
                new_groups=(GROUP,) * len(new),
                new_topics=(TOPIC,) * len(new),
                new_partitions=tuple(new),
                key=np.array([self._keys.index(each.partition) for each in made], np.int32),
                offset=column([each.offset for each in made]),
                commit_ms=column([each.commit_ms for each in made]),
                order=column([each.order for each in made]),
                observed_ms=EpochMs(self._now_ms),
                exact_times=not self._polled,
            )
        )

    def _tell_topics(self) -> None:
        self._version += 1
        sizes = [len(self._logs) if name == TOPIC else 1 for name in self._names]
        self._tell(
            Topics(
                version=self._version,
                names=self._names,
                ids=tuple(f"{name}-{self._topic_id}" for name in self._names),
                partitions=np.array(sizes, np.int32),
                leader=np.ones(sum(sizes), np.int32),
            )
        )

    def _tell_log_ends(self, before_ms: int) -> None:
        logs = [
            log for name in self._names for log in (self._logs if name == TOPIC else [_Log(end=7)])
        ]
        known = not self._leaderless
        self._round_ms = self._now_ms - before_ms
        self._tell(
            LogEnds(
                version=self._version,
                started_ms=EpochMs(self._now_ms - before_ms),
                finished_ms=EpochMs(self._now_ms - before_ms),
                log_start=np.array([log.start if known else -1 for log in logs]),
                log_end=np.array([log.end if known else -1 for log in logs]),
                last_stable=np.array(
                    [
                        (log.end if log.stable is None else log.stable) if known else -1
                        for log in logs
                    ]
                ),
            )
        )

    def _tail(self, partition: int, first: int) -> None:
        self._tell(
            EmptyTails(
                topic=(TOPIC,),
                partition=np.array([partition], np.int32),
                first=np.array([first], np.int64),
                end=np.array([self._logs[partition].end], np.int64),
            )
        )

    def _tell_members(self, rebalances: int = 0) -> None:
        held = {
            "hold": ((TOPIC, tuple(range(len(self._logs)))),),
            "apart": (("elsewhere", (0,)),),
        }.get(self._members, ())
        members = (
            Member(member_id="m", client_id="c", host="/10.0.0.7", instance_id="", assignment=held),
        )
        rebalancing = self._members == "rebalancing"
        states = {"rebalancing": "PreparingRebalance", "unknown": "Unknown"}
        state = states.get(self._members, "Stable" if held else "Empty")
        info = GroupInfo(
            group=GROUP,
            type="classic",
            state=state,
            assignor="range",
            coordinator=1,
            members=members if held or rebalancing else (),
        )
        counted = {GROUP: rebalances} if rebalances else {}
        self._tell(GroupsSeen(groups=(info,), complete=True, rebalances=counted))


def _offset(word: str) -> int | None:
    return None if word == "end" else int(word)

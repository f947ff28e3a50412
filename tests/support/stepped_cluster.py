"""A cluster that changes step by step, whose offsets topic can be read again from any position."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lagwatch.core.model import EpochMs, GroupInfo, Member
from lagwatch.monitor import ClusterMonitor
from lagwatch.monitor.checkpoint import Part, capture, restore
from lagwatch.monitor.checkpoint_file import decode, encode, pack, unpack
from lagwatch.monitor.settings import MonitorSettings
from lagwatch.ports.reports import (
    Backlog,
    CollectorStarted,
    Commits,
    GroupsSeen,
    LogEnds,
    Topics,
)

START_MS = 1_800_000_000_000
OFFSETS_TOPIC = "__consumer_offsets"


def settings(**changes) -> MonitorSettings:
    given = {
        "intervals": 4,
        "min_distance_ms": 1000,
        "expire_ms": 7 * 86_400_000,
        "allowed_lag": 0,
        "minimum_complete": 0.0,
        "history_ms": 86_400_000,
    }
    return MonitorSettings(**given | changes)


@dataclass(frozen=True)
class Record:
    """A record of the offsets topic; its place in the list is its offset."""

    identity: tuple[str, str, int]
    offset: int
    commit_ms: int
    observed_ms: int


class SteppedCluster:
    """One monitor, and all that Kafka holds."""

    def __init__(self, **changes) -> None:
        self.settings = settings(**changes)
        self.now_ms = START_MS
        self.ahead_ms = 0
        """How far lagwatch's clock is ahead of Kafka's."""
        self.records: list[Record] = []
        self.topics: dict[str, tuple[str, int]] = {}
        """Name → (id, log end of its partitions)"""
        self.offsets_topic_id = ""
        """As the reader of the offsets topic says it; "" not."""
        self.partitions = 2
        self.groups: tuple[str, ...] = ()
        self.monitor = ClusterMonitor("here", self.settings)
        self.begin()

    def apply(self, report) -> None:
        self.monitor.apply(report, EpochMs(self.now_ms))

    def begin(self, position: int = 0) -> None:
        """A new collector, which reads from this position on."""
        self._keys: dict[tuple[str, str, int], int] = {}
        self._version = 0
        self.apply(CollectorStarted(incarnation=self.monitor.incarnation + 1))
        if self.topics:
            self.report_topics()
        topic_id = self.offsets_topic_id
        self.apply(Backlog(read=0, total=0, ready=False, topic_id=topic_id))
        self._read(position)
        self.apply(Backlog(read=0, total=0, ready=True, topic_id=topic_id))

    def restart(
        self, parts: list[Part] | None = None, *, away_s: float = 0, collects: bool = True
    ) -> None:
        """A new process: its monitor begins with what was captured, through the file."""
        whole = encode({"cluster": "here"}, map(pack, parts or list(capture(self.monitor))))
        header, body = decode(whole)
        self.wait(away_s)
        self.monitor = ClusterMonitor("here", self.settings)
        restore(self.monitor, unpack(header, body), offsets_topic=OFFSETS_TOPIC)
        if collects:
            self.begin(self.monitor.positions.get(0, 0))

    def wait(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)

    def step_clock(self, ahead_s: float) -> None:
        """Set lagwatch's clock, so many seconds ahead of Kafka's."""
        kafka_ms = self.now_ms - self.ahead_ms
        self.ahead_ms = int(ahead_s * 1000)
        self.now_ms = kafka_ms + self.ahead_ms

    def commit(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Offset -1 removes."""
        identity = (group, topic, partition)
        self.records.append(Record(identity, offset, self.now_ms - self.ahead_ms, self.now_ms))
        self._read(len(self.records) - 1)

    def beside(self, offset: int, *, exact_times: bool = False, new: bool = False) -> Commits:
        """A commit of the first group, which is read in another way; its name may be new."""
        return Commits(
            first_new_id=0 if new else len(self._keys),
            new_groups=("g",) if new else (),
            new_topics=("t",) if new else (),
            new_partitions=(0,) if new else (),
            key=np.array([0], np.int32),
            offset=np.array([offset], np.int64),
            commit_ms=np.array([self.now_ms], np.int64),
            order=np.array([self.now_ms], np.int64),
            observed_ms=EpochMs(self.now_ms),
            exact_times=exact_times,
            only_changes=True,
            beside=True,
        )

    def _read(self, position: int) -> None:
        for number, record in enumerate(self.records[position:], position):
            new = record.identity not in self._keys
            key = self._keys.setdefault(record.identity, len(self._keys))
            group, topic, partition = record.identity
            self.apply(
                Commits(
                    first_new_id=key if new else len(self._keys),
                    new_groups=(group,) if new else (),
                    new_topics=(topic,) if new else (),
                    new_partitions=(partition,) if new else (),
                    key=np.array([key], np.int32),
                    offset=np.array([record.offset], np.int64),
                    commit_ms=np.array([record.commit_ms], np.int64),
                    order=np.array([number], np.int64),
                    observed_ms=EpochMs(self.now_ms),
                    positions={0: number + 1},
                )
            )

    def report_topics(self) -> None:
        self._version += 1
        names = tuple(sorted(self.topics))
        self.apply(
            Topics(
                version=self._version,
                names=names,
                ids=tuple(self.topics[name][0] for name in names),
                partitions=np.full(len(names), self.partitions, np.int32),
                leader=np.ones(len(names) * self.partitions, np.int32),
            )
        )

    def create(self, topic: str, number: int = 0) -> None:
        self.topics[topic] = (f"{topic}-{number}", 0)
        self.report_topics()

    def grow(self, topic: str, messages: int) -> None:
        name, end = self.topics[topic]
        self.topics[topic] = (name, end + messages)

    def ends(self, *, log_start: int = 0, stable: int | None = None) -> None:
        """A round of log end offsets; before the offset `stable` no transaction is open."""
        ends = [
            self.topics[name][1] for name in sorted(self.topics) for _ in range(self.partitions)
        ]
        log_end = np.array(ends, np.int64)
        self.apply(
            LogEnds(
                version=self._version,
                started_ms=EpochMs(self.now_ms),
                finished_ms=EpochMs(self.now_ms),
                log_start=np.full(log_end.size, log_start, np.int64),
                log_end=log_end,
                last_stable=log_end if stable is None else np.minimum(log_end, stable),
            )
        )

    def list_groups(
        self, *names: str, state: str = "Empty", rebalances: Mapping[str, int] = {}
    ) -> None:
        self.groups = names
        infos = [
            GroupInfo(
                group=name, type="classic", state=state, assignor="", coordinator=1, members=()
            )
            for name in names
        ]
        self.apply(GroupsSeen(groups=tuple(infos), complete=True, rebalances=rebalances))

    def judge(self):
        return self.monitor.judge(EpochMs(self.now_ms))

    def groups_hold(self, group: str, topic: str, *partitions: int) -> None:
        """A group with one member, which holds these partitions."""
        member = Member(
            member_id="m",
            instance_id="",
            client_id="c",
            host="h",
            assignment=((topic, partitions),),
        )
        info = GroupInfo(
            group=group,
            type="classic",
            state="Stable",
            assignor="",
            coordinator=1,
            members=(member,),
        )
        self.apply(GroupsSeen(groups=(info,), complete=True))

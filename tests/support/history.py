"""History for tests: rows made up, a live cluster to record, stores read back."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lagwatch.config.history import RetentionSettings
from lagwatch.core.model import (
    EpochMs,
    GroupInfo,
    Member,
    OpenTransaction,
    RuleSet,
    offsets_partition,
)
from lagwatch.core.record import Kind, Records, Source, concat, from_rows, schema
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.history.recorder import Recorder
from lagwatch.monitor import ClusterMonitor
from lagwatch.monitor.members import GroupPatterns
from lagwatch.monitor.settings import MonitorSettings
from lagwatch.ports.history import HistoryRange, HistoryStore
from lagwatch.ports.reports import (
    CollectorStarted,
    Commits,
    CommitsKnown,
    GroupsSeen,
    LogEnds,
    OpenTransactions,
    Topics,
)

NOON_MS = 1_795_262_400_000
"""2026-11-21T12:00:00Z"""
FOREVER = RetentionSettings(**{f"{kind.value}_days": 0 for kind in Kind})
"""For rows of days that are ever longer ago."""
EVER: dict[str, Any] = {"from_ms": 0, "to_ms": 4_000_000_000_000}

Row = dict[str, Any]


class SetClock:
    """A clock that stands where it was put."""

    def __init__(self, now_ms: int = NOON_MS) -> None:
        self.ms = now_ms

    def now_ms(self) -> EpochMs:
        return EpochMs(self.ms)

    def monotonic_s(self) -> float:
        return self.ms / 1000

    async def sleep(self, delay_s: float) -> None:
        self.ms += round(delay_s * 1000)


def sample(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """One row of kind `samples`, or as changed."""
    row = {
        "cluster": "here",
        "group": "billing",
        "topic": "orders",
        "partition": 0,
        "at_ms": NOON_MS,
        "observed_ms": changes.get("at_ms", NOON_MS) + 700,
        "committed_offset": 90,
        "commit_ms": NOON_MS - 1000,
        "log_end_offset": 100,
        "log_end_ms": changes.get("at_ms", NOON_MS) + 600,
        "topic_id": "4hVhKyHkR2SfMZ7Yy2xrjA",
        "log_start_offset": 0,
        "lag": 10,
        "time_lag_s": 1.5,
        "time_lag_reason": "measured",
        "time_lag_at_ms": changes.get("at_ms", NOON_MS) + 600,
        "status": "OK",
        "rule": "progressing",
        "complete": 1.0,
        "group_status": "OK",
        "group_state": "Stable",
        "owner": "/10.0.0.7",
        "client_id": "billing-1",
        "reason": "interval",
        "method": "observed",
        "source": Source.LIVE.value,
        "schema_version": 1,
    }
    return row | changes


def group_sample(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """One row of kind `group_samples`, or as changed."""
    row = {
        "cluster": "here",
        "group": "billing",
        "at_ms": NOON_MS,
        "observed_ms": changes.get("at_ms", NOON_MS) + 700,
        "status": "OK",
        "rule": "progressing",
        "state": "Stable",
        "complete": 1.0,
        "total_lag": 10,
        "max_lag": 10,
        "max_lag_topic": "orders",
        "max_lag_partition": 0,
        "time_lag_s": 1.5,
        "time_lag_reason": "measured",
        "partitions": 1,
        "unknown_partitions": 0,
        "not_ok": 0,
        "members": 1,
        "observed": 1,
        "unchanged": 0,
        "previous_ms": None,
        "interval_ms": 30_000,
        "rebalances": 0,
        "reason": "interval",
        "source": Source.LIVE.value,
        "schema_version": 1,
    }
    return dict.fromkeys(schema(Kind.GROUP_SAMPLES)) | row | changes


def happening(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """One row of kind `events`, or as changed."""
    row = {
        "cluster": "here",
        "group": "billing",
        "topic": "orders",
        "partition": 0,
        "event": "partition_status",
        "at_ms": NOON_MS,
        "before": "OK",
        "after": "WARN",
        "rule": "lag_not_decreasing",
        "lag": 10,
        "source": Source.LIVE.value,
        "schema_version": 1,
    }
    return dict.fromkeys(schema(Kind.EVENTS)) | row | changes


def rollup(kind: Kind, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """One row of a roll-up, or as changed; `kind` only says which columns there are."""
    row = {
        "cluster": "here",
        "level": "group",
        "group": "billing",
        "bucket_ms": NOON_MS,
        "samples": 10,
        "lag_known": 10,
        "lag_sum": 100,
        "lag_max": 20,
        "lag_avg": 10.0,
        "time_lag_max_s": 2.0,
        "status": "WARN",
        "source": Source.LIVE.value,
        "schema_version": 1,
    }
    return dict.fromkeys(schema(kind)) | row | changes


def samples(rows: Sequence[Row]) -> Records:
    return from_rows(Kind.SAMPLES, rows)


def group_samples(rows: Sequence[Row]) -> Records:
    return from_rows(Kind.GROUP_SAMPLES, rows)


def events(rows: Sequence[Row]) -> Records:
    return from_rows(Kind.EVENTS, rows)


def held(store: HistoryStore, kind: Kind = Kind.SAMPLES, **wanted: Any) -> list[Row]:  # noqa: ANN401
    """What a store gives back, as plain rows in the order of their keys."""
    return plain(store.read(HistoryRange(kind=kind, **EVER | wanted)))


def plain(parts: Iterable[Records]) -> list[Row]:
    """Rows in the order of their keys."""
    found = list(parts)
    return in_order(list(concat(found).rows()), found[0].kind) if found else []


def in_order(rows: Iterable[Mapping[str, Any]], kind: Kind) -> list[Row]:
    """Plain rows in the order of their keys, unknown parts of a key first."""
    return sorted(
        map(dict, rows),
        key=lambda row: [(row.get(name) is not None, row.get(name)) for name in kind.key],
    )


class Live:
    """A cluster whose groups and topics do as the test says; judged by the real monitor."""

    def __init__(
        self,
        cluster: str = "here",
        now_ms: int = NOON_MS,
        *,
        rules: RuleSet = RuleSet.LAGWATCH,
        read_committed: str = "",
        intervals: int = 3,
    ) -> None:
        self.now_ms = now_ms
        self.monitor = ClusterMonitor(
            cluster,
            MonitorSettings(
                intervals=intervals,
                min_distance_ms=0,
                expire_ms=86_400_000,
                allowed_lag=0,
                minimum_complete=0.0,
                history_ms=3_600_000,
                rules=rules,
                patterns=GroupPatterns(read_committed=read_committed),
            ),
        )
        self.ends: dict[tuple[str, int], int] = {}
        self.stable: dict[tuple[str, int], int] = {}
        """Last stable offsets where a transaction is open."""
        self.silent: set[tuple[str, int]] = set()
        """Partitions whose broker does not answer."""
        self._keys: dict[tuple[str, str, int], int] = {}
        self._order = 0
        self._version = 0
        self._report(CollectorStarted(incarnation=1))

    def restart_collector(self) -> None:
        """A new collector reads on; ids of commits begin anew."""
        self._keys.clear()
        self._report(CollectorStarted(incarnation=2))
        names = dict.fromkeys(topic for topic, _ in self.ends)
        self.topics(**{name: sum(topic == name for topic, _ in self.ends) for name in names})

    def topics(self, *hidden: str, **partitions: int) -> None:
        """All topics there are, with their partitions; `hidden` may not be described any more."""
        self._version += 1
        self.ends = {
            (topic, partition): self.ends.get((topic, partition), 100)
            for topic, number in sorted(partitions.items())
            for partition in range(number)
        }
        self._report(
            Topics(
                version=self._version,
                names=tuple(sorted(partitions)),
                ids=tuple(f"id-{topic}" for topic in sorted(partitions)),
                partitions=np.array([partitions[topic] for topic in sorted(partitions)], np.int32),
                leader=np.ones(len(self.ends), np.int32),
                hidden=frozenset(hidden),
            )
        )

    def produce(self, topic: str, partition: int, messages: int = 1) -> None:
        self.ends[topic, partition] += messages

    def hold_offsets_back(self, group: str, *, partitions: int = 50) -> None:
        """A transaction is open where the commits of a group are: it is polled from now on."""
        self._report(
            CommitsKnown(
                until_ms=np.full(partitions, self.now_ms, np.int64),
                polled=(offsets_partition(group, partitions),),
            )
        )

    def open_transaction(self, topic: str, partition: int, last_stable: int) -> None:
        """A transaction is open from this offset on, and the broker names it."""
        self.stable[topic, partition] = last_stable
        transaction = OpenTransaction(
            topic=topic,
            partition=partition,
            last_stable=last_stable,
            since_ms=EpochMs(self.now_ms),
            producer_id=7,
            transactional_id="writer",
            started_ms=EpochMs(self.now_ms),
            problem="",
        )
        self._report(OpenTransactions(transactions=(transaction,)))

    def commit(self, *commits: tuple[str, str, int, int]) -> None:
        """(group, topic, partition, offset), all at this instant."""
        identities = [commit[:3] for commit in commits]
        new = [identity for identity in dict.fromkeys(identities) if identity not in self._keys]
        first = len(self._keys)
        self._keys |= {identity: first + index for index, identity in enumerate(new)}
        number = len(commits)
        self._order += number
        self._report(
            Commits(
                first_new_id=first,
                new_groups=tuple(identity[0] for identity in new),
                new_topics=tuple(identity[1] for identity in new),
                new_partitions=tuple(identity[2] for identity in new),
                key=np.array([self._keys[identity] for identity in identities], np.int32),
                offset=np.array([commit[3] for commit in commits], np.int64),
                commit_ms=np.full(number, self.now_ms, np.int64),
                order=np.arange(self._order - number, self._order, dtype=np.int64),
                observed_ms=EpochMs(self.now_ms),
            )
        )

    def describe(self, group: str, *, kind: str, members: int) -> None:
        """The group is of this kind, and all of its members hold nothing or the same."""
        info = GroupInfo(
            group=group,
            type=kind,
            state="Stable" if members else "Empty",
            assignor="",
            coordinator=1,
            members=tuple(
                Member(
                    member_id=f"{group}-{number}",
                    client_id=f"{group}-client",
                    host="/10.0.0.7",
                    instance_id="",
                    assignment=(("orders", (0,)),),
                )
                for number in range(members)
            ),
        )
        self._report(GroupsSeen(groups=(info,), complete=False, rebalances={}))

    def assign(self, group: str, *partitions: tuple[str, int], rebalances: int = 1) -> None:
        """One member of the group holds these."""
        topics = dict.fromkeys(topic for topic, _ in partitions)
        member = Member(
            member_id=f"{group}-1",
            client_id=f"{group}-client",
            host="/10.0.0.7",
            instance_id="",
            assignment=tuple(
                (topic, tuple(number for name, number in partitions if name == topic))
                for topic in topics
            ),
        )
        info = GroupInfo(
            group=group,
            type="classic",
            state="Stable",
            assignor="range",
            coordinator=1,
            members=(member,),
        )
        self._report(GroupsSeen(groups=(info,), complete=False, rebalances={group: rebalances}))

    def list_groups(self, *groups: str) -> None:
        """Kafka lists these groups, all without members, and no other."""
        infos = tuple(
            GroupInfo(
                group=group, type="classic", state="Empty", assignor="", coordinator=1, members=()
            )
            for group in groups
        )
        self._report(GroupsSeen(groups=infos, complete=True))

    def forget(self, group: str, topic: str | None = None) -> None:
        self.monitor.forget(group, topic)

    def wait(self, seconds: float) -> None:
        """Time passes and the log ends are read."""
        self.now_ms += round(seconds * 1000)
        ends = {place: -1 if place in self.silent else end for place, end in self.ends.items()}
        log_end = np.array(list(ends.values()), np.int64)
        self._report(
            LogEnds(
                version=self._version,
                started_ms=EpochMs(self.now_ms),
                finished_ms=EpochMs(self.now_ms),
                log_start=np.zeros_like(log_end),
                log_end=log_end,
                last_stable=np.array(
                    [self.stable.get(place, end) for place, end in ends.items()], np.int64
                ),
            )
        )

    def judge(self) -> ClusterSnapshot:
        return self.monitor.judge(EpochMs(self.now_ms))

    def shown_to(self, recorder: Recorder) -> None:
        """One round, as the service makes it, recorded when this returns."""
        recorder.offer(self.judge(), self.monitor.rebalances)
        recorder.work()

    def _report(self, report: Any) -> None:  # noqa: ANN401
        self.monitor.apply(report, EpochMs(self.now_ms))


class MemoryStore:
    """A `HistoryStore`'s writing side that keeps batches, and fails as the test says."""

    rejected_rows = 0

    def __init__(self) -> None:
        self.batches: dict[str, list[Records]] = {}
        self.failures: list[Exception] = []
        """Raised by the next writes, one each."""
        self.writes = 0
        self.lock = threading.Lock()

    def write(self, records: Sequence[Records], *, batch: str) -> None:
        with self.lock:
            self.writes += 1
            if self.failures:
                raise self.failures.pop(0)
            self.batches[batch] = list(records)

    def rows(self, kind: Kind = Kind.SAMPLES) -> list[Row]:
        found = [
            row
            for batch in self.batches.values()
            for part in batch
            for row in part.rows()
            if part.kind is kind
        ]
        return in_order(found, kind)

    def has(self, kind: Kind) -> bool:
        return bool(self.rows(kind))

    def delete_before(self, kind: Kind, day: str) -> int:
        del kind, day
        return 0

    def tidy(self, now_ms: int) -> None:
        del now_ms

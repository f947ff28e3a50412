"""The collector of one cluster: joins the Kafka adapters with the pollers."""

import asyncio
from typing import Final

from lagwatch.clock import Clock
from lagwatch.collector.link import Assignment
from lagwatch.config import ClusterSettings
from lagwatch.core.wire import CommitKeys
from lagwatch.errors import SourceError
from lagwatch.kafka.admin import KafkaTopics
from lagwatch.kafka.client import KafkaClients
from lagwatch.kafka.groups import KafkaCommitted, KafkaGroups
from lagwatch.kafka.log_ends import KafkaLogEnds
from lagwatch.kafka.offsets_topic import KafkaOffsetsTopic
from lagwatch.kafka.other_groups import KafkaOtherGroups
from lagwatch.kafka.record_times import KafkaRecordTimes
from lagwatch.kafka.retention import KafkaOffsetsRetention
from lagwatch.kafka.tails import KafkaTails
from lagwatch.kafka.transactions import KafkaTransactions
from lagwatch.pollers.committed import CommittedPoller
from lagwatch.pollers.facts import Facts
from lagwatch.pollers.filters import Filters
from lagwatch.pollers.groups import GroupPoller
from lagwatch.pollers.held import HeldPoller
from lagwatch.pollers.known import KeyRows, LastOffsets, ReaderProgress
from lagwatch.pollers.log_ends import LogEndPoller
from lagwatch.pollers.loop import ConnectionPoller, Poller, PollLoop, PollPace, Send, Wake
from lagwatch.pollers.offsets_topic import OffsetsTopicPoller
from lagwatch.pollers.progress import ProgressPoller
from lagwatch.pollers.quiet import QuietPartitions
from lagwatch.pollers.record_times import RecordTimePoller
from lagwatch.pollers.retention import RETENTION_EVERY_S, RetentionPoller
from lagwatch.pollers.share_state import (
    SHARE_STATE_TOPIC,
    CommittedWithShares,
    ShareStatePoller,
)
from lagwatch.pollers.surroundings import Surroundings
from lagwatch.pollers.tails import TailPoller
from lagwatch.pollers.topics import TopicPoller
from lagwatch.pollers.transactions import TransactionPoller
from lagwatch.ports.reports import Report, SourceHealth, SourceKind

_LISTEN_S: Final = 1.0
_LOOK_EVERY_S: Final = 1.0
"""Interval at which pollers that follow rounds of log ends check for work."""


async def run(assignment: Assignment, *, clock: Clock, send: Send) -> None:
    """Collect until cancelled.

    Raises:
        SourceError: the client library refuses the configuration; it was reported.
    """
    try:
        clients = KafkaClients(assignment.cluster, assignment.settings, clock)
        collector = Collector(assignment, clients, clock=clock, send=send)
    except SourceError as error:
        await send(
            SourceHealth(
                source=SourceKind.CONNECTION,
                ok=False,
                at_ms=clock.now_ms(),
                error_kind=error.kind,
                message=str(error),
            )
        )
        raise
    await collector.run()


class Collector:
    """Everything one cluster needs, for as long as this process lives."""

    def __init__(
        self, assignment: Assignment, clients: KafkaClients, *, clock: Clock, send: Send
    ) -> None:
        """Build the adapters and pollers; nothing is asked of Kafka yet."""
        self._assignment = assignment
        self._settings = assignment.settings
        self._clients = clients
        self._clock = clock
        self._send = send
        self._filters = Filters(self._settings)
        self._facts = Facts(clock=clock, send=send, commits_mode=_first_mode(self._settings))
        self._topics_wake, self._groups_wake, self._log_ends_wake = Wake(), Wake(), Wake()
        self._committed_wake = Wake()
        self._group_source = KafkaGroups(clients)
        self._known = ReaderProgress(clock)
        self._keys = CommitKeys(self._filters.commit)
        self._last = LastOffsets()
        self._reading = self._settings.commits != "admin"
        self._topics = TopicPoller(
            KafkaTopics(clients),
            filters=self._filters,
            facts=self._facts,
            clock=clock,
            send=send,
            wake=self._topics_wake,
            on_change=self._log_ends_wake.call,
            on_anew=self._committed_wake.call,
            interval_s=self._settings.topic_interval_s,
        )
        self._groups = GroupPoller(
            self._group_source,
            filters=self._filters,
            facts=self._facts,
            clock=clock,
            send=send,
            wake=self._groups_wake,
            interval_s=self._settings.group_interval_s,
            counts=lambda: self._reading,
            others=KafkaOtherGroups(self._settings),
        )
        self._around = Surroundings(
            filters=self._filters,
            topics=self._topics,
            groups=self._groups,
            facts=self._facts,
            last=self._last,
            clock=clock,
            send=send,
        )
        self._shares = ShareStatePoller(
            lambda: KafkaOffsetsTopic(clients, SHARE_STATE_TOPIC, with_times=True),
            self._around,
            cluster=assignment.cluster,
            keys=self._keys,
            commits=lambda: self._reading,
        )
        self._reader = self._offsets_topic()
        self._held = self._held_poller()
        rows = KeyRows(self._last)
        tails = TailPoller(
            KafkaTails(clients),
            last=self._last,
            facts=self._facts,
            clock=clock,
            send=send,
            rows=rows,
        )
        record_times = RecordTimePoller(
            KafkaRecordTimes(clients), last=self._last, rows=rows, clock=clock, send=send
        )
        transactions = TransactionPoller(
            KafkaTransactions(self._settings, clock), clock=clock, send=send
        )
        self._helpers = (self._held, tails, transactions, record_times)
        self._progress = self._progress_poller() if self._settings.progress else None
        self._quiet = QuietPartitions(self._last, rows, clock)

    async def run(self) -> None:
        """Poll until cancelled."""
        settings = self._settings
        log_ends = LogEndPoller(
            KafkaLogEnds(self._clients),
            cluster=self._assignment.cluster,
            topics=self._topics,
            clock=self._clock,
            send=self._send,
            offsets_topic=settings.offsets_topic,
            quiet=self._quiet,
            listeners=[each.note for each in (self._known, *self._helpers)],
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._loop(ConnectionPoller(self._clients.listen), _LISTEN_S).run())
            tasks.create_task(
                self._loop(self._topics, settings.topic_interval_s, self._topics_wake).run()
            )
            tasks.create_task(
                self._loop(log_ends, settings.log_end_interval_s, self._log_ends_wake).run()
            )
            tasks.create_task(
                self._loop(self._groups, settings.group_interval_s, self._groups_wake).run()
            )
            for helper in self._helpers:
                tasks.create_task(self._quiet_loop(helper).run())
            # not quiet: the serving process watches whether it still makes rounds
            tasks.create_task(self._loop(self._shares, _LOOK_EVERY_S).run())
            retention = RetentionPoller(KafkaOffsetsRetention(self._clients), facts=self._facts)
            tasks.create_task(self._quiet_loop(retention, RETENTION_EVERY_S).run())
            tasks.create_task(self._commits())
            if self._progress is not None:
                tasks.create_task(self._loop(self._progress, settings.progress_interval_s).run())

    async def _commits(self) -> None:
        """The offsets topic where it may be read, else the Admin API."""
        if self._reader is not None:
            give_up_on = {"authorization"} if self._settings.commits == "auto" else set()
            try:
                await self._loop(self._reader, 0.0, give_up_on=frozenset(give_up_on)).run()
            except SourceError as error:
                self._reading = False
                self._facts.fall_back(
                    "admin", f"{error}; committed offsets are polled instead, restart to try again"
                )
        await self._facts.send(now=True)
        await self._loop(
            self._committed(), self._settings.committed_interval_s, self._committed_wake
        ).run()

    def _progress_poller(self) -> ProgressPoller:
        # pyarrow takes memory and a while to import
        from lagwatch.spark_checkpoint import SparkCheckpoint  # noqa: PLC0415

        return ProgressPoller(
            {
                name: SparkCheckpoint(job.path, self._clock)
                for name, job in self._settings.progress.items()
            },
            self._around,
            interval_s=self._settings.progress_interval_s,
        )

    def _held_poller(self) -> HeldPoller:
        return HeldPoller(
            KafkaCommitted(self._clients),
            self._group_source,
            KafkaLogEnds(self._clients),
            self._around,
            offsets_topic=self._settings.offsets_topic,
            keys=self._keys,
            known=self._known,
            positions=lambda: {} if self._reader is None else self._reader.positions(),
            active=lambda: self._reading,
        )

    def _offsets_topic(self) -> OffsetsTopicPoller | None:
        if self._settings.commits == "admin":
            return None
        return OffsetsTopicPoller(
            KafkaOffsetsTopic(self._clients),
            self._around,
            cluster=self._assignment.cluster,
            topic=self._settings.offsets_topic,
            known=self._known,
            keys=self._keys,
            problems=lambda: self._held.problems,
            start=self._settings.start,
            resume=self._assignment.resume,
            resume_id=self._assignment.resume_id,
        )

    def _committed(self) -> CommittedPoller:
        return CommittedPoller(
            CommittedWithShares(
                KafkaCommitted(self._clients),
                self._shares,
                groups=self._groups,
                clock=self._clock,
            ),
            self._group_source,
            self._around,
            interval_s=self._settings.committed_interval_s,
            first_id=len(self._last),
            watched=self._assignment.watched,
            sent=self._shares.polled,
        )

    def _quiet_loop(self, poller: Poller, interval_s: float = _LOOK_EVERY_S) -> PollLoop:
        """Run a poller without a health report of its own, because it only helps another poller."""
        return PollLoop(poller, pace=PollPace(interval_s=interval_s), clock=self._clock, send=_drop)

    def _loop(
        self,
        poller: Poller,
        interval_s: float,
        wake: Wake | None = None,
        *,
        give_up_on: frozenset[str] = frozenset(),
    ) -> PollLoop:
        return PollLoop(
            poller,
            pace=PollPace(interval_s=interval_s),
            clock=self._clock,
            send=self._send,
            wake=wake,
            give_up_on=give_up_on,
        )


async def _drop(_: Report) -> None:
    """Drop the report: such a poller has no health of its own."""


def _first_mode(settings: ClusterSettings) -> str:
    return "admin" if settings.commits == "admin" else "offsets-topic"

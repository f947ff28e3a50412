"""lagwatch beside real traffic: two services, one per way to read commits, and what they say."""

import contextlib
import threading
import urllib.error
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import ANSWER_TIMEOUT_S, commit, create_topic, unique
from tests.support.receiver import Receiver, receiving
from tests.support.served import Served, serving
from tests.support.traffic import running
from tests.support.waiting import eventually

MODES: Final = ("offsets-topic", "admin")
_EVERY_S: Final = 0.3
QUICK_RULES: Final = "[evaluator]\nstop_after_s = 12\nstall_after_s = 20\n"


@dataclass(slots=True, kw_only=True)
class Watched:
    """One service and what it has shown and sent so far."""

    mode: str
    served: Served
    receiver: Receiver
    shown: defaultdict[str, set[tuple[str, str, str]]] = field(
        default_factory=lambda: defaultdict(set)
    )
    """(group status, worst partition status, rule) by group."""

    def look(self) -> None:
        """Note what is shown now."""
        for cluster in self.served.get("/api/v1/fleet")["clusters"]:
            for group, status, worst, rule, *_ in cluster["rows"]:
                self.shown[group].add((status, worst, rule))

    @property
    def notices(self) -> list[tuple[str, str]]:
        """Group and severity of every notice the webhook got."""
        return [(each["group"], each["severity"]) for each in self.receiver.notices]

    def group(self, group: str, query: str = "") -> dict[str, Any] | None:
        """All that is known of a group now; None while it is not known."""
        try:
            answer: dict[str, Any] = self.served.get(
                f"/api/v1/clusters/{self.served.cluster}/groups/{group}{query}"
            )
        except urllib.error.HTTPError as error:
            error.close()
            return None
        return answer

    def log_end(self, topic: str, partition: int = 0) -> int | None:
        """Log end offset as /v3 shows it; None while the topic is not known, -1 unknown."""
        try:
            reply = self.served.get(f"/v3/kafka/{self.served.cluster}/topic/{topic}")
        except urllib.error.HTTPError as error:
            error.close()
            return None
        return int(reply["offsets"][partition])

    def commits(self, group: str, topic: str, partition: int = 0) -> int:
        """How many commits the window of a partition holds."""
        answer = self.group(group, f"?topic={topic}&partition={partition}")
        window = None if answer is None else answer["window"]
        if window is None or (window["topic"], window["partition"]) != (topic, partition):
            return 0
        return len(window["commits"])

    def partition(self, group: str, topic: str, partition: int = 0) -> dict[str, Any] | None:
        """One partition as /v3 shows it; None while it is not known."""
        status = self.served.status(group)
        rows = [] if status is None else status["partitions"]
        places = {(row["topic"], row["partition"]): row for row in rows}
        return places.get((topic, partition))

    def says(self, group: str, topic: str, status: str, rule: str = "", partition: int = 0) -> bool:
        """Does the partition have this status, by this rule?"""
        row = self.partition(group, topic, partition)
        return row is not None and row["status"] == status and rule in ("", row["rule"])

    def wait(
        self,
        group: str,
        topic: str,
        status: str,
        rule: str = "",
        *,
        partition: int = 0,
        timeout_s: float = 90.0,
    ) -> dict[str, Any]:
        """Wait for a status by a rule; returns the partition as it is then."""
        with contextlib.suppress(AssertionError):
            eventually(
                lambda: self.says(group, topic, status, rule, partition),
                status,
                timeout_s=timeout_s,
            )
        row = self.partition(group, topic, partition)
        wanted = f"{status} {rule} of {group} {topic} ({self.mode})"
        assert row is not None, f"unknown instead of {wanted}"
        assert (row["status"], row["rule"] if rule else "") == (status, rule), (
            f"not {wanted}: {row}; shown so far: {self.shown.get(group)}"
        )
        return row

    def statuses(self, group: str) -> set[str]:
        """All statuses of the group that were shown."""
        return {status for status, _, _ in self.shown[group]}


@contextlib.contextmanager
def watching(
    kafka: EmbeddedKafka,
    mode: str,
    *,
    sections: str = "",
    clock_ahead_s: int | Path = 0,
    **cluster: object,
) -> Iterator[Watched]:
    """Run the service with a webhook, and look at it all the time; it polls every second."""
    quick = {"committed_interval_s": 1} if mode == "admin" else {}
    with (
        receiving() as receiver,
        serving(
            kafka.bootstrap_servers,
            cluster={"commits": mode, **quick, **cluster},
            sections=(
                '[history]\nstore = "none"\n'
                f'[alerts.webhook.hook]\nurl = "{receiver.url}"\n{sections}'
            ),
            clock_ahead_s=clock_ahead_s,
        ) as served,
    ):
        watched = Watched(mode=mode, served=served, receiver=receiver)
        with _looking(watched):
            yield watched


@contextlib.contextmanager
def _looking(watched: Watched) -> Iterator[None]:
    def look(stop: threading.Event) -> None:
        while not stop.wait(_EVERY_S):
            with contextlib.suppress(OSError):  # slow for once; the next look finds it
                watched.look()

    with running(look):
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One broker and the services that watch it, one per way to read commits."""

    kafka: EmbeddedKafka
    oracle: "Oracle"
    watches: Sequence[Watched]

    def both(
        self, group: str, topic: str, status: str, rule: str = "", *, timeout_s: float = 90.0
    ) -> Sequence[dict[str, Any]]:
        """Wait until each service says so; returns the partition as each shows it."""
        return [
            watched.wait(group, topic, status, rule, timeout_s=timeout_s)
            for watched in self.watches
        ]

    def never_err(self, group: str) -> None:
        """Fail if the group was ever shown as ERR, or never shown."""
        for watched in self.watches:
            assert watched.shown[group], f"{group} was never shown ({watched.mode})"
            shown = watched.statuses(group)
            assert "ERR" not in shown, f"{group} ({watched.mode}): {watched.shown[group]}"


@contextlib.contextmanager
def under_way(
    kafka: EmbeddedKafka, cases: Mapping[str, Callable[[Scene], None]], cluster: Mapping[str, Any]
) -> Iterator[Mapping[str, "Future[None]"]]:
    """Run all cases at the same time in one scene; the times are a fifteenth of the defaults."""
    commit(kafka, unique("first"), create_topic(kafka, "first"), 0)
    with contextlib.ExitStack() as stack:
        watches = [
            stack.enter_context(watching(kafka, mode, sections=QUICK_RULES, **cluster))
            for mode in MODES
        ]
        for watched in watches:
            watched.served.wait_ready()
        scene = Scene(kafka=kafka, oracle=Oracle(kafka), watches=watches)
        pool = stack.enter_context(ThreadPoolExecutor(len(cases)))
        yield {name: pool.submit(case, scene) for name, case in cases.items()}


class Oracle:
    """What Kafka itself says, through its admin calls."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        self._admin = AdminClient(kafka.admin_config())

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Committed offsets of a group."""
        asked = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        reply = asked[group].result(ANSWER_TIMEOUT_S).topic_partitions or []
        return {(each.topic, each.partition): each.offset for each in reply if each.offset >= 0}

    def log_end(self, topic: str, partition: int = 0) -> int:
        """Log end offset."""
        return self._offset(topic, partition, OffsetSpec.latest())

    def log_start(self, topic: str, partition: int = 0) -> int:
        """Log start offset."""
        return self._offset(topic, partition, OffsetSpec.earliest())

    def last_stable(self, topic: str, partition: int = 0) -> int:
        """Last stable offset."""
        return self._offset(
            topic, partition, OffsetSpec.latest(), isolation=IsolationLevel.READ_COMMITTED
        )

    def delete_records(self, topic: str, before: int, partition: int = 0) -> None:
        """Delete the records below an offset; -1: all there are."""
        place = TopicPartition(topic, partition, before)

        def deleted() -> bool:
            try:
                self._admin.delete_records([place])[place].result(ANSWER_TIMEOUT_S)
            except KafkaException:
                return False  # see `_offset`
            return True

        eventually(deleted, f"records of {topic} are deleted")

    @property
    def admin(self) -> AdminClient:
        return self._admin

    def _offset(
        self,
        topic: str,
        partition: int,
        which: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> int:
        place, offset, why_not = TopicPartition(topic, partition), -1, ""

        def asked() -> bool:
            nonlocal offset, why_not
            reply = self._admin.list_offsets({place: which}, isolation_level=isolation)
            try:
                offset = int(reply[place].result(ANSWER_TIMEOUT_S).offset)
            except KafkaException as error:
                why_not = str(error)
                return False  # on a busy machine a new topic has no leader for a moment
            return True

        eventually(asked, f"an offset of {topic}", why_not=lambda: why_not)
        return offset

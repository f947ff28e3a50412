"""Topics of every kind, written with known append times; what lagwatch says of them against it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lagwatch.clock import SystemClock
from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import ANSWER_TIMEOUT_S, commit, unique
from tests.support.traffic import running

_STEP_S: Final = 0.05
_HOUR_MS: Final = 3_600_000
_TRANSACTION_STEPS: Final = 20

KINDS: Final = (
    *("steady", "bursty", "idle", "seldom"),
    *("append_time", "out_of_order", "compacted", "transactional"),
)
_CONFIG: Final = {
    "append_time": {"message.timestamp.type": "LogAppendTime"},
    "compacted": {"cleanup.policy": "compact"},
}


def now_s() -> float:
    """Epoch seconds of this machine, which are the broker's."""
    return SystemClock().now_ms() / 1000


@dataclass(slots=True)
class Topic:
    """One topic of one partition, and when each of its records was appended."""

    kind: str
    name: str
    group: str
    producer: Producer
    appended_s: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Offset → sent, and acknowledged (epoch seconds): it was appended in between."""
    steps: int = 0

    def step(self, rng: Random) -> None:
        """A twentieth of a second of this topic's traffic."""
        number, self.steps = self.steps, self.steps + 1
        due = {"bursty": number % 100 == 0, "idle": number < 10, "seldom": number % 80 == 0}
        if self.kind == "transactional" and number % _TRANSACTION_STEPS == 0:
            if number:
                self.producer.commit_transaction(ANSWER_TIMEOUT_S)
            self.producer.begin_transaction()
        if due.get(self.kind, True):
            for _ in range(100 if self.kind == "bursty" else 1):
                self._produce(rng)
        self.producer.poll(0)

    def _produce(self, rng: Random) -> None:
        sent_s = now_s()

        def delivered(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            self.appended_s[message.offset() or 0] = sent_s, now_s()

        earlier_ms = rng.randrange(_HOUR_MS) if self.kind == "out_of_order" else 0
        self.producer.produce(
            self.name,
            b"value",
            key=str(rng.randrange(5)),
            on_delivery=delivered,
            timestamp=int(sent_s * 1000) - earlier_ms,
        )

    def finish(self) -> None:
        """Wait for the last acknowledgements."""
        if self.kind == "transactional":
            self.producer.commit_transaction(ANSWER_TIMEOUT_S)
            self.steps = 0
        assert self.producer.flush(ANSWER_TIMEOUT_S) == 0

    def record_at(self, offset: int, now_s: float) -> tuple[float, float]:
        """When the record at an offset was sent and acknowledged; `now_s`: it has not come yet."""
        return self.appended_s.get(offset, (now_s, now_s))

    def offset_after(self, at_s: float) -> int:
        """The first record sent at an instant or later."""
        return min(each for each, (sent_s, _) in self.appended_s.items() if sent_s >= at_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row of the table of errors."""

    kind: str
    method: str
    bound: str
    truth_s: tuple[float, float]
    """The true time lag is between these."""
    value_s: float | None
    error_s: float | None

    @property
    def off_s(self) -> float:
        """Value less truth; infinite when there is no value."""
        return float("inf") if self.value_s is None else self.value_s - sum(self.truth_s) / 2

    @property
    def holds(self) -> bool:
        """Do value, bound and error enclose the truth?"""
        if self.value_s is None:
            return False
        least_s, most_s = self.truth_s
        error_s = float("inf") if self.error_s is None else self.error_s
        below_s = 0.0 if self.bound == "at_least" else error_s
        above_s = 0.0 if self.bound == "at_most" else error_s
        return self.value_s - below_s <= most_s and self.value_s + above_s >= least_s

    def __str__(self) -> str:
        return (
            f"{self.kind:14} {self.method:16} {self.bound:9} truth {self.truth_s[0]:8.2f} s  "
            f"off {_seconds(self.off_s)}  stated error {_seconds(self.error_s)}"
        )


def _seconds(value: float | None) -> str:
    return "       ?" if value is None else f"{value:+8.2f} s"


class Truth:
    """All kinds of topics on one broker, each with a group."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        self._kafka = kafka
        admin = AdminClient(kafka.admin_config())
        self.topics = {}
        self._rng = Random(7)  # noqa: S311 traffic, no secret
        for kind in KINDS:
            name = unique(kind.replace("_", "-"))
            config = {"retention.ms": "-1", **_CONFIG.get(kind, {})}
            wanted = NewTopic(name, num_partitions=1, replication_factor=1, config=config)
            admin.create_topics([wanted])[name].result(ANSWER_TIMEOUT_S)
            extra = {"transactional.id": unique("tx")} if kind == "transactional" else {}
            producer = Producer(kafka.admin_config() | {"linger.ms": 0} | extra)
            if extra:
                producer.init_transactions(ANSWER_TIMEOUT_S)
            self.topics[kind] = Topic(kind, name, unique(f"g-{kind}"), producer)

    @contextmanager
    def traffic(self) -> Iterator[None]:
        """Write to all topics meanwhile."""

        def write(stop: threading.Event) -> None:
            while not stop.wait(_STEP_S):
                for topic in self.topics.values():
                    topic.step(self._rng)

        try:
            with running(write):
                yield
        finally:
            for topic in self.topics.values():
                topic.finish()

    def commit(self, offset_of: Callable[[Topic], int]) -> dict[str, int]:
        """Commit an offset of each topic by its group; returns them by kind."""
        offsets = {kind: offset_of(topic) for kind, topic in self.topics.items()}
        for kind, offset in offsets.items():
            commit(self._kafka, self.topics[kind].group, self.topics[kind].name, offset)
        return offsets

    def line(self, kind: str, status: dict[str, Any]) -> Line:
        """What a group's answer of /v3 says against the truth as of its instant.

        The truth is the age of the record at the committed offset that the answer shows.
        """
        (shown,) = status["partitions"]
        at_s = status["time_lag_at_ms"] / 1000
        sent_s, acknowledged_s = self.topics[kind].record_at(shown["end"]["offset"], at_s)
        return Line(
            kind=kind,
            method=shown["time_lag_method"],
            bound=shown["time_lag_bound"],
            truth_s=(max(at_s - acknowledged_s, 0.0), max(at_s - sent_s, 0.0)),
            value_s=shown["time_lag_s"],
            error_s=shown["time_lag_error_s"],
        )

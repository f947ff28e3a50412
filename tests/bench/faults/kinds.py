"""The kinds of faults. Each is a block: it sets its scene up, injects the fault, and yields.

What it yields is the group. Traffic goes on until the block ends. Numbers vary with the random
generator: rates, partitions, protocols, how often is committed.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.bench.faults.workers import Worker, writing
from tests.support.consumers import Properties
from tests.support.kafka import (
    ANSWER_TIMEOUT_S,
    Transactions,
    commit,
    create_topic,
    produce,
    unique,
)
from tests.support.traffic import running
from tests.support.waiting import eventually
from tests.support.watched import Watched

_WARM_S: Final = 25.0
"""For rates and usual pauses to be known."""
_PROTOCOLS: Final[tuple[Properties, ...]] = (
    {"partition.assignment.strategy": "range"},
    {"partition.assignment.strategy": "cooperative-sticky"},
    {"group.protocol": "consumer"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One broker, the service that watches it, and the numbers of one fault."""

    kafka: EmbeddedKafka
    watched: Watched
    rng: Random

    def topic(self, partitions: int = 1) -> str:
        return create_topic(self.kafka, "fault", partitions=partitions)

    def worker(
        self,
        group: str,
        *topics: str,
        speed: Callable[[int], float] = lambda _: 1e6,
        last: Callable[[int], int] = lambda _: 1 << 60,
        commits: Callable[[], bool] = lambda: True,
        protocol: Properties | None = None,
        assigned_s: float = 0.0,
    ) -> Worker:
        properties = self.rng.choice(_PROTOCOLS) if protocol is None else protocol
        return Worker(
            kafka=self.kafka,
            group=group,
            topics=list(topics),
            speed=speed,
            last=last,
            commits=commits,
            properties=properties,
            assigned_s=assigned_s,
            every_s=self.rng.choice((0.5, 1.0, 2.0)),
        )

    def rate(self) -> float:
        return self.rng.uniform(20, 60)

    def warm(self, group: str, topic: str, seconds: float = _WARM_S) -> None:
        """Wait until the group commits, and then for so long."""
        eventually(lambda: self.watched.commits(group, topic) >= 2, "commits", timeout_s=120)
        threading.Event().wait(seconds)

    def members(self, group: str, number: int) -> None:
        def counted() -> bool:
            info = (self.watched.group(group) or {}).get("info") or {}
            return info.get("members") == number and info["state"] in {"Stable", "Empty"}

        eventually(counted, f"{number} members of {group}", timeout_s=120)


Fault = Callable[[Scene], contextlib.AbstractContextManager[str]]


@contextlib.contextmanager
def _gone(scene: Scene) -> Iterator[str]:
    """All consumers end."""
    topic, group, rate = scene.topic(2), unique("gone"), scene.rate()
    with running(writing(scene.kafka, topic, lambda _: rate, partitions=2)):
        with running(scene.worker(group, topic)):
            scene.members(group, 1)
            scene.warm(group, topic, 8)
        yield group


@contextlib.contextmanager
def _stuck(scene: Scene) -> Iterator[str]:
    """The handler fails on one record and tries it again and again."""
    topic, group, rate = scene.topic(2), unique("stuck"), scene.rate()
    poison = int(rate * scene.rng.uniform(10, 20))
    both = scene.rng.random() < 0.5

    def last(partition: int) -> int:
        return poison if both or partition == 0 else 1 << 60

    with running(
        writing(scene.kafka, topic, lambda _: rate, partitions=2),
        scene.worker(group, topic, last=last),
    ):
        scene.warm(group, topic, 20)
        yield group


@contextlib.contextmanager
def _not_committing(scene: Scene) -> Iterator[str]:
    """A member reads on and commits no more."""
    topic, group, rate = scene.topic(2), unique("uncommitted"), scene.rate()
    well = threading.Event()
    well.set()
    with running(
        writing(scene.kafka, topic, lambda _: rate, partitions=2),
        scene.worker(group, topic, commits=well.is_set),
    ):
        scene.warm(group, topic, 10)
        well.clear()
        yield group


@contextlib.contextmanager
def _unsubscribed(scene: Scene) -> Iterator[str]:
    """The consumer is deployed anew without one of its topics."""
    left, kept, group, rate = scene.topic(), scene.topic(), unique("left"), scene.rate()
    with running(*(writing(scene.kafka, each, lambda _: rate) for each in (left, kept))):
        with running(scene.worker(group, left, kept)):
            scene.warm(group, left, 8)
        with running(scene.worker(group, kept)):
            yield group


@contextlib.contextmanager
def _storm(scene: Scene) -> Iterator[str]:
    """A member comes and goes; with every assignment both prepare for seconds."""
    topic, group, rate = scene.topic(2), unique("storm"), scene.rate()
    protocol: Properties = {"partition.assignment.strategy": "range"}

    def worker() -> Worker:
        return scene.worker(
            group, topic, speed=lambda _: 1.3 * rate, protocol=protocol, assigned_s=3.0
        )

    def restless(stop: threading.Event) -> None:
        while not stop.wait(2.0):
            with running(worker()):
                stop.wait(scene.rng.uniform(4.0, 6.0))

    with running(writing(scene.kafka, topic, lambda _: rate, partitions=2), worker()):
        scene.warm(group, topic, 10)
        with running(restless):
            yield group


@contextlib.contextmanager
def _slow_partition(scene: Scene) -> Iterator[str]:
    """A hot key, or a kind of record in one partition that takes long."""
    topic, group, rate = scene.topic(4), unique("hot"), scene.rate() / 2
    hot, by_key = scene.rng.randrange(4), scene.rng.random() < 0.5
    begun = threading.Event()

    def written(partition: int) -> float:
        return 8 * rate if begun.is_set() and by_key and partition == hot else rate

    def speed(partition: int) -> float:
        return 0.3 * rate if begun.is_set() and not by_key and partition == hot else 2 * rate

    with running(
        writing(scene.kafka, topic, written, partitions=4),
        scene.worker(group, topic, speed=speed),
    ):
        scene.warm(group, topic)
        begun.set()
        yield group


@contextlib.contextmanager
def _slow_member(scene: Scene) -> Iterator[str]:
    """One of two members becomes slow."""
    topic, group, rate = scene.topic(4), unique("member"), scene.rate() / 2
    begun, protocol = threading.Event(), scene.rng.choice(_PROTOCOLS)

    def slow(_: int) -> float:
        return 0.3 * rate if begun.is_set() else 3 * rate

    with running(
        writing(scene.kafka, topic, lambda _: rate, partitions=4),
        scene.worker(group, topic, speed=lambda _: 3 * rate, protocol=protocol),
        scene.worker(group, topic, speed=slow, protocol=protocol),
    ):
        scene.members(group, 2)
        scene.warm(group, topic)
        begun.set()
        yield group


@contextlib.contextmanager
def _all_slow(scene: Scene) -> Iterator[str]:
    """The handler becomes too slow on all partitions."""
    partitions = scene.rng.choice((1, 2, 4))
    topic, group, rate = scene.topic(partitions), unique("slow"), scene.rate()
    share, begun = scene.rng.uniform(0.3, 0.6), threading.Event()

    def speed(_: int) -> float:
        return share * rate if begun.is_set() else 2 * rate

    with running(
        writing(scene.kafka, topic, lambda _: rate, partitions=partitions),
        scene.worker(group, topic, speed=speed),
    ):
        scene.warm(group, topic)
        begun.set()
        yield group


@contextlib.contextmanager
def _burst(scene: Scene) -> Iterator[str]:
    """Producers write several times as much; the handler is as fast as before."""
    partitions = scene.rng.choice((1, 2, 4))
    topic, group, rate = scene.topic(partitions), unique("burst"), scene.rate()
    times, begun = scene.rng.uniform(3, 6), threading.Event()

    def written(_: int) -> float:
        return times * rate if begun.is_set() else rate

    with running(
        writing(scene.kafka, topic, written, partitions=partitions),
        scene.worker(group, topic, speed=lambda _: 1.5 * rate),
    ):
        scene.warm(group, topic)
        begun.set()
        yield group


@contextlib.contextmanager
def _open_transaction(scene: Scene) -> Iterator[str]:
    """A transaction stays open before records that are committed."""
    topic, group = scene.topic(), unique("open")
    produce(scene.kafka, topic, 20)
    protocol: Properties = {"isolation.level": "read_committed"}
    with running(scene.worker(group, topic, protocol=protocol)):
        scene.members(group, 1)
        threading.Event().wait(scene.rng.uniform(0, 10))
        transactions = Transactions(scene.kafka)
        transactions.write(topic, scene.rng.randrange(3, 30))
        try:
            yield group
        finally:
            transactions.abort()


@contextlib.contextmanager
def _control_records(scene: Scene) -> Iterator[str]:
    """The last record of the log is the mark of a transaction."""
    topic, group = scene.topic(), unique("marks")
    number = scene.rng.randrange(5, 50)
    transactions = Transactions(scene.kafka)
    transactions.write(topic, number)
    transactions.commit()
    commit(scene.kafka, group, topic, number)
    yield group


@contextlib.contextmanager
def _reset(scene: Scene) -> Iterator[str]:
    """Offsets are set back while the group is empty."""
    topic, group = scene.topic(), unique("reset")
    number = scene.rng.randrange(200, 900)
    produce(scene.kafka, topic, number)
    with running(scene.worker(group, topic)):
        scene.members(group, 1)
        threading.Event().wait(scene.rng.uniform(0, 10))

        def read() -> bool:
            found = (scene.watched.group(group) or {}).get("partitions", [])
            return bool(found) and found[0]["committed"] == number

        eventually(read, "it has read", timeout_s=120)
    scene.members(group, 0)
    commit(scene.kafka, group, topic, scene.rng.randrange(number // 2))
    yield group


@contextlib.contextmanager
def _lost(scene: Scene) -> Iterator[str]:
    """Records are deleted while the consumers are away; then they go on behind them."""
    topic, group, rate = scene.topic(), unique("lost"), scene.rate()
    with running(writing(scene.kafka, topic, lambda _: rate)):
        with running(scene.worker(group, topic)):
            scene.warm(group, topic, 8)
        scene.members(group, 0)
        # members that were away for less than a minute may have had the records in their memory
        threading.Event().wait(65)
        place = TopicPartition(topic, 0, OFFSET_END)
        admin = AdminClient(scene.kafka.admin_config())  # to be kept until it has answered
        admin.delete_records([place])[place].result(ANSWER_TIMEOUT_S)
        with running(scene.worker(group, topic)):
            scene.members(group, 1)
            yield group


@contextlib.contextmanager
def _well(scene: Scene) -> Iterator[str]:
    """Nothing is wrong: traffic goes up and down, and the consumer keeps up."""
    topic, group, rate = scene.topic(2), unique("well"), scene.rate()
    lull = threading.Event()

    def written(_: int) -> float:
        return rate / 3 if lull.is_set() else rate

    with running(
        writing(scene.kafka, topic, written, partitions=2),
        scene.worker(group, topic, speed=lambda _: 4 * rate),
    ):
        scene.warm(group, topic)
        lull.set()
        yield group


NOTHING: Final = "nothing"
"""What is shown of a group with which nothing is wrong."""

FAULTS: Final[Mapping[str, Fault]] = {
    "no_members": _gone,
    "stuck_on_record": _stuck,
    "not_committing": _not_committing,
    "unsubscribed_topic": _unsubscribed,
    "rebalance_storm": _storm,
    "slow_partition": _slow_partition,
    "slow_member": _slow_member,
    "all_slow": _all_slow,
    "producer_burst": _burst,
    "open_transaction": _open_transaction,
    "control_records": _control_records,
    "offsets_reset": _reset,
    "records_lost": _lost,
    NOTHING: _well,
}
"""By the name of the cause that is right."""

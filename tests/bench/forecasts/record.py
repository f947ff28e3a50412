"""Records traces of real consumers that catch up: log ends and commits of one partition each.

Run from the root: `python -m tests.bench.forecasts.record FOLDER`; takes about three minutes.
"""

import json
import math
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from confluent_kafka import Consumer, TopicPartition

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.bench.faults.workers import Place, Worker, writing
from tests.support.kafka import create_topic, produce, unique
from tests.support.traffic import running

_SECONDS = 170
_LOOK_S = 2.0


class _Recorded(Worker):
    """Remembers its commits."""

    def __call__(self, stop: threading.Event) -> None:
        self.made: list[tuple[int, int]] = []
        super().__call__(stop)

    def _commit(self, consumer: Consumer, before: dict[Place, int]) -> dict[Place, int]:
        done = super()._commit(consumer, before)
        for offset in done.values():
            if not self.made or self.made[-1][1] != offset:
                self.made.append((time.time_ns() // 1_000_000, offset))
        return done


def _kinds(rng: Random) -> dict[str, tuple[Callable[[int], float], Callable[[int], float], float]]:
    """Name → (written per second, read per second, seconds between commits)."""
    began_s = time.monotonic()

    def at() -> float:
        return time.monotonic() - began_s

    return {
        "steady": (lambda _: 80, lambda _: 200, 1.0),
        "noisy": (lambda _: 80, lambda _: 220 * rng.gammavariate(2.0, 0.5), 2.0),
        "pauses": (lambda _: 80, lambda _: 0 if at() % 17 < 4 else 260, 1.0),
        "slows": (lambda _: 60, lambda _: 260 * math.exp(-at() / 250), 5.0),
        "bursty": (lambda _: 400 if at() % 20 < 4 else 0, lambda _: 210, 2.0),
        "rising": (lambda _: 60 + at() / 3, lambda _: 230, 5.0),
    }


def main(folder: Path) -> None:
    """Record all kinds at once."""
    with EmbeddedKafka() as kafka:
        stop = threading.Event()
        threads = [
            threading.Thread(target=_record, args=(kafka, name, kind, folder, stop))
            for name, kind in _kinds(Random(5)).items()  # noqa: S311 no secret
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _record(
    kafka: EmbeddedKafka,
    name: str,
    kind: tuple[Callable[[int], float], Callable[[int], float], float],
    folder: Path,
    stop: threading.Event,
) -> None:
    written, speed, every_s = kind
    topic, group = create_topic(kafka, name), unique(name)
    produce(kafka, topic, 15_000)
    worker = _Recorded(kafka=kafka, group=group, topics=[topic], speed=speed, every_s=every_s)
    looker = Consumer(kafka.admin_config() | {"group.id": unique("looker")})
    ends = []
    until_s = time.monotonic() + _SECONDS
    with running(writing(kafka, topic, written), worker):
        while time.monotonic() < until_s:
            _, end = looker.get_watermark_offsets(TopicPartition(topic, 0), 10)
            ends.append((time.time_ns() // 1_000_000, end))
            stop.wait(_LOOK_S)
    looker.close()
    first_ms = min(ends[0][0], worker.made[0][0])
    trace = {
        "kind": name,
        "log_ends": [[at_ms - first_ms, end] for at_ms, end in ends],
        "commits": [[at_ms - first_ms, offset] for at_ms, offset in worker.made],
    }
    (folder / f"{name}.json").write_text(json.dumps(trace, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

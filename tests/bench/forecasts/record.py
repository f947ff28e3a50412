"""Records traces of real consumers that catch up: log ends and commits of one partition each.

Run from the root: `python -m tests.bench.forecasts.record FOLDER first`, or `second` for the other
set; takes about three minutes, or five and a half.
"""

import json
import math
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.bench.faults.workers import Place, Worker, writing
from tests.support.kafka import create_topic, produce, unique
from tests.support.traffic import running

_LOOK_S = 2.0

Kind = tuple[Callable[[int], float], Callable[[int], float], float]
"""(written per second, read per second, seconds between commits)"""


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


def _first(rng: Random) -> dict[str, Kind]:
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


def _second(rng: Random) -> dict[str, Kind]:
    """Longer ones of other rates, recorded after the forecast had its form."""
    began_s = time.monotonic()

    def at() -> float:
        return time.monotonic() - began_s

    return {
        "calm": (lambda _: 50, lambda _: 150, 5.0),
        "erratic": (lambda _: 50, lambda _: 160 * rng.gammavariate(1.0, 1.0), 5.0),
        "rests": (lambda _: 60, lambda _: 0 if at() % 41 < 9 else 220, 2.0),
        "tires": (lambda _: 40, lambda _: 220 * math.exp(-at() / 400), 5.0),
        "hastens": (lambda _: 60, lambda _: 130 * (1 + at() / 300), 2.0),
        "waves": (lambda _: 450 if at() % 31 < 6 else 0, lambda _: 190, 5.0),
        "ebbs": (lambda _: 120 * math.exp(-at() / 150), lambda _: 170, 2.0),
        "turns": (lambda _: 50, lambda _: 110 + 90 * math.sin(at() / 25), 5.0),
    }


def _third(rng: Random) -> dict[str, Kind]:
    """Of rates that no one chose."""
    began_s = time.monotonic()

    def at() -> float:
        return time.monotonic() - began_s

    def kind(shape: str) -> Kind:
        written, faster = rng.uniform(30, 120), rng.uniform(1.8, 4.0)
        period_s, part, long_s = rng.uniform(12, 60), rng.uniform(0.1, 0.3), rng.uniform(200, 600)

        def writes(_: int) -> float:
            bursts = shape == "gusts"
            return written * (0 if at() % period_s > part * period_s else 1 / part) ** bursts

        def reads(_: int) -> float:
            full = written * faster
            by_shape = {
                "naps": full * (at() % period_s > part * period_s),
                "fades": full * math.exp(-at() / long_s),
                "warms": full * (1 + at() / long_s),
                "jitters": full * rng.gammavariate(1.5, 1 / 1.5),
            }
            return by_shape.get(shape, full)

        return writes, reads, rng.choice((1.0, 2.0, 5.0))

    shapes = ("plain", "gusts", "naps", "fades", "warms", "jitters")
    return {f"{shape}_{number}": kind(shape) for shape in shapes for number in (1, 2)}


_SETS: Final = {
    "first": (_first, 170, 15_000),
    "second": (_second, 320, 25_000),
    "third": (_third, 320, 25_000),
}
"""Kinds, seconds, and messages at the begin."""


def main(folder: Path, chosen: str) -> None:
    """Record all kinds of a set at once."""
    kinds, seconds, backlog = _SETS[chosen]
    with EmbeddedKafka() as kafka:
        stop = threading.Event()
        threads = [
            threading.Thread(
                target=_record,
                args=(kafka, name, kind, folder / f"{name}.json", stop, seconds, backlog),
            )
            for name, kind in kinds(Random(5)).items()  # noqa: S311 no secret
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _record(  # noqa: PLR0917 arguments of a thread
    kafka: EmbeddedKafka,
    name: str,
    kind: Kind,
    file: Path,
    stop: threading.Event,
    seconds: float,
    backlog: int,
) -> None:
    written, speed, every_s = kind
    topic, group = create_topic(kafka, name), unique(name)
    produce(kafka, topic, backlog)
    worker = _Recorded(kafka=kafka, group=group, topics=[topic], speed=speed, every_s=every_s)
    looker = Consumer(kafka.admin_config() | {"group.id": unique("looker")})
    ends = []
    until_s = time.monotonic() + seconds
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
    file.write_text(json.dumps(trace, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

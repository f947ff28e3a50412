"""Faults of many kinds on a real broker: how often their cause is named right.

`CAUSES_FAULTS` (default 210) faults are injected, at most `CAUSES_AT_ONCE` (default 18) at a time;
the times of the rules are a fifteenth of the defaults. What was named goes to standard error.
`CAUSES_KINDS=all_slow,no_members` injects only these; `CAUSES_SEED` chooses other rates and times.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from random import Random
from typing import Final

from confluent_kafka import KafkaException

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.bench.faults.kinds import FAULTS, NOTHING, Scene
from tests.bench.faults.score import Outcome, figures, table
from tests.bench.figures import Figure
from tests.support.kafka import commit, create_topic, unique
from tests.support.watched import Watched, watching

_RULES: Final = "[evaluator]\nstop_after_s = 12\nstall_after_s = 20\n"
_CLUSTER: Final = {"log_end_interval_s": 1, "group_interval_s": 1, "topic_interval_s": 5}
_SETTLED_S, _LATE_S, _WELL_S = 10.0, 150.0, 60.0
"""After the first cause; after the fault at most; how long nothing is to be named."""


def run() -> Iterator[Figure]:
    number = int(os.environ.get("CAUSES_FAULTS", "210"))
    at_once = int(os.environ.get("CAUSES_AT_ONCE", "18"))
    first_seed = int(os.environ.get("CAUSES_SEED", "14"))
    chosen = os.environ.get("CAUSES_KINDS", ",".join(FAULTS)).split(",")
    kinds = list(islice(cycle(chosen), number))
    with EmbeddedKafka() as kafka:
        commit(kafka, unique("first"), create_topic(kafka, "first"), 0)
        with (
            watching(kafka, "offsets-topic", sections=_RULES, **_CLUSTER) as watched,
            ThreadPoolExecutor(at_once) as pool,
        ):
            watched.served.wait_ready()
            scenes = [
                Scene(kafka=kafka, watched=watched, rng=Random(seed))  # noqa: S311 no secret
                for seed, _ in enumerate(kinds, start=first_seed)
            ]
            work = [pool.submit(_injected, *each) for each in zip(kinds, scenes, strict=True)]
            outcomes = [outcome for each in work if (outcome := each.result()) is not None]
    for line in table(outcomes):
        print(line, file=sys.stderr)
    yield from figures(outcomes, number)


def _injected(kind: str, scene: Scene) -> Outcome | None:
    """One fault from its beginning to its end; None: its scene could not be set up."""
    try:
        with FAULTS[kind](scene) as group:
            outcome = _observed(kind, scene.watched, group)
    except (AssertionError, KafkaException, TimeoutError) as error:
        print(f"{kind}: not injected: {error}", file=sys.stderr)
        return None
    if not outcome.right or outcome.wrongly_certain:
        shown = scene.watched.group(group) or {}
        print(f"{outcome}\n  {shown.get('rule')}: {shown.get('cause')}", file=sys.stderr)
    return outcome


def _observed(kind: str, watched: Watched, group: str) -> Outcome:
    """Look every half second until the first cause has settled."""
    began_s, first_s, wrong = time.monotonic(), None, set[str]()
    named, pause = "none", threading.Event()
    until_s = began_s + (_WELL_S if kind == NOTHING else _LATE_S)
    while time.monotonic() < until_s:
        cause = (watched.group(group) or {}).get("cause") or {}
        name = cause.get("name")
        if cause.get("certainty") == "certain" and name != kind:
            wrong.add(str(name))
        if name is not None and first_s is None:
            first_s = time.monotonic()
            until_s = first_s + _SETTLED_S
        named = name or named
        pause.wait(0.5)
    if kind == NOTHING and first_s is None:
        named = NOTHING
    return Outcome(
        true=kind,
        named=named,
        wrongly_certain=frozenset(wrong),
        after_s=None if first_s is None else first_s - began_s,
    )

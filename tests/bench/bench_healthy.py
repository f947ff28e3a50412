"""Healthy groups beside starts, restarts, an outage and a frozen broker: is anything reported?

All options are the defaults, as shipped; something else takes all the time of one core that it can
get. `HEALTHY_TIMES` (default 10) fresh starts and as many restarts are watched for `HEALTHY_FOR_S`
(default 30) seconds each, in both modes at once. Then a broker is away for two minutes, and frozen
for one. At last the traffic ends, and all rows are compared with Kafka's own command.
"""

import contextlib
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.bench.figures import Figure
from tests.support.consumers import Actor, Properties, assigned, limited
from tests.support.healthy import Healthy, busy_machine
from tests.support.kafka import commit, create_topic, produce, unique
from tests.support.kafka_tools import consumer_groups
from tests.support.traffic import producer_of, running
from tests.support.waiting import eventually
from tests.support.watched import MODES, Watched, watching

_MORE: Final[Mapping[str, Properties]] = {
    "every-150-s": {"auto.commit.interval.ms": 150_000},
    "every-300-s": {"auto.commit.interval.ms": 300_000},
    "session-45-s": {"session.timeout.ms": 45_000},
}
_BACKLOG: Final = 100_000
_OUTAGE_S, _FROZEN_S, _AFTERWARDS_S = 120, 60, 90
_SETTLED_S: Final = 20

Row = tuple[str, str, int]
Numbers = tuple[int | None, int | None, int | None]
"""Committed offset, log end offset, lag."""


def run() -> Iterator[Figure]:
    times = int(os.environ.get("HEALTHY_TIMES", "10"))
    for_s = int(os.environ.get("HEALTHY_FOR_S", "30"))
    with EmbeddedKafka() as kafka, tempfile.TemporaryDirectory() as folder:
        commit(kafka, unique("first"), create_topic(kafka, "first"), 0)
        healthy = Healthy(kafka, _MORE)
        actors = [*healthy.actors, *_behind(healthy)]
        with contextlib.ExitStack() as traffic:
            traffic.enter_context(running(*actors))
            with busy_machine():
                found = [_once(healthy, for_s) for _ in range(times)]
                yield _figure("fresh_starts", found)
                kept = Path(folder)
                found = [_once(healthy, for_s, kept, kill=bool(n % 2)) for n in range(times + 1)]
                yield _figure("restarts", found)
            with _both(kafka, kept) as watches:
                _pass(for_s)
                kafka.kill_broker(0)
                _pass(_OUTAGE_S)
                kafka.start_broker(0)
                _pass(_AFTERWARDS_S)
                yield _figure("outage", [_reported(healthy, watches)])
            with _both(kafka, kept) as watches:
                _pass(for_s)
                _freeze(kafka)
                _pass(_AFTERWARDS_S)
                yield _figure("freeze", [_reported(healthy, watches)])
                traffic.close()
                _pass(_SETTLED_S)
                unequal, rows = _compared(kafka, healthy, watches)
        yield Figure(name="healthy_rows_compared", value=rows, unit="rows", target=rows)
        yield Figure(name="healthy_rows_unequal", value=unequal, unit="rows", target=0)


def _behind(healthy: Healthy) -> Iterator[Actor]:
    """A group that works off a backlog for the whole time, and one that commits on its own."""
    kafka = healthy.kafka
    topic, group = create_topic(kafka, "backlog"), unique("backlog")
    produce(kafka, topic, _BACKLOG)
    healthy.groups.append(group)
    yield producer_of(kafka, topic, rate=20)
    yield limited(kafka, group, topic, rate=lambda: 60)
    topic, group = create_topic(kafka, "simple"), unique("simple-100-s")
    healthy.groups.append(group)
    yield producer_of(kafka, topic, rate=20)
    yield assigned(kafka, group, topic, every_s=100)


@contextlib.contextmanager
def _both(kafka: EmbeddedKafka, kept: Path | None = None) -> Iterator[Sequence[Watched]]:
    """One service per way to read commits, ready; `kept`: where their state survives."""
    with contextlib.ExitStack() as stack:
        watches = []
        for mode in MODES:
            own = "" if kept is None else str(kept / mode)
            sections = (
                f'[checkpoint]\npath = "{own}"\n[alerts]\nfile = "{own}.sqlite"\n' if own else ""
            )
            watches.append(stack.enter_context(watching(kafka, mode, sections=sections)))
        for watched in watches:
            watched.served.wait_ready(120)
        yield watches


def _once(
    healthy: Healthy, for_s: int, kept: Path | None = None, *, kill: bool = False
) -> list[str]:
    with _both(healthy.kafka, kept) as watches:
        _pass(for_s)
        if kill:
            for watched in watches:
                watched.served.process.kill()
        return _reported(healthy, watches)


def _reported(healthy: Healthy, watches: Sequence[Watched]) -> list[str]:
    """What was sent or shown as an error of these groups."""
    found = []
    for watched in watches:
        # that of a cluster which cannot be reached names no group
        found += [f"{watched.mode}: notice {each}" for each in watched.notices if each[0]]
        found += [
            f"{watched.mode}: {group} {shown}"
            for group in healthy.groups
            for shown in sorted(watched.shown[group])
            if shown[0] == "ERR"
        ]
        seen = sum(group in watched.shown for group in healthy.groups)
        warned = sorted(
            f"{group} {rule}"
            for group in healthy.groups
            for _, worst, rule in watched.shown[group]
            if worst == "WARN"
        )
        print(f"{watched.mode}: {seen} of {len(healthy.groups)} groups, {warned}", file=sys.stderr)
    for line in found:
        print(line, file=sys.stderr)
    return found


def _figure(what: str, found: Sequence[Sequence[str]]) -> Figure:
    return Figure(
        name=f"healthy_{what}_reports", value=sum(map(len, found)), unit="reports", target=0
    )


def _freeze(kafka: EmbeddedKafka) -> None:
    (pid,) = kafka.pids
    os.kill(pid, signal.SIGSTOP)
    try:
        _pass(_FROZEN_S)
    finally:
        os.kill(pid, signal.SIGCONT)


def _pass(seconds: float) -> None:
    threading.Event().wait(seconds)


def _compared(
    kafka: EmbeddedKafka, healthy: Healthy, watches: Sequence[Watched]
) -> tuple[int, int]:
    """Rows that differ from Kafka's own command in either mode, and how many were compared."""
    kafkas = _kafkas_rows(consumer_groups(kafka.bootstrap_servers, "--describe", "--all-groups"))
    wanted = {row: said for row, said in kafkas.items() if row[0] in healthy.groups}
    unequal = 0
    for watched in watches:
        # admin mode has polled again, and log ends that rest are read seldom
        with contextlib.suppress(AssertionError):
            eventually(partial(_all_equal, watched, wanted), "equal rows", timeout_s=60)
        for row, said in wanted.items():
            if (shown := _row(watched, row)) != said:
                unequal += 1
                print(f"{watched.mode} {row}: {shown}, Kafka {said}", file=sys.stderr)
    return unequal, len(wanted) * len(watches)


def _all_equal(watched: Watched, wanted: Mapping[Row, Numbers]) -> bool:
    return all(_row(watched, row) == said for row, said in wanted.items())


def _row(watched: Watched, row: Row) -> Numbers:
    group, topic, partition = row
    for each in (watched.group(group) or {}).get("partitions", ()):
        if (each["topic"], each["partition"]) == (topic, partition):
            return each["committed"], watched.log_end(topic, partition), each["lag"]
    return None, None, None


def _kafkas_rows(printed: str) -> dict[Row, Numbers]:
    rows = {}
    for line in printed.splitlines():
        words = line.split()
        if len(words) > 5 and words[2].isdigit():
            numbers = [int(word) if word.isdigit() else None for word in words[3:6]]
            rows[words[0], words[1], int(words[2])] = numbers[0], numbers[1], numbers[2]
    return rows

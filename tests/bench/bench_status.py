"""`/status` of 1,000 groups x 100 partitions, one after the other, beside a constant route."""

import itertools
import socket
import sys
import time
from collections.abc import Iterator

import numpy as np

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.bench.commit_load import (
    OFFSETS_PARTITIONS,
    Load,
    fill,
    make_topics,
    write_commits,
)
from tests.bench.figures import Figure
from tests.bench.large_cluster import steady
from tests.support.served import Served, serving

LOAD = Load(groups=1000, topics=20, partitions=50, topics_per_group=2)
COMMITS_PER_S = 2000
SWEEPS = 10
MESSAGES = 200
"""In each partition; a row commits every 50 s, by one message more."""
KEEPS_UP_S = 12
"""Two rounds of log ends, and the sampling of groups."""


def run() -> Iterator[Figure]:
    with EmbeddedKafka(offsets_partitions=OFFSETS_PARTITIONS) as kafka:
        make_topics(kafka, LOAD)
        fill(kafka, LOAD, MESSAGES)
        write_commits(kafka, LOAD, sweeps=10)
        with (
            serving(kafka.bootstrap_servers) as served,
            steady(kafka, COMMITS_PER_S, __name__) as commits,
        ):
            served.wait_ready()
            _wait_for_commits(served)
            status_ms, constant_ms = _ask(served)
            _check_well(served)
            behind_s = _behind_s(served)
            assert commits.poll() is None, "the commits stopped"
    p50, constant_p50 = float(np.median(status_ms)), float(np.median(constant_ms))
    print(
        f"status p50 {p50:.3f} ms p99 {np.percentile(status_ms, 99):.3f} ms, "
        f"constant p50 {constant_p50:.3f} ms p99 {np.percentile(constant_ms, 99):.3f} ms",
        file=sys.stderr,
    )
    yield Figure(name="status_p50_to_constant", value=p50 / constant_p50, unit="x", target=1.5)
    yield Figure(name="status_commits_behind", value=behind_s, unit="s", target=KEEPS_UP_S)


def _check_well(served: Served) -> None:
    """An answer has all partitions that are in trouble: those of groups in trouble take longer."""
    bad = [group for group in served.groups()[::50] if served.known(group)["status"] == "ERR"]
    assert not bad, f"{bad} are in trouble"


def _ask(served: Served) -> tuple[list[float], list[float]]:
    groups = served.groups()
    assert len(groups) == LOAD.groups
    with socket.create_connection(("127.0.0.1", int(served.base.rsplit(":", 1)[1]))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        status_ms, constant_ms = [], []
        for group in itertools.chain.from_iterable([groups] * SWEEPS):
            status_ms.append(_one(connection, f"/v3/kafka/here/consumer/{group}/status"))
            constant_ms.append(_one(connection, "/burrow/admin"))
    return status_ms, constant_ms


def _one(connection: socket.socket, path: str) -> float:
    """Milliseconds from request to the last byte of the answer."""
    started_s = time.perf_counter()
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    received = connection.recv(65536)
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    while len(body) < size:
        body += connection.recv(65536)
    return (time.perf_counter() - started_s) * 1000


def _wait_for_commits(served: Served) -> None:
    deadline_s = time.monotonic() + 60
    while _behind_s(served) > KEEPS_UP_S:
        assert time.monotonic() < deadline_s, "no steady commits were seen"
        time.sleep(0.5)


def _behind_s(served: Served) -> float:
    """Age of the newest commit that lagwatch shows, out of a few groups: does it keep up?"""
    groups = served.groups()[:: LOAD.groups // 20]
    newest_ms = max(
        partition["end"]["timestamp"]
        for group in groups
        for partition in (served.status(group) or {})["partitions"]
    )
    return time.time() - newest_ms / 1000

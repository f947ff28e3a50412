"""A topic deleted and made again under its name: its groups are shown as Kafka itself shows them.

All intervals are the defaults: what is noticed late must not cost a group its row.
"""

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import pytest
from confluent_kafka.cimpl import NewTopic

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import commit, create_topic, produce, unique
from tests.support.waiting import eventually
from tests.support.watched import MODES, Oracle, Watched, watching

pytestmark = pytest.mark.minutes

_COMMITTED: Final = 50
_SOON_S: Final = 20.0
"""A topic is looked for as soon as a commit names it; the rest is room for a busy machine."""
_STAYS_S: Final = 75.0
"""Longer than the topics' interval, and than an absent topic is remembered."""

_CASES: Final = {
    f"{offset} committed again, {'at once' if not after_s else f'{after_s} s later'}": (
        offset,
        after_s,
    )
    for offset in (_COMMITTED, 5)
    for after_s in (0, 5, 10, 70)
}


def _recreated(kafka: EmbeddedKafka, watches: list[Watched], offset: int, after_s: float) -> None:
    oracle = Oracle(kafka)
    topic, group = create_topic(kafka, "again"), unique("again")
    produce(kafka, topic, 100)
    commit(kafka, group, topic, _COMMITTED)
    for watched in watches:
        _wait(watched, group, topic, (_COMMITTED, 50), 60.0)

    oracle.admin.delete_topics([topic])[topic].result(30)
    threading.Event().wait(2)  # the case itself
    _create_again(oracle, topic)
    produce(kafka, topic, 100)
    threading.Event().wait(after_s)
    commit(kafka, group, topic, offset)

    assert oracle.committed(group) == {(topic, 0): offset}
    began_s = time.monotonic()
    right = (offset, 100 - offset)
    for watched in watches:
        _wait(watched, group, topic, right, _SOON_S)
    while (passed_s := time.monotonic() - began_s) < _STAYS_S:
        # the old topic's numbers may be the same: a broker may still refuse the new log's end
        allowed = (right, (offset, None)) if passed_s < _SOON_S else (right,)
        for watched in watches:
            assert _shown(watched, group, topic) in allowed, watched.mode
        threading.Event().wait(1)
    for watched in watches:
        assert "ERR" not in watched.statuses(group), watched.shown[group]


def _wait(
    watched: Watched, group: str, topic: str, wanted: tuple[int, int], timeout_s: float
) -> None:
    eventually(
        lambda: _shown(watched, group, topic) == wanted,
        f"{watched.mode} shows {wanted} of {group}, not {_shown(watched, group, topic)}",
        timeout_s=timeout_s,
    )


def _shown(watched: Watched, group: str, topic: str) -> tuple[int, int | None] | None:
    row = watched.partition(group, topic)
    return None if row is None else (row["end"]["offset"], row["current_lag"])


def _create_again(oracle: Oracle, topic: str) -> None:
    def created() -> bool:
        asked = oracle.admin.create_topics([NewTopic(topic, 1, 1)])
        return asked[topic].exception(30) is None

    eventually(created, "the topic is made again")


@pytest.fixture(scope="module")
def outcomes(own_kafka: EmbeddedKafka) -> Iterator[Mapping[str, "Future[None]"]]:
    """All cases under way."""
    commit(own_kafka, unique("first"), create_topic(own_kafka, "first"), 0)
    with contextlib.ExitStack() as stack:
        watches = [
            stack.enter_context(watching(own_kafka, mode, **_INTERVALS[mode])) for mode in MODES
        ]
        for watched in watches:
            watched.served.wait_ready()
        pool = stack.enter_context(ThreadPoolExecutor(len(_CASES)))
        yield {
            name: pool.submit(_recreated, own_kafka, watches, *case)
            for name, case in _CASES.items()
        }


_INTERVALS: Final[Mapping[str, Mapping[str, Any]]] = {
    "offsets-topic": {},
    "admin": {"committed_interval_s": 5},
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", _CASES)
def test_the_group_is_shown_as_kafka_shows_it(
    outcomes: Mapping[str, "Future[None]"], case: str
) -> None:
    outcomes[case].result()

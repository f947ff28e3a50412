"""When records were appended, read back from every store."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lagwatch.core.stored_search import Enclosed
from lagwatch.history.append_times import enclosed
from lagwatch.history.drivers.registry import open_store
from lagwatch.ports.history import AppendQuestion, HistoryStore
from tests.support.history import NOON_MS, sample, samples
from tests.support.stores import KINDS_OF_STORES, history_of

pytestmark = pytest.mark.slow  # writes real stores

MINUTE_MS = 60_000
ID = sample()["topic_id"]


@pytest.fixture(params=KINDS_OF_STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HistoryStore]:
    """Five hours of samples: 10 messages a minute; the log end was read 700 ms after the minute."""
    made = open_store(history_of(request.param, request, tmp_path))
    rows = [
        sample(
            partition=partition,
            group=group,
            at_ms=NOON_MS - minute * MINUTE_MS,
            log_end_ms=NOON_MS - minute * MINUTE_MS + 700,
            log_end_offset=(300 - minute) * 10,
        )
        for minute in range(300)
        for group in ("billing", "audit")
        for partition in range(2)
    ]
    made.write([samples(rows)], batch="b1")
    yield made
    made.close()


def _asked(
    store: HistoryStore, *offsets: int, topic_id: str = ID, groups: int = 1, within_s: float = 0.0
) -> Enclosed:
    question = AppendQuestion(
        cluster="here",
        groups=frozenset(["billing", *(f"g{number}" for number in range(groups - 1))]),
        topics=("orders",),
        topic_ids=(topic_id,),
        topic=np.zeros(len(offsets), np.int64),
        partition=np.array([1, 0, 1, 0][: len(offsets)], np.int64),
        offset=np.array(offsets, np.int64),
    )
    now_ms = NOON_MS + 10 * MINUTE_MS
    return enclosed(store, question, now_ms=now_ms, monotonic_s=lambda: within_s)


@pytest.mark.parametrize("groups", [1, 100])
def test_offsets_of_any_age_are_enclosed_by_two_samples(store: HistoryStore, groups: int) -> None:
    found = _asked(store, 2995, 1004, 9, 15, groups=groups)

    # offset 2995 came in the minute before noon; log ends are 3,000, 1,010 and 20 at its end
    minutes = np.array([0, 199, 299, 298])
    assert found.high_ms[:2].tolist() == (NOON_MS - minutes[:2] * MINUTE_MS + 700).tolist()
    assert found.low_ms[:2].tolist() == (NOON_MS - (minutes[:2] + 1) * MINUTE_MS + 700).tolist()
    assert found.low_ms[2] == -1, "older than the first sample"
    assert found.high_ms[2:].tolist() == (NOON_MS - minutes[2:] * MINUTE_MS + 700).tolist()


def test_samples_of_a_topic_that_was_made_anew_say_nothing(store: HistoryStore) -> None:
    found = _asked(store, 1500, topic_id="another")

    assert (found.low_ms.tolist(), found.high_ms.tolist()) == ([-1], [-1])


def test_samples_that_do_not_say_when_their_log_end_was_read_do_not_count(
    store: HistoryStore,
) -> None:
    late = {"at_ms": NOON_MS + MINUTE_MS, "log_end_offset": 3500, "partition": 1}
    store.write(
        [samples([sample(**late, log_end_ms=None), sample(**late, group="x", source="backfill")])],
        batch="b2",
    )

    found = _asked(store, 3200, groups=100)

    assert (found.low_ms.tolist(), found.high_ms.tolist()) == ([NOON_MS + 700], [-1])


def test_an_empty_store_knows_nothing(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    empty = open_store(history_of("parquet", request, tmp_path / "empty"))

    found = _asked(empty, 1500)

    assert (found.low_ms.tolist(), found.high_ms.tolist()) == ([-1], [-1])

"""Copies between stores of any two kinds: complete, once, and going on where they ended."""

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from lagwatch.config.elasticsearch import ElasticsearchSettings
from lagwatch.core.record import KINDS, Kind, from_rows
from lagwatch.errors import HistoryError
from lagwatch.history.elastic import ElasticStore, RejectedRows
from lagwatch.history.layout import Slot
from lagwatch.history.parquet import ParquetStore
from lagwatch.history.transfer import Choice, Done, copy
from lagwatch.ports.history import HistoryStore
from tests.support.history import (
    NOON_MS,
    events,
    group_sample,
    group_samples,
    happening,
    held,
    rollup,
    sample,
    samples,
)

pytestmark = pytest.mark.slow  # writes real stores

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
NewStore = Callable[[str], HistoryStore]


@pytest.fixture
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> NewStore:
    """Makes an empty store of a kind."""

    def make(kind: str) -> HistoryStore:
        if kind == "parquet":
            return ParquetStore(str(tmp_path / uuid4().hex))
        server = request.getfixturevalue("elasticsearch")
        settings = ElasticsearchSettings(urls=(server.url,), prefix=f"test-{uuid4().hex[:12]}")
        return ElasticStore(settings, RejectedRows(tmp_path))

    return make


def fill(store: HistoryStore) -> None:
    """Some of everything, over two days and two clusters."""
    instants = [NOON_MS + hour * HOUR_MS for hour in range(0, 30, 5)]
    store.write(
        [
            samples(
                [
                    sample(cluster=cluster, at_ms=at_ms, partition=number, owner=None)
                    for cluster in ("c1", "c2")
                    for at_ms in instants
                    for number in range(4)
                ]
            ),
            group_samples([group_sample(cluster="c1", at_ms=at_ms) for at_ms in instants]),
            events([happening(cluster="c1", topic=None, partition=None, event="rebalance")]),
            from_rows(Kind.ROLLUP_1H, [rollup(Kind.ROLLUP_1H, cluster="c1", lag_sketch=b"\0\1")]),
        ],
        batch="b1",
    )


@pytest.mark.parametrize(
    ("source", "target"),
    [("parquet", "parquet"), ("parquet", "elasticsearch"), ("elasticsearch", "parquet")],
)
def test_a_copy_holds_the_same_records(new_store: NewStore, source: str, target: str) -> None:
    there, here = new_store(source), new_store(target)
    fill(there)
    steps: list[tuple[int, int]] = []

    rows = copy(there, here, Choice(), progress=lambda done, total: steps.append((done, total)))

    for kind in KINDS:
        assert held(here, kind) == held(there, kind), kind
    assert rows == 2 * 6 * 4 + 6 + 1 + 1
    assert steps[-1] == (rows, rows)
    assert here.verify().duplicates == 0


@pytest.mark.parametrize("target", ["parquet", "elasticsearch"])
def test_copying_again_changes_nothing(new_store: NewStore, target: str) -> None:
    there, here = new_store("parquet"), new_store(target)
    fill(there)

    for _ in range(2):
        copy(there, here, Choice())

    assert held(here) == held(there)
    assert here.verify().duplicates == 0


def test_only_what_is_chosen_is_copied(new_store: NewStore) -> None:
    there, here = new_store("parquet"), new_store("parquet")
    fill(there)
    choice = Choice(
        kinds=(Kind.SAMPLES,),
        clusters=("c2",),
        from_ms=NOON_MS + 1,
        to_ms=NOON_MS + DAY_MS,
    )

    copy(there, here, choice)

    found = held(here)
    assert {row["cluster"] for row in found} == {"c2"}
    assert {row["at_ms"] for row in found} == {NOON_MS + hour * HOUR_MS for hour in (5, 10, 15, 20)}
    assert held(here, Kind.EVENTS) == []


class FailingStore(ParquetStore):
    """A store that goes away after some batches."""

    left = 3

    def write(self, records, *, batch) -> None:
        if self.left == 0:
            raise HistoryError(store="x", kind="connection", message="away", retryable=True)
        self.left -= 1
        super().write(records, batch=batch)


def test_a_copy_goes_on_where_it_ended(tmp_path: Path, new_store: NewStore) -> None:
    there = new_store("parquet")
    fill(there)
    here = FailingStore(str(tmp_path / "target"))
    state = tmp_path / "state" / "copy.jsonl"
    with pytest.raises(HistoryError):
        copy(there, here, Choice(), done=Done(state))
    here.left = 1000

    copied = copy(there, here, Choice(), done=Done(state))

    assert 1000 - here.left == _slots(there) - 3
    assert copied == 2 * 6 * 4 + 6 + 1 + 1
    assert held(here) == held(there)
    assert not state.exists()


def test_a_line_of_the_state_that_was_cut_off_is_copied_again(tmp_path: Path) -> None:
    file = tmp_path / "copy.jsonl"
    slot = Slot.at(Kind.SAMPLES, "here", NOON_MS)
    Done(file).add(slot, 7)
    with file.open("a") as out:
        out.write('["samples/cluster=he')

    done = Done(file)

    assert done.rows(slot) == 7
    assert done.rows(Slot.at(Kind.SAMPLES, "here", NOON_MS + HOUR_MS)) is None


def _slots(store: HistoryStore) -> int:
    """Hours and days of which there is anything."""
    assert isinstance(store, ParquetStore)
    return sum(
        len(store.stored_slots(kind, cluster)) for kind in KINDS for cluster in store.clusters()
    )

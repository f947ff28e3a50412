"""Causes and forecasts in the history: of which groups, in which rows, and when not known."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.config.history import HistorySettings
from lagwatch.core.forecast import CatchUpReason
from lagwatch.core.record import Kind, Records, schema
from lagwatch.history.drivers.registry import open_store
from lagwatch.history.insights import LossReason, loss_reason
from lagwatch.history.recorder import Recorder, RecorderSettings
from lagwatch.history.spool import Spool
from lagwatch.metrics.explained import explained
from lagwatch.query import SnapshotQueries
from tests.support.history import (
    Live,
    SetClock,
    events,
    group_sample,
    group_samples,
    happening,
    held,
)

pytestmark = pytest.mark.slow

FOUND = ("cause", "cause_certainty", "catch_up_s", "catch_up_reason", "loss_in_s", "loss_reason")


class Kept(Spool):
    """A real spool that also remembers every row."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, max_bytes=100_000_000, spool_id="test")
        self.records: list[Records] = []

    def append(self, records, *, series="") -> int:
        records = list(records)
        self.records += records
        return super().append(records, series=series)

    def rows(self, kind: Kind) -> Iterator[dict]:
        return (row for part in self.records if part.kind is kind for row in part.rows())


@pytest.fixture
def live() -> Live:
    """`quiet` holds its topic and stops to commit; `fine` reads all."""
    live = Live()
    live.topics(orders=1, other=1)
    live.assign("quiet", ("orders", 0))
    live.assign("fine", ("other", 0))
    return live


def recording(live: Live, folder: Path) -> tuple[Recorder, Kept]:
    spool = Kept(folder / "spool")
    queries = SnapshotQueries({"here": live.monitor}, health=lambda: ())
    recorder = Recorder(
        spool,
        RecorderSettings(interval_ms=30_000, full_every=1),
        SetClock(),
        appended=lambda: None,
        explain=partial(explained, queries),
    )
    return recorder, spool


def run(live: Live, recorder: Recorder, *, seconds: int, quiet_after: int) -> None:
    """Commits every 10 s; `quiet` ends after a while, its producers go on."""
    for second in range(0, seconds, 10):
        live.wait(10)
        live.produce("orders", 0, 100)
        live.produce("other", 0, 100)
        live.commit(("fine", "other", 0, live.ends["other", 0]))
        if second < quiet_after:
            live.commit(("quiet", "orders", 0, live.ends["orders", 0] - 20))
        live.wait(0.001)
        live.shown_to(recorder)


def test_samples_of_a_group_in_trouble_have_its_cause_and_forecast(live, tmp_path) -> None:
    recorder, spool = recording(live, tmp_path)

    run(live, recorder, seconds=1500, quiet_after=300)

    rows = [row for row in spool.rows(Kind.GROUP_SAMPLES) if row["group"] == "quiet"]
    bad = [row for row in rows if row["status"] in {"WARN", "ERR"}]
    assert bad[-1]["cause"] == "not_committing"
    assert bad[-1]["cause_certainty"] == "likely"
    assert (bad[-1]["catch_up_s"], bad[-1]["catch_up_reason"]) == (None, "not_moving")
    assert (bad[-1]["loss_in_s"], bad[-1]["loss_reason"]) == (None, "nothing_deleted")
    assert {row["reason"] for row in bad} == {"interval", "change"}
    assert all(row["cause_certainty"] and row["catch_up_reason"] for row in bad)


def test_samples_of_groups_that_are_ok_have_none(live, tmp_path) -> None:
    recorder, spool = recording(live, tmp_path)

    run(live, recorder, seconds=1500, quiet_after=300)

    fine = [row for row in spool.rows(Kind.GROUP_SAMPLES) if row["status"] == "OK"]
    assert {row["group"] for row in fine} == {"fine", "quiet"}
    assert all(row[name] is None for row in fine for name in FOUND)


def test_the_event_of_a_change_names_the_cause_in_a_sentence(live, tmp_path) -> None:
    recorder, spool = recording(live, tmp_path)

    run(live, recorder, seconds=1500, quiet_after=300)

    changes = [row for row in spool.rows(Kind.EVENTS) if row["event"] == "group_status"]
    worse = [row for row in changes if row["after"] == "ERR"]
    assert [(row["group"], row["cause"]) for row in worse] == [("quiet", "not_committing")]
    assert "holds the partition and has not committed for" in worse[0]["detail"]


def test_a_group_in_trouble_that_rests_is_explained_once_for_as_long_as_its_rows_stay(
    live, tmp_path
) -> None:
    asked: list[set[str]] = []
    queries = SnapshotQueries({"here": live.monitor}, health=lambda: ())

    def explain(snapshot, only, known):
        asked.append(set(known))
        return explained(queries, snapshot, only, known)

    spool = Kept(tmp_path / "spool")
    recorder = Recorder(
        spool,
        RecorderSettings(interval_ms=30_000, full_every=4),
        SetClock(),
        appended=lambda: None,
        explain=explain,
    )
    run(live, recorder, seconds=1500, quiet_after=300)
    live.wait(30)
    live.shown_to(recorder)
    spool.records.clear()
    asked.clear()

    for _ in range(12):
        live.wait(30)
        live.shown_to(recorder)

    bad = [row for row in spool.rows(Kind.GROUP_SAMPLES) if row["group"] == "quiet"]
    assert len(bad) == 12
    assert {row["cause"] for row in bad} == {"not_committing"}
    assert sorted(map(len, asked)) == 3 * [0] + 9 * [1]


def test_groups_that_rest_in_trouble_are_not_all_explained_in_one_round(tmp_path) -> None:
    live = Live()
    names = [f"quiet-{number}" for number in range(24)]
    live.topics(orders=24)
    for partition, name in enumerate(names):
        live.assign(name, ("orders", partition))
    queries = SnapshotQueries({"here": live.monitor}, health=lambda: ())
    anew: list[int] = []

    def explain(snapshot, only, known):
        found = list(explained(queries, snapshot, only, known))
        anew.append(len(found))
        return found

    recorder = Recorder(
        Kept(tmp_path / "spool"),
        RecorderSettings(interval_ms=30_000, full_every=6),
        SetClock(),
        appended=lambda: None,
        explain=explain,
    )
    for second in range(0, 1500, 10):
        live.wait(10)
        for partition, name in enumerate(names):
            live.produce("orders", partition, 100)
            if second < 300:
                live.commit((name, "orders", partition, live.ends["orders", partition] - 20))
        live.wait(0.001)
        live.shown_to(recorder)
    for _ in range(6):
        live.wait(30)
        live.shown_to(recorder)
    anew.clear()

    for _ in range(12):
        live.wait(30)
        live.shown_to(recorder)

    assert sum(anew) == 2 * len(names)
    assert max(anew) <= len(names) // 2


def test_a_change_between_rounds_looks_only_at_groups_that_changed(live, tmp_path) -> None:
    asked: list[object] = []
    spool = Kept(tmp_path / "spool")

    def explain(_snapshot, only, _known):
        asked.append(only)
        return ()

    recorder = Recorder(
        spool,
        RecorderSettings(interval_ms=30_000, full_every=1),
        SetClock(),
        appended=lambda: None,
        explain=explain,
    )
    run(live, recorder, seconds=1500, quiet_after=300)

    between = [only for only in asked if only is not None]
    assert set(between) == {frozenset({"quiet"})}


def test_records_of_earlier_releases_are_read_with_causes_unknown(tmp_path) -> None:
    store = open_store(HistorySettings(url=str(tmp_path / "store"), spool=tmp_path / "spool"))
    store.write([group_samples([group_sample(status="ERR")]), events([happening()])], batch="one")
    for file in (tmp_path / "store").rglob("*.parquet"):
        table = pq.ParquetFile(file).read()
        older = table.drop_columns([name for name in FOUND if name in table.column_names])
        pq.write_table(older, file)

    for kind in (Kind.GROUP_SAMPLES, Kind.EVENTS):
        (row,) = held(store, kind)
        assert set(row) == set(schema(kind))
        assert all(row.get(name) is None for name in FOUND)


PARTITIONS = st.lists(st.tuples(st.sampled_from(CatchUpReason), st.integers(-1, 3)), max_size=5)


@given(PARTITIONS)
def test_without_a_time_until_loss_the_reason_is_the_one_that_says_least(partitions) -> None:
    reason = loss_reason(None, partitions)

    behind = [each for each in partitions if each[0] is not CatchUpReason.CAUGHT_UP]
    unknown = any(each[0] is CatchUpReason.LAG_UNKNOWN for each in behind)
    assert reason is not LossReason.NEARING
    assert (reason is LossReason.LAG_UNKNOWN) == (unknown or not partitions)
    if reason is LossReason.NOTHING_DELETED:
        assert {start for _, start in behind} == {0}


def test_a_known_time_until_loss_is_nearing_whatever_is_unknown() -> None:
    assert loss_reason(5.0, [(CatchUpReason.LAG_UNKNOWN, -1)]) is LossReason.NEARING

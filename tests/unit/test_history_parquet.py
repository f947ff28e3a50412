"""The Parquet store: files others can read, nothing torn, compaction that loses nothing."""

import os
from collections import Counter
from contextlib import suppress
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagwatch.core.record import Kind, concat, schema
from lagwatch.errors import HistoryError
from lagwatch.history.compact import compact, compact_slot
from lagwatch.history.folder import LocalFolder
from lagwatch.history.layout import Slot, day_of, slot_of
from lagwatch.history.parquet import ParquetStore
from lagwatch.history.rows import key_hashes, sort_unique
from lagwatch.ports.history import HistoryRange, always
from tests.support.history import (
    EVER,
    NOON_MS,
    group_sample,
    group_samples,
    held,
    plain,
    sample,
    samples,
)

pytestmark = pytest.mark.slow  # writes real files

HOUR_MS = 3_600_000
FILE = "samples/cluster=here/day=2026-11-21/hour=12/part-b1.parquet"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(folder: Path) -> ParquetStore:
    return ParquetStore(str(folder))


def test_files_lie_by_kind_cluster_day_and_hour(store: ParquetStore, folder: Path) -> None:
    store.write([samples([sample()])], batch="b1")

    assert [str(file.relative_to(folder)) for file in folder.rglob("*.*")] == [FILE]


def test_duckdb_reads_it_as_it_lies(store: ParquetStore, folder: Path) -> None:
    rows = [sample(group=group, lag=lag) for group, lag in (("a", 3), ("b", None))]
    store.write([samples(rows)], batch="b1")

    relation = duckdb.read_parquet(f"{folder}/samples/**/*.parquet", hive_partitioning=True)
    found = relation.order('"group"').select('cluster, day::text, "group", lag, status').fetchall()

    assert found == [
        ("here", "2026-11-21", "a", 3, "OK"),
        ("here", "2026-11-21", "b", None, "OK"),
    ]


def test_pandas_reads_it_as_it_lies(store: ParquetStore, folder: Path) -> None:
    store.write([samples([sample(lag=3), sample(partition=1, at_ms=NOON_MS + HOUR_MS)])], batch="b")

    frame = pd.read_parquet(folder / "samples")

    assert set(schema(Kind.SAMPLES)) <= set(frame.columns)
    assert frame["cluster"].astype(str).tolist() == ["here", "here"]
    assert sorted(frame["lag"]) == [3, 10]
    assert sorted(frame["hour"].astype(int)) == [12, 13]


def test_arrow_sees_plain_types(store: ParquetStore, folder: Path) -> None:
    store.write([samples([sample()])], batch="b1")

    types = {field.name: field.type for field in pq.read_schema(folder / FILE)}

    assert types["group"] == pa.string()
    assert types["at_ms"] == pa.int64()
    assert types["time_lag_s"] == pa.float64()


def test_a_file_that_is_not_published_is_not_seen(store: ParquetStore, folder: Path) -> None:
    store.write([samples([sample()])], batch="b1")
    whole = (folder / FILE).read_bytes()
    (folder / FILE).with_name(".part-b2.parquet.1234.tmp").write_bytes(whole[: len(whole) // 2])

    assert len(held(store)) == 1
    assert store.verify().sound
    assert len(store.verify().leftovers) == 1
    assert len(duckdb.read_parquet(f"{folder}/samples/**/*.parquet")) == 1
    assert len(pd.read_parquet(folder / "samples")) == 1


@pytest.mark.parametrize("damage", ["cut", "empty", "flip", "text"])
def test_a_torn_file_is_named_by_verify_and_passed_over_by_readers(
    store: ParquetStore, folder: Path, damage: str
) -> None:
    store.write([samples([sample(partition=partition) for partition in range(999)])], batch="b1")
    store.write([samples([sample(at_ms=NOON_MS + 1)])], batch="b2")
    data = (folder / FILE).read_bytes()
    changed = {
        "cut": data[:-20],
        "empty": b"",
        "flip": data[:300] + bytes([data[300] ^ 0xFF]) + data[301:],
        "text": b"not a file of ours",
    }
    (folder / FILE).write_bytes(changed[damage])
    again = ParquetStore(str(folder))

    found = again.verify()

    assert len(found.torn) == 1
    assert "part-b1" in found.torn[0]
    assert not found.sound
    assert len(held(again, from_ms=NOON_MS + 1)) == 1


def test_the_whole_hour_of_a_file_that_cannot_be_read_is_damaged(
    store: ParquetStore, folder: Path
) -> None:
    store.write([samples([sample(at_ms=NOON_MS + 600_000)])], batch="b1")
    (folder / FILE).write_bytes(b"rubbish")
    held(store)

    found = {cluster: list(store.damaged(Kind.SAMPLES, cluster)) for cluster in ("here", "there")}

    assert found == {"here": [(NOON_MS, NOON_MS + 3_600_000)], "there": []}
    assert list(store.damaged(Kind.EVENTS, "here")) == []


def test_rows_that_rounds_say_were_written_are_missed(store: ParquetStore, folder: Path) -> None:
    def written(hour: int, cluster: str = "here") -> None:
        at_ms, of = NOON_MS + hour * HOUR_MS, {"cluster": cluster}
        rows = [sample(at_ms=at_ms, partition=number, **of) for number in range(3)]
        change = group_sample(at_ms=at_ms + 1, reason="change", observed=9, **of)
        round_ = group_sample(at_ms=at_ms, observed=5, unchanged=2, **of)
        store.write([samples(rows), group_samples([round_, change])], batch=f"b{hour}")

    for hour in (-24, *range(4)):
        written(hour)
    written(2, "there")
    whole = store.verify()
    of_partitions, of_groups = "samples/cluster", "group_samples/cluster"
    for path in (
        f"{of_partitions}=here/day=2026-11-20/hour=12",
        f"{of_partitions}=here/day=2026-11-21/hour=12",
        f"{of_partitions}=here/*/hour=14",
        f"{of_partitions}=there/*/hour=14",
        f"{of_groups}=here/*/hour=15",
    ):
        [gone] = folder.glob(f"{path}/*.parquet")
        gone.unlink()

    found = store.verify()

    assert (whole.missing, whole.sound) == ((), True)
    # the day before is before the first samples there are, as if retention had deleted them
    assert found.missing == (
        "here: 2026-11-21T15:00Z: those of groups at 1 instant",
        "here: 2026-11-21T12:00Z: 3 of 3 of partitions",
        "here: 2026-11-21T14:00Z: 3 of 3 of partitions",
        "there: 2026-11-21T14:00Z: 3 of 3 of partitions",
    )
    assert not found.sound


@pytest.mark.parametrize("mend", ["removed", "brought back"])
def test_a_file_that_was_mended_is_named_no_longer(
    store: ParquetStore, folder: Path, mend: str
) -> None:
    store.write([samples([sample()])], batch="b1")
    store.write([samples([sample(group="other")])], batch="b2")
    file = folder / FILE
    whole = file.read_bytes()
    for name in (FILE, FILE.replace("b1", "b2")):
        (folder / name).write_bytes(b"rubbish")
    again = ParquetStore(str(folder))
    held(again)
    again.tidy(NOON_MS)
    named = len(again.set_aside)

    file.unlink()
    if mend == "brought back":
        file.write_bytes(whole)
    again.tidy(NOON_MS)

    assert named == 2
    assert [("part-b1" in each, "part-b2" in each) for each in again.set_aside] == [(False, True)]


def test_a_file_with_a_torn_page_is_left_alone_by_compaction_and_the_others_are_merged(
    store: ParquetStore, folder: Path
) -> None:
    for number in range(3):
        store.write([samples([sample(at_ms=NOON_MS + number)])], batch=f"b{number + 1}")
    data = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(data[:40] + bytes(40) + data[80:])  # its footer is whole
    again = ParquetStore(str(folder))

    done = again.compact()

    assert (done.merged, done.written, done.rows) == (2, 1, 2)
    assert len(list(folder.rglob("*.parquet"))) == 2
    assert [row["at_ms"] for row in held(again)] == [NOON_MS + 1, NOON_MS + 2]
    assert "part-b1" in again.set_aside[0]


def test_a_foreign_file_is_named_and_passed_over(store: ParquetStore, folder: Path) -> None:
    store.write([samples([sample()])], batch="b1")
    pq.write_table(pa.table({"x": [1]}), (folder / FILE).with_name("other.parquet"))
    (folder / "README.txt").write_text("mine")

    found = store.verify()

    assert len(held(store)) == 1
    assert len(found.foreign) == 2
    assert any("lacks the columns" in line for line in found.foreign)


def test_a_later_schema_is_refused_with_the_remedy(store: ParquetStore, folder: Path) -> None:
    store.write([samples([sample()])], batch="b1")
    table = pq.ParquetFile(folder / FILE).read()
    later = table.replace_schema_metadata(
        {"lagwatch.kind": "samples", "lagwatch.schema_version": "99"}
    )
    pq.write_table(later, folder / FILE)

    found = ParquetStore(str(folder)).verify()

    assert "schema version 99" in found.foreign[0]
    assert "later" in found.foreign[0]


def test_files_that_others_wrote_with_our_columns_are_read(
    store: ParquetStore, folder: Path
) -> None:
    store.write([samples([sample(partition=number) for number in range(4)])], batch="b1")
    table = pq.ParquetFile(folder / FILE).read().replace_schema_metadata(None)
    pq.write_table(
        pa.concat_tables([table, table]), (folder / FILE).with_name("part-0-spark.parquet")
    )
    (folder / FILE).unlink()

    assert len(held(store)) == 4


def test_an_older_file_without_a_new_column_reads_as_unknown(
    store: ParquetStore, folder: Path
) -> None:
    store.write([samples([sample()])], batch="b1")
    table = pq.ParquetFile(folder / FILE).read()
    pq.write_table(table.drop_columns(["method", "time_lag_s"]), folder / FILE)

    [row] = held(ParquetStore(str(folder)))

    assert (row["method"], row["time_lag_s"], row["lag"]) == (None, None, 10)


def test_reading_one_group_reads_few_rows(store: ParquetStore) -> None:
    rows = concat(
        [
            samples([sample(group=f"g{group:04}", partition=partition) for partition in range(10)])
            for group in range(9000)
        ]
    )
    store.write([rows], batch="b1")
    [footer] = store.footers(Slot.at(Kind.SAMPLES, "here", NOON_MS))

    wanted = HistoryRange(kind=Kind.SAMPLES, group="g4000", **EVER)

    assert len(footer.groups) == 3
    assert len(footer.wanted_groups(wanted, None, None)) == 1
    assert len(held(store, group="g4000")) == 10


# compaction


def test_small_files_become_one_with_the_same_rows(store: ParquetStore, folder: Path) -> None:
    for number in range(20):
        store.write([samples([sample(at_ms=NOON_MS + number * 30_000)])], batch=f"b{number:02}")
    before = held(store)

    done = compact(store, before_ms=NOON_MS + HOUR_MS)

    assert (done.merged, done.written) == (20, 1)
    assert held(store) == before
    assert len(list(folder.rglob("*.parquet"))) == 1
    assert store.verify().duplicates == 0


def test_an_hour_that_goes_on_is_left_alone(store: ParquetStore) -> None:
    for number in range(3):
        store.write([samples([sample(at_ms=NOON_MS + number)])], batch=f"b{number}")

    assert compact(store, before_ms=NOON_MS + HOUR_MS - 1).merged == 0


def test_a_record_twice_in_one_file_is_a_fault(store: ParquetStore, folder: Path) -> None:
    store.write([samples([sample(partition=partition) for partition in range(3)])], batch="b1")
    [file] = folder.rglob("*.parquet")
    rows = pq.read_table(file)
    twice = pa.concat_tables([rows, rows.slice(0, 1)]).replace_schema_metadata(rows.schema.metadata)
    pq.write_table(twice, file)

    found = store.verify()

    assert (found.duplicates, found.repeated, found.sound) == (1, 1, False)


def test_doubled_records_become_one(store: ParquetStore) -> None:
    for batch in ("b1", "b2"):
        store.write([samples([sample(partition=partition) for partition in range(5)])], batch=batch)
    doubled = store.verify()
    assert (doubled.duplicates, doubled.sound) == (5, True)

    compact(store, before_ms=NOON_MS + HOUR_MS)

    assert store.verify().duplicates == 0
    assert len(held(store)) == 5


class KilledError(Exception):
    """As SIGKILL: nothing is cleaned up."""


class Mortal(LocalFolder):
    """A folder that is killed at the n-th change."""

    def __init__(self, root: Path, changes: int) -> None:
        super().__init__(root)
        self.left = changes

    def _count(self) -> None:
        if self.left == 0:
            raise KilledError
        self.left -= 1

    def publish(self, path, data, *, allowed=always) -> None:
        self._count()
        super().publish(path, data, allowed=allowed)

    def delete(self, path) -> None:
        self._count()
        super().delete(path)


@pytest.mark.parametrize("changes", range(6))
def test_a_compaction_killed_at_any_moment_loses_and_doubles_nothing(
    store: ParquetStore, folder: Path, changes: int
) -> None:
    slot = Slot.at(Kind.SAMPLES, "here", NOON_MS)
    for number in range(4):
        store.write([samples([sample(at_ms=NOON_MS + number)])], batch=f"b{number}")
    before = held(store)
    mortal = ParquetStore(str(folder))
    mortal.folder = Mortal(folder, changes)

    with suppress(KilledError):
        compact_slot(mortal, slot)

    again = ParquetStore(str(folder))
    assert held(again) == before
    assert again.verify().duplicates == 0
    compact_slot(again, slot)
    assert held(again) == before
    assert len(list(folder.rglob("*.parquet"))) == 1


def test_a_batch_written_again_after_its_file_was_merged_stays_one(store: ParquetStore) -> None:
    batches = [samples([sample(at_ms=NOON_MS + number)]) for number in range(3)]
    for number, rows in enumerate(batches):
        store.write([rows], batch=f"b{number}")
    compact(store, before_ms=NOON_MS + HOUR_MS)

    store.write([batches[1]], batch="b1")

    assert len(held(store)) == 3
    assert store.verify().duplicates == 0


def test_a_reader_whose_files_are_merged_under_it_sees_every_row_once(
    store: ParquetStore, folder: Path
) -> None:
    for number in range(4):
        store.write([samples([sample(at_ms=NOON_MS + number)])], batch=f"b{number}")
    reading = ParquetStore(str(folder))

    class Interrupted(LocalFolder):
        """Merges all files just before the first of them is opened to be read."""

        opened = 0

        def open(self, path):
            self.opened += 1
            if self.opened == 6:
                compact(store, before_ms=NOON_MS + HOUR_MS)
            return super().open(path)

    reading.folder = Interrupted(folder)

    assert len(held(reading)) == 4


# rows


KEYS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "ä", ""]),
        st.sampled_from(["t", "u"]),
        st.integers(0, 3),
        st.integers(0, 5),
        st.sampled_from(["live", "backfill", "telegraf"]),
    ),
    max_size=40,
)


@given(KEYS)
def test_of_equal_keys_the_best_source_then_the_first_stays(keys) -> None:
    rows = [
        sample(group=group, topic=topic, partition=partition, at_ms=at_ms, source=source, lag=lag)
        for lag, (group, topic, partition, at_ms, source) in enumerate(keys)
    ]
    rank = {"live": 0, "telegraf": 1, "backfill": 2}
    best: dict[tuple, dict] = {}
    for row in sorted(rows, key=lambda row: (rank[row["source"]], row["lag"])):
        best.setdefault(tuple(row[name] for name in Kind.SAMPLES.key), row)

    unique, left_out = sort_unique(samples(rows))

    assert list(unique.rows()) == [best[key] for key in sorted(best)]
    assert left_out == len(rows) - len(best)
    assert np.unique(key_hashes(samples(rows))).size == len(best) if rows else left_out == 0


@settings(max_examples=25, deadline=None)
@given(st.lists(KEYS, min_size=1, max_size=4), st.booleans())
def test_any_batches_read_as_if_they_had_been_one(tmp_path_factory, batches, merge) -> None:
    store = ParquetStore(str(tmp_path_factory.mktemp("store")))
    rows = [
        [
            sample(group=group, topic=topic, partition=partition, at_ms=NOON_MS + at_ms, source=by)
            for group, topic, partition, at_ms, by in batch
        ]
        for batch in batches
    ]
    for number, batch in enumerate(rows):
        store.write([samples(batch)] if batch else [], batch=f"b{number}")
    if merge:
        compact(store, before_ms=NOON_MS + HOUR_MS)

    expected, _ = sort_unique(samples([row for batch in rows for row in batch]))

    assert held(store) == plain([expected])


def test_rows_of_one_slot_are_read_in_several_parts_when_they_are_many(
    tmp_path: Path,
) -> None:
    store = ParquetStore(str(tmp_path), chunk_rows=400)
    for first in range(0, 40, 4):  # a row group of a file is not divided, so several files
        rows = samples(
            [
                sample(group=f"g{group:02}", partition=number)
                for group in range(first, first + 4)
                for number in range(40)
            ]
        )
        store.write([rows.take(np.arange(0, rows.size, 2))], batch=f"even-{first}")
        store.write([rows.take(np.arange(1, rows.size, 2))], batch=f"odd-{first}")

    parts = list(store.read(HistoryRange(kind=Kind.SAMPLES, columns=("lag",), **EVER)))

    counted = Counter(name for part in parts for name in part.text("group").tolist())
    assert len(parts) > 2
    assert counted == {f"g{group:02}": 40 for group in range(40)}


# paths


@given(st.text(min_size=1, max_size=20), st.integers(0, 4_000_000_000_000))
def test_the_slot_of_a_path_is_the_slot_that_made_it(cluster, at_ms) -> None:
    for kind in Kind:
        slot = Slot.at(kind, cluster, at_ms)
        assert slot_of(slot.file("b")) == slot
        assert slot.from_ms <= at_ms < slot.to_ms


def test_days_are_those_of_utc() -> None:
    assert day_of(NOON_MS) == "2026-11-21"
    assert day_of(NOON_MS + 12 * HOUR_MS) == "2026-11-22"
    assert day_of(-1) == "1970-01-01"


# other file systems


def test_a_url_of_fsspec_is_a_store_like_any_other() -> None:
    store = ParquetStore(f"memory://lagwatch-test-{os.getpid()}")
    for batch in ("b1", "b2"):
        store.write([samples([sample(), sample(partition=1)])], batch=batch)
    store.write([group_samples([group_sample()])], batch="b3")

    compact(store, before_ms=NOON_MS + HOUR_MS)

    assert len(held(store)) == 2
    assert store.clusters() == ("here",)
    assert store.verify().sound
    assert store.delete_before(Kind.SAMPLES, "2026-11-22") == 2
    assert held(store) == []


def test_a_url_that_nothing_opens_is_refused_with_what_to_install() -> None:
    with pytest.raises(HistoryError, match="Install fsspec"):
        ParquetStore("nosuchscheme://bucket/lag")


def test_a_folder_without_rights_is_an_error_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = ParquetStore(str(tmp_path / "file" / "below"))

    with pytest.raises(HistoryError, match="below"):
        store.write([samples([sample()])], batch="b1")


@pytest.mark.parametrize("how", ["link", "no parent"])
def test_a_place_where_no_folder_can_be_is_named_with_the_option(tmp_path: Path, how: str) -> None:
    place = tmp_path / "link" if how == "link" else Path("/proc/nowhere/history")
    if how == "link":
        place.symlink_to(tmp_path / "gone")
    store = ParquetStore(str(place))

    with pytest.raises(HistoryError) as caught:
        store.write([samples([sample()])], batch="b1")

    said = "leads nowhere" if how == "link" else "No such file or directory"
    named = place if how == "link" else place.parent
    assert f"cannot make the folder {named}: " in str(caught.value)
    assert said in str(caught.value)
    assert "Check history.url." in str(caught.value)

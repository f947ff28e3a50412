"""What the roll-ups of a Parquet store find new after files were merged."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lagwatch.history.parquet import ParquetStore
from lagwatch.jobs.stores.parquet.watch import look
from tests.support.history import NOON_MS, sample, samples

MINUTE_MS = 60_000


@pytest.fixture
def store(tmp_path: Path) -> ParquetStore:
    return ParquetStore(str(tmp_path))


def write(store: ParquetStore, minute: int) -> None:
    row = sample(at_ms=NOON_MS + minute * MINUTE_MS)
    store.write([samples([row])], batch=f"b{minute:02d}")


def instant(minute: int) -> tuple[int, int]:
    at_ms = NOON_MS + minute * MINUTE_MS
    return at_ms, at_ms + 1


@pytest.mark.parametrize("each_time", [False, True])
def test_of_merged_files_only_those_that_were_not_known_are_new(
    store: ParquetStore, *, each_time: bool
) -> None:
    write(store, 0)
    mark = look(store, "here", {}).mark
    for minute in (20, 40, 50):
        write(store, minute)
        if each_time:
            store.compact()
    store.compact()

    seen = look(store, "here", mark)

    assert len(list(Path(store.where).rglob("*.parquet"))) == 1
    assert seen.changed == (instant(20), instant(40), instant(50))
    assert look(store, "here", seen.mark).changed == ()


def test_a_merge_that_knows_no_times_of_its_files_is_new_as_a_whole(store: ParquetStore) -> None:
    write(store, 0)
    mark = look(store, "here", {}).mark
    write(store, 20)
    store.compact()
    (file,) = Path(store.where).rglob("*.parquet")
    table = pq.ParquetFile(file).read()
    said = {
        b"lagwatch.kind": b"samples",
        b"lagwatch.replaces": b'["part-b00.parquet", "part-b20.parquet"]',
    }
    pq.write_table(table.replace_schema_metadata(said), file)

    seen = look(ParquetStore(store.where), "here", mark)

    assert seen.changed == ((NOON_MS, NOON_MS + 20 * MINUTE_MS + 1),)

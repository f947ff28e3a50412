"""How far a query has come, from the folder of its checkpoint, whatever state that is in."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from lagwatch.config.secret import ShownUrl
from lagwatch.errors import ProgressError
from lagwatch.ports.progress import Step
from lagwatch.spark_checkpoint import CheckpointFolder

NOW_MS = 1_732_300_000_000


class Query:
    """Writes a checkpoint as Spark does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "offsets").mkdir(parents=True)
        (folder / "commits").mkdir()
        self.reader = CheckpointFolder(ShownUrl(str(folder)))

    def begins(self, batch: int, offset: object) -> None:
        text = offset if isinstance(offset, str) else json.dumps(offset)
        (self.folder / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{text}")

    def ends(self, batch: int, at_ms: int) -> None:
        done = self.folder / "commits" / str(batch)
        done.write_text('v1\n{"nextBatchWatermarkMs":0}')
        os.utime(done, ns=(at_ms * 1_000_000, at_ms * 1_000_000))
        self.changed(at_ms)

    def changed(self, at_ms: int) -> None:
        """Changes of the folder are as old as the batches, and not of the time of the test."""
        os.utime(self.folder / "commits", ns=(at_ms * 1_000_000, at_ms * 1_000_000))

    def reads(self, batch: int, offset: int, at_ms: int) -> None:
        self.begins(batch, {"orders": {"0": offset}})
        self.ends(batch, at_ms)

    def look(self, now_ms: int = NOW_MS) -> list[tuple[int, int | None]]:
        """Offset and instant of each step."""
        return [(each.positions["orders"][0], each.at_ms) for each in self.reader.look(now_ms)]


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path / "checkpoint")


def test_the_position_is_where_the_newest_batch_that_is_done_ends(query: Query) -> None:
    query.reads(0, 10, NOW_MS - 60_000)
    query.reads(1, 25, NOW_MS - 30_000)
    query.begins(2, {"orders": {"0": 40}})

    assert query.look() == [(10, NOW_MS - 60_000), (25, NOW_MS - 30_000)]


def test_a_look_gives_what_is_new_and_nothing_twice(query: Query) -> None:
    query.reads(0, 10, NOW_MS - 60_000)
    query.look()

    assert query.look() == []
    query.reads(1, 25, NOW_MS - 30_000)
    assert query.look() == [(25, NOW_MS - 30_000)]


def test_a_folder_that_has_not_changed_is_not_listed(query: Query) -> None:
    query.reads(0, 10, NOW_MS - 60_000)
    query.look()
    # a batch whose folder seems unchanged shows whether it was listed
    query.reads(1, 25, NOW_MS - 30_000)
    query.changed(NOW_MS - 60_000)

    assert query.look() == []


def test_a_batch_within_the_same_tick_of_the_clock_is_seen(query: Query) -> None:
    query.reads(0, 10, NOW_MS)
    query.look(NOW_MS + 1)
    query.reads(1, 25, NOW_MS)
    query.changed(NOW_MS)

    assert query.look(NOW_MS + 2) == [(25, NOW_MS)]


def test_of_many_batches_the_newest_ten_are_read(query: Query) -> None:
    for batch in range(30):
        query.reads(batch, batch, NOW_MS - 60_000 + batch)

    assert [offset for offset, _ in query.look()] == list(range(20, 30))


def test_batches_that_are_purged_do_not_matter(query: Query) -> None:
    for batch in range(5):
        query.reads(batch, batch, NOW_MS - 60_000)
    for batch in range(3):
        (query.folder / "offsets" / str(batch)).unlink()

    assert [offset for offset, _ in query.look()] == [3, 4]


def test_a_checkpoint_that_begins_anew_is_followed(query: Query) -> None:
    query.reads(7, 70, NOW_MS - 60_000)
    query.look()
    (query.folder / "commits" / "7").unlink()
    query.reads(0, 5, NOW_MS - 10_000)

    assert query.look() == [(5, NOW_MS - 10_000)]


def test_files_that_are_being_written_and_checksums_are_passed_over(query: Query) -> None:
    query.reads(0, 10, NOW_MS - 60_000)
    for name in (".1.5ce11b18.tmp", ".0.crc", "0.compact", "metadata"):
        (query.folder / "commits" / name).write_text("v1")
    (query.folder / "commits" / "2").mkdir()
    query.changed(NOW_MS)

    assert query.look() == [(10, NOW_MS - 60_000)]


def test_a_batch_that_cannot_be_read_now_is_read_later(query: Query) -> None:
    query.begins(0, '{"orders":{"0":1')
    query.ends(0, NOW_MS - 60_000)
    with pytest.raises(ProgressError, match=r"offsets/0 cannot be used: .*cut short"):
        query.look()
    query.begins(0, {"orders": {"0": 10}})

    assert query.look() == [(10, NOW_MS - 60_000)]


def test_what_is_missing_is_said(query: Query) -> None:
    def reason(where: Path | str = query.folder) -> str:
        with pytest.raises(ProgressError) as raised:
            CheckpointFolder(ShownUrl(str(where))).look(NOW_MS)
        return str(raised.value)

    assert "no batch of the query is done yet" in reason()
    assert "there is no such folder" in reason(query.folder / "missing")
    assert "no folder `commits`" in reason(query.folder / "offsets")
    assert "Install fsspec" in reason("nosuch://user:secret@host/folder")
    assert "secret" not in reason("nosuch://user:secret@host/folder")
    query.ends(3, NOW_MS)
    assert "batch 3 is done and offsets/3 is missing" in reason()
    query.begins(3, 51)
    assert "no source of the query reads Kafka" in reason()


def test_a_checkpoint_on_a_file_system_of_fsspec_is_read(tmp_path: Path) -> None:
    where = f"memory://checkpoint-{os.getpid()}-{tmp_path.name}"
    opened: tuple[Any, str] = fs.PyFileSystem(fs.FSSpecHandler(_memory())), where[len("memory:/") :]
    filesystem, root = opened
    for name, text in (("offsets/0", 'v1\n{}\n{"orders":{"0":9}}'), ("commits/0", "v1\n{}")):
        filesystem.create_dir(f"{root}/{name.partition('/')[0]}", recursive=True)
        with filesystem.open_output_stream(f"{root}/{name}") as stream:
            stream.write(pa.py_buffer(text.encode()))
    folder = CheckpointFolder(ShownUrl(where))

    found = folder.look(NOW_MS)

    assert [each.positions for each in found] == [{"orders": {0: 9}}]
    assert folder.look(NOW_MS) == []
    assert all(isinstance(each, Step) for each in found)


def _memory() -> Any:  # noqa: ANN401 fsspec has no types
    import fsspec  # noqa: PLC0415

    return fsspec.filesystem("memory")

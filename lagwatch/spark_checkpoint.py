"""Reads how far a Spark Structured Streaming query has come from the folder of its checkpoint.

`offsets/N` is written before batch N and holds where it ends; `commits/N` is there once it is done.
So the query has come to `offsets/N` of the greatest N in `commits`. Both folders keep the newest
100 batches or so (`spark.sql.streaming.minBatchesToRetain`), others are purged.

Source: Spark's `StreamExecution`, `HDFSMetadataLog`.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pyarrow import fs

from lagwatch.clock import Clock
from lagwatch.config.secret import ShownUrl
from lagwatch.core.progress_kinds import SPARK_CHECKPOINT
from lagwatch.core.wire.spark_offsets import positions
from lagwatch.errors import ProgressError
from lagwatch.places import CannotOpenError, open_place
from lagwatch.ports.progress import Step

_MOST: Final = 10
"""Batches read at one look: the newest; as many as a window has commits."""
_SETTLED_NS: Final = 5_000_000_000
"""Another file may come within the same tick of a file system's clock."""
_ANSWER_S: Final = 20.0
_SIZE: Final = 64 * 1024 * 1024
"""No offsets are so large, not even of 100,000 partitions."""


class SparkCheckpoint:
    """`ports.ProgressReader` of one query."""

    kind = SPARK_CHECKPOINT

    def __init__(self, where: ShownUrl, clock: Clock) -> None:
        self._folder = CheckpointFolder(where)
        self._clock = clock
        # a file system that hangs takes this thread only
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=SPARK_CHECKPOINT)
        self._under_way: Future[Sequence[Step]] | None = None

    async def read(self) -> Sequence[Step]:
        if self._under_way is None:
            self._under_way = self._thread.submit(self._folder.look, self._clock.now_ms())
        waiting = asyncio.wrap_future(self._under_way)
        done, _ = await asyncio.wait({waiting}, timeout=_ANSWER_S)
        if not done:
            raise ProgressError(
                f"{self._folder}: no answer within {_ANSWER_S:.0f} s. Check that its file system "
                "can be reached."
            )
        self._under_way = None
        return waiting.result()


class CheckpointFolder:
    """The folder of a checkpoint; its calls wait for the file system."""

    def __init__(self, where: ShownUrl) -> None:
        self._where = where
        self._opened: tuple[Any, str] | None = None
        self._newest = -1
        """The greatest batch that was read; -1 none."""
        self._newest_ns: int | None = None
        """When it was done."""
        self._changed_ns: int | None = None
        """Last change of the folder `commits` when it was listed, if it had settled."""

    def __str__(self) -> str:
        return str(self._where)

    def look(self, now_ms: int) -> Sequence[Step]:
        """Batches that were done since the last look, oldest first.

        Raises:
            ProgressError: the newest batch cannot be read.
        """
        try:
            return self._look(now_ms)
        except OSError as error:
            raise ProgressError(f"{self}: {error.strerror or error}. Check path and rights.") from (
                error
            )

    def _look(self, now_ms: int) -> Sequence[Step]:
        filesystem, root = self._open()
        commits = filesystem.get_file_info(f"{root}/commits")
        if commits.type is fs.FileType.NotFound:
            raise ProgressError(self._nothing(filesystem.get_file_info(root)))
        # object stores keep no time of a folder: there it is listed each time
        changed_ns: int | None = commits.mtime_ns
        if changed_ns is not None and changed_ns == self._changed_ns:
            return ()
        done = _batches(filesystem.get_file_info(fs.FileSelector(f"{root}/commits")))
        if not done:
            raise ProgressError(f"{self}: no batch of the query is done yet.")
        found = self._steps(filesystem, root, done)
        settled = changed_ns is not None and changed_ns + _SETTLED_NS < now_ms * 1_000_000
        self._changed_ns = changed_ns if settled else None
        return found

    def _open(self) -> tuple[Any, str]:
        if self._opened is None:
            where = self._where.get_secret_value()
            try:
                self._opened = (
                    open_place(where)
                    if "://" in where
                    else (fs.LocalFileSystem(), str(Path(where).absolute()))
                )
            except CannotOpenError as error:
                reason = str(error).replace(where, str(self))
                raise ProgressError(
                    f"{self}: cannot be opened ({reason}). Install fsspec and the package it "
                    "needs for this URL, or write a folder."
                ) from error
        return self._opened

    def _nothing(self, root: Any) -> str:  # noqa: ANN401 pyarrow has no types
        if root.type is fs.FileType.NotFound:
            return f"{self}: there is no such folder. Write the query's checkpointLocation."
        return (
            f"{self}: it has no folder `commits`: no batch of the query is done yet, or it is not "
            "the folder of a checkpoint."
        )

    def _steps(self, filesystem: Any, root: str, done: dict[int, int | None]) -> list[Step]:  # noqa: ANN401
        newest = max(done)
        if newest == self._newest and done[newest] == self._newest_ns:
            return []
        # batches that count from 0 again are of a new checkpoint
        since = self._newest if newest > self._newest else -1
        new = sorted(batch for batch in done if batch > since)[-_MOST:]
        found = []
        for batch in new[:-1]:
            with suppress(ProgressError, OSError):  # purged meanwhile: the newest one counts
                found.append(self._step(filesystem, root, batch, done[batch]))
        found.append(self._step(filesystem, root, newest, done[newest]))
        self._newest, self._newest_ns = newest, done[newest]
        return found

    def _step(self, filesystem: Any, root: str, batch: int, done_ns: int | None) -> Step:  # noqa: ANN401
        path = f"{root}/offsets/{batch}"
        try:
            with filesystem.open_input_stream(path) as stream:
                text = stream.read(_SIZE).decode("utf-8", errors="replace")
            found = positions(text)
        except FileNotFoundError as error:
            raise ProgressError(
                f"{self}: batch {batch} is done and offsets/{batch} is missing. The checkpoint is "
                "damaged, or is being deleted."
            ) from error
        except ProgressError as error:
            raise ProgressError(f"{self}: offsets/{batch} cannot be used: {error}.") from error
        return Step(positions=found, at_ms=None if done_ns is None else done_ns // 1_000_000)


def _batches(listed: Sequence[Any]) -> dict[int, int | None]:
    """Batches that are done, each with the instant (ns); what is still written has another name."""
    return {
        int(info.base_name): info.mtime_ns
        for info in listed
        if info.type is fs.FileType.File and info.base_name.isdecimal()
    }

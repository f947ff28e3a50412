"""Traffic and truth of a shard, made in this process or, for several readers, in one of its own.

Each of those has a socket, on which it asks for chunk after chunk. Columns are in files, which are
mapped into memory.
"""

import contextlib
import gc
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tests.bench.month import breaks
from tests.bench.month.plan import Ints, OpenFor, Plan, Size, Trouble
from tests.bench.month.traffic import (
    CHUNK_S,
    STEP_S,
    Chunk,
    Commits,
    Traffic,
    no_commits,
    since_order,
)
from tests.bench.month.truth import Truth

_AHEAD: Final = 4
"""Chunks that may be ready before a reader asks for them."""
_ATTEMPTS: Final = 600
_BETWEEN_S: Final = 0.1
_FOUND_OUT: Final = ("true_s", "caught_up_s", "worst_time_lag_s", "behind_s")
"""Fields of a trouble that only the traffic shows."""

Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a collector sees of a chunk: log ends of each round, and commits."""

    start_s: float
    every: int
    """Steps of the grid from round to round."""
    log_start: Ints
    """[rows]"""
    log_ends: Ints
    """[rounds, rows]"""
    stable_rows: Ints
    """Rows whose last stable offset is not the log end all the time."""
    stable: Ints
    """[rounds, stable_rows]"""
    commits: Commits
    open_now: tuple[OpenFor, ...]

    def log_end(self, step: int) -> Ints:
        ends: Ints = self.log_ends[step // self.every - 1].copy()
        return ends

    def last_stable(self, step: int) -> Ints:
        ends = self.log_end(step)
        ends[self.stable_rows] = self.stable[step // self.every - 1]
        return ends


class Source(Protocol):
    """The traffic from the monitor's start on."""

    @property
    def now_s(self) -> float:
        """Chunks were made up to here."""

    def chunk(self) -> "Chunk | Part":
        """The next half hour."""

    def tail(self, now_s: float, since: int = 0) -> Commits:
        """See `Traffic.tail`."""

    def finish(self) -> None:
        """The month is over: fill in the troubles of the plan."""


class Made:
    """Traffic and truth made in this process."""

    def __init__(self, plan: Plan) -> None:
        self._traffic, self._truth = Traffic(plan), Truth(plan)
        while self.now_s < 0:
            self.chunk()

    @property
    def now_s(self) -> float:
        return self._traffic.now_s

    def chunk(self) -> Chunk:
        chunk = self._traffic.chunk()
        self._truth.follow(chunk)
        return chunk

    def tail(self, now_s: float, since: int = 0) -> Commits:
        return self._traffic.tail(now_s, since)

    def finish(self) -> None:
        self._truth.finish()


def make(size: Size, shard: int, folder: str, readers: int) -> None:
    """Make the traffic of a shard, and send it to so many readers."""
    with contextlib.ExitStack() as stack:
        # first: readers connect while the days before the monitor's start are made
        listener = stack.enter_context(Listener(_address(folder), backlog=readers))
        plan = breaks.make(size, shard)
        made = Made(plan)
        gc.freeze()  # half a million events stay to the end: collections need not look through them
        links = [stack.enter_context(listener.accept()) for _ in range(readers)]
        _send(links, folder, (), _columns(made.tail(0.0)))
        while made.now_s < plan.end_s:
            chunk = made.chunk()
            _send(links, folder, (chunk.start_s, chunk.open_now), _seen(chunk, size.round_s))
        made.finish()
        found_out = [
            tuple(getattr(trouble, name) for name in _FOUND_OUT) for trouble in _troubles(plan)
        ]
        _send(links, folder, (found_out,), {})
        for link in links:
            _wait_for_end(link)
    gc.unfreeze()


class Received:
    """Traffic and truth made in another process."""

    def __init__(self, plan: Plan, folder: str) -> None:
        self._plan = plan
        self.now_s = 0.0
        self._link = _connect(folder)
        for _ in range(_AHEAD):
            self._link.send(None)
        self._backlog = _commits(self._next()[1])
        self._newest = self._before = no_commits()

    def chunk(self) -> Part:
        (start_s, open_now), columns = self._next()
        self._before, self._newest = self._newest, _commits(columns)
        self.now_s = start_s + CHUNK_S
        return Part(
            start_s=start_s,
            every=self._plan.size.round_s // STEP_S,
            log_start=columns["log_start"],
            log_ends=columns["log_ends"],
            stable_rows=columns["stable_rows"],
            stable=columns["stable"],
            commits=self._newest,
            open_now=open_now,
        )

    def tail(self, now_s: float, since: int = 0) -> Commits:
        if since:
            return since_order(self._before, self._newest, now_s, since)
        if now_s:
            raise ValueError("all that the offsets topic holds is known of the start only")
        return self._backlog

    def finish(self) -> None:
        ((found_out,), _) = self._next()
        self._link.close()
        for trouble, values in zip(_troubles(self._plan), found_out, strict=True):
            for name, value in zip(_FOUND_OUT, values, strict=True):
                setattr(trouble, name, value)

    def _next(self) -> tuple[tuple[Any, ...], Columns]:
        head, path, shapes = self._link.recv()
        self._link.send(None)
        columns: Columns = {}
        if path:
            mapped = np.memmap(path, np.int64, "r")
            Path(path).unlink()
            place = 0
            for name, shape in shapes.items():
                size = int(np.prod(shape))
                columns[name] = mapped[place : place + size].reshape(shape).view(np.ndarray)
                place += size
        return head, columns


def _troubles(plan: Plan) -> Iterator[Trouble]:
    return (trouble for life in plan.lives for trouble in life.troubles)


def _columns(commits: Commits) -> Columns:
    return {field.name: getattr(commits, field.name) for field in fields(Commits)}


def _commits(columns: Columns) -> Commits:
    return Commits(**{field.name: columns[field.name] for field in fields(Commits)})


def _seen(chunk: Chunk, round_s: int) -> Columns:
    every = round_s // STEP_S
    steps = range(every, CHUNK_S // STEP_S + 1, every)
    return {
        "log_start": chunk.log_start,
        "log_ends": np.array([chunk.log_end(step) for step in steps]),
        "stable_rows": chunk.stable_rows,
        "stable": np.array([chunk.last_stable(step)[chunk.stable_rows] for step in steps]),
        **_columns(chunk.commits),
    }


# between the processes


def _wait_for_end(link: Connection) -> None:
    with contextlib.suppress(EOFError):
        while True:
            link.recv()


def _connect(folder: str) -> Connection:
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
            return Client(_address(folder))
        time.sleep(_BETWEEN_S)
    raise TimeoutError(f"no traffic is made in {folder}")


def _address(folder: str) -> str:
    return str(Path(folder, "traffic"))


def _send(links: list[Connection], folder: str, head: tuple[Any, ...], columns: Columns) -> None:
    """Send a message to each reader once it has asked for one more; columns of int64."""
    shapes = {name: column.shape for name, column in columns.items()}
    written = Path(folder, "columns")
    if columns:
        with written.open("wb") as file:
            for column in columns.values():
                column.astype(np.int64, copy=False).tofile(file)
    for place, link in enumerate(links):
        link.recv()
        path = ""
        if columns:
            # a name of its own for each reader, which removes it
            path = f"{written}-{place}-{time.monotonic_ns()}"
            os.link(written, path)
        link.send((head, path, shapes))
    if columns:
        written.unlink()

"""A monitor's state as columns by name, and a new monitor from them.

`capture` gives it part by part: between two parts the event loop may do other work. That needs no
lock, because of the order: the positions in the offsets topic come first, the rows after them. A
row may so hold commits that are read once more after a restart; those are recognized by their order
(`Windows.advances`). Each row is consistent in itself.

Rows are identified by names, never by their place: rows may come, go and change places meanwhile.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from weakref import ref

import numpy as np
import orjson
from numpy.typing import NDArray

from lagwatch.core.evaluate import RowIds
from lagwatch.core.model import UNKNOWN
from lagwatch.core.rows import ABSENCE
from lagwatch.core.snapshot import TopicColumns
from lagwatch.core.window import WindowCopy
from lagwatch.monitor.cluster import ClusterMonitor
from lagwatch.monitor.restored import KeptState
from lagwatch.monitor.topics import removals_at_first
from lagwatch.ports.queries import GroupEvent

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Part = Mapping[str, NDArray[Any]]
"""Columns by name; those of rows have the rows as their last axis."""
Mark = tuple[tuple[str, int, int], ...]

_EVENTS_OF_GROUP: Final = 20
"""Enough to find a cause; the history has them all."""
_EVENTS_AT_ONCE: Final = 2_000
SLICE_ROWS: Final = 8_192
"""Rows, or topic-partitions of the history, in a part: copied within a few milliseconds."""
_WINDOW: Final = ("offset", "commit_ms", "order", "lag", "observed_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The rows of one slice."""

    first: int
    """Place of the first of them."""
    part: Part | None
    """None: unchanged since the last capture."""


def capture(monitor: ClusterMonitor, *, slice_rows: int = SLICE_ROWS) -> Iterator[Part]:
    """Everything that survives a restart.

    The first part sets its instant. Nothing else may change the monitor while a part is made.
    """
    for piece in captured_since(Slices(), monitor, slice_rows=slice_rows):
        if not isinstance(piece, Slice):
            yield piece
        elif piece.part is not None:
            yield piece.part


def captured_since(
    before: "Slices", monitor: ClusterMonitor, *, slice_rows: int = SLICE_ROWS
) -> Iterator[Part | Slice]:
    """What `capture` takes, but slices that have not changed since `before` have no columns.

    `before` is updated, so discard it if this capture is discarded.
    """
    before.begin(monitor)
    kept = monitor.kept()
    at_ms, ends = monitor.history.at_ms.copy(), monitor.history.ends
    half_ms = monitor.history.half_ms.copy()
    yield {
        "state": _json(_state(monitor, kept)),
        "first": kept.topics.first,
        "log_start": kept.topics.log_start,
        "log_end": kept.topics.log_end,
        "last_stable": kept.topics.last_stable,
        "removals": kept.topics.removals,
        **{f"commits_{name}": column for name, column in zip(ABSENCE, kept.absences, strict=True)},
        "sample_ms": at_ms,
        "sample_half_ms": half_ms,
        **{f"partition.{name}": column for name, column in kept.partitions.items()},
    }
    for first in range(0, ends.shape[1], slice_rows):
        # the matrix is replaced when it is thinned or renumbered: this one stays as it is
        yield {"ends": ends[:, first : first + slice_rows].copy()}
    first = 0
    while first < monitor.windows.rows:
        end = min(first + slice_rows, monitor.windows.rows)
        if before.is_as_before(monitor, first, end):
            yield Slice(first=first, part=None)
        elif part := _rows(monitor, monitor.table.used(first, end), before.groups, before.topics):
            yield Slice(first=first, part=part)
        first = end
    events = list(monitor.story.newest(_EVENTS_OF_GROUP))
    for first in range(0, len(events), _EVENTS_AT_ONCE):
        yield {"story": _json(events[first : first + _EVENTS_AT_ONCE])}
    trail_groups, lags, step, trail_ms = monitor.trail.kept()
    if trail_groups:
        yield {
            "trail": _json({"groups": trail_groups, "step": step, "at_ms": trail_ms}),
            "trail_lag": lags,
        }
    yield {"names": _json({"groups": list(before.groups.ids), "topics": list(before.topics.ids)})}


class Slices:
    """How the slices of rows of one monitor were when they were captured last."""

    def __init__(self) -> None:
        self._marks: dict[int, tuple[int, Mark, Mark]] = {}
        """First row → (end, mark of the windows' newest slots, mark of everything or nothing)."""
        self._monitor: Callable[[], ClusterMonitor | None] = lambda: None
        self._frees = UNKNOWN
        self.groups, self.topics = _Dictionary(), _Dictionary()

    def begin(self, monitor: ClusterMonitor) -> None:
        """A capture begins. Numbers of names stay the same until it ends."""
        # a freed number may be another name's now
        if self._monitor() is not monitor or self._frees != monitor.table.frees:
            self._monitor, self._frees = ref(monitor), monitor.table.frees
            self._marks.clear()
            self.groups, self.topics = _Dictionary(), _Dictionary()

    def is_as_before(self, monitor: ClusterMonitor, first: int, end: int) -> bool:
        """Is everything in these rows as at the last call? Of a slice that moves, False."""
        if self._frees != monitor.table.frees:  # since `begin`
            return False
        before = self._marks.get(first)
        windows = monitor.windows
        moved = _mark((windows.newest[first:end], windows.count[first:end]))
        if before is None or before[:2] != (end, moved):
            # most slices of a busy cluster: what moved now will have moved at the next time, too
            self._marks[first] = end, moved, ()
            return False
        whole = _mark(_everything(monitor, first, end))
        self._marks[first] = end, moved, whole
        return before[2] == whole


def _everything(monitor: ClusterMonitor, first: int, end: int) -> Iterator[NDArray[Any]]:
    """All that `_rows` is made from; not copied where it is large."""
    rows = monitor.table.used(first, end)
    yield rows
    ids = monitor.table.of_rows(rows)
    yield from (ids.group, ids.topic, ids.partition)
    yield from monitor.windows.stored(first, end)
    yield from monitor.pace.stored(first, end)
    for columns in (monitor.setbacks, monitor.append_times, monitor.groups):
        for name, column in columns.copied(rows).items():
            yield np.frombuffer(name.encode(), np.uint8)
            yield column


def _mark(columns: Iterable[NDArray[Any]]) -> Mark:
    """What tells columns from others: a checksum of each.

    A commit changes four columns at least, and one changed number changes a checksum for certain.
    """
    return tuple(
        (column.dtype.str, column.size, zlib.crc32(np.ascontiguousarray(column).data))
        for column in columns
    )


class _Dictionary:
    """Names and their numbers, in the order of their first use."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def numbers(self, column: Int32, names: Sequence[str]) -> Int32:
        """A column of numbers of these names, as numbers of ours."""
        distinct, place = np.unique(column, return_inverse=True)
        ids = self.ids
        ours = [ids.setdefault(names[number], len(ids)) for number in distinct.tolist()]
        return np.array(ours, np.int32)[place]


def _rows(
    monitor: ClusterMonitor, rows: NDArray[np.intp], groups: _Dictionary, topics: _Dictionary
) -> Part:
    if not rows.size:
        return {}
    ids = monitor.table.of_rows(rows)
    windows, pace = monitor.windows.copied(rows), monitor.pace.copied(rows)
    # written as differences that are mostly zero: what does not vary costs nothing in the file
    pace["moved_ms"] = windows.commit_ms[-1] - pace["moved_ms"]
    columns = {name: getattr(windows, name) for name in _WINDOW}
    columns["observed_s"] = windows.observed_s - windows.commit_ms // 1000
    return {
        "group": groups.numbers(ids.group, ids.group_names),
        "topic": topics.numbers(ids.topic, ids.topic_names),
        "partition": ids.partition,
        "count": windows.count,
        **columns,
        **{f"pace.{name}": column for name, column in pace.items()},
        **{f"setback.{name}": each for name, each in monitor.setbacks.copied(rows).items()},
        **{f"append.{name}": each for name, each in monitor.append_times.copied(rows).items()},
        **{f"group.{name}": each for name, each in monitor.groups.copied(rows).items()},
    }


def _state(monitor: ClusterMonitor, kept: KeptState) -> Mapping[str, object]:
    return {
        "positions": sorted(kept.positions.items()),
        "offsets_topic_id": kept.offsets_topic_id,
        "exact_times": kept.exact_times,
        "first_ms": kept.first_ms,
        "unwatched": kept.unwatched,
        "data_ms": kept.data_ms,
        "judged_ms": kept.judged_ms,
        "topics_ms": kept.topics_ms,
        "starts_ms": kept.starts_ms,
        "topics": kept.topics.names,
        "topic_ids": [kept.topic_ids.get(name, "") for name in kept.topics.names],
        "missing_since": kept.missing_since,
        "listed": sorted(kept.listed),
        "uncommitted": monitor.groups.uncommitted,
        "resting": monitor.resting,
        "statuses": monitor.statuses,
        "gaps": monitor.history.gaps,
        "clocks": monitor.pace.clocks,
        "skew": monitor.skew.seen,
        "offsets_retention_ms": monitor.offsets_retention_ms,
    }


def restore(monitor: ClusterMonitor, parts: Sequence[Part], *, offsets_topic: str) -> None:
    """Fill a new monitor with what was captured of another."""
    first, *middle, last = parts
    state, names = orjson.loads(first["state"].tobytes()), orjson.loads(last["names"].tobytes())
    slices = _unique([part for part in middle if "group" in part])
    ids = RowIds(
        group=_joined(slices, "group"),
        topic=_joined(slices, "topic"),
        partition=_joined(slices, "partition"),
        at=np.zeros(0, np.int32),
        group_names=names["groups"],
        topic_names=names["topics"],
    )
    monitor.restore(_kept(first, state), ids, offsets_topic=offsets_topic)
    ends = [part["ends"] for part in middle if "ends" in part]
    none = np.zeros((first["sample_ms"].size, 0), np.int64)
    monitor.history.restore(
        first["sample_ms"],
        np.concatenate([none, *ends], axis=1),
        map(tuple, state["gaps"]),
        # absent in checkpoints of earlier versions
        first.get("sample_half_ms"),
    )
    monitor.pace.clocks = tuple(state["clocks"])
    monitor.skew.seen = tuple(state["skew"])
    # absent in checkpoints of earlier versions
    monitor.offsets_retention_ms = state.get("offsets_retention_ms")
    place = 0
    for part in slices:
        _put(monitor, place, part)
        place += part["group"].size
    monitor.groups.remember(names["groups"], map(tuple, state["uncommitted"]))
    # absent in checkpoints of earlier versions
    monitor.restore_groups(map(tuple, state.get("resting", ())), state.get("statuses", {}))
    for part in middle:
        if "story" in part:
            events = orjson.loads(part["story"].tobytes())
            monitor.restore_story(GroupEvent(**each) for each in events)
        if "trail" in part:
            monitor.trail.restore(lag=part["trail_lag"], **orjson.loads(part["trail"].tobytes()))
    monitor.restored_rows()


def _kept(part: Part, state: Mapping[str, Any]) -> KeptState:
    names = tuple(state["topics"])
    prefix = "partition."
    return KeptState(
        positions=dict(map(tuple, state["positions"])),
        # absent in checkpoints of earlier versions
        offsets_topic_id=state.get("offsets_topic_id", ""),
        exact_times=state["exact_times"],
        first_ms=state.get("first_ms", 0),
        unwatched=tuple(map(tuple, state.get("unwatched", ()))),
        data_ms=state["data_ms"],
        judged_ms=state.get("judged_ms", -1),
        topics_ms=state["topics_ms"],
        starts_ms=state["starts_ms"],
        topics=TopicColumns(
            names=names,
            index={name: index for index, name in enumerate(names)},
            first=part["first"],
            log_start=part["log_start"],
            log_end=part["log_end"],
            last_stable=part["last_stable"],
            leader=np.full(part["log_end"].size, -1, np.int32),
            ids=tuple(state["topic_ids"]),
            read_ms=np.full(part["log_end"].size, -1, np.int64),
            # absent in checkpoints of earlier versions
            removals=part.get("removals", removals_at_first(part["log_start"])),
        ),
        topic_ids={
            name: each for name, each in zip(names, state["topic_ids"], strict=True) if each
        },
        missing_since=state["missing_since"],
        partitions={
            name.removeprefix(prefix): column
            for name, column in part.items()
            if name.startswith(prefix)
        },
        # those of earlier versions have fewer absences
        absences=tuple(
            part.get(f"commits_{name}", np.full_like(part["commits_away_ms"], -1))
            for name in ABSENCE
        ),
        listed=frozenset(state["listed"]),
    )


def _unique(slices: Sequence[Part]) -> list[Part]:
    """Drop the earlier copy of rows that moved to another place while they were captured."""
    if not slices:
        return []
    identity = [_joined(slices, name) for name in ("partition", "topic", "group")]
    order = np.lexsort(identity)  # stable: copies of a row stay in the order of their capture
    last = np.ones(order.size, np.bool_)
    same = [column[order][1:] == column[order][:-1] for column in identity]
    last[:-1] = ~np.logical_and.reduce(same)
    if last.all():
        return list(slices)
    keep = np.zeros(order.size, np.bool_)
    keep[order[last]] = True
    bounds = np.cumsum([part["group"].size for part in slices])[:-1]
    return [
        {name: column[..., kept] for name, column in part.items()}
        for part, kept in zip(slices, np.split(keep, bounds), strict=True)
    ]


def _joined(slices: Sequence[Part], name: str) -> Int32:
    return np.concatenate([np.zeros(0, np.int32), *(part[name] for part in slices)])


def _put(monitor: ClusterMonitor, first: int, part: Part) -> None:
    columns = {name: part[name] for name in _WINDOW}
    columns["observed_s"] = part["observed_s"] + part["commit_ms"] // 1000
    monitor.windows.put(first, WindowCopy(**columns, count=part["count"]))
    pace = _below(part, "pace.")
    pace["moved_ms"] = part["commit_ms"][-1] - pace["moved_ms"]
    monitor.pace.put(first, pace)
    monitor.setbacks.put(first, _below(part, "setback."))
    monitor.append_times.put(first, _below(part, "append."))
    monitor.groups.put(first, _below(part, "group."))


def _below(part: Part, prefix: str) -> dict[str, NDArray[Any]]:
    return {
        name.removeprefix(prefix): column
        for name, column in part.items()
        if name.startswith(prefix)
    }


def _json(value: object) -> NDArray[np.uint8]:
    return np.frombuffer(orjson.dumps(value), np.uint8)

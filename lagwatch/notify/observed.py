"""What a snapshot says of one group: what alerts look at when they decide about it."""

from collections.abc import Collection, Iterator
from typing import Final, TypedDict

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.incident import Observation
from lagwatch.core.model import (
    GroupStatus,
    PartitionStatus,
    Rule,
    TimeLagBound,
    TimeLagReason,
)
from lagwatch.core.snapshot import AT_MOST, ClusterSnapshot
from lagwatch.core.trouble import Kinds

Topics = frozenset[str]
_FIRST_LOOK_MS: Final = 60_000
_OLDER_THAN_SEEN: Final = (Rule.FALLING_BEHIND, Rule.NEVER_COMMITS)
"""Troubles that may have begun before lagwatch looked: nothing stored says since when."""
"""A rise that begins so soon after all was known, at first or again, may have begun before."""


def windows_of(snapshot: ClusterSnapshot, number: int) -> Iterator[tuple[tuple[str, int], int]]:
    """Topic and partition of each row of a group, with its window."""
    rows = snapshot.group.rows_of(number)
    columns = snapshot.rows
    for topic, partition, window in zip(
        columns.topic[rows].tolist(),
        columns.partition[rows].tolist(),
        columns.window[rows].tolist(),
        strict=True,
    ):
        yield (snapshot.topic_names[topic], partition), window


def topics_of(snapshot: ClusterSnapshot, number: int) -> list[str]:
    """The topics that a group has committed to."""
    rows = snapshot.group.rows_of(number)
    return [
        snapshot.topic_names[topic] for topic in dict.fromkeys(snapshot.rows.topic[rows].tolist())
    ]


class KnownLags:
    """The groups of a snapshot whose lag is known, or of none."""

    def __init__(self, snapshot: ClusterSnapshot | None = None) -> None:
        # not the snapshot: its rows take much memory
        self._number = {} if snapshot is None else snapshot.group_index
        self._max_lag_row = None if snapshot is None else snapshot.group.max_lag_row

    def __contains__(self, group: str) -> bool:
        number = self._number.get(group)
        return (
            number is not None
            and self._max_lag_row is not None
            and (bool(self._max_lag_row[number] >= 0))
        )


def losers(snapshot: ClusterSnapshot) -> NDArray[np.bool_]:
    """Mask of groups with an unacknowledged loss of messages."""
    found = np.zeros(len(snapshot.groups), np.bool_)
    rows = np.flatnonzero(_lost(snapshot, slice(None)))
    found[np.searchsorted(snapshot.group.first, rows, side="right") - 1] = True
    return found


IS_BAD: Final = np.array(
    [
        status not in {0, PartitionStatus.OK, PartitionStatus.UNKNOWN}
        for status in range(max(PartitionStatus) + 1)
    ]
)
"""By partition status."""


def kinds_of_group(snapshot: ClusterSnapshot, number: int) -> Kinds:
    """The rules by which a group is bad."""
    return _kinds(snapshot, snapshot.group.rows_of(number))


def _kinds(snapshot: ClusterSnapshot, rows: slice | list[int]) -> Kinds:
    """The rules by which these rows are bad; a loss that a stop hides is among them."""
    columns = snapshot.rows
    bad = IS_BAD[columns.status[rows]]
    kinds = {Rule(rule) for rule in set(columns.rule[rows][bad].tolist())}
    if kinds and snapshot.shows_loss(rows).any():
        kinds.add(Rule.RECORDS_LOST)
    return frozenset(kinds)


def _lost(snapshot: ClusterSnapshot, rows: slice) -> NDArray[np.int64]:
    """Messages lost by these rows, without those that were acknowledged."""
    return snapshot.around.facts.lost_shown(snapshot.rows.window[rows])


class _Deleted(TypedDict, total=False):
    deleted: int
    perhaps_deleted: int


def _deleted(snapshot: ClusterSnapshot, rows: slice | list[int]) -> _Deleted:
    """Count messages of these rows' lags below the log start: lost ones, and others.

    They are lost once that is known; until then a member may have fetched them before.
    """
    columns, facts = snapshot.rows, snapshot.around.facts
    below = snapshot.below_log_start(rows)
    lost_until = 0 if facts.lost_until is None else facts.lost_until[columns.window[rows]]
    lost = int(np.minimum(below, np.maximum(lost_until - columns.committed[rows], 0)).sum())
    return {"deleted": lost, "perhaps_deleted": int(below.sum()) - lost}


def _at_most(snapshot: ClusterSnapshot, rows: slice | list[int]) -> bool:
    """Is what these rows lost an upper bound?"""
    bound = snapshot.around.facts.lost_bound
    return bound is not None and bool((bound[snapshot.rows.window[rows]] > 0).any())


def loss(
    snapshot: ClusterSnapshot, number: int | None, kinds: Kinds
) -> tuple[int, bool, int | None]:
    """What was lost, if that is the trouble.

    How many messages, whether that is only an upper bound, and when the last ones were noticed.
    """
    facts = snapshot.around.facts
    if number is None or Rule.RECORDS_LOST not in kinds or facts.lost_ms is None:
        return 0, False, None
    rows = snapshot.group.rows_of(number)
    window = snapshot.rows.window[rows]
    noticed_ms = int(facts.lost_ms[window].max(initial=-1))
    lost, at_most = int(_lost(snapshot, rows).sum()), _at_most(snapshot, rows)
    return lost, at_most, noticed_ms if noticed_ms >= 0 else None


def is_loss_acknowledged(snapshot: ClusterSnapshot, number: int | None) -> bool:
    """True if a group has lost messages, and all of that was acknowledged."""
    known = snapshot.around.facts.lost_acknowledged
    if number is None or known is None:
        return False
    rows = snapshot.group.rows_of(number)
    return bool(known[snapshot.rows.window[rows]].sum() > 0 and not _lost(snapshot, rows).sum())


_OPEN: Final = np.isin(
    np.arange(len(TimeLagReason)),
    (
        TimeLagReason.BEYOND_HISTORY,
        TimeLagReason.NOT_SAMPLED,
        TimeLagReason.SAMPLES_APART,
        TimeLagReason.RECORDED_APART,
        TimeLagReason.DONE_OUT_OF_ORDER,
    ),
)
"""How a time lag is known that may be greater than its value."""
"""How one is known that may be less."""
_ESTIMATED: Final = np.array([reason.bound is TimeLagBound.ESTIMATE for reason in TimeLagReason])
"""How one is known that may be less, or more."""


class _TimeLag(TypedDict):
    time_lag_ms: int
    time_lag_open: bool
    time_lag_most_ms: int


def _time_lag(
    snapshot: ClusterSnapshot, number: int, chosen: Collection[int] | None = None
) -> _TimeLag:
    """How far behind in time a group surely is, and how far it may be; by its `chosen` rows."""
    rows = snapshot.group.rows_of(number)
    times = snapshot.rows.some_times(rows)
    lags_ms, reasons = times.lag_ms, times.reason
    # without a known error nothing is sure but that messages wait
    guessed, at_most = _ESTIMATED[reasons] & (lags_ms >= 0), AT_MOST[reasons]
    error_ms = np.where(np.isnan(times.error_ms), lags_ms, times.error_ms).astype(np.int64)
    least_ms = np.where(guessed | at_most, np.maximum(lags_ms - error_ms, 0), lags_ms)
    greatest_ms = np.where(guessed, lags_ms + error_ms, lags_ms)
    read = snapshot.rows.rule[rows] != Rule.NOT_SUBSCRIBED
    if chosen is not None:
        read &= np.isin(np.arange(rows.start, rows.stop), [*chosen])
    sure_ms = int(least_ms[read & ~(at_most & (least_ms == 0))].max(initial=-1))
    most_ms = int(greatest_ms[read].max(initial=-1))
    return _TimeLag(
        time_lag_ms=sure_ms,
        time_lag_open=bool(_OPEN[reasons[read]].any()),
        time_lag_most_ms=most_ms if most_ms > sure_ms else -1,
    )


def of_group(snapshot: ClusterSnapshot, number: int) -> Observation:
    """The observation of a whole group."""
    columns = snapshot.group
    rows = snapshot.group.rows_of(number)
    reason = columns.time_lag_reason[number]
    total_lag = int(columns.total_lag[number])
    time_lag = _TimeLag(
        time_lag_ms=int(columns.time_lag_ms[number]),
        time_lag_open=bool(_OPEN[reason]),
        time_lag_most_ms=-1,
    )
    return Observation(
        status=GroupStatus(int(columns.status[number])),
        complete=float(columns.complete[number]),
        total_lag=total_lag,
        **(_deleted(snapshot, rows) if columns.readable_lag[number] < total_lag else {}),
        **(_time_lag(snapshot, number) if AT_MOST[reason] | _ESTIMATED[reason] else time_lag),
        **_since(snapshot, rows),
        lost=int(_lost(snapshot, rows).sum()),
        lost_at_most=_at_most(snapshot, rows),
        kinds=_kinds(snapshot, rows),
    )


def of_topics(snapshot: ClusterSnapshot, number: int, topics: Topics) -> Observation:
    """The observation of some topics of the group."""
    first, end = int(snapshot.group.first[number]), int(snapshot.group.first[number + 1])
    columns = snapshot.rows
    rows = [row for row in range(first, end) if snapshot.topic_names[columns.topic[row]] in topics]
    statuses = {int(columns.status[row]) for row in rows} - {int(GroupStatus.UNKNOWN)}
    worst = max(statuses, default=int(GroupStatus.UNKNOWN))
    full = sum(int(columns.commits[row]) == snapshot.intervals for row in rows)
    lost = int(_lost(snapshot, slice(first, end))[[row - first for row in rows]].sum())
    total_lag, readable = (
        sum(max(0, int(lag[row])) for row in rows) for lag in (columns.lag, columns.readable_lag)
    )
    return Observation(
        status=GroupStatus(worst) if worst in (1, 2, GroupStatus.UNKNOWN) else GroupStatus.ERR,
        complete=full / len(rows) if rows else 0.0,
        total_lag=total_lag,
        **(_deleted(snapshot, rows) if readable < total_lag else {}),
        **_time_lag(snapshot, number, rows),
        lost=lost,
        lost_at_most=_at_most(snapshot, rows),
        kinds=_kinds(snapshot, rows),
        **_since(snapshot, rows),
    )


class _Since(TypedDict):
    since_ms: int
    since_at_least: bool


def _since(snapshot: ClusterSnapshot, rows: slice | list[int]) -> _Since:
    """When the trouble began that decides about these rows; -1: unknown, or nothing is wrong.

    A rise that was found when lagwatch first looked, or looked again after it had not run, may
    have begun before that; so may members have been there that never commit. Other partitions may
    be in a milder trouble for longer: what is said of the group is the rule of its worst partition,
    of equally bad ones that with the most to read.
    """
    columns = snapshot.rows
    status, rule, since_ms = columns.status[rows], columns.rule[rows], columns.since_ms[rows]
    bad = IS_BAD[status]
    if not bad.any():
        return {"since_ms": -1, "since_at_least": False}
    worst = np.flatnonzero(bad & (status == status[bad].max()))
    named = rule[worst[columns.readable_lag[rows][worst].argmax()]]
    began_ms = since_ms[bad & (rule == named) & (since_ms >= 0)]
    found_ms = int(began_ms.min()) if began_ms.size else -1
    around, step_ms = snapshot.around, snapshot.around.limits.step_ms
    # whole steps are compared: the first one may begin a step after the first look
    found_at_first = 0 <= found_ms < around.first_ms + _FIRST_LOOK_MS + step_ms
    # when a rise began is known up to a step
    again_ms = around.complete_ms - step_ms
    found_at_first |= 0 <= again_ms <= found_ms < around.complete_ms + _FIRST_LOOK_MS
    return {
        "since_ms": found_ms,
        "since_at_least": named in _OLDER_THAN_SEEN and bool(found_at_first),
    }

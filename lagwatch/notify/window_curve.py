"""The lag of a group that has just turned bad, from the commits in its windows."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from lagwatch.notify.words import growth
from lagwatch.ports.queries import GroupDetail, PartitionDetail

Curve = tuple[tuple[int, int], ...]
"""(instant in ms, lag), oldest first."""
TOTAL: Final = "total lag"


def window_curve(
    detail: GroupDetail, verdict: Mapping[str, Any], since_ms: int
) -> tuple[Curve, str] | None:
    """A curve and what it shows: the group's total lag, else that of the partition that lags most.

    The total where all lags are known and their windows say whether it grew since the trouble
    began. None if neither is known. `verdict` as in a notice.
    """
    committed = [each for parts in detail.topics.values() for each in parts if any(each.window)]
    curves = [_of_partition(each, verdict["at_ms"]) for each in committed]
    total = _total(curves)
    known = all(each.current_lag is not None for each in committed)
    if known and growth(total, since_ms):
        return total, TOTAL
    worst = verdict.get("max_lag")
    if not worst:
        return None
    try:
        partition = detail.topics[worst["topic"]][worst["partition"]]
    except (KeyError, IndexError):  # it came after the verdict, or went
        return None
    return _of_partition(
        partition, verdict["at_ms"]
    ), f"lag of {worst['topic']}/{worst['partition']}"


def _of_partition(partition: PartitionDetail, at_ms: int) -> Curve:
    """Lag at its commits, and now; what is not known is left out."""
    points = [
        (int(commit.commit_ms), commit.lag)
        for commit in partition.window
        if commit is not None and commit.lag is not None
    ]
    if partition.current_lag is not None:
        points.append((at_ms, partition.current_lag))
    return tuple(
        point for at, point in enumerate(points) if at == 0 or point[0] > points[at - 1][0]
    )


def _total(curves: Iterable[Curve]) -> Curve:
    """The sum, from the instant on from which each is known; a lag moves evenly between points."""
    columns = [np.array(curve, np.int64).reshape(-1, 2).T for curve in curves]
    if not columns or min(at_ms.size for at_ms, _ in columns) == 0:
        return ()
    times = np.unique(np.concatenate([at_ms for at_ms, _ in columns]))
    times = times[times >= max(int(at_ms[0]) for at_ms, _ in columns)]
    lags = np.zeros(times.size)
    for at_ms, lag in columns:
        lags += np.interp(times, at_ms, lag)
    return tuple(zip(times.tolist(), np.round(lags).astype(np.int64).tolist(), strict=True))

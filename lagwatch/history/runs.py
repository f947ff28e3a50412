"""Measures a group over a time range, from samples or, where these are deleted, from roll-ups."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from lagwatch.core.model import UNKNOWN
from lagwatch.core.record import Kind, Records, concat, from_rows
from lagwatch.core.record.columns import ROLLUP_STEP_MS
from lagwatch.core.rollup import (
    EVENT_COLUMNS,
    ROUND_COLUMNS,
    SAMPLE_COLUMNS,
    BucketSpan,
    Raw,
    roll_up,
)
from lagwatch.ports.deployments import Deployment, Run
from lagwatch.ports.history import HistoryRange, HistoryStore

_STEP_MS: Final = ROLLUP_STEP_MS[Kind.ROLLUP_5M]
_MEASURED: Final = (
    *("samples", "lag_known", "lag_sum", "lag_max", "time_lag_max_s"),
    *("ok_s", "warn_s", "err_s", "produced", "produced_s", "consumed", "consumed_s", "rebalances"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingIntervals:
    """How the recorder takes samples."""

    interval_ms: int
    back_ms: int
    """Rows this long before a time range may still affect it."""


def measured(
    store: HistoryStore,
    deployment: Deployment,
    from_ms: int,
    to_ms: int,
    recording: RecordingIntervals,
) -> Run:
    """The run of a deployment in a time range, which is at most some hours long. Blocks.

    Raises:
        HistoryError: the store cannot be read.
    """
    for name, rows in (
        ("samples", _from_samples(store, deployment, from_ms, to_ms, recording)),
        (str(Kind.ROLLUP_5M), _from_rollups(store, deployment, from_ms, to_ms)),
    ):
        if rows.size:
            return _run(deployment, from_ms, to_ms, name, rows)
    return _run(deployment, from_ms, to_ms, "", from_rows(Kind.ROLLUP_5M, ()))


def _from_samples(
    store: HistoryStore,
    deployment: Deployment,
    from_ms: int,
    to_ms: int,
    recording: RecordingIntervals,
) -> Records:
    """Rows of the group, rolled up in buckets that begin at `from_ms`; the last may be shorter."""

    def read(kind: Kind, since_ms: int, columns: tuple[str, ...]) -> Records:
        wanted = _of_group(deployment, kind, since_ms, to_ms, columns)
        return _joined(store, wanted).select(columns)

    back_ms = from_ms - recording.back_ms
    raw = Raw(
        samples=_without_moves(read(Kind.SAMPLES, back_ms, SAMPLE_COLUMNS), from_ms),
        rounds=read(Kind.GROUP_SAMPLES, back_ms, ROUND_COLUMNS),
        events=read(Kind.EVENTS, from_ms, EVENT_COLUMNS),
    )
    # at least one: a version may have gone live just now
    buckets = max(1, -(-(to_ms - from_ms) // _STEP_MS))
    span = BucketSpan(kind=Kind.ROLLUP_5M, from_ms=from_ms, to_ms=from_ms + buckets * _STEP_MS)
    rows = roll_up(raw, span, cluster=deployment.cluster, interval_ms=recording.interval_ms)
    levels = np.array(rows.text("level").tolist(), object)
    return rows.take(np.flatnonzero(levels == "group"))


def _without_moves(samples: Records, from_ms: int) -> Records:
    """Without offsets before an instant: what moved until the sample after it is not counted.

    It moved under the version before, or under both.
    """
    before = samples.at_ms() < from_ms
    unknown = {
        name: np.where(before, UNKNOWN, samples.numbers(name))
        for name in ("committed_offset", "log_end_offset")
    }
    return Records(kind=samples.kind, columns={**samples.columns, **unknown})


def _from_rollups(store: HistoryStore, deployment: Deployment, from_ms: int, to_ms: int) -> Records:
    """Whole buckets only."""
    first_ms = -(-from_ms // _STEP_MS) * _STEP_MS
    last_ms = to_ms // _STEP_MS * _STEP_MS
    if first_ms >= last_ms:
        return from_rows(Kind.ROLLUP_5M, (), _MEASURED)
    wanted = _of_group(deployment, Kind.ROLLUP_5M, first_ms, last_ms, _MEASURED)
    return _joined(store, replace(wanted, level="group"))


def _of_group(
    deployment: Deployment, kind: Kind, from_ms: int, to_ms: int, columns: tuple[str, ...]
) -> HistoryRange:
    return HistoryRange(
        kind=kind,
        cluster=deployment.cluster,
        group=deployment.group,
        from_ms=from_ms,
        to_ms=to_ms,
        columns=columns,
    )


def _joined(store: HistoryStore, wanted: HistoryRange) -> Records:
    parts = list(store.read(wanted))
    return concat(parts) if parts else from_rows(wanted.kind, (), wanted.chosen)


def _run(deployment: Deployment, from_ms: int, to_ms: int, source: str, rows: Records) -> Run:
    total = {name: _total(rows, name) for name in _MEASURED}
    judged = [total[name] for name in ("ok_s", "warn_s", "err_s")]
    lag_max = rows.numbers("lag_max").max(initial=-1)
    times = rows.reals("time_lag_max_s")
    time_max = np.nan if np.isnan(times).all() else np.nanmax(times)
    rebalances = total["rebalances"]
    recorded_s = sum(seconds or 0.0 for seconds in judged)
    # the last status holds beyond the end, until the next sample is due
    within = min(1.0, (to_ms - from_ms) / 1000 / recorded_s) if recorded_s else 1.0
    judged = [None if seconds is None else seconds * within for seconds in judged]
    return Run(
        deployment=deployment,
        from_ms=from_ms,
        to_ms=to_ms,
        measured_from=source,
        recorded_s=recorded_s * within,
        lived_s=(to_ms - deployment.at_ms) / 1000,
        rates_over_s=total["consumed_s"],
        lag_avg=_per(total["lag_sum"], total["lag_known"]),
        lag_max=None if lag_max < 0 else int(lag_max),
        time_lag_max_s=None if np.isnan(time_max) else float(time_max),
        produced_per_s=_per(total["produced"], total["produced_s"]),
        consumed_per_s=_per(total["consumed"], total["consumed_s"]),
        ok_s=judged[0],
        warn_s=judged[1],
        err_s=judged[2],
        rebalances=None if rebalances is None else round(rebalances),
    )


def _total(rows: Records, name: str) -> float | None:
    """Sum of what is known; None when nothing is."""
    values = rows.columns[name]
    if not isinstance(values, np.ndarray):
        raise TypeError(f"{name} is not a column of numbers")
    known = values[values >= 0]  # unknown is -1, or not a number
    return float(known.sum()) if known.size else None


def _per(amount: float | None, of: float | None) -> float | None:
    return amount / of if amount is not None and of else None

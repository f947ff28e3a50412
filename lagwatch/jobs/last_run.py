"""Writes the outcome of a job's last run for node_exporter's textfile collector."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, unique
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import write_to_textfile
from prometheus_client.parser import text_string_to_metric_families

from lagwatch.metrics import table
from lagwatch.metrics.metric import Metric


@unique
class Outcome(StrEnum):
    """How a run ended; also the `after` of its event in the history."""

    DONE = "done"
    SET_ASIDE = "set_aside"
    """Done, except for unusable files or records, which are named and kept."""
    FAILED = "failed"

    @property
    def succeeded(self) -> bool:
        """True if a dependent job may start."""
        return self is not Outcome.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """One run that ended."""

    job: str
    outcome: Outcome
    started_ms: int
    ended_ms: int
    counts: Mapping[str, int] = field(default_factory=dict)
    """Counts by name, such as `rows_written`."""


def write_textfile(folder: Path, run: LastRun) -> Path:
    """Write `lagwatch_JOB.prom` in one step; after a failure it keeps the time of the last success.

    Raises:
        OSError: the folder cannot be written.
    """
    path = folder / f"lagwatch_{run.job}.prom"
    registry = CollectorRegistry()
    labels = {"job_name": run.job}
    _set(registry, table.JOB_LAST_RUN, labels, run.ended_ms / 1000)
    _set(registry, table.JOB_DURATION, labels, (run.ended_ms - run.started_ms) / 1000)
    _set(registry, table.JOB_SUCCEEDED, labels, float(run.outcome.succeeded))
    success_s = run.ended_ms / 1000 if run.outcome.succeeded else _last_success(path)
    if success_s is not None:
        _set(registry, table.JOB_LAST_SUCCESS, labels, success_s)
    if run.counts:
        counted = _gauge(registry, table.JOB_COUNT)
        for name, number in run.counts.items():
            counted.labels(job_name=run.job, what=name).set(number)
    folder.mkdir(parents=True, exist_ok=True)
    write_to_textfile(str(path), registry)
    return path


def _gauge(registry: CollectorRegistry, metric: Metric) -> Gauge:
    return Gauge(metric.name, metric.help, metric.labels, registry=registry)


def _set(
    registry: CollectorRegistry, metric: Metric, labels: Mapping[str, str], value: float
) -> None:
    _gauge(registry, metric).labels(**labels).set(value)


def _last_success(path: Path) -> float | None:
    """Time of the last success in the existing file; None when it has none."""
    try:
        families = list(text_string_to_metric_families(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None
    return next(
        (
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == table.JOB_LAST_SUCCESS.name
        ),
        None,
    )

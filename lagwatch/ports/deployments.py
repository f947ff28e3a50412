"""Deployments: list them, compare two, plan a rollback."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from lagwatch.core.rollback import RollbackPlan

SHORTEST_MS: Final = 60_000
LONGEST_MS: Final = 6 * 3_600_000
"""A comparison measures at most this many seconds of a deployment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A new version of a group's consumers, and the group's offsets when it went live."""

    cluster: str
    group: str
    at_ms: int
    """Also its ID: a group has one deployment per instant."""
    version: str
    note: str
    """Free text of the person who announced it; "" without."""
    offsets: Mapping[str, Sequence[int | None]]
    """Topic → committed offset by partition; None where none is known."""
    log_start: Mapping[str, Sequence[int | None]] = field(default_factory=dict)
    """The same for log start offsets."""
    log_end: Mapping[str, Sequence[int | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Measurements of a group at the end of the time in which a version was live.

    None is unknown. A rate is what moved divided by the time in which that was measured.
    """

    deployment: Deployment
    from_ms: int
    to_ms: int
    """The next deployment of the group, or now."""
    measured_from: str
    """samples | rollup_5m (whole buckets of five minutes) | "" where nothing was recorded."""
    recorded_s: float
    """How much of the time was recorded."""
    lived_s: float
    """How long the version was live, measured or not."""
    rates_over_s: float | None
    """The time in which rates were measured: between samples while this version was live."""
    lag_avg: float | None
    lag_max: int | None
    time_lag_max_s: float | None
    produced_per_s: float | None
    consumed_per_s: float | None
    ok_s: float | None
    """Time with this verdict."""
    warn_s: float | None
    err_s: float | None
    rebalances: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentDiff:
    """Two versions of a group's consumers, each measured at the end of the time it was live."""

    before: Run
    after: Run
    committed: int | None
    """Messages by which the committed offsets advanced between the two deployments."""


class Deployments(Protocol):
    """Records deployments, and answers questions about recorded ones. Nothing in Kafka is changed.

    Every method may raise `HistoryError`; all but `deployed` also answer for groups that are no
    longer watched. A deployment is named by its ID (`at_ms`), or by its version: then the last
    deployment of that version is meant.
    """

    async def deployed(self, cluster: str, group: str, *, version: str, note: str) -> Deployment:
        """Record that this version went live now; returns when the record is safe on disk.

        Raises:
            NotFoundError: the cluster or group is not known.
        """
        ...

    async def noted(self, cluster: str, group: str) -> tuple[Deployment, ...]:
        """The group's deployments, oldest first, as long as the history keeps events."""
        ...

    async def diff(
        self, cluster: str, group: str, before: str, after: str, *, last_ms: int
    ) -> DeploymentDiff:
        """Compare two; each run is measured over its last `last_ms`.

        Raises:
            NotFoundError: one of them is not known.
        """
        ...

    async def rollback_plan(self, cluster: str, group: str, deployment: str) -> RollbackPlan:
        """Offsets that would take the group back to a deployment, as of now.

        Raises:
            NotFoundError: the deployment is not known, or the group is not watched.
            RollbackError: offsets cannot set a group of this kind back.
        """
        ...

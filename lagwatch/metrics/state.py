"""The data of one scrape: copied on the event loop at one moment, then only read."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.metrics.explained import GroupExplanation
from lagwatch.ports.deployments import Deployment
from lagwatch.ports.history import RecorderHealth
from lagwatch.ports.queries import ClusterHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetrics:
    """One cluster. The mappings must not change any more."""

    health: ClusterHealth
    snapshot: ClusterSnapshot | None
    """None before the first round."""
    rebalances: Mapping[str, int] | None
    """Seen since the start, by group; None: not counted."""
    commits: int
    """Taken in since the start."""
    waiting_commits: int
    """Waiting for the next round of log end offsets."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """Failed rounds since the start, by `SourceError.kind`."""
    malformed: Mapping[str, int] = field(default_factory=dict)
    """Records that could not be decoded, by reason."""
    explained: tuple[GroupExplanation, ...] = ()
    """Groups in trouble."""
    collector_pid: int | None = None
    """Process id of the collector; None between two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeState:
    """Notices to one channel, counted since the start unless a field says otherwise."""

    delivered: int
    dead: int
    """Messages given up."""
    failed_attempts: int
    queued: int
    """Notices that wait now."""
    undelivered: int
    """Notices given up, and those that wait for a channel that fails; survives a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """State of the service."""

    version: str
    clusters: tuple[ClusterMetrics, ...]
    """Sorted by name."""
    recorder: RecorderHealth | None = None
    """None when no history is recorded."""
    open_incidents: Mapping[str, int] = field(default_factory=dict)
    """By cluster."""
    notices: Mapping[str, NoticeState] = field(default_factory=dict)
    """By channel."""
    deployments: tuple[Deployment, ...] = ()
    """The last one of each group since the start."""
    stood_still_s: float = 0.0
    """For how long this process did not run, since its start."""

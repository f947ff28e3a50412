"""Settings of a monitor, made from the configuration: the same for the service and for a replay."""

from dataclasses import dataclass, field
from typing import Final

from lagwatch.config.cluster import ClusterSettings
from lagwatch.config.evaluator import EvaluatorSettings, WindowSettings
from lagwatch.core.model import RuleSet
from lagwatch.core.rows import Limits
from lagwatch.monitor.freshness import FreshFor
from lagwatch.monitor.members import GroupPatterns

_HISTORY_MS: Final = 24 * 3_600_000
_AWAY_ROUNDS: Final = 1.5
"""A round that is left out is an absence; one that takes longer is not."""
_AWAY_AT_LEAST_MS: Final = 20_000
_LEAVES_WITHIN_MS: Final = 1_000
"""A job that has done its work commits and leaves."""
RECENT_S_PER_INTERVAL: Final = 10
"""How far back "was at the log end" looks, per interval of the window: Burrow keeps one log end
offset every ten seconds, as many as the window has intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorSettings:
    """Settings of a monitor."""

    intervals: int
    min_distance_ms: int
    expire_ms: int
    allowed_lag: int
    minimum_complete: float
    history_ms: int
    """How far back the log end history reaches."""
    rules: RuleSet = RuleSet.LAGWATCH
    stop_after_ms: int = 180_000
    stall_after_ms: int = 360_000
    loss_shown_ms: int = 3_600_000
    leave_ms: int = 6_000
    """From a job's last commit until its members are seen to have left."""
    polled_leave_ms: int = 30_000
    """`leave_ms` where offsets and groups are polled."""
    away_after_ms: int = 20_000
    """A partition that was not read for longer than this was away."""
    patterns: GroupPatterns = field(default_factory=GroupPatterns)
    fresh_for: FreshFor = field(default_factory=FreshFor)

    @property
    def limits(self) -> Limits:
        return Limits(
            allowed_lag=self.allowed_lag,
            minimum_complete=self.minimum_complete,
            recent_ms=self.intervals * RECENT_S_PER_INTERVAL * 1000,
            stop_after_ms=self.stop_after_ms,
            stall_after_ms=self.stall_after_ms,
            loss_shown_ms=self.loss_shown_ms,
            leave_ms=self.leave_ms,
            polled_leave_ms=self.polled_leave_ms,
        )


def monitor_settings(
    windows: WindowSettings, evaluator: EvaluatorSettings, cluster: ClusterSettings | None = None
) -> MonitorSettings:
    """The sections `[windows]`, `[evaluator]` and `[clusters.NAME]` as a monitor takes them."""
    interval_ms = 0 if cluster is None else round(cluster.log_end_interval_s * 1000)
    groups_ms = 0 if cluster is None else round(cluster.group_interval_s * 1000)
    leave_ms = max(6_000, interval_ms + _LEAVES_WITHIN_MS)
    ages = FreshFor()
    if cluster is not None:
        ages = FreshFor(
            log_ends_ms=round(cluster.stale_after_s * 1000),
            commits_ms=round(cluster.stale_after_s * 1000),
            polled_ms=round(cluster.polled_stale_after_s * 1000),
        )
    return MonitorSettings(
        intervals=windows.intervals,
        min_distance_ms=round(windows.min_distance_s * 1000),
        expire_ms=round(windows.expire_group_s * 1000),
        allowed_lag=evaluator.allowed_lag,
        minimum_complete=evaluator.minimum_complete,
        history_ms=_HISTORY_MS,
        rules=evaluator.rules,
        stop_after_ms=round(evaluator.stop_after_s * 1000),
        stall_after_ms=round(evaluator.stall_after_s * 1000),
        loss_shown_ms=round(evaluator.loss_shown_s * 1000),
        leave_ms=leave_ms,
        polled_leave_ms=max(30_000, groups_ms) + leave_ms,
        away_after_ms=max(_AWAY_AT_LEAST_MS, round(_AWAY_ROUNDS * interval_ms)),
        fresh_for=ages,
        patterns=GroupPatterns(
            read_committed="" if cluster is None else cluster.read_committed_groups,
            mirrored="" if cluster is None else cluster.mirrored_groups,
        ),
    )

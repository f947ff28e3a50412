"""What a monitor is told, from the configuration: the same for the service and for a replay."""

from typing import Final

from lagwatch.config.evaluator import EvaluatorSettings
from lagwatch.config.windows import WindowSettings
from lagwatch.monitor.cluster import MonitorSettings

_HISTORY_MS: Final = 24 * 3_600_000


def monitor_settings(windows: WindowSettings, evaluator: EvaluatorSettings) -> MonitorSettings:
    """The sections `[windows]` and `[evaluator]` as a monitor takes them."""
    return MonitorSettings(
        intervals=windows.intervals,
        min_distance_ms=round(windows.min_distance_s * 1000),
        expire_ms=round(windows.expire_group_s * 1000),
        allowed_lag=evaluator.allowed_lag,
        minimum_complete=evaluator.minimum_complete,
        history_ms=_HISTORY_MS,
    )

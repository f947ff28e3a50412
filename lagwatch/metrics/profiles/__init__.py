"""Names that other exporters use, so that dashboards and alerts written for them keep working.

Their names break rules that lagwatch's keep, so `promtool check metrics` objects to some of them.
"""

from typing import Final

from lagwatch.metrics.profiles.burrow import BURROW
from lagwatch.metrics.profiles.kafka_exporter import KAFKA_EXPORTER
from lagwatch.metrics.profiles.kafka_lag_exporter import KAFKA_LAG_EXPORTER
from lagwatch.metrics.profiles.kminion import KMINION
from lagwatch.metrics.source import Profile

PROFILES: Final = {
    profile.name: profile for profile in (BURROW, KAFKA_EXPORTER, KAFKA_LAG_EXPORTER, KMINION)
}

__all__ = ["PROFILES", "Profile"]

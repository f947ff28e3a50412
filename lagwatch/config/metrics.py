"""Section `[metrics]`: what /metrics exports."""

from typing import Annotated

from pydantic import Field

from lagwatch.config.section import Section


class MetricsSettings(Section):
    """What /metrics exports: always our own metrics, and on request those of other exporters."""

    partition_budget: Annotated[int, Field(ge=0, le=100_000_000)] = Field(
        default=0,
        description=(
            "maximum number of partitions, per cluster, that get series of their own: first "
            "those that are not OK, then those with the greatest lag; the rest is summed by "
            "group; 0 = all"
        ),
    )
    burrow: bool = Field(default=False, description="add Burrow's own names")
    kafka_exporter: bool = Field(default=False, description="add the names of kafka_exporter")
    kafka_lag_exporter: bool = Field(
        default=False, description="add the names of kafka-lag-exporter and klag-exporter"
    )
    kminion: bool = Field(default=False, description="add the names of KMinion")

    @property
    def profiles(self) -> tuple[str, ...]:
        """The exporters whose names are added."""
        switches = {
            "burrow": self.burrow,
            "kafka_exporter": self.kafka_exporter,
            "kafka_lag_exporter": self.kafka_lag_exporter,
            "kminion": self.kminion,
        }
        return tuple(name for name, on in switches.items() if on)

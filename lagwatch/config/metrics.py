"""Section `[metrics]`: what stands on /metrics."""

from typing import Annotated

from pydantic import Field

from lagwatch.config.section import Section


class MetricsSettings(Section):
    """Our own metrics always stand there; the names of other exporters can be added."""

    partition_budget: Annotated[int, Field(ge=0, le=100_000_000)] = Field(
        default=0,
        description="partitions of groups, per cluster, with series of their own: those that are"
        " not OK first, then those with the greatest lag; the others are summed by group;"
        " 0 means all",
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

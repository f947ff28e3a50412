"""Metrics for Prometheus: ours, and ours under the names of other exporters."""

from lagwatch.metrics.exporter import Exporter
from lagwatch.metrics.state import ClusterState, NoticeState, ServiceState

__all__ = ["ClusterState", "Exporter", "NoticeState", "ServiceState"]

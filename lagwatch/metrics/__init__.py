"""Metrics for Prometheus, under lagwatch's names and under those of other exporters."""

from lagwatch.metrics.exporter import Exporter
from lagwatch.metrics.state import ClusterMetrics, NoticeState, ServiceState

__all__ = ["ClusterMetrics", "Exporter", "NoticeState", "ServiceState"]

"""From a collector's reports to the windows, and from the windows to the snapshot.

The one place with mutable state, for one cluster at a time and one writer: the event loop.
"""

from lagwatch.monitor.cluster import ClusterMonitor

__all__ = ["ClusterMonitor"]

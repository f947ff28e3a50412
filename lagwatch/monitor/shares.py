"""The last reported states of share groups (KIP-932)."""

from collections import defaultdict
from collections.abc import Mapping

from lagwatch.core.model import SharePartition
from lagwatch.ports.reports import SharesSeen

OfGroup = Mapping[tuple[str, int], SharePartition]
"""By topic and partition."""


class Shares:
    """States of all share-partitions of a cluster. One owner writes."""

    def __init__(self) -> None:
        self.by_group: Mapping[str, OfGroup] = {}
        """Replaced with every change: a snapshot may keep it."""

    def take(self, report: SharesSeen) -> None:
        """Take in what changed."""
        changed: defaultdict[str, dict[tuple[str, int], SharePartition | None]] = defaultdict(dict)
        for (group, topic, partition), share in report.partitions.items():
            changed[group][topic, partition] = share
        by_group = dict(self.by_group)
        for group, partitions in changed.items():
            merged = {**by_group.pop(group, {}), **partitions}
            left = {place: share for place, share in merged.items() if share is not None}
            if left:
                by_group[group] = left
        self.by_group = by_group

    def clear(self) -> None:
        """A new collector reports all of them anew."""
        self.by_group = {}

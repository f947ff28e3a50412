"""The last reported states of share groups (KIP-932)."""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import SharePartition
from lagwatch.monitor.rows import RowTable
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

    def out_of_order(self, table: RowTable) -> NDArray[np.intp] | None:
        """Rows, sorted, that have done records behind one that is still unread; None: none."""
        if not self.by_group:
            return None
        rows = [
            row
            for group, shares in self.by_group.items()
            if any(share.completed for share in shares.values())
            for row in table.of_group(group).tolist()
            if (share := shares.get(table.identity(row)[1:])) is not None and share.completed
        ]
        return np.array(sorted(rows), np.intp) if rows else None

"""How jobs that keep their progress outside of Kafka tell it."""

from collections.abc import Mapping
from typing import Protocol

Positions = Mapping[str, Mapping[int, int]]
"""Topic → partition → the next offset to be read."""


class ProgressSink(Protocol):
    """Takes positions; the job becomes a group like any other."""

    def report(
        self, cluster: str, group: str, *, kind: str, positions: Positions, at_ms: int | None
    ) -> int:
        """Take positions in; returns their instant. The same instant again changes nothing.

        Args:
            cluster: whose topics these are.
            group: the name that the job is shown by.
            kind: what keeps the progress.
            positions: how far the job has come.
            at_ms: when it had come so far; None: now. A later one than now counts as now.

        Raises:
            NotFoundError: the cluster is not known.
            NameTakenError: Kafka itself has a group of this name.
        """
        ...

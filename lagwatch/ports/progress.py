"""Takes reports from jobs that keep their positions outside Kafka."""

from collections.abc import Mapping
from typing import Protocol

Positions = Mapping[str, Mapping[int, int]]
"""Topic → partition → the next offset to be read."""


class ProgressSink(Protocol):
    """Turns reported positions into a group like any other."""

    def report(
        self, cluster: str, group: str, *, kind: str, positions: Positions, at_ms: int | None
    ) -> int:
        """Take the positions; return their instant. The same instant again changes nothing.

        Args:
            cluster: whose topics these are.
            group: the name that the job is shown by.
            kind: what keeps the progress.
            positions: the next offset to be read of each partition.
            at_ms: when the job was at these positions; None, or an instant in the future: now.

        Raises:
            NotFoundError: the cluster is not known.
            NameTakenError: Kafka itself has a group of this name.
        """
        ...

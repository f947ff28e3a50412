"""Takes positions of jobs that keep them outside Kafka: reported by them, or read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Positions = Mapping[str, Mapping[int, int]]
"""Topic → partition → the next offset to be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """How a report was taken."""

    at_ms: int
    late: bool
    """An earlier report was of a later instant: only partitions that it did not name are taken."""
    not_visible: tuple[str, ...] = ()
    """Topics of the report that do not exist yet, or that may not be described; sorted."""


class ProgressSink(Protocol):
    """Turns reported positions into a group like any other."""

    def report(
        self, cluster: str, group: str, *, kind: str, positions: Positions, at_ms: int | None
    ) -> Taken:
        """Take the positions. The same instant again changes nothing.

        Args:
            cluster: whose topics these are.
            group: the name that the job is shown by.
            kind: what keeps the progress.
            positions: the next offset to be read of each partition.
            at_ms: when the job was at these positions; None, or an instant in the future: now.

        Raises:
            NotFoundError: the cluster is not known.
            NameTakenError: Kafka itself has a group of this name.
            PositionError: an instant too long ago, or a partition that the topic does not have.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How far a job had come at an instant."""

    positions: Positions
    at_ms: int | None
    """By the clock of what keeps the progress; None: not known."""


class ProgressReader(Protocol):
    """Reads the progress of one job from where the job keeps it."""

    @property
    def kind(self) -> str:
        """What keeps the progress."""
        ...

    async def read(self) -> Sequence[Step]:
        """The steps since the last call, oldest first, some of them at the first call.

        Raises:
            ProgressError: it cannot be read now; the text says why and what to do.
        """
        ...

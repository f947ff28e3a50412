"""Advice for autoscalers."""

from typing import Protocol

from lagwatch.core.scale import Goal, ScaleAdvice


class Scaling(Protocol):
    """Advises how many consumers a group should have."""

    def advice(self, cluster: str, group: str, goal: Goal) -> ScaleAdvice:
        """The newest advice; the first call starts observing the group.

        While data are missing the last good number stays, with the reason.

        Raises:
            NotFoundError: the cluster is not known, or the group is not and never was.
        """
        ...

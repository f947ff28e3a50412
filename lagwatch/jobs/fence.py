"""Proof that a run has its lock, looked at by whatever replaces rows for it."""

from typing import Protocol


class Fence(Protocol):
    """Says whether the run that makes rows still has its lock; goes to the workers."""

    @property
    def token(self) -> int:
        """Greater than that of every run before."""
        ...

    def check(self) -> None:
        """Call this right before something is replaced.

        Raises:
            JobError: `fenced`: another run has the lock by now.
        """
        ...

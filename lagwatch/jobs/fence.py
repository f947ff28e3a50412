"""Proof that a run still has its lock; checked before anything is written for the run."""

from collections.abc import Mapping
from typing import Any, Protocol

from lagwatch.jobs.state import JobState, Value
from lagwatch.ports.history import Allowed, always


class Fence(Protocol):
    """Says whether the run that makes rows still has its lock; goes to the workers."""

    @property
    def token(self) -> int:
        """Greater than that of every run before."""
        ...

    def check(self) -> None:
        """Call this right before something is written or deleted.

        Raises:
            JobError: `fenced`: another run has the lock by now.
        """
        ...


def allowed_by(fence: Fence | None) -> Allowed:
    """The check of a store that this run writes to; None: no other run can be at work."""
    return always if fence is None else fence.check


class FencedState:
    """A `JobState` that only the run that has the lock changes; any may read it."""

    def __init__(self, state: JobState, fence: Fence | None) -> None:
        self._state = state
        self._allow = allowed_by(fence)

    def load(self, name: str) -> Value:
        return self._state.load(name)

    def save(self, name: str, value: Mapping[str, Any]) -> None:
        self._allow()
        self._state.save(name, value)

    def swap(self, name: str, before: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
        self._allow()
        return self._state.swap(name, before, value)

    def delete(self, name: str) -> None:
        self._allow()
        self._state.delete(name)

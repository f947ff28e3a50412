"""How a run can end."""

from enum import StrEnum, unique


@unique
class Outcome(StrEnum):
    """How a run ended; also the `after` of its event in the history."""

    DONE = "done"
    SET_ASIDE = "set_aside"
    """Done, but for files or records that could not be used: they are named and kept."""
    FAILED = "failed"

    @property
    def succeeded(self) -> bool:
        """May what builds on it begin?"""
        return self is not Outcome.FAILED

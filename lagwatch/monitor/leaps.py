"""Did a consumer skip what it leapt over, or did it only become faster?

A consumer that fetches ahead goes on reading what was deleted meanwhile, and may do so at any
speed: when what it writes to recovers, it passes the log start at a leap and loses nothing. One
whose next message was deleted leaps as well, and then reads on as slowly as before. So the commits
after a leap decide.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Final

_COMMITS: Final = 4
"""So many commits are waited for, at most."""


@dataclass(slots=True, kw_only=True)
class Leap:
    """A commit too far from the one before it to have been read at the usual speed."""

    before: int
    """Committed offset before it."""
    end: int
    """End of the messages that were deleted of those between."""
    offset: int
    """Committed offset after it."""
    took_ms: int
    usual: float
    """Messages that it had read in such a time as a rule; some."""
    at_ms: int
    passed: int = 0
    """Commits since then that passed a log start as well, far from the log end."""
    _commits: int = 0
    _read: int = 0
    """Since the leap."""

    def is_skip(self, offset: int, at_ms: int, lag: int, *, passes: bool) -> bool | None:
        """Take in the next commit; True: messages were skipped, None: that is not known yet.

        `passes`: it passed a log start: then it may have leapt again. At the log end there is
        nothing to read fast.
        """
        self._commits += 1
        read, took_ms = offset - self.offset, at_ms - self.at_ms
        more_to_read, self._read = lag > read - self._read, read
        self.passed += passes and more_to_read
        # is it nearer to the usual speed than to that of the leap?
        between = sqrt(self.usual * (self.offset - self.before))
        slow = read * self.took_ms < between * took_ms
        if slow and more_to_read:
            return True
        if not slow and not passes:
            return False
        return None if self._commits < _COMMITS else self.passed == self._commits

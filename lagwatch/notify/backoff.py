"""How long a channel waits before it sends again; all on the monotonic clock, in seconds."""

from random import Random
from typing import Final

from lagwatch.backoff import Backoff
from lagwatch.errors import Refusal

_FIRST_S: Final = 1.0
_LONGEST_S: Final = 300.0
_SLOW_FIRST_S: Final = 30.0
_SLOW_LONGEST_S: Final = 900.0
_SLOW: Final = (Refusal.NOT_ACCEPTED, Refusal.TOO_LARGE)
"""Too large although it cannot be made smaller: the receiver takes nothing now."""


class ChannelBackoff:
    """From a second to five minutes; 30 s to 15 minutes where somebody must act (401, 404)."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self._usual = Backoff(first_s=_FIRST_S, longest_s=_LONGEST_S, chance=chance)
        self._slow = Backoff(first_s=_SLOW_FIRST_S, longest_s=_SLOW_LONGEST_S, chance=chance)

    def reset(self) -> None:
        """Begin again after a success."""
        self._usual.reset()
        self._slow.reset()

    def next_s(self, retry_after_s: float | None, refusal: Refusal = Refusal.UNAVAILABLE) -> float:
        """After one more failure; not before the receiver wants to be asked again.

        An address that is wrong from now on says nothing about the outage before it: failures of
        each kind count by themselves.
        """
        backoff = self._slow if refusal in _SLOW else self._usual
        return max(backoff.next_s(), retry_after_s or 0.0)


class Allowance:
    """Messages that may go now: a bucket that fills evenly and holds a minute's worth."""

    def __init__(self, per_minute: int, *, now_s: float) -> None:
        self._per_s = per_minute / 60
        self._most = float(per_minute)
        self._held = self._most
        self._at_s = now_s

    def take(self, now_s: float) -> None:
        """One message goes; check `wait_s` before."""
        self._fill(now_s)
        self._held -= 1

    def give_back(self) -> None:
        """The message that was taken does not count."""
        self._held += 1

    def wait_s(self, now_s: float) -> float:
        """Until the next message may go; 0 = now."""
        self._fill(now_s)
        return 0.0 if self._held >= 1 else (1 - self._held) / self._per_s + 0.001

    def _fill(self, now_s: float) -> None:
        self._held = min(self._most, self._held + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s

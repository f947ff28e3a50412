"""How long to wait before a message is tried again."""

from dataclasses import dataclass
from random import Random
from typing import Final

_FIRST_S: Final = 1.0
_LONGEST_S: Final = 300.0
_JITTER: Final = 0.5
_MOST_DOUBLINGS: Final = 20


@dataclass(frozen=True, slots=True)
class Backoff:
    """Doubles from one second to five minutes, less up to half of it by chance."""

    chance: Random

    def delay_s(self, attempts: int, retry_after_s: float | None) -> float:
        """After so many failed attempts; not before the receiver wants to be asked again."""
        longest_s = min(_LONGEST_S, _FIRST_S * 2.0 ** min(attempts - 1, _MOST_DOUBLINGS))
        delay_s = longest_s * (1 - _JITTER * self.chance.random())
        return max(delay_s, retry_after_s or 0.0)


class Allowance:
    """Messages that may go now: a bucket that fills evenly and holds a minute's worth."""

    def __init__(self, per_minute: int, *, now_ms: int) -> None:
        self._per_ms = per_minute / 60_000
        self._most = float(per_minute)
        self._held = self._most
        self._at_ms = now_ms

    def take(self, now_ms: int) -> None:
        """One message goes; check `wait_ms` before."""
        self._fill(now_ms)
        self._held -= 1

    def wait_ms(self, now_ms: int) -> int:
        """Until the next message may go; 0 = now."""
        self._fill(now_ms)
        return 0 if self._held >= 1 else int((1 - self._held) / self._per_ms) + 1

    def _fill(self, now_ms: int) -> None:
        self._held = min(self._most, self._held + max(0, now_ms - self._at_ms) * self._per_ms)
        self._at_ms = now_ms

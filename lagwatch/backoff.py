"""Growing delays between attempts."""

from random import Random
from typing import Final

_SHORTENED_BY: Final = 0.5
_MOST_DOUBLINGS: Final = 20
"""More would overflow a float some day."""


class Backoff:
    """Delays that double from `first_s` to `longest_s`, each shortened by chance to 50-100 %.

    The chance spreads the attempts of several instances.
    """

    def __init__(self, *, first_s: float, longest_s: float, chance: Random | None = None) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._chance = chance or Random()  # noqa: S311 spreads load, guards nothing
        self._failures = 0

    def reset(self) -> None:
        """Begin again with `first_s`, after a success."""
        self._failures = 0

    def next_s(self) -> float:
        """Delay after one more failure."""
        self._failures += 1
        return self.delay_s(self._failures)

    def delay_s(self, failures: int, retry_after_s: float | None = None) -> float:
        """Delay after so many failures in a row, at least what the receiver asked for."""
        doubled_s = self._first_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS)
        share = 1 - _SHORTENED_BY * self._chance.random()
        return max(min(self._longest_s, doubled_s) * share, retry_after_s or 0.0)

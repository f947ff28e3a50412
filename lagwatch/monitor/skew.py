"""How far lagwatch's clock is ahead of Kafka's, from commits as they arrive."""

from typing import Final

from lagwatch.core.model import UNKNOWN

TOLERATED_MS: Final = 2_000
"""A difference up to this is not corrected: it may be the time that commits take to arrive."""
_BUCKET_MS: Final = 300_000
_SAMPLES: Final = 10
_SAMPLES_ANEW: Final = 3
"""After a look that a clock was set: few, because until then instants may be hours apart."""


class ClockSkew:
    """A commit arrives after it was made, and some arrive at once: the quickest shows the skew.

    The least time that commits seemed to take on their way, over five to ten minutes.
    """

    def __init__(self) -> None:
        self._least: int | None = None
        self._least_before: int | None = None
        self._since_ms = UNKNOWN
        self._samples = 0
        self._least_here: int | None = None
        self._least_here_before: int | None = None
        self._samples_here = 0
        """By this process since the clock may have been set."""
        self._from_ms = UNKNOWN
        """Reports from before that are by the clock that was."""
        self._until_ms: int | None = None
        """Until one comes from before that, reports are by the clock that was."""
        self._before: tuple[int, int] | None = None
        """What was known, and until when, when it was last forgotten."""

    @property
    def seen(self) -> tuple[int | None, int | None, int, int]:
        """All that was seen, for a checkpoint."""
        return self._least, self._least_before, self._since_ms, self._samples

    @seen.setter
    def seen(self, seen: tuple[int | None, int | None, int, int]) -> None:
        self._least, self._least_before, self._since_ms, self._samples = seen

    def see(self, *, newest_commit_ms: int, observed_ms: int) -> None:
        """A batch of commits was read just as they were made."""
        too_late = self._until_ms is not None and observed_ms > self._until_ms
        if observed_ms < self._from_ms or too_late:
            return
        self._until_ms = None
        took_ms = observed_ms - newest_commit_ms
        if self._since_ms < 0 or not 0 <= observed_ms - self._since_ms < _BUCKET_MS:
            self._since_ms = observed_ms
            self._least_before, self._least = self._least, None
            self._least_here_before, self._least_here = self._least_here, None
        self._least = took_ms if self._least is None else min(self._least, took_ms)
        self._samples += 1
        here = self._least_here
        self._least_here = took_ms if here is None else min(here, took_ms)
        self._samples_here += 1

    def set_back(self, at_ms: int) -> None:
        """The clock was set back to this instant."""
        self._from_ms = min(self._from_ms, at_ms)

    def doubt(self, at_ms: int) -> None:
        """The clock was set back, to well before this instant, from well after it.

        What was seen before witnesses nothing, nor do reports that wait to be taken in.
        """
        self._until_ms = at_ms
        self._see_anew()

    def _see_anew(self) -> None:
        self._least_here = self._least_here_before = None
        self._samples_here = 0

    def forget(self, last_ms: int, now_ms: int) -> None:
        """The clock may have been set after an instant: what was seen before says nothing more.

        Reports that were made before, and wait to be taken in, are left out.

        The first commits after a time in which lagwatch did not run may have waited to be read.
        """
        if self.known_ms is not None:
            self._before = self.known_ms, last_ms
        self._from_ms, self._until_ms = now_ms, None
        self._least = self._least_before = None
        self._see_anew()
        self._samples = min(self._samples, _SAMPLES - _SAMPLES_ANEW)

    def set_ahead(self) -> tuple[int, int] | None:
        """By how much the clock was set ahead after which instant; once, as soon as it is known.

        None as well if lagwatch did not run: then the clock is as far ahead as it was.
        """
        if self._before is None or self.known_ms is None:
            return None
        (before_ms, last_ms), self._before = self._before, None
        by_ms = self.known_ms - before_ms
        return (last_ms, by_ms) if by_ms > TOLERATED_MS else None

    @property
    def known_ms(self) -> int | None:
        """Estimated lead of lagwatch's clock, negative when it is behind; None: not known yet."""
        if self._samples < _SAMPLES:
            return None
        known = [each for each in (self._least, self._least_before) if each is not None]
        return min(known, default=None)

    @property
    def witnessed_ms(self) -> int | None:
        """The lead as far as this process saw it since the clock may have been set; None: not yet.

        What an earlier process saw says nothing of the clock that this one was started by.
        """
        if self._samples_here < _SAMPLES_ANEW:
            return None
        known = (each for each in (self._least_here, self._least_here_before) if each is not None)
        return min(known, default=None)

    @property
    def corrected_ms(self) -> int:
        """What instants of lagwatch's clock are corrected by: 0 while it is within tolerance."""
        known = self.known_ms
        return 0 if known is None or abs(known) <= TOLERATED_MS else known

"""Which messages a receiver refuses while it accepts others, so that they delay no other.

A receiver that answers 500 may be down, or fail on one notice. The difference shows when another
message passes: every wait of the back-off is spent on the message that was tried least, so finding
it out takes no more requests than trying the same message again.
"""

from collections.abc import Collection
from dataclasses import dataclass
from random import Random
from typing import Final

from lagwatch.backoff import Backoff
from lagwatch.errors import NotifyError, Refusal
from lagwatch.notify.notice import Message

_OF_THE_MESSAGE: Final = (Refusal.FAILED, Refusal.CUT, Refusal.TOO_LARGE)
"""Refusals that may be due to what is in the message."""
_TRIES_BEFORE_SPLIT: Final = 3
_BLIND_SPLITS: Final = 3
"""How often a message is split while nothing passes: 8 parts, which a receiver that was down for
long gets instead of one."""
_PROBE_AFTER_S: Final = 10.0
_FIRST_S: Final = 1.0
_LONGEST_S: Final = 900.0
_REFUSED_FOR_GOOD: Final = 8
"""How often a notice is refused while others pass until it is given up: two to four minutes, in
which a receiver that is being deployed may refuse one message and take the next."""


@dataclass(slots=True)
class _Failure:
    """The last failure of a message."""

    successes: int
    """Of the channel, before it; of a message that is refused, before the first."""
    at_s: float


@dataclass(slots=True)
class _Aside:
    """A message that fails while others pass."""

    due_s: float
    since_ms: int
    error: str
    successes: int
    """Of the channel, before it failed last."""
    refused: bool
    """What is in it was."""
    beside: int
    """How often it was, while others passed."""


class Suspects:
    """Messages of a channel that failed; all of it on the monotonic clock, in memory."""

    def __init__(self, chance: Random) -> None:
        self._backoff = Backoff(first_s=_FIRST_S, longest_s=_LONGEST_S, chance=chance)
        self._successes = 0
        self._failures: dict[str, _Failure] = {}
        self._aside: dict[str, _Aside] = {}
        self._row: dict[str, bool] = {}
        """Messages that failed since the last success, and whether the reason may be in them."""
        self._probe_s = 0.0

    def passed(self, identity: str, now_s: float) -> None:
        """A message was delivered: what was refused while none was may pass now, too."""
        for aside in self._aside.values():
            if aside.refused and aside.successes == self._successes:
                aside.due_s = now_s
        self._successes += 1
        self._row.clear()
        self._drop(identity)

    def keep_only(self, identities: Collection[str]) -> None:
        """Forget messages that no longer exist."""
        for identity in {*self._failures, *self._aside} - {*identities}:
            self._drop(identity)

    def trouble(self) -> tuple[int | None, str]:
        """(since when a message is set aside, its last error); (None, "") if none is."""
        oldest = min(self._aside.values(), key=lambda aside: aside.since_ms, default=None)
        return (None, "") if oldest is None else (oldest.since_ms, oldest.error)

    @property
    def any(self) -> bool:
        return bool(self._failures or self._aside)

    def is_aside(self, identity: str) -> bool:
        return identity in self._aside

    def blamed(self, message: Message, error: NotifyError) -> bool:
        """True if the message is the reason for its failure, not the receiver."""
        if message.id in self._aside or error.refusal is Refusal.TOO_LARGE:
            return True
        known = self._failures.get(message.id)
        before = 0 if known is None else known.successes
        refused = error.refusal in _OF_THE_MESSAGE and error.retry_after_s is None
        # it failed before, others passed, and it fails again
        return refused and message.attempts > 0 and self._successes > before

    def others_passed(self, message: Message, now_s: float) -> bool:
        """True if others passed since it, or the message that it is a part of, was refused."""
        known = self._failures.setdefault(message.id, _Failure(self._successes, now_s))
        return self._successes > known.successes

    def refused_for_good(self, message: Message, error: NotifyError) -> bool:
        """True if a notice is refused once more that was refused while others passed."""
        known = self._aside.get(message.id)
        often = known is not None and known.beside >= _REFUSED_FOR_GOOD - 1
        return often and error.refusal is Refusal.CONTENT

    def failed(self, message: Message, error: NotifyError, now_s: float) -> float | None:
        """Note a failure; returns the seconds since the message failed before, None: unknown."""
        known = self._failures.get(message.id)
        successes = self._successes
        if known is not None and error.refusal is Refusal.CONTENT:
            successes = known.successes  # that others passed once shows that it is the message
        self._failures[message.id] = _Failure(successes, now_s)
        self._row[message.id] = (
            error.refusal in _OF_THE_MESSAGE
            and error.retry_after_s is None
            and len(message.notices) == 1
            and message.attempts + 1 >= _TRIES_BEFORE_SPLIT
        )
        self._probe_s = now_s + _PROBE_AFTER_S
        return None if known is None else now_s - known.at_s

    def to_split(self, message: Message, error: NotifyError, *, blamed: bool) -> bool:
        """True if smaller messages may show which notice fails."""
        if error.refusal is not Refusal.FAILED and not blamed:
            return False
        if len(message.notices) == 1 or error.retry_after_s is not None:
            return False
        tried = message.attempts + 1 >= _TRIES_BEFORE_SPLIT
        return blamed or (tried and message.splits < _BLIND_SPLITS)

    def divided(self, identity: str, parts: Collection[str]) -> None:
        """A message was split: its parts have failed with it."""
        if not parts:
            return
        known = self._failures.pop(identity, None)
        if known is not None:
            self._failures |= dict.fromkeys(parts, known)
        self._aside.pop(identity, None)
        self._row.pop(identity, None)
        self._row |= dict.fromkeys(parts, False)

    def set_aside(self, message: Message, error: NotifyError, now_s: float, now_ms: int) -> float:
        """Retry a message by itself, while others go on; returns the seconds until then."""
        known = self._aside.get(message.id)
        delay_s = self._backoff.delay_s(message.attempts + 1, error.retry_after_s)
        since_ms = now_ms if known is None else known.since_ms
        beside = self._successes > self._failures[message.id].successes
        self._aside[message.id] = _Aside(
            due_s=now_s + delay_s,
            since_ms=since_ms,
            error=str(error),
            refused=error.refusal is Refusal.CONTENT,
            successes=self._successes,
            beside=int(beside) + (0 if known is None else known.beside),
        )
        return delay_s

    def waiting(self, now_s: float) -> dict[str, float]:
        """Messages set aside that are not due yet, with the seconds until they are."""
        left = {identity: aside.due_s - now_s for identity, aside in self._aside.items()}
        return {identity: left_s for identity, left_s in left.items() if left_s > 0}

    def lone(self) -> str:
        """The only message that failed since the last success, if the reason may be in it; ""."""
        if len(self._row) != 1:
            return ""
        ((identity, suspect),) = self._row.items()
        return identity if suspect else ""

    def probe_in_s(self, now_s: float) -> float:
        """Seconds until another message than `lone` may show whether the receiver is down."""
        return self._probe_s - now_s

    def _drop(self, identity: str) -> None:
        self._failures.pop(identity, None)
        self._aside.pop(identity, None)

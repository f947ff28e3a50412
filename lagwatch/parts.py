"""Keeps the parts of the service apart: an error in one of them ends none of the others.

Errors that are to be expected are handled where they occur. What arrives here is a defect of
lagwatch or of a library: it is logged with its traceback, the health of the service names the part,
and the part is tried again.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from lagwatch.backoff import Backoff
from lagwatch.clock import Clock
from lagwatch.core.words import counted

_FIRST_S: Final = 1.0
_LONGEST_S: Final = 60.0
_SOUND_AFTER_S: Final = 300.0
"""A part that has run for so long without an error is sound again."""

_log = structlog.get_logger()


@dataclass(slots=True, kw_only=True)
class _Failures:
    """Errors of a part, one after the other."""

    backoff: Backoff = field(
        default_factory=lambda: Backoff(first_s=_FIRST_S, longest_s=_LONGEST_S)
    )
    number: int = 0
    kind: str = ""
    """The type of the last error. Not its text, which may hold secrets."""
    logged: str = ""
    """The error whose traceback is in the log."""
    runs_since_s: float | None = None
    """When it was begun again; None: not yet."""


class Parts:
    """Runs the parts of one service; used on its event loop. A part is named by a few words."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failed: dict[str, _Failures] = {}

    async def keep(self, part: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run a part until it returns; begin it again, after a growing delay, when it raises."""
        while True:
            if part in self._failed:
                self._failed[part].runs_since_s = self._clock.monotonic_s()
            try:
                await run()
            except Exception as error:  # noqa: BLE001 whatever it is, the other parts go on
                if self._is_sound(part):
                    self._failed.pop(part, None)
                delay_s = self._note(part, error).backoff.next_s()
                await self._clock.sleep(delay_s)
            else:
                return

    def attempt(self, part: str, call: Callable[[], object]) -> None:
        """Call what the next round calls again, whether it raises or not."""
        try:
            call()
        except Exception as error:  # noqa: BLE001 as above
            self._note(part, error)
        else:
            self._failed.pop(part, None)

    def failures(self, part: str) -> int:
        """How often a part has failed since it was sound last."""
        return 0 if self._is_sound(part) else self._failed[part].number

    def problem(self, part: str) -> str:
        """What to say of a part that fails; "" if it is sound."""
        if self._is_sound(part):
            return ""
        found = self._failed[part]
        return (
            f"{part} failed {counted(found.number, 'time')} ({found.kind}); lagwatch tries again "
            "by itself, and its log says more"
        )

    def problems(self, *, of: str = "") -> tuple[str, ...]:
        """The same of all parts whose names begin with `of`."""
        named = (self.problem(part) for part in sorted(self._failed) if part.startswith(of))
        return tuple(filter(None, named))

    def _is_sound(self, part: str) -> bool:
        found = self._failed.get(part)
        if found is None:
            return True
        since_s = found.runs_since_s
        return since_s is not None and self._clock.monotonic_s() - since_s >= _SOUND_AFTER_S

    def _note(self, part: str, error: Exception) -> _Failures:
        found = self._failed.setdefault(part, _Failures())
        cause = _first(error)
        found.number += 1
        found.kind = type(cause).__name__
        found.runs_since_s = None
        if found.logged != repr(cause):  # the next round may raise the same, a second later
            found.logged = repr(cause)
            _log.error("part_failed", part=part, times=found.number, exc_info=error)
        return found


def _first(error: Exception) -> Exception:
    """The error that made a group of tasks end."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error

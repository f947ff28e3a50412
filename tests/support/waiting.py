"""Waiting for a condition, never for a time."""

import threading
import time
from collections.abc import Callable
from typing import Final

_never = threading.Event()
_SHORTEST_S: Final = 0.02
_LONGEST_S: Final = 0.2
"""Between two looks, when little or much time has passed."""


def eventually(
    condition: Callable[[], bool],
    what: str,
    *,
    timeout_s: float = 60.0,
    why_not: Callable[[], str] = str,
) -> None:
    """Return once `condition()` is true; fail when it stays false, naming `what` was awaited.

    `why_not` is asked then, and said too.
    """
    began_s = time.monotonic()
    while True:
        asked_s = time.monotonic()
        if condition():
            return
        now_s = time.monotonic()
        late = now_s >= began_s + timeout_s
        assert not late, f"waited {timeout_s} s in vain for: {what} {why_not()}"
        # at most half of the time is spent on asking: others need the processor to get there
        _never.wait(max(_SHORTEST_S, now_s - asked_s, min((now_s - began_s) / 50, _LONGEST_S)))

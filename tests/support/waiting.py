"""Waiting for a condition, never for a time."""

import threading
import time
from collections.abc import Callable

_never = threading.Event()


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
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        late = time.monotonic() >= deadline_s
        assert not late, f"waited {timeout_s} s in vain for: {what} {why_not()}"
        _never.wait(0.02)

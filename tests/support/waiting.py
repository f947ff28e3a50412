"""Waiting for a condition, never for a time."""

import threading
import time
from collections.abc import Callable

_never = threading.Event()


def eventually(condition: Callable[[], bool], what: str, *, timeout_s: float = 60.0) -> None:
    """Return once `condition()` is true; fail when it stays false, naming `what` was awaited."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"waited {timeout_s} s in vain for: {what}"
        _never.wait(0.02)

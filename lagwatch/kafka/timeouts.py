"""How long to wait for a broker that may be down."""

from typing import Final

REQUEST_TIMEOUT_S: Final = 5.0
"""Deadline of a request; a broker that needs longer counts as not answering."""
GRACE_S: Final = 2.0
"""The client library keeps its deadlines; this is for a busy machine, and for when it does not."""
_SHORT_S: Final = 1.0
_FULL_EVERY: Final = 4


class Patience:
    """Full deadlines as long as answers come; after a miss short ones, and every 4th time full.

    So a dead broker delays others only shortly, and one that is only slow is heard again.
    """

    def __init__(self) -> None:
        self._missed = 0

    @property
    def timeout_s(self) -> float:
        return REQUEST_TIMEOUT_S if self._missed % _FULL_EVERY == 0 else _SHORT_S

    def note(self, *, answered: bool) -> None:
        """Record how a round ended."""
        self._missed = 0 if answered else self._missed + 1

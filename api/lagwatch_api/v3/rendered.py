"""Answers of the current round, kept as bytes.

Between two rounds a group's answer does not change, and several clients ask for it.
"""

from dataclasses import dataclass, field
from typing import Final

_MAX_BYTES: Final = 4 * 1024 * 1024
"""Per cluster. What does not fit is rendered again for every request."""


@dataclass(slots=True)
class _Round:
    number: int
    bodies: dict[bytes, bytes] = field(default_factory=dict)
    size_bytes: int = 0


class RenderedAnswers:
    """Bodies by cluster and path; those of a round go when the next one comes."""

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rounds: dict[str, _Round] = {}

    def get(self, cluster: str, number: int, path: bytes) -> bytes | None:
        """What was answered to this path in round `number`."""
        current = self._rounds.get(cluster)
        if current is None or current.number != number:
            return None
        return current.bodies.get(path)

    def put(self, cluster: str, number: int, path: bytes, body: bytes) -> None:
        """Keep an answer, if there is room. `cluster` must exist: it is never forgotten."""
        current = self._rounds.get(cluster)
        if current is None or current.number != number:
            current = self._rounds[cluster] = _Round(number)
        size_bytes = len(path) + len(body)
        if current.size_bytes + size_bytes <= self._max_bytes:
            current.bodies[path] = body
            current.size_bytes += size_bytes

    def clear(self) -> None:
        """Forget all, because what was answered may not hold any more."""
        self._rounds.clear()

"""Parts of undelivered messages that a receiver accepted: it is not to get them twice.

A message that failed in part is sent again as a whole. It may have been split by then, or hold
newer news as well: what was accepted is remembered by notice, and not by message.
"""

from collections.abc import Hashable, Iterable
from typing import Final

_MOST_NOTICES: Final = 20_000


class Accepted:
    """Of each notice the requests that were accepted; not kept over a restart."""

    def __init__(self) -> None:
        self._requests: dict[str, set[Hashable]] = {}
        """By the key of a notice, oldest first."""

    def add(self, keys: Iterable[str], request: Hashable = None) -> None:
        """Note a request about these notices; beyond the limit the oldest notice is forgotten."""
        for key in keys:
            self._requests.setdefault(key, set()).add(request)
        while len(self._requests) > _MOST_NOTICES:
            del self._requests[next(iter(self._requests))]

    def has(self, key: str, request: Hashable = None) -> bool:
        return request in self._requests.get(key, ())

    def forget(self, keys: Iterable[str]) -> None:
        """The message of these notices is delivered."""
        for key in keys:
            self._requests.pop(key, None)

"""The metrics exposition."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

# metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposition:
    """An answer on `/metrics`."""

    content_type: str
    content_encoding: str
    """gzip, or "" for none."""
    size_bytes: int
    """Of all chunks."""
    chunks: Iterable[bytes]
    """To be read once."""


class Metrics(Protocol):
    """What Prometheus scrapes: one consistent moment; never asks Kafka."""

    def answered(self, *, method: str, route: str, status: int, took_s: float) -> None:
        """Count an answer; the values of the strings must be few: routes, not paths.

        `took_s` are the seconds until the answer began.
        """
        ...

    async def scrape(self, *, accept: str, accept_encoding: str) -> Exposition:
        """The newest moment; the arguments are the headers of the same names, "" when absent."""
        ...

"""How long brokers keep the offsets of a group without members: sets expiry apart from deletion."""

from collections.abc import Sequence
from typing import Final

from lagwatch.pollers.facts import Facts
from lagwatch.ports.kafka import OffsetsRetentionSource
from lagwatch.ports.reports import SourceKind

RETENTION_EVERY_S: Final = 300.0
"""Brokers' configuration rarely changes."""


class RetentionPoller:
    """Asks brokers from time to time; what was known stays when they refuse or do not answer."""

    source = SourceKind.GROUPS

    def __init__(self, retention: OffsetsRetentionSource, *, facts: Facts) -> None:
        self._source = retention
        self._facts = facts

    async def poll_once(self) -> Sequence[str]:
        """One question to all brokers.

        Raises:
            SourceError: not all have answered; it is asked again soon.
        """
        found_ms = await self._source.shortest_ms()
        self._facts.offsets_retention_refused = found_ms is None
        if found_ms is not None:
            self._facts.offsets_retention_ms = found_ms
        await self._facts.send(now=True)
        return ()

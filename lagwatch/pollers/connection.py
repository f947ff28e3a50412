"""Lets the client library speak, and hears when it has lost the whole cluster."""

from collections.abc import Awaitable, Callable, Sequence

from lagwatch.ports import SourceKind


class ConnectionPoller:
    """Hears the client library's events, so that they never pile up.

    `listen` raises a `SourceError` while no broker can be spoken to.
    """

    source = SourceKind.CONNECTION

    def __init__(self, listen: Callable[[], Awaitable[None]]) -> None:
        self._listen = listen

    async def poll_once(self) -> Sequence[str]:
        await self._listen()
        return ()

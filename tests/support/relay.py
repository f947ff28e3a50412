"""A TCP relay on loopback that can be cut and mended, for connections that stream."""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

_HOST = "127.0.0.1"
_DEADLINE_S = 10


class Relay:
    """Hands bytes on, both ways, on a port that stays the same."""

    def __init__(self, upstream_port: int, loop: asyncio.AbstractEventLoop) -> None:
        self._upstream_port = upstream_port
        self._loop = loop
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.port = 0

    def mend(self) -> None:
        """Accept connections."""
        self._run(self._listen())

    def cut(self) -> None:
        """Break all connections and refuse new ones."""
        self._run(self._close())

    def lead_to(self, upstream_port: int) -> None:
        """Connections lead to another server from now on."""
        self.cut()
        self._upstream_port = upstream_port
        self.mend()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_DEADLINE_S)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, _HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        upstream = None
        try:
            back, upstream = await asyncio.open_connection(_HOST, self._upstream_port)
            await asyncio.gather(_copy(reader, upstream), _copy(back, writer))
        except (OSError, asyncio.CancelledError):
            pass  # one side went, or `cut`
        finally:
            self._open.discard(task)
            for end in filter(None, (writer, upstream)):
                end.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


@contextmanager
def relaying(upstream_port: int) -> Iterator[Relay]:
    """A relay that is open at first."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="relay")
    thread.start()
    relay = Relay(upstream_port, loop)
    try:
        relay.mend()
        yield relay
        relay.cut()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_DEADLINE_S)
        loop.close()

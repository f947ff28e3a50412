"""A TCP proxy on loopback that does to connections what networks do at times."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, Final

_HOST: Final = "127.0.0.1"
_DEADLINE_S: Final = 10
_LATENCY_S: Final = 0.4
_BETWEEN_RESETS_S: Final = 1.0
_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER of 0 s: closing sends RST."""


class Fault(StrEnum):
    """What is done to connections, those that are open and new ones."""

    NONE = "none"
    LATENCY = "latency"
    """Everything takes 0.4 s longer, each way."""
    RESETS = "resets"
    """All connections are reset, once a second."""
    BLACK_HOLE = "black hole"
    """Nothing comes through, and neither end learns of it; afterwards what was sent arrives."""
    HALF_OPEN = "half-open"
    """The broker's end is gone, which the client hears when it sends something afterwards."""


class ShakyLink:
    """The way to one port; `fault` may be set at any time."""

    def __init__(self, port: int, loop: asyncio.AbstractEventLoop) -> None:
        self.port = port
        self.upstream_port = 0
        self._fault = Fault.NONE
        self._loop = loop
        self._passes = asyncio.Event()
        self._passes.set()
        self._open: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._deaf: set[asyncio.StreamWriter] = set()
        """Clients whose broker's end is gone."""

    @property
    def fault(self) -> Fault:
        return self._fault

    @fault.setter
    def fault(self, fault: Fault) -> None:
        asyncio.run_coroutine_threadsafe(self._set(fault), self._loop).result(_DEADLINE_S)

    async def _set(self, fault: Fault) -> None:
        self._fault = fault
        if fault is Fault.BLACK_HOLE:
            self._passes.clear()
        else:
            self._passes.set()
        if fault is Fault.HALF_OPEN:
            for client, upstream in self._open:
                self._deaf.add(client)
                upstream.transport.abort()

    async def listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, _HOST, self.port)

    async def reset_at_times(self) -> None:
        """Reset connections as long as that is the fault; until cancelled."""
        while True:
            await asyncio.sleep(_BETWEEN_RESETS_S)
            if self._fault is Fault.RESETS:
                for ends in list(self._open):
                    for end in ends:
                        _reset(end)

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        try:
            await self._passes.wait()
            if self._fault is Fault.HALF_OPEN:
                self._deaf.add(client)
                await self._swallow(reader, client)
                return
            back, upstream = await asyncio.open_connection(_HOST, self.upstream_port)
        except OSError:  # the broker is down
            client.transport.abort()
            return
        ends = client, upstream
        self._open.add(ends)
        try:
            await asyncio.gather(
                self._copy(reader, upstream, client), self._copy(back, client, client)
            )
        except OSError:
            pass  # one side went
        finally:
            self._open.discard(ends)
            if client in self._deaf:
                with contextlib.suppress(OSError):
                    await self._swallow(reader, client)
            for end in ends:
                end.transport.abort()

    async def _swallow(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        """Throw away what a client sends; reset it when it sends after the fault."""
        while await reader.read(65_536):
            if self._fault is not Fault.HALF_OPEN:
                break
        self._deaf.discard(client)
        _reset(client)

    async def _copy(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        client: asyncio.StreamWriter,
    ) -> None:
        while data := await reader.read(65_536):
            if self._fault is Fault.LATENCY:
                await asyncio.sleep(_LATENCY_S)
            await self._passes.wait()
            if client in self._deaf:
                return
            writer.write(data)
            await writer.drain()
        if client not in self._deaf:
            raise ConnectionResetError("one side has ended")


def _reset(end: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        ours = end.transport.get_extra_info("socket")
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    end.transport.abort()


@contextmanager
def shaky_links(ports: Sequence[int]) -> Iterator[list[ShakyLink]]:
    """A link for each of these ports; set where each leads to."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="shaky")
    thread.start()

    def run(work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401
        return asyncio.run_coroutine_threadsafe(work, loop).result(_DEADLINE_S)

    async def start() -> tuple[list[ShakyLink], list[asyncio.Server], list[asyncio.Task[None]]]:
        links = [ShakyLink(port, loop) for port in ports]
        servers = [await link.listen() for link in links]
        return links, servers, [asyncio.create_task(link.reset_at_times()) for link in links]

    async def stop() -> None:
        for server in servers:
            server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    links, servers, _tasks = run(start())
    try:
        yield links
    finally:
        run(stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_DEADLINE_S)
        loop.close()

"""Where a channel over HTTP may connect to.

A template can put names from Kafka into the host of a URL; so those who name groups would choose
the receiver. The address is checked when it is connected to: a name that was checked before could
lead elsewhere by then.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any, Final

import httpcore
import httpx

from lagwatch.config.alerts_channels import HttpChannelSettings
from lagwatch.notify.public_address import is_public

_MOST_ADDRESSES: Final = 4
"""Of a host, that are tried: together they take the time that one may take."""


def transport(settings: HttpChannelSettings, tls: ssl.SSLContext) -> httpx.AsyncHTTPTransport:
    """Connects as far as the channel's options allow; proxies of the environment are not used."""
    made = httpx.AsyncHTTPTransport(verify=tls)
    guarded = _Guarded(settings.allow_hosts, private=settings.private_networks)
    made._pool._network_backend = guarded  # noqa: SLF001 httpx has no parameter for httpcore's
    return made


class _Guarded(httpcore.AsyncNetworkBackend):
    """Refuses hosts and addresses that are not allowed."""

    def __init__(self, hosts: Iterable[str], *, private: bool) -> None:
        self._hosts = tuple(host.lower() for host in hosts)
        self._private = private
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 httpcore's own
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        name = host.lower()
        if self._hosts and not any(fnmatchcase(name, allowed) for allowed in self._hosts):
            raise httpcore.ConnectError(f"{host} is not in allow_hosts")
        addresses = [host] if self._private else await _public_addresses(host, port)
        within_s = None if timeout is None else timeout / len(addresses)

        async def connected(address: str) -> httpcore.AsyncNetworkStream:
            return await self._network.connect_tcp(
                address, port, within_s, local_address, socket_options
            )

        *others, last = addresses
        for address in others:
            with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return await connected(address)
        return await connected(last)


async def _public_addresses(host: str, port: int) -> list[str]:
    """The addresses of a host, to be tried one after another; all of them must be public."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise httpcore.ConnectError(str(error)) from error
    addresses = [str(where[0]) for *_, where in found]
    private = next((address for address in addresses if not is_public(address)), None)
    if private is not None:
        raise httpcore.ConnectError(f"{host} is {private}, and private_networks = false")
    return list(dict.fromkeys(addresses))[:_MOST_ADDRESSES]

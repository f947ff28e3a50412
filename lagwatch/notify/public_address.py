"""Which addresses are public."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

_HOLDS_IPV4: Final = tuple(map(IPv6Network, ("64:ff9b::/96", "::/96", "::ffff:0:0:0/96")))
"""Of NAT64 (RFC 6052), IPv4-compatible (RFC 4291) and -translated (RFC 2765): they end in an IPv4
address."""
_UNICAST: Final = IPv6Network("2000::/3")
"""All that is assigned for the world so far (RFC 4291; IANA's registry of address space)."""
_DOCUMENTATION: Final = IPv6Network("3fff::/20")
"""RFC 9637; Python knows it from 3.14 on."""

_NOT_PUBLIC: Final = tuple(map(IPv4Network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32")))
"""IANA's registry of special addresses, of which Python 3.11 does not know all; and the address
by which machines of Azure reach their host."""


def is_public(address: str) -> bool:
    """True if the address is public; of one that contains IPv4 addresses, if all of these are.

    Raises:
        ValueError: it is no address.
    """
    whole = ip_address(address)
    if isinstance(whole, IPv4Address):
        return _is_public(whole)
    inner = [whole.ipv4_mapped, whole.sixtofour, *(whole.teredo or ())]
    if any(whole in network for network in _HOLDS_IPV4):
        inner.append(IPv4Address(whole.packed[-4:]))
    known = [each for each in inner if each is not None]
    return all(map(_is_public, known or [whole]))


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address) and (address not in _UNICAST or address in _DOCUMENTATION):
        return False
    if any(address in network for network in _NOT_PUBLIC):
        return False
    return address.is_global and not address.is_multicast

"""Which addresses are public."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

_HOLDS_IPV4: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))
"""Of NAT64 (RFC 6052), and the old IPv4-compatible ones (RFC 4291): they end in an IPv4 address."""
_LOCAL_NAT64: Final = IPv6Network("64:ff9b:1::/48")
"""For a network of one's own (RFC 8215)."""


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
    local = address.is_multicast
    if isinstance(address, IPv6Address):
        local |= address.is_site_local or address in _LOCAL_NAT64
    return address.is_global and not local

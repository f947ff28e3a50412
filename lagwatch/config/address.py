"""Host and port, as users write them."""

from typing import Final

from lagwatch.config.section import fault

MAX_PORT: Final = 65_535


def split(address: str, *, lowest_port: int, example: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[IPv6]:port`; the host may be empty.

    Raises:
        PydanticCustomError: the text is not an address; carries the remedy.
    """
    remedy = f"Write host:port, for example {example!r}."
    if "://" in address:
        raise fault("address", "has a protocol in front", remedy)
    host, colon, port = address.rpartition(":")
    if not colon or host.endswith(":"):
        raise fault("address", "has no port", remedy)
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise fault("address", "an IPv6 address needs brackets", "Write [address]:port.")
    if not (port.isascii() and port.isdigit() and lowest_port <= int(port) <= MAX_PORT):
        raise fault("address", f"the port is not a number from {lowest_port} to {MAX_PORT}", remedy)
    if any(character.isspace() or character == "/" for character in host):
        raise fault("address", "the host holds a character that no host has", remedy)
    return host.removeprefix("[").removesuffix("]"), int(port)

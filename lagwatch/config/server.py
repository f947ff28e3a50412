"""Section `[server]`: where the HTTP server listens, and who may ask it."""

import re
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from lagwatch.config.section import Section, Texts, fault, split_address

_EXAMPLE = "127.0.0.1:8000"
_ORIGIN = re.compile(r"https?://[a-z0-9.\[\]:-]+")


def _listens(address: str) -> str:
    split_address(address, lowest_port=0, example=_EXAMPLE)
    return address


def _is_origin(text: str) -> str:
    if text not in {"", "*"} and not _ORIGIN.fullmatch(text):
        raise fault(
            "origin", "is no origin", "Write https://tools.example.com, without a path, or *."
        )
    return text


def _networks(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        try:
            network = ip_network(text)
        except ValueError:
            raise fault(
                "network", "is not a network", "Write an address or 10.0.0.0/8, without host bits."
            ) from None
        if network.prefixlen == 0:
            raise fault(
                "network",
                "is every address, so anybody could name himself in the header",
                "Write the addresses of the proxy only.",
            )
    return texts


class ServerTlsSettings(Section):
    """TLS of the HTTP server. Renewed files are taken over without a restart."""

    cert_file: Path | None = Field(
        default=None, description="PEM file with the certificate and its chain; unset: plain HTTP"
    )
    key_file: Path | None = Field(
        default=None, description="PEM file with its key; unset: the key is in `cert_file`"
    )
    client_ca_file: Path | None = Field(
        default=None,
        description="PEM file with CAs; only clients with a certificate of theirs may connect",
    )


class ProxySettings(Section):
    """A proxy that authenticates users and names them in a header."""

    addresses: Annotated[Texts, AfterValidator(_networks)] = Field(
        default=(), description="addresses or networks of the proxy; empty: no proxy"
    )
    user_header: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$")] = Field(
        default="X-Forwarded-User",
        description="header with the name of the user; the proxy must overwrite it",
    )
    scope: Literal["read", "operate", "admin"] = Field(
        default="read", description="scope of every user that the proxy names"
    )
    operators: Texts = Field(default=(), description="users with the scope `operate`")
    admins: Texts = Field(default=(), description="users with the scope `admin`")


class AuthSettings(Section):
    """Who may use the HTTP server, by token (Bearer or Basic) or through a proxy."""

    tokens_file: Path | None = Field(
        default=None,
        description=(
            "file with hashed tokens, made by `lagwatch token`; changes apply within seconds"
        ),
    )
    open_metrics: bool = Field(default=False, description="serve `/metrics` without a token")
    proxy: ProxySettings = Field(default=ProxySettings(), description="a trusted proxy")


class ServerSettings(Section):
    """The HTTP server: API, page and metrics."""

    address: Annotated[str, AfterValidator(_listens)] = Field(
        default=_EXAMPLE,
        json_schema_extra={"format": "host:port"},
        description="address to listen on; `:8000` means all interfaces, port 0 any free port",
    )
    open: bool = Field(
        default=False,
        description=(
            "let everyone who reaches an address other than loopback read and operate, "
            "without `[server.auth]`"
        ),
    )
    hosts: Texts = Field(
        default=(),
        description=(
            "names of this server in the `Host` header, beside `localhost`, the name of the "
            "machine, the host of `address` and IP addresses; `*` accepts every name"
        ),
    )
    allow_origin: Annotated[str, AfterValidator(_is_origin)] = Field(
        default="",
        description=(
            "whose pages may read the answers of `/v3`, as `https://tools.example.com`, or `*`: "
            "`Access-Control-Allow-Origin`, as Burrow's `access-control-allow-origin`"
        ),
    )
    max_connections: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=2000,
        description="connections served at once; fewer where the limit of open files is lower",
    )
    tls: ServerTlsSettings = Field(default=ServerTlsSettings(), description="encryption")
    auth: AuthSettings = Field(default=AuthSettings(), description="authorization")

    @model_validator(mode="after")
    def _is_guarded(self) -> Self:
        if not (self.authenticates or self.open or self.on_loopback):
            raise fault(
                "open",
                f"address = {self.address} lets everyone who reaches it read and operate",
                "Set auth.tokens_file (see `lagwatch token`) or auth.proxy.addresses; "
                "or open = true where the network keeps others out.",
            )
        return self

    @property
    def host(self) -> str:
        """Host or address to bind; "0.0.0.0" when none is written."""
        return self._split()[0] or "0.0.0.0"  # noqa: S104 an empty host asks for all interfaces

    @property
    def port(self) -> int:
        """Port to bind; 0 means any free one."""
        return self._split()[1]

    @property
    def authenticates(self) -> bool:
        return self.auth.tokens_file is not None or bool(self.auth.proxy.addresses)

    @property
    def on_loopback(self) -> bool:
        """True if only this machine can connect."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def _split(self) -> tuple[str, int]:
        return split_address(self.address, lowest_port=0, example=_EXAMPLE)

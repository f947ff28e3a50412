"""Sections `[clusters.NAME.tls]` and `[clusters.NAME.sasl]`: encryption and log-in."""

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from lagwatch.config.secret import Secret
from lagwatch.config.section import OrFile, ReadableFile, Section


class TlsSettings(Section):
    """TLS towards the brokers of one cluster."""

    enabled: bool = Field(default=False, description="connect to the brokers with TLS")
    ca_file: ReadableFile | None = Field(
        default=None, description="PEM file with the trusted CAs; unset: those of the system"
    )
    cert_file: ReadableFile | None = Field(
        default=None, description="PEM file with the client certificate"
    )
    key_file: ReadableFile | None = Field(
        default=None, description="PEM file with the key of the client certificate"
    )
    key_password: Annotated[
        Secret | None, OrFile(meaning="file that holds the password of `key_file`")
    ] = Field(default=None, description="password of `key_file`")
    verify: bool = Field(default=True, description="check the brokers' certificates and host names")


Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
WITH_PASSWORD: Final = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
"""Mechanisms that need `username` and a password."""


def _upper(value: object) -> object:
    return value.strip().upper() if isinstance(value, str) else value


class SaslSettings(Section):
    """Authentication towards the brokers of one cluster."""

    mechanism: Annotated[Mechanism, BeforeValidator(_upper)] = Field(
        description="SASL mechanism; for `OAUTHBEARER` set `sasl.oauthbearer.*` under `client`"
    )
    username: str | None = Field(default=None, description="user name")
    password: Annotated[Secret | None, OrFile(meaning="file that holds the password")] = Field(
        default=None, description="password; prefer `password_file`"
    )

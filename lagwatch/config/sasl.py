"""Section `[clusters.NAME.sasl]`: who we say we are."""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, SerializationInfo, field_serializer

from lagwatch.config.section import REVEAL, Secret, Section

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
    password: Secret | None = Field(default=None, description="password; prefer `password_file`")
    password_file: Path | None = Field(default=None, description="file that holds the password")

    @field_serializer("password", when_used="unless-none")
    def _hidden(self, value: Secret, info: SerializationInfo) -> str:
        return value.get_secret_value() if (info.context or {}).get(REVEAL) else str(value)

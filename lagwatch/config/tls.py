"""Section `[clusters.NAME.tls]`: encryption and client certificates."""

from pathlib import Path

from pydantic import Field, SerializationInfo, field_serializer

from lagwatch.config.section import REVEAL, Secret, Section


class TlsSettings(Section):
    """TLS towards the brokers of one cluster."""

    enabled: bool = Field(default=False, description="speak TLS to the brokers")
    ca_file: Path | None = Field(
        default=None, description="PEM file with the trusted CAs; unset: those of the system"
    )
    cert_file: Path | None = Field(default=None, description="PEM file with our certificate")
    key_file: Path | None = Field(default=None, description="PEM file with its private key")
    key_password: Secret | None = Field(default=None, description="password of `key_file`")
    key_password_file: Path | None = Field(
        default=None, description="file that holds the password of `key_file`"
    )
    verify: bool = Field(default=True, description="check the brokers' certificates and host names")

    @field_serializer("key_password", when_used="unless-none")
    def _hidden(self, value: Secret, info: SerializationInfo) -> str:
        return value.get_secret_value() if (info.context or {}).get(REVEAL) else str(value)

"""Section `[history.elasticsearch]`: the cluster that keeps the history."""

import re
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, Field, SerializationInfo, field_serializer

from lagwatch.config.alerts_channels import HttpUrls
from lagwatch.config.section import REVEAL, Secret, Section, fault

_PREFIX: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")
_FINGERPRINT: Final = re.compile(r"[0-9A-Fa-f]{64}")


def _without_user(urls: tuple[str, ...]) -> tuple[str, ...]:
    for url in urls:
        if "@" in url.removeprefix("https://").removeprefix("http://").partition("/")[0]:
            raise fault(
                "url",
                "a URL holds a user, which would be shown wherever the URL is",
                "Write username and password_file.",
            )
    return urls


def _index_prefix(prefix: str) -> str:
    if not _PREFIX.fullmatch(prefix):
        raise fault(
            "prefix",
            "no index can have this name",
            "Write lower-case letters, digits, '_', '-' and '.'; a letter or digit first.",
        )
    return prefix


def _sha256(fingerprint: str) -> str:
    if not _FINGERPRINT.fullmatch(fingerprint.replace(":", "")):
        raise fault(
            "fingerprint",
            "is no SHA-256 fingerprint",
            "Write the 64 hexadecimal digits that "
            "`openssl x509 -fingerprint -sha256 -noout -in ca.crt` prints.",
        )
    return fingerprint.replace(":", "").lower()


class ElasticsearchSettings(Section):
    """Elasticsearch 9."""

    urls: Annotated[HttpUrls, AfterValidator(_without_user)] = Field(
        default=("http://127.0.0.1:9200",),
        description="nodes of the cluster; more than one: the next is taken when one is down",
    )
    api_key: Secret | None = Field(
        default=None, description="API key, encoded (`id:key` in base64); prefer `api_key_file`"
    )
    api_key_file: Path | None = Field(default=None, description="file that holds the API key")
    username: str | None = Field(default=None, description="user name, for basic authentication")
    password: Secret | None = Field(default=None, description="password; prefer `password_file`")
    password_file: Path | None = Field(default=None, description="file that holds the password")
    ca_file: Path | None = Field(
        default=None, description="PEM file with the trusted CAs; unset: those of the system"
    )
    fingerprint: Annotated[str, AfterValidator(_sha256)] | None = Field(
        default=None,
        description="SHA-256 of the certificate to trust, of the node or its CA, instead of CAs",
    )
    prefix: Annotated[str, AfterValidator(_index_prefix)] = Field(
        default="lagwatch", description="first part of the names of indices, aliases and templates"
    )
    manage_templates: bool = Field(
        default=True,
        description="write the index templates at the start; `false`: somebody else installs them",
    )
    bulk_bytes: Annotated[int, Field(ge=10_000, le=90_000_000)] = Field(
        default=1_000_000, description="bytes of one bulk request, about; proxies often take 1 MiB"
    )
    connections: Annotated[int, Field(ge=1, le=64)] = Field(
        default=3, description="bulk requests on their way at the same time"
    )
    timeout_s: Annotated[float, Field(ge=0.1, le=3600, allow_inf_nan=False)] = Field(
        default=30.0, description="seconds any one request may take, from first to last byte"
    )

    @field_serializer("api_key", "password", when_used="unless-none")
    def _hidden(self, value: Secret, info: SerializationInfo) -> str:
        return value.get_secret_value() if (info.context or {}).get(REVEAL) else str(value)

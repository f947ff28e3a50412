"""Section `[history.elasticsearch]`: the Elasticsearch that keeps the history."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from lagwatch.config.alerts_channels import HttpUrls
from lagwatch.config.secret import Secret, Url
from lagwatch.config.section import OrFile, ReadableFile, Section, fault

_PREFIX: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")
_FINGERPRINT: Final = re.compile(r"[0-9A-Fa-f]{64}")


def _without_user(urls: tuple[Url, ...]) -> tuple[Url, ...]:
    for url in urls:
        if "@" in url.get_secret_value().partition("://")[2].partition("/")[0]:
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
    """Elasticsearch 9, for `store = "elasticsearch"`."""

    urls: Annotated[HttpUrls, AfterValidator(_without_user)] = Field(
        default=("http://127.0.0.1:9200",),
        validate_default=True,
        description="nodes of the cluster; when one is down the next is used",
    )
    api_key: Annotated[Secret | None, OrFile(meaning="file that holds the API key")] = Field(
        default=None, description="API key, encoded (`id:key` in base64); prefer `api_key_file`"
    )
    username: str | None = Field(default=None, description="user name, for basic authentication")
    password: Annotated[Secret | None, OrFile(meaning="file that holds the password")] = Field(
        default=None, description="password; prefer `password_file`"
    )
    ca_file: ReadableFile | None = Field(
        default=None, description="PEM file with the trusted CAs; unset: those of the system"
    )
    fingerprint: Annotated[str, AfterValidator(_sha256)] | None = Field(
        default=None,
        description="SHA-256 of the certificate to trust (node or CA), instead of `ca_file`",
    )
    prefix: Annotated[str, AfterValidator(_index_prefix)] = Field(
        default="lagwatch", description="first part of the names of indices, aliases and templates"
    )
    manage_templates: bool = Field(
        default=True,
        description="write the index templates at the start; `false`: you install them",
    )
    bulk_bytes: Annotated[int, Field(ge=10_000, le=90_000_000)] = Field(
        default=1_000_000,
        description="approximate bytes of a bulk request; proxies often accept 1 MiB at most",
    )
    connections: Annotated[int, Field(ge=1, le=64)] = Field(
        default=3, description="bulk requests sent at the same time"
    )
    timeout_s: Annotated[float, Field(ge=0.1, le=3600, allow_inf_nan=False)] = Field(
        default=30.0, description="seconds a request may take, from first to last byte"
    )

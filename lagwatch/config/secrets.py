"""Secrets: read from their files, and kept out of everything that is shown."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lagwatch.config.given import Tree
from lagwatch.errors import Fault

HIDDEN: Final = "***"
_SECRET_OPTIONS: Final = frozenset(
    {
        *("password", "key_password", "api_key"),
        *("token", "secret", "routing_key", "webhook_url", "service_urls"),  # of channels
    }
)
_SECRET_FILES: Final = {"sasl": "password", "tls": "key_password"}
_PUBLIC_FILES: Final = ("ca_file", "cert_file", "key_file")
_SECRET_PROPERTY: Final = re.compile(
    r"pass(word|phrase)|secret|jaas|token(?!\.endpoint)|private|key\.pem|oauthbearer\.config|credential"
)


def is_secret(path: tuple[str | int, ...]) -> bool:
    """Must the value at this path never be shown?"""
    names = [part for part in path if isinstance(part, str)]
    if not names:
        return False
    return names[-1] in _SECRET_OPTIONS or (
        "client" in names[:-1] and _SECRET_PROPERTY.search(names[-1].lower()) is not None
    )


def read_secrets(name: str, cluster: Tree) -> Iterator[Fault]:
    """Put what the `*_file` options of a cluster name into the tree; yield what is unreadable."""
    for section, option in _SECRET_FILES.items():
        table = cluster.get(section)
        if isinstance(table, dict):
            yield from read_secret(f"clusters.{name}.{section}", option, table)


def read_secret(prefix: str, option: str, table: Tree) -> Iterator[Fault]:
    """Put what `<option>_file` names into the table, unless the option itself is there."""
    file = table.get(f"{option}_file")
    if not isinstance(file, str):
        return
    key = f"{prefix}.{option}_file"
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        yield _unreadable(key, file, error)
        return
    secret = text.removesuffix("\n").removesuffix("\r")
    table.setdefault(option, secret)
    if not secret:
        yield Fault(key=key, value=file, problem="the file is empty", remedy="Write into it.")


def unreadable_files(name: str, cluster: Tree) -> Iterator[Fault]:
    """Certificates and keys that cannot be read."""
    table = cluster.get("tls")
    if not isinstance(table, dict):
        return
    for option in _PUBLIC_FILES:
        file = table.get(option)
        if isinstance(file, str):
            yield from unreadable(f"clusters.{name}.tls.{option}", file)


def unreadable(key: str, file: str) -> Iterator[Fault]:
    """The fault of a file that cannot be read."""
    try:
        with Path(file).open("rb") as stream:
            stream.read(1)
    except (OSError, ValueError) as error:
        yield _unreadable(key, file, error)


def _unreadable(key: str, file: str, error: Exception) -> Fault:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else "not text"
    return Fault(
        key=key,
        value=file,
        problem=f"cannot be read: {reason}",
        remedy=f"Check the path (it means {Path(file).absolute()}) and its permissions.",
    )

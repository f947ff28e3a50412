"""What does not fit together in `[history.elasticsearch]`."""

from collections.abc import Iterator
from typing import Final, cast

from lagwatch.config.walk import Tree
from lagwatch.errors import Fault

_PREFIX: Final = "history.elasticsearch"


def elasticsearch_faults(tree: Tree) -> Iterator[Fault]:
    """Options that contradict each other, as they were written."""
    table = _table(_table(tree, "history"), "elasticsearch")
    yield from _credentials(table)
    yield from _trust(table)


def _credentials(table: Tree) -> Iterator[Fault]:
    key, name, password = (
        option in table or f"{option}_file" in table
        for option in ("api_key", "username", "password")
    )
    if key and (name or password):
        yield _fault("api_key", "is given beside a user", "Keep one way to authenticate.")
    elif password and not name:
        yield _fault("username", "is missing, there is a password", "Write the user's name.")
    elif name and not password:
        yield _fault("password_file", "is missing, there is a username", "Name the file.")


def _trust(table: Tree) -> Iterator[Fault]:
    file, fingerprint = table.get("ca_file"), table.get("fingerprint")
    if file is not None and fingerprint is not None:
        yield _fault("fingerprint", "is given beside ca_file", "Keep one of them.")
    urls = table.get("urls")
    shown = " ".join(map(str, urls)) if isinstance(urls, list | tuple) else str(urls or "")
    if (file is not None or fingerprint is not None) and "https://" not in shown:
        yield _fault(
            "urls",
            "no URL is encrypted, so there is no certificate to check",
            "Write https://, or take ca_file and fingerprint away.",
        )


def _fault(option: str, problem: str, remedy: str) -> Fault:
    return Fault(key=f"{_PREFIX}.{option}", value="", problem=problem, remedy=remedy)


def _table(table: Tree, name: str) -> Tree:
    value = table.get(name)
    return cast("Tree", value) if isinstance(value, dict) else {}

"""Values from outside the file: environment and command line, laid over it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from lagwatch.config.reference import ENV_PREFIX
from lagwatch.config.walk import Path, Tree, alternatives

RESERVED: Final = frozenset(
    {
        "LAGWATCH_CONFIG",
        "LAGWATCH_MAVEN_REPOSITORY",
        "LAGWATCH_TOKEN",
        "LAGWATCH_TOKEN_FILE",
        "LAGWATCH_URL",
    }
)
"""Variables of ours that are not options."""
_CLUSTERS, _CLIENT = "clusters", "client"
_CLUSTER_AT, _SECTION_AT = 1, 2

# A Kubernetes Service called `lagwatch` (or `lagwatch-x`) puts LAGWATCH_SERVICE_HOST,
# LAGWATCH_PORT=tcp://…, LAGWATCH_PORT_8000_TCP_ADDR… into the environment of every pod.
_SERVICE_LINK: Final = re.compile(
    r"LAGWATCH_(\w+_)?(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One value and who gave it."""

    path: Path
    value: object
    origin: str
    """For messages: `LAGWATCH_SERVER__ADDRESS`, `--address`."""


def from_environment(
    environ: Mapping[str, str], tree: Tree, flags: Iterable[Given] = ()
) -> Iterator[Given]:
    """What the `LAGWATCH_*` variables say; `__` separates the levels.

    Case does not matter. A cluster of the file or the flags is found in any case; the name of a
    new one is kept as written. `LAGWATCH_CLUSTERS__PROD__CLIENT__SOCKET_TIMEOUT_MS` means the
    property `socket.timeout.ms`.
    """
    known = _names(tree, flags)
    for name in sorted(environ):
        if not name.upper().startswith(ENV_PREFIX) or _is_foreign(name):
            continue
        path = _path(name[len(ENV_PREFIX) :].split("__"), known)
        if path[:1] == (_CLUSTERS,) and len(path) > _CLUSTER_AT:
            known.setdefault(path[_CLUSTER_AT].casefold(), path[_CLUSTER_AT])
        yield Given(path=path, value=environ[name], origin=name)


def overlay(tree: Tree, given: Iterable[Given]) -> None:
    """Lay the values over the tree, the later ones on top.

    A value that is a table in the tree stays as it is: the check that follows names it.
    """
    for one in given:
        table = _table(tree, one.path[:-1])
        if table is None:
            continue
        table[one.path[-1]] = one.value


def drop_alternatives(tree: Tree, given: Iterable[Given]) -> None:
    """A secret given from outside replaces the one of the file, also where that names a file."""
    paths = {one.path for one in given}
    for path in paths:
        other = alternatives().get(path[-1])
        if other is not None and (*path[:-1], other) not in paths:
            table = _table(tree, path[:-1])
            if table is not None:
                table.pop(other, None)


def _names(tree: Tree, flags: Iterable[Given]) -> dict[str, str]:
    clusters = tree.get(_CLUSTERS)
    names = list(clusters) if isinstance(clusters, dict) else []
    names += [flag.path[_CLUSTER_AT] for flag in flags if flag.path[0] == _CLUSTERS]
    return {name.casefold(): name for name in names}


def _is_foreign(name: str) -> bool:
    upper = name.upper()
    return upper in RESERVED or ("__" not in name and _SERVICE_LINK.fullmatch(upper) is not None)


def _path(parts: list[str], known: Mapping[str, str]) -> Path:
    path = [part.lower() for part in parts]
    if path[0] == _CLUSTERS and len(path) > _CLUSTER_AT:
        path[_CLUSTER_AT] = known.get(parts[_CLUSTER_AT].casefold(), parts[_CLUSTER_AT])
        if path[_SECTION_AT : _SECTION_AT + 1] == [_CLIENT]:
            path[_SECTION_AT + 1 :] = [part.replace("_", ".") for part in path[_SECTION_AT + 1 :]]
    return tuple(path)


def _table(tree: Tree, path: Path) -> Tree | None:
    """The table at the path, made where it is missing; None where something else is."""
    table = tree
    for name in path:
        below = table.setdefault(name, {})
        if not isinstance(below, dict):
            return None
        table = below
    return table

"""From file, environment and command line to `Settings`; every fault is listed at once.

The command line goes before the environment, the environment before the file. Relative paths
start at the working directory.
"""

import re
import tomllib
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from lagwatch.config.alerts import KINDS
from lagwatch.config.alerts_checks import alerts_faults
from lagwatch.config.checks import (
    cluster_faults,
    elasticsearch_faults,
    interval_faults,
    place_faults,
)
from lagwatch.config.faults import translate
from lagwatch.config.files import file_faults
from lagwatch.config.reference import ENV_PREFIX
from lagwatch.config.settings import Settings
from lagwatch.config.walk import Path as KeyPath
from lagwatch.config.walk import Tree, alternatives
from lagwatch.errors import ConfigError, Fault

RESERVED: Final = frozenset(
    {
        "LAGWATCH_CONFIG",
        "LAGWATCH_MAVEN_REPOSITORY",
        "LAGWATCH_TOKEN",
        "LAGWATCH_TOKEN_FILE",
        "LAGWATCH_URL",
    }
)
"""Variables with lagwatch's prefix that are not options."""
_ALERTS, _CLUSTERS, _CLIENT = "alerts", "clusters", "client"
_CLUSTER_AT, _SECTION_AT = 1, 2

# A Kubernetes Service called `lagwatch` (or `lagwatch-x`) puts LAGWATCH_SERVICE_HOST,
# LAGWATCH_PORT=tcp://…, LAGWATCH_PORT_8000_TCP_ADDR… into the environment of every pod.
_SERVICE_LINK: Final = re.compile(
    r"LAGWATCH_(\w+_)?(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """An option that is set outside the file, and its origin."""

    path: KeyPath
    value: object
    origin: str
    """For messages: `LAGWATCH_SERVER__ADDRESS`, `--address`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The settings and the origin of each option."""

    settings: Settings
    origins: Mapping[KeyPath, str]
    """Path of an option → file, variable or flag; an option that is absent has its default."""


def load(path: Path | None, environ: Mapping[str, str], flags: Sequence[Override] = ()) -> Settings:
    """The configuration.

    Raises:
        ConfigError: with all faults.
    """
    return load_with_origins(path, environ, flags).settings


def load_with_origins(
    path: Path | None,
    environ: Mapping[str, str],
    flags: Sequence[Override] = (),
    *,
    beyond: Callable[[Settings], Iterable[Fault]] = lambda _: (),
) -> Loaded:
    """The configuration, and where each option was set.

    `beyond` finds more faults: if it can, also beside options that are refused.

    Raises:
        ConfigError: with all faults.
    """
    tree = _read(path) if path is not None else {}
    origins = dict.fromkeys(_leaves(tree, ()), str(path))
    outside = _overlay_outside(tree, environ, flags)
    return Loaded(settings=_checked(tree, outside, beyond), origins=origins | outside)


def load_policies(path: Path, config: Path | None, environ: Mapping[str, str]) -> Settings:
    """The configuration with the policies of another file.

    What else of `[alerts]` that file sets goes before the configuration; it may define channels of
    its own. Where neither defines a channel, policies may name any.

    Raises:
        ConfigError: with all faults.
    """
    own = _read(path)
    tree = _read(config) if config is not None else {}
    outside = _overlay_outside(tree, environ, ())
    of_file, of_config = own.get(_ALERTS, {}), tree.get(_ALERTS, {})
    alerts = of_file
    if isinstance(of_file, dict) and isinstance(of_config, dict):
        alerts = of_config | of_file
        for kind in KINDS:
            tables = [table[kind] for table in (of_config, of_file) if kind in table]
            if tables and all(isinstance(table, dict) for table in tables):
                alerts[kind] = dict(ChainMap(*reversed(tables)))
        alerts["policies"] = of_file.get("policies", {})
    tree |= own | {_ALERTS: alerts}
    tree.setdefault(_CLUSTERS, {"any": {"bootstrap": "none:9092"}})  # only `serve` needs one
    return _checked(tree, outside, lambda _: (), names_channels=_has_channels(alerts))


def _has_channels(alerts: object) -> bool:
    return isinstance(alerts, dict) and any(map(alerts.get, KINDS))


def _overlay_outside(
    tree: Tree, environ: Mapping[str, str], flags: Sequence[Override]
) -> dict[KeyPath, str]:
    """Write what variables and flags set into the tree: their paths and origins."""
    given = [*from_environment(environ, tree, flags), *flags]
    drop_alternatives(tree, given)
    overlay(tree, given)
    return {override.path: override.origin for override in given}


def _whole_faults(settings: Settings) -> Iterator[Fault]:
    """Faults that only several options together show."""
    yield from interval_faults(settings)
    yield from place_faults(settings)


def _checked(
    tree: Tree,
    outside: Mapping[KeyPath, str],
    beyond: Callable[[Settings], Iterable[Fault]],
    *,
    names_channels: bool = True,
) -> Settings:
    """The settings of the tree.

    `names_channels`: every channel that a policy names must be one of the tree.

    Raises:
        ConfigError: with all faults.
    """
    # the files come last: they fill in options that the others must see as they were written
    faults = [
        *_cluster_faults(tree),
        *alerts_faults(tree, names_channels=names_channels),
        *elasticsearch_faults(tree),
        *file_faults(tree),
    ]
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as error:
        found = error.errors(include_url=False)
        rest = _without(tree, found)
        more = [] if rest is None else [*_whole_faults(rest), *beyond(rest)]
        raise ConfigError(
            [*(translate(fault, tree, outside) for fault in found), *faults, *more]
        ) from None
    faults += [*_whole_faults(settings), *beyond(settings)]
    if faults:
        raise ConfigError(faults)
    return settings


def _without(tree: Tree, errors: Iterable[ErrorDetails]) -> Settings | None:
    """The settings without the options that are refused; None if they are needed."""
    left = deepcopy(tree)
    for error in errors:
        table = left
        for name in error["loc"]:
            below = table.get(str(name))
            if not isinstance(below, dict) or name == error["loc"][-1]:
                table.pop(str(name), None)
                break
            table = below
    try:
        return Settings.model_validate(left)
    except ValidationError:
        return None


def _read(path: Path) -> Tree:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        problem, remedy = f"cannot be read: {error.strerror}", "Check the path and its permissions."
    except UnicodeDecodeError as error:
        problem, remedy = f"is not UTF-8 (byte {error.start})", "Save it as UTF-8."
    except tomllib.TOMLDecodeError as error:
        problem, remedy = f"is not valid TOML: {error}", "Correct that line."
    raise ConfigError([Fault(key=str(path), value="", problem=problem, remedy=remedy)])


def _cluster_faults(tree: Tree) -> Iterator[Fault]:
    clusters = tree.get("clusters")
    if not isinstance(clusters, dict):
        return
    for name, cluster in clusters.items():
        if isinstance(cluster, dict):
            yield from cluster_faults(name, cluster)


def _leaves(tree: Tree, above: KeyPath) -> Iterator[KeyPath]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*above, name))
        else:
            yield (*above, name)


def from_environment(
    environ: Mapping[str, str], tree: Tree, flags: Iterable[Override] = ()
) -> Iterator[Override]:
    """The options that `LAGWATCH_*` variables set; `__` separates the levels.

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
        yield Override(path=path, value=environ[name], origin=name)


def overlay(tree: Tree, given: Iterable[Override]) -> None:
    """Write the values into the tree; later ones win.

    A value that is a table in the tree stays as it is: the check that follows names it.
    """
    for override in given:
        table = _table_at(tree, override.path[:-1])
        if table is None:
            continue
        table[override.path[-1]] = override.value


def drop_alternatives(tree: Tree, given: Iterable[Override]) -> None:
    """A secret set outside the file replaces that of the file, also where it names a file."""
    paths = {override.path for override in given}
    for path in paths:
        other = alternatives().get(path[-1])
        if other is not None and (*path[:-1], other) not in paths:
            table = _table_at(tree, path[:-1])
            if table is not None:
                table.pop(other, None)


def _names(tree: Tree, flags: Iterable[Override]) -> dict[str, str]:
    clusters = tree.get(_CLUSTERS)
    names = list(clusters) if isinstance(clusters, dict) else []
    names += [flag.path[_CLUSTER_AT] for flag in flags if flag.path[0] == _CLUSTERS]
    return {name.casefold(): name for name in names}


def _is_foreign(name: str) -> bool:
    upper = name.upper()
    return upper in RESERVED or ("__" not in name and _SERVICE_LINK.fullmatch(upper) is not None)


def _path(parts: list[str], known: Mapping[str, str]) -> KeyPath:
    path = [part.lower() for part in parts]
    if path[0] == _CLUSTERS and len(path) > _CLUSTER_AT:
        path[_CLUSTER_AT] = known.get(parts[_CLUSTER_AT].casefold(), parts[_CLUSTER_AT])
        if path[_SECTION_AT : _SECTION_AT + 1] == [_CLIENT]:
            path[_SECTION_AT + 1 :] = [part.replace("_", ".") for part in path[_SECTION_AT + 1 :]]
    return tuple(path)


def _table_at(tree: Tree, path: KeyPath) -> Tree | None:
    """The table at the path, made where it is missing; None where something else is."""
    table = tree
    for name in path:
        below = table.setdefault(name, {})
        if not isinstance(below, dict):
            return None
        table = below
    return table

"""From file, environment and command line to `Settings`; every fault is listed at once.

The command line goes before the environment, the environment before the file. Relative paths
start at the working directory.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from lagwatch.config.alerts_checks import alerts_faults
from lagwatch.config.cluster_checks import contradictions
from lagwatch.config.elasticsearch_checks import elasticsearch_faults
from lagwatch.config.faults import translate
from lagwatch.config.files import file_faults
from lagwatch.config.overrides import Given, drop_alternatives, from_environment, overlay
from lagwatch.config.settings import Settings
from lagwatch.config.walk import Path as KeyPath
from lagwatch.config.walk import Tree
from lagwatch.errors import ConfigError, Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The settings and the origin of each option."""

    settings: Settings
    origins: Mapping[KeyPath, str]
    """Path of an option → file, variable or flag; an option that is absent has its default."""


def load(path: Path | None, environ: Mapping[str, str], flags: Sequence[Given] = ()) -> Settings:
    """The configuration.

    Raises:
        ConfigError: with all faults.
    """
    return load_with_origins(path, environ, flags).settings


def load_with_origins(
    path: Path | None, environ: Mapping[str, str], flags: Sequence[Given] = ()
) -> Loaded:
    """The configuration, and where each option was set.

    Raises:
        ConfigError: with all faults.
    """
    tree = _read(path) if path is not None else {}
    origins = dict.fromkeys(_leaves(tree, ()), str(path))
    given = [*from_environment(environ, tree, flags), *flags]
    drop_alternatives(tree, given)
    overlay(tree, given)
    outside = {override.path: override.origin for override in given}
    # the files come last: they fill in options that the others must see as they were written
    faults = [
        *_cluster_faults(tree),
        *alerts_faults(tree),
        *elasticsearch_faults(tree),
        *file_faults(tree),
    ]
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as error:
        found = error.errors(include_url=False)
        raise ConfigError(
            [*(translate(fault, tree, outside) for fault in found), *faults]
        ) from None
    if faults:
        raise ConfigError(faults)
    return Loaded(settings=settings, origins=origins | outside)


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
            yield from contradictions(name, cluster)


def _leaves(tree: Tree, above: KeyPath) -> Iterator[KeyPath]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*above, name))
        else:
            yield (*above, name)

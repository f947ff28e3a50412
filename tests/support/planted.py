"""A configuration with a secret of its own in every option that can hold one.

The options are found by walking the models: a new option is in the configuration by itself.
"""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from pydantic.fields import FieldInfo

from lagwatch.config.secret import Headers, Properties, Secret, ShownUrl, Table, Template, Url
from lagwatch.config.section import Section
from lagwatch.config.settings import Settings
from lagwatch.config.walk import holds, is_named, section

MARK: Final = "hunter2"
"""Every planted secret begins with it."""
CLUSTER: Final = "here"
_WITHOUT_USER: Final = "history.elasticsearch.urls"
"""Refuses URLs with a user."""
_RIVALS: Final = {"password": ("token", "api_key"), "username": ("token", "api_key")}
"""Ways to authenticate that exclude each other."""
_BESIDE: Final = {
    "bootstrap": ["127.0.0.1:1"],
    "mechanism": "PLAIN",
    "username": "watcher",
    "host": "127.0.0.1",
    "sender": "lagwatch@example.com",
    "to": ["ops@example.com"],
    "kind": "spark-checkpoint",
}
"""Options that must be given beside the secrets."""

Tree = dict[str, object]


def planted(*, by_password: bool = True) -> Tree:
    """The configuration; `by_password`: with users and passwords, else with tokens and API keys."""
    numbers = itertools.count()
    return _section(Settings, "", lambda: f"{MARK}-{next(numbers):03}", by_password=by_password)


def places() -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    """Every option that can hold a secret, by its path in the configuration."""
    yield from _places(Settings, ())


def toml(tree: Mapping[str, object]) -> str:
    """The tree as TOML."""
    return "".join(f"{json.dumps(name)} = {_inline(value)}\n" for name, value in tree.items())


def changed(tree: Tree, path: tuple[str, ...], value: object) -> Tree:
    """A copy of the tree with another value at the path."""
    first, *rest = path
    if not rest:
        return {**tree, first: value}
    below = tree.get(first, {})
    assert isinstance(below, dict)
    return {**tree, first: changed(below, tuple(rest), value)}


def _section(
    model: type[Section], above: str, secret: Callable[[], str], *, by_password: bool
) -> Tree:
    tree: Tree = {}
    for name, field in model.model_fields.items():
        path = f"{above}.{name}" if above else name
        below = section(field)
        if below is not None:
            inner = _section(below, path, secret, by_password=by_password)
            if any(True for _ in _places(below, ())):
                tree[name] = {_name(name): inner} if is_named(field) else inner
        elif _excluded(model, name, by_password=by_password):
            continue
        elif (hides := holds(field)) is not None:
            value = _value(hides, path, secret)
            tree[name] = [value] if "tuple" in str(field.annotation) else value
        elif name in _BESIDE:
            tree[name] = _BESIDE[name]
    if "key_password" in tree:  # TLS
        tree |= {"enabled": True, "cert_file": "/dev/null", "key_file": "/dev/null"}
    return tree


def _excluded(model: type[Section], name: str, *, by_password: bool) -> bool:
    if by_password:
        return any(name in rivals for rivals in _RIVALS.values())
    return any(rival in model.model_fields for rival in _RIVALS.get(name, ()))


def _value(hides: type[Secret] | type[Table], path: str, secret: Callable[[], str]) -> object:
    if issubclass(hides, Headers):
        return {"Authorization": f"Bearer {secret()}", "X-Team": secret(), "Accept": "text/plain"}
    if issubclass(hides, Properties):
        return {
            "a.password": secret(),
            "fs.s3a.access.key": secret(),
            "basic.auth.user.info": f"user:{secret()}",
            "an.url": f"https://user:{secret()}@host.example/",
            "an.option": f"-Xmx1g -Dstore.password={secret()}",
            "a.size": "5",
        }
    if issubclass(hides, ShownUrl):
        return f"s3://{secret()}:{secret()}/x@bucket/path?secret={secret()}"
    if issubclass(hides, Url):
        user = "" if path == _WITHOUT_USER else f"user:{secret()}@"
        return f"https://{user}host.example/{secret()}?key={secret()}"
    if issubclass(hides, Template):
        return f'{{"key": "{secret()}"}}'
    return f"json://{secret()}" if path.endswith("service_urls") else secret()


def _places(
    model: type[Section], above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    for name, field in model.model_fields.items():
        below = section(field)
        if below is not None:
            named = (_name(name),) if is_named(field) else ()
            yield from _places(below, (*above, name, *named))
        elif holds(field) is not None:
            yield (*above, name), field


def _name(table: str) -> str:
    return CLUSTER if table == "clusters" else f"the-{table}"


def _inline(value: object) -> str:
    match value:
        case dict():
            inner = ", ".join(
                f"{json.dumps(name)} = {_inline(item)}" for name, item in value.items()
            )
            return f"{{ {inner} }}"
        case list():
            return f"[{', '.join(map(_inline, value))}]"
        case _:
            return json.dumps(value)

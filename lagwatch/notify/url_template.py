"""Jinja2 for URLs: what a template inserts cannot leave its path segment or its parameter.

Text of the template itself, string literals in its output included, is kept. Every other value is
percent-encoded, unless `urlencode` or `safe` made it.

Source: Jinja2's hooks `Environment.finalize` and `Environment._generate`.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import quote, unquote

from jinja2 import Environment, StrictUndefined, nodes, pass_context, pass_environment
from jinja2.filters import make_attrgetter
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup

from lagwatch.config.alerts_channels import HTTP

_DOTS: Final = {".": "%2E", "..": "%2E%2E"}
_BEGIN, _END = "\x02", "\x03"
"""Around the encoded form of a value that is a URL by itself, until its place is known."""
_WHOLE: Final = re.compile(f"{_BEGIN}([^{_END}]*){_END}")
_INSERTED_DOTS: Final = re.compile(r"%2E(?:\.|%2E)?|\.%2E")
"""A whole segment of dots of which at least one was inserted."""


class Encoded(Markup):
    """A part of a URL that is encoded already; what is added to it is encoded."""

    __slots__ = ()

    @classmethod
    def escape(cls, s: object, /) -> "Encoded":
        return encoded(s)


def encoded(value: object) -> Encoded:
    """Percent-encoded, unless it is already."""
    if isinstance(value, Markup):
        return Encoded(value)
    text = str(value)
    made = _DOTS.get(text) or quote(text, safe="", errors="replace")
    return Encoded(f"{_BEGIN}{made}{_END}" if text.startswith(HTTP) else made)


class UrlEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox for templates of URLs; give what they render to `finished`."""

    def __init__(self) -> None:
        # autoescape: what a macro or a block makes is not encoded once more
        super().__init__(undefined=StrictUndefined, autoescape=True, finalize=_finalized)
        self.filters |= {"urlencode": _urlencode, "join": _join}

    def _generate(
        self,
        source: nodes.Template,
        name: str | None,
        filename: str | None,
        defer_init: bool = False,  # noqa: FBT001, FBT002 Jinja2's signature
    ) -> str:
        for assign in source.find_all(nodes.Assign):
            if isinstance(assign.node, nodes.Expr):
                assign.node = _kept(assign.node)
        for output in source.find_all(nodes.Output):
            output.nodes = [part for child in output.nodes for part in _parts(child)]
        return super()._generate(source, name, filename, defer_init)


def finished(text: str) -> str:
    """The URL of what a template rendered.

    A value that is a URL by itself is kept where it begins the whole. Receivers remove segments
    `.` and `..`, also encoded ones (RFC 3986, section 6.2.2), so those of names are encoded twice.
    """
    text = text.strip()
    if found := _WHOLE.match(text):
        text = unquote(found[1]) + text[found.end() :]
    text = _WHOLE.sub(r"\1", text)
    end = min((text.find(mark) for mark in "?#" if mark in text), default=len(text))
    segments = (
        segment.replace("%2E", "%252E").replace(".", "%252E")
        if _INSERTED_DOTS.fullmatch(segment)
        else segment
        for segment in text[:end].split("/")
    )
    return "/".join(segments) + text[end:]


@pass_context
def _finalized(_: Context, value: object) -> Encoded:
    # takes the context, so that Jinja2 calls it for constants as well, when it renders
    return encoded(value)


def _urlencode(value: object) -> Encoded:
    """Jinja2's filter, but `/` is encoded as well."""
    if isinstance(value, Markup):  # what a block made
        value = finished(str(value))
    if isinstance(value, str) or not isinstance(value, Iterable):
        return encoded(value)
    pairs = value.items() if isinstance(value, dict) else value
    return Encoded("&".join(f"{_of_query(key)}={_of_query(item)}" for key, item in pairs))


def _of_query(value: object) -> str:
    return quote(str(value), safe="", errors="replace").replace("%20", "+")


@pass_environment
def _join(
    environment: Environment, value: Iterable[Any], d: str = "", attribute: str | None = None
) -> str:
    """Jinja2's filter; does not encode the separator that the template gives."""
    items = list(value)
    if attribute is not None:
        items = list(map(make_attrgetter(environment, attribute), items))
    if any(isinstance(item, Markup) for item in items):
        return Encoded(str(d).join(encoded(item) for item in items))
    return str(d).join(map(str, items))


def _parts(node: nodes.Expr) -> Iterator[nodes.Expr]:
    """The parts of an output: `{{ "a/" ~ b }}` is `a/{{ b }}`."""
    if isinstance(node, nodes.Concat):
        for part in node.nodes:
            yield from _parts(part)
    else:
        yield _kept(node)


def _kept(node: nodes.Expr) -> nodes.Expr:
    """With the string literals that may be its value marked as text of the template."""
    if isinstance(node, nodes.Const) and isinstance(node.value, str):
        return nodes.MarkSafe(node, lineno=node.lineno)
    if isinstance(node, nodes.CondExpr):
        node.expr1 = _kept(node.expr1)
        node.expr2 = node.expr2 and _kept(node.expr2)
    return node

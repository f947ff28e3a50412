"""The documentation as one HTML page, which needs neither scripts nor the internet."""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from html import escape
from itertools import groupby
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from lagwatch_api.answers import json_answer
from lagwatch_api.openapi import DocumentedApp

Json = Mapping[str, object]

_SHARED: Final = "#/components/schemas/"

_STYLE: Final = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; } h3 { margin: 1.5rem 0 .3rem; font-size: 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0;
  border-bottom: 1px solid #8884; }
code { font: .9em ui-monospace, monospace; overflow-wrap: anywhere; }
p, td { color: color-mix(in srgb, currentColor 85%, transparent); }
"""
_STYLE_HASH: Final = b64encode(sha256(_STYLE.encode()).digest()).decode()
_HEADERS: Final = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


async def serve_document(request: Request) -> Response:
    """`/openapi.json`."""
    return json_answer(_document(request))


async def serve_page(request: Request) -> Response:
    """`/docs`."""
    return HTMLResponse(page(_document(request)), headers=_HEADERS)


def page(document: Json) -> str:
    """The page that shows an OpenAPI document."""
    info = _mapping(document["info"])
    title = escape(f"{info['title']} {info['version']}")
    return "".join(
        (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
            '<meta name="viewport" content="width=device-width">',
            f"<style>{_STYLE}</style></head><body><h1>{title}</h1>",
            f"<p>{escape(str(info.get('description', '')))}</p>",
            '<p>For machines: <a href="/openapi.json">openapi.json</a></p>',
            *_operations(document),
            "<h2>Documents</h2>",
            *_schemas(document),
            "</body></html>",
        )
    )


def _document(request: Request) -> Json:
    app = request.app
    return app.openapi() if isinstance(app, DocumentedApp) else {}


def _operations(document: Json) -> Iterator[str]:
    found = [
        (_tag(operation), method, path, operation)
        for path, methods in _mapping(document["paths"]).items()
        for method, operation in _mapping(methods).items()
        if method != "head"
    ]
    for tag, operations in groupby(found, key=lambda pair: pair[0]):
        yield f"<h2>{escape(tag)}</h2><table>"
        for _, method, path, operation in operations:
            yield from _operation(method, path, _mapping(operation))
        yield "</table>"


def _operation(method: str, path: str, operation: Json) -> Iterator[str]:
    shown = f"<code>{escape(path)}</code>"
    if method == "get" and "{" not in path:
        shown = f'<a href="{escape(path)}">{shown}</a>'
    yield f"<tr><td><code>{method.upper()}</code></td><td>{shown}</td>"
    yield f"<td>{escape(str(operation.get('summary', '')))}</td><td>"
    yield "<br>".join(
        f"{status} {_content(_mapping(answer)) or escape(str(answer['description']))}"
        for status, answer in _mapping(operation["responses"]).items()
        if isinstance(answer, Mapping)
    )
    yield "</td></tr>"


def _schemas(document: Json) -> Iterator[str]:
    shared = _mapping(_mapping(document.get("components", {})).get("schemas", {}))
    for name, schema in sorted(shared.items()):
        about = _mapping(schema)
        yield f'<h3 id="{escape(name)}">{escape(name)}</h3>'
        yield f"<p>{escape(str(about.get('description', '')))}</p><table>"
        for key, value in _mapping(about.get("properties", {})).items():
            described = escape(str(_mapping(value).get("description", "")))
            yield f"<tr><td><code>{escape(key)}</code></td><td>{_type(value)}</td>"
            yield f"<td>{described}</td></tr>"
        yield "</table>"


def _content(answer: Json) -> str:
    """The types of an answer's JSON documents; "" when it has none."""
    schemas = [
        _mapping(content).get("schema", {})
        for media, content in _mapping(answer.get("content", {})).items()
        if media == "application/json"
    ]
    return ", ".join(map(_type, schemas))


def _type(schema: object) -> str:
    """A type in a few words, with a link to the document it names."""
    about = _mapping(schema)
    reference = about.get("$ref")
    if isinstance(reference, str):
        name = escape(reference.removeprefix(_SHARED))
        return f'<a href="#{name}">{name}</a>'
    choices = about.get("anyOf")
    if isinstance(choices, Sequence):
        return " | ".join(map(_type, choices))
    if "items" in about:
        return f"list of {_type(about['items'])}"
    if isinstance(about.get("additionalProperties"), Mapping):
        return f"object of {_type(about['additionalProperties'])}"
    return escape(str(about.get("type", "any")))


def _tag(operation: object) -> str:
    tags = _mapping(operation).get("tags")
    return str(tags[0]) if isinstance(tags, Sequence) and tags else "Other"


def _mapping(value: object) -> Json:
    return value if isinstance(value, Mapping) else {}

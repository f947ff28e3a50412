"""Serves the page. Files are read once; only those that exist then are ever answered."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

STATIC: Final = Path(__file__).parent / "static"
PAGE: Final = "index.html"

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # may be kept, but is asked for again with its ETag
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    body: bytes
    media_type: str
    etag: str


def router() -> APIRouter:
    """`/` and `/ui/…`; they are beside the API's documentation, not in it."""
    routes = APIRouter(include_in_schema=False)
    for path, file in _files().items():
        routes.add_api_route(path, _serve(file), methods=["GET", "HEAD"])
    return routes


def _files() -> dict[str, _File]:
    found = {
        f"/ui/{path.relative_to(STATIC).as_posix()}": _read(path)
        for path in sorted(STATIC.rglob("*"))
        if path.suffix in _TYPES
    }
    found["/"] = found.pop(f"/ui/{PAGE}")
    return found


def _read(path: Path) -> _File:
    body = path.read_bytes()
    etag = f'"{sha256(body).hexdigest()[:20]}"'
    return _File(body=body, media_type=_TYPES[path.suffix], etag=etag)


def _serve(file: _File) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    headers = {**_HEADERS, "ETag": file.etag}

    async def serve(request: Request) -> Response:
        if file.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(file.body, headers=headers, media_type=file.media_type)

    return serve

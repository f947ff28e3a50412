"""`/metrics`: what Prometheus scrapes."""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from lagwatch.ports.metrics import Metrics
from lagwatch_api.routing import Answer, Endpoint

_PIECE_BYTES: Final = 256 * 1024


def endpoints(metrics: Metrics) -> Iterator[Endpoint]:
    """The route, over the service's metrics."""

    async def scrape(request: Request) -> Response:
        exposition = await metrics.scrape(
            accept=_header(request, "accept"),
            accept_encoding=_header(request, "accept-encoding"),
        )
        headers = {
            "Content-Type": exposition.content_type,
            "Content-Length": str(exposition.size_bytes),
            "Vary": "Accept, Accept-Encoding",
        }
        if exposition.content_encoding:
            headers["Content-Encoding"] = exposition.content_encoding
        # in pieces: a scrape is tens of megabytes, and the server would copy it once more
        return StreamingResponse(_pieces(exposition.chunks), headers=headers)

    yield Endpoint(
        method="GET",
        path="/metrics",
        handler=scrape,
        summary="Metrics for Prometheus; OpenMetrics and gzip when accepted",
        tag="Metrics",
        answers={200: Answer(description="the Prometheus text format, or OpenMetrics")},
    )


def _header(request: Request, name: str) -> str:
    return ",".join(request.headers.getlist(name))


async def _pieces(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Few large pieces instead of many small ones."""
    held: list[bytes] = []
    size = 0
    for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        if size >= _PIECE_BYTES:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)

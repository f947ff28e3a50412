"""`/api/v1/stream`: the fleet as server-sent events; after the first, only what changed.

`page` names the version that serves: an open page that came with another one loads itself again.
`fleet` is the whole of a cluster and comes next; `round` follows each judging with the rows that
changed and the names that went. A reader that is slow misses rounds, never changes.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from lagwatch.ports.access import MOST_STREAMS, Scope
from lagwatch.ports.queries import Queries
from lagwatch_api.answers import text_error, to_json
from lagwatch_api.gate import may_still
from lagwatch_api.routing import Answer, Endpoint
from lagwatch_api.v1.fleet import COLUMNS, TAG, ClusterState, Row, Rows, cluster_states, rows_of

_LOOK_EVERY_S: Final = 0.5
_BEAT_S: Final = 10.0
"""At least this often something is sent, so that both ends notice a dead connection."""
_MOST_READERS: Final = 500
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def endpoints(queries: Queries, version: str) -> Iterator[Endpoint]:
    """The route."""
    readers = _Readers()

    async def stream(request: Request) -> Response:
        most = min(_MOST_READERS, request.scope.get("state", {}).get(MOST_STREAMS, _MOST_READERS))
        if readers.count >= most:
            return text_error(f"{most} pages are open; close some\n", 503)
        readers.count += 1
        return StreamingResponse(
            readers.counted(
                events(queries, version, goes_on=partial(may_still, request, Scope.READ))
            ),
            headers=_HEADERS,
            media_type="text/event-stream",
        )

    yield Endpoint(
        method="GET",
        path="/api/v1/stream",
        handler=stream,
        summary="The fleet as server-sent events: all of it once, then changes",
        tag=TAG,
        answers={
            200: Answer(
                description="an event `page`, then `fleet` and `round`, one per cluster and change",
                media_type="text/event-stream",
            ),
            503: Answer(description="too many readers"),
        },
    )


async def events(
    queries: Queries,
    version: str,
    *,
    goes_on: Callable[[], bool] = lambda: True,
    look_every_s: float = _LOOK_EVERY_S,
    beat_s: float = _BEAT_S,
) -> AsyncGenerator[bytes, None]:
    """Ends when the reader's token is revoked; else close it."""
    sent: dict[str, _Sent] = {}
    quiet_s = 0.0
    yield b"retry: 2000\n" + _event("page", {"version": version})
    while goes_on():
        for state in cluster_states(queries):
            before = sent.get(state["cluster"])
            if before is not None and before.same(state):
                continue
            quiet_s = 0.0
            rows = rows_of(queries, state["cluster"])
            yield _whole(state, rows) if before is None else _changes(state, before.rows, rows)
            sent[state["cluster"]] = _Sent(state, rows)
        if quiet_s >= beat_s:
            quiet_s = 0.0
            yield b"event: beat\ndata: {}\n\n"
        await asyncio.sleep(look_every_s)
        quiet_s += look_every_s


class _Readers:
    """How many streams are open."""

    def __init__(self) -> None:
        self.count = 0

    async def counted(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            self.count -= 1


class _Sent:
    """What a reader knows of a cluster."""

    def __init__(self, state: ClusterState, rows: Rows) -> None:
        self.rows = rows
        self._state = state

    def same(self, state: ClusterState) -> bool:
        """Has nothing happened? An age that only grew needs no event: the reader counts on."""
        return _meaning(self._state) == _meaning(state)


def _meaning(state: ClusterState) -> tuple[object, ...]:
    """All but the ages."""
    return state["round"], state["ready"], state["stale"], state["reason"], state["problems"]


def _whole(state: ClusterState, rows: Rows) -> bytes:
    return _event("fleet", {**state, "columns": COLUMNS, "rows": tuple(rows.values())})


def _changes(state: ClusterState, old: Rows, new: Rows) -> bytes:
    changed: list[Row] = [row for group, row in new.items() if old.get(group) != row]
    gone = [group for group in old if group not in new]
    return _event("round", {**state, "rows": changed, "gone": gone})


def _event(name: str, content: Mapping[str, object]) -> bytes:
    # JSON has no line breaks of its own, so one `data` line holds it
    return b"event: %b\ndata: %b\n\n" % (name.encode(), to_json(content))

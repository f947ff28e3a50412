"""`/api/v1`: the past of groups and partitions, what happened, and who was worst when."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, HTTPException, Query
from starlette.requests import Request
from starlette.responses import Response

from lagwatch.core.record import Kind, schema
from lagwatch.core.record.records import plain_values
from lagwatch.errors import HistoryError, NotFoundError
from lagwatch.ports.history import HistoryAsk, HistoryPage, HistoryQueries, TopBy
from lagwatch.ports.queries import EventQueries, Queries
from lagwatch_api.routing import SegmentRoute
from lagwatch_api.v1.events import from_memory
from lagwatch_api.v1.pages import ARROW, CSV, JSON, Form, Points, answer, wanted_form
from lagwatch_api.v1.wording import duration_ms, instant_ms

PREFIX: Final = "/api/v1"
TAG: Final = "History"
MOST_POINTS: Final = 10_000
GRID_COLUMNS: Final = ("at_ms", "samples", "lag_max", "lag_avg", "time_lag_max_s", "status")
"""Of an answer with a step."""

_GROUP: Final = "/clusters/{cluster}/groups/{group}"
_UNIT: Final = "2026-11-21T03:10:00Z, epoch seconds or milliseconds, `now` or `-24h`"
_DOCUMENTED: Final[dict[int | str, dict[str, object]]] = {
    200: {
        "model": Points,
        "content": {
            CSV: {"schema": {"type": "string"}},
            ARROW: {"schema": {"type": "string", "format": "binary"}},
        },
    },
    503: {"description": "the history cannot be read now"},
}

From = Annotated[str, Query(alias="from", description=f"first instant: {_UNIT}")]
To = Annotated[str, Query(description=f"end, not included: {_UNIT}")]
Step = Annotated[
    str, Query(description="distance of the points: `30s`, `5m`, `1h`; `raw` = as recorded")
]
Fields = Annotated[str, Query(description="columns, separated by commas; all when empty")]
Limit = Annotated[int, Query(ge=1, le=MOST_POINTS, description="points of a page")]
Format = Annotated[
    Form | None, Query(alias="format", description=f"instead of `Accept`: {JSON}, {CSV}, {ARROW}")
]


@dataclass(slots=True, kw_only=True)
class Asked:
    """What every request for a part of the past may say."""

    request: Request
    begin: From = "-24h"
    to: To = "now"
    fields: Fields = ""
    limit: Limit = 1000
    form: Format = None

    def ask(self, now_ms: int, kind: Kind, *, step: str = "raw") -> HistoryAsk:
        """Read it.

        Raises:
            ValueError: it cannot be understood; the text says what to write.
        """
        from_ms, to_ms = instant_ms(self.begin, now_ms), instant_ms(self.to, now_ms)
        if from_ms >= to_ms:
            raise ValueError(f"from={self.begin} is not before to={self.to}. Exchange them.")
        step_ms = _step(step)
        known = tuple(schema(kind)) if step_ms == 0 else GRID_COLUMNS
        return HistoryAsk(
            from_ms=from_ms,
            to_ms=to_ms,
            step_ms=step_ms,
            columns=_columns(self.fields, known),
            limit=self.limit,
        )

    def answer(
        self, page: HistoryPage, history: HistoryQueries, ask: HistoryAsk, **about: str | int
    ) -> Response:
        """The page, in the form that is wanted."""
        fields = {**about, "from_ms": ask.from_ms, "to_ms": ask.to_ms}
        return answer(page, wanted_form(self.request, self.form), history, fields)


EventSource = Annotated[
    Literal["history", "memory"],
    Query(description="`memory`: the newest 200 since the start, at once and as JSON"),
]
WithRange = Annotated[Asked, Depends()]


def router(
    history: HistoryQueries,
    queries: Queries,
    *,
    events: EventQueries | None = None,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> APIRouter:
    """The routes; include them in the application.

    A group is known if it is watched now (`queries`), or if anything was ever recorded of it.
    `events` has the newest events, also those that are not in the store yet.
    """
    routes = APIRouter(prefix=PREFIX, tags=[TAG], route_class=SegmentRoute)
    _series(routes, history, now_ms, _Known(history, queries))
    _events(routes, history, now_ms, events)
    _top(routes, history, now_ms)
    return routes


def _series(
    routes: APIRouter, history: HistoryQueries, now_ms: Callable[[], int], known: "_Known"
) -> None:
    @routes.get(
        _GROUP + "/topics/{topic}/partitions/{partition}/history",
        summary="A partition over time",
        responses=_DOCUMENTED,
    )
    async def of_partition(
        cluster: str, group: str, topic: str, partition: int, asked: WithRange, *, step: Step = ""
    ) -> Response:
        with _said():
            ask = asked.ask(now_ms(), Kind.SAMPLES, step=step)
            page = await history.partition(cluster, group, topic, partition, ask)
            await known.check(page, cluster, group, now_ms())
        return asked.answer(
            page, history, ask, cluster=cluster, group=group, topic=topic, partition=partition
        )

    @routes.get(_GROUP + "/history", summary="A group over time", responses=_DOCUMENTED)
    async def of_group(cluster: str, group: str, asked: WithRange, *, step: Step = "") -> Response:
        with _said():
            ask = asked.ask(now_ms(), Kind.GROUP_SAMPLES, step=step)
            page = await history.group(cluster, group, ask)
            await known.check(page, cluster, group, now_ms())
        return asked.answer(page, history, ask, cluster=cluster, group=group)


class _Known:
    """Distinguishes groups without rows in some time from groups that were never recorded."""

    def __init__(self, history: HistoryQueries, queries: Queries) -> None:
        self._history = history
        self._queries = queries

    async def check(self, page: HistoryPage, cluster: str, group: str, now_ms: int) -> None:
        """Raise for an empty page of a group that is not known.

        Raises:
            NotFoundError: it is not watched, and nothing was ever recorded of it.
        """
        if not _is_empty(page) or self._is_watched(cluster, group):
            return
        ever = HistoryAsk(from_ms=0, to_ms=now_ms, step_ms=0, columns=("at_ms",), limit=1)
        if not (await self._history.group(cluster, group, ever)).size:
            raise NotFoundError(kind="group", name=f"{group} on {cluster}")

    def _is_watched(self, cluster: str, group: str) -> bool:
        try:
            return group in self._queries.groups(cluster)
        except NotFoundError:
            return False


def _is_empty(page: HistoryPage) -> bool:
    """True if nothing was recorded; a grid has points all the same, without samples."""
    if page.step_ms == 0:
        return page.size == 0
    values = {name: plain_values(column) for name, column in page.columns.items()}
    values.pop("at_ms", None)
    samples = values.pop("samples", ())
    return not any(samples) and all(value is None for column in values.values() for value in column)


def _events(
    routes: APIRouter,
    history: HistoryQueries,
    now_ms: Callable[[], int],
    memory: EventQueries | None,
) -> None:
    @routes.get(_GROUP + "/events", summary="What happened to a group", responses=_DOCUMENTED)
    async def of_group(
        cluster: str, group: str, asked: WithRange, *, source: EventSource = "history"
    ) -> Response:
        if source == "memory" and memory is not None:
            return from_memory(memory, cluster, group)
        with _said():
            ask = asked.ask(now_ms(), Kind.EVENTS)
            page = await history.events(cluster, group, ask)
        return asked.answer(page, history, ask, cluster=cluster, group=group)

    @routes.get(
        "/clusters/{cluster}/events", summary="What happened in a cluster", responses=_DOCUMENTED
    )
    async def of_cluster(cluster: str, asked: WithRange) -> Response:
        with _said():
            ask = asked.ask(now_ms(), Kind.EVENTS)
            page = await history.events(cluster, None, ask)
        return asked.answer(page, history, ask, cluster=cluster)


def _top(routes: APIRouter, history: HistoryQueries, now_ms: Callable[[], int]) -> None:
    @routes.get("/top", summary="The groups that were worst at an instant", responses=_DOCUMENTED)
    async def top(
        request: Request,
        *,
        at: Annotated[str, Query(description=f"the instant: {_UNIT}")] = "now",
        by: TopBy = TopBy.LAG,
        cluster: Annotated[str, Query(description="only this one; all when empty")] = "",
        limit: Annotated[int, Query(ge=1, le=1000, description="groups")] = 20,
        form: Format = None,
    ) -> Response:
        with _said():
            at_ms = instant_ms(at, now_ms())
            page = await history.top(at_ms, by=by, limit=limit, cluster=cluster or None)
        about = {"at_ms": at_ms, "by": by.value} | ({"cluster": cluster} if cluster else {})
        return answer(page, wanted_form(request, form), history, about)


@contextmanager
def _said() -> Iterator[None]:
    """Turn errors of the history into answers for the client."""
    try:
        yield
    except ValueError as error:
        raise HTTPException(400, str(error)) from error
    except HistoryError as error:
        raise HTTPException(504 if error.kind == "timeout" else 503, str(error)) from error


def _step(step: str) -> int | None:
    if step in {"", "auto"}:
        return None
    if step == "raw":
        return 0
    step_ms = duration_ms(step)
    if step_ms < 1000:  # noqa: PLR2004 a second
        raise ValueError(f"step={step} is below a second. Write 1s or more, or raw.")
    return step_ms


def _columns(fields: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """The columns asked for; the instant always comes first."""
    asked = [name.strip() for name in fields.split(",") if name.strip()]
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise ValueError(
            f"fields: {', '.join(unknown)} is not there. Known here: {', '.join(known)}."
        )
    return tuple(dict.fromkeys(["at_ms", *asked])) if asked else ()

"""`/api/v1`: the past of groups and partitions, what happened, and who was worst when."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, HTTPException, Path, Query
from pydantic import BeforeValidator
from starlette.requests import Request
from starlette.responses import Response

from lagwatch.core.record import Kind, schema
from lagwatch.errors import HistoryError
from lagwatch.ports.history import HistoryAsk, HistoryPage, HistoryQueries, TopBy
from lagwatch.ports.queries import EventQueries, Queries
from lagwatch_api.routing import SegmentRoute
from lagwatch_api.v1.events import from_memory
from lagwatch_api.v1.known import Known, is_empty, wall_ms
from lagwatch_api.v1.pages import ARROW, CSV, JSON, Form, Points, answer, wanted_form
from lagwatch_api.v1.wording import duration_ms, instant_ms

PREFIX: Final = "/api/v1"
TAG: Final = "History"
MOST_POINTS: Final = 10_000
GRID_COLUMNS: Final = ("at_ms", "samples", "lag_max", "lag_avg", "time_lag_max_s", "status")
"""Of an answer with a step."""

_LONGEST_STEP_MS: Final = 366 * 86_400_000
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


def _digits(text: str) -> str:
    # int() takes `1_0` and digits of other scripts
    if not (text.isascii() and text.removeprefix("-").isdecimal()):
        raise ValueError("must be digits only")
    return text


Partition = Annotated[
    int, Path(ge=0, le=2**31 - 1, description="its number"), BeforeValidator(_digits)
]
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
    now_ms: Callable[[], int] = wall_ms,
) -> APIRouter:
    """The routes; include them in the application.

    A name is known if it is watched now (`queries`), or if anything was ever recorded of it.
    `events` has the newest events, also those that are not in the store yet.
    """
    routes = APIRouter(prefix=PREFIX, tags=[TAG], route_class=SegmentRoute)
    known = Known(queries, history, now_ms)
    _series(routes, history, now_ms, known)
    _events(routes, history, now_ms, known, events)
    _top(routes, history, now_ms)
    return routes


def _series(
    routes: APIRouter, history: HistoryQueries, now_ms: Callable[[], int], known: Known
) -> None:
    @routes.get(
        _GROUP + "/topics/{topic}/partitions/{partition}/history",
        summary="A partition over time",
        responses=_DOCUMENTED,
    )
    async def of_partition(
        cluster: str,
        group: str,
        topic: str,
        partition: Partition,
        asked: WithRange,
        *,
        step: Step = "",
    ) -> Response:
        with _said():
            ask = asked.ask(now_ms(), Kind.SAMPLES, step=step)
            page = await history.partition(cluster, group, topic, partition, ask)
            if is_empty(page):
                await known.check_partition(cluster, group, topic, partition)
        return asked.answer(
            page, history, ask, cluster=cluster, group=group, topic=topic, partition=partition
        )

    @routes.get(_GROUP + "/history", summary="A group over time", responses=_DOCUMENTED)
    async def of_group(cluster: str, group: str, asked: WithRange, *, step: Step = "") -> Response:
        with _said():
            ask = asked.ask(now_ms(), Kind.GROUP_SAMPLES, step=step)
            page = await history.group(cluster, group, ask)
            if is_empty(page):
                await known.check_group(cluster, group)
        return asked.answer(page, history, ask, cluster=cluster, group=group)


def _events(
    routes: APIRouter,
    history: HistoryQueries,
    now_ms: Callable[[], int],
    known: Known,
    memory: EventQueries | None,
) -> None:
    @routes.get(_GROUP + "/events", summary="What happened to a group", responses=_DOCUMENTED)
    async def of_group(
        cluster: str, group: str, asked: WithRange, *, source: EventSource = "history"
    ) -> Response:
        with _said():
            if source == "memory" and memory is not None:
                return await from_memory(memory, known, cluster, group)
            ask = asked.ask(now_ms(), Kind.EVENTS)
            page = await history.events(cluster, group, ask)
            if is_empty(page):
                await known.check_group(cluster, group)
        return asked.answer(page, history, ask, cluster=cluster, group=group)

    @routes.get(
        "/clusters/{cluster}/events", summary="What happened in a cluster", responses=_DOCUMENTED
    )
    async def of_cluster(cluster: str, asked: WithRange) -> Response:
        with _said():
            ask = asked.ask(now_ms(), Kind.EVENTS)
            page = await history.events(cluster, None, ask)
            if is_empty(page):
                await known.check_cluster(cluster)
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
    if step_ms > _LONGEST_STEP_MS:
        raise ValueError(f"step={step} is above a year. Write 366d or less.")
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

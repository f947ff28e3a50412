"""Pages of the history as JSON, CSV or Arrow, as the client wants them."""

import csv
import io
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from lagwatch.core.record.records import Value, plain_values
from lagwatch.ports.history import HistoryPage, HistoryQueries
from lagwatch_api.answers import json_answer

ARROW: Final = "application/vnd.apache.arrow.stream"
CSV: Final = "text/csv"
JSON: Final = "application/json"
NEXT_HEADER: Final = "Lagwatch-Next"
"""In CSV and Arrow: what `next` is in JSON."""


class Form(StrEnum):
    """How a page is written."""

    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"


class Points(TypedDict):
    """Part of a history, in the order of time."""

    about: Annotated[Mapping[str, str | int], Field(description="what was asked for")]
    kind: Annotated[str, Field(description="what it was read from: samples, roll-ups, …")]
    step_ms: Annotated[int, Field(description="distance of the points; 0 = as recorded")]
    next: Annotated[
        int | None, Field(description="ask again with `from` = this; null = there is no more")
    ]
    points: Annotated[Sequence[Mapping[str, Value]], Field(description="what is not known is null")]


def wanted_form(request: Request, asked: Form | None) -> Form:
    """`format` goes before `Accept`; without either it is JSON."""
    if asked is not None:
        return asked
    accepted = ",".join(request.headers.getlist("accept")).lower()
    for offer in accepted.split(","):
        match offer.partition(";")[0].strip():
            case "text/csv":
                return Form.CSV
            case "application/vnd.apache.arrow.stream" | "application/vnd.apache.arrow.file":
                return Form.ARROW
            case "application/json" | "*/*" | "application/*":
                return Form.JSON
            case _:
                continue
    return Form.JSON


def answer(
    page: HistoryPage, form: Form, history: HistoryQueries, about: Mapping[str, str | int]
) -> Response:
    """The page in the form that is wanted."""
    headers = {"Vary": "Accept"}
    if form is Form.JSON:
        return json_answer(_points(page, about), 200, headers)
    if page.next_ms is not None:
        headers[NEXT_HEADER] = str(page.next_ms)
    if form is Form.ARROW:
        return Response(history.arrow(page), 200, headers, ARROW)
    return Response(_csv(page), 200, headers, f"{CSV}; charset=utf-8")


def _points(page: HistoryPage, about: Mapping[str, str | int]) -> Points:
    return {
        "about": about,
        "kind": page.kind.value,
        "step_ms": page.step_ms,
        "next": page.next_ms,
        "points": [dict(zip(page.columns, row, strict=True)) for row in _rows(page)],
    }


def _csv(page: HistoryPage) -> bytes:
    """RFC 4180 with a header line; what is not known is empty."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(page.columns)
    writer.writerows(_rows(page))
    return text.getvalue().encode("utf-8", "replace")


def _rows(page: HistoryPage) -> list[tuple[Value, ...]]:
    return list(zip(*map(plain_values, page.columns.values()), strict=True))

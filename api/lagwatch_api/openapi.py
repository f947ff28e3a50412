"""The OpenAPI document: the route table, and whatever FastAPI routes are beside it."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from lagwatch.ports.access import COOKIE
from lagwatch_api.routing import Answer, Endpoint


class _EventStream(Response):
    media_type = "text/event-stream"


_OK: Final = 200
_RESPONSE_CLASSES: Final[dict[str, type[Response]]] = {
    "application/json": JSONResponse,
    "text/event-stream": _EventStream,
    "text/html": HTMLResponse,
    "text/plain": PlainTextResponse,
}


_REFUSALS: Final = {
    400: "there is no `Host`, or two of a header that says who asks",
    401: "a token is needed",
    403: "the scope of the token is too small",
    421: "`Host` is not a name of this server",
}
_REFUSED_ORDERS: Final = {
    400: "the body cannot be read",
    403: "the scope is too small, or a page of another site sent this",
    413: "the body is too large",
    415: "the body is not JSON",
}
_SECURITY: Final = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": COOKIE},
}


class DocumentedApp(FastAPI):
    """A FastAPI application whose documentation covers endpoints that FastAPI does not serve.

    `/v3` is served by a `RouteTable`, several times faster than by FastAPI's own routes.
    """

    def __init__(self, endpoints: Iterable[Endpoint], **settings: Any) -> None:  # noqa: ANN401
        super().__init__(openapi_url=None, docs_url=None, redoc_url=None, **settings)
        self._endpoints = tuple(endpoints)

    def openapi(self) -> dict[str, Any]:
        """The document; made at the first call, when all routes are there."""
        if self.openapi_schema is None:
            document = get_openapi(
                title=self.title,
                version=self.version,
                summary=self.summary,
                description=self.description,
                routes=[*map(_route, self._endpoints), *self.routes],
            )
            document["components"]["securitySchemes"] = _SECURITY
            document["security"] = [{name: []} for name in _SECURITY]
            for path, methods in document["paths"].items():
                for method, operation in methods.items():
                    operation["responses"] = _all_answers(method, path, operation)
            self.openapi_schema = document
        return self.openapi_schema


def _all_answers(method: str, path: str, operation: Mapping[str, Any]) -> dict[str, Any]:
    """The documented answers of an operation, and those that every operation can have."""
    answers = dict(operation["responses"])
    if answers.pop("422", None) is not None:  # FastAPI's own; `errors` answers 400 instead
        answers |= {"400": _refusal("a parameter or the body is wrong")}
    refusals = _REFUSALS if method == "get" else _REFUSALS | _REFUSED_ORDERS
    if "{" in path:
        refusals = refusals | {404: "a name in the path is not known"}
    return {str(status): _refusal(text) for status, text in refusals.items()} | answers


def _refusal(description: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Envelope"}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _route(endpoint: Endpoint) -> APIRoute:
    ok = endpoint.answers[_OK]
    extra: dict[str, Any] = {"parameters": list(_parameters(endpoint))}
    if endpoint.body is not None:
        extra["requestBody"] = _request_body(endpoint.body)
    return APIRoute(
        endpoint.path,
        _never_called,
        methods=[endpoint.method],
        name=endpoint.summary,
        operation_id=_operation_id(endpoint),
        summary=endpoint.summary,
        tags=[endpoint.tag],
        response_class=_RESPONSE_CLASSES["application/json" if ok.model else ok.media_type],
        response_model=ok.model,
        response_description=ok.description,
        responses={
            status: _response(answer)
            for status, answer in endpoint.answers.items()
            if status != _OK
        },
        openapi_extra=extra,
    )


async def _never_called() -> None:
    """Placeholder of the endpoint: FastAPI uses only its documentation."""


def _parameters(endpoint: Endpoint) -> Iterable[dict[str, object]]:
    schema = {"type": "string"}
    for segment in endpoint.path.split("/"):
        if segment.startswith("{"):
            yield {"name": segment[1:-1], "in": "path", "required": True, "schema": schema}
    for name, description in endpoint.query.items():
        yield {"name": name, "in": "query", "description": description, "schema": schema}


def _request_body(model: type[object]) -> dict[str, object]:
    schema = TypeAdapter(model).json_schema()
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _response(answer: Answer) -> dict[str, Any]:
    if answer.model is None:
        content = {answer.media_type: {"schema": {"type": "string"}}}
        return {"description": answer.description, "content": content}
    return {"description": answer.description, "model": answer.model}


def _operation_id(endpoint: Endpoint) -> str:
    words = endpoint.path.strip("/").replace("{", "").replace("}", "").split("/")
    return "_".join((endpoint.method.lower(), *words))

"""The client of one cluster, from its settings."""

import base64
from typing import Any, Final

from elastic_transport import JsonSerializer, OrjsonSerializer
from elasticsearch import Elasticsearch

from lagwatch.config.elasticsearch import ElasticsearchSettings
from lagwatch.history.elastic.deadline import DeadlineNode

_READERS: Final = 8
"""Connections beside those of the bulk requests."""


def connect(settings: ElasticsearchSettings) -> Elasticsearch:
    """A client; nothing is sent yet.

    A node that cannot be reached passes the request on to the next one; beside that it never tries
    again by itself: the writer does.
    """
    return Elasticsearch(
        list(settings.urls),
        node_class=DeadlineNode,
        connections_per_node=settings.connections + _READERS,
        request_timeout=settings.timeout_s,
        max_retries=len(settings.urls) - 1,
        retry_on_timeout=False,
        retry_on_status=(),
        serializers={JsonSerializer.mimetype: OrjsonSerializer()},
        **_credentials(settings),
        **_trust(settings),
    )


def _credentials(settings: ElasticsearchSettings) -> dict[str, Any]:
    if settings.api_key is not None:
        return {"api_key": settings.api_key.get_secret_value()}
    if settings.username is not None:
        password = settings.password.get_secret_value() if settings.password is not None else ""
        # the client itself would only take ASCII; UTF-8 is what the server expects (RFC 7617)
        both = base64.b64encode(f"{settings.username}:{password}".encode())
        return {"basic_auth": both.decode("ascii")}
    return {}


def _trust(settings: ElasticsearchSettings) -> dict[str, Any]:
    if not any(url.startswith("https://") for url in settings.urls):
        return {}
    if settings.fingerprint is not None:
        return {"ssl_assert_fingerprint": settings.fingerprint}
    return {} if settings.ca_file is None else {"ca_certs": str(settings.ca_file)}

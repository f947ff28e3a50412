"""State of the jobs, in Elasticsearch."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import orjson
from elasticsearch import ApiError

from lagwatch.config.elasticsearch import ElasticsearchSettings
from lagwatch.history.elastic.client import connect
from lagwatch.history.elastic.faults import reported
from lagwatch.jobs.state import Value, parsed

_MAPPING: Final = {
    # one field that is kept and not looked into: a ledger has no use for an inverted index
    "dynamic": False,
    "properties": {"json": {"type": "keyword", "index": False, "doc_values": False}},
}


class ElasticState:
    """A `JobState` in the index `PREFIX-jobs`."""

    def __init__(self, settings: ElasticsearchSettings) -> None:
        """Nothing is sent yet."""
        self._client = connect(settings)
        self._prefix = settings.prefix
        self._index = f"{settings.prefix}-jobs"
        self._made = False

    def load(self, name: str) -> Value:
        return self._held(name)[0]

    def save(self, name: str, value: Mapping[str, Any]) -> None:
        self._make()
        with reported(f"write {self._index}", prefix=self._prefix):
            self._client.index(index=self._index, id=name, document=_document(value))

    def swap(self, name: str, before: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
        held, version = self._held(name)
        if held != before:
            return False
        self._make()
        with reported(f"write {self._index}", prefix=self._prefix):
            try:
                self._client.index(index=self._index, id=name, document=_document(value), **version)
            except ApiError as error:
                if error.status_code == HTTPStatus.CONFLICT:
                    return False
                raise
        return True

    def delete(self, name: str) -> None:
        with reported(f"write {self._index}", prefix=self._prefix):
            try:
                self._client.delete(index=self._index, id=name)
            except ApiError as error:
                if error.status_code != HTTPStatus.NOT_FOUND:
                    raise

    def _held(self, name: str) -> tuple[Value, Mapping[str, Any]]:
        """The saved document, and conditions under which a write finds it unchanged."""
        with reported(f"read {self._index}", prefix=self._prefix):
            try:
                found = self._client.get(index=self._index, id=name)
            except ApiError as error:
                if error.status_code == HTTPStatus.NOT_FOUND:
                    return {}, {"op_type": "create"}
                raise
        value = parsed(found["_source"]["json"], f"document {name} of {self._index}")
        version = {"if_seq_no": found["_seq_no"], "if_primary_term": found["_primary_term"]}
        return value, version

    def _make(self) -> None:
        if self._made:
            return
        with reported(f"make {self._index}", prefix=self._prefix):
            if not self._client.indices.exists(index=self._index):
                self._client.options(ignore_status=HTTPStatus.BAD_REQUEST).indices.create(
                    index=self._index,
                    mappings=_MAPPING,
                    settings={"number_of_shards": 1, "auto_expand_replicas": "0-1"},
                )
        self._made = True


def _document(value: Mapping[str, Any]) -> Mapping[str, str]:
    return {"json": orjson.dumps(value).decode()}

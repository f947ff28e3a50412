"""State that jobs keep from one run to the next: watermarks, ledgers, intents. Kept in the store.

Files below `_jobs` in the folder of a Parquet store, a document of the index `PREFIX-jobs` in
Elasticsearch: so any machine may do the next run.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import orjson

from lagwatch.errors import JobError

Value = dict[str, Any]


class JobState(Protocol):
    """Small JSON documents by name. Methods raise `HistoryError`."""

    def load(self, name: str) -> Value:
        """The document saved last; {} when there is none."""
        ...

    def save(self, name: str, value: Mapping[str, Any]) -> None:
        """Replace the document; after a failure the earlier one is unchanged."""
        ...

    def swap(self, name: str, before: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
        """Replace `before` ({}: no document); False when the document differs from it.

        Exactly one of several concurrent calls succeeds, on whatever machines they are.
        """
        ...

    def delete(self, name: str) -> None:
        """Delete the document, if there is one."""
        ...


def parsed(data: bytes | str, where: str) -> Value:
    """A document that was saved.

    Raises:
        JobError: it is not valid JSON of a document.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise JobError(
            kind="input",
            message=f"{where} is no JSON ({error}). Delete it: the next run starts anew from what "
            "the history holds.",
            retryable=False,
        ) from error
    return value if isinstance(value, dict) else {}

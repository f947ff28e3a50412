"""What jobs remember from one run to the next: watermarks, ledgers, intents. Kept in the store.

`_jobs/NAME.json` below the folder of a Parquet store, a document of the index `PREFIX-jobs` in
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
        """What was saved last; {} when nothing was."""
        ...

    def save(self, name: str, value: Mapping[str, Any]) -> None:
        """Put it in the place of what was there: wholly, or, when it fails, not at all."""
        ...

    def swap(self, name: str, before: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
        """Put it in the place of `before` ({}: of nothing); False when something else is there.

        In Elasticsearch of several that do so at once one succeeds. Files do not promise that.
        """
        ...

    def delete(self, name: str) -> None:
        """Forget it; none there is fine."""
        ...


def parsed(data: bytes | str, where: str) -> Value:
    """A document that was saved.

    Raises:
        JobError: it is none.
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

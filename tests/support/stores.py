"""An empty store of every kind, for the tests that hold for all of them.

A new kind has a line in `history_of`; then it takes part in `tests/contract` and `tests/spark`.
"""

from pathlib import Path

import pytest

from lagwatch.config.history import STORES, HistorySettings
from tests.support.elastic_history import settings, unique_prefix
from tests.support.elasticsearch import EmbeddedElasticsearch

KINDS_OF_STORES = STORES


def history_of(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> HistorySettings:
    """The settings of an empty store; its server is started where it has one."""
    spool = tmp_path / "spool"
    match kind:
        case "parquet":
            return HistorySettings(url=str(tmp_path / "history"), spool=spool)
        case "elasticsearch":
            server: EmbeddedElasticsearch = request.getfixturevalue("elasticsearch")
            there = settings(server.url, unique_prefix())
            return HistorySettings(store=kind, elasticsearch=there, spool=spool)
    pytest.fail(f"tests/support/stores.py makes no store of kind {kind}")

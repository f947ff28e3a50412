"""Elasticsearch 9."""

from typing import Final

from lagwatch.config.history import HistorySettings
from lagwatch.config.secret import Url
from lagwatch.history.drivers.base import Driver
from lagwatch.ports.history import Allowed, HistoryStore

_NAME: Final = "elasticsearch"


def _open(settings: HistorySettings, allowed: Allowed) -> HistoryStore:
    from lagwatch.history.elastic import ElasticStore, RejectedRows  # noqa: PLC0415 an extra

    rejected = RejectedRows(settings.spool / "rejected")
    return ElasticStore(settings.elasticsearch, rejected, allowed=allowed)


def _at(where: str, settings: HistorySettings) -> HistorySettings:
    there = settings.elasticsearch
    if where != _NAME:
        there = there.model_copy(update={"urls": (Url(where),)})
    return settings.model_copy(update={"store": _NAME, "elasticsearch": there})


DRIVER = Driver(
    open=_open,
    place=lambda _settings: _NAME,
    at=_at,
    claims=lambda where: where == _NAME or where.startswith(("http://", "https://")),
    folder=lambda _settings: None,
    extra="elastic",
)

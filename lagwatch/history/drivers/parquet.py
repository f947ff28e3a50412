"""Parquet files in a folder or file system: the default store."""

from pathlib import Path

from lagwatch.config.history import HistorySettings
from lagwatch.config.secret import ShownUrl
from lagwatch.history.drivers.base import Driver
from lagwatch.history.parquet import ParquetStore


def _place(settings: HistorySettings) -> str:
    return settings.url.get_secret_value()


def _at(where: str, settings: HistorySettings) -> HistorySettings:
    return settings.model_copy(update={"store": "parquet", "url": ShownUrl(where)})


def _folder(settings: HistorySettings) -> Path | None:
    where = _place(settings).removeprefix("file://")
    return None if "://" in where else Path(where)


DRIVER = Driver(
    open=lambda settings, allowed: ParquetStore(_place(settings), allowed=allowed),
    place=_place,
    at=_at,
    claims=lambda _where: False,
    folder=_folder,
)

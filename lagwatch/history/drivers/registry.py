"""Finds the driver of a store by its name."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

from lagwatch.config.history import STORES, HistorySettings
from lagwatch.errors import HistoryError
from lagwatch.history import drivers
from lagwatch.history.drivers.base import Driver
from lagwatch.ports.history import Allowed, HistoryStore, always

DRIVERS: Final[Mapping[str, Driver]] = {
    name: import_module(f"{drivers.__name__}.{name}").DRIVER for name in STORES
}
"""By the value of `history.store`."""
_DEFAULT: Final = DRIVERS["parquet"]


def driver_of(settings: HistorySettings) -> Driver:
    """The driver of the store that is configured.

    Raises:
        HistoryError: no store is configured.
    """
    if settings.store not in DRIVERS:
        raise no_store()
    return DRIVERS[settings.store]


def no_store() -> HistoryError:
    """The error for `history.store = "none"`."""
    names = " or ".join(f'"{name}"' for name in DRIVERS)
    return HistoryError(
        store="none",
        kind="closed",
        message='history.store = "none": no history is kept, so there is nothing to work on. '
        f"Write {names}, or name a store.",
        retryable=False,
    )


def settings_of(where: str | None, settings: HistorySettings) -> HistorySettings:
    """The settings of a store as users name it: a folder, a URL, or `elasticsearch`.

    None is the store that is configured.
    """
    if where is None:
        return settings
    claiming = (driver for driver in DRIVERS.values() if driver.claims(where))
    return next(claiming, _DEFAULT).at(where, settings)


def open_store(settings: HistorySettings, *, allowed: Allowed = always) -> HistoryStore:
    """The store that is configured; `allowed` is called right before written rows are published.

    Raises:
        HistoryError: no store is configured, its address is not valid, or its package is missing.
    """
    driver = driver_of(settings)
    try:
        return driver.open(settings, allowed)
    except ImportError as error:
        raise missing(settings.store, error) from error


def missing(store: str, error: ImportError) -> HistoryError:
    """The error of a store whose library is not installed."""
    return HistoryError(
        store=store,
        kind="closed",
        message=f'history.store = "{store}" needs a package that is missing ({error}). '
        f"Install lagwatch[{DRIVERS[store].extra}].",
        retryable=False,
    )


def place_of(settings: HistorySettings) -> str:
    """The name that users write for the configured store; may hold secrets."""
    return driver_of(settings).place(settings)


def folder_of(settings: HistorySettings) -> Path | None:
    """The local folder that must exist before the store can be read; None without such a folder."""
    return driver_of(settings).folder(settings)

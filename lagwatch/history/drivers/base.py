"""What a kind of store declares for the service and for whoever names a store.

Each other file of this folder, but `registry.py`, is a driver: its name is the value of
`history.store`, and it holds a `DRIVER`. Its job side is the file, or folder, of the same name in
`lagwatch/jobs/stores`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lagwatch.config.history import HistorySettings
from lagwatch.ports.history import HistoryStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """A kind of store."""

    open: Callable[[HistorySettings], HistoryStore]
    """The store of these settings; raises `HistoryError` when it cannot be understood.

    Its library is imported by this call, so that an installation may lack it."""
    place: Callable[[HistorySettings], str]
    """What users call the store of these settings; may hold secrets."""
    at: Callable[[str, HistorySettings], HistorySettings]
    """The settings with the store that a user calls so."""
    claims: Callable[[str], bool]
    """Does a user who writes this mean a store of this kind? If no driver says so, it is a place of
    the default store, `parquet`."""
    folder: Callable[[HistorySettings], Path | None]
    """The local folder of the store, which has to be there before anything can be read; or None."""
    extra: str = ""
    """The extra of lagwatch that brings its library; ""."""

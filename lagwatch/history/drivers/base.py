"""What a kind of store declares: how to open it, and how users name it.

Each other file of this folder, but `registry.py`, is a driver: its name is the value of
`history.store`, and it holds a `DRIVER`. Its job side is the file, or folder, of the same name in
`lagwatch/jobs/stores`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lagwatch.config.history import HistorySettings
from lagwatch.ports.history import Allowed, HistoryStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """A kind of store."""

    open: Callable[[HistorySettings, Allowed], HistoryStore]
    """The store of these settings; raises `HistoryError` when it cannot be understood.

    It calls the second argument right before it publishes rows that were written. Its library
    is imported by this call, so that an installation may lack it."""
    place: Callable[[HistorySettings], str]
    """The name that users write for the store of these settings; may hold secrets."""
    at: Callable[[str, HistorySettings], HistorySettings]
    """The settings changed to the store of this name."""
    claims: Callable[[str], bool]
    """True if this name means a store of this kind.

    A name that no driver claims is a folder or URL of the default store, `parquet`.
    """
    folder: Callable[[HistorySettings], Path | None]
    """The local folder that must exist before the store can be read; None without such a folder."""
    extra: str = ""
    """The extra of lagwatch that installs its library; "" when none is needed."""

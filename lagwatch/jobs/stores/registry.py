"""Finds the job side of a store by the name of its driver."""

from collections.abc import Callable
from importlib import import_module

from lagwatch.config.history import HistorySettings
from lagwatch.history.drivers.registry import DRIVERS, missing, no_store
from lagwatch.jobs import stores
from lagwatch.jobs.state import JobState
from lagwatch.jobs.stores.base import JobStore


def job_store(settings: HistorySettings) -> JobStore:
    """The job side of the store that is configured.

    Raises:
        HistoryError: no store is configured, or its package is not installed.
    """
    if settings.store not in DRIVERS:
        raise no_store()
    try:
        made: Callable[[HistorySettings], JobStore] = import_module(
            f"{stores.__name__}.{settings.store}"
        ).JOBS
    except ImportError as error:
        raise missing(settings.store, error) from error
    return made(settings)


def open_state(settings: HistorySettings) -> JobState:
    """Open the state that the jobs keep in the store.

    Raises:
        HistoryError: the store's address is not valid, or no store is configured.
    """
    return job_store(settings).state()

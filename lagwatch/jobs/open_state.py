"""Finds the state of the jobs that belongs to a store."""

from lagwatch.config.history import HistorySettings
from lagwatch.errors import HistoryError
from lagwatch.history.folder import open_folder
from lagwatch.jobs.state import FolderState, JobState


def open_state(settings: HistorySettings) -> JobState:
    """The state kept in a store.

    Raises:
        HistoryError: the store cannot be understood, or none is configured.
    """
    if settings.store == "parquet":
        return FolderState(open_folder(settings.url.get_secret_value()))
    if settings.store == "elasticsearch":
        from lagwatch.jobs.elastic_state import ElasticState  # noqa: PLC0415 an optional extra

        return ElasticState(settings.elasticsearch)
    raise HistoryError(
        store="none",
        kind="closed",
        message='history.store = "none": there is nothing to work on. '
        'Write "parquet" or "elasticsearch", or name a store with --store.',
        retryable=False,
    )

"""Causes and forecasts of groups in trouble, as they are recorded."""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Final, Protocol

from lagwatch.core.causes import Cause, Certainty
from lagwatch.core.forecast import CatchUpReason, Outlook
from lagwatch.core.model import UNKNOWN
from lagwatch.core.record import Insight
from lagwatch.core.snapshot import ClusterSnapshot


class LossReason(StrEnum):
    """Why a group has, or lacks, a time until it loses messages."""

    NEARING = "nearing"
    """Retention comes nearer to a committed offset."""
    NOTHING_DELETED = "nothing_deleted"
    """Nothing, or only once, was deleted of its topics so far: that may have been on request."""
    NOT_NEARING = "not_nearing"
    """The group catches up, or keeps its distance."""
    RATES_UNKNOWN = "rates_unknown"
    LOG_START_UNKNOWN = "log_start_unknown"
    LAG_UNKNOWN = "lag_unknown"


class ExplainedGroup(Protocol):
    """A group in trouble, with all that is known of it."""

    @property
    def group(self) -> str: ...
    @property
    def cause(self) -> Cause | None: ...
    @property
    def outlook(self) -> Outlook:
        """Of the group as a whole."""
        ...

    @property
    def partitions(self) -> Mapping[tuple[str, int], Outlook]: ...


class Explain(Protocol):
    """Looks for causes and forecasts; called in the thread that writes the windows."""

    def __call__(
        self, snapshot: ClusterSnapshot, only: Collection[str] | None, known: Collection[str], /
    ) -> Iterable[ExplainedGroup]:
        """Groups in trouble, of these groups or of all, but for those that are `known`.

        Must take no longer than a round may.
        """
        ...


def insights(
    snapshot: ClusterSnapshot, explained: Iterable[ExplainedGroup]
) -> Mapping[str, Insight]:
    """What is recorded of each of these groups, by its name."""
    return {each.group: _insight(snapshot, each) for each in explained}


def _insight(snapshot: ClusterSnapshot, found: ExplainedGroup) -> Insight:
    cause, whole = found.cause, found.outlook
    return Insight(
        cause=None if cause is None or cause.name is None else cause.name.value,
        cause_certainty=(Certainty.UNKNOWN if cause is None else cause.certainty).value,
        cause_text="" if cause is None else cause.text,
        catch_up_s=whole.catch_up_s,
        catch_up_reason=whole.catch_up_reason.value,
        loss_in_s=whole.loss_in_s,
        loss_reason=loss_reason(whole.loss_in_s, _log_starts(snapshot, found.partitions)).value,
    )


def _log_starts(
    snapshot: ClusterSnapshot, partitions: Mapping[tuple[str, int], Outlook]
) -> list[tuple[CatchUpReason, int]]:
    """Of each partition how its catch-up is known, and where retention has come to; -1 unknown."""
    topics, log_start = snapshot.topics, snapshot.topics.retained_from
    return [
        (
            outlook.catch_up_reason,
            int(log_start[topics.first[topics.index[topic]] + partition])
            if topic in topics.index
            else UNKNOWN,
        )
        for (topic, partition), outlook in partitions.items()
    ]


def loss_reason(
    loss_in_s: float | None, partitions: Iterable[tuple[CatchUpReason, int]]
) -> LossReason:
    """The weakest of the partitions' reasons, each found from its catch-up and log start.

    A known time is that of the partitions that are known: others may lose messages earlier.
    """
    if loss_in_s is not None:
        return LossReason.NEARING
    known = list(partitions)
    behind = [each for each in known if each[0] is not CatchUpReason.CAUGHT_UP]
    if known and not behind:
        return LossReason.NOT_NEARING
    reasons = [_of_partition(*partition) for partition in behind]
    return max(reasons, key=_LEAST_KNOWN.index, default=LossReason.LAG_UNKNOWN)


_LEAST_KNOWN: Final = tuple(LossReason)


def _of_partition(catch_up: CatchUpReason, log_start: int) -> LossReason:
    if catch_up is CatchUpReason.LAG_UNKNOWN:
        return LossReason.LAG_UNKNOWN
    if log_start < 0:
        return LossReason.LOG_START_UNKNOWN
    if log_start == 0:
        return LossReason.NOTHING_DELETED
    if catch_up in {CatchUpReason.RATES_UNKNOWN, CatchUpReason.WAITS_FOR_TRANSACTION}:
        return LossReason.RATES_UNKNOWN
    return LossReason.NOT_NEARING

"""A made-up message: for trying templates and channels."""

from dataclasses import replace
from typing import Final

from lagwatch.core.causes import Cause, CauseName, Certainty
from lagwatch.core.incident import Reason, Tell
from lagwatch.core.model import (
    EpochMs,
    GroupStatus,
    GroupVerdict,
    PartitionStatus,
    PartitionVerdict,
    Rule,
    RuleSet,
    TimeLagReason,
    WindowEntry,
)
from lagwatch.notify.notice import Message, Notice
from lagwatch.notify.verdict import cause_json, verdict_json

_AT_MS: Final = 1_800_000_000_000


_CAUSE: Final = Cause(
    name=CauseName.NO_MEMBERS,
    certainty=Certainty.CERTAIN,
    text=(
        "the group has no members (state Empty); the last one that was seen to leave: client "
        "sample-1 on 192.0.2.7"
    ),
    refuted_by="a consumer runs that assigns partitions itself: it is not a member",
    evidence={},
    topic="sample-topic",
    partition=0,
)


def sample_messages(
    channel: str = "sample", *, at_ms: int = _AT_MS, id_: str = "sample"
) -> tuple[Message, Message]:
    """A message that opens an incident, and a message that closes it."""
    opening = Message(
        id=f"{id_}-open", channel=channel, at_ms=at_ms, notices=(_notice(at_ms, id_),)
    )
    closed = replace(
        _notice(at_ms, id_),
        key=f"{id_}.2.{channel}",
        event=Tell.CLOSE,
        kinds=(),
        cause=None,
        reason=Reason.HEALED.value,
        at_ms=at_ms + 60_000,
        thread_open=0,
    )
    closing = Message(id=f"{id_}-close", channel=channel, at_ms=at_ms + 60_000, notices=(closed,))
    return opening, closing


def _notice(at_ms: int, id_: str) -> Notice:
    return Notice(
        key=f"{id_}.1",
        incident=id_,
        event=Tell.OPEN,
        cluster="sample",
        group="lagwatch-sample",
        severity="error",
        reason=Reason.FIRST.value,
        policy="sample",
        since_ms=at_ms - 90_000,
        opened_ms=at_ms,
        at_ms=at_ms,
        url="",
        kinds=("stopped",),
        cause=cause_json(_CAUSE),
        verdict=verdict_json(_verdict(at_ms)),
        curve=tuple((at_ms - 90_000 + 1000 * second, 13 * second) for second in range(90)),
        curve_of="total lag",
        thread=f"{id_}-open",
        thread_open=1,
    )


def _verdict(at_ms: int) -> GroupVerdict:
    worst = PartitionVerdict(
        topic="sample-topic",
        partition=0,
        owner="/192.0.2.7",
        client_id="sample-1",
        instance_id="",
        status=PartitionStatus.STOP,
        rule=Rule.STOPPED,
        rules=RuleSet.LAGWATCH,
        evidence={
            "current_lag": 1204,
            "readable_lag": 1204,
            "committed_offset": 1090,
            "last_commit_ms": at_ms - 195_000,
            "commits_are": "read",
            "quiet_ms": 195_000,
            "limit_ms": 180_000,
            "usual_pause_ms": 10_000,
            "membership": "empty",
        },
        start=_entry(1000, at_ms - 285_000, 0),
        end=_entry(1090, at_ms - 195_000, 17),
        current_lag=1204,
        readable_lag=1204,
        since_ms=EpochMs(at_ms - 195_000),
        complete=1.0,
        unknown_reason=None,
        time_lag_s=194.0,
        time_lag_reason=TimeLagReason.MEASURED,
        lost=0,
    )
    return GroupVerdict(
        cluster="sample",
        group="lagwatch-sample",
        at_ms=EpochMs(at_ms),
        status=GroupStatus.ERR,
        rule=Rule.STOPPED,
        complete=1.0,
        partitions=(worst,),
        partition_count=3,
        max_lag=worst,
        total_lag=1204,
        readable_lag=1204,
        since_ms=EpochMs(at_ms - 195_000),
        unknown_partitions=0,
        time_lag_s=194.0,
        time_lag_reason=TimeLagReason.MEASURED,
    )


def _entry(offset: int, at_ms: int, lag: int) -> WindowEntry:
    return WindowEntry(offset=offset, commit_ms=EpochMs(at_ms), observed_ms=EpochMs(at_ms), lag=lag)

"""A made-up message: for trying templates and channels."""

from dataclasses import replace
from typing import Any, Final

from lagwatch.core.causes import Cause, CauseName, Certainty
from lagwatch.core.first_steps import START
from lagwatch.core.incident import NoticeEvent, Reason
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
from lagwatch.notify.notice import About, Message, Notice
from lagwatch.notify.verdict import cause_json, nothing_known, verdict_json

_AT_MS: Final = 1_800_000_000_000
GROUP: Final = ("sample", "lagwatch-sample")
"""Cluster and group of the sample."""
LASTS_MS: Final = 60_000
"""From the opening to the end."""


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
    to_do=START,
)


def sample_messages(
    channel: str = "sample",
    *,
    at_ms: int = _AT_MS,
    id_: str = "sample",
    zone: str = "UTC",
    url: str = "",
    test: str = "",
) -> tuple[Message, Message]:
    """A message that opens an incident, and a message that closes it a minute later.

    `zone`: time zone in which instants are written; `url`: the group's page; `test`: who asked for
    it, if it is sent: its texts say so.
    """
    opened = replace(_notice(at_ms, id_), zone=zone, url=url, test=test)
    opening = Message(id=f"{id_}-open", channel=channel, at_ms=at_ms, notices=(opened,))
    closed = replace(
        opened,
        key=f"{id_}.2.{channel}",
        event=NoticeEvent.CLOSE,
        heard_as=opened.severity,
        kinds=(),
        cause=None,
        reason=Reason.HEALED.value,
        at_ms=at_ms + LASTS_MS,
        thread_open=0,
        verdict=verdict_json(_healed(at_ms + LASTS_MS)),
    )
    closing = Message(id=f"{id_}-close", channel=channel, at_ms=at_ms + LASTS_MS, notices=(closed,))
    return opening, closing


def trial_messages() -> tuple[Message, ...]:
    """One of each form that a template must take.

    An opening and a close, a group that is gone, and incidents of lagwatch itself, which have no
    verdict but the problem.
    """
    opening, closing = sample_messages()
    gone = nothing_known(*GROUP, _AT_MS, GroupStatus.NOTFOUND.name)
    return (
        opening,
        closing,
        _with(closing, verdict=gone, reason=Reason.GROUP_GONE.value),
        *(_of_lagwatch(message, About.CLUSTER, "sample", "") for message in (opening, closing)),
        *(_of_lagwatch(message, About.CHANNEL, "", "chat") for message in (opening, closing)),
    )


def _of_lagwatch(message: Message, about: About, cluster: str, name: str) -> Message:
    """The message as an incident of lagwatch itself."""
    verdict = nothing_known(cluster, name, message.at_ms) | {"problem": "a sample"}
    return _with(
        message, about=about, cluster=cluster, group=name, verdict=verdict, kinds=(), cause=None
    )


def _with(message: Message, **fields: Any) -> Message:  # noqa: ANN401 of a notice
    return replace(message, notices=(replace(message.notices[0], **fields),))


def _notice(at_ms: int, id_: str) -> Notice:
    return Notice(
        key=f"{id_}.1",
        incident=id_,
        event=NoticeEvent.OPEN,
        cluster=GROUP[0],
        group=GROUP[1],
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
        cluster=GROUP[0],
        group=GROUP[1],
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


def _healed(at_ms: int) -> GroupVerdict:
    """As it is judged at its end: no partition is bad any more, so none is listed."""
    return replace(
        _verdict(at_ms),
        status=GroupStatus.OK,
        rule=None,
        partitions=(),
        max_lag=None,
        total_lag=0,
        readable_lag=0,
        since_ms=None,
        time_lag_s=0.0,
    )


def _entry(offset: int, at_ms: int, lag: int) -> WindowEntry:
    return WindowEntry(offset=offset, commit_ms=EpochMs(at_ms), observed_ms=EpochMs(at_ms), lag=lag)

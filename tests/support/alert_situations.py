"""Situations that receivers read about, made by hand."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Final

from lagwatch.core.causes import Cause, CauseName, Certainty
from lagwatch.core.departure import Departure
from lagwatch.core.first_steps import LOST, SLOW, START
from lagwatch.core.incident import NoticeEvent
from lagwatch.notify.changes import page_link
from lagwatch.notify.dispatch import DeliveryCounts
from lagwatch.notify.notice import About, Earlier, Message, Notice
from lagwatch.notify.own import undelivered
from lagwatch.notify.sample import sample_messages
from lagwatch.notify.verdict import cause_json, nothing_known

AT_MS: Final = 1_796_000_000_000
_ROOT: Final = "https://lagwatch.example.com"

_REFUSED: Final = DeliveryCounts(
    failing_since_ms=AT_MS - 60_000, last_error="403 Forbidden: invalid_token"
)
_LIKELY: Final = cause_json(
    Cause(
        name=CauseName.NO_MEMBERS,
        certainty=Certainty.LIKELY,
        text="the group has no members (state Empty), and none was seen to leave",
        refuted_by="a consumer runs that assigns partitions itself: it is not a member",
        evidence={},
        topic="sample-topic",
        partition=0,
        to_do=START,
    )
)


def situations() -> dict[str, Message]:
    """By name; the messages of one channel named `ops`."""
    opened, _ = sample_messages("ops", at_ms=AT_MS, id_="i")
    stopped = replace(
        opened.notices[0],
        cluster="prod",
        group="billing",
        policy="payments",
        since_ms=AT_MS - 195_000,
        url=page_link(_ROOT, "prod", "billing"),
        runbook="https://wiki.example.com/billing",
        team="payments",
        zone="Europe/Berlin",
    )
    stopped = _with(stopped, catch_up_reason="not_moving", loss_in_s=12_000.0)
    healed = _with(
        _ended(stopped, "healed", status="OK", lag=9040),
        catch_up_s=750.0,
        catch_up_reason="catching_up",
    )
    gone = _ended(stopped, "group_gone", status="NOTFOUND", lag=None)
    return {
        "stopped": _message("m1", stopped),
        "escalated": _message(
            "m2",
            replace(
                stopped,
                event=NoticeEvent.ESCALATE,
                reason="escalated",
                trouble_ms=AT_MS - 1_800_000,
                heard_as="warning",
                kinds_before=("falling_behind",),
            ),
        ),
        "a_worse_kind": _message(
            "m10",
            replace(
                stopped,
                event=NoticeEvent.ESCALATE,
                reason="worse_kind",
                heard_as="error",
                kinds=("records_lost", "stopped"),
                kinds_before=("records_lost",),
                cause=_LIKELY,
                verdict={**stopped.verdict, **_LOST, "readable_lag": 892},
            ),
        ),
        "records_lost": _message("m13", _lost(stopped)),
        "no_runbook": _message("m18", replace(stopped, runbook="")),
        "several_without_runbook": _message(
            "m19", *(replace(stopped, group=name, runbook="") for name in ("billing", "mailer"))
        ),
        "limit_missed": _message("m14", _late(stopped)),
        "handed_on": _message("m15", replace(stopped, reason="handed_on", at_ms=AT_MS + 1_500_000)),
        "still_behind": _message(
            "m16",
            _with(
                healed,
                time_lag_s=340.0,
                lag_grows_per_s=4.0,
                catch_up_s=None,
                catch_up_reason="falling_behind",
                loss_in_s=12_000.0,
            ),
        ),
        "channel_fails": _message(
            "m17",
            _own(
                stopped,
                About.CHANNEL,
                "chat",
                undelivered("chat", _REFUSED, waiting=12, dead=0),
            ),
        ),
        "healed_with_messages_left": _message("m3", healed),
        "gone": _message("m4", gone),
        "deleted": _message("m11", _went(gone, Departure.DELETED, silent_ms=210_000)),
        "likely_expired": _message(
            "m12", _went(gone, Departure.LIKELY_EXPIRED, silent_ms=7 * 86_400_000 + 300_000)
        ),
        "overtaken_while_unreachable": _message(
            "m5", replace(stopped, earlier=(_earlier(AT_MS - 3_600_000),))
        ),
        "a_storm": Message(
            id="m6", channel="ops", at_ms=AT_MS, notices=tuple(_storm(stopped, 1000))
        ),
        "several_causes": _message("m9", *_several_causes(stopped)),
        "odd_names": _message("m7", _named(stopped, "заказы_*_<b>&`x`" + "я" * 4000)),
        "cluster_unseen": _message(
            "m8",
            _own(
                replace(stopped, cluster="prod"),
                About.CLUSTER,
                "",
                "No fresh data of it: connection refused by kafka-1:9092. Incidents of its groups "
                "neither open nor close meanwhile.",
                why="connection refused by kafka-1:9092",
            ),
        ),
    }


@cache
def hostile() -> Mapping[str, Message]:
    """Names of 4,000 characters, of one to four bytes each or escaped: alone and in a storm."""
    stopped = situations()["stopped"].notices[0]
    found = {}
    for kind, letter in (("latin", "a"), ("cyrillic", "я"), ("emoji", "😀"), ("markup", '&<>"')):
        name = (letter * 4000)[:4000]
        notice = replace(
            _of_topic(_named(stopped, name), name), team=name, runbook=f"https://{name}"
        )
        named = replace(_named(notice, name), cluster=name, policy=name)
        storm = [_of_topic(named, f"{topic}{name}") for topic in range(6) for _ in range(50)]
        found[f"{kind} alone"] = _message("h1", notice)
        found[f"{kind} storm"] = _message("h2", *storm)
    return found


_LOST: Final = {"lost": 312, "lost_ms": AT_MS - 60_000}


def _with(notice: Notice, **fields: object) -> Notice:
    """The notice with other fields of its verdict."""
    return replace(notice, verdict={**notice.verdict, **fields})


def _own(notice: Notice, about: About, name: str, problem: str, *, why: str = "") -> Notice:
    """An incident of lagwatch itself, about a cluster or, with a name, a channel."""
    cluster = "" if name else notice.cluster
    return replace(
        notice,
        about=about,
        cluster=cluster,
        group=name,
        policy="lagwatch",
        kinds=(),
        cause=None,
        team="",
        runbook="",
        url=_ROOT,
        since_ms=AT_MS - 60_000,
        verdict={**nothing_known(cluster, name, AT_MS), "problem": problem, "why": why},
        curve=(),
    )


def _lost(notice: Notice) -> Notice:
    """Messages were deleted before a group read them that reads on."""
    cause = Cause(
        name=CauseName.RECORDS_LOST,
        certainty=Certainty.CERTAIN,
        text=(
            "312 messages were deleted, by retention or on request, before the group read them; "
            "the log begins at 1,402"
        ),
        refuted_by="the consumer's own log shows that it has read them",
        evidence={},
        topic="sample-topic",
        partition=0,
        to_do=LOST,
    )
    verdict = {
        **notice.verdict,
        **_LOST,
        "rule": "records_lost",
        "readable_lag": 892,
        "catch_up_s": 750.0,
        "catch_up_reason": "catching_up",
        "loss_in_s": None,
        "partitions": [
            {
                **notice.verdict["partitions"][0],
                "status": "ERR",
                "rule": "records_lost",
                "lost": 312,
                "sentence": (
                    "312 messages deleted before the group read them; the log begins at 1,402, the "
                    "committed offset is 1,090"
                ),
            }
        ],
    }
    return replace(notice, kinds=("records_lost",), verdict=verdict, cause=cause_json(cause))


def _late(notice: Notice) -> Notice:
    """A group that reads steadily, further behind than its policy allows."""
    late = {
        **notice.verdict["partitions"][0],
        "status": "OK",
        "rule": "progressing",
        "sentence": "read 600 messages over 20 commits in 1 min; 54,000 messages to read",
        "current_lag": 54_000,
        "time_lag_s": 930.0,
    }
    verdict = {
        **notice.verdict,
        "status": "OK",
        "rule": "progressing",
        "total_lag": 54_000,
        "readable_lag": 54_000,
        "time_lag_s": 930.0,
        "objective": "15 min 30 s behind in time, more than the 15 min allowed",
        "lag_trend_per_s": 6.0,
        "catch_up_reason": "falling_behind",
        "loss_in_s": 12_000.0,
        "partitions": [late],
    }
    cause = Cause(
        name=CauseName.ALL_SLOW,
        certainty=Certainty.LIKELY,
        text=(
            "all consumers together are too slow: 66.0/s are written, 60.0/s read by 1 member; "
            "1 partition behind"
        ),
        refuted_by="the group reads no faster with more members (at most one per partition)",
        evidence={},
        topic="sample-topic",
        partition=0,
        to_do=SLOW,
    )
    return replace(notice, kinds=(), verdict=verdict, curve=(), cause=cause_json(cause))


def _message(identity: str, *notices: Notice) -> Message:
    return Message(id=identity, channel="ops", at_ms=AT_MS, notices=notices)


def _ended(notice: Notice, reason: str, *, status: str, lag: int | None) -> Notice:
    verdict = {
        **notice.verdict,
        "status": status,
        "rule": None,
        "total_lag": lag,
        "readable_lag": lag,
        "time_lag_s": None,
        "partitions": [],
        "owners": [],
        "catch_up_reason": None,
        "loss_in_s": None,
    }
    return replace(
        notice,
        event=NoticeEvent.CLOSE,
        reason=reason,
        kinds=(),
        cause=None,
        heard_as=notice.severity,
        at_ms=AT_MS + 1_500_000,
        thread="m1",
        thread_open=0,
        verdict=verdict,
    )


def _went(notice: Notice, how: Departure, *, silent_ms: int) -> Notice:
    signs = {
        "gone": how.value,
        "gone_ms": notice.at_ms,
        "last_sign_ms": notice.at_ms - silent_ms,
        "offsets_retention_s": 7 * 86_400,
    }
    return replace(notice, verdict={**notice.verdict, **signs})


def _earlier(since_ms: int) -> Earlier:
    return Earlier(
        incident="before",
        severity="error",
        since_ms=since_ms,
        ended_ms=since_ms + 120_000,
        heard_as=None,
        thread="m0",
        thread_open=0,
    )


def _storm(notice: Notice, groups: int) -> list[Notice]:
    return [
        replace(
            _named(notice, f"group-{number:04}"),
            incident=f"i{number}",
            since_ms=notice.since_ms - number * 100,
            verdict={
                **notice.verdict,
                "group": f"group-{number:04}",
                "total_lag": 1000 + number,
                "time_lag_s": 100.0 + number,
            },
        )
        for number in range(groups)
    ]


def _named(notice: Notice, group: str) -> Notice:
    url = page_link(_ROOT, notice.cluster, group)
    return replace(notice, group=group, url=url, verdict={**notice.verdict, "group": group})


def _several_causes(notice: Notice) -> list[Notice]:
    """A topic that stopped for twelve groups, two groups of another policy, and a cluster."""
    storm = _storm(notice, 15)
    others = [_of_topic(replace(event, policy="others", team=""), "mail") for event in storm[12:14]]
    elsewhere = replace(storm[14], cluster="test", policy="others", runbook="")
    return [*storm[:12], *others, elsewhere]


def _of_topic(notice: Notice, topic: str) -> Notice:
    partitions = [{**partition, "topic": topic} for partition in notice.verdict["partitions"]]
    return replace(notice, verdict={**notice.verdict, "partitions": partitions})

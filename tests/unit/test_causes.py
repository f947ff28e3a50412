"""Causes of verdicts: one case for each, those that nearly hold, and laws."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.case import Case
from lagwatch.core.causes import CAUSES, Cause, CauseName, Certainty, cause_of, cause_sentence
from lagwatch.core.first_steps import LOST
from lagwatch.core.forecast import CatchUpReason, GroupOutlook, Outlook, of_group
from lagwatch.core.model import (
    EpochMs,
    GroupInfo,
    GroupStatus,
    Member,
    PartitionStatus,
    PartitionVerdict,
    Rule,
    RuleSet,
    UnknownReason,
)
from lagwatch.core.record import EventName
from lagwatch.core.rules import STATUS_BY_RULE
from lagwatch.core.words import fill
from lagwatch.notify.verdict import judged_slow
from lagwatch.ports.queries import GroupEvent, Partitions
from lagwatch.query import SnapshotQueries
from tests.support.api_doubles import NOW_MS, entry, group_verdict, partition_verdict
from tests.support.history import Live

CERTAIN, LIKELY, UNKNOWN = Certainty.CERTAIN, Certainty.LIKELY, Certainty.UNKNOWN


@dataclass(frozen=True, kw_only=True)
class Part:
    """A partition of the topic `orders` in a scenario."""

    rule: Rule = Rule.LAG_WITHIN_ALLOWED
    by: str = ""
    """Client id of its member, on the host of the same name up to the dash."""
    produced: float | None = 10.0
    consumed: float | None = 10.0
    lag: int | None = 100
    rose_by: int = 0
    """How much of the lag came within the window."""
    topic: str = "orders"
    committed_ago_s: float = 400
    offset: int = 170
    evidence: tuple[tuple[str, Any], ...] = ()
    lost: int = 0
    why_unknown: UnknownReason | None = None

    def verdict(self, number: int) -> PartitionVerdict:
        committed_ms = NOW_MS - round(self.committed_ago_s * 1000)
        first_lag = None if self.lag is None else self.lag - self.rose_by
        return partition_verdict(
            topic=self.topic,
            partition=number,
            rules=RuleSet.LAGWATCH,
            rule=self.rule,
            status=STATUS_BY_RULE[self.rule],
            evidence=dict(self.evidence),
            client_id=self.by,
            owner=host(self.by) if self.by else "",
            current_lag=self.lag,
            lost=self.lost,
            lost_unacknowledged=self.lost,
            start=entry(100, lag=first_lag, at_ms=committed_ms - 300_000),
            end=entry(self.offset, lag=self.lag, at_ms=committed_ms),
            unknown_reason=self.why_unknown,
        )

    @property
    def _catches_up(self) -> CatchUpReason:
        if self.produced is None or self.consumed is None:
            return CatchUpReason.RATES_UNKNOWN
        behind = self.consumed < self.produced
        return CatchUpReason.FALLING_BEHIND if behind else CatchUpReason.KEEPS_UP

    @property
    def outlook(self) -> Outlook:
        return Outlook(
            produced_per_s=self.produced,
            consumed_per_s=self.consumed,
            lag_trend_per_s=None,
            catch_up_s=None,
            catch_up_low_s=None,
            catch_up_high_s=None,
            catch_up_reason=self._catches_up,
            loss_in_s=None,
            retention_used=None,
        )


def host(client: str) -> str:
    return "/" + client.partition("-")[0]


def event(name: EventName, ago_s: float = 30, **values: Any) -> GroupEvent:  # noqa: ANN401
    at_ms = EpochMs(NOW_MS - round(ago_s * 1000))
    return GroupEvent(at_ms=at_ms, group="billing", event=name.value, **values)


def told(
    *parts: Part,
    events: Sequence[GroupEvent] = (),
    idle: Sequence[str] = (),
    state: str = "",
    **changes: Any,  # noqa: ANN401
) -> Case:
    """A group of these partitions, with members that hold them and members that hold none."""
    stale, age_s = changes.pop("stale", False), changes.pop("age_s", 0.0)
    coordinator, kind = changes.pop("coordinator", 1), changes.pop("kind", "classic")
    verdicts = [part.verdict(number) for number, part in enumerate(parts)]
    held: dict[str, list[tuple[str, int]]] = {name: [] for name in idle}
    for partition in verdicts:
        if partition.client_id:
            held.setdefault(partition.client_id, []).append((partition.topic, partition.partition))
    info = GroupInfo(
        group="billing",
        type=kind,
        state=state or ("Stable" if held else "Empty"),
        assignor="range",
        coordinator=coordinator,
        members=tuple(
            Member(
                member_id=name,
                client_id=name,
                host=host(name),
                instance_id="",
                assignment=tuple((topic, (number,)) for topic, number in places),
            )
            for name, places in held.items()
        ),
    )
    known = [
        partition.status
        for partition in verdicts
        if partition.status is not PartitionStatus.UNKNOWN
    ]
    status = GroupStatus(min(int(max(known)), 3)) if known else GroupStatus.UNKNOWN
    places = {(partition.topic, partition.partition): partition for partition in verdicts}
    outlook = of_group(
        {place: part.outlook for place, part in zip(places, parts, strict=True)},
        {place: partition.current_lag for place, partition in places.items()},
    )
    verdict = group_verdict(*verdicts, status=status, stale=stale, data_age_s=age_s)
    return Case(verdict=verdict, outlook=outlook, info=info, events=tuple(events), **changes)


def members(*names: str) -> str:
    return json.dumps([{"client_id": name, "host": host(name)} for name in names])


LEFT: Final = event(EventName.MEMBER_LEFT, 340, count=1, detail=members("a-1"))
LEFT_LATE: Final = replace(LEFT, at_ms=EpochMs(LEFT.at_ms + 1))
"""More than a minute after `SILENT` began."""
JOINED: Final = event(EventName.MEMBER_JOINED, 350, count=1, detail=members("a-1"))
VISITS: Final = [event(EventName.REBALANCE, ago, after="Empty", count=2) for ago in (35, 25, 15, 5)]
REBALANCES: Final = [event(EventName.REBALANCE, ago, count=1) for ago in (200, 150, 100, 50, 10)]
STORM: Final = event(EventName.REBALANCE_STORM, 10, after="began", count=5)
SCALED_DOWN: Final = [
    *(event(EventName.REBALANCE, ago, count=1) for ago in (264, 214, 164, 114)),
    event(EventName.MEMBER_LEFT, 76, count=1, detail=members("a-1")),
    event(EventName.REBALANCE, 74, count=1),
    event(EventName.REBALANCE_STORM, 74, after="began", count=5),
]
LOOP: Final = [
    event(name, ago, count=1, detail=members("a-1"))
    for ago in (390, 300, 200, 100)
    for name in (EventName.MEMBER_JOINED, EventName.MEMBER_LEFT)
]
HELD: Final = (("held_for_ms", 700_000), ("interrupted", 1))
BACK: Final = (("offset_before", 500), ("committed_offset", 20))
BEYOND: Final = (("committed_offset", 900), ("log_end_offset", 200))
FIRST_BEYOND: Final = Part(
    rule=Rule.AHEAD_OF_LOG_END,
    offset=900,
    committed_ago_s=10,
    evidence=(("committed_offset", 900), ("log_end_offset", 90)),
)
BELOW_START: Final = (("lost_messages", 80), ("committed_offset", 20), ("log_start_offset", 100))
WAITS: Final = (("last_stable_offset", 170), ("transaction_age_ms", 9_000), ("producer_id", 7))
MARKS: Final = (("current_lag", 51), ("committed_offset", 51), ("log_end_offset", 102))
MARK: Final = (("current_lag", 1), ("committed_offset", 101), ("log_end_offset", 102))
SILENT: Final = (("quiet_ms", 400_000), ("commits_are", "read"), ("committed_offset", 70))
POLLED: Final = (("quiet_ms", 400_000), ("commits_are", "polled"), ("committed_offset", 70))


def reset(before: int, after: int, partition: int = 0) -> GroupEvent:
    change = {"partition": partition, "before": before, "after": after}
    detail = json.dumps([change])
    return event(EventName.OFFSETS_RESET, topic="orders", count=1, detail=detail)


STOPPED, STALLED = Rule.STOPPED, Rule.STALLED
BEHIND, FINE = Rule.FALLING_BEHIND, Rule.LAG_WITHIN_ALLOWED
NAMED: Final[dict[str, tuple[Case, CauseName, Certainty]]] = {
    "the leader of a partition is away": (
        told(
            Part(rule=Rule.LOG_END_UNKNOWN, lag=None, why_unknown=UnknownReason.NO_LEADER),
            Part(by="a-1"),
        ),
        CauseName.BROKER_AWAY,
        CERTAIN,
    ),
    "the leader is away while the lag is still the last one known": (
        told(
            Part(by="a-1", rule=Rule.PROGRESSING),
            stale=True,
            leaderless=frozenset({("orders", 0)}),
        ),
        CauseName.BROKER_AWAY,
        LIKELY,
    ),
    "data are stale and no coordinator is known": (
        told(Part(), stale=True, age_s=40, coordinator=-1),
        CauseName.BROKER_AWAY,
        LIKELY,
    ),
    "what keeps a job's progress cannot be read": (
        told(Part(), stale=True, age_s=40, coordinator=-1, kind="spark", state="Unknown"),
        CauseName.PROGRESS_UNREAD,
        LIKELY,
    ),
    "the topic was seen to be made anew": (
        told(
            Part(rule=Rule.AHEAD_OF_LOG_END, evidence=(("committed_offset", 9),)),
            events=[event(EventName.TOPIC_RECREATED, topic="orders")],
        ),
        CauseName.TOPIC_RECREATED,
        CERTAIN,
    ),
    "an offset is beyond the log end, and why was not seen": (
        told(Part(rule=Rule.AHEAD_OF_LOG_END, evidence=(("committed_offset", 9),))),
        CauseName.TOPIC_RECREATED,
        LIKELY,
    ),
    "an offset is committed that the log has not reached": (
        told(Part(rule=Rule.AHEAD_OF_LOG_END, offset=900, evidence=BEYOND)),
        CauseName.COMMITTED_BEYOND_END,
        LIKELY,
    ),
    "the same after the topic was made anew": (
        told(
            Part(rule=Rule.AHEAD_OF_LOG_END, offset=900, evidence=BEYOND),
            events=[event(EventName.TOPIC_RECREATED, topic="orders")],
        ),
        CauseName.TOPIC_RECREATED,
        CERTAIN,
    ),
    "an offset beyond the log end was committed after the topic was made anew": (
        told(
            FIRST_BEYOND,
            events=[event(EventName.TOPIC_RECREATED, topic="orders")],
        ),
        CauseName.TOPIC_RECREATED,
        LIKELY,
    ),
    "the same, and an offset before it, which the new log has": (
        told(
            Part(rule=Rule.AHEAD_OF_LOG_END, offset=900, committed_ago_s=10, evidence=BEYOND),
            events=[event(EventName.TOPIC_RECREATED, 3_600, topic="orders")],
        ),
        CauseName.COMMITTED_BEYOND_END,
        LIKELY,
    ),
    "its first commit since lagwatch has watched is beyond the log end": (
        told(
            FIRST_BEYOND,
            watched_ms=NOW_MS - 3_600_000,
        ),
        CauseName.COMMITTED_BEYOND_END,
        LIKELY,
    ),
    "no offset of the window is in the log any more": (
        told(
            Part(
                rule=Rule.AHEAD_OF_LOG_END,
                offset=900,
                evidence=(("committed_offset", 900), ("log_end_offset", 90)),
            )
        ),
        CauseName.TOPIC_RECREATED,
        LIKELY,
    ),
    "an offset went back after the topic was made anew": (
        told(
            Part(by="a-1", rule=Rule.REWOUND, evidence=BACK),
            events=[event(EventName.TOPIC_RECREATED, topic="orders")],
        ),
        CauseName.TOPIC_RECREATED,
        LIKELY,
    ),
    "records are missing after the topic was made anew": (
        told(
            Part(by="a-1", rule=Rule.RECORDS_LOST, evidence=BELOW_START),
            events=[event(EventName.TOPIC_RECREATED, topic="orders")],
        ),
        CauseName.TOPIC_RECREATED,
        LIKELY,
    ),
    "an offset went back an hour after another topic of that name": (
        told(
            Part(by="a-1", rule=Rule.REWOUND, evidence=BACK),
            events=[event(EventName.TOPIC_RECREATED, 3_600, topic="orders")],
        ),
        CauseName.OFFSETS_RESET,
        LIKELY,
    ),
    "records below the log start": (
        told(Part(rule=Rule.RECORDS_LOST, evidence=BELOW_START)),
        CauseName.RECORDS_LOST,
        CERTAIN,
    ),
    "records were lost and the group has gone on": (
        told(
            Part(
                by="a-1",
                rule=Rule.RECORDS_LOST,
                evidence=(
                    ("lost_messages", 80),
                    ("committed_offset", 120),
                    ("log_start_offset", 100),
                ),
            )
        ),
        CauseName.RECORDS_LOST,
        LIKELY,
    ),
    "an empty group's offsets were set back": (
        told(Part(rule=Rule.REWOUND, evidence=BACK), events=[LEFT, reset(500, 20)]),
        CauseName.OFFSETS_RESET,
        CERTAIN,
    ),
    "another reset than this rewind": (
        told(Part(by="a-1", rule=Rule.REWOUND, evidence=BACK), events=[reset(300, 20)]),
        CauseName.OFFSETS_RESET,
        LIKELY,
    ),
    "records may have been read by a member that commits seldom": (
        told(
            Part(
                by="a-1",
                rule=Rule.RECORDS_LOST,
                evidence=(*BELOW_START, ("lost_is", "upper_bound")),
            )
        ),
        CauseName.RECORDS_LOST,
        LIKELY,
    ),
    "all members left, and then offsets were set": (
        told(
            Part(rule=STOPPED, evidence=SILENT),
            events=[JOINED, LEFT, event(EventName.OFFSETS_RESET, 55, topic="orders", detail="[]")],
        ),
        CauseName.NO_MEMBERS,
        LIKELY,
    ),
    "an empty group's offsets went back, and nothing more is known yet": (
        told(Part(rule=Rule.REWOUND, evidence=BACK), state="Empty"),
        CauseName.OFFSETS_RESET,
        LIKELY,
    ),
    "a member committed an older offset": (
        told(Part(by="a-1", rule=Rule.REWOUND, evidence=BACK)),
        CauseName.OFFSETS_RESET,
        LIKELY,
    ),
    "a slow partition went back right before": (
        told(
            Part(by="a-1", rule=BEHIND, produced=20.0, consumed=0.0, lag=624, offset=403),
            went_back={("orders", 0): 568},
        ),
        CauseName.OFFSETS_RESET,
        LIKELY,
    ),
    "an empty group's slow partition was set back": (
        told(
            Part(rule=BEHIND, produced=20.0, consumed=10.0, lag=624, offset=403),
            events=[LEFT, reset(568, 403)],
            went_back={("orders", 0): 568},
        ),
        CauseName.OFFSETS_RESET,
        CERTAIN,
    ),
    "a slow partition went back by little": (
        told(
            Part(by="a-1", rule=BEHIND, produced=20.0, consumed=10.0, lag=624, offset=403),
            went_back={("orders", 0): 420},
        ),
        CauseName.ALL_SLOW,
        LIKELY,
    ),
    "another partition than the slow one went back": (
        told(
            Part(by="a-1", rule=BEHIND, produced=20.0, consumed=10.0, lag=624, offset=403),
            went_back={("orders", 1): 568},
        ),
        CauseName.ALL_SLOW,
        LIKELY,
    ),
    "only marks of transactions and aborted messages are left for a group that reads committed": (
        told(Part(by="a-1", rule=Rule.CONTROL_RECORDS_ONLY, evidence=MARKS), read_committed=True),
        CauseName.CONTROL_RECORDS,
        CERTAIN,
    ),
    "only marks and aborted messages are left, and how the group reads is not known": (
        told(Part(by="a-1", rule=Rule.CONTROL_RECORDS_ONLY, evidence=MARKS)),
        CauseName.CONTROL_RECORDS,
        LIKELY,
    ),
    "a single mark is left: it is no message for anybody": (
        told(Part(by="a-1", rule=Rule.CONTROL_RECORDS_ONLY, evidence=MARK)),
        CauseName.CONTROL_RECORDS,
        CERTAIN,
    ),
    "a named transaction is open before a group that reads committed": (
        told(Part(by="a-1", rule=Rule.WAITS_FOR_TRANSACTION, evidence=WAITS), read_committed=True),
        CauseName.OPEN_TRANSACTION,
        CERTAIN,
    ),
    "a named transaction is open, and how the group reads is not known": (
        told(Part(by="a-1", rule=Rule.WAITS_FOR_TRANSACTION, evidence=WAITS)),
        CauseName.OPEN_TRANSACTION,
        LIKELY,
    ),
    "a group that is said to read committed has committed beyond the last stable offset": (
        told(
            Part(by="a-1", rule=Rule.WAITS_FOR_TRANSACTION, evidence=WAITS, offset=171),
            read_committed=True,
        ),
        CauseName.OPEN_TRANSACTION,
        LIKELY,
    ),
    "a transaction is open and no member is there to wait for it": (
        told(Part(rule=Rule.HELD_BY_TRANSACTION, evidence=WAITS), read_committed=True),
        CauseName.OPEN_TRANSACTION,
        LIKELY,
    ),
    "a transaction that the broker does not name": (
        told(
            Part(by="a-1", rule=Rule.HELD_BY_TRANSACTION, evidence=WAITS[:2]), read_committed=True
        ),
        CauseName.OPEN_TRANSACTION,
        LIKELY,
    ),
    "members read other topics": (
        told(Part(rule=Rule.NOT_SUBSCRIBED), Part(by="a-1", topic="clicks")),
        CauseName.UNSUBSCRIBED_TOPIC,
        CERTAIN,
    ),
    "members read other topics, by Burrow's rules": (
        told(Part(rule=STOPPED), Part(by="a-1", topic="clicks")),
        CauseName.UNSUBSCRIBED_TOPIC,
        LIKELY,
    ),
    "rebalance after rebalance": (
        told(Part(by="a-1", rule=STOPPED, evidence=SILENT), events=[*REBALANCES, STORM]),
        CauseName.REBALANCE_STORM,
        LIKELY,
    ),
    "a storm in which the group is empty for a moment": (
        told(Part(rule=STOPPED, evidence=SILENT), events=[LEFT, *REBALANCES, STORM]),
        CauseName.REBALANCE_STORM,
        LIKELY,
    ),
    "all members left one after another, which made a storm": (
        told(
            Part(rule=STOPPED, evidence=(("quiet_ms", 90_000),), committed_ago_s=90),
            events=SCALED_DOWN,
        ),
        CauseName.NO_MEMBERS,
        CERTAIN,
    ),
    "a consumer that is no member went on when the last member had left": (
        told(
            Part(rule=STOPPED, evidence=(("quiet_ms", 300_000),), committed_ago_s=300),
            events=[JOINED, LEFT],
        ),
        CauseName.NO_MEMBERS,
        LIKELY,
    ),
    "one that is no member went on with another partition": (
        told(
            Part(rule=STOPPED, evidence=SILENT),
            Part(rule=STOPPED, evidence=SILENT, committed_ago_s=300),
            events=[JOINED, LEFT],
        ),
        CauseName.NO_MEMBERS,
        LIKELY,
    ),
    "the last commit was seen a little after the last member had left": (
        told(
            Part(rule=STOPPED, evidence=(("quiet_ms", 326_000),), committed_ago_s=326),
            events=[JOINED, LEFT],
        ),
        CauseName.NO_MEMBERS,
        CERTAIN,
    ),
    "all members left": (
        told(Part(rule=STOPPED, evidence=SILENT), events=[JOINED, LEFT]),
        CauseName.NO_MEMBERS,
        CERTAIN,
    ),
    "a member that was silent for a minute before it left": (
        told(Part(rule=STOPPED, evidence=SILENT), events=[JOINED, LEFT_LATE]),
        CauseName.NO_MEMBERS,
        LIKELY,
    ),
    "one that joined after the last one left was not seen to leave": (
        told(Part(rule=STOPPED, evidence=SILENT), events=[LEFT, JOINED]),
        CauseName.NO_MEMBERS,
        LIKELY,
    ),
    "an empty group, of which no member was seen": (
        told(Part(rule=Rule.SILENT_BEFORE_START)),
        CauseName.NO_MEMBERS,
        LIKELY,
    ),
    "a group that fell behind has just lost its members": (
        told(Part(rule=BEHIND), events=[LEFT]),
        CauseName.NO_MEMBERS,
        LIKELY,
    ),
    "a member holds nothing": (
        told(Part(rule=STOPPED), idle=["a-1"]),
        CauseName.MEMBER_WITHOUT_ASSIGNMENT,
        LIKELY,
    ),
    "members were seen to lose all partitions": (
        told(Part(rule=STOPPED), idle=["a-1"], events=[event(EventName.UNASSIGNED)]),
        CauseName.MEMBER_WITHOUT_ASSIGNMENT,
        CERTAIN,
    ),
    "a hot key": (
        told(Part(by="a-1", rule=BEHIND, produced=90, consumed=30), Part(by="b-1"), Part(by="c-1")),
        CauseName.SLOW_PARTITION,
        LIKELY,
    ),
    "a partition that its member does not read, while it reads its others": (
        told(
            Part(by="a-1", rule=STOPPED, produced=3.3, consumed=0.2, evidence=SILENT),
            Part(by="a-1"),
            Part(by="b-1"),
            Part(by="b-1"),
        ),
        CauseName.STUCK_PARTITION,
        LIKELY,
    ),
    "the same where offsets are polled": (
        told(Part(by="a-1", rule=STALLED, consumed=0.2, evidence=POLLED), Part(by="a-1")),
        CauseName.STUCK_PARTITION,
        LIKELY,
    ),
    "members that die right after each start": (
        told(Part(rule=STOPPED, evidence=SILENT), events=LOOP),
        CauseName.CRASH_LOOP,
        LIKELY,
    ),
    "members that die right after each start, and rebalance": (
        told(Part(by="a-1", rule=STALLED, evidence=POLLED), events=[*LOOP, *REBALANCES, STORM]),
        CauseName.CRASH_LOOP,
        LIKELY,
    ),
    "members that come and go while others read a little": (
        told(
            Part(by="b-1", rule=STALLED, evidence=(("quiet_ms", 250_000),)),
            events=[*LOOP, *REBALANCES, STORM],
        ),
        CauseName.REBALANCE_STORM,
        LIKELY,
    ),
    "members that come and go between two looks at the group": (
        told(Part(rule=STOPPED, evidence=SILENT), events=[LEFT, *VISITS, STORM]),
        CauseName.CRASH_LOOP,
        LIKELY,
    ),
    "members that die before their first commit": (
        told(Part(rule=Rule.NEVER_COMMITS, lag=None, evidence=HELD), events=LOOP),
        CauseName.CRASH_LOOP,
        LIKELY,
    ),
    "a deployment of three members after which nothing is read": (
        told(
            *[Part(by=each, rule=STOPPED, evidence=SILENT) for each in ("a-1", "b-1", "c-1")],
            events=[
                event(EventName.MEMBER_LEFT, 500, count=3, detail=members("a-0", "b-0", "c-0")),
                event(EventName.MEMBER_JOINED, 490, count=3, detail=members("a-1", "b-1", "c-1")),
            ],
        ),
        CauseName.NOT_COMMITTING,
        LIKELY,
    ),
    "a rebalance that does not end": (
        told(
            Part(rule=STALLED, evidence=POLLED),
            idle=["a-1", "b-1"],
            state="PreparingRebalance",
            events=[event(EventName.UNASSIGNED, 400, after="PreparingRebalance")],
        ),
        CauseName.STUCK_REBALANCE,
        LIKELY,
    ),
    "a rebalance that was not seen to begin": (
        told(Part(rule=STOPPED, evidence=SILENT), idle=["a-1"], state="CompletingRebalance"),
        CauseName.STUCK_REBALANCE,
        LIKELY,
    ),
    "one partition whose member keeps up with another": (
        told(Part(by="a-1", rule=BEHIND, consumed=2), Part(by="a-1"), Part(by="b-1")),
        CauseName.SLOW_PARTITION,
        LIKELY,
    ),
    "all are slow by less than half, and one of many is judged first": (
        told(
            Part(by="a-1", rule=BEHIND, consumed=6, lag=900),
            *[Part(by="a-1", consumed=6, lag=300) for _ in range(8)],
            Part(by="a-1", produced=None, consumed=None, lag=700),
        ),
        CauseName.ALL_SLOW,
        LIKELY,
    ),
    "all are slow, and some of them are not judged yet": (
        told(
            Part(by="a-1", rule=BEHIND, consumed=2),
            Part(by="a-1", consumed=2),
            Part(by="b-1", consumed=2),
        ),
        CauseName.ALL_SLOW,
        LIKELY,
    ),
    "all are a little too slow, and one of them is judged first": (
        told(
            Part(by="a-1", rule=BEHIND, consumed=7),
            Part(by="a-1", consumed=7, lag=90, rose_by=50),
            Part(by="b-1", consumed=7, lag=80, rose_by=50),
        ),
        CauseName.ALL_SLOW,
        LIKELY,
    ),
    "one partition whose member has a small rising lag in another": (
        told(
            Part(by="a-1", rule=BEHIND, consumed=2, lag=1000),
            Part(by="a-1", lag=90, rose_by=50),
            Part(by="b-1", lag=20, rose_by=5),
        ),
        CauseName.SLOW_PARTITION,
        LIKELY,
    ),
    "one slow member of three, each on a host of its own": (
        told(Part(by="a-1", rule=BEHIND, consumed=2), Part(by="b-1"), Part(by="c-1")),
        CauseName.SLOW_MEMBER,
        LIKELY,
    ),
    "a host with two members that hang": (
        told(
            Part(by="a-1", rule=STOPPED, consumed=0),
            Part(by="a-2", rule=STOPPED, consumed=0),
            Part(by="b-1"),
        ),
        CauseName.SLOW_MEMBER,
        LIKELY,
    ),
    "one slow member among several of its host": (
        told(Part(by="a-1", rule=BEHIND, consumed=2), Part(by="a-2"), Part(by="a-3")),
        CauseName.SLOW_MEMBER,
        LIKELY,
    ),
    "a group that never commits": (
        told(Part(by="a-1", rule=Rule.NEVER_COMMITS, lag=None)),
        CauseName.NOT_COMMITTING,
        LIKELY,
    ),
    "a member whose commits are in an open transaction": (
        told(
            Part(by="a-1", rule=STOPPED, consumed=0, evidence=SILENT),
            offsets_held=(17, NOW_MS - 390_000),
        ),
        CauseName.COMMITS_IN_TRANSACTION,
        LIKELY,
    ),
    "a member that committed while a transaction of another group was open": (
        told(
            Part(by="a-1", rule=STOPPED, consumed=0, evidence=SILENT),
            offsets_held=(17, NOW_MS - 410_000),
        ),
        CauseName.NOT_COMMITTING,
        LIKELY,
    ),
    "a member that was silent for long when a transaction began": (
        told(
            Part(by="a-1", rule=STOPPED, consumed=0, evidence=SILENT),
            offsets_held=(17, NOW_MS - 60_000),
        ),
        CauseName.NOT_COMMITTING,
        LIKELY,
    ),
    "a group without members, behind a transaction of another one": (
        told(Part(rule=STOPPED, consumed=0, evidence=SILENT), offsets_held=(17, NOW_MS - 390_000)),
        CauseName.NO_MEMBERS,
        LIKELY,
    ),
    "a member that has ceased to commit": (
        told(Part(by="a-1", rule=STOPPED, consumed=0, evidence=SILENT)),
        CauseName.NOT_COMMITTING,
        LIKELY,
    ),
    "polled offsets that rest: commits of the same offset cannot be seen": (
        told(Part(by="a-1", rule=STALLED, consumed=0, evidence=POLLED)),
        CauseName.NOT_COMMITTING,
        LIKELY,
    ),
    "the same offset again and again in one of a member's partitions": (
        told(Part(by="a-1", rule=STALLED, consumed=0, evidence=SILENT), Part(by="a-1")),
        CauseName.STUCK_ON_RECORD,
        LIKELY,
    ),
    "the same offset again and again in the only partition of one member": (
        told(Part(by="a-1", rule=STALLED, consumed=0, evidence=SILENT), Part(by="b-1")),
        CauseName.STUCK_ON_RECORD,
        LIKELY,
    ),
    "a member that repeats the offsets of all its partitions": (
        told(
            Part(by="a-1", rule=STALLED, consumed=0, evidence=SILENT),
            Part(by="a-1", rule=STALLED, consumed=0, evidence=SILENT),
            Part(by="b-1"),
            Part(by="b-1"),
        ),
        CauseName.SLOW_MEMBER,
        LIKELY,
    ),
    "the same offset again and again": (
        told(Part(by="a-1", rule=STALLED, consumed=0, evidence=SILENT)),
        CauseName.STUCK_ON_RECORD,
        LIKELY,
    ),
    "a burst": (
        told(
            Part(by="a-1", rule=BEHIND, produced=100),
            produced_before_per_s=10.0,
            produced_since_per_s=80.0,
        ),
        CauseName.PRODUCER_BURST,
        LIKELY,
    ),
    "more is written, and the group reads more slowly than before": (
        told(
            Part(by="a-1", rule=BEHIND, produced=100, consumed=5),
            produced_before_per_s=10.0,
            produced_since_per_s=80.0,
        ),
        CauseName.ALL_SLOW,
        LIKELY,
    ),
    "Kafka was away, and the group reads more slowly than before": (
        told(
            Part(by="a-1", rule=BEHIND, produced=40, consumed=5),
            produced_before_per_s=10.0,
            produced_since_per_s=11.0,
            after_outage=True,
        ),
        CauseName.ALL_SLOW,
        LIKELY,
    ),
    "all partitions of all members": (
        told(
            Part(by="a-1", rule=BEHIND, consumed=2),
            Part(by="b-1", rule=BEHIND, consumed=3),
            produced_before_per_s=20.0,
            produced_since_per_s=20.0,
        ),
        CauseName.ALL_SLOW,
        LIKELY,
    ),
}

NOT_KNOWN: Final[dict[str, tuple[Case, str]]] = {
    "too little was seen": (told(Part(rule=Rule.WARMING_UP)), "too little was seen"),
    "one that reads nothing is not slow": (
        told(Part(by="a-1", rule=BEHIND, produced=20.0, consumed=0.0, lag=624, offset=403)),
        "fits none of the causes",
    ),
    "the topic is not visible": (
        told(
            Part(rule=Rule.LOG_END_UNKNOWN, lag=None, why_unknown=UnknownReason.TOPIC_NOT_VISIBLE)
        ),
        "may not describe it",
    ),
    "the group could not be described": (
        told(Part(rule=STOPPED), state="Unknown"),
        "members are not known",
    ),
    "rates are not known": (
        told(Part(by="a-1", rule=BEHIND, produced=None, consumed=None)),
        "rates are not known",
    ),
    "data are stale, and the coordinator is known": (
        told(Part(by="a-1"), stale=True, age_s=31),
        "the data are 31 s old",
    ),
    "producers write what they held back while Kafka was away": (
        told(
            Part(by="a-1", rule=BEHIND, produced=40, consumed=9),
            produced_before_per_s=10.0,
            produced_since_per_s=11.0,
            after_outage=True,
        ),
        "Kafka was away right before",
    ),
    "the leader of the partitions of one member was away": (
        told(
            Part(by="a-1", rule=BEHIND, produced=40, consumed=9),
            Part(by="b-1", produced=10, consumed=10),
            produced_before_per_s=10.0,
            produced_since_per_s=11.0,
            after_outage=True,
        ),
        "or one of its brokers",
    ),
    "it has begun to catch up": (
        told(Part(by="a-1", rule=BEHIND, produced=5, consumed=9)),
        "fits none of the causes",
    ),
}


def found(case: Case) -> Cause:
    cause = cause_of(case)
    assert cause is not None
    return cause


@pytest.mark.parametrize("name", NAMED)
def test_a_cause_is_named(name: str) -> None:
    case, expected, certainty = NAMED[name]

    cause = found(case)

    assert (cause.name, cause.certainty) == (expected, certainty), cause.text
    assert cause.refuted_by
    assert cause.evidence
    assert "{" not in cause.text


@pytest.mark.parametrize(
    ("events", "evidence", "said"),
    [
        ([LEFT, reset(3880, 880)], 3460, "was set back from 3,880 to 880 and is at 3,460 now: "),
        ([LEFT, reset(3880, 880)], 880, "was set back from 3,880 to 880: "),
        ([], 3460, "was set back from 3,880 and is at 3,460 now: "),
    ],
)
def test_the_target_of_a_reset_is_not_where_the_group_has_read_to_since(
    events: list[GroupEvent], evidence: int, said: str
) -> None:
    back = (("offset_before", 3880), ("committed_offset", evidence))
    scene = told(Part(by="a-1", rule=Rule.REWOUND, evidence=back), events=events)

    cause = cause_of(scene)

    assert cause is not None
    assert said in cause.text


@pytest.mark.parametrize("name", NOT_KNOWN)
def test_where_no_cause_fits_it_is_said_why(name: str) -> None:
    case, because = NOT_KNOWN[name]

    cause = found(case)

    assert (cause.name, cause.certainty) == (None, UNKNOWN), cause.text
    assert cause.text.startswith("not known, because ")
    assert because in cause.text


def test_every_cause_has_a_case_and_every_proof_one_in_which_it_fails() -> None:
    shown = {(name, certainty) for _, name, certainty in NAMED.values()}

    assert {name for name, _ in shown} == set(CauseName) == {row.cause for row in CAUSES}
    assert {row.cause for row in CAUSES if row.proved} == {
        name for name, certainty in shown if certainty is CERTAIN
    }
    assert {name for name, certainty in shown if certainty is LIKELY} == set(CauseName)
    assert all(bool(row.certain_when) == (row.proved is not None) for row in CAUSES)


@pytest.mark.parametrize(
    "case",
    [
        told(Part(by="a-1"), Part(by="a-1", lag=0)),
        told(Part(by="a-1", rule=Rule.PROGRESSING, lag=900)),
        told(Part(rule=Rule.NOT_SUBSCRIBED, lag=0), Part(by="a-1", topic="clicks")),
        # a partition that cannot be judged makes its group no worse
        told(Part(by="a-1"), Part(by="a-1", rule=Rule.WARMING_UP)),
    ],
)
def test_a_healthy_group_has_no_cause(case: Case) -> None:
    assert cause_of(case) is None


def test_a_rebalance_that_has_just_begun_does_not_explain_a_stop() -> None:
    begun = event(EventName.UNASSIGNED, 60, after="PreparingRebalance")
    silent = Part(rule=STALLED, evidence=POLLED)

    cause = found(told(silent, idle=["a-1"], state="PreparingRebalance", events=[begun]))

    assert cause.name is not CauseName.STUCK_REBALANCE


def test_a_storm_that_is_over_or_long_ago_is_no_cause() -> None:
    ended = event(EventName.REBALANCE_STORM, 5, after="ended")
    old = [replace(each, at_ms=EpochMs(each.at_ms - 130_000)) for each in REBALANCES]
    stopped = Part(by="a-1", rule=STOPPED, evidence=SILENT)

    over = found(told(stopped, events=[*REBALANCES, STORM, ended]))
    long_ago = found(told(stopped, events=[*old, STORM]))

    assert over.name is long_ago.name is CauseName.NOT_COMMITTING


def test_what_began_before_a_broker_went_away_has_a_cause_of_its_own() -> None:
    case = told(
        Part(rule=STOPPED), events=[LEFT], stale=True, leaderless=frozenset({("orders", 0)})
    )

    assert found(case).name is CauseName.NO_MEMBERS


def test_a_group_that_commits_without_members_is_not_called_empty() -> None:
    assert found(told(Part(rule=STALLED, evidence=SILENT))).name is CauseName.STUCK_ON_RECORD


def test_a_cause_of_the_whole_group_is_not_blamed_on_one_partition() -> None:
    behind = [Part(by=f"{name}-1", rule=BEHIND, consumed=2) for name in "abc"]

    assert found(told(*behind, Part(by="d-1"))).name is CauseName.ALL_SLOW


def test_no_member_is_suspected_to_have_set_back_a_group_without_any() -> None:
    empty = found(told(Part(rule=Rule.REWOUND, evidence=BACK), state="Empty"))
    read = found(told(Part(by="a-1", rule=Rule.REWOUND, evidence=BACK)))

    assert "no member was there" in empty.text
    assert "a member committed it" in read.text


def test_the_evidence_of_an_unknown_number_is_null() -> None:
    cause = found(told(Part(rule=Rule.SILENT_BEFORE_START)))

    assert cause.evidence["left_ago_ms"] is None
    assert "none was seen to leave" in cause.text


@pytest.mark.parametrize(
    ("certainty", "sentence"),
    [
        (Certainty.CERTAIN, "Cause (certain): it rains."),
        (Certainty.LIKELY, "Cause (likely): it rains. Refuted if the street is dry."),
        (Certainty.UNKNOWN, "Cause: it rains."),
    ],
)
def test_a_cause_says_how_certain_it_is(certainty: Certainty, sentence: str) -> None:
    assert cause_sentence(certainty, "it rains", "the street is dry") == sentence


def test_the_words_of_a_cause_say_its_numbers() -> None:
    slow = told(Part(by="a-1", rule=BEHIND, produced=100, consumed=40))

    assert found(slow).text == (
        "all consumers together are too slow: 100/s are written, 40/s read by 1 member; "
        "1 partition behind"
    )


_RATE = st.none() | st.floats(0, 1e6)
_EVENTS = st.sampled_from([LEFT, JOINED, *REBALANCES, STORM, reset(500, 20)])
_EVIDENCE = st.sampled_from([(), BACK, BELOW_START, WAITS, SILENT, POLLED])


@st.composite
def _cases(draw: st.DrawFn) -> Case:
    parts = draw(
        st.lists(
            st.builds(
                Part,
                rule=st.sampled_from(Rule),
                by=st.sampled_from(["", "a-1", "a-2", "b-1"]),
                produced=_RATE,
                consumed=_RATE,
                lag=st.none() | st.integers(0, 1000),
                topic=st.sampled_from(["orders", "clicks"]),
                evidence=_EVIDENCE,
            ),
            min_size=1,
            max_size=5,
        )
    )
    return told(
        *parts,
        events=draw(st.lists(_EVENTS, max_size=5)),
        idle=draw(st.sampled_from([(), ("z-1",)])),
        state=draw(st.sampled_from(["", "Unknown", "PreparingRebalance"])),
        stale=draw(st.booleans()),
        produced_before_per_s=draw(_RATE),
        produced_since_per_s=draw(_RATE),
    )


@given(_cases())
def test_whatever_is_known_gives_a_cause_or_says_why_not(case: Case) -> None:
    cause = cause_of(case)

    if cause is None:
        assert case.verdict.status in {GroupStatus.OK, GroupStatus.UNKNOWN}
    else:
        assert (cause.name is None) == (cause.certainty is UNKNOWN)
        assert "{" not in cause.text


@given(_cases())
def test_stale_data_make_nothing_certain(case: Case) -> None:
    cause = cause_of(replace(case, verdict=replace(case.verdict, stale=True)))

    assert cause is None or cause.certainty is not CERTAIN


@given(_cases())
def test_without_a_story_no_cause_that_needs_one_is_certain(case: Case) -> None:
    cause = cause_of(replace(case, events=()))

    by_story = {CauseName.NO_MEMBERS, CauseName.OFFSETS_RESET, CauseName.MEMBER_WITHOUT_ASSIGNMENT}
    assert cause is None or cause.name not in by_story or cause.certainty is not CERTAIN


def test_a_group_without_members_that_commits_other_partitions_is_not_down() -> None:
    stuck, read = Part(rule=STOPPED, evidence=SILENT), Part(committed_ago_s=5)

    cause = found(told(stuck, read, read))

    assert cause.name is None
    assert "commits for 2 other partitions come" in cause.text
    assert found(told(stuck, Part())).name is CauseName.NO_MEMBERS


def test_a_reset_is_no_consumer_of_a_group_without_members() -> None:
    stuck, set_back = Part(rule=STOPPED, evidence=SILENT), Part(committed_ago_s=5)

    cause = found(told(stuck, set_back, events=[event(EventName.OFFSETS_RESET, 5, topic="orders")]))

    assert cause.name is CauseName.NO_MEMBERS


def test_what_was_not_seen_is_no_new_topic_but_one_of_three_things() -> None:
    beyond = (("committed_offset", 900), ("log_end_offset", 90))

    cause = found(told(Part(rule=Rule.AHEAD_OF_LOG_END, offset=900, evidence=beyond)))

    assert cause.text == (
        "the topic was deleted and made anew, or its log was cut short, or a wrong offset was "
        "committed; nothing of that was seen since the group has been watched"
    )


def test_advice_follows_the_cause_and_what_is_known_of_the_members() -> None:
    stuck, read = Part(by="a-1", rule=STOPPED, evidence=SILENT), Part(by="a-1")
    silent = Part(rule=STOPPED, evidence=SILENT)

    def first(case: Case) -> str:
        return found(case).to_do[0]

    dead = found(told(stuck, read))
    assert dead.name is CauseName.STUCK_PARTITION
    assert dead.to_do[0].startswith("Take a thread dump of the owner, then restart it")
    assert first(told(silent)).startswith("The service of the group is down")
    assert first(told(silent, state="Unknown")) == "Is the service of the group down? Start it."
    reads_others = told(silent, Part(committed_ago_s=5))
    assert first(reads_others).startswith("Look at the consumer that assigns partitions itself")


def test_messages_lost_beside_another_trouble_have_their_own_steps() -> None:
    stopped = found(told(Part(rule=STOPPED, evidence=SILENT, lost=600)))
    lost = found(told(Part(rule=Rule.RECORDS_LOST, evidence=BELOW_START, lost=600)))

    assert stopped.name is CauseName.NO_MEMBERS
    assert stopped.to_do[0].startswith("The service of the group is down")
    assert stopped.to_do[-3:] == lost.to_do == LOST


@given(_cases())
def test_no_service_is_to_be_started_while_its_members_are_there(case: Case) -> None:
    cause = cause_of(case)

    there = case.info is not None and case.members_known and bool(case.info.members)
    assert not there or cause is None or "tart it." not in " ".join(cause.to_do)


@given(_cases())
def test_no_owner_is_to_be_looked_at_in_a_group_without_members(case: Case) -> None:
    cause = cause_of(case)

    assert not case.empty or cause is None or "owner" not in " ".join(cause.to_do)


def test_what_commits_without_members_is_to_be_found_first() -> None:
    stuck = found(told(Part(rule=STALLED, consumed=0, evidence=(("commits_are", "read"),))))

    assert stuck.name is CauseName.STUCK_ON_RECORD
    assert stuck.to_do[0].startswith("Find the program that commits")


def test_every_cause_has_first_steps_but_where_nothing_is_wrong() -> None:
    without = {row.cause for row in CAUSES if not row.to_do}
    longest = max(len(" ".join(row.to_do[:2])) for row in CAUSES)

    assert without == {CauseName.CONTROL_RECORDS}
    assert longest < 250, "notices show two steps in a line"
    assert all(step.endswith((".", "?")) for row in CAUSES for step in row.to_do)


def test_an_outlook_without_partitions_is_no_fault() -> None:
    case = NAMED["all partitions of all members"][0]
    empty: GroupOutlook = of_group({}, {})

    assert found(replace(case, outlook=empty)).name is None


def test_of_a_job_that_keeps_its_progress_elsewhere_kafka_knows_no_members() -> None:
    case = told(Part(rule=STOPPED), state="Unknown")
    assert case.info is not None

    elsewhere = found(replace(case, info=replace(case.info, type="spark-checkpoint")))

    assert elsewhere.name is None
    assert "outside of Kafka" in elsewhere.text
    assert "lacks DESCRIBE" in found(case).text


def test_a_commit_after_the_last_member_had_left_is_said() -> None:
    later = Part(rule=STOPPED, evidence=(("quiet_ms", 300_000),), committed_ago_s=300)

    after = found(told(later, events=[JOINED, LEFT]))
    before = found(NAMED["all members left"][0])
    of_a_member = found(told(later, events=[LEFT, replace(JOINED, at_ms=LEFT.at_ms)]))

    assert after.evidence["committed_after_ms"] == 40_000
    assert after.text.endswith(
        "client a-1 on a; a commit was seen 40 s after that, perhaps of a consumer that assigns "
        "partitions itself"
    )
    assert "committed_after_ms" not in before.evidence
    assert before.text.endswith("client a-1 on a")
    assert "committed_after_ms" not in of_a_member.evidence


def test_of_a_group_that_never_had_members_it_is_not_said_that_one_left() -> None:
    cause = found(told(Part(rule=STOPPED, evidence=SILENT)))

    assert (cause.name, cause.certainty) == (CauseName.NO_MEMBERS, Certainty.LIKELY)
    assert cause.text == "the group has no members (state Empty), and none was seen to leave"


def test_clocks_that_differ_make_no_commit_after_the_last_member() -> None:
    """Kafka's clock is three minutes ahead: what it calls 300 s ago is 480 s ago here."""
    part = Part(rule=STOPPED, evidence=(("quiet_ms", 480_000),), committed_ago_s=300)
    case = told(part, events=[JOINED, LEFT])
    (verdict,) = case.verdict.partitions
    assert verdict.end is not None
    seen = replace(verdict.end, observed_ms=EpochMs(NOW_MS - 480_000))
    not_learned = replace(case.verdict, partitions=(replace(verdict, end=seen),))

    assert "committed_after_ms" in found(case).evidence
    for known in (replace(case, skew_ms=-180_000), replace(case, verdict=not_learned)):
        assert "committed_after_ms" not in found(known).evidence


def test_how_a_group_reads_is_not_said_where_it_is_not_known() -> None:
    held = Part(by="a-1", rule=Rule.WAITS_FOR_TRANSACTION, evidence=WAITS)
    marks = Part(by="a-1", rule=Rule.CONTROL_RECORDS_ONLY, evidence=MARKS)
    mark = Part(by="a-1", rule=Rule.CONTROL_RECORDS_ONLY, evidence=MARK)

    for part in (held, marks):
        assert re.search("if (it|the group) reads committed", found(told(part)).text)
        assert " if " not in found(told(part, read_committed=True)).text
        assert "read uncommitted" in found(told(part)).refuted_by
    assert found(told(mark)).text == (
        "nothing is wrong: up to the log end 102 there is only the mark of a transaction, which "
        "counts as lag"
    )


@pytest.mark.parametrize(("configured", "certainty"), [("", LIKELY), ("^billing$", CERTAIN)])
def test_how_a_group_reads_is_known_from_the_configuration(
    configured: str, certainty: Certainty
) -> None:
    live = Live(read_committed=configured)
    live.topics(orders=1)
    live.assign("billing", ("orders", 0))
    live.wait(10)
    live.commit(("billing", "orders", 0, 100))
    live.produce("orders", 0, 20)
    live.open_transaction("orders", 0, 100)
    live.wait(10)
    live.judge()
    queries = SnapshotQueries({"here": live.monitor}, health=lambda: ())

    verdict = queries.verdict("here", "billing", Partitions.ALL)
    cause = queries.cause(verdict, queries.outlook("here", "billing"))

    assert cause is not None
    assert (cause.name, cause.certainty) == (CauseName.OPEN_TRANSACTION, certainty)


@pytest.mark.parametrize(
    ("after_s", "expected"),
    [(20, CauseName.OFFSETS_RESET), (580, CauseName.OFFSETS_RESET), (620, CauseName.ALL_SLOW)],
)
def test_a_group_that_went_back_misses_a_limit_because_of_that(after_s, expected) -> None:
    """Before the rule `rewound` holds, which waits for the offset to return, and after it."""
    live = Live()
    live.topics(orders=1)
    live.describe("billing", kind="classic", members=0)
    for offset in (100, 200, 300, 400):
        live.produce("orders", 0, 100)
        live.commit(("billing", "orders", 0, offset))
        live.wait(10)
    live.commit(("billing", "orders", 0, 150))
    for number in range(after_s // 10):
        live.produce("orders", 0, 10)
        live.wait(10)
        live.commit(("billing", "orders", 0, 151 + number))
    live.judge()
    queries = SnapshotQueries({"here": live.monitor}, health=lambda: ())

    verdict = judged_slow(queries.verdict("here", "billing", Partitions.COMMITTED))
    cause = queries.cause(verdict, queries.outlook("here", "billing"))

    assert cause is not None
    assert cause.name is expected, cause.text
    if expected is CauseName.OFFSETS_RESET:
        assert cause.evidence["offset_before"] == 400


def test_a_transaction_in_the_offsets_topic_is_named_with_its_partition() -> None:
    silent = Part(by="a-1", rule=STOPPED, consumed=0, evidence=SILENT)

    cause = found(told(silent, offsets_held=(17, NOW_MS - 390_000)))

    assert cause.text == (
        "no commit came since a transaction has been open in partition 17 of __consumer_offsets, "
        "where the group's commits are, for 6 min 30 s: if it commits in that transaction, they "
        "count when it ends"
    )


@pytest.mark.parametrize("held", [True, False])
def test_a_transaction_in_the_offsets_topic_explains_why_no_commit_comes(held) -> None:
    live = Live()
    live.topics(orders=1)
    live.assign("billing", ("orders", 0))
    for offset in range(100, 3100, 100):
        live.produce("orders", 0, 100)
        live.commit(("billing", "orders", 0, offset), ("other", "orders", 0, offset))
        live.wait(10)
        live.judge()
    for _ in range(120):
        live.produce("orders", 0, 100)
        if held:
            live.hold_offsets_back("billing")
        live.wait(10)
        live.judge()
    queries = SnapshotQueries({"here": live.monitor}, health=lambda: ())

    verdict = queries.verdict("here", "billing", Partitions.ALL)
    cause = queries.cause(verdict, queries.outlook("here", "billing"))

    assert cause is not None
    expected = CauseName.COMMITS_IN_TRANSACTION if held else CauseName.NOT_COMMITTING
    assert cause.name is expected, cause.text


def test_a_member_that_has_just_come_is_not_blamed_for_the_time_before() -> None:
    silent = Part(by="b-1", rule=STOPPED, consumed=0, evidence=(("quiet_ms", 65_000),))
    came = event(EventName.MEMBER_JOINED, 2, count=1, detail=members("b-1"))
    long_there = event(EventName.MEMBER_JOINED, 64, count=1, detail=members("b-1"))

    new, old = found(told(silent, events=[came])), found(told(silent, events=[long_there]))

    assert new.name is old.name is CauseName.NOT_COMMITTING
    assert new.text == (
        "client b-1 on b holds the partition now (members came, left or rebalanced 2 s ago), and "
        "the group has not committed for 1 min 5 s: it reads without committing, or it hangs"
    )
    assert new.evidence["changed_ago_ms"] == 2_000
    assert old.text == (
        "client b-1 on b holds the partition and has not committed for 1 min 5 s: it reads "
        "without committing, or it hangs"
    )
    assert "changed_ago_ms" not in old.evidence


def test_an_upper_bound_of_lost_messages_is_called_so() -> None:
    evidence = (*BELOW_START, ("lost_is", "upper_bound"))
    cause = cause_of(told(Part(by="a-1", rule=Rule.RECORDS_LOST, evidence=evidence)))
    assert cause is not None
    assert cause.text.startswith("up to 80 messages were deleted")
    assert "before the group committed them (it may have read some)" in cause.text


def test_where_offsets_are_polled_nothing_is_said_of_commits() -> None:
    cause = cause_of(told(Part(by="a-1", rule=STALLED, consumed=0, evidence=POLLED)))
    assert cause is not None
    assert "has not moved its offset for" in cause.text
    assert cause.text.endswith("or commits the same offset again and again")


def test_progress_that_went_back_was_reported_so() -> None:
    cause = cause_of(told(Part(rule=Rule.REWOUND, evidence=BACK), kind="flink", state="Unknown"))
    assert cause is not None
    assert cause.text.endswith("the job, or who reports for it, said so")


@pytest.mark.parametrize(
    ("dead", "said"),
    [
        ((2, 0), "a dead topic, 2 partitions of events: client a-1 on a holds this one"),
        ((2, 1), "one of 2 dead partitions: client a-1 on a holds this one"),
        ((1, 1), "one dead partition: client a-1 on a holds this one"),
    ],
)
def test_a_topic_of_which_nothing_is_read_is_no_dead_partition(
    dead: tuple[int, int], said: str
) -> None:
    """`dead`: how many partitions of the topic stopped, and how many are read."""
    stuck = Part(by="a-1", rule=STOPPED, topic="events", evidence=SILENT, consumed=0.0)
    read = Part(by="a-1", topic="events", committed_ago_s=5)
    other = Part(by="a-1", committed_ago_s=5)

    cause = found(told(*[stuck] * dead[0], *[read] * dead[1], other, other))

    assert cause.name is CauseName.STUCK_PARTITION
    assert cause.text.startswith(said)
    assert ("handles this topic" in cause.text) == (dead[1] == 0)


def test_a_member_that_committed_the_same_offset_until_lately_is_not_said_to_commit_nothing() -> (
    None
):
    """It is silent for 23 s only, and has not moved for much longer: it may be stuck."""
    silent = Part(by="a-1", rule=STOPPED, consumed=0, committed_ago_s=23, evidence=SILENT)

    cause = found(told(silent))

    assert cause.name is CauseName.NOT_COMMITTING
    assert "has not committed for 23 s: before that it committed offset 170 again" in cause.text
    assert "has not moved for 6 min 40 s" in cause.text


def test_members_that_came_and_went_since_make_it_unsure_that_none_is_started() -> None:
    """One visit is no loop yet; that the last member was seen to leave proves nothing any more."""
    stopped = Part(rule=STOPPED, consumed=0, evidence=SILENT, committed_ago_s=410)
    left = event(EventName.MEMBER_LEFT, 400, count=1, detail=members("a-1"))
    visit = event(EventName.REBALANCE, 100, after="Empty", count=2)

    sure, unsure = (found(told(stopped, events=events)) for events in ([left], [left, visit]))

    assert sure.name is unsure.name is CauseName.NO_MEMBERS
    assert (sure.certainty, unsure.certainty) == (CERTAIN, LIKELY)


def test_a_crash_loop_of_which_no_look_saw_a_member_names_none() -> None:
    cause = found(told(Part(rule=STOPPED, evidence=SILENT), events=VISITS))

    assert "4 members joined and 4 members left within 35 s" in cause.text
    assert "None" not in cause.text


def test_members_that_are_named_alike_are_named_once() -> None:
    gone = json.dumps([{"client_id": "app", "host": "/10.0.0.7"}] * 4)
    events = [event(EventName.MEMBER_JOINED, 40 - nth, count=4) for nth in range(3)]
    events += [event(EventName.MEMBER_LEFT, 30 - nth, count=4, detail=gone) for nth in range(3)]

    cause = found(told(Part(rule=STOPPED, evidence=SILENT), events=events))

    assert cause.name is CauseName.CRASH_LOOP
    assert cause.text.count("10.0.0.7") == 1


@pytest.mark.parametrize(
    ("number", "said"), [(1, "1 message was lost"), (2, "2 messages were lost")]
)
def test_a_sentence_counts_its_subject(number: int, said: str) -> None:
    assert fill("{it:message} {it:was} lost", {"it": number}) == said

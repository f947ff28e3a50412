"""Why a group has its verdict: the causes, one row each, in order of precedence.

The first row that holds names the cause. Each has its evidence, its sentence, what would refute it,
when it is certain, and what to do first. Where no row holds the cause is not known, and the text
says why. The API, notices, `lagwatch explain GROUP` and the table in the documentation are made
from these rows.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from typing import Final

from lagwatch.core import first_steps
from lagwatch.core.case import Case, Event
from lagwatch.core.first_steps import Steps
from lagwatch.core.forecast import Outlook
from lagwatch.core.model import (
    EMPTY,
    UNKNOWN,
    PartitionVerdict,
    Rule,
    UnknownReason,
    WindowEntry,
)
from lagwatch.core.record import EventName
from lagwatch.core.words import Evidence, client, fill


class CauseName(StrEnum):
    """Names of the causes; `CAUSES` has their meanings."""

    BROKER_AWAY = "broker_away"
    PROGRESS_UNREAD = "progress_unread"
    COMMITTED_BEYOND_END = "committed_beyond_end"
    TOPIC_RECREATED = "topic_recreated"
    RECORDS_LOST = "records_lost"
    OFFSETS_RESET = "offsets_reset"
    CONTROL_RECORDS = "control_records"
    OPEN_TRANSACTION = "open_transaction"
    UNSUBSCRIBED_TOPIC = "unsubscribed_topic"
    CRASH_LOOP = "crash_loop"
    STUCK_REBALANCE = "stuck_rebalance"
    REBALANCE_STORM = "rebalance_storm"
    NO_MEMBERS = "no_members"
    MEMBER_WITHOUT_ASSIGNMENT = "member_without_assignment"
    COMMITS_IN_TRANSACTION = "commits_in_transaction"
    STUCK_PARTITION = "stuck_partition"
    SLOW_PARTITION = "slow_partition"
    SLOW_MEMBER = "slow_member"
    NOT_COMMITTING = "not_committing"
    STUCK_ON_RECORD = "stuck_on_record"
    PRODUCER_BURST = "producer_burst"
    ALL_SLOW = "all_slow"


class Certainty(StrEnum):
    """How reliable a cause is."""

    CERTAIN = "certain"
    """What Kafka reports rules out every other cause."""
    LIKELY = "likely"
    """The most likely cause; `refuted_by` says how to check it."""
    UNKNOWN = "unknown"
    """No cause is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why a group has its verdict."""

    name: CauseName | None
    """None: not known, and `text` says why."""
    certainty: Certainty
    text: str
    refuted_by: str
    """What would disprove the cause; "" when no cause is named."""
    evidence: Evidence
    topic: str | None
    """With `partition`: the partition that decides the verdict."""
    partition: int | None
    to_do: Steps = ()
    """First steps, the likeliest first; none if nothing is wrong or nothing is known."""

    @property
    def sentence(self) -> str:
        """The cause with its certainty, the same in every notice and on the page."""
        return cause_sentence(self.certainty, self.text, self.refuted_by)


def cause_sentence(certainty: str, text: str, refuted_by: str) -> str:
    """`Cause (likely): … Refuted if …`, `Cause (certain): …`, or `Cause: not known, because …`."""
    if certainty == Certainty.UNKNOWN:
        return f"Cause: {text}."
    refuted = f" Refuted if {refuted_by}." if certainty == Certainty.LIKELY else ""
    return f"Cause ({certainty}): {text}.{refuted}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseRow:
    """One cause."""

    cause: CauseName
    meaning: str
    """When it holds, for the documentation."""
    find: Callable[[Case, PartitionVerdict], Evidence | None]
    """The evidence when it holds for the partition that decides, or None. Pure."""
    sentence: str
    """With `{number:form}`; see `words.fill`."""
    refuted_by: str
    to_do: Steps
    """First steps, the likeliest first."""
    to_do_of: Mapping[Rule, Steps] = field(default_factory=dict)
    """Those of single rules, where they differ."""
    to_do_empty: Steps = ()
    """Those of a group that is known to have no members, where they differ."""
    proved: Callable[[Case, PartitionVerdict], bool] | None = None
    """Condition for "certain"; None if the cause is never more than likely."""
    certain_when: str = ""
    """The condition in words, for the documentation; "" if never certain."""
    phrases: Callable[[Evidence], Evidence] | None = None
    """Clauses of the sentence that depend on the evidence, by name."""

    def text(self, found: Evidence) -> str:
        """The sentence with this evidence."""
        phrases = {} if self.phrases is None else self.phrases(found)
        return fill(self.sentence, {**found, **phrases})

    def steps(self, case: Case, worst: PartitionVerdict) -> Steps:
        """First steps for the partition that decides."""
        if case.empty and self.to_do_empty:
            return self.to_do_empty
        return self.to_do_of.get(worst.rule, self.to_do)


_SILENT: Final = frozenset({Rule.STOPPED, Rule.SILENT_BEFORE_START})
_STUCK: Final = frozenset({Rule.STOPPED, Rule.STALLED})
_SLOW: Final = frozenset({Rule.FALLING_BEHIND, Rule.LAG_NOT_DECREASING})
_WITHOUT_READER: Final = _SILENT | _SLOW
"""Rules that may hold because the group has no consumer."""
_LEFT: Final = (EventName.MEMBER_LEFT, EventName.STATIC_MEMBER_AWAY)
_CAME: Final = (EventName.MEMBER_JOINED, EventName.STATIC_MEMBER_BACK)
_LOOP_MS: Final = 900_000
"""What starts a member that dies waits for five minutes at most: three starts take as long."""
_LOOP_STARTS: Final = 3
_REBALANCE_MS: Final = 300_000
"""A member that does not rejoin within `max.poll.interval.ms` is left out of a rebalance."""
_REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance"})
_STORM_RECENT_MS: Final = 120_000
"""A storm explains a verdict for this long after its last rebalance."""
_MADE_ANEW: Final = (
    "the log is not the one that the group read: the topic was deleted and made anew"
)
_OR_WRONG: Final = (
    "the topic was deleted and made anew, or its log was cut short, or a wrong offset was committed"
)
_RECREATED_MS: Final = 900_000
"""A re-created topic explains a rewind or a loss for this long."""
_LEAVES_WITHIN_MS: Final = 60_000
"""A dead consumer remains a member until its session times out, 45 s by default."""
_COMMITS_LATE_MS: Final = 15_000
"""A last commit may be seen so long after its member left: clocks differ, and polls take time."""
_REPEATED_MS: Final = 30_000
"""Who committed the same offset for as long does not get past it."""
_MEMBERS_LATE_MS: Final = 30_000
"""Members are described so rarely, by default: they may be seen to come and go so late."""
_BACK_SHARE: Final = 0.1
"""Part of its lag by which a partition went back from which that is why it is behind."""
_MUCH: Final = 2.0
"""Factor of the rate produced from which it counts as a hot partition or a burst."""
_AS_FAST: Final = 0.8
"""A group that reads at this share of its earlier rate, or more, has not slowed down."""


def _is_on(*rules: Rule, evidence: tuple[str, ...] = ()) -> Callable[..., Evidence | None]:
    """Holds where one of these rules decided; shows numbers of the verdict."""

    def find(_: Case, worst: PartitionVerdict) -> Evidence | None:
        if worst.rule not in rules:
            return None
        return {name: worst.evidence.get(name) for name in evidence}

    return find


# brokers and topics


def _broker_away(case: Case, worst: PartitionVerdict) -> Evidence | None:
    if case.troubled:  # it began before: nothing gets worse while a broker is away
        return None
    leaderless = case.place(worst) in case.leaderless
    leaderless |= worst.unknown_reason is UnknownReason.NO_LEADER
    info = case.info
    no_coordinator = case.verdict.stale and info is not None and info.coordinator < 0
    no_coordinator &= not case.kept_elsewhere
    if not leaderless and not no_coordinator:
        return None
    what = "the partition has no leader" if leaderless else "the group has no known coordinator"
    return {"away": what, "data_age_ms": round(case.verdict.data_age_s * 1000)}


def _progress_unread(case: Case, _: PartitionVerdict) -> Evidence | None:
    """What keeps the progress cannot be read, or nothing was reported for a while."""
    if not case.kept_elsewhere or not case.verdict.stale or case.troubled:
        return None
    return {"data_age_ms": round(case.verdict.data_age_s * 1000)}


def _committed_beyond_end(case: Case, worst: PartitionVerdict) -> Evidence | None:
    """The log still has what was committed before: it was not cut, but the offset went too far."""
    log_end = worst.evidence.get("log_end_offset")
    start, end = worst.start, worst.end
    if worst.rule is not Rule.AHEAD_OF_LOG_END or start is None or end is None:
        return None
    event = case.last(EventName.TOPIC_RECREATED, topic=worst.topic)
    of_old_log = event is not None and _was_there(case, event, start)
    if of_old_log or not isinstance(log_end, int) or log_end >= end.offset:
        return None
    reached = start.offset <= log_end
    # a topic made anew would have been seen: of the groups that it had commits of
    same_log = event is None and case.watched_ms is not None and start.commit_ms > case.watched_ms
    if not reached and not same_log:
        return None
    return {
        "offset_before": start.offset if reached else None,
        "committed_offset": end.offset,
        "log_end_offset": log_end,
        "last_commit_ms": worst.evidence.get("last_commit_ms"),
    }


def _went_beyond(found: Evidence) -> Evidence:
    said = "it went from {offset_before} to {committed_offset} within the window"
    if found["offset_before"] is None:
        said = "it is {committed_offset}"
    return {"went": fill(said, found)}


def _topic_recreated(case: Case, worst: PartitionVerdict) -> Evidence | None:
    event = case.last(EventName.TOPIC_RECREATED, topic=worst.topic)
    if worst.rule is not Rule.AHEAD_OF_LOG_END and (
        worst.rule not in {Rule.REWOUND, Rule.RECORDS_LOST}
        or event is None
        or case.age_ms(event) > _RECREATED_MS
    ):
        return None
    return {
        "committed_offset": worst.evidence.get("committed_offset"),
        "log_end_offset": worst.evidence.get("log_end_offset"),
        "recreated_ago_ms": None if event is None else case.age_ms(event),
        "what": _OR_WRONG if event is None else _MADE_ANEW,
        "seen": _new_topic(case, event, worst),
    }


def _new_topic(case: Case, event: Event | None, worst: PartitionVerdict) -> str:
    if event is None:
        return "nothing of that was seen since the group has been watched"
    if _was_there(case, event, worst.end):
        return "a new topic was seen"
    return (
        "a new topic was seen, and the offset was committed after that: by a consumer that went on "
        "from where it was, or a wrong one"
    )


def _was_there(case: Case, event: Event, commit: WindowEntry | None) -> bool:
    """True if this was committed before an event."""
    return commit is None or commit.commit_ms + case.skew_ms <= event.at_ms


def _new_topic_proved(case: Case, worst: PartitionVerdict) -> bool:
    event = case.last(EventName.TOPIC_RECREATED, topic=worst.topic)
    beyond = worst.rule is Rule.AHEAD_OF_LOG_END
    return event is not None and beyond and _was_there(case, event, worst.end)


def _surely_lost(_: Case, worst: PartitionVerdict) -> bool:
    """False where a member may have read them and has not committed that yet."""
    if worst.evidence.get("lost_is") == "upper_bound":
        return False
    committed = worst.evidence.get("committed_offset")
    start = worst.evidence.get("log_start_offset")
    return isinstance(committed, int) and isinstance(start, int) and committed < start


def _how_many_lost(found: Evidence) -> Evidence:
    bound = found["lost_is"] == "upper_bound"
    return {
        "up_to": {"upper_bound": "up to ", "lower_bound": "at least "}.get(
            str(found["lost_is"]), ""
        ),
        "read_them": "committed them (it may have read some)" if bound else "read them",
    }


# offsets


def _offset_before(case: Case, worst: PartitionVerdict) -> int | float | str | None:
    """The offset from which the partition went back; None if that is not its trouble.

    A slow partition is behind because it went back, if it would be much less behind otherwise.
    """
    if worst.rule is Rule.REWOUND:
        return worst.evidence.get("offset_before")
    before = case.went_back.get(case.place(worst))
    if before is None or worst.end is None or worst.rule not in _SLOW:
        return None
    reads_again = before - worst.end.offset
    return before if reads_again > _BACK_SHARE * (worst.current_lag or 0) else None


def _reset_to(case: Case, worst: PartitionVerdict) -> int | None:
    """Where a reset set this partition back to from the offset that the verdict shows."""
    event = case.last(EventName.OFFSETS_RESET, topic=worst.topic)
    if event is None:
        return None
    before = _offset_before(case, worst)
    for change in json.loads(event.detail or "[]"):
        if change["partition"] == worst.partition and change["before"] == before > change["after"]:
            return int(change["after"])
    return None


def _offsets_reset(case: Case, worst: PartitionVerdict) -> Evidence | None:
    before = _offset_before(case, worst)
    if before is None and worst.rule is not Rule.REWOUND:
        return None
    to = _reset_to(case, worst)
    if to is not None:
        how = "it was set while the group had no members; Kafka does not say by whom"
    elif case.kept_elsewhere:
        how = "the job, or who reports for it, said so"
    elif case.empty:
        how = "by Kafka's tool or another program: no member was there when Kafka last described it"
    else:
        how = "a member committed it, or another program did"
    return {
        "offset_before": before,
        "offset_after": worst.evidence.get("offset_after") if to is None else to,
        "committed_offset": _committed(worst),
        "how": how,
    }


def _committed(worst: PartitionVerdict) -> int | float | str | None:
    if worst.rule is Rule.REWOUND:
        return worst.evidence.get("committed_offset")
    return None if worst.end is None else worst.end.offset


def _set_back_to(found: Evidence) -> Evidence:
    """Where it was set back to, if that is known, and how far the group has read since."""
    after, committed = found["offset_after"], found["committed_offset"]
    parts = []
    if after is not None:
        parts.append(f"to {after:,}")
    if committed not in {None, after}:
        parts.append(f"and is at {committed:,} now")
    return {"where": " ".join(parts)}


# transactions


def _control_records(case: Case, worst: PartitionVerdict) -> Evidence | None:
    if worst.rule is not Rule.CONTROL_RECORDS_ONLY:
        return None
    names = ("current_lag", "committed_offset", "log_end_offset")
    return {**{name: worst.evidence.get(name) for name in names}, "reads": _reads(case)}


def _nothing_left(case: Case, worst: PartitionVerdict) -> bool:
    """True if there is no message for this group in what is left, and not only for some readers.

    An aborted message is followed by the mark that ends its transaction: a single offset up to the
    log end, in which a read_committed consumer gets nothing, is a mark. No reader gets a message
    there.
    """
    return case.read_committed or worst.evidence.get("current_lag") == 1


def _nothing_wrong(found: Evidence) -> Evidence:
    if found["current_lag"] == 1:
        left = "there is only the mark of a transaction, which counts as lag"
        return {"nothing_wrong": "nothing is wrong", "left": left}
    known = found["reads"] is not None
    return {
        "nothing_wrong": "nothing is wrong"
        if known
        else "nothing is wrong if the group reads committed",
        "left": "there are only marks of transactions and aborted messages, which count as lag",
    }


def _reads(case: Case) -> str | None:
    """How the group reads, where that is configured: Kafka does not say it."""
    return "read_committed" if case.read_committed else None


def _open_transaction(case: Case, worst: PartitionVerdict) -> Evidence | None:
    if worst.rule not in {Rule.HELD_BY_TRANSACTION, Rule.WAITS_FOR_TRANSACTION}:
        return None
    names = ("last_stable_offset", "transaction_age_ms", "producer_id", "transactional_id")
    return {**{name: worst.evidence.get(name) for name in names}, "reads": _reads(case)}


def _waits(found: Evidence) -> Evidence:
    known = found["reads"] is not None
    return {
        "waits": "the group, which reads committed, gets nothing beyond it"
        if known
        else "the group gets nothing beyond it if it reads committed"
    }


def _transaction_named(case: Case, worst: PartitionVerdict) -> bool:
    """A group that has stopped at this very offset does not wait for the transaction.

    Nor does one that reads uncommitted: it has stopped there for a reason of its own.
    """
    stable = worst.evidence.get("last_stable_offset")
    beyond = isinstance(stable, int) and worst.end is not None and worst.end.offset > stable
    named = worst.evidence.get("producer_id") is not None
    return named and case.read_committed and not beyond and case.holder(worst) is not None


# members


def _unsubscribed(case: Case, worst: PartitionVerdict) -> Evidence | None:
    stable = case.info is not None and case.info.state == "Stable"
    held = {topic for topic, _ in case.holders}
    without = stable and bool(held) and worst.topic not in held and worst.rule in _WITHOUT_READER
    if worst.rule is not Rule.NOT_SUBSCRIBED and not without:
        return None
    return {
        "topic": worst.topic,
        "members": None if case.info is None else len(case.info.members),
        "committed_offset": worst.evidence.get("committed_offset"),
    }


def _crash_loop(case: Case, worst: PartitionVerdict) -> Evidence | None:
    """Members that come and go, more of them than a deployment replaces, without progress.

    In a storm of rebalances the group reads a little between two of them.
    """
    without_ms = worst.evidence.get("held_for_ms", _quiet_ms(worst))
    if worst.rule not in _STUCK | _SILENT | {Rule.NEVER_COMMITS} or not isinstance(without_ms, int):
        return None
    within_ms = min(without_ms, _LOOP_MS)
    recent = [each for each in case.events if case.age_ms(each) <= within_ms]
    came = [each for each in recent if each.event in _CAME]
    left = [each for each in recent if each.event in _LEFT]
    visits = sum((each.count or 1) // 2 or 1 for each in recent if _is_visit(each))
    joined, gone = (max(visits, sum(each.count or 1 for each in seen)) for seen in (came, left))
    at_once = max([each.count or 1 for each in came], default=0)
    if case.info is not None:
        at_once = max(at_once, len(case.info.members))
    if joined < max(_LOOP_STARTS, 2 * at_once) or gone < _LOOP_STARTS:
        return None
    return {
        "members_joined": joined,
        "members_left": gone,
        "within_ms": case.age_ms(next(filter(_comes_or_goes, recent))),
        "last_member": _named(left[-1]) if left else None,
        "others_read": len(case.committed_within(within_ms)),
    }


def _what_was_read(found: Evidence) -> Evidence:
    if not found["others_read"]:
        return {"read": "nothing was read"}
    others = fill("{others_read:other partition}", found)
    return {"read": f"this partition was not read, although commits came for {others}"}


def _is_visit(event: Event) -> bool:
    """Did members come and go again between two looks at the group?"""
    return event.event == EventName.REBALANCE and event.after == EMPTY


def _comes_or_goes(event: Event) -> bool:
    return event.event in (*_CAME, *_LEFT) or _is_visit(event)


def _named(event: Event) -> str | None:
    """The members that an event names."""
    named = json.loads(event.detail or "[]")
    names = dict.fromkeys(client(member["client_id"], member["host"]) for member in named)
    return ", ".join(names) or None


def _stuck_rebalance(case: Case, worst: PartitionVerdict) -> Evidence | None:
    """A rebalance that takes longer than a member may take to rejoin."""
    info = case.info
    if info is None or info.state not in _REBALANCING:
        return None
    if worst.rule not in _STUCK | {Rule.NEVER_COMMITS}:
        return None
    newest = case.last(EventName.UNASSIGNED, EventName.ASSIGNED)
    began = newest is not None and newest.event == EventName.UNASSIGNED
    lasting_ms = case.age_ms(newest) if newest is not None and began else None
    if lasting_ms is not None and lasting_ms < _REBALANCE_MS:
        return None
    return {"state": info.state, "lasting_ms": lasting_ms, "members": len(info.members)}


def _rebalance_storm(case: Case, worst: PartitionVerdict) -> Evidence | None:
    storm, newest = case.last(EventName.REBALANCE_STORM), case.last(EventName.REBALANCE)
    if storm is None or storm.after != "began" or newest is None:
        return None
    if case.age_ms(newest) > _STORM_RECENT_MS or worst.rule not in _STUCK | _SLOW:
        return None
    if case.empty and not _came_since(case, newest):
        return None
    since = [each for each in case.events if each.event == EventName.REBALANCE]
    return {
        "rebalances": sum(each.count or 0 for each in since),
        "lasting_ms": case.age_ms(since[0]),
    }


def _came_since(case: Case, rebalance: Event) -> bool:
    """Did members come after the last ones were seen to leave? Leaving makes a rebalance, too."""
    left = case.last(*_LEFT)
    return left is None or case.age_ms(left) - case.age_ms(rebalance) > _MEMBERS_LATE_MS


def _no_members(case: Case, worst: PartitionVerdict) -> Evidence | None:
    left = case.last(*_LEFT)
    silent = worst.rule in _SILENT
    if not case.empty or not (silent or (left is not None and worst.rule in _SLOW)):
        return None
    if silent and _read_without_it(case, worst):
        return None
    came_since = left is not case.last(*_LEFT, *_CAME)
    after_ms = None if left is None or came_since else _committed_after_ms(case, left)
    return {
        "state": None if case.info is None else case.info.state,
        "left_ago_ms": None if left is None else case.age_ms(left),
        "last_member": None if left is None else _named(left),
        **({} if after_ms is None else {"committed_after_ms": after_ms}),
    }


def _committed_after_ms(case: Case, left: Event) -> int | None:
    """How long after the last member left the group still committed; None if it did not.

    Who commits then is no member: a consumer that assigns partitions itself, or a tool. An event
    says so at once: then the commit came behind Kafka's own note that the group is empty.
    """
    after_ms = UNKNOWN if case.committed_ms is None else case.committed_ms - left.at_ms
    reset = case.last(EventName.OFFSETS_RESET)
    if reset is not None and reset.at_ms >= left.at_ms:
        return max(after_ms, 0)
    return after_ms if after_ms > _COMMITS_LATE_MS else None


def _who_left(found: Evidence) -> Evidence:
    """Who was seen to leave last, and what came after; a group may never have had members."""
    if found["last_member"] is None:
        return {"last": ", and none was seen to leave", "afterwards": ""}
    last = fill("; the last one that was seen to leave: {last_member}", found)
    if "committed_after_ms" not in found:
        return {"last": last, "afterwards": ""}
    clause = (
        "; a commit was seen {committed_after_ms:span} after that, perhaps of a consumer that "
        "assigns partitions itself"
    )
    return {"last": last, "afterwards": fill(clause, found)}


def _read_without_it(case: Case, worst: PartitionVerdict) -> int:
    """Partitions for which commits come although this one is silent; 0: silence is of all.

    Of a group without members that is a consumer which assigns partitions itself. Not if offsets
    were reset meanwhile: that is a commit, too.
    """
    quiet_ms = _quiet_ms(worst)
    if not quiet_ms:
        return 0
    recent_ms, reset = min(quiet_ms // 3, _LEAVES_WITHIN_MS), case.last(EventName.OFFSETS_RESET)
    was_reset = reset is not None and case.age_ms(reset) <= recent_ms + _COMMITS_LATE_MS
    return 0 if was_reset else len(case.committed_within(recent_ms))


def _quiet_ms(worst: PartitionVerdict) -> int | None:
    quiet_ms = worst.evidence.get("quiet_ms", worst.evidence.get("silent_ms"))
    return quiet_ms if isinstance(quiet_ms, int) else None


def _members_were_seen_to_leave(case: Case, worst: PartitionVerdict) -> bool:
    """True if the last member left when the silence began.

    If it left long after, something else was wrong first. And a consumer that assigns partitions
    itself is no member: it may commit to a group that was never seen to have one, or go on when
    the last member has left.
    """
    newest = next(filter(_comes_or_goes, reversed(case.events)), None)
    quiet_ms = _quiet_ms(worst)
    return (
        worst.rule in _SILENT
        and newest is not None
        and newest.event in _LEFT
        # where offsets are polled, members may come and go unseen
        and worst.evidence.get("commits_are") != "polled"
        and quiet_ms is not None
        and quiet_ms <= case.age_ms(newest) + _LEAVES_WITHIN_MS
        and _committed_after_ms(case, newest) is None
    )


def _without_assignment(case: Case, worst: PartitionVerdict) -> Evidence | None:
    info = case.info
    if info is None or info.state != "Stable" or not info.members or case.holder(worst):
        return None
    if worst.rule not in _WITHOUT_READER | {Rule.STALLED}:
        return None
    idle = sum(not member.assignment for member in info.members)
    return {"members": len(info.members), "members_without_partitions": idle}


def _was_assigned_before(case: Case, _: PartitionVerdict) -> bool:
    """Assignments of the group can be read, and all of them went."""
    event = case.last(EventName.UNASSIGNED, EventName.ASSIGNED)
    return not case.holders and event is not None and event.event == EventName.UNASSIGNED


def _commits_in_transaction(case: Case, worst: PartitionVerdict) -> Evidence | None:
    """No commit of the group came since a transaction holds back where its commits are.

    Commits of groups that have no part in it are seen meanwhile: they are polled.
    """
    if case.offsets_held is None or worst.rule not in _STUCK or case.holder(worst) is None:
        return None
    place, held_ms = case.offsets_held
    newest = [each.end.commit_ms for each in case.verdict.partitions if each.end is not None]
    held_for_ms = max(0, case.verdict.at_ms - case.skew_ms - held_ms)
    quiet_ms, limit_ms = _quiet_ms(worst), worst.evidence.get("limit_ms")
    pause_ms = limit_ms // 4 if isinstance(limit_ms, int) else 0
    # who was silent for long before it began is silent for another reason
    before_ms = 0 if quiet_ms is None else quiet_ms - held_for_ms
    if max(newest, default=0) > held_ms or before_ms > max(pause_ms, _COMMITS_LATE_MS):
        return None
    return {"offsets_partition": place, "held_for_ms": held_for_ms, "quiet_ms": quiet_ms}


# speed


def _stuck_partition(case: Case, worst: PartitionVerdict) -> Evidence | None:
    """Nothing is read of this partition, while its member reads its others."""
    holder = case.holder(worst)
    if worst.rule not in _STUCK or holder is None or _repeats(worst):
        return None
    read = [each for each in case.moving if case.holder(each) == holder]
    if not read:
        return None
    stuck = [each for each in case.troubled if each.rule in _STUCK]
    of_topic = {each.topic for each in stuck} == {worst.topic}
    whole = of_topic and not any(each.topic == worst.topic for each in case.moving)
    return {
        "client_id": holder.client_id,
        "host": holder.host,
        "quiet_ms": _quiet_ms(worst),
        "partitions_that_it_reads": len(read),
        "stuck_partitions": len(stuck),
        "dead_topic": worst.topic if whole and len(stuck) > 1 else None,
    }


def _what_is_dead(found: Evidence) -> Evidence:
    """One partition, one of several, or a whole topic: then not its member is to blame."""
    works = "what works on it hangs or has died"
    if found["dead_topic"] is not None:
        dead = "a dead topic, {stuck_partitions:partition} of {dead_topic}"
        works = "what handles this topic hangs or has died, or what that needs"
    elif found["stuck_partitions"] == 1:
        dead = "one dead partition"
    else:
        dead = "one of {stuck_partitions} dead partitions"
    return {"dead": fill(dead, found), "works": works}


def _slow_partition(case: Case, worst: PartitionVerdict) -> Evidence | None:
    """Evidence that one partition alone is slow.

    Its member reads its others, or it gets far more messages.
    """
    holder, own = case.holder(worst), case.outlook_of(worst)
    others = [each for each in case.keeping_up if each.topic == worst.topic]
    if worst.rule not in _SLOW or holder is None or own is None:
        return None
    if len(case.troubled) > len(others) or _held_back(case):
        return None
    produced = [
        found.produced_per_s
        for each in others
        if (found := case.outlook_of(each)) is not None and found.produced_per_s is not None
    ]
    usual = median(produced) if produced else None
    hot = usual is not None and (own.produced_per_s or 0.0) >= _MUCH * usual > 0
    if not hot and not any(case.holder(each) == holder for each in others):
        return None
    return {
        "produced_per_s": own.produced_per_s,
        "others_produced_per_s": usual,
        "consumed_per_s": own.consumed_per_s,
        "partitions_behind": len(case.troubled),
        "partitions_that_keep_up": len(others),
        "client_id": holder.client_id,
        "host": holder.host,
        "compared": "much more is written to it than to the others: a hot key" if hot
        else "its member keeps up with its other partitions",
    }  # fmt: skip


def _slow_member(case: Case, worst: PartitionVerdict) -> Evidence | None:
    """All partitions in trouble are of one member, or of one host, and others keep up."""
    if worst.rule not in _STUCK | _SLOW or (worst.rule in _SLOW and _held_back(case)):
        return None
    behind = [case.holder(each) for each in case.troubled]
    if len(behind) == 1 and _repeats(worst):
        return None
    fine = [holder for each in case.keeping_up if (holder := case.holder(each)) is not None]
    holders = [holder for holder in behind if holder is not None]
    if not fine or len(holders) < len(behind):
        return None
    hosts, members = {each.host for each in holders}, {each.member_id for each in holders}
    one_host = len(hosts) == 1 and hosts.isdisjoint(each.host for each in fine)
    one_member = len(members) == 1 and members.isdisjoint(each.member_id for each in fine)
    if not one_host and not one_member:
        return None
    return {
        "host": holders[0].host,
        "client_id": ", ".join(sorted({each.client_id for each in holders})),
        "partitions_behind": len(behind),
        "partitions_that_keep_up": len(fine),
        "what": "one member or host that reads nothing"
        if all(each.rule in _STUCK for each in case.troubled)
        else "one slow member or host",
    }


def _not_committing(case: Case, worst: PartitionVerdict) -> Evidence | None:
    holder = case.holder(worst)
    polled = worst.evidence.get("commits_are") == "polled"
    silent = worst.rule is Rule.STOPPED or (worst.rule is Rule.STALLED and polled)
    if worst.rule is not Rule.NEVER_COMMITS and not (silent and holder is not None):
        return None
    name = "held_for_ms" if worst.rule is Rule.NEVER_COMMITS else "quiet_ms"
    without_ms = worst.evidence.get(name, worst.evidence.get("silent_ms"))
    return {
        "without_commit_ms": without_ms,
        **({} if polled else _repeated_until_lately(case, worst)),
        "commits_are": worst.evidence.get("commits_are"),
        "client_id": worst.client_id or (holder.client_id if holder else None),
        "host": worst.owner or (holder.host if holder else None),
        **_members_changed(case, without_ms),
    }


def _repeated_until_lately(case: Case, worst: PartitionVerdict) -> Evidence:
    """For how long no commit came, where the newest ones were of the same offset; else nothing."""
    quiet_ms = _quiet_ms(worst)
    if worst.end is None or quiet_ms is None:
        return {}
    silent_ms = max(0, case.verdict.at_ms - case.skew_ms - worst.end.commit_ms)
    if quiet_ms - silent_ms < _REPEATED_MS:
        return {}
    return {"without_commit_ms": silent_ms, "offset": worst.end.offset, "unmoved_ms": quiet_ms}


def _members_changed(case: Case, without_ms: object) -> Evidence:
    """When members last came or left, if that was well within this time; else nothing."""
    changed = case.last(*_MAY_MOVE_PARTITIONS)
    if changed is None or not isinstance(without_ms, int):
        return {}
    changed_ms = case.age_ms(changed)
    return {"changed_ago_ms": changed_ms} if changed_ms < without_ms - _MEMBERS_LATE_MS else {}


_MAY_MOVE_PARTITIONS: Final = (
    *(*_LEFT, *_CAME),
    *(EventName.REBALANCE, EventName.UNASSIGNED, EventName.ASSIGNED),
)


def _whose_silence(found: Evidence) -> Evidence:
    """Clauses about a partition that is held and does not move.

    Where offsets are polled, commits of the same offset cannot be seen. And the member may have got
    the partition when members last came or left: then the silence is not its own.
    """
    polled = found["commits_are"] == "polled"
    why = "it reads without committing, or it hangs"
    if polled:
        why = "it hangs, reads without committing, or commits the same offset again and again"
    elif "offset" in found:
        why = fill(
            "before that it committed offset {offset} again and again, and has not moved for "
            "{unmoved_ms:span}: it does not get past it, or it hangs",
            found,
        )
    return {
        "what": "not moved its offset" if polled else "not committed",
        "why": why,
        **_since_when(found),
    }


def _since_when(found: Evidence) -> Evidence:
    if "changed_ago_ms" not in found:
        return {"now": "and has"}
    clause = "now (members came, left or rebalanced {changed_ago_ms:span} ago), and the group has"
    return {"now": fill(clause, found)}


def _repeats(worst: PartitionVerdict) -> bool:
    """Does one offset go on being committed? Then the consumer is not slow there, but stuck."""
    return worst.rule is Rule.STALLED and worst.evidence.get("commits_are") != "polled"


def _stuck_on_record(case: Case, worst: PartitionVerdict) -> Evidence | None:
    del case
    if not _repeats(worst):
        return None
    offset = worst.evidence.get("committed_offset", worst.evidence.get("end_offset"))
    return {"offset": offset, "client_id": worst.client_id or None, "host": worst.owner or None}


def _producer_burst(case: Case, worst: PartitionVerdict) -> Evidence | None:
    before, since = case.produced_before_per_s, case.produced_since_per_s
    consumed = _sum([case.outlook_of(each) for each in case.troubled])
    if worst.rule not in _SLOW or before is None or since is None or consumed is None:
        return None
    if since < _MUCH * before or since <= 0 or consumed < _AS_FAST * before:
        return None
    return {
        "produced_before_per_s": round(before, 1),
        "produced_since_per_s": round(since, 1),
        "consumed_per_s": round(consumed, 1),
    }


def _held_back(case: Case) -> bool:
    """Does the group read as fast as was written before Kafka was away?

    Then its lag may be what producers held back meanwhile.
    """
    before = case.produced_before_per_s
    consumed = _sum([case.outlook_of(each) for each in case.troubled])
    if not case.after_outage or before is None or consumed is None:
        return False
    return consumed >= _AS_FAST * before


def _sum(outlooks: Sequence[Outlook | None]) -> float | None:
    known = [
        outlook.consumed_per_s
        for outlook in outlooks
        if outlook and outlook.consumed_per_s is not None
    ]
    return sum(known) if known and len(known) == len(outlooks) else None


def _all_slow(case: Case, worst: PartitionVerdict) -> Evidence | None:
    found = _speeds(case)
    if worst.rule not in _SLOW or found is None or _held_back(case):
        return None
    produced, consumed, measured = found
    if not consumed or produced <= consumed:
        return None  # who reads nothing is not slow
    return {
        "produced_per_s": round(produced, 1),
        "consumed_per_s": round(consumed, 1),
        "partitions_behind": len(case.troubled),
        "members": len(case.info.members) if case.info and case.members_known else None,
        **({} if measured is None else {"partitions_measured": measured}),
    }


def _speeds(case: Case) -> tuple[float, float, int | None] | None:
    """Messages written and read per second, by the whole group.

    Where not all partitions are measured yet, but most of them: of so many.
    """
    whole = case.outlook.whole
    if whole.produced_per_s is not None and whole.consumed_per_s is not None:
        return whole.produced_per_s, whole.consumed_per_s, None
    known = [
        (each.produced_per_s, each.consumed_per_s)
        for each in case.outlook.partitions.values()
        if each.produced_per_s is not None and each.consumed_per_s is not None
    ]
    if len(known) * 2 <= len(case.outlook.partitions):
        return None
    return sum(each[0] for each in known), sum(each[1] for each in known), len(known)


def _of_measured(found: Evidence) -> Evidence:
    if "partitions_measured" not in found:
        return {"of": ""}
    return {"of": fill(" in {partitions_measured:measured partition}", found)}


# the rows

CAUSES: Final[Sequence[CauseRow]] = (
    CauseRow(
        cause=CauseName.BROKER_AWAY,
        meaning=(
            "The partition has no leader, or data are stale and no coordinator of the group is "
            "known; and the group had no trouble before."
        ),
        find=_broker_away,
        sentence="a broker is away: {away}; the data are {data_age_ms:span} old",
        refuted_by="kafka-topics --describe shows a leader for the partition",
        to_do=(
            (
                "Bring the broker back: kafka-topics --describe --unavailable-partitions lists "
                "what has no leader."
            ),
        ),
        proved=lambda _, worst: worst.unknown_reason is UnknownReason.NO_LEADER,
        certain_when="Kafka's metadata name no leader and the log end is not known",
    ),
    CauseRow(
        cause=CauseName.PROGRESS_UNREAD,
        meaning=(
            "The job keeps its progress outside of Kafka, the data are stale, and it had no "
            "trouble before."
        ),
        find=_progress_unread,
        sentence=(
            "the progress that the job keeps outside of Kafka has not been read for "
            "{data_age_ms:span}: `/readyz` and the log say why"
        ),
        refuted_by="`/readyz` names another source that cannot be read",
        to_do=(
            "Read `/readyz` and the log: they say why the progress cannot be read.",
            "Is the job itself down? Start it.",
        ),
    ),
    CauseRow(
        cause=CauseName.COMMITTED_BEYOND_END,
        meaning=(
            "The committed offset is beyond the log end, and the topic was not seen to be made "
            "anew. An earlier commit of the window is within the log, or all of them were made "
            "while lagwatch watched."
        ),
        find=_committed_beyond_end,
        sentence=(
            "an offset was committed that the log has not reached: {went}, and the log ends at "
            "{log_end_offset}; a client computes offsets itself, or they were copied from another "
            "log"
        ),
        phrases=_went_beyond,
        refuted_by="the log was cut short meanwhile (unclean election) or the topic made anew",
        to_do=(
            (
                "Reset the group's offsets to where it had read: new messages below the "
                "committed offset are not read."
            ),
            (
                "Look for a client that computes offsets itself, or for offsets copied from "
                "another cluster."
            ),
        ),
    ),
    CauseRow(
        cause=CauseName.TOPIC_RECREATED,
        meaning=(
            "The committed offset is beyond the log end; or it went back, or messages are "
            "missing, within 15 minutes after the topic was deleted and made anew."
        ),
        find=_topic_recreated,
        sentence="{what}; {seen}",
        refuted_by="the topic's id is the same as before, and no unclean election took place",
        to_do=(
            (
                "Was the topic made anew on purpose? Then this is expected, and its old "
                "messages are gone."
            ),
        ),
        to_do_of={Rule.AHEAD_OF_LOG_END: first_steps.BEYOND_END},
        proved=_new_topic_proved,
        certain_when=(
            "the topic's id was seen to change after the offset was committed that is beyond the "
            "log end"
        ),
    ),
    CauseRow(
        cause=CauseName.RECORDS_LOST,
        meaning="Messages were deleted before the group read them.",
        find=_is_on(
            Rule.RECORDS_LOST,
            evidence=("lost_messages", "lost_is", "committed_offset", "log_start_offset"),
        ),
        sentence=(
            "{up_to}{lost_messages:message} {lost_messages:was} deleted, by retention or on "
            "request, before the group {read_them}; the log begins at {log_start_offset}"
        ),
        refuted_by="the consumer's own log shows that it has read them",
        to_do=first_steps.LOST,
        proved=_surely_lost,
        certain_when=(
            "the committed offset is still below the log start, and the number is no upper bound: "
            "the group cannot have read them without committing"
        ),
        phrases=_how_many_lost,
    ),
    CauseRow(
        cause=CauseName.OFFSETS_RESET,
        meaning=(
            "The committed offset went back; or a slow partition did in the last ten minutes, "
            "by more than a tenth of its lag, and has not returned."
        ),
        find=_offsets_reset,
        sentence="the committed offset was set back from {offset_before} {where}: {how}",
        refuted_by="the offset comes back by itself: two consumers commit in turn",
        to_do=first_steps.WENT_BACK,
        proved=lambda case, worst: _reset_to(case, worst) is not None,
        certain_when="it was set back, from the same offset, while the group had no members",
        phrases=_set_back_to,
    ),
    CauseRow(
        cause=CauseName.CONTROL_RECORDS,
        meaning="Only marks of transactions and aborted messages are left.",
        find=_control_records,
        sentence="{nothing_wrong}: up to the log end {log_end_offset} {left}",
        refuted_by=(
            "a read_committed consumer that starts at the committed offset gets a message, or the "
            "group's consumers read uncommitted"
        ),
        to_do=(),
        proved=_nothing_left,
        certain_when=(
            "the group is one of `read_committed_groups`, or the lag is a single mark: lagwatch "
            "has read that range as a read_committed consumer"
        ),
        phrases=_nothing_wrong,
    ),
    CauseRow(
        cause=CauseName.OPEN_TRANSACTION,
        meaning="The group has read up to the last stable offset, where a transaction is open.",
        find=_open_transaction,
        sentence=(
            "a transaction has been open for {transaction_age_ms:span} at offset "
            "{last_stable_offset} (transactional id: {transactional_id}); {waits}"
        ),
        refuted_by=(
            "the group does not move when the transaction ends, or its consumers read uncommitted"
        ),
        to_do=first_steps.TRANSACTION,
        to_do_of={Rule.WAITS_FOR_TRANSACTION: ()},
        proved=_transaction_named,
        certain_when=(
            "the broker names the transaction, a member holds the partition, and the group is one "
            "of `read_committed_groups` and has committed nothing beyond the last stable offset"
        ),
        phrases=_waits,
    ),
    CauseRow(
        cause=CauseName.UNSUBSCRIBED_TOPIC,
        meaning="Members hold partitions of other topics, and none of this one.",
        find=_unsubscribed,
        sentence=(
            "none of the {members:member} subscribes to {topic} any more; the committed offset "
            "{committed_offset} is a remainder"
        ),
        refuted_by="a member's configuration names the topic or a pattern that matches it",
        to_do=(
            (
                "Left on purpose? Delete the group's offsets of the topic: "
                "kafka-consumer-groups --delete-offsets."
            ),
            "Otherwise add the topic to the subscription of the members.",
        ),
        proved=lambda _, worst: worst.rule is Rule.NOT_SUBSCRIBED,
        certain_when="the rule `not_subscribed` decided",
    ),
    CauseRow(
        cause=CauseName.CRASH_LOOP,
        meaning=(
            "The group does not move or never commits, and meanwhile, within the last fifteen "
            "minutes, at least three members joined and three left, twice as many as there are at "
            "once."
        ),
        find=_crash_loop,
        sentence=(
            "a crash loop: {members_joined:member} joined and {members_left:member} left within "
            "{within_ms:span}, and {read}; the last one: {last_member}"
        ),
        phrases=_what_was_read,
        refuted_by=(
            "the members' own logs show that they end on purpose: a job that looks, finds too "
            "little and leaves"
        ),
        to_do=(
            "Read the last lines of the members' logs: they say what ends them.",
            (
                "Nothing there? Something else ends them: look for too little memory and "
                "failed health checks."
            ),
        ),
    ),
    CauseRow(
        cause=CauseName.STUCK_REBALANCE,
        meaning=(
            "The group does not move or never commits, is in state `PreparingRebalance` or "
            "`CompletingRebalance`, and was not seen to enter it within the last five minutes."
        ),
        find=_stuck_rebalance,
        sentence=(
            "a rebalance does not end: the group has been in state {state} for {lasting_ms:span}; "
            "its {members:member} read nothing until all of them have rejoined"
        ),
        refuted_by="the group becomes Stable by itself",
        to_do=(
            (
                "Take thread dumps of the members: one of them hangs and does not rejoin. "
                "Restart that one."
            ),
            (
                "Does one message take longer than max.poll.interval.ms? Fetch fewer at a time "
                "(max.poll.records)."
            ),
        ),
    ),
    CauseRow(
        cause=CauseName.REBALANCE_STORM,
        meaning=(
            "Five rebalances came within five minutes and the last one at most two minutes ago: "
            "members have little time to read. A group without members had one after its last "
            "member was seen to leave."
        ),
        find=_rebalance_storm,
        sentence=(
            "a rebalance storm: {rebalances:rebalance} in {lasting_ms:span} leave the members "
            "little time to read"
        ),
        refuted_by="the lag goes on growing after the rebalances have ended",
        to_do=(
            (
                "Find what makes members come and go: restarts, autoscaling, polls that come "
                "later than max.poll.interval.ms."
            ),
            "Give the members static ids (group.instance.id): a restart is then no rebalance.",
        ),
    ),
    CauseRow(
        cause=CauseName.NO_MEMBERS,
        meaning="The group is empty, and commits have ended for all its partitions.",
        find=_no_members,
        sentence=("the group has no members (state {state}){last}{afterwards}"),
        refuted_by="a consumer runs that assigns partitions itself: it is not a member",
        to_do=first_steps.START,
        proved=_members_were_seen_to_leave,
        certain_when=(
            "its last member left, as seen, at most a minute after the group last moved, nothing "
            "was committed later than fifteen seconds after that, and offsets are not polled: then "
            "members may come and go unseen"
        ),
        phrases=_who_left,
    ),
    CauseRow(
        cause=CauseName.MEMBER_WITHOUT_ASSIGNMENT,
        meaning="The group is stable and has members, but none holds the partition.",
        find=_without_assignment,
        sentence=(
            "no member holds the partition; of {members:member} {members_without_partitions} hold "
            "nothing at all"
        ),
        refuted_by="kafka-consumer-groups --describe --members --verbose shows who holds it",
        to_do=first_steps.SUBSCRIPTION,
        proved=_was_assigned_before,
        certain_when="no member holds any partition, and they were seen to lose them",
    ),
    CauseRow(
        cause=CauseName.COMMITS_IN_TRANSACTION,
        meaning=(
            "A transaction is open in the partition of `__consumer_offsets` that has the group's "
            "commits, and none of the group came since."
        ),
        find=_commits_in_transaction,
        sentence=(
            "no commit came since a transaction has been open in partition {offsets_partition} of "
            "__consumer_offsets, where the group's commits are, for {held_for_ms:span}: if it "
            "commits in that transaction, they count when it ends"
        ),
        refuted_by=(
            "the group does not commit in transactions, or `kafka-transactions.sh "
            "describe-producers` names the producer of another group for that partition"
        ),
        to_do=first_steps.TRANSACTION,
    ),
    CauseRow(
        cause=CauseName.STUCK_PARTITION,
        meaning=(
            "The partition has stopped or stalled, its member reads its other partitions, and the "
            "offset is not committed again and again."
        ),
        find=_stuck_partition,
        sentence=(
            "{dead}: client {client_id} on {host:host} holds this one and has read nothing of it "
            "for {quiet_ms:span}, but reads {partitions_that_it_reads:other partition}: {works}"
        ),
        phrases=_what_is_dead,
        refuted_by="the consumer has paused this partition on purpose",
        to_do=(
            (
                "Take a thread dump of the owner, then restart it: its other partitions are "
                "read all the same."
            ),
            (
                "It stops there again? Read its log around the committed offset: a message "
                "that it cannot process."
            ),
            "Has the consumer paused the partition on purpose? Then wait, or resume it.",
        ),
    ),
    CauseRow(
        cause=CauseName.SLOW_PARTITION,
        meaning=(
            "Not more partitions are behind than keep up (one whose lag rises, and is more than "
            "half as large, does not); much more is written to this one (twice the median of the "
            "others), or its member keeps up with its others; and the group reads it."
        ),
        find=_slow_partition,
        sentence=(
            "one slow partition: {compared} ({produced_per_s}/s against "
            "{others_produced_per_s}/s written, {consumed_per_s}/s read)"
        ),
        refuted_by="other partitions of the same member fall behind, too",
        to_do=(
            "Is one key written far more often than others? Spread it over more keys.",
            "Otherwise look in the owner's log for what takes long in this partition.",
        ),
    ),
    CauseRow(
        cause=CauseName.SLOW_MEMBER,
        meaning="All partitions that are behind are of one member or one host; others keep up.",
        find=_slow_member,
        sentence=(
            "{what}: client {client_id} on {host:host} holds all "
            "{partitions_behind} partitions that are behind; {partitions_that_keep_up} of others "
            "keep up"
        ),
        refuted_by="the same partitions stay behind when another member gets them",
        to_do=(
            (
                "Look at this member and its host: CPU, memory, network, pauses of its garbage "
                "collector."
            ),
            "Restart it, or move it to another host: the others keep up.",
        ),
    ),
    CauseRow(
        cause=CauseName.NOT_COMMITTING,
        meaning="A member holds the partition, and no commit comes.",
        find=_not_committing,
        sentence=(
            "client {client_id} on {host:host} holds the partition {now} {what} for "
            "{without_commit_ms:span}: {why}"
        ),
        phrases=_whose_silence,
        refuted_by=(
            "a commit of this partition is in `__consumer_offsets` that lagwatch does not show, or "
            "the member has left the group"
        ),
        to_do=(
            first_steps.THREAD_DUMP,
            "It reads (records-consumed-rate above 0)? Look in its log for commits that failed.",
        ),
        to_do_of={Rule.NEVER_COMMITS: first_steps.NEVER_COMMITS},
    ),
    CauseRow(
        cause=CauseName.STUCK_ON_RECORD,
        meaning="Commits of the same offset go on.",
        find=_stuck_on_record,
        sentence="the consumer does not get past offset {offset}, which it commits again and again",
        refuted_by="the consumer is paused on purpose, or reads on and commits an old offset",
        to_do=first_steps.STALLED,
        to_do_empty=first_steps.STALLED_WITHOUT_MEMBERS,
    ),
    CauseRow(
        cause=CauseName.PRODUCER_BURST,
        meaning=(
            "Since the lag rises at least twice as much is written as before, and the group reads "
            "as fast as it did (at least 80 % of what was written before). After an outage of "
            "Kafka what was written counts since the outage began: producers hold it back."
        ),
        find=_producer_burst,
        sentence=(
            "a burst of the producers: {produced_since_per_s}/s since the lag rises, "
            "{produced_before_per_s}/s before; the group reads {consumed_per_s}/s"
        ),
        refuted_by="the group read faster before the burst than it reads now",
        to_do=(
            "Wait if the burst ends: the group reads as fast as before.",
            (
                "It goes on? Add members, up to the number of partitions, and ask the "
                "producers what changed."
            ),
        ),
    ),
    CauseRow(
        cause=CauseName.ALL_SLOW,
        meaning=(
            "More is written to the group's partitions than all its members read; not after an "
            "outage of Kafka while the group reads as fast as was written before (at least 80 %)."
        ),
        find=_all_slow,
        sentence=(
            "all consumers together are too slow: {produced_per_s}/s are written, "
            "{consumed_per_s}/s read by {members:member}{of}; {partitions_behind:partition} behind"
        ),
        phrases=_of_measured,
        refuted_by="the group reads no faster with more members (at most one per partition)",
        to_do=first_steps.SLOW,
    ),
)
"""In order of precedence."""


def cause_of(case: Case) -> Cause | None:
    """The most likely cause; None if nothing is wrong.

    With stale data only a missing leader is certain.
    """
    worst = case.worst
    if worst is None:
        return None
    for row in CAUSES:
        found = row.find(case, worst)
        if found is None:
            continue
        proved = row.proved is not None and row.proved(case, worst)
        if case.verdict.stale and row.cause is not CauseName.BROKER_AWAY:
            proved = False
        return Cause(
            name=row.cause,
            certainty=Certainty.CERTAIN if proved else Certainty.LIKELY,
            text=row.text(found),
            refuted_by=row.refuted_by,
            evidence=found,
            topic=worst.topic,
            partition=worst.partition,
            to_do=first_steps.with_loss(row.steps(case, worst), case),
        )
    return Cause(
        name=None,
        certainty=Certainty.UNKNOWN,
        text=f"not known, because {_unknown_because(case, worst)}",
        refuted_by="",
        evidence={},
        topic=worst.topic,
        partition=worst.partition,
        to_do=first_steps.with_loss(first_steps.without_cause(case, worst), case),
    )


_NO_LOG_END: Final = {
    UnknownReason.TOPIC_NOT_VISIBLE: "the topic was deleted, or lagwatch may not describe it",
    UnknownReason.NOT_POLLED_YET: "the log end offset has not been read yet",
    UnknownReason.REFUSED: "the broker refused to give the log end offset",
}


_NOT_DESCRIBED: Final = (
    "the group's members are not known (lagwatch has not described the group yet, or lacks "
    "DESCRIBE on it)"
)
_NONE_FITS: Final = "what is known of its members, offsets and rates fits none of the causes"
_NO_MEMBERS_OF_A_JOB: Final = (
    "the job keeps its progress outside of Kafka, which knows no members of it: look at the job "
    "itself"
)


def _unknown_because(case: Case, worst: PartitionVerdict) -> str:
    if worst.unknown_reason in _NO_LOG_END:
        return _NO_LOG_END[worst.unknown_reason]
    if worst.rule is Rule.WARMING_UP:
        return "too little was seen of the group so far"
    if case.verdict.stale:
        return (
            f"the data are {case.verdict.data_age_s:.0f} s old: Kafka, or lagwatch's reading of "
            "it, is away"
        )
    if of_members := _because_of_members(case, worst):
        return of_members
    if worst.rule in _SLOW:
        return _because_of_rates(case)
    return _NONE_FITS


def _because_of_rates(case: Case) -> str:
    if case.outlook.whole.consumed_per_s is None:
        return "its rates are not known yet: too few commits, or log ends that were not read"
    if _held_back(case):
        return (
            "Kafka was away right before, or one of its brokers: producers may have written what "
            "they had held back, and the group reads as fast as was written before"
        )
    return _NONE_FITS


def _because_of_members(case: Case, worst: PartitionVerdict) -> str:
    """What is not known of its members, or does not fit; "" if neither."""
    if not case.members_known:
        return _NO_MEMBERS_OF_A_JOB if case.kept_elsewhere else _NOT_DESCRIBED
    others = _read_without_it(case, worst)
    if not (case.empty and worst.rule in _SILENT and others):
        return ""
    return fill(
        "the group has no members, but commits for {others:other partition} come: a consumer that "
        "assigns partitions itself runs, or members come and go between two looks, and do not "
        "read this one",
        {"others": others},
    )


def markdown() -> str:
    """The table of the documentation."""
    return "\n".join(
        [
            "| Cause | When it is named | Certain when | Refuted when | First steps |",
            "|---|---|---|---|---|",
            *(
                f"| {number}. `{row.cause}` | {row.meaning} | {row.certain_when or 'never'} "
                f"| {row.refuted_by} | {' '.join(row.to_do) or 'none'} |"
                for number, row in enumerate(CAUSES, start=1)
            ),
        ]
    )

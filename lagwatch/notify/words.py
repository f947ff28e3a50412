"""The text of one notice for people: the same in every channel.

The end of an incident says why it ended: OK again for a group that healed, Ended while muted for
one that healed while its notices were held back, DELETED or EXPIRED (never OK) for a group that no
longer exists, GONE where it is not known which, REMOVED for a group that was removed from lagwatch
by request.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from lagwatch.core.departure import Departure
from lagwatch.core.forecast import CatchUpReason
from lagwatch.core.incident import NoticeEvent, Reason
from lagwatch.core.model import Rule
from lagwatch.core.words import DELETED, bounded, client, counted, duration, printable, spoken
from lagwatch.notify.notice import NOT_READABLE, About, Earlier, Notice, StillOpen

_SHOWN_PARTITIONS: Final = 5
_SHOWN_STEPS: Final = 2
"""The page has the others."""
_SHOWN_EARLIER: Final = 5
"""Incidents that a channel missed, of which a text says from when to when they lasted."""
BULLET: Final = "• "
"""Begins the lines of a list: mail and cards drop spaces at the beginning of a line."""
LONGEST_NAME: Final = 120
"""Characters of a name in a headline: what follows it must be read, too."""
_NAME_OF_SEVERAL: Final = 40
"""Characters of a name in the subject of several notices."""
LONGEST_LINK: Final = 2000
"""Characters of a URL. Slack takes 3,000, a card of Teams 28 KB in all, and in the URL of a group
each letter that is not ASCII takes six or more."""
NOT_IN_A_URL: Final = r"[\s<>\"{}|\\^`]"
"""Characters that must be encoded there."""
_URL: Final = re.compile(rf"https?://(?:(?!{NOT_IN_A_URL}).)+")
EVENTS: Final = {
    NoticeEvent.REMIND: "Still ",
    NoticeEvent.ESCALATE: "Now ",
    NoticeEvent.DE_ESCALATE: "Now only ",
}
_OWN_END: Final = "Ended"
"""The end of an incident of lagwatch itself, among others."""
_ENDED_MUTED: Final = "Ended while muted"
_UNWATCHED: Final = "No longer watched"
_WHY_UNWATCHED: Final[Mapping[str, str]] = {
    Reason.LIMIT_REMOVED.value: "the limit was removed from the configuration",
    Reason.LIMIT_CHANGED.value: "the limit was changed in the configuration",
    Reason.THRESHOLD_CHANGED.value: "the threshold of its policy was changed in the configuration",
    Reason.NO_POLICY.value: "the configuration has no policy for the group any more",
    Reason.NOT_FOLLOWED.value: "group_allow or group_deny of the cluster leaves the group out",
}
_GONE_WORDS: Final[Mapping[str, str]] = {
    Departure.DELETED: "DELETED",
    Departure.LIKELY_DELETED: "LIKELY DELETED",
    Departure.EXPIRED: "EXPIRED",
    Departure.LIKELY_EXPIRED: "LIKELY EXPIRED",
    Departure.FORGOTTEN: "FORGOTTEN",
}
"""How a group went; anything else is GONE."""
_TOO_MANY_REQUESTS: Final = "429"
_NOT_READABLE: Final = "what was kept of it cannot be read"
HEALED: Final = frozenset({"OK again", _ENDED_MUTED, _OWN_END})
_NOT_READ: Final[Mapping[str, str]] = {
    "all": "it reads nothing now",
    "some": "it does not read one of its partitions now",
}
_HALF_A_DAY_MS: Final = 12 * 3_600_000
_LEAST_SPAN_MS: Final = 30_000
"""A shorter curve does not say how fast the lag grows."""
_SOON_S: Final = 60
"""What happens sooner is no matter of a forecast."""
_GROWTH: Final = 0.05
"""Share of the lag by which it must have changed to be called growing or shrinking."""


def headline(notice: Notice, *, with_cluster: bool = True) -> str:
    """A line about a notice: what, where, how far behind, how many partitions, since when."""
    if notice.test:
        return f"TEST: {headline(replace(notice, test=''), with_cluster=with_cluster)}"
    if notice.reason == NOT_READABLE:
        return f"Incident ended: {named_part(notice, with_cluster=with_cluster)}, {_NOT_READABLE}"
    if notice.about is not About.GROUP:
        return _own_headline(notice)
    group = cut_name(printable(notice.group), LONGEST_NAME)
    name = f"{group} on {notice.cluster}" if with_cluster else group
    if notice.closing:
        return f"{end_word(notice)}: {name}, {_ending(notice)}"
    event = EVENTS.get(notice.event, "")
    return f"{event}{notice.severity.upper()}: {name}: {_troubled(notice)}"


def lead(notice: Notice, *, with_cluster: bool, word: bool) -> str:
    """What one of several notices is about, for their common subject; names are cut short.

    `word`: say how it ended, because the others ended otherwise.
    """
    if notice.reason == NOT_READABLE:
        return f"{named_part(notice, with_cluster=with_cluster)}: {_NOT_READABLE}"
    if notice.about is not About.GROUP:
        return _own_words(
            replace(notice, cluster=cut_name(notice.cluster, _NAME_OF_SEVERAL)), _NAME_OF_SEVERAL
        )
    name = cut_name(printable(notice.group), _NAME_OF_SEVERAL)
    if with_cluster:
        name = f"{name} on {cut_name(notice.cluster, _NAME_OF_SEVERAL)}"
    if notice.closing:
        ended = f"{end_word(notice)}, " if word else ""
        return f"{name}: {ended}{_ending(notice)}"
    return f"{name}: {_troubled(notice, brief=True)}"


def named_part(part: Notice | StillOpen, *, with_cluster: bool, most: int = LONGEST_NAME) -> str:
    """`billing on prod`, `cluster prod`, `alert channel chat`, `history`; names are cut."""
    name = cut_name(printable(part.group), most)
    match part.about:
        case About.GROUP:
            return f"{name} on {cut_name(part.cluster, most)}" if with_cluster else name
        case About.CLUSTER:
            return f"cluster {cut_name(part.cluster, most)}"
        case About.CHANNEL:
            return f"alert channel {name}"
        case About.HISTORY:
            return "history"


def _ending(notice: Notice) -> str:
    """`after 28 min, 9,040 messages left to read`."""
    parts = [f"after {lasted(notice)}"]
    if notice.reason in _WHY_UNWATCHED:
        return f"{parts[0]}: {_WHY_UNWATCHED[notice.reason]}"
    if lost := _lost_in_all(notice.verdict):
        parts.append(f"{lost} lost")
    if gone := _gone_topics(notice.verdict):
        parts.append(gone)
    left = notice.verdict.get("readable_lag")
    left = notice.verdict.get("total_lag") if left is None else left
    if end_word(notice) in HEALED and left:
        parts.append(f"{_messages(left, notice.verdict)} left to read{_as_of(notice)}")
    if grows_per_s := notice.verdict.get("lag_grows_per_s"):
        parts.append(f"still behind: its lag grows by {per_second(grows_per_s)}")
    if not_read := notice.verdict.get("not_read"):
        parts.append(f"still behind: {_NOT_READ[not_read]}")
    if notice.verdict.get("status") in {"WARN", "ERR"}:
        parts.append(f"still {notice.verdict['status']}, no longer bad enough for its policy")
    return ", ".join(parts)


def _troubled(notice: Notice, *, brief: bool = False) -> str:
    """`stopped, 1,204 messages behind, 1 of 3 partitions, since 22:00:00 UTC`."""
    verdict = notice.verdict
    affected = "" if brief else _affected(verdict)
    objective = str(verdict.get("objective") or "")
    # the limit says how far the group is behind
    limit = cut(objective, LONGEST_NAME) if brief else objective
    if verdict.get("lost"):
        # said first, instead of the rule: not again by the limit, nor beside the lag
        limit = "" if objective.endswith(DELETED) else limit
    figures = (limit,) if objective else _behind(verdict)
    parts = [_eased(notice), _rules(notice), *figures, affected, _loss_noticed(notice)]
    shown = ", ".join(part for part in parts if part) + _as_of(notice)
    return f"{shown}, {_since(notice)}"


def _eased(notice: Notice) -> str:
    """`rewound until 22:04:30 UTC`: what the severity is of, where it has ended just now; ""."""
    kinds = notice.verdict.get("eased", ())
    if notice.closing or not kinds:
        return ""
    return f"{_and(kinds)} until {clock_time(notice, notice.verdict['eased_ms'])}"


def _and(kinds: Sequence[str]) -> str:
    return " and ".join(map(spoken, kinds))


def _since(notice: Notice) -> str:
    """`since 22:00:00 UTC`, `at least since …`; of a loss alone, when it was noticed."""
    lost_ms = notice.verdict.get("lost_ms")
    if lost_ms and _only_lost(notice):
        return f"noticed at {clock_time(notice, lost_ms)}"
    return f"{'at least ' if notice.since_at_least else ''}since {clock_time(notice)}"


def _loss_noticed(notice: Notice) -> str:
    """`loss noticed at 22:00:00 UTC`, of a loss beside other trouble; ""."""
    lost_ms = notice.verdict.get("lost_ms")
    if not lost_ms or _only_lost(notice):
        return ""
    return f"loss noticed at {clock_time(notice, lost_ms)}"


def _only_lost(notice: Notice) -> bool:
    """True if all that is wrong is that messages were deleted."""
    return notice.kinds == (Rule.RECORDS_LOST.word,) and not notice.verdict.get("objective")


def details(notice: Notice) -> Iterator[str]:
    """Lines below the headline: what is wrong, since when, how far, whose, what to do."""
    if notice.test:
        yield f"This is a test, and nothing is wrong: {printable(notice.test)} asked for it."
    if notice.reason == NOT_READABLE:
        yield "What lagwatch kept of this incident cannot be read, so it ends here."
        yield "It is not known whether the trouble is over: if it is not, another incident opens."
    elif notice.about is not About.GROUP:
        yield from (line for line in (notice.verdict.get("problem"),) if line)
    elif notice.closing:
        yield from _how_it_ended(notice)
    else:
        yield from map(printable, _trouble(notice))
    if notice.verdict.get("clock_set_back"):
        yield "The clock of lagwatch was set back since the incident opened."
    for incident in notice.earlier[-_SHOWN_EARLIER:]:
        yield before(incident, notice.zone)
    more = notice.earlier_left_out + max(0, len(notice.earlier) - _SHOWN_EARLIER)
    if more:
        yield f"… and {counted(more, 'incident')} before that."
    if notice.team:
        yield f"Team: {notice.team}"
    if (to_do := what_to_do(notice)) and not notice.closing:
        yield f"What to do: {to_do}"


def what_to_do(notice: Notice) -> str:
    """The runbook of its policy; without one the first steps for its cause; ""."""
    steps = (notice.cause or {}).get("to_do", ())  # older versions stored none
    return notice.runbook or " ".join(steps[:_SHOWN_STEPS])


def _how_it_ended(notice: Notice) -> Iterator[str]:
    """Why, after how long, and what is left to read."""
    yield _why_it_ended(notice)
    breaks = ", with breaks" if notice.verdict.get("with_breaks") else ""
    yield f"It was {notice.severity.upper()} from {_span(notice)}, for {lasted(notice)}{breaks}."
    if unseen_s := notice.verdict.get("unseen_s"):
        yield f"For {duration(unseen_s)} of that lagwatch saw nothing of the cluster."
    if notice.was_milder:
        yield f"Before that it was WARNING, since {instant(notice.trouble_ms, notice.zone)}."
    if lost := _lost_in_all(notice.verdict):
        known = "; the loss was acknowledged" if notice.verdict.get("loss_acknowledged") else ""
        were = "was" if notice.verdict["lost_in_all"] == 1 else "were"
        yield f"Meanwhile {lost} {were} deleted before the group read them{known}."
    if notice.failed.startswith(_TOO_MANY_REQUESTS):
        yield "The receiver of this channel accepted no more messages in between."
    elif notice.failed:
        yield "This channel could not be reached in between."
    if left := left_to_read(notice.verdict):
        yield f"{left.removesuffix('.')}{_as_of(notice)}."
    yield from _forecast(notice)


def cut(text: str, limit: int) -> str:
    """At most so many characters; `…` says that some are missing."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def cut_name(name: str, limit: int) -> str:
    """At most so many characters: both ends, because names of one team often differ in one."""
    if len(name) <= limit:
        return name
    end = (limit - 1) // 2
    return f"{name[: limit - 1 - end]}…{name[len(name) - end :]}"


def _cut_reason(reason: str, limit: int) -> str:
    """At most so many characters, and no half word or half parenthesis."""
    if len(reason) <= limit:
        return reason
    short = reason[: limit - 1]
    if short.count("(") > short.count(")"):
        short = short[: short.rfind("(")]
    elif not reason[limit - 1].isspace() and " " in short:
        short = short[: short.rfind(" ")]
    return f"{short.rstrip(' ,;:')}…"


def link(notice: Notice) -> str:
    """URL of the group's page; of the page where the group's name makes it too long; ""."""
    return notice.url if len(notice.url) <= LONGEST_LINK else notice.url.partition("?")[0]


def is_link(text: str) -> bool:
    """True of an http(s) URL that receivers can open; a text may begin like one."""
    return len(text) <= LONGEST_LINK and bool(_URL.fullmatch(text))


def rule(verdict: Mapping[str, Any]) -> str:
    """`falling behind`; "" when there is none."""
    return spoken(str(verdict.get("rule") or ""))


def behind(verdict: Mapping[str, Any]) -> Iterator[str]:
    """How far behind, in messages and time, and what was lost; what is unknown says so."""
    messages, *time = _behind(verdict)
    yield from filter(None, (messages, _lost(verdict), *time))


def _behind(verdict: Mapping[str, Any]) -> Iterator[str]:
    """How far behind, in messages and time; what is unknown says so."""
    lag = verdict.get("total_lag")
    lost, readable = verdict.get("lost"), verdict.get("readable_lag")
    if lost and isinstance(readable, int):  # of the rest of the lag nothing is left to read
        lag = readable
    beyond = _beyond_log_end(verdict)
    messages = _messages(lag, verdict)
    if lag or not beyond:
        yield f"{messages} behind" if messages else "lag unknown"
    if beyond:
        yield beyond
    if verdict.get("time_lag_s"):
        yield f"{bounded(verdict['time_lag_s'], verdict.get('time_lag_bound', ''))} in time"


def _messages(lag: object, verdict: Mapping[str, Any]) -> str:
    """`1,204 messages`, `at least …` where the lag of some partitions is unknown; "": of all."""
    unknown = bool(verdict.get("unknown_partitions"))
    if not isinstance(lag, int) or (unknown and not lag):
        return ""
    return f"{'at least ' if unknown else ''}{counted(lag, 'message')}"


def _beyond_log_end(verdict: Mapping[str, Any]) -> str:
    """By how many messages the committed offsets are ahead of their log ends, in all; "": none is.

    `450 messages beyond the log end`, `903 messages beyond 3 log ends`.
    """
    if not (number := verdict.get("beyond_partitions")):
        return ""
    ends = "the log end" if number == 1 else f"{number:,} log ends"
    return f"{counted(verdict['beyond_messages'], 'message')} beyond {ends}"


def _lost(verdict: Mapping[str, Any]) -> str:
    return f"{_lost_messages(verdict)} lost" if verdict.get("lost") else ""


def _lost_messages(verdict: Mapping[str, Any]) -> str:
    bound = "up to " if verdict.get("lost_is") == "upper_bound" else ""
    return f"{bound}{counted(verdict['lost'], 'message')}"


def _lost_in_all(verdict: Mapping[str, Any]) -> str:
    """`314 messages`: what was lost over an incident that has ended; ""."""
    if not (lost := verdict.get("lost_in_all")):
        return ""
    bound = "up to " if verdict.get("lost_in_all_is") == "upper_bound" else ""
    return f"{bound}{counted(lost, 'message')}"


def lasted(notice: Notice) -> str:
    """Duration of the incident so far."""
    lasted_s = max(0, _ended_ms(notice) - notice.since_ms) // 1000
    bound = "at least " if notice.since_at_least else ""
    if _ended_after_ms(notice):
        bound = "about " if bound else "at most "
    return f"{bound}{duration(lasted_s)}"


def _span(notice: Notice) -> str:
    """From when to when an incident lasted."""
    began = instant(notice.since_ms, notice.zone)
    began = f"{began} or before" if notice.since_at_least else began
    ended = instant(_ended_ms(notice), notice.zone)
    if after_ms := _ended_after_ms(notice):
        after = instant(max(after_ms, notice.since_ms), notice.zone)
        ended = f"between {after} and {ended}"
    return f"{began} to {ended}"


def _ended_ms(notice: Notice) -> int:
    """When the incident ended: before its notice, which waits until that has lasted."""
    return int(notice.verdict.get("ended_ms") or notice.at_ms)


def _ended_after_ms(notice: Notice) -> int:
    """When lagwatch looked last before an end that it did not see; 0: it saw it."""
    verdict = notice.verdict
    return int(verdict.get("gone_after_ms") or verdict.get("ended_after_ms") or 0)


def instant(at_ms: float, zone: str = "UTC") -> str:
    """`2027-01-31 22:00:00 UTC`: local time with the zone's name."""
    return datetime.fromtimestamp(at_ms / 1000, ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M:%S %Z")


def clock_time(notice: Notice, at_ms: int | None = None) -> str:
    """`22:00:00 UTC`; with the date when it is longer ago than half a day.

    Of the start of the trouble, if no other instant is given.
    """
    at_ms = notice.since_ms if at_ms is None else at_ms
    since = datetime.fromtimestamp(at_ms / 1000, ZoneInfo(notice.zone))
    recent = notice.at_ms - at_ms < _HALF_A_DAY_MS
    return since.strftime("%H:%M:%S %Z" if recent else "%Y-%m-%d %H:%M %Z")


def cause_then(notice: Notice) -> str:
    """The cause, with the time it was found at if that is a while ago; "" without one."""
    if notice.cause is None:
        return ""
    said = str(notice.cause["sentence"])
    return f"{said} (as of {_seen_at(notice)})" if notice.late else said


def _as_of(notice: Notice) -> str:
    """Of figures that are old when they are sent: of when they are, and what they are now; "".

    ` (as of 22:00 UTC)`, ` (at 22:00 UTC; now 1,204 messages behind)`.
    """
    if not notice.late:
        return ""
    when = _seen_at(notice)
    if notice.newest is None:
        return f" (as of {when})"
    lag = "readable_lag" if notice.verdict.get("lost") else "total_lag"
    now = behind({**notice.newest, "total_lag": notice.newest[lag]})
    return f" (at {when}; now {', '.join(now)})"


def _seen_at(notice: Notice) -> str:
    """The time of the notice's figures, in its zone; with the day if that is not today's."""
    seen = datetime.fromtimestamp(notice.at_ms / 1000, ZoneInfo(notice.zone))
    recent = notice.sent_ms - notice.at_ms < _HALF_A_DAY_MS
    return seen.strftime("%H:%M %Z" if recent else "%Y-%m-%d %H:%M %Z")


def before(incident: Earlier, zone: str) -> str:
    """A sentence about an incident that the channel missed."""
    began = instant(incident.since_ms, zone)
    if incident.ended_ms is None:
        return f"Before that: {incident.severity.upper()} since {began}."
    ended = instant(incident.ended_ms, zone)
    lasted_s = max(0, incident.ended_ms - incident.since_ms) // 1000
    return (
        f"Before that: {incident.severity.upper()} from {began} to {ended} ({duration(lasted_s)})."
    )


def where(partition: Mapping[str, Any]) -> str:
    """`orders/0: nothing read for 3 min …`: what is wrong with a partition, in one sentence."""
    said = partition.get("sentence") or rule(partition)
    return f"{partition['topic']}/{partition['partition']}: {said}"


def owner(partition: Mapping[str, Any]) -> str:
    """`client consumer-1 on 10.0.3.14`; "" when no member was seen."""
    return client(str(partition.get("client_id") or ""), str(partition.get("owner") or ""))


def left_to_read(verdict: Mapping[str, Any]) -> str:
    """How many messages a group that is OK again still has to read."""
    lag = verdict.get("total_lag")
    if verdict.get("status") == "NOTFOUND":
        return ""
    if not (messages := _messages(lag, verdict)):
        return "How much is left to read is unknown."
    return f"Left to read: {messages}." if lag else "Nothing is left to read."


def per_second(messages: float) -> str:
    """`15 messages per second`; of less than one, a minute's."""
    if messages >= 1:
        return f"{counted(round(messages), 'message')} per second"
    return f"{counted(max(1, round(messages * 60)), 'message')} per minute"


def growth(curve: Sequence[tuple[int, int]], since_ms: int) -> str:
    """Whether the lag has grown since the trouble began: "" when too little is known.

    The quiet time before does not count: over it, a lag that shoots up seems to creep.
    """
    curve = [point for point in curve if point[0] >= since_ms]
    if len(curve) < 2 or curve[-1][0] - curve[0][0] < _LEAST_SPAN_MS:  # noqa: PLR2004 a line has two ends
        return ""
    (first_ms, first), (last_ms, last) = curve[0], curve[-1]
    per_minute = (last - first) / ((last_ms - first_ms) / 60_000)
    if abs(last - first) <= _GROWTH * max(first, last):
        return "steady"
    word = "growing" if last > first else "shrinking"
    return f"{word} by {counted(abs(round(per_minute)), 'message')} a minute"


def _sent_because(notice: Notice) -> Iterator[str]:
    """Why a notice of an open incident is sent now, if nothing has become worse."""
    if notice.reason == Reason.HANDED_ON.value:
        who = "; somebody has acknowledged it" if notice.verdict.get("acknowledged") else ""
        yield f"Escalated: the incident is still open{who}; other channels were notified before."
    if notice.reason == Reason.OTHER_POLICY.value:
        yield "The incident began under another policy, whose channels were notified before."
    if notice.reason == Reason.NEW_CHANNEL.value:
        yield "The incident began before this channel was configured."
    if notice.reason == Reason.MUTE_ENDED.value:
        yield "A mute of the group has ended, which held back notices of this incident."


def _trouble(notice: Notice) -> Iterator[str]:
    verdict = notice.verdict
    partitions = verdict.get("partitions", ())
    began = instant(notice.since_ms, notice.zone)
    yield from _sent_because(notice)
    if became := _became(notice):
        yield became
    if not _only_lost(notice):
        at_least = "At least since" if notice.since_at_least else "Since"
        milder = f" In trouble since {instant(notice.trouble_ms, notice.zone)}."
        yield f"{at_least} {began}, for {lasted(notice)}.{milder if notice.was_milder else ''}"
    if eased := _eased(notice):
        yield f"It was {eased}; it stays {notice.severity.upper()} until better has lasted."
    change = _change(notice)
    total = ", ".join(behind(verdict))
    count = len(partitions) + (verdict.get("partitions_left_out") or 0)
    affected = _affected(verdict)
    of = f" ({affected} affected)" if affected else ""
    yield f"{total[:1].upper()}{total[1:]}{f', {change}' if change else ''}{of}{_as_of(notice)}."
    if verdict.get("lost"):
        noticed_ms = verdict.get("lost_ms")
        noticed = f", noticed at {instant(noticed_ms, notice.zone)}" if noticed_ms else ""
        yield f"Deleted before the group read them: {_lost_messages(verdict)}{noticed}."
    yield from _forecast(notice)
    if notice.cause:
        yield notice.cause["sentence"]
    for partition in partitions[:_SHOWN_PARTITIONS]:
        yield f"{BULLET}{where(partition)}"
    more = count - min(len(partitions), _SHOWN_PARTITIONS)
    if more > 0 and count:
        yield f"{BULLET}… and {counted(more, 'more partition')}"
    yield from _owners(notice)


def _forecast(notice: Notice) -> Iterator[str]:
    """When the group has read all at its present speed, and when it loses messages."""
    verdict = notice.verdict
    catch_up_s, loss_in_s = verdict.get("catch_up_s") or 0.0, verdict.get("loss_in_s")
    reason = str(verdict.get("catch_up_reason") or "")
    if verdict.get("lag_steady"):
        if not notice.closing:
            yield "It reads about as fast as is written: its lag is about steady."
    elif reason == CatchUpReason.CATCHING_UP.value and catch_up_s >= _SOON_S:
        yield f"At its present speed it has read all by about {_ahead(notice, catch_up_s)}."
    elif not notice.closing and verdict.get("produced_per_s") == verdict.get("consumed_per_s") == 0:
        yield "Nothing is read, and nothing is written."
    elif not notice.closing and reason in _NO_CATCH_UP:
        yield f"{_NO_CATCH_UP[reason]}."
    if loss_in_s is not None:
        when = _ahead(notice, loss_in_s) if loss_in_s >= _SOON_S else "now"
        deletes = "Kafka deletes messages before the group reads them, from"
        yield f"If nothing changes, {deletes} {'about ' if when != 'now' else ''}{when} on."


def _ahead(notice: Notice, seconds: float) -> str:
    """`05:10 CET (in 3 h 20 min)`; of figures that are old when they are sent, the time alone."""
    at = datetime.fromtimestamp(notice.at_ms / 1000 + seconds, ZoneInfo(notice.zone))
    near = seconds * 1000 < _HALF_A_DAY_MS
    when = at.strftime("%H:%M %Z" if near else "%Y-%m-%d %H:%M %Z")
    return when if notice.late else f"{when} (in {duration(seconds)})"


_NOT_JUDGED: Final = "UNKNOWN"
_NO_CATCH_UP: Final[Mapping[str, str]] = {
    CatchUpReason.FALLING_BEHIND.value: "At its present speed it does not catch up",
    CatchUpReason.TOO_SLOW.value: "At its present speed it needs more than a year to catch up",
    CatchUpReason.WAITS_FOR_TRANSACTION.value: "It cannot read on before a transaction ends",
}


def _owners(notice: Notice) -> Iterator[str]:
    """Who holds the partitions, or held them last."""
    partitions = notice.verdict.get("partitions", ())
    owners = list(dict.fromkeys(filter(None, map(owner, partitions))))
    if owners:
        yield f"Last owner: {'; '.join(owners[:3])}"
    elif partitions:
        if all(map(_has_no_member, partitions)):
            yield "No member of the group holds these partitions."
        last = str(notice.verdict.get("last_owner") or "")
        if last and last not in (notice.cause or {}).get("sentence", ""):
            yield f"Last owner: {last}"


def _has_no_member(partition: Mapping[str, Any]) -> bool:
    """True if it is known that no member of the group holds it.

    Of a job outside of Kafka's groups that is not known, nor where the rule does not look at it.
    """
    return (partition.get("evidence") or {}).get("membership") in {"empty", "unheld"}


def _change(notice: Notice) -> str:
    """Whether the lag grows; of one of several partitions with its name; ""."""
    change = growth(notice.curve, notice.since_ms)
    if change.startswith("shrinking") and notice.verdict.get("consumed_per_s") == 0:
        return ""  # what is not read and shrinks all the same was deleted, or is counted no more
    grows_per_s = notice.verdict.get("lag_trend_per_s")
    if not change and grows_per_s:  # a limit is missed from one moment to the next
        word = "growing" if grows_per_s > 0 else "shrinking"
        return f"{word} by {per_second(abs(grows_per_s))}"
    partition = notice.curve_of.removeprefix("lag of ")
    whole = partition == notice.curve_of or notice.verdict.get("partition_count") == 1
    return change if whole or not change else f"{partition} {change}"


def _became(notice: Notice) -> str:
    """What has become worse since the last notice of the incident; ""."""
    new = [kind for kind in notice.kinds if kind not in notice.kinds_before]
    before = _before(notice)
    if notice.reason == Reason.LOSS_GREW.value and before:
        return f"The loss has grown: the last notice said {before}."
    if not new or not before:
        return ""
    return f"It has become worse: {', '.join(map(spoken, new))}. Before: {before}."


def _before(notice: Notice) -> str:
    """What the notices before an update for the worse have named; ""."""
    if notice.event is not NoticeEvent.ESCALATE:
        return ""
    if notice.reason == Reason.LOSS_GREW.value:
        lost = notice.verdict.get("lost_before")
        return counted(lost, "message") if lost else ""
    if notice.reason == Reason.WORSE_KIND.value and not notice.kinds_before:
        return "only a limit was missed"
    return ", ".join(map(spoken, notice.kinds_before))


def _rules(notice: Notice) -> str:
    """`stopped`, `312 messages lost and stopped (before: stopped)`: neither hides the other.

    "" where a limit is missed and nothing else is wrong.
    """
    verdict = notice.verdict
    word, lost = verdict.get("rule"), Rule.RECORDS_LOST.word
    # while a limit is missed, the rule may be that of a group that reads well
    found = [word] if word and (word in notice.kinds or not verdict.get("objective")) else []
    if word != lost and (lost in notice.kinds or verdict.get("lost")):
        found.insert(0, lost)
    said = " and ".join((each == lost and _lost(verdict)) or spoken(each) for each in found)
    before = _before(notice)
    # the same, and only a limit is missed by now or is kept again: nothing new to name
    return f"{said} (before: {before})" if said and before not in ("", said) else said


def _affected(verdict: Mapping[str, Any]) -> str:
    """`3 of 12 partitions`; "" when that is not known."""
    known = verdict.get("partition_count")
    partitions = verdict.get("partitions", ())
    judged = [each for each in partitions if each.get("status") != _NOT_JUDGED]
    count = len(judged or partitions) + (verdict.get("partitions_left_out") or 0)
    return f"{count} of {counted(known, 'partition')}" if known and count else ""


def end_word(notice: Notice) -> str:
    """How an incident ended: `OK again`, `DELETED`, `Incident ended`."""
    unread = notice.reason == NOT_READABLE
    if unread or notice.about is not About.GROUP:
        return "Incident ended" if unread or notice.verdict.get("removed") else _OWN_END
    if notice.reason == Reason.GROUP_GONE.value:
        if notice.verdict.get("removed"):
            return "REMOVED"
        return _GONE_WORDS.get(notice.verdict.get("gone", ""), "GONE")
    if notice.reason in _WHY_UNWATCHED:
        return _UNWATCHED
    verdict = notice.verdict
    still_behind = verdict.get("lag_grows_per_s") or verdict.get("not_read")
    if verdict.get("status") in {"WARN", "ERR"} or still_behind or _gone_topics(verdict):
        return "Incident ended"
    return _ENDED_MUTED if notice.reason == Reason.ENDED_WHILE_MUTED.value else "OK again"


def _why_it_ended(notice: Notice) -> str:
    word = end_word(notice)
    if word == _UNWATCHED:
        return f"No longer watched: {_WHY_UNWATCHED[notice.reason]}."
    if word in _GONE_WORDS.values():
        return _how_it_went(notice)
    if gone := _gone_topics(notice.verdict):
        return f"What was in trouble is gone, it did not catch up: {gone}."
    if word == "Incident ended":
        return _why_still_behind(notice.verdict)
    if word == _ENDED_MUTED:
        return f"{_healed(notice.verdict)}; it recovered while it was muted."
    return _ENDS.get(word, f"{_healed(notice.verdict)}.")


def _healed(verdict: Mapping[str, Any]) -> str:
    """`The group keeps up again`, if that is known: one that has much left to read does not yet."""
    lag, late_s = verdict.get("total_lag"), verdict.get("time_lag_s")
    better = "The group is in no trouble any more"
    if not isinstance(lag, int):
        return better
    catches_up_s = verdict.get("catch_up_s") or 0.0
    if lag and (late_s is None or max(late_s, catches_up_s) >= _SOON_S):
        return f"{better}, but has not read all yet"
    return better if verdict.get("unknown_partitions") else "The group keeps up again"


_ENDS: Final[Mapping[str, str]] = {
    "REMOVED": "The group was removed from lagwatch by request; Kafka may still hold it.",
    "GONE": (
        "The group has no committed offsets in Kafka any more: it was deleted, or its "
        "offsets have expired. It did not catch up."
    ),
}


def _gone_topics(verdict: Mapping[str, Any]) -> str:
    """`its topic orders was deleted`: what ended an incident that did not heal; ""."""
    deleted, kept = verdict.get("deleted_topics", ()), verdict.get("topics_without_offsets", ())
    if verdict.get("begun_anew"):
        return "its offsets were deleted or its topic re-created, and it has committed new ones"
    if verdict.get("removed") or not (deleted or kept):
        return ""
    if verdict.get("gone"):  # the group, too
        if verdict["gone"] not in {Departure.DELETED, Departure.LIKELY_DELETED} or kept:
            return ""
        return f"{_topics(deleted)} deleted"
    parts = [f"{_topics(deleted)} deleted"] if deleted else []
    if kept:
        parts.append(f"its offsets of {_named(kept)} were deleted or have expired")
    return "; ".join(parts)


def _topics(topics: Sequence[str]) -> str:
    return f"its {_named(topics)} {'was' if len(topics) == 1 else 'were'}"


def _named(topics: Sequence[str]) -> str:
    """`topic orders`, `3 topics (orders, …)`."""
    first = cut_name(printable(topics[0]), LONGEST_NAME)
    return f"topic {first}" if len(topics) == 1 else f"{len(topics):,} topics ({first}, …)"


def _why_still_behind(verdict: Mapping[str, Any]) -> str:
    if grows_per_s := verdict.get("lag_grows_per_s"):
        said = f"it reads again, but its lag grows by {per_second(grows_per_s)}"
        return f"The group is still behind: {said}."
    if not_read := verdict.get("not_read"):
        return f"The group is still behind: {_NOT_READ[not_read]}, and may only pause."
    return "The group is still behind, but not as badly as its policy asks for."


def _how_it_went(notice: Notice) -> str:
    """Deleted, expired or forgotten, and by which signs."""
    verdict = notice.verdict
    silent_ms = verdict["gone_ms"] - (verdict["last_sign_ms"] or verdict["gone_ms"])
    sign = f"its last commit or member was seen {duration(max(0, silent_ms) // 1000)} before"
    kept = duration(verdict["offsets_retention_s"] or 0)
    match Departure(verdict["gone"]):
        case Departure.DELETED:
            said = f"{_what_went(verdict)}: {sign}, and Kafka keeps offsets for {kept}."
        case Departure.LIKELY_DELETED:
            said = (
                f"{_what_went(verdict, 'most likely ')}: {sign}, and Kafka keeps offsets for "
                f"{kept} by default."
            )
        case Departure.EXPIRED:
            said = (
                f"Kafka expired the offsets of the group: {sign}, and Kafka keeps them for {kept}."
            )
        case Departure.LIKELY_EXPIRED:
            said = (
                f"The offsets of the group have most likely expired: {sign}, and Kafka keeps them "
                f"for {kept} by default."
            )
        case _:
            said = (
                f"lagwatch forgot the group, because it did not commit for long "
                f"(windows.expire_group_s): {sign}. Kafka may still hold it."
            )
    return f"{said} It did not catch up."


def _what_went(verdict: Mapping[str, Any], likely: str = "") -> str:
    """What of a group that is gone was deleted, as far as it is known which of its topics exist."""
    if kept := verdict.get("topics_without_offsets"):
        # a topic that is re-created has no offsets, and no other sign of it is left
        return f"The group or its offsets were {likely}deleted, or {_topics(kept)} re-created"
    if deleted := verdict.get("deleted_topics"):
        said = _topics(deleted)
        return f"{said[0].upper()}{said[1:]} {likely}deleted"
    return f"The group, its offsets or its topics were {likely}deleted"


def _own_headline(notice: Notice) -> str:
    event = EVENTS.get(notice.event, "")
    word = f"{event}{notice.severity.upper()}"
    if notice.closing:
        word = "Ended" if notice.verdict.get("removed") else "OK again"
    return f"{word}: {_own_words(notice)}"


def _removed(notice: Notice) -> str:
    if notice.about is About.CLUSTER:
        return f"cluster {notice.cluster} is not configured any more; not seen for {lasted(notice)}"
    part = f"alert channel {notice.group}"
    return f"{part} is not configured any more; it did not deliver for {lasted(notice)}"


def _own_words(notice: Notice, longest_reason: int = LONGEST_NAME) -> str:
    if notice.verdict.get("removed"):
        return _removed(notice)
    match notice.about, notice.closing:
        case About.CLUSTER, True:
            said = f"lagwatch sees cluster {notice.cluster}"
        case About.CLUSTER, False:
            said = f"lagwatch does not see cluster {notice.cluster}"
        case About.CHANNEL, True:
            said = f"alert channel {notice.group} delivers"
        case About.CHANNEL, False:
            said = f"alert channel {notice.group} does not deliver"
        case _, True:
            said = "lagwatch records history"
        case _:
            said = "lagwatch does not record history"
    if notice.closing:
        return f"{said}, after {lasted(notice)}"
    why = _cut_reason(str(notice.verdict.get("why") or ""), longest_reason)
    return f"{said}{f': {why}' if why else ''}, since {clock_time(notice)}"

"""The text of notices for people: the same in every channel.

The end of an incident says why it ended: OK again for a group that healed, Ended while muted for
one that healed while its notices were held back, DELETED or EXPIRED (never OK) for a group that no
longer exists, GONE where it is not known which, REMOVED for a group that was removed from lagwatch
by request.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum, unique
from typing import Any, Final
from zoneinfo import ZoneInfo

from lagwatch.core.departure import Departure
from lagwatch.core.incident import Reason, Tell
from lagwatch.core.model import Rule
from lagwatch.core.words import bounded, client, counted, duration, spoken
from lagwatch.notify.notice import About, Earlier, Message, Notice

SHOWN_NOTICES: Final = 20
"""Groups that a message lists; it says how many more there are."""
_SHOWN_OF_CAUSE: Final = 3
"""Groups that a message lists of each cause at least, as long as there is room."""
_SHOWN_PARTITIONS: Final = 5
_SHOWN_EARLIER: Final = 5
"""Incidents that a channel missed, of which a text says from when to when they lasted."""
_BULLET: Final = "• "
"""Begins the lines of a list: mail and cards drop spaces at the beginning of a line."""
LONGEST_LINE: Final = 700
_LONGEST_NAME: Final = 120
"""Characters of a name in a headline: what follows it must be read, too."""
_LONGEST_LINK: Final = 2000
"""Characters of a URL. Slack takes 3,000, a card of Teams 28 KB in all, and in the URL of a group
each letter that is not ASCII takes six or more."""
_COUNT_ROOM: Final = 40
"""Characters for the line that counts what is left out."""
_EVENTS: Final = {Tell.REMIND: "Still ", Tell.ESCALATE: "Now ", Tell.DE_ESCALATE: "Now only "}
_OWN_END: Final = "Ended"
"""The end of an incident of lagwatch itself, among others."""
_ENDED_MUTED: Final = "Ended while muted"
_GONE_WORDS: Final[Mapping[str, str]] = {
    Departure.DELETED: "DELETED",
    Departure.LIKELY_DELETED: "LIKELY DELETED",
    Departure.EXPIRED: "EXPIRED",
    Departure.LIKELY_EXPIRED: "LIKELY EXPIRED",
    Departure.FORGOTTEN: "FORGOTTEN",
}
"""How a group went; anything else is GONE."""
_HEALED: Final = frozenset({"OK again", _ENDED_MUTED, _OWN_END})
_OLD_MS: Final = 60_000
"""Figures that are older when they are sent say of when they are."""
_HALF_A_DAY_MS: Final = 12 * 3_600_000
_LEAST_SPAN_MS: Final = 30_000
"""A shorter curve does not say how fast the lag grows."""
_GROWTH: Final = 0.05
"""Share of the lag by which it must have changed to be called growing or shrinking."""


def subject(message: Message) -> str:
    """One line about a message."""
    if len(message.notices) == 1:
        return headline(message.notices[0])
    clusters = sorted({notice.cluster for notice in message.notices if notice.cluster})
    where = f" on {', '.join(clusters)}" if clusters else ""
    groups = [notice for notice in worst(message.notices) if notice.about is About.GROUP]
    names = ", ".join(cut(notice.group, _LONGEST_NAME) for notice in groups[:3])
    more = len(message.notices) - 3
    listed = f": {names}" + (f" and {more} more" if more > 0 else "") if names else ""
    noun = "consumer group" if len(groups) == len(message.notices) else "incident"
    events = {_EVENTS.get(notice.event, "") for notice in message.notices}
    # a message of reminders alone is no new failure
    word = (events.pop() if len(events) == 1 else "") + message.severity.upper()
    if message.closing:
        words = {_end_word(notice) for notice in message.notices}
        word = words.pop() if len(words) == 1 else "Ended"
    return f"{word}: {counted(len(message.notices), noun)}{where}{listed}"


@unique
class Tone(StrEnum):
    """What the colour of a message says."""

    GOOD = "good"
    """Every group of it is OK again."""
    NEUTRAL = "neutral"
    """Incidents ended otherwise: a group that is gone is not OK."""
    WARNING = "warning"
    ERROR = "error"


def tone(message: Message) -> Tone:
    """The colour in which a message is shown."""
    if not message.closing:
        return Tone(message.severity)
    healed = all(_end_word(notice) in _HEALED for notice in message.notices)
    return Tone.GOOD if healed else Tone.NEUTRAL


def headline(notice: Notice, *, with_cluster: bool = True) -> str:
    """A line about a notice: what, where, how far behind, how many partitions, since when."""
    if notice.about is not About.GROUP:
        return _own_headline(notice)
    group = cut(notice.group, _LONGEST_NAME)
    name = f"{group} on {notice.cluster}" if with_cluster else group
    if notice.closing:
        parts = [f"after {lasted(notice)}"]
        left = notice.verdict.get("total_lag")
        healed = _end_word(notice) in _HEALED
        if healed and isinstance(left, int) and left:
            parts.append(f"{counted(left, 'message')} left to read{_as_of(notice)}")
        if grows_per_s := notice.verdict.get("lag_grows_per_s"):
            parts.append(f"still behind: its lag grows by {per_second(grows_per_s)}")
        if notice.verdict.get("status") in {"WARN", "ERR"}:
            parts.append(f"still {notice.verdict['status']}, no longer bad enough for its policy")
        return f"{_end_word(notice)}: {name}, {', '.join(parts)}"
    parts = [_rules(notice), *behind(notice.verdict), _affected(notice.verdict)]
    if notice.verdict.get("objective"):
        parts = [str(notice.verdict["objective"])]
    shown = ", ".join(part for part in parts if part) + _as_of(notice)
    event = _EVENTS.get(notice.event, "")
    return f"{event}{notice.severity.upper()}: {name}: {shown}, since {clock_time(notice)}"


def details(notice: Notice) -> Iterator[str]:
    """Lines below the headline: what is wrong, since when, how far, whose, what to do."""
    if notice.about is not About.GROUP:
        yield from (line for line in (notice.verdict.get("problem"),) if line)
    elif notice.closing:
        yield _why_it_ended(notice)
        span = (
            f"{instant(notice.since_ms, notice.zone)} to {instant(_ended_ms(notice), notice.zone)}"
        )
        yield f"It was {notice.severity.upper()} from {span}, for {lasted(notice)}."
        if not notice.heard:
            yield "This channel could not be reached in between."
        if left := left_to_read(notice.verdict):
            yield f"{left.removesuffix('.')}{_as_of(notice)}."
    else:
        yield from _trouble(notice)
    for incident in notice.earlier[-_SHOWN_EARLIER:]:
        yield before(incident, notice.zone)
    more = notice.earlier_left_out + max(0, len(notice.earlier) - _SHOWN_EARLIER)
    if more:
        yield f"… and {counted(more, 'incident')} before that."
    if notice.team:
        yield f"Team: {notice.team}"
    if notice.runbook and not notice.closing:
        yield f"What to do: {notice.runbook}"


def plain_text(message: Message, limit: int = 100_000) -> str:
    """The message for people, without markup, of at most `limit` characters."""
    return "\n".join([cut(subject(message), limit // 4), body(message, limit * 3 // 4)]).strip()


def body(message: Message, limit: int, *, linked: bool = True) -> str:
    """What follows the subject; what does not fit is counted, and the link is kept."""
    page = overview(message) if linked else ""
    room = limit - len(page) - _COUNT_ROOM
    if len(message.notices) == 1:
        lines = [(line, 1) for line in details(message.notices[0])]
        left, noun = len(lines), "more line"
    else:
        lines, left, noun = list(_by_cause(message.notices)), len(message.notices), ""
    shown: list[str] = []
    for line, counts in lines:
        short = cut(line, LONGEST_LINE)
        room -= len(short) + 1
        if room < 0:
            break
        shown.append(short)
        left -= counts
    if left:
        shown.append(f"… and {counted(left, noun) if noun else f'{left:,} more'}")
    return "\n".join([*shown, *([page] if page else [])])


def _by_cause(notices: Sequence[Notice]) -> Iterator[tuple[str, int]]:
    """(line, notices that it shows): what may have one cause together, the largest first."""
    causes: dict[tuple[str, str, str], list[Notice]] = {}
    for notice in worst(notices):
        causes.setdefault(_cause(notice), []).append(notice)
    room, shown = SHOWN_NOTICES, False
    for (cluster, policy, topic), found in sorted(causes.items(), key=lambda item: -len(item[1])):
        if shown:
            yield "", 0
        shown = True
        if cluster:
            yield _cause_heading(cluster, policy, topic, found), 0
        most = min(room, max(_SHOWN_OF_CAUSE, SHOWN_NOTICES // len(causes)))
        for notice in found[:most]:
            yield _BULLET + headline(notice, with_cluster=False), 1
        if (more := len(found) - most) > 0:
            yield f"{_BULLET}… and {more:,} more", more
        room -= min(most, len(found))


def _cause(notice: Notice) -> tuple[str, str, str]:
    """Cluster, policy, and the topic if it is a single one; "" for lagwatch itself."""
    if notice.about is not About.GROUP:
        return "", "", ""
    topics = {partition["topic"] for partition in notice.verdict.get("partitions", ())}
    return notice.cluster, notice.policy, topics.pop() if len(topics) == 1 else ""


def _cause_heading(cluster: str, policy: str, topic: str, found: Sequence[Notice]) -> str:
    where = f" of topic {topic}" if topic else ""
    team = f", team {found[0].team}" if found[0].team else ""
    groups = f"{counted(len(found), 'consumer group')}{where} on {cluster}"
    to_do = f" What to do: {found[0].runbook}" if found[0].runbook and not found[0].closing else ""
    return f"{groups}, policy {policy}{team}.{to_do}"


def cut(text: str, limit: int) -> str:
    """At most so many characters; `…` says that some are missing."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def overview(message: Message) -> str:
    """URL of the page, or of the group's page if there is one notice; ""."""
    if len(message.notices) == 1:
        return link(message.notices[0])
    return next((notice.url.partition("?")[0] for notice in message.notices if notice.url), "")


def runbook(message: Message) -> str:
    """URL of what to do, if all notices have the same one; ""."""
    found = {notice.runbook for notice in message.notices}
    url = found.pop() if len(found) == 1 and not message.closing else ""
    return url if url.startswith(("http://", "https://")) and len(url) <= _LONGEST_LINK else ""


def link(notice: Notice) -> str:
    """URL of the group's page; of the page where the group's name makes it too long; ""."""
    return notice.url if len(notice.url) <= _LONGEST_LINK else notice.url.partition("?")[0]


def worst(notices: Sequence[Notice]) -> list[Notice]:
    """Errors first, then what is furthest behind in time, then in messages."""
    return sorted(
        notices,
        key=lambda notice: (
            notice.severity != "error",
            -(notice.verdict.get("time_lag_s") or 0),
            -(notice.verdict.get("total_lag") or 0),
            notice.cluster,
            notice.group,
        ),
    )


def rule(verdict: Mapping[str, Any]) -> str:
    """`falling behind`; "" when there is none."""
    return spoken(str(verdict.get("rule") or ""))


def behind(verdict: Mapping[str, Any]) -> Iterator[str]:
    """How far behind, in messages and time; what is unknown says so."""
    lag = verdict.get("total_lag")
    lost, readable = verdict.get("lost"), verdict.get("readable_lag")
    if lost and isinstance(readable, int):  # of the rest of the lag nothing is left to read
        lag = readable
    yield f"{counted(lag, 'message')} behind" if isinstance(lag, int) else "lag unknown"
    if lost:
        yield f"{counted(lost, 'message')} lost"
    if verdict.get("time_lag_s"):
        yield f"{bounded(verdict['time_lag_s'], verdict.get('time_lag_bound', ''))} in time"


def lasted(notice: Notice) -> str:
    """Duration of the incident so far."""
    return duration(max(0, _ended_ms(notice) - notice.since_ms) // 1000)


def _ended_ms(notice: Notice) -> int:
    """When the incident ended: before its notice, where a mute held that back."""
    return int(notice.verdict.get("ended_ms") or notice.at_ms)


def instant(at_ms: float, zone: str = "UTC") -> str:
    """`2027-01-31 22:00:00 UTC`: local time with the zone's name."""
    return datetime.fromtimestamp(at_ms / 1000, ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M:%S %Z")


def clock_time(notice: Notice) -> str:
    """`22:00:00 UTC`; with the date when it is longer ago than half a day."""
    since = datetime.fromtimestamp(notice.since_ms / 1000, ZoneInfo(notice.zone))
    recent = notice.at_ms - notice.since_ms < _HALF_A_DAY_MS
    return since.strftime("%H:%M:%S %Z" if recent else "%Y-%m-%d %H:%M %Z")


def _as_of(notice: Notice) -> str:
    """` (as of 22:00 UTC)`, of figures that are old when they are sent; ""."""
    if notice.sent_ms - notice.at_ms <= _OLD_MS:
        return ""
    seen = datetime.fromtimestamp(notice.at_ms / 1000, ZoneInfo(notice.zone))
    recent = notice.sent_ms - notice.at_ms < _HALF_A_DAY_MS
    return f" (as of {seen.strftime('%H:%M %Z' if recent else '%Y-%m-%d %H:%M %Z')})"


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
    if not isinstance(lag, int):
        return "How much is left to read is unknown."
    if not lag:
        return "Nothing is left to read."
    return f"Left to read: {counted(lag, 'message')}."


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


def _trouble(notice: Notice) -> Iterator[str]:
    verdict = notice.verdict
    partitions = verdict.get("partitions", ())
    began = instant(notice.since_ms, notice.zone)
    if notice.reason == Reason.HANDED_ON.value:
        yield "Escalated: the incident is still open; other channels were notified before."
    if became := _became(notice):
        yield became
    yield f"Since {began}, for {lasted(notice)}."
    change = _change(notice)
    total = ", ".join(behind(verdict))
    count = len(partitions) + (verdict.get("partitions_left_out") or 0)
    affected = _affected(verdict)
    of = f" ({affected} affected)" if affected else ""
    yield f"{total[:1].upper()}{total[1:]}{f', {change}' if change else ''}{of}{_as_of(notice)}."
    if verdict.get("lost"):
        noticed_ms = verdict.get("lost_ms")
        noticed = f", noticed at {instant(noticed_ms, notice.zone)}" if noticed_ms else ""
        yield f"Deleted before the group read them: {counted(verdict['lost'], 'message')}{noticed}."
    if notice.cause:
        yield notice.cause["sentence"]
    for partition in partitions[:_SHOWN_PARTITIONS]:
        yield f"{_BULLET}{where(partition)}"
    more = count - min(len(partitions), _SHOWN_PARTITIONS)
    if more > 0 and count:
        yield f"{_BULLET}… and {counted(more, 'more partition')}"
    owners = list(dict.fromkeys(filter(None, map(owner, partitions))))
    if owners:
        yield f"Last owner: {'; '.join(owners[:3])}"
    elif partitions:
        yield "No member of the group holds these partitions."
        last = str(verdict.get("last_owner") or "")
        if last and last not in (notice.cause or {}).get("sentence", ""):
            yield f"Last owner: {last}"


def _change(notice: Notice) -> str:
    """Whether the lag grows; of one of several partitions with its name; ""."""
    change = growth(notice.curve, notice.since_ms)
    partition = notice.curve_of.removeprefix("lag of ")
    whole = partition == notice.curve_of or notice.verdict.get("partition_count") == 1
    return change if whole or not change else f"{partition} {change}"


def _became(notice: Notice) -> str:
    """What has become worse since the last notice of the incident; ""."""
    new = [kind for kind in notice.kinds if kind not in notice.kinds_before]
    if notice.event is not Tell.ESCALATE or not new or not notice.kinds_before:
        return ""
    now, before = (", ".join(map(spoken, kinds)) for kinds in (new, notice.kinds_before))
    return f"It has become worse: {now}. Before: {before}."


def _rules(notice: Notice) -> str:
    """`stopped`, `stopped and records lost`: a stop does not hide a loss."""
    found = rule(notice.verdict)
    lost = Rule.RECORDS_LOST.word
    hidden = lost in notice.kinds and notice.verdict.get("rule") != lost
    return f"{found} and {spoken(lost)}" if hidden else found


def _affected(verdict: Mapping[str, Any]) -> str:
    """`3 of 12 partitions`; "" when that is not known."""
    known = verdict.get("partition_count")
    count = len(verdict.get("partitions", ())) + (verdict.get("partitions_left_out") or 0)
    return f"{count} of {counted(known, 'partition')}" if known and count else ""


def _end_word(notice: Notice) -> str:
    if notice.about is not About.GROUP:
        return _OWN_END
    if notice.reason == Reason.GROUP_GONE.value:
        if notice.verdict.get("removed"):
            return "REMOVED"
        return _GONE_WORDS.get(notice.verdict.get("gone", ""), "GONE")
    if notice.verdict.get("status") in {"WARN", "ERR"} or notice.verdict.get("lag_grows_per_s"):
        return "Incident ended"
    return _ENDED_MUTED if notice.reason == Reason.ENDED_WHILE_MUTED.value else "OK again"


def _why_it_ended(notice: Notice) -> str:
    match _end_word(notice):
        case "REMOVED":
            return "The group was removed from lagwatch by request; Kafka may still hold it."
        case "GONE":
            return (
                "The group has no committed offsets in Kafka any more: it was deleted, or its "
                "offsets have expired. It did not catch up."
            )
        case word if word in _GONE_WORDS.values():
            return _how_it_went(notice)
        case word if word == _ENDED_MUTED:
            return "The group keeps up again; it recovered while it was muted."
        case "Incident ended":
            grows_per_s = notice.verdict.get("lag_grows_per_s")
            return (
                "The group is still behind: it reads again, but its lag grows by "
                f"{per_second(grows_per_s)}."
                if grows_per_s
                else "The group is still behind, but not as badly as its policy asks for."
            )
        case _:
            return "The group keeps up again."


def _how_it_went(notice: Notice) -> str:
    """Deleted, expired or forgotten, and by which signs."""
    verdict = notice.verdict
    silent_ms = verdict["gone_ms"] - (verdict["last_sign_ms"] or verdict["gone_ms"])
    sign = f"its last commit or member was seen {duration(max(0, silent_ms) // 1000)} before"
    kept = duration(verdict["offsets_retention_s"])
    match Departure(verdict["gone"]):
        case Departure.DELETED:
            said = (
                f"The group, its offsets or its topics were deleted: {sign}, and Kafka keeps "
                f"offsets for {kept}."
            )
        case Departure.LIKELY_DELETED:
            said = (
                f"The group, its offsets or its topics were most likely deleted: {sign}, and "
                f"Kafka keeps offsets for {kept} by default."
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


def _own_headline(notice: Notice) -> str:
    after = f", after {lasted(notice)}"
    match notice.about:
        case About.CLUSTER:
            if notice.closing:
                return f"OK again: lagwatch sees cluster {notice.cluster}{after}"
            said = f"lagwatch does not see cluster {notice.cluster}"
        case About.CHANNEL:
            if notice.closing:
                return f"OK again: alert channel {notice.group} delivers{after}"
            said = f"alert channel {notice.group} does not deliver"
        case _:
            if notice.closing:
                return f"OK again: lagwatch records history{after}"
            said = "lagwatch does not record history"
    event = _EVENTS.get(notice.event, "")
    return f"{event}{notice.severity.upper()}: {said}, since {clock_time(notice)}"

"""The text of messages for people: subject, colour, and the body with what fits into it."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final

from lagwatch.core.causes import CauseName, Certainty
from lagwatch.core.incident import Reason
from lagwatch.core.trouble import gravity, kinds_of
from lagwatch.core.words import counted, printable, spoken
from lagwatch.notify.notice import About, Message, Notice
from lagwatch.notify.words import (
    BULLET,
    EVENTS,
    HEALED,
    LONGEST_NAME,
    cut,
    cut_name,
    details,
    end_word,
    headline,
    is_link,
    lead,
    link,
    what_to_do,
)

SHOWN_NOTICES: Final = 20
"""Groups that a message lists; it says how many more there are."""
_SHOWN_OF_CAUSE: Final = 3
"""Groups that a message lists of each cause at least, as long as there is room."""
LONGEST_LINE: Final = 700
LONGEST_SUBJECT: Final = 240
"""Characters; a name alone may take it a little further."""
_LONGEST_CAUSE: Final = 300
"""Characters of a cause in the heading: the first steps come after it."""
_MOST_LEADS: Final = 3
_COUNT_OF_LEADS: Final = 15
"""Characters for `and 4,999 more`."""
_COUNT_ROOM: Final = 40
"""Characters for the line that counts what is left out."""


def subject(message: Message) -> str:
    """One line about a message: of several notices, the worst of each cluster and how many more."""
    if len(message.notices) == 1:
        return headline(message.notices[0])
    ends = {end_word(notice) for notice in message.notices} if message.closing else set()
    word = _common_word(message, ends)
    count = counted(len(message.notices), _noun(message.notices))
    clusters = list(dict.fromkeys(each.cluster for each in message.notices if each.cluster))
    where = ""
    if clusters:
        name = cut_name(clusters[0], LONGEST_NAME)
        where = f" on {name if len(clusters) == 1 else counted(len(clusters), 'cluster')}"
    begin = f"{word}: {count}{where}: "
    leads = _leads(message, LONGEST_SUBJECT - len(begin), of_several=len(ends) > 1)
    more = len(message.notices) - len(leads)
    return begin + "; ".join([*leads, *([f"and {more:,} more"] if more else [])])


def _common_word(message: Message, ends: Collection[str]) -> str:
    """`ERROR`, `Still ERROR`, `OK again`."""
    if message.closing:
        return next(iter(ends)) if len(ends) == 1 else "Ended"
    events = {EVENTS.get(notice.event, "") for notice in message.notices}
    # a message of reminders alone is not a new failure
    return (events.pop() if len(events) == 1 else "") + message.severity.upper()


def _noun(notices: Iterable[Notice]) -> str:
    groups = all(notice.about is About.GROUP for notice in notices)
    return "consumer group" if groups else "incident"


def _leads(message: Message, room: int, *, of_several: bool) -> list[str]:
    """What the worst notice of each cluster is about, then the next worst, as far as there is room.

    One is always said. `of_several`: the incidents ended in several ways.
    """
    found = worst(message.notices)
    if of_several:  # a group that is gone is not to be missed among those that are well again
        found.sort(key=lambda notice: end_word(notice) in HEALED)
    worst_of: dict[str, Notice] = {}
    for notice in found:
        worst_of.setdefault(notice.cluster, notice)
    # the sort keeps the order within each half
    found.sort(key=lambda notice: worst_of[notice.cluster] is not notice)
    leads: list[str] = []
    for notice in found[:_MOST_LEADS]:
        text = lead(notice, with_cluster=len(worst_of) > 1, word=of_several)
        room -= len(text) + 2
        if leads and room < _COUNT_OF_LEADS:
            break
        leads.append(text)
    return leads


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
    healed = all(end_word(notice) in HEALED for notice in message.notices)
    return Tone.GOOD if healed else Tone.NEUTRAL


def plain_text(message: Message, limit: int = 100_000) -> str:
    """The message for people, without markup, of at most `limit` characters."""
    return "\n".join([cut(subject(message), limit // 4), body(message, limit * 3 // 4)]).strip()


def body(message: Message, limit: int, *, linked: bool = True) -> str:
    """What follows the subject; what does not fit is counted, and the link is kept."""
    end = [*open_now(message), *([overview(message)] if linked else [])]
    room = limit - sum(map(len, end)) - _COUNT_ROOM
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
    return "\n".join([*shown, *filter(None, end)])


def open_now(message: Message) -> list[str]:
    """`Open on prod now: 24 consumer groups, 20 in ERROR, 4 in WARNING`, of each cluster.

    Only where these are more than the groups that the message is about.
    """
    lines = []
    for cluster, found in message.open_groups.items():
        about = {each.group for each in message.notices if each.cluster == cluster}
        count = found.errors + found.warnings
        if count > (0 if message.closing else len(about)):
            words = {"ERROR": found.errors, "WARNING": found.warnings}
            parts = [f"{number:,} in {word}" for word, number in words.items() if number]
            groups = counted(count, "consumer group")
            lines.append(
                f"Open on {cut_name(cluster, LONGEST_NAME)} now: {groups}, {', '.join(parts)}"
            )
    return lines[:_MOST_LEADS]


def _by_cause(notices: Sequence[Notice]) -> Iterator[tuple[str, int]]:
    """(line, notices that it shows): what may have one cause together, the largest first."""
    parts = sorted(_parts(worst(notices)), key=lambda part: -len(part.found))
    room, shown = SHOWN_NOTICES, False
    for part in parts:
        if shown:
            yield "", 0
        shown = True
        if part.cluster:
            yield _cause_heading(part), 0
        most = min(room, max(_SHOWN_OF_CAUSE, SHOWN_NOTICES // len(parts)))
        for notice in part.found[:most]:
            of = f", topic {topic}" if part.shared and (topic := _place(notice)[2]) else ""
            said = headline(notice, with_cluster=False) + cut(printable(of), LONGEST_NAME)
            yield f"{BULLET}{said}{_sent_because(notice)}", 1
        if (more := len(part.found) - most) > 0:
            yield f"{BULLET}… and {more:,} more", more
        room -= min(most, len(part.found))


def _sent_because(notice: Notice) -> str:
    """` (escalated, acknowledged)`: what the text of a single notice says in sentences; ""."""
    why = []
    if notice.reason == Reason.HANDED_ON.value:
        why.append("escalated")
    if notice.reason == Reason.OTHER_POLICY.value:
        why.append("began under another policy")
    if notice.reason == Reason.NEW_CHANNEL.value:
        why.append("began before this channel was configured")
    if notice.reason == Reason.MUTE_ENDED.value:
        why.append("its mute has ended")
    if notice.verdict.get("acknowledged"):
        why.append("acknowledged")
    return f" ({', '.join(why)})" if why else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Notices of a message that come under one heading."""

    cluster: str
    """ "" for lagwatch itself: no heading."""
    policy: str
    topic: str
    """The single topic of all; ""."""
    found: Sequence[Notice]
    shared: bool = False
    """They have the same cause, on several topics."""


def _parts(notices: Iterable[Notice]) -> Iterator[_Part]:
    """Notices with one cause on several topics first, then the others topic by topic."""
    causes: dict[tuple[str, str, str], list[Notice]] = {}
    topics: dict[tuple[str, str, str], list[Notice]] = {}
    for notice in notices:
        cluster, policy, _ = place = _place(notice)
        if cause := _named_cause(notice):
            causes.setdefault((cluster, policy, cause), []).append(notice)
        else:
            topics.setdefault(place, []).append(notice)
    for (cluster, policy, _), found in causes.items():
        if len({_place(notice) for notice in found}) > 1:
            yield _Part(cluster=cluster, policy=policy, topic="", found=found, shared=True)
            continue
        topics.setdefault(_place(found[0]), []).extend(found)
    for (cluster, policy, topic), found in topics.items():
        yield _Part(cluster=cluster, policy=policy, topic=topic, found=worst(found))


def _named_cause(notice: Notice) -> str:
    """What is equal if groups have the same cause: all that is said of it; "" if not known."""
    if notice.about is not About.GROUP or not notice.cause or not notice.cause["name"]:
        return ""
    # of a broker it says how old the data are, which differs from group to group
    of_cluster = notice.cause["name"] == CauseName.BROKER_AWAY.value
    return str(notice.cause["name"] if of_cluster else notice.cause["sentence"])


def _place(notice: Notice) -> tuple[str, str, str]:
    """Cluster, policy, and the topic if it is a single one; "" for lagwatch itself."""
    if notice.about is not About.GROUP:
        return "", "", ""
    topics = {partition["topic"] for partition in notice.verdict.get("partitions", ())}
    return notice.cluster, notice.policy, topics.pop() if len(topics) == 1 else ""


def _cause_heading(part: _Part) -> str:
    found = part.found
    where = f" of topic {printable(part.topic)}" if part.topic else ""
    team = f", team {found[0].team}" if found[0].team else ""
    groups = f"{counted(len(found), 'consumer group')}{where} on {part.cluster}"
    steps = _common_steps(found)
    to_do = f" What to do: {steps}" if steps and not found[0].closing else ""
    cause = _common_cause(found, shared=part.shared)
    return f"{groups}, policy {part.policy}{team}.{cause}{to_do}"


def _common_steps(found: Sequence[Notice]) -> str:
    """The runbook of their policy; without one the first steps, where all have the same; ""."""
    steps = {what_to_do(notice) for notice in found}
    return found[0].runbook or (steps.pop() if len(steps) == 1 else "")


def _common_cause(found: Sequence[Notice], *, shared: bool) -> str:
    """` Cause of all: no members.`: the one that was found of most of these groups; "".

    Of a `shared` one it says all, if that is the same of every group: it names what they share,
    such as a client or host. Of a large storm the causes of some are looked for only.
    """
    causes = [notice.cause for notice in found if notice.cause and notice.cause["name"]]
    if not causes:
        return ""
    ((name, count),) = Counter(str(cause["name"]) for cause in causes).most_common(1)
    if 2 * count < len(causes):
        return ""
    certain = all(
        cause["certainty"] == Certainty.CERTAIN.value for cause in causes if cause["name"] == name
    )
    whose = " of all" if count == len(found) else f" of {count:,} of {len(found):,}"
    what = "Cause" if certain else "Likely cause"
    texts = {str(cause.get("text") or "") for cause in causes} if shared else set()
    text = texts.pop() if len(texts) == 1 else ""
    said = cut(text, _LONGEST_CAUSE) or spoken(name)
    return f" {what}{whose if len(found) > 1 else ''}: {said}."


def overview(message: Message) -> str:
    """URL of the page, or of the group's page if there is one notice; ""."""
    if len(message.notices) == 1:
        return link(message.notices[0])
    return next((notice.url.partition("?")[0] for notice in message.notices if notice.url), "")


def runbook(message: Message) -> str:
    """URL of what to do, if all notices have the same one; ""."""
    found = {notice.runbook for notice in message.notices}
    url = found.pop() if len(found) == 1 and not message.closing else ""
    return url if is_link(url) else ""


def worst(notices: Sequence[Notice]) -> list[Notice]:
    """Errors first, of these the worst kinds of trouble; then what is furthest behind."""
    return sorted(
        notices,
        key=lambda notice: (
            notice.severity != "error",
            -gravity(kinds_of(notice.kinds)),
            -(notice.verdict.get("time_lag_s") or 0),
            -(notice.verdict.get("total_lag") or 0),
            notice.cluster,
            notice.group,
        ),
    )

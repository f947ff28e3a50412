"""Lag curves and causes of listed groups; the topics, clients and teams of every group.

Kept apart from the fleet, whose rows are sent to every reader in every round: this is asked for the
groups on the screen, or when they are arranged by topic, client or team.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Final

import numpy as np
from fastapi import HTTPException
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from lagwatch.core.causes import Cause
from lagwatch.core.forecast import GroupOutlook
from lagwatch.core.model import GroupStatus, PartitionVerdict, Rule
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.core.trail import STEP_MS, Trail
from lagwatch.core.words import counted, duration, spoken
from lagwatch.errors import NotFoundError
from lagwatch.ports.alerts import AlertsView
from lagwatch.ports.queries import Partitions, Queries
from lagwatch_api.answers import json_answer
from lagwatch_api.routing import Answer, Endpoint
from lagwatch_api.v1.fleet import NO_CACHE, TAG, incidents_since, lost, newest
from lagwatch_api.v1.wording import is_unknown, sentence

MOST_GROUPS: Final = 100
"""Of one question: more than a screen shows."""
MOST_PARTITIONS: Final = 500
"""Partitions of groups whose causes one question looks for: about 20 µs for each."""

Trails = Mapping[str, Trail]
"""By cluster."""


class Speed(TypedDict):
    """How fast a group reads, and when it will have caught up; null = unknown."""

    consumed_per_s: float | None
    lag_trend_per_s: float | None
    catch_up_s: float | None
    catch_up_reason: str
    steady: Annotated[bool, Field(description="the lag changes by no more than chance explains")]


class ListedCause(TypedDict):
    """Why a group is WARN or ERR."""

    name: Annotated[str | None, Field(description="null = not known; the sentence says why")]
    words: Annotated[str, Field(description="the name as it is read; empty = not known")]
    certainty: str
    sentence: str


class Quiet(TypedDict):
    """Why a group is OK: a silence is not counted whole, or it no longer reads some topics."""

    words: str
    sentence: str
    left_behind: Annotated[int, Field(description="messages of the lag in topics left behind")]


class Trends(TypedDict):
    """Lags of some groups over the last hour."""

    step_ms: int
    end_ms: Annotated[int, Field(description="the newest point's minute; -1 = none yet")]
    at_ms: Annotated[int, Field(description="the newest point's instant; -1 = none yet")]
    groups: Annotated[
        Mapping[str, Sequence[int | None]],
        Field(description="lag by minute, oldest first; null = unknown; without groups not known"),
    ]
    speeds: Mapping[str, Speed]
    causes: Annotated[
        Mapping[str, ListedCause],
        Field(
            description="of groups that are WARN or ERR, or were by their last fresh data, except "
            "those with too many partitions"
        ),
    ]
    unknown: Annotated[
        Mapping[str, str],
        Field(description="why verdicts or lags of a group's partitions are unknown, in words"),
    ]
    quiet: Annotated[
        Mapping[str, Quiet],
        Field(
            description="of groups that are OK because part of a silence, or the lag of a topic "
            "that they do not read any more, is not counted"
        ),
    ]
    trouble_since: Annotated[
        Mapping[str, int],
        Field(description="ms; when the trouble of groups with an open incident began"),
    ]
    trouble_since_at_least: Annotated[
        Sequence[str], Field(description="of these, those whose trouble may have begun earlier")
    ]
    lost: Annotated[
        Mapping[str, int],
        Field(description="messages that were deleted unread, of groups with a loss"),
    ]
    lost_is: Annotated[
        Mapping[str, str],
        Field(description="exact, upper_bound or lower_bound: what that is, of groups with a loss"),
    ]


class Subscription(TypedDict):
    """What a group reads, with which clients, and which teams are responsible for it."""

    topics: Sequence[str]
    clients: Annotated[Sequence[str], Field(description="client ids of its members")]
    teams: Annotated[Sequence[str], Field(description="`team` of its alert policies")]


class Subscriptions(TypedDict):
    """Of every group of a cluster."""

    groups: Mapping[str, Subscription]


def endpoints(
    queries: Queries, trails: Trails, alerts: AlertsView | None = None
) -> Iterator[Endpoint]:
    """The routes; without `alerts` no group has a team, or an incident."""

    async def trends(request: Request) -> Response:
        cluster = request.path_params["cluster"]
        queries.groups(cluster)  # raises for an unknown cluster
        asked = request.query_params.getlist("group")
        if len(asked) > MOST_GROUPS:
            raise HTTPException(
                400, f"{len(asked)} groups are asked for; ask for {MOST_GROUPS} at a time"
            )
        found = trends_of(trails.get(cluster, Trail()), asked)
        speeds, causes = speeds_and_causes(queries, cluster, asked)
        unknown = unknown_because(queries, cluster, asked)
        snapshot = newest(queries, cluster)
        losses = {group: of for group in asked if (of := lost(snapshot, group))["lost"]}
        since = incidents_since(alerts, cluster, asked)
        answer = {
            **found,
            "speeds": speeds,
            "causes": causes,
            "unknown": unknown,
            "quiet": {
                **with_topics_left_behind(snapshot, asked),
                **quiet_since_an_absence(queries, cluster, asked),
            },
            "trouble_since": {group: of.since_ms for group, of in since.items()},
            "trouble_since_at_least": [group for group, of in since.items() if of.at_least],
            "lost": {group: of["lost"] for group, of in losses.items()},
            "lost_is": {group: of["lost_is"] for group, of in losses.items()},
        }
        return json_answer(answer, headers=NO_CACHE)

    async def subscriptions(request: Request) -> Response:
        cluster = request.path_params["cluster"]
        queries.groups(cluster)
        snapshot = newest(queries, cluster)
        groups = {} if snapshot is None else subscriptions_of(snapshot)
        if alerts is not None:
            add_teams(groups, cluster, alerts)
        return json_answer({"groups": groups}, headers=NO_CACHE)

    yield Endpoint(
        method="GET",
        path="/api/v1/clusters/{cluster}/trends",
        handler=trends,
        summary=f"Lags of up to {MOST_GROUPS} groups over the last hour: `?group=…&group=…`",
        tag=TAG,
        answers={
            200: Answer(description="lags by group", model=Trends),
            400: Answer(description="More groups than are answered at a time"),
        },
        query={"group": f"a group; may be given {MOST_GROUPS} times"},
    )
    yield Endpoint(
        method="GET",
        path="/api/v1/clusters/{cluster}/subscriptions",
        handler=subscriptions,
        summary="The topics, client ids and teams of every group",
        tag=TAG,
        answers={200: Answer(description="by group", model=Subscriptions)},
    )


def speeds_and_causes(
    queries: Queries, cluster: str, groups: Sequence[str], most_partitions: int = MOST_PARTITIONS
) -> tuple[dict[str, Speed], dict[str, ListedCause]]:
    """Rates and forecasts of these groups, and the causes of those in trouble, by group.

    Groups that are not known are left out, and causes as soon as their groups have more than
    `most_partitions` together: other readers wait meanwhile. Small groups come first, so that a
    large one does not take the causes of all others away.
    """
    outlooks = queries.outlooks(cluster, groups)
    causes: dict[str, ListedCause] = {}
    in_trouble = _in_trouble(newest(queries, cluster), list(outlooks))
    for group in smallest(in_trouble, most_partitions):
        with suppress(NotFoundError):
            verdict = queries.verdict(cluster, group, Partitions.COMMITTED)
            if cause := queries.cause(verdict, outlooks[group]):
                causes[group] = _listed(cause)
    return {group: _speed(outlook) for group, outlook in outlooks.items()}, causes


def unknown_because(
    queries: Queries, cluster: str, groups: Sequence[str], most_partitions: int = MOST_PARTITIONS
) -> dict[str, str]:
    """Why partitions of these groups are unknown, by group; of several reasons the commonest.

    Where other partitions are known it says how many are not: `1 of 3 partitions unknown: …`.
    """
    found: dict[str, str] = {}
    for group in smallest(_not_known(newest(queries, cluster), groups), most_partitions):
        with suppress(NotFoundError):
            verdict = queries.verdict(cluster, group, Partitions.COMMITTED)
            partitions = verdict.partitions
            alike: dict[object, list[PartitionVerdict]] = defaultdict(list)
            for each in filter(is_unknown, partitions):
                alike[each.rule, each.unknown_reason].append(each)
            most = max(alike.values(), key=len, default=[])
            number = len(most) or verdict.unknown_partitions
            of = f"{number:,} of {counted(verdict.partition_count, 'partition')} unknown: "
            if most:
                text = sentence(most[0]).text
                found[group] = text if number == len(partitions) else of + text
            elif number:
                found[group] = (
                    f"{of}the group works off the backlog of others, and has not come to these"
                )
    return found


def quiet_since_an_absence(
    queries: Queries, cluster: str, groups: Sequence[str], most_partitions: int = MOST_PARTITIONS
) -> dict[str, Quiet]:
    """Groups that are OK and have read nothing for longer than they may pause, by group.

    Kafka or lagwatch was away meanwhile, so what counts of the silence is shorter. Their readers
    should know that such an OK is not a measurement.
    """
    found: dict[str, Quiet] = {}
    for group in smallest(_paused(newest(queries, cluster), groups), most_partitions):
        with suppress(NotFoundError):
            partitions = queries.verdict(cluster, group, Partitions.COMMITTED).partitions
            quiet = [each for each in partitions if _longer_than_counted(each)]
            if longest := max(quiet, key=_quiet_ms, default=None):
                silent = f"nothing read for {duration(_quiet_ms(longest) / 1000)}"
                of = f" on {len(quiet):,} of {counted(len(partitions), 'partition')}"
                found[group] = {
                    "words": silent if len(quiet) == len(partitions) else silent + of,
                    "sentence": sentence(longest).text,
                    "left_behind": 0,
                }
    return found


def with_topics_left_behind(
    snapshot: ClusterSnapshot | None, groups: Sequence[str]
) -> dict[str, Quiet]:
    """Groups that are OK with a lag in topics that they do not read any more, by group."""
    found: dict[str, Quiet] = {}
    for group in groups:
        number = None if snapshot is None else snapshot.group_index.get(group)
        if snapshot is None or number is None:
            continue
        left = int(snapshot.group.left_behind_lag[number])
        if left > 0 and snapshot.group.status[number] == GroupStatus.OK:
            words = f"{left:,} of the lag in topics left behind"
            found[group] = {"words": words, "sentence": words, "left_behind": left}
    return found


def _longer_than_counted(partition: PartitionVerdict) -> bool:
    limit_ms = partition.evidence.get("limit_ms")
    return (
        partition.rule is Rule.PAUSED
        and isinstance(limit_ms, int)
        and _quiet_ms(partition) > limit_ms
    )


def _quiet_ms(partition: PartitionVerdict) -> int:
    quiet_ms = partition.evidence.get("quiet_ms")
    return quiet_ms if isinstance(quiet_ms, int) else 0


def _paused(snapshot: ClusterSnapshot | None, groups: Sequence[str]) -> dict[str, int]:
    """`_sizes` of groups that are OK, some of their partitions by the rule `paused`."""
    if snapshot is None:
        return {}
    columns, rule = snapshot.group, snapshot.rows.rule
    ok = columns.status == GroupStatus.OK

    def pauses(number: int) -> bool:
        return bool(ok[number] and (rule[columns.rows_of(number)] == Rule.PAUSED).any())

    return _sizes(snapshot, groups, pauses)


def _not_known(snapshot: ClusterSnapshot | None, groups: Sequence[str]) -> dict[str, int]:
    """`_sizes` of those with unknown partitions."""
    if snapshot is None:
        return {}
    columns = snapshot.group
    some = (columns.unknown > 0) | (columns.status == GroupStatus.UNKNOWN)
    return _sizes(snapshot, groups, lambda number: bool(some[number]))


def _sizes(
    snapshot: ClusterSnapshot, groups: Sequence[str], chosen: Callable[[int], bool]
) -> dict[str, int]:
    """How many partitions each of these groups has, of those whose number is chosen."""
    numbers = ((group, snapshot.group_index.get(group)) for group in groups)
    return {
        group: snapshot.group.committed_partitions(number)
        for group, number in numbers
        if number is not None and chosen(number)
    }


def smallest(partitions: Mapping[str, int], most: int) -> Iterator[str]:
    """Groups, the smallest first, as long as they have at most so many partitions together."""
    left = most
    for group, number in sorted(partitions.items(), key=lambda of_group: of_group[1]):
        left -= number
        if left < 0:
            return
        yield group


def _speed(outlook: GroupOutlook) -> Speed:
    whole = outlook.whole
    return {
        "consumed_per_s": whole.consumed_per_s,
        "lag_trend_per_s": whole.lag_trend_per_s,
        "catch_up_s": whole.catch_up_s,
        "catch_up_reason": whole.catch_up_reason.value,
        "steady": whole.steady,
    }


def _in_trouble(snapshot: ClusterSnapshot | None, groups: Sequence[str]) -> dict[str, int]:
    """`_sizes` of groups that are WARN or ERR, or were when their data were fresh."""
    if snapshot is None:
        return {}
    bad = np.isin(snapshot.group.status, (GroupStatus.WARN, GroupStatus.ERR))
    return _sizes(snapshot, groups, lambda number: bool(bad[number]))


def _listed(cause: Cause) -> ListedCause:
    return {
        "name": cause.name,
        "words": spoken(cause.name or ""),
        "certainty": cause.certainty.value,
        "sentence": cause.sentence,
    }


def trends_of(trail: Trail, groups: Sequence[str]) -> dict[str, object]:
    """The trails of these groups; those without one are left out."""
    found = {group: lags for group in groups if (lags := trail.of(group))}
    return {
        "step_ms": STEP_MS,
        "end_ms": trail.end_ms,
        "at_ms": trail.at_ms,
        "groups": found,
    }


def subscriptions_of(snapshot: ClusterSnapshot) -> dict[str, Subscription]:
    """By group. Rows are sorted by group and topic, so each topic of a group is one run of them."""
    first, topic = snapshot.group.first, snapshot.rows.topic
    if not topic.size:
        return {}
    begins = np.ones(topic.size, np.bool_)
    begins[1:] = topic[1:] != topic[:-1]
    begins[first[:-1]] = True
    runs = np.flatnonzero(begins)
    bounds = np.searchsorted(runs, first).tolist()
    names = [snapshot.topic_names[each] for each in topic[runs].tolist()]
    return {
        group: {
            "topics": names[bounds[number] : bounds[number + 1]],
            "clients": _clients(snapshot, group),
            "teams": (),
        }
        for number, group in enumerate(snapshot.groups)
    }


def add_teams(groups: Mapping[str, Subscription], cluster: str, alerts: AlertsView) -> None:
    """Fill in the teams of these groups: of each group those that its policies name."""
    teams = {
        policy.name: str(team)
        for policy in alerts.policies()
        if (team := policy.settings.get("team"))
    }
    if not teams:
        return  # looking up policies costs a regular expression per group
    for group, known in groups.items():
        policies = alerts.policy_of(cluster, group, known["topics"]).values()
        known["teams"] = sorted({teams[policy] for policy in policies if policy in teams})


def _clients(snapshot: ClusterSnapshot, group: str) -> list[str]:
    info = snapshot.info.get(group)
    return [] if info is None else sorted({member.client_id for member in info.members})

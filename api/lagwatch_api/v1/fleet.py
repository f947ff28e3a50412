"""`/api/v1/fleet`: every group in one answer; `/api/v1/clusters/…/groups/…`: one in full."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Annotated, Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from lagwatch.core.causes import Cause
from lagwatch.core.forecast import Outlook
from lagwatch.core.model import (
    GroupInfo,
    GroupStatus,
    GroupVerdict,
    Member,
    PartitionStatus,
    PartitionVerdict,
    Rule,
    SharePartition,
    TimeLagReason,
    WindowEntry,
)
from lagwatch.core.rules import STATUS_BY_RULE, TABLES
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.core.words import each_once
from lagwatch.errors import NotFoundError
from lagwatch.ports.alerts import AlertsView, TroubleSince
from lagwatch.ports.queries import ClusterHealth, Partitions, Queries
from lagwatch_api.answers import json_answer
from lagwatch_api.routing import Answer, Endpoint
from lagwatch_api.v1.wording import sentence

TAG: Final = "Fleet"
NO_CACHE: Final = {"Cache-Control": "no-store"}
COLUMNS: Final = (
    *("group", "status", "worst", "rule", "state", "lag", "time_lag_s"),
    *("partitions", "unknown", "complete", "members", "stale", "time_lag_bound"),
    *("since_ms", "since_at_least", "time_lag_reason", "readable_lag"),
)
"""Of a row. `lag` is null when no partition's lag is known; `worst` is a partition's status.

`readable_lag`: what of the lag can be read; verdicts count that alone.
`since_ms`: when the oldest trouble of its partitions began; null while it has none.
`since_at_least`: it may have begun earlier: a loss is noticed later, and some of Burrow's rules
look no further back than the window.
`stale`: the group's data are too old to be trusted; those of the other groups may be fresh.
"""

_Known = float | None
_Int = int | None
Row = tuple[
    str, str, str, str, str, _Int, _Known, int, int, float, _Int, bool, str, _Int, bool, str, _Int
]
Rows = Mapping[str, Row]
"""By group, in the order of their names."""

_GROUP_STATUS: Final = {int(status): status.name for status in GroupStatus}
_RULES: Final = tuple(rule.word for rule in Rule)
_BOUNDS: Final = tuple(reason.bound.value for reason in TimeLagReason)
_REASONS: Final = tuple(reason.word for reason in TimeLagReason)
_WORST: Final = tuple(STATUS_BY_RULE[rule].name for rule in Rule)


class ClusterState(TypedDict):
    """How fresh a cluster's rows are."""

    cluster: str
    round: Annotated[int | None, Field(description="grows with every judging; null = none yet")]
    at_ms: int | None
    age_s: Annotated[float | None, Field(description="seconds since log ends were last read")]
    time_lag_at_ms: Annotated[int | None, Field(description="ms; time lags are as of then")]
    ready: bool
    stale: Annotated[bool, Field(description="the data are too old to be trusted")]
    data_age_s: Annotated[
        float | None, Field(description="age of log ends or commits, whichever are older")
    ]
    reason: Annotated[str, Field(description="why it is not ready: what is missing or late")]
    unreachable: Annotated[bool, Field(description="not ready because no broker answers")]
    since_ms: Annotated[
        int | None, Field(description="since when there have been no fresh data; null = ready")
    ]
    began_ms: Annotated[
        int | None,
        Field(description="when lagwatch began to look; null = it has read the cluster since"),
    ]
    problems: Sequence[str]


class ClusterFleet(ClusterState):
    """All groups of a cluster."""

    rows: Annotated[Sequence[Row], Field(description="cells in the order of `columns`")]


class Fleet(TypedDict):
    """Every group of every cluster."""

    columns: Sequence[str]
    clusters: Sequence[ClusterFleet]


def endpoints(queries: Queries, alerts: AlertsView | None = None) -> Iterator[Endpoint]:
    """The routes; without `alerts` no group has an incident."""

    async def fleet(_: Request) -> Response:
        return json_answer(whole_fleet(queries), headers=NO_CACHE)

    async def group(request: Request) -> Response:
        names, asked = request.path_params, request.query_params
        partition = asked.get("partition", "")
        place = (asked.get("topic", ""), int(partition)) if _is_number(partition) else None
        cluster, group = names["cluster"], names["group"]
        answer = group_answer(queries, cluster, group, place)
        since = incidents_since(alerts, cluster, (group,)).get(group)
        trouble = {
            "trouble_since_ms": None if since is None else since.since_ms,
            "trouble_since_at_least": since is not None and since.at_least,
        }
        return json_answer({**answer, **trouble}, headers=NO_CACHE)

    yield Endpoint(
        method="GET",
        path="/api/v1/fleet",
        handler=fleet,
        summary="Every group with its status, lag and state",
        tag=TAG,
        answers={200: Answer(description="all groups", model=Fleet)},
    )
    yield Endpoint(
        method="GET",
        path="/api/v1/clusters/{cluster}/groups/{group}",
        handler=group,
        summary="One group in full; `?topic=…&partition=…` adds the window of a partition",
        tag=TAG,
        answers={200: Answer(description="the group", model=dict[str, object])},
        query={"topic": "with `partition`: whose window", "partition": "its number"},
    )


def whole_fleet(queries: Queries) -> Fleet:
    """The newest snapshot of every cluster."""
    states = cluster_states(queries)
    return {
        "columns": COLUMNS,
        "clusters": [
            {**state, "rows": tuple(rows_of(queries, state["cluster"]).values())}
            for state in states
        ],
    }


def cluster_states(queries: Queries) -> list[ClusterState]:
    """One per configured cluster."""
    health = {state.cluster: state for state in queries.health()}
    return [
        _state(cluster, newest(queries, cluster), health.get(cluster))
        for cluster in queries.clusters()
    ]


def newest(queries: Queries, cluster: str) -> ClusterSnapshot | None:
    """The newest snapshot; None before the first round."""
    try:
        return queries.snapshot(cluster)
    except NotFoundError:
        return None


def rows_of(queries: Queries, cluster: str) -> Rows:
    """All groups of a cluster; none before the first round."""
    snapshot = newest(queries, cluster)
    return {} if snapshot is None else fleet_rows(snapshot)


def fleet_rows(snapshot: ClusterSnapshot) -> Rows:
    """All groups of a snapshot, read as columns: there may be tens of thousands."""
    columns = snapshot.group
    decided = snapshot.rows.rule
    rules = decided[columns.worst_row] if len(decided) else columns.worst_row
    may_be_older = {row.rule for row in TABLES[snapshot.rules] if row.since_at_least}
    known = snapshot.info
    rows = zip(
        snapshot.groups,
        columns.status.tolist(),
        rules.tolist(),
        columns.worst_row.tolist(),
        columns.max_lag_row.tolist(),
        columns.total_lag.tolist(),
        columns.readable_lag.tolist(),
        columns.time_lag_ms.tolist(),
        columns.time_lag_reason.tolist(),
        columns.since_ms.tolist(),
        columns.partition_count.tolist(),
        columns.unknown.tolist(),
        columns.complete.round(3).tolist(),
        snapshot.stale_groups().tolist(),
        strict=True,
    )
    found: dict[str, Row] = {}
    for group, status, rule, worst, *numbers in rows:
        max_lag, lag, part, time_ms, why, since_ms, partitions, unknown, share, old = numbers
        info = known.get(group)
        found[group] = (
            group,
            _GROUP_STATUS[status],
            _WORST[rule] if worst >= 0 else "UNKNOWN",
            _RULES[rule] if worst >= 0 else "",
            info.state if info is not None else "Unknown",
            None if max_lag < 0 else lag,
            None if time_ms < 0 else time_ms / 1000,
            partitions,
            unknown,
            share,
            info.member_count if info is not None else None,
            old,
            _BOUNDS[why] if time_ms >= 0 else "unknown",
            None if since_ms < 0 else since_ms,
            since_ms >= 0 and rule in may_be_older,
            _REASONS[why],
            None if max_lag < 0 else part,
        )
    return found


def group_answer(
    queries: Queries, cluster: str, group: str, place: tuple[str, int] | None
) -> Mapping[str, object]:
    """All that is known now about one group, with the window of one of its partitions.

    Without a place, or with one it does not have, it is the partition that is worst.

    Raises:
        NotFoundError: there is no such cluster or group.
    """
    verdict = queries.verdict(cluster, group, Partitions.ALL)
    outlook = queries.outlook(cluster, group)
    cause = queries.cause(verdict, outlook)
    worst = _worst(verdict)
    places = {(partition.topic, partition.partition): partition for partition in verdict.partitions}
    chosen = places.get(place, worst) if place is not None else worst
    info = queries.info(cluster, group)
    return {
        "cluster": cluster,
        "group": group,
        "at_ms": verdict.at_ms,
        "stale": verdict.stale,
        "data_age_s": verdict.data_age_s,
        "status": verdict.status.name,
        "rule": verdict.rule.word if verdict.rule is not None else None,
        "worst": None if worst is None else _partition(worst),
        "cause": _cause(cause),
        "lag": verdict.known_lag,
        "readable_lag": None if verdict.known_lag is None else verdict.readable_lag,
        "left_behind_lag": None if verdict.known_lag is None else verdict.left_behind_lag,
        **lost(newest(queries, cluster), group),
        "time_lag_s": verdict.time_lag_s,
        **_time_lag(verdict),
        "time_lag_partition": _place(verdict.time_lag_partition),
        "time_lag_at_ms": verdict.time_lag_at_ms,
        **asdict(outlook.whole),
        "lag_skew": outlook.lag_skew,
        "slowest_partition": _place(outlook.slowest),
        "unknown_partitions": verdict.unknown_partitions,
        "complete": verdict.complete,
        "since_ms": verdict.since_ms,
        "to_do": () if cause is None else cause.to_do,
        "info": None if info is None else _info(info),
        "members": None if info is None else [_member(member) for member in info.members],
        "partitions": [
            _partition(partition)
            | _outlook(outlook.partitions.get((partition.topic, partition.partition)))
            for partition in verdict.partitions
        ],
        "window": None if chosen is None else _window(queries, cluster, group, chosen),
    }


def incidents_since(
    alerts: AlertsView | None, cluster: str, groups: Sequence[str]
) -> dict[str, TroubleSince]:
    """When the trouble of those of the groups that have an open incident began.

    Trouble that becomes worse goes on: that is before the verdict of now began to hold.
    """
    known = {} if alerts is None else alerts.in_trouble_since(cluster)
    return {group: known[group] for group in groups if group in known}


def lost(snapshot: ClusterSnapshot | None, group: str) -> dict[str, object]:
    """What the group lost and is still shown, whatever decides its verdict."""
    number = None if snapshot is None else snapshot.group_index.get(group)
    if snapshot is None or number is None:
        return {"lost": 0, "lost_is": "exact"}
    messages, at_most = snapshot.lost_messages(number)
    more = "lower_bound" if snapshot.more_is_lost(number) else "exact"
    return {"lost": messages, "lost_is": "upper_bound" if at_most else more}


def _state(
    cluster: str, snapshot: ClusterSnapshot | None, health: ClusterHealth | None
) -> ClusterState:
    return {
        "cluster": cluster,
        "round": None if snapshot is None else snapshot.round,
        "at_ms": None if snapshot is None else snapshot.at_ms,
        "age_s": None if health is None else health.age_s,
        "time_lag_at_ms": _as_of(snapshot),
        "ready": health is not None and health.ready,
        "stale": health is not None and health.stale,
        "data_age_s": None if health is None else health.data_age_s,
        "reason": "" if health is None else health.reason,
        "unreachable": health is not None and health.unreachable,
        "since_ms": None if health is None else health.since_ms,
        "began_ms": None if health is None else health.began_ms,
        "problems": () if health is None else _problems(health),
    }


def _problems(health: ClusterHealth) -> list[str]:
    reason = "" if health.ready and not health.stale else health.reason
    return each_once((*health.problems, *health.unseen), reason)


def _as_of(snapshot: ClusterSnapshot | None) -> int | None:
    return None if snapshot is None or snapshot.time_lags_ms < 0 else snapshot.time_lags_ms


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10  # noqa: PLR2004 int32


def _worst(verdict: GroupVerdict) -> PartitionVerdict | None:
    """The partition that decides: unknown ones only when nothing else is there."""

    def badness(partition: PartitionVerdict) -> tuple[bool, int, int]:
        unknown = partition.status is PartitionStatus.UNKNOWN
        known = not unknown and partition.rule is not Rule.NEVER_COMMITTED
        return known, int(partition.status), partition.current_lag or 0

    return max(verdict.partitions, key=badness, default=None)


def _time_lag(seen: GroupVerdict | PartitionVerdict) -> dict[str, object]:
    """How the time lag is known, and how well."""
    return {
        "time_lag_reason": seen.time_lag_reason.word,
        "time_lag_method": seen.time_lag_method.value,
        "time_lag_bound": seen.time_lag_bound.value,
        "time_lag_error_s": seen.time_lag_error_s,
    }


def _cause(cause: Cause | None) -> dict[str, object] | None:
    """Why the group has its verdict; null where nothing is wrong."""
    return None if cause is None else {**asdict(cause), "sentence": cause.sentence}


def _outlook(outlook: Outlook | None) -> dict[str, object]:
    return dict.fromkeys(_OUTLOOK) if outlook is None else asdict(outlook)


_OUTLOOK: Final = tuple(each.name for each in fields(Outlook))


def _place(place: tuple[str, int] | None) -> dict[str, object] | None:
    return None if place is None else {"topic": place[0], "partition": place[1]}


def _partition(partition: PartitionVerdict) -> dict[str, object]:
    said = sentence(partition)
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "status": partition.status.name,
        "rule": partition.rule.word,
        "headline": said.headline,
        "since_ms": said.since_ms,
        "at_least": said.at_least,
        "text": said.text,
        "lag": partition.current_lag,
        "readable_lag": partition.readable_lag,
        "time_lag_s": partition.time_lag_s,
        **_time_lag(partition),
        "committed": None if partition.end is None else partition.end.offset,
        "commit_ms": None if partition.end is None else partition.end.commit_ms,
        "owner": partition.owner,
        "client_id": partition.client_id,
        "instance_id": partition.instance_id,
        "complete": partition.complete,
        "lost": partition.lost,
        "share": None if partition.share is None else _share(partition.share),
    }


def _share(share: SharePartition) -> dict[str, int | None]:
    """Of a share group: `committed` is `start_offset` + `completed`."""
    return {
        "start_offset": None if share.start_offset < 0 else share.start_offset,
        "completed": share.completed,
        "delivered_again": share.delivered_again,
        "most_deliveries": share.most_deliveries,
    }


def _info(info: GroupInfo) -> dict[str, object]:
    return {
        "state": info.state,
        "type": info.type,
        "assignor": info.assignor,
        "coordinator": None if info.coordinator < 0 else info.coordinator,
        "members": info.member_count,
    }


def _member(member: Member) -> dict[str, object]:
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "host": member.host,
        "instance_id": member.instance_id,
        "assignment": [
            {"topic": topic, "partitions": partitions} for topic, partitions in member.assignment
        ],
    }


def _window(
    queries: Queries, cluster: str, group: str, place: PartitionVerdict
) -> dict[str, object]:
    """The commits in a partition's window, oldest first; the lag is that at the commit."""
    partitions = queries.detail(cluster, group).topics.get(place.topic, ())
    slots: Sequence[WindowEntry | None] = ()
    if place.partition < len(partitions):
        slots = partitions[place.partition].window
    return {
        "topic": place.topic,
        "partition": place.partition,
        "slots": len(slots),
        "commits": [
            {"offset": entry.offset, "commit_ms": entry.commit_ms, "lag": entry.lag}
            for entry in slots
            if entry is not None
        ],
    }

"""Burrow's JSON, key by key; its spellings live in this module alone.

The types describe the documents, to the type checker and to the OpenAPI documentation; the
functions build them as plain dictionaries, keys in Burrow's order. What Burrow does not have
is at the end of a document. `null` is unknown.

Source: Burrow, core/internal/httpserver/structs.go; core/protocol/evaluator.go and storage.go.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Final, NotRequired

import numpy as np
from pydantic import Field
from typing_extensions import TypedDict

from lagwatch.core.model import (
    GroupStatus,
    GroupVerdict,
    PartitionStatus,
    PartitionVerdict,
    Rule,
    TimeLagReason,
    UnknownReason,
    WindowEntry,
)
from lagwatch.ports.queries import GroupDetail, PartitionDetail

Module = Mapping[str, object]


class RequestInfo(TypedDict):
    """What was asked, and who answered."""

    url: Annotated[str, Field(description="the path, decoded, without the query")]
    host: Annotated[str, Field(description="name of the machine that answered")]


class Envelope(TypedDict):
    """What every answer holds."""

    error: bool
    message: str
    request: RequestInfo


class ClusterList(Envelope):
    """The configured clusters, sorted."""

    clusters: list[str]


class TopicList(Envelope):
    """The visible topics of a cluster, sorted."""

    topics: list[str]


class TopicDetail(Envelope):
    """The log end offsets of a topic."""

    offsets: Annotated[list[int], Field(description="index = partition; -1 = not known")]


class GroupList(Envelope):
    """Consumer groups, sorted."""

    consumers: list[str]


class WindowOffset(TypedDict):
    """One commit."""

    offset: int
    timestamp: Annotated[int, Field(description="ms; when the group committed")]
    observedAt: Annotated[int, Field(description="ms, whole seconds; when it was read")]
    lag: Annotated[
        int | None,
        Field(description="messages at the commit; null = out of order, or beyond the log end"),
    ]


PartitionWindow = TypedDict(
    "PartitionWindow",
    {
        "offsets": Annotated[
            Sequence[WindowOffset | None],
            Field(description="oldest first, nulls in front; [] = never committed"),
        ],
        "owner": str,
        "client_id": str,
        "current-lag": Annotated[int | None, Field(description="messages; null = not known")],
    },
)


class WindowsByTopic(Envelope):
    """The windows of a group."""

    topics: Annotated[
        Mapping[str, list[PartitionWindow]], Field(description="per topic; index = partition")
    ]


class Partition(TypedDict):
    """The verdict on one partition of a group."""

    topic: str
    partition: int
    owner: Annotated[str, Field(description='host of the member that holds it; "" = none')]
    client_id: str
    status: Annotated[str, Field(description="OK | WARN | ERR | STOP | STALL | REWIND | UNKNOWN")]
    start: Annotated[WindowOffset | None, Field(description="oldest commit of the window")]
    end: Annotated[WindowOffset | None, Field(description="newest commit of the window")]
    current_lag: Annotated[int | None, Field(description="messages; null = not known")]
    complete: Annotated[float, Field(description="share of the window that is filled, 0..1")]
    rule: Annotated[str, Field(description="the rule that decided")]
    evidence: Annotated[
        Mapping[str, int | float | str | None], Field(description="what the rule saw")
    ]
    unknown_reason: Annotated[
        UnknownReason | None, Field(description="why the lag is not known; null = it is known")
    ]
    time_lag_s: Annotated[float | None, Field(description="seconds; null = not known")]
    time_lag_reason: Annotated[str, Field(description="how it is known, or why not")]
    time_lag_method: Annotated[
        str,
        Field(
            description="caught_up | log_end_history | stored_history | offset_time | record_time "
            "| none"
        ),
    ]
    time_lag_bound: Annotated[
        str,
        Field(
            description="exact | at_least | at_most | estimate | unknown: how it relates to the "
            "truth"
        ),
    ]
    time_lag_error_s: Annotated[
        float | None, Field(description="seconds by which the truth may differ; null = not known")
    ]
    lost: Annotated[int, Field(description="messages deleted before the group read them, so far")]
    readable_lag: Annotated[
        int | None, Field(description="messages the group can still read; null = not known")
    ]
    since_ms: Annotated[int | None, Field(description="when the trouble began; null = none")]
    instance_id: Annotated[str, Field(description='group.instance.id; "" = not static')]


class Group(TypedDict):
    """The verdict on a group. One that is not known has Burrow's eight keys only."""

    cluster: str
    group: str
    status: Annotated[str, Field(description="NOTFOUND | OK | WARN | ERR | UNKNOWN")]
    complete: Annotated[float, Field(description="share of partitions with a full window, 0..1")]
    partitions: Annotated[
        list[Partition], Field(description="all (/lag), or those worse than OK (/status)")
    ]
    partition_count: Annotated[int, Field(description="all partitions of the group's topics")]
    maxlag: Annotated[Partition | None, Field(description="the partition with the greatest lag")]
    totallag: Annotated[
        int | None,
        Field(description="messages; sum of the lags that are known; null = none of them is"),
    ]
    rule: NotRequired[
        Annotated[str | None, Field(description="the rule that decided for the worst partition")]
    ]
    time_lag_s: NotRequired[
        Annotated[float | None, Field(description="seconds; the worst partition; null = unknown")]
    ]
    time_lag_reason: NotRequired[Annotated[str, Field(description="how known, or why not")]]
    time_lag_method: NotRequired[Annotated[str, Field(description="as of a partition")]]
    time_lag_bound: NotRequired[
        Annotated[str, Field(description="at_least: another partition may be older")]
    ]
    time_lag_error_s: NotRequired[
        Annotated[float | None, Field(description="seconds; null = not known")]
    ]
    time_lag_at_ms: NotRequired[
        Annotated[int | None, Field(description="ms; all time lags are as of then")]
    ]
    unknown_partitions: NotRequired[
        Annotated[int, Field(description="partitions whose lag is not known")]
    ]
    readable_lag: NotRequired[
        Annotated[
            int | None,
            Field(description="messages the group can still read; sum of the known; null = none"),
        ]
    ]
    left_behind_lag: NotRequired[
        Annotated[
            int | None,
            Field(description="messages of totallag in topics that it reads no more; null as it"),
        ]
    ]
    since_ms: NotRequired[
        Annotated[int | None, Field(description="when its oldest trouble began; null = none")]
    ]
    at_ms: NotRequired[Annotated[int, Field(description="ms; when this was judged")]]
    stale: NotRequired[
        Annotated[bool, Field(description="log ends or commits were too old to be trusted then")]
    ]
    data_age_s: NotRequired[Annotated[float, Field(description="how old the oldest were then")]]


class GroupAnswer(Envelope):
    """The verdict on a group."""

    status: Group


class LogLevel(Envelope):
    """The log level in force."""

    level: Annotated[str, Field(description="debug | info | warn | error | fatal")]


class LogLevelOrder(TypedDict):
    """The log level wanted."""

    level: Annotated[
        str, Field(description="debug | trace | info | warning | warn | error | fatal, any case")
    ]


class MainConfig(Envelope):
    """The configuration of the process, in Burrow's words."""

    general: object
    logging: object
    zookeeper: object
    httpserver: object


class ModuleList(Envelope):
    """The modules of one kind."""

    coordinator: str
    modules: list[str]


class ModuleDetail(Envelope):
    """The configuration of one module."""

    module: Annotated[Module, Field(description="its keys depend on its `class-name`")]


def done(message: str, request: RequestInfo) -> Envelope:
    """An answer that says no more than that it worked."""
    return {"error": False, "message": message, "request": request}


def failed(message: str, request: RequestInfo) -> Envelope:
    """An error."""
    return {"error": True, "message": message, "request": request}


def cluster_list(names: Iterable[str], request: RequestInfo) -> ClusterList:
    """The clusters, sorted."""
    return {
        "error": False,
        "message": "cluster list returned",
        "clusters": sorted(names),
        "request": request,
    }


def topic_list(names: Iterable[str], request: RequestInfo) -> TopicList:
    """The topics, sorted."""
    return {
        "error": False,
        "message": "topic list returned",
        "topics": sorted(names),
        "request": request,
    }


def topic_detail(log_ends: Iterable[int | None], request: RequestInfo) -> TopicDetail:
    """The log end offsets, by partition; Burrow leaves unknown ones out and shifts the rest."""
    return {
        "error": False,
        "message": "topic offsets returned",
        "offsets": [-1 if offset is None else offset for offset in log_ends],
        "request": request,
    }


def group_list(
    names: Iterable[str], request: RequestInfo, message: str = "consumer list returned"
) -> GroupList:
    """The groups, sorted."""
    return {"error": False, "message": message, "consumers": sorted(names), "request": request}


def windows_by_topic(detail: GroupDetail, request: RequestInfo) -> WindowsByTopic:
    """The windows of a group."""
    return {
        "error": False,
        "message": "consumer detail returned",
        "topics": {
            topic: [_partition_window(partition) for partition in partitions]
            for topic, partitions in detail.topics.items()
        },
        "request": request,
    }


def group_answer(verdict: GroupVerdict, request: RequestInfo) -> GroupAnswer:
    """The verdict on a group, with the partitions it holds."""
    return {
        "error": False,
        "message": "consumer status returned",
        "status": _group(verdict),
        "request": request,
    }


def unknown_group_answer(cluster: str, group: str, request: RequestInfo) -> GroupAnswer:
    """The verdict on a group that is not known. Its status is 404, but its `error` is false."""
    return {
        "error": False,
        "message": "consumer status returned",
        "status": {
            "cluster": cluster,
            "group": group,
            "status": GroupStatus.NOTFOUND.name,
            "complete": 1,
            "partitions": [],
            "partition_count": 0,
            "maxlag": None,
            "totallag": 0,
        },
        "request": request,
    }


def log_level(level: str, request: RequestInfo) -> LogLevel:
    """The log level in force."""
    return {
        "error": False,
        "message": "log level returned",
        "level": level,
        "request": request,
    }


def main_config(main: Mapping[str, object], request: RequestInfo) -> MainConfig:
    """The configuration of the process."""
    return {
        "error": False,
        "message": "main config returned",
        "request": request,
        "general": main["general"],
        "logging": main["logging"],
        "zookeeper": main["zookeeper"],
        "httpserver": main["httpserver"],
    }


def module_list(coordinator: str, names: Iterable[str], request: RequestInfo) -> ModuleList:
    """The modules of one kind, sorted."""
    return {
        "error": False,
        "message": "module list returned",
        "request": request,
        "coordinator": coordinator,
        "modules": sorted(names),
    }


def module_detail(coordinator: str, module: Module, request: RequestInfo) -> ModuleDetail:
    """The configuration of one module."""
    return {
        "error": False,
        "message": f"{coordinator} module detail returned",
        "module": module,
        "request": request,
    }


def allowed_origin(main: Mapping[str, object]) -> str:
    """The origin whose pages may read the answers; "" = none but ours."""
    general = main["general"]
    origin = general.get("access-control-allow-origin") if isinstance(general, Mapping) else None
    return origin if isinstance(origin, str) else ""


# Looking a name up in a dictionary is several times faster than asking an enum member for it.
_GROUP_STATUS: Final = {status: status.name for status in GroupStatus}
_PARTITION_STATUS: Final = {status: status.name for status in PartitionStatus}
_RULE: Final = {rule: rule.word for rule in Rule}
_TIME_LAG_REASON: Final = {reason: reason.word for reason in TimeLagReason}


def _group(verdict: GroupVerdict) -> Group:
    return {
        "cluster": verdict.cluster,
        "group": verdict.group,
        "status": _GROUP_STATUS[verdict.status],
        "complete": shortest(verdict.complete),
        "partitions": [_partition(partition) for partition in verdict.partitions],
        "partition_count": verdict.partition_count,
        "maxlag": None if verdict.max_lag is None else _partition(verdict.max_lag),
        "totallag": verdict.known_lag,
        "rule": None if verdict.rule is None else _RULE[verdict.rule],
        "time_lag_s": verdict.time_lag_s,
        "time_lag_reason": _TIME_LAG_REASON[verdict.time_lag_reason],
        "time_lag_method": verdict.time_lag_method.value,
        "time_lag_bound": verdict.time_lag_bound.value,
        "time_lag_error_s": verdict.time_lag_error_s,
        "time_lag_at_ms": verdict.time_lag_at_ms,
        "unknown_partitions": verdict.unknown_partitions,
        "readable_lag": verdict.readable_lag if verdict.max_lag is not None else None,
        "left_behind_lag": verdict.left_behind_lag if verdict.max_lag is not None else None,
        "since_ms": verdict.since_ms,
        "at_ms": verdict.at_ms,
        "stale": verdict.stale,
        "data_age_s": verdict.data_age_s,
    }


def _partition(verdict: PartitionVerdict) -> Partition:
    return {
        "topic": verdict.topic,
        "partition": verdict.partition,
        "owner": verdict.owner,
        "client_id": verdict.client_id,
        "status": _PARTITION_STATUS[verdict.status],
        "start": _offset(verdict.start),
        "end": _offset(verdict.end),
        "current_lag": verdict.current_lag,
        "complete": shortest(verdict.complete),
        "rule": _RULE[verdict.rule],
        "evidence": verdict.evidence,
        "unknown_reason": verdict.unknown_reason,
        "time_lag_s": verdict.time_lag_s,
        "time_lag_reason": _TIME_LAG_REASON[verdict.time_lag_reason],
        "time_lag_method": verdict.time_lag_method.value,
        "time_lag_bound": verdict.time_lag_bound.value,
        "time_lag_error_s": verdict.time_lag_error_s,
        "lost": verdict.lost,
        "readable_lag": verdict.readable_lag,
        "since_ms": verdict.since_ms,
        "instance_id": verdict.instance_id,
    }


def _partition_window(partition: PartitionDetail) -> PartitionWindow:
    return {
        "offsets": [_offset(entry) for entry in partition.window],
        "owner": partition.owner,
        "client_id": partition.client_id,
        "current-lag": partition.current_lag,
    }


def _offset(entry: WindowEntry | None) -> WindowOffset | None:
    if entry is None:
        return None
    return {
        "offset": entry.offset,
        "timestamp": entry.commit_ms,
        "observedAt": entry.observed_ms,
        "lag": entry.lag,
    }


@lru_cache(maxsize=4096)
def shortest(share: float) -> float:
    """The number whose JSON is the shortest that names the same float32, as Go prints it.

    1 instead of 1.0, and 0.33333334 instead of 0.3333333432674408.
    """
    single = np.float32(share)
    return int(single) if single.is_integer() else float(str(single))

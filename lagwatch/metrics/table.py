"""Every metric of our own: name, unit, labels, meaning. Nothing else is written under `lagwatch_`.

Labels of data are cluster, group, topic and partition only. Unknown is absent, never 0 or -1.
"""

from typing import Final

from lagwatch.metrics.metric import Metric, MetricKind

_CLUSTER: Final = ("cluster",)
_GROUP: Final = ("cluster", "group")
_GROUP_TOPIC: Final = ("cluster", "group", "topic")
_PARTITION: Final = ("cluster", "group", "topic", "partition")
_TOPIC: Final = ("cluster", "topic")
_TOPIC_PARTITION: Final = ("cluster", "topic", "partition")

# partitions of groups

LAG = Metric(
    name="lagwatch_lag_messages",
    labels=_PARTITION,
    unit="messages",
    help="Log end offset minus committed offset.",
)
READABLE_LAG = Metric(
    name="lagwatch_readable_lag_messages",
    labels=_PARTITION,
    unit="messages",
    help="What of the lag the group can still read: without deleted records, control records and "
    "what is behind an open transaction.",
)
TIME_LAG = Metric(
    name="lagwatch_lag_seconds",
    labels=_PARTITION,
    unit="seconds",
    help="Age of the oldest message not read: since when the log end is past the committed offset.",
)
TIME_LAG_BOUND = Metric(
    name="lagwatch_lag_seconds_bound",
    labels=(*_PARTITION, "bound"),
    help="1 where the time lag is a bound of the true one (at_least or at_most) or an estimate; "
    "other partitions have no series.",
)
COMMITTED = Metric(
    name="lagwatch_committed_offset",
    labels=_PARTITION,
    help="Committed offset: the next one the group will read.",
)
COMMIT_AGE = Metric(
    name="lagwatch_commit_age_seconds",
    labels=_PARTITION,
    unit="seconds",
    help="Time since the last commit.",
)
PARTITION_STATUS = Metric(
    name="lagwatch_partition_status",
    labels=(*_PARTITION, "status"),
    help="1 for the verdict on a partition that is not OK; partitions that are OK have none.",
)
OWNER = Metric(
    name="lagwatch_partition_owner_info",
    labels=(*_PARTITION, "member_host", "client_id", "instance_id"),
    kind=MetricKind.INFO,
    help="Which member of the group holds the partition.",
)

# groups

GROUP_LAG = Metric(
    name="lagwatch_group_lag_messages",
    labels=_GROUP,
    unit="messages",
    help="Sum of the known lags of all partitions.",
)
GROUP_READABLE_LAG = Metric(
    name="lagwatch_group_readable_lag_messages",
    labels=_GROUP,
    unit="messages",
    help="Sum of the known readable lags of all partitions.",
)
GROUP_MAX_LAG = Metric(
    name="lagwatch_group_max_lag_messages",
    labels=_GROUP,
    unit="messages",
    help="Greatest known lag of a partition.",
)
GROUP_MAX_TIME_LAG = Metric(
    name="lagwatch_group_max_lag_seconds",
    labels=_GROUP,
    unit="seconds",
    help="Time lag of its oldest partition; its bound says whether another may be older.",
)
GROUP_TIME_LAG_BOUND = Metric(
    name="lagwatch_group_max_lag_seconds_bound",
    labels=(*_GROUP, "bound"),
    help="1 where the time lag is a bound of the true one (at_least or at_most) or an estimate; "
    "other groups have no series.",
)
GROUP_STATUS = Metric(
    name="lagwatch_group_status",
    labels=(*_GROUP, "status"),
    help="1 for the verdict on the group, 0 for the others; UNKNOWN while its data are stale.",
)
GROUP_PARTITIONS = Metric(
    name="lagwatch_group_partitions",
    labels=(*_GROUP, "status"),
    help="Partitions of the group that are not OK, by verdict; without series where there is none.",
)
GROUP_RULE = Metric(
    name="lagwatch_group_rule_info",
    labels=(*_GROUP, "rule"),
    kind=MetricKind.INFO,
    help="The rule that decided the verdict on a group that is not OK.",
)
GROUP_SINCE = Metric(
    name="lagwatch_group_trouble_start_timestamp_seconds",
    labels=_GROUP,
    unit="seconds",
    help="When the oldest trouble of the group began; absent without trouble.",
)
GROUP_CAUSE = Metric(
    name="lagwatch_group_cause_info",
    labels=(*_GROUP, "cause", "certainty"),
    kind=MetricKind.INFO,
    help="The likeliest cause of the verdict on a group that is not OK. This and the next four "
    "metrics are of the groups with the greatest lag that have 5,000 partitions together.",
)
GROUP_PRODUCED = Metric(
    name="lagwatch_group_produced_messages_per_second",
    labels=_GROUP,
    help="Messages written per second to the partitions of a group that is not OK.",
)
GROUP_CONSUMED = Metric(
    name="lagwatch_group_consumed_messages_per_second",
    labels=_GROUP,
    help="Messages that a group that is not OK reads per second.",
)
GROUP_CATCH_UP = Metric(
    name="lagwatch_group_catch_up_seconds",
    labels=_GROUP,
    unit="seconds",
    help="Time until a group that is not OK has caught up at its present speed; absent where it "
    "never will, or that is not known.",
)
GROUP_LOSS_IN = Metric(
    name="lagwatch_group_loss_in_seconds",
    labels=_GROUP,
    unit="seconds",
    help="Time until retention deletes messages that a group that is not OK has not read; absent "
    "where it does not come closer, or that is not known.",
)
GROUP_KIND = Metric(
    name="lagwatch_group_info",
    labels=(*_GROUP, "kind"),
    kind=MetricKind.INFO,
    help="Kind of the group: classic, consumer, streams, share, or what keeps its progress.",
)
GROUP_STATE = Metric(
    name="lagwatch_group_state",
    labels=(*_GROUP, "state"),
    help="1 for the state of the group in Kafka; other states have no series.",
)
GROUP_MEMBERS = Metric(
    name="lagwatch_group_members",
    labels=_GROUP,
    help="Members of the group.",
)
GROUP_COMPLETE = Metric(
    name="lagwatch_group_complete_ratio",
    labels=_GROUP,
    unit="ratio",
    help="Share of the partitions whose window of commits is full.",
)
REBALANCES = Metric(
    name="lagwatch_rebalances_total",
    labels=_GROUP,
    kind=MetricKind.COUNTER,
    help="Rebalances seen. No series where offsets are polled, which does not show them.",
)
GROUP_LOST = Metric(
    name="lagwatch_group_lost_messages",
    labels=_GROUP,
    unit="messages",
    help="Messages between the committed offset and the log start of partitions with a counted "
    "loss: gone before the group read them, and not skipped yet.",
)
GROUP_RETENTION_USED = Metric(
    name="lagwatch_group_retention_used_ratio",
    labels=_GROUP,
    unit="ratio",
    help="Greatest lag relative to what retention has left of the log; at 1 messages are lost.",
)
GROUP_REST_LAG = Metric(
    name="lagwatch_group_rest_lag_messages",
    labels=_GROUP,
    unit="messages",
    help="Sum of the known lags of the partitions without series of their own (series budget).",
)
GROUP_REST = Metric(
    name="lagwatch_group_rest_partitions",
    labels=_GROUP,
    help="Partitions of the group without series of their own (series budget).",
)
GROUP_TOPIC_LAG = Metric(
    name="lagwatch_group_topic_lag_messages",
    labels=_GROUP_TOPIC,
    unit="messages",
    help="Sum of the known lags of the topic's partitions.",
)
GROUP_TOPIC_COMMITTED = Metric(
    name="lagwatch_group_topic_committed_offset",
    labels=_GROUP_TOPIC,
    help="Sum of the committed offsets of the topic's partitions; it grows as the group reads.",
)

LOST = Metric(
    name="lagwatch_lost_messages_total",
    labels=_GROUP_TOPIC,
    kind=MetricKind.COUNTER,
    unit="messages",
    help="Messages deleted before the group read them, since lagwatch has watched it.",
)

# topics

LOG_END = Metric(
    name="lagwatch_log_end_offset",
    labels=_TOPIC_PARTITION,
    help="Log end offset: the one the next message will get.",
)
LOG_START = Metric(
    name="lagwatch_log_start_offset",
    labels=_TOPIC_PARTITION,
    help="Log start offset: that of the oldest message there is.",
)
TOPIC_LOG_END = Metric(
    name="lagwatch_topic_log_end_offset",
    labels=_TOPIC,
    help="Sum of the log end offsets of all partitions; it grows as messages are written.",
)
TOPIC_PARTITIONS = Metric(
    name="lagwatch_topic_partitions",
    labels=_TOPIC,
    help="Partitions of the topic.",
)

# clusters

UNKNOWN_PARTITIONS = Metric(
    name="lagwatch_unknown_partitions",
    labels=("cluster", "reason"),
    help="Committed partitions of groups whose lag is not known; stale: too long since it was.",
)
LEFT_OUT = Metric(
    name="lagwatch_partitions_left_out",
    labels=_CLUSTER,
    help="Partitions of groups without series of their own: the series budget is spent.",
)
GROUPS_LEFT_OUT = Metric(
    name="lagwatch_groups_left_out",
    labels=_CLUSTER,
    help="Groups that have only the series that alerts need: the budget of groups is spent.",
)
LAST_SUCCESS = Metric(
    name="lagwatch_last_success_timestamp_seconds",
    labels=_CLUSTER,
    unit="seconds",
    help="When log end offsets were last read.",
)
TIME_LAGS_AT = Metric(
    name="lagwatch_time_lag_timestamp_seconds",
    labels=_CLUSTER,
    unit="seconds",
    help="The instant that all time lags of the cluster are as of.",
)
READY = Metric(
    name="lagwatch_cluster_ready",
    labels=_CLUSTER,
    help="1 when all commits and log ends have been read once and are fresh, else 0.",
)
DATA_AGE = Metric(
    name="lagwatch_data_age_seconds",
    labels=_CLUSTER,
    unit="seconds",
    help="Age of the log ends or commits, whichever are older; since the start while there are "
    "none.",
)
CLOCK_SKEW = Metric(
    name="lagwatch_clock_skew_seconds",
    labels=_CLUSTER,
    unit="seconds",
    help="How far lagwatch's clock is ahead of Kafka's; negative when it is behind.",
)
ROUNDS = Metric(
    name="lagwatch_rounds_total",
    labels=_CLUSTER,
    kind=MetricKind.COUNTER,
    help="Rounds of judgement.",
)
ROUND_TIME = Metric(
    name="lagwatch_round_duration_seconds",
    labels=_CLUSTER,
    kind=MetricKind.HISTOGRAM,
    unit="seconds",
    help="How long rounds of judgement took.",
    buckets=(0.01, 0.05, 0.25, 1.0, 5.0),
)
COMMITS = Metric(
    name="lagwatch_commits_total",
    labels=_CLUSTER,
    kind=MetricKind.COUNTER,
    help="Commits taken in.",
)
COMMITS_WAITING = Metric(
    name="lagwatch_waiting_commits",
    labels=_CLUSTER,
    help="Commits that wait for the next round of log end offsets.",
)
BACKLOG = Metric(
    name="lagwatch_backlog_records",
    labels=_CLUSTER,
    help="Records that were in the offsets topic at the start and are still to be read.",
)
ERRORS = Metric(
    name="lagwatch_errors_total",
    labels=("cluster", "kind"),
    kind=MetricKind.COUNTER,
    help="Failures to read Kafka.",
)
MALFORMED = Metric(
    name="lagwatch_malformed_records_total",
    labels=("cluster", "reason"),
    kind=MetricKind.COUNTER,
    help="Records of the offsets topic that could not be decoded.",
)
COLLECTOR_RESTARTS = Metric(
    name="lagwatch_collector_restarts_total",
    labels=_CLUSTER,
    kind=MetricKind.COUNTER,
    help="Restarts of the process that reads the cluster.",
)
COLLECTOR_CPU = Metric(
    name="lagwatch_collector_cpu_seconds_total",
    labels=_CLUSTER,
    kind=MetricKind.COUNTER,
    unit="seconds",
    help="CPU time of the process that reads the cluster, since it was started.",
)
COLLECTOR_MEMORY = Metric(
    name="lagwatch_collector_resident_memory_bytes",
    labels=_CLUSTER,
    unit="bytes",
    help="Memory of the process that reads the cluster.",
)
COLLECTOR_START = Metric(
    name="lagwatch_collector_start_time_seconds",
    labels=_CLUSTER,
    unit="seconds",
    help="When the process that reads the cluster was started.",
)

# history

HISTORY_ROWS = Metric(
    name="lagwatch_history_rows_total",
    labels=(),
    kind=MetricKind.COUNTER,
    help="Rows of history recorded to the spool.",
)
HISTORY_DELIVERED = Metric(
    name="lagwatch_history_delivered_rows_total",
    labels=(),
    kind=MetricKind.COUNTER,
    help="Rows of history that the store has acknowledged.",
)
HISTORY_DROPPED = Metric(
    name="lagwatch_history_dropped_rows_total",
    labels=("reason",),
    kind=MetricKind.COUNTER,
    help="Rows of history that were lost.",
)
HISTORY_RETRIES = Metric(
    name="lagwatch_history_retries_total",
    labels=(),
    kind=MetricKind.COUNTER,
    help="Deliveries to the history store that were tried again.",
)
HISTORY_SPOOL = Metric(
    name="lagwatch_history_spool_bytes",
    labels=(),
    unit="bytes",
    help="History on disk that is not delivered yet.",
)
HISTORY_OLDEST = Metric(
    name="lagwatch_history_oldest_timestamp_seconds",
    labels=(),
    unit="seconds",
    help="Instant of the oldest row of history that is not delivered yet.",
)

DEPLOYED = Metric(
    name="lagwatch_group_deployment_timestamp_seconds",
    labels=(*_GROUP, "version"),
    unit="seconds",
    help="When the last deployment of the group was recorded, since lagwatch started.",
)

# alerts

INCIDENTS = Metric(
    name="lagwatch_open_incidents",
    labels=_CLUSTER,
    help="Incidents that are open: of groups, and of the cluster when it is not seen.",
)
NOTICES_DELIVERED = Metric(
    name="lagwatch_notices_delivered_total",
    labels=("channel",),
    kind=MetricKind.COUNTER,
    help="Notices delivered.",
)
NOTICES_DEAD = Metric(
    name="lagwatch_notices_dead_total",
    labels=("channel",),
    kind=MetricKind.COUNTER,
    help="Messages of notices that were given up.",
)
NOTICES_FAILED = Metric(
    name="lagwatch_notice_attempts_failed_total",
    labels=("channel",),
    kind=MetricKind.COUNTER,
    help="Deliveries that failed and will be tried again.",
)
NOTICES_QUEUED = Metric(
    name="lagwatch_queued_notices",
    labels=("channel",),
    help="Notices that are not delivered yet.",
)
NOTICES_UNDELIVERED = Metric(
    name="lagwatch_notices_undelivered",
    labels=("channel",),
    help="Notices given up, those that wait for a channel that fails or is not configured, and "
    "those that some recipients of a mail refused.",
)

# the process

STOOD_STILL = Metric(
    name="lagwatch_standstill_seconds_total",
    labels=(),
    kind=MetricKind.COUNTER,
    unit="seconds",
    help="Time in which this process did not run, because it was stopped or the machine paused.",
)
BUILD = Metric(
    name="lagwatch_build_info",
    labels=("version", "python"),
    kind=MetricKind.INFO,
    help="Which version this is.",
)
SCRAPES = Metric(
    name="lagwatch_scrapes_total",
    labels=(),
    kind=MetricKind.COUNTER,
    help="Answers on /metrics before this one.",
)
SCRAPE_TIME = Metric(
    name="lagwatch_scrape_duration_seconds",
    labels=(),
    unit="seconds",
    help="How long the last answer on /metrics took to make.",
)

HTTP_TIME = Metric(
    name="lagwatch_http_request_duration_seconds",
    labels=("method", "route", "status"),
    kind=MetricKind.HISTOGRAM,
    unit="seconds",
    help="Time until an answer began, by route; other: no route took the request.",
    buckets=(0.005, 0.025, 0.1, 0.5, 2.5),
)

# the last run of a Spark job, from node_exporter's textfile collector

_JOB: Final = ("job_name",)  # `job` is Prometheus's own

JOB_LAST_RUN = Metric(
    name="lagwatch_job_last_run_timestamp_seconds",
    labels=_JOB,
    unit="seconds",
    help="When the last run of the job ended.",
)
JOB_LAST_SUCCESS = Metric(
    name="lagwatch_job_last_success_timestamp_seconds",
    labels=_JOB,
    unit="seconds",
    help="When a run of the job last ended well.",
)
JOB_SUCCEEDED = Metric(
    name="lagwatch_job_succeeded",
    labels=_JOB,
    help="1 when the last run of the job ended well, 0 when it failed.",
)
JOB_DURATION = Metric(
    name="lagwatch_job_duration_seconds",
    labels=_JOB,
    unit="seconds",
    help="How long the last run of the job took.",
)
JOB_COUNT = Metric(
    name="lagwatch_job_items",
    labels=(*_JOB, "what"),
    help="What the last run of the job counted: rows_read, rows_written, set_aside.",
)

ALL: Final = tuple(value for value in tuple(globals().values()) if isinstance(value, Metric))
"""In the order in which they are written."""


def markdown() -> str:
    """The table for the documentation."""
    head = ["| Metric | Type | Labels | Meaning |", "|---|---|---|---|"]
    return "\n".join([*head, *map(_row, ALL)]) + "\n"


def _row(metric: Metric) -> str:
    labels = ", ".join(metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |"

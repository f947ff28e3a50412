"""One group: is it keeping up, on which partitions not, and who holds them."""

from grafana_foundation_sdk.builders import dashboard as builders

from grafana import panels as p

_WHICH = 'cluster="$cluster",group="$group"'
_OF = f"{{{_WHICH}}}"
_NOT_OK = f'lagwatch_group_status{{{_WHICH},status!="OK"}} == 1'
_PARTITION = "cluster, group, topic, partition"
_OF_TOPIC = f'{{{_WHICH},topic=~"$topic"}}'
_TO_TOPIC = (
    "/d/lagwatch-topic?${datasource:queryparam}&${cluster:queryparam}"
    "&var-topic=${__data.fields.Topic}&${__url_time_range}"
)


def dashboard() -> builders.Dashboard:
    """The dashboard."""
    # of the four statuses one is enough to find the groups of a cluster
    groups = 'lagwatch_group_status{cluster="$cluster",group=~"$find",status="ERR"}'
    board = (
        p.live("lagwatch-group", "lagwatch: group", "One consumer group in detail.")
        .with_variable(
            p.choice("cluster", "label_values(lagwatch_cluster_ready, cluster)", many=False)
        )
        .with_variable(p.find())
        .with_variable(p.choice("group", f"label_values({groups}, group)", many=False))
        .with_variable(
            p.choice("topic", f"label_values(lagwatch_group_topic_lag_messages{_OF}, topic)")
        )
    )
    _annotations(board)
    _numbers(board)
    _curves(board)
    _partitions(board)
    return board


def _annotations(board: builders.Dashboard) -> None:
    deployed = f"lagwatch_group_deployment_timestamp_seconds{_OF}"
    at = f"1000 * max by (cluster, group, version) ({deployed})"
    board.annotation(p.events("Deployments", at, "blue"))
    board.annotation(
        builders.AnnotationQuery()
        .name("Rebalances")
        .datasource(p.PROMETHEUS)
        .icon_color("orange")
        .enable(True)
        .expr(f"max by (group) (changes(lagwatch_rebalances_total{_OF}[$__rate_interval])) > 0")
    )


def _cause() -> str:
    """The cause with its certainty as the label `said`; `unknown` where there is trouble alone."""
    cause = f"lagwatch_group_cause_info{_OF}"
    said = f'label_join({cause}, "said", ", ", "cause", "certainty")'
    nameless = f"{_NOT_OK} unless on (cluster, group) {cause}"
    unknown = f'label_replace({nameless}, "said", "unknown", "", "")'
    return f"max by (said) ({said} or {unknown})"


def _numbers(board: builders.Dashboard) -> None:
    lag = f"lagwatch_group_lag_messages{_OF}"
    catch_up = f"lagwatch_group_catch_up_seconds{_OF}"
    board.with_panel(
        p.status("Status", _WHICH, about="lagwatch's verdict; UNKNOWN while the data are stale.")
    )
    board.with_panel(
        p.word(
            "Rule",
            p.latest(f"max by (rule) (lagwatch_group_rule_info{_OF})").legend_format("{{rule}}"),
            about="What decided the verdict, for a group that is not OK.",
            missing="-",
        )
    )
    board.with_panel(
        p.word(
            "Cause",
            p.latest(_cause()).legend_format("{{said}}"),
            about="The likeliest reason for the verdict, and how sure it is. A dash: it is OK.",
            missing="-",
        )
    )
    board.with_panel(
        p.number(
            "Lost in the time shown",
            p.lost(_OF, "topic"),
            span=p.QUARTER,
            bad_from=1,
            about="Messages removed before the group read them, within the time shown.",
        )
    )
    about = "Log ends less committed offsets, where known; also what was deleted unread."
    board.with_panel(p.number("Lag", f"max({lag})", span=p.QUARTER, about=about))
    late = f"max by (cluster, group) (lagwatch_group_max_lag_seconds{_OF})"
    bound = f"max by (cluster, group, bound) (lagwatch_group_max_lag_seconds_bound{_OF})"
    bounded = f"{late} * on (cluster, group) group_right () ({bound})"
    exact = f'label_replace({late} unless on (cluster, group) {bound}, "bound", "exact", "", "")'
    board.with_panel(
        p.number(
            "Time lag",
            f"{bounded} or {exact}",
            unit="s",
            span=p.QUARTER,
            about="Age of the oldest message not read: exact, at least or at most so much, or an "
            "estimate.",
            legend="{{bound}}",
        )
    )
    board.with_panel(
        p.number(
            "Catches up in",
            f"max({catch_up}) or max({lag} / (-deriv({lag}[10m]) > 0) unless on (cluster, group) "
            f"({_NOT_OK}))",
            unit="s",
            span=p.QUARTER,
            about="At its present speed; while it is OK: as in the last ten minutes. A dash: "
            "it does not catch up, or its rates are not known.",
            missing="-",
        )
    )
    board.with_panel(
        p.number(
            "Loses messages in",
            f"max(lagwatch_group_loss_in_seconds{_OF})",
            unit="s",
            span=p.QUARTER,
            about="Until retention deletes what a group that is not OK has not read, at its "
            "present speed. A dash: that does not come closer, or is not known.",
            missing="-",
        )
    )


def _curves(board: builders.Dashboard) -> None:
    lag = f"max by (topic) (lagwatch_group_topic_lag_messages{_OF_TOPIC})"
    ends = 'lagwatch_topic_log_end_offset{cluster="$cluster",topic=~"$topic"}'
    written = p.rate(ends, "cluster, topic")
    read = p.rate(f"lagwatch_group_topic_committed_offset{_OF_TOPIC}", "cluster, topic")
    board.with_panel(
        p.curves(
            "Lag by topic",
            [p.over_time(lag, "{{topic}}")],
            about="Log ends less committed offsets; a gap is unknown.",
        )
    )
    board.with_panel(
        p.curves(
            "Time lag",
            [p.over_time(f"max by (topic) (lagwatch_lag_seconds{_OF_TOPIC})", "{{topic}}")],
            unit="s",
            about="Age of the oldest message not read; a gap: beyond what has been observed.",
        )
    )
    board.with_panel(
        p.curves(
            "Written and read",
            [
                p.over_time(f"{written} and on (topic) {lag}", "written {{topic}}"),
                p.over_time(read, "read {{topic}}"),
            ],
            unit="cps",
            about="Messages a second, over five minutes, or less after a start. "
            "Written above read: it falls behind. A gap is unknown.",
        )
    )
    board.with_panel(
        p.curves(
            "Retention used",
            [p.over_time(f"max(lagwatch_group_retention_used_ratio{_OF})", "of the log")],
            unit="percentunit",
            about="Lag relative to what retention has left of the log; at 100 % messages are lost.",
        )
    )
    board.with_panel(
        p.curves(
            "Members",
            [p.over_time(f"max(lagwatch_group_members{_OF})", "members")],
            about="Members of the group; a gap: the group cannot be seen.",
        )
    )
    board.with_panel(
        p.curves(
            "Rebalances",
            [p.over_time(f"max(increase(lagwatch_rebalances_total{_OF}[5m]))", "in 5 minutes")],
            about="Rebalances seen; while it rebalances a group does not read.",
        )
    )
    for title, name, colors, about in (
        ("Status", "status", p.STATUS_COLORS, "Which verdict held when."),
        ("State", "state", p.STATE_COLORS, "Which state the group had in Kafka when."),
    ):
        query = p.over_time(f"max by ({name}) (lagwatch_group_{name}{_OF})", f"{{{{{name}}}}}")
        board.with_panel(p.timeline(title, query, colors=colors, span=p.HALF, about=about))


def _left_out(metric: str) -> str:
    """The metric of what has no series of its own; 0 where the group has all of them."""
    return f"max({metric}{_OF}) or 0 * max(lagwatch_group_status{_OF})"


def _partitions(board: builders.Dashboard) -> None:
    board.with_panel(
        p.number(
            "Partitions left out below",
            _left_out("lagwatch_group_rest_partitions"),
            span=p.HALF,
            bad_from=1,
            bad="orange",
            about="Partitions without series of their own, because metrics.partition_budget is "
            "spent: the table, the heat map and the curve of the time lag lack them. All else "
            "counts them. The page of lagwatch shows all partitions.",
        )
    )
    board.with_panel(
        p.number(
            "Lag of the partitions left out",
            _left_out("lagwatch_group_rest_lag_messages"),
            span=p.HALF,
            about="Log ends less committed offsets there, where known; part of the lag above.",
        )
    )
    board.with_panel(
        p.heat(
            "Lag of each partition",
            p.over_time(_by_partition("lagwatch_lag_messages"), "{{topic}} {{partition}}"),
            about="The darker, the more messages to read. Without the partitions left out.",
        )
    )
    board.with_panel(
        p.listing(
            "Partitions",
            [
                p.now(_or_unknown("lagwatch_lag_messages"), "A"),
                p.now(_or_unknown("lagwatch_lag_seconds"), "B"),
                p.now(_or_unknown("lagwatch_commit_age_seconds"), "C"),
                p.now(_or_unknown("lagwatch_committed_offset"), "D"),
                p.now(_statuses(), "E"),
                p.now(
                    _by_partition(
                        "lagwatch_partition_owner_info", "member_host, client_id, instance_id"
                    ),
                    "F",
                ),
            ],
            names={
                "topic": "Topic",
                "partition": "Partition",
                "status": "Status",
                "Value #A": "Lag",
                "Value #B": "Time lag",
                "Value #C": "Last commit",
                "Value #D": "Committed",
                "client_id": "Client",
                "member_host": "Host",
                "instance_id": "Instance",
            },
            hidden=("cluster", "group", "Value #E", "Value #F"),
            sort="Lag",
            overrides=(
                ("Status", p.COLORED_STATUS),
                ("Topic", {"links": [{"title": "Open the topic", "url": _TO_TOPIC}]}),
                ("Time lag", {"unit": "s"}),
                ("Last commit", {"unit": "s"}),
                *((name, {"noValue": "-"}) for name in ("Host", "Client", "Instance")),
            ),
            about="Without the partitions left out. A dash: lagwatch knows no member that holds "
            "the partition, or no such name.",
        )
    )


def _by_partition(metric: str, others: str = "") -> str:
    """The metric's value for each partition, with `others` as further labels."""
    by = f"{_PARTITION}, {others}" if others else _PARTITION
    return f"max by ({by}) ({metric}{_OF_TOPIC})"


def _or_unknown(metric: str) -> str:
    """The metric's value for each partition, or unknown."""
    known = f"lagwatch_committed_offset{_OF_TOPIC} or lagwatch_partition_status{_OF_TOPIC}"
    return p.or_unknown(_by_partition(metric), f"max by ({_PARTITION}) ({known})")


def _statuses() -> str:
    """The status of each partition; lagwatch writes no series for a partition that is OK."""
    not_ok = _by_partition("lagwatch_partition_status", "status")
    ok = f"{_by_partition('lagwatch_committed_offset')} unless on ({_PARTITION}) ({not_ok})"
    return f'{not_ok} or label_replace({ok}, "status", "OK", "", "")'

"""One group: is it keeping up, on which partitions not, and who holds them."""

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models import dashboard as models

from grafana import panels as p

_OF = '{cluster="$cluster",group="$group"}'
_PARTITION = "cluster, group, topic, partition"
_OF_TOPIC = '{cluster="$cluster",group="$group",topic=~"$topic"}'


def dashboard() -> builders.Dashboard:
    """The dashboard."""
    board = (
        p.live("lagwatch-group", "lagwatch: group", "One consumer group in detail.")
        .with_variable(
            p.choice("cluster", "label_values(lagwatch_cluster_ready, cluster)", many=False)
        )
        .with_variable(
            p.choice(
                "group",
                'label_values(lagwatch_group_status{cluster="$cluster"}, group)',
                many=False,
            )
        )
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
    deployments = (
        builders.AnnotationTarget().type("tags").tags(["deployment"]).match_any(True).limit(100)
    )
    board.annotation(
        builders.AnnotationQuery()
        .name("Deployments (posted to Grafana with the tag deployment)")
        .datasource(models.DataSourceRef(type_val="grafana", uid="-- Grafana --"))
        .icon_color("blue")
        .enable(True)
        .target(deployments)
    )
    board.annotation(
        builders.AnnotationQuery()
        .name("Rebalances")
        .datasource(p.PROMETHEUS)
        .icon_color("orange")
        .enable(True)
        .expr(f"changes(lagwatch_rebalances_total{_OF}[$__rate_interval]) > 0")
    )


def _numbers(board: builders.Dashboard) -> None:
    for status, bad_from in (("WARN", 1), ("ERR", 1)):
        board.with_panel(
            p.number(
                "Falling behind" if status == "WARN" else "In error",
                f'lagwatch_group_status{{cluster="$cluster",group="$group",status="{status}"}}',
                bad_from=bad_from,
            )
        )
    board.with_panel(p.number("Lag", f"lagwatch_group_lag_messages{_OF}"))
    board.with_panel(p.number("Time lag", f"lagwatch_group_max_lag_seconds{_OF}", unit="s"))
    board.with_panel(p.number("Members", f"lagwatch_group_members{_OF}"))
    board.with_panel(p.number("Messages lost", f"lagwatch_group_lost_messages{_OF}", bad_from=1))


def _curves(board: builders.Dashboard) -> None:
    board.with_panel(
        p.curves(
            "Lag by topic",
            [p.over_time(f"lagwatch_group_topic_lag_messages{_OF_TOPIC}", "{{topic}}")],
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
                p.over_time(
                    "clamp_min(delta(lagwatch_topic_log_end_offset"
                    '{cluster="$cluster",topic=~"$topic"}[5m]), 0) / 300'
                    f" and on (cluster, topic) lagwatch_group_topic_lag_messages{_OF_TOPIC}",
                    "written {{topic}}",
                ),
                p.over_time(
                    "clamp_min(delta("
                    f"lagwatch_group_topic_committed_offset{_OF_TOPIC}[5m]), 0) / 300",
                    "read {{topic}}",
                ),
            ],
            unit="cps",
            about="Messages a second.",
        )
    )
    board.with_panel(
        p.curves(
            "Rebalances",
            [p.over_time(f"increase(lagwatch_rebalances_total{_OF}[5m])", "in 5 minutes")],
        )
    )
    for title, name, colors in (
        ("Status", "status", p.STATUS_COLORS),
        ("State", "state", p.STATE_COLORS),
    ):
        query = p.over_time(f"lagwatch_group_{name}{_OF}", f"{{{{{name}}}}}")
        board.with_panel(p.timeline(title, query, colors=colors, span=p.HALF))


def _partitions(board: builders.Dashboard) -> None:
    board.with_panel(
        p.heat(
            "Lag of each partition",
            p.over_time(f"lagwatch_lag_messages{_OF_TOPIC}", "{{topic}} {{partition}}"),
        )
    )
    board.with_panel(
        p.listing(
            "Partitions",
            [
                p.now(_by_partition("lagwatch_lag_messages"), "A"),
                p.now(_by_partition("lagwatch_lag_seconds"), "B"),
                p.now(_by_partition("lagwatch_commit_age_seconds"), "C"),
                p.now(_by_partition("lagwatch_committed_offset"), "D"),
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
                "member_host": "Host",
                "client_id": "Client",
                "instance_id": "Instance",
                "Value #A": "Lag",
                "Value #B": "Time lag",
                "Value #C": "Last commit",
                "Value #D": "Committed",
            },
            hidden=("cluster", "group", "Value #E", "Value #F"),
            sort="Lag",
            overrides=(
                ("Status", p.COLORED_STATUS),
                ("Time lag", {"unit": "s"}),
                ("Last commit", {"unit": "s"}),
                *((name, {"noValue": "-"}) for name in ("Host", "Client", "Instance")),
            ),
            about="A dash: lagwatch knows no member that holds the partition, or no such name.",
        )
    )


def _by_partition(metric: str, others: str = "") -> str:
    """The metric's value for each partition, with `others` as further labels."""
    by = f"{_PARTITION}, {others}" if others else _PARTITION
    return f"max by ({by}) ({metric}{_OF_TOPIC})"


def _statuses() -> str:
    """The status of each partition; lagwatch writes no series for a partition that is OK."""
    not_ok = _by_partition("lagwatch_partition_status", "status")
    ok = f"{_by_partition('lagwatch_committed_offset')} unless on ({_PARTITION}) ({not_ok})"
    return f'{not_ok} or label_replace({ok}, "status", "OK", "", "")'

"""All groups of all clusters: how many are in trouble, and which are worst."""

from grafana_foundation_sdk.builders import dashboard as builders

from grafana import panels as p

_OF = '{cluster=~"$cluster"}'
_NOT_OK = 'lagwatch_group_status{cluster=~"$cluster",status!="OK"} == 1'
_LINK = (
    "/d/lagwatch-group?${datasource:queryparam}&var-cluster=${__data.fields.Cluster}"
    "&var-group=${__data.fields.Group}"
)


def dashboard() -> builders.Dashboard:
    """The dashboard."""
    board = p.live(
        "lagwatch-fleet",
        "lagwatch: fleet",
        "Every consumer group of every cluster, the worst first.",
    ).with_variable(p.choice("cluster", "label_values(lagwatch_cluster_ready, cluster)"))
    _numbers(board)
    _worst(board)
    _trends(board)
    return board


def _numbers(board: builders.Dashboard) -> None:
    for title, status, bad_from in (
        ("Groups OK", "OK", None),
        ("Falling behind", "WARN", 1),
        ("In error", "ERR", 1),
        ("Unknown", "UNKNOWN", 1),
    ):
        board.with_panel(
            p.number(
                title,
                f'sum(lagwatch_group_status{{cluster=~"$cluster",status="{status}"}})',
                bad_from=bad_from,
            )
        )
    board.with_panel(
        p.number(
            "Greatest time lag",
            f"max(lagwatch_group_max_lag_seconds{_OF})",
            unit="s",
            about="Age of the oldest message that a group has not read.",
        )
    )
    board.with_panel(
        p.number(
            "Messages lost",
            f"sum(lagwatch_group_lost_messages{_OF})",
            bad_from=1,
            about="Removed by retention before a group read them.",
        )
    )


def _worst(board: builders.Dashboard) -> None:
    board.with_panel(
        p.listing(
            "Groups that are not OK",
            [
                p.now(f"max by (cluster, group, status) ({_NOT_OK})", "A"),
                p.now(_of_not_ok("lagwatch_group_lag_messages"), "B"),
                p.now(_of_not_ok("lagwatch_group_max_lag_seconds"), "C"),
                p.now(_of_not_ok("lagwatch_group_members"), "D"),
            ],
            names={
                "cluster": "Cluster",
                "group": "Group",
                "status": "Status",
                "Value #B": "Lag",
                "Value #C": "Time lag",
                "Value #D": "Members",
            },
            hidden=("Value #A",),
            sort="Lag",
            overrides=(
                ("Status", p.COLORED_STATUS),
                ("Time lag", {"unit": "s"}),
                ("Group", {"links": [{"title": "Open the group", "url": _LINK}]}),
            ),
            about="Groups that are OK are not listed.",
        )
    )


def _of_not_ok(metric: str) -> str:
    """The metric's value for each group that is not OK."""
    return f"max by (cluster, group) ({metric}{_OF}) and on (cluster, group) ({_NOT_OK})"


def _trends(board: builders.Dashboard) -> None:
    by_status = f"sum by (status) (lagwatch_group_status{_OF})"
    board.with_panel(
        p.curves("Groups by status", [p.over_time(by_status, "{{status}}")], stacked=True)
    )
    board.with_panel(
        p.curves(
            "Worst groups by time lag",
            [
                p.over_time(
                    f"topk(10, lagwatch_group_max_lag_seconds{_OF})", "{{cluster}} {{group}}"
                )
            ],
            unit="s",
        )
    )
    board.with_panel(
        p.curves(
            "Worst groups by lag",
            [p.over_time(f"topk(10, lagwatch_group_lag_messages{_OF})", "{{cluster}} {{group}}")],
        )
    )
    board.with_panel(
        p.curves(
            "Nearest to losing data",
            [
                p.over_time(
                    f"topk(10, lagwatch_group_retention_used_ratio{_OF})",
                    "{{cluster}} {{group}}",
                )
            ],
            unit="percentunit",
            about="Lag relative to what retention has left of the log; at 100 % messages are lost.",
        )
    )
    board.with_panel(
        p.curves(
            "Partitions in trouble",
            [
                p.over_time(
                    f"count by (cluster, status) (lagwatch_partition_status{_OF})",
                    "{{cluster}} {{status}}",
                )
            ],
        )
    )
    board.with_panel(
        p.curves(
            "Partitions whose lag is not known",
            [p.over_time(f"lagwatch_unknown_partitions{_OF}", "{{cluster}} {{reason}}")],
        )
    )

"""One topic: what is written to it, and which groups read it how well."""

from grafana_foundation_sdk.builders import dashboard as builders

from grafana import panels as p

_PAIR = "cluster, group, topic"
_OF = '{cluster="$cluster",topic="$topic"}'


def dashboard() -> builders.Dashboard:
    """The dashboard."""
    board = (
        p.live("lagwatch-topic", "lagwatch: topic", "One topic and the groups that read it.")
        .with_variable(
            p.choice("cluster", "label_values(lagwatch_cluster_ready, cluster)", many=False)
        )
        .with_variable(
            p.choice(
                "topic",
                'label_values(lagwatch_topic_partitions{cluster="$cluster"}, topic)',
                many=False,
            )
        )
    )
    board.with_panel(p.number("Partitions", f"lagwatch_topic_partitions{_OF}"))
    board.with_panel(
        p.number("Groups", f"count(lagwatch_group_topic_lag_messages{_OF})", span=p.SIXTH)
    )
    board.with_panel(
        p.number(
            "Retained messages",
            f"sum(lagwatch_log_end_offset{_OF} - lagwatch_log_start_offset{_OF})",
            about="Offsets between log start and log end; compacted topics hold fewer.",
        )
    )
    board.with_panel(p.number("Greatest lag", f"max(lagwatch_group_topic_lag_messages{_OF})"))
    _curves(board)
    return board


def _curves(board: builders.Dashboard) -> None:
    board.with_panel(
        p.curves(
            "Written",
            [
                p.over_time(
                    f"clamp_min(delta(lagwatch_topic_log_end_offset{_OF}[5m]), 0) / 300",
                    "{{topic}}",
                )
            ],
            unit="cps",
            about="Messages a second.",
        )
    )
    board.with_panel(
        p.curves(
            "Read",
            [
                p.over_time(
                    f"clamp_min(delta(lagwatch_group_topic_committed_offset{_OF}[5m]), 0) / 300",
                    "{{group}}",
                )
            ],
            unit="cps",
            about="Messages a second.",
        )
    )
    board.with_panel(
        p.curves(
            "Lag by group",
            [p.over_time(f"lagwatch_group_topic_lag_messages{_OF}", "{{group}}")],
        )
    )
    board.with_panel(
        p.curves(
            "Time lag by group",
            [p.over_time(f"max by (group) (lagwatch_lag_seconds{_OF})", "{{group}}")],
            unit="s",
        )
    )
    board.with_panel(
        p.heat(
            "Messages written to each partition in five minutes",
            p.over_time(f"clamp_min(delta(lagwatch_log_end_offset{_OF}[5m]), 0)", "{{partition}}"),
        )
    )
    board.with_panel(
        p.listing(
            "Groups",
            [
                p.now(f"max by ({_PAIR}) (lagwatch_group_topic_lag_messages{_OF})", "A"),
                p.now(f"max by ({_PAIR}) (lagwatch_lag_seconds{_OF})", "B"),
                p.now(_not_ok(), "C"),
            ],
            names={
                "group": "Group",
                "Value #A": "Lag",
                "Value #B": "Time lag",
                "Value #C": "Partitions not OK",
            },
            hidden=("cluster", "topic"),
            sort="Lag",
            overrides=(("Time lag", {"unit": "s"}),),
        )
    )


def _not_ok() -> str:
    """How many partitions of each group are not OK.

    Zero where lagwatch knows the offsets and shows all partitions of the group; if it leaves some
    out (series budget), some of those may not be OK.
    """
    counted = f"count by ({_PAIR}) (max by ({_PAIR}, partition) (lagwatch_partition_status{_OF}))"
    known = f"max by ({_PAIR}) (lagwatch_group_topic_committed_offset{_OF})"
    return f"{counted} or 0 * ({known} unless on (cluster, group) lagwatch_group_rest_partitions)"

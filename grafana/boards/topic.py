"""One topic: what is written to it, and which groups read it how well."""

from grafana_foundation_sdk.builders import dashboard as builders

from grafana import panels as p

_PAIR = "cluster, group, topic"
_OF = '{cluster="$cluster",topic="$topic"}'
_READ = f"lagwatch_group_topic_committed_offset{_OF}"
_WRITTEN = p.rate(f"lagwatch_topic_log_end_offset{_OF}", "cluster, topic")
_OVER = "Messages a second, over five minutes, or less after a start."
_TO_GROUP = (
    "/d/lagwatch-group?${datasource:queryparam}&${cluster:queryparam}"
    "&var-group=${__data.fields.Group}&${__url_time_range}"
)


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
    _numbers(board)
    _curves(board)
    return board


def _numbers(board: builders.Dashboard) -> None:
    retained = f"max by (partition) (lagwatch_log_end_offset{_OF} - lagwatch_log_start_offset{_OF})"
    for title, expr, unit, about in (
        ("Partitions", f"max(lagwatch_topic_partitions{_OF})", "short", "Of the topic."),
        (
            "Groups",
            f"count(max by (group) (lagwatch_group_topic_lag_messages{_OF}))",
            "short",
            "Groups that have committed offsets on it, and whose lag is known.",
        ),
        ("Written", f"max({_WRITTEN})", "cps", _OVER),
        (
            "Retained messages",
            f"sum({retained})",
            "short",
            "Offsets between log start and log end; compacted topics hold fewer.",
        ),
        (
            "Greatest lag",
            f"max(lagwatch_group_topic_lag_messages{_OF})",
            "short",
            "Of the group that is furthest behind.",
        ),
        (
            "Greatest time lag",
            f"max(lagwatch_lag_seconds{_OF})",
            "s",
            "Age of the oldest message that a group has not read, as far as that is known.",
        ),
    ):
        board.with_panel(p.number(title, expr, unit=unit, about=about))


def _curves(board: builders.Dashboard) -> None:
    read = f"max by (cluster, group) (delta({_READ}[$__range] @ end()))"
    for title, expr, unit, about in (
        (
            "Read",
            f"{p.rate(_READ, 'cluster, group')} and on (cluster, group) topk(10, {read})",
            "cps",
            f"By the ten groups that read most. {_OVER} A gap is unknown.",
        ),
        (
            "Lag by group",
            p.worst("lagwatch_group_topic_lag_messages", _OF),
            "short",
            "Messages that the ten groups with the greatest lag have to read; a gap is unknown.",
        ),
        (
            "Time lag by group",
            p.worst("lagwatch_lag_seconds", _OF),
            "s",
            "Age of the oldest unread message of the ten groups furthest behind; a gap is unknown.",
        ),
    ):
        query = p.over_time(expr, "{{group}}")
        board.with_panel(p.curves(title, [query], unit=unit, about=about, link=p.TO_GROUP))
    board.with_panel(
        p.curves(
            "Written",
            [p.over_time(_WRITTEN, "{{topic}}")],
            unit="cps",
            about=f"{_OVER} A gap is unknown.",
        )
    )
    written = f"max by (partition) (increase(lagwatch_log_end_offset{_OF}[5m]))"
    board.with_panel(
        p.heat(
            "Messages written to each partition in five minutes",
            p.over_time(f"clamp_min({written}, 0)", "{{partition}}"),
            about="The darker, the more. One dark row alone: keys are skewed.",
        )
    )
    board.with_panel(
        p.listing(
            "Groups",
            [
                p.now(_or_unknown("lagwatch_group_topic_lag_messages"), "A"),
                p.now(_or_unknown("lagwatch_lag_seconds"), "B"),
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
            overrides=(
                ("Time lag", {"unit": "s"}),
                ("Group", {"links": [{"title": "Open the group", "url": _TO_GROUP}]}),
            ),
            about="Groups that have committed offsets on the topic.",
        )
    )


def _or_unknown(metric: str) -> str:
    """The metric's greatest value for each group, or unknown."""
    known = f"lagwatch_group_topic_committed_offset{_OF} or lagwatch_partition_status{_OF}"
    return p.or_unknown(f"max by ({_PAIR}) ({metric}{_OF})", f"max by ({_PAIR}) ({known})")


def _not_ok() -> str:
    """How many partitions of each group are not OK.

    Zero where lagwatch knows the offsets and shows all partitions of the group; if it leaves some
    out (series budget), some of those may not be OK.
    """
    counted = f"count by ({_PAIR}) (max by ({_PAIR}, partition) (lagwatch_partition_status{_OF}))"
    known = f"max by ({_PAIR}) (lagwatch_group_topic_committed_offset{_OF})"
    return f"{counted} or 0 * ({known} unless on (cluster, group) lagwatch_group_rest_partitions)"

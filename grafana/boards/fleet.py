"""All groups of all clusters: how many are in trouble, and which are worst."""

from grafana_foundation_sdk.builders import dashboard as builders

from grafana import panels as p

_WHICH = 'cluster=~"$cluster",group=~"$find"'
_OF = f"{{{_WHICH}}}"
_OF_CLUSTER = '{cluster=~"$cluster"}'
_NOT_OK = f'lagwatch_group_status{{{_WHICH},status!="OK"}} == 1'
_NOT_READY = (
    "Not read completely yet, or not seen: their groups are Unknown, whatever they do. "
    "While LagwatchLabelsClash fires, the other panels mix clusters up."
)
_TO_GROUP = (
    "/d/lagwatch-group?${datasource:queryparam}&var-cluster=${__data.fields.Cluster}"
    "&var-group=${__data.fields.Group}&${__url_time_range}"
)


def dashboard() -> builders.Dashboard:
    """The dashboard."""
    board = (
        p.live(
            "lagwatch-fleet",
            "lagwatch: fleet",
            "Every consumer group of every cluster, the worst first.",
        )
        .with_variable(p.choice("cluster", "label_values(lagwatch_cluster_ready, cluster)"))
        .with_variable(p.find())
    )
    _numbers(board)
    _worst(board)
    _trends(board)
    return board


def _numbers(board: builders.Dashboard) -> None:
    for title, status, bad, about in (
        ("Groups OK", "OK", "", "Groups that keep up."),
        (
            "With a warning",
            "WARN",
            "yellow",
            "Groups that fall behind, wait for a transaction, were silent, or never commit.",
        ),
        (
            "In error",
            "ERR",
            "red",
            "Groups of which a partition stopped, stalled, went back or lost.",
        ),
        (
            "Unknown",
            "UNKNOWN",
            "red",
            "Groups that cannot be judged, or not yet; stale ones, too.",
        ),
    ):
        of_status = f'lagwatch_group_status{{{_WHICH},status="{status}"}}'
        expr = f"sum(max by (cluster, group) ({of_status}))"
        bad_from = 1 if bad else None
        panel = p.number(title, expr, span=p.QUARTER, bad_from=bad_from, bad=bad, about=about)
        board.with_panel(panel)
    for title, expr, unit, limit, about in (
        (
            "Greatest time lag",
            f"max(lagwatch_group_max_lag_seconds{_OF})",
            "s",
            None,
            "Age of the oldest message that a group has not read, as far as that is known.",
        ),
        (
            "Lost in the time shown",
            p.lost(_OF, "cluster, group, topic"),
            "short",
            1,
            "Messages removed before a group read them, within the time shown.",
        ),
        (
            "Clusters not ready",
            p.clusters_not_ready(_OF_CLUSTER),
            "short",
            1,
            _NOT_READY,
        ),
        (
            "Oldest data",
            p.oldest_data(_OF_CLUSTER),
            "s",
            p.OLD_DATA_S,
            "Of all clusters; what the other panels say of that cluster is as old.",
        ),
    ):
        board.with_panel(
            p.number(title, expr, unit=unit, span=p.QUARTER, bad_from=limit, about=about)
        )


def _worst(board: builders.Dashboard) -> None:
    lag = f"lagwatch_group_lag_messages{_OF}"
    catch_up, loss_in = (f"lagwatch_group_{what}_seconds{_OF}" for what in ("catch_up", "loss_in"))
    since = f"1000 * lagwatch_group_trouble_start_timestamp_seconds{_OF}"
    board.with_panel(
        p.listing(
            "Groups that are not OK",
            [
                p.now(f"max by (cluster, group, status) ({_NOT_OK})", "A"),
                p.now(_of_not_ok(lag), "B"),
                p.now(_of_not_ok(f"lagwatch_group_max_lag_seconds{_OF}"), "C"),
                p.now(_of_not_ok(f"lagwatch_group_members{_OF}"), "D"),
                p.now(_word_or_unknown("lagwatch_group_rule_info", "rule"), "E"),
                p.now(_of_not_ok(since), "F"),
                p.now(_of_not_ok_known(catch_up), "G"),
                p.now(_word_of_not_ok("lagwatch_group_max_lag_seconds_bound", "bound"), "H"),
                p.now(_word_or_unknown("lagwatch_group_cause_info", "cause"), "I"),
                p.now(_of_not_ok_known(loss_in), "J"),
            ],
            names={
                "cluster": "Cluster",
                "group": "Group",
                "status": "Status",
                "rule": "Rule",
                "cause": "Cause",
                "Value #F": "Since",
                "Value #B": "Lag",
                "Value #C": "Time lag",
                "bound": "Bound",
                "Value #G": "Catches up in",
                "Value #J": "Loses messages in",
                "Value #D": "Members",
            },
            hidden=("Value #A", "Value #E", "Value #H", "Value #I"),
            sort="Lag",
            overrides=(
                ("Status", p.COLORED_STATUS),
                ("Time lag", {"unit": "s"}),
                ("Bound", {"noValue": "-"}),
                ("Since", p.AGO),
                ("Catches up in", {"unit": "s", "noValue": "-"}),
                ("Loses messages in", {"unit": "s", "noValue": "-"}),
                ("Group", {"links": [{"title": "Open the group", "url": _TO_GROUP}]}),
            ),
            about="Groups that are OK are not listed. Rule is what decided the verdict, Cause the "
            "likeliest reason for it. Bound: the time lag is at least or at most so much, or "
            "estimated; a dash: it is exact, or unknown. Catches up in, Loses messages in: at its "
            "present speed; a dash: it does not, or its rates are not known.",
        )
    )


def _of_not_ok(expr: str) -> str:
    """The value for each group that is not OK, or unknown."""
    return p.or_unknown(_of_not_ok_known(expr), f"max by (cluster, group) ({_NOT_OK})")


def _of_not_ok_known(expr: str) -> str:
    """The value for each group that is not OK and has one."""
    return f"max by (cluster, group) ({expr}) and on (cluster, group) ({_NOT_OK})"


def _word_of_not_ok(metric: str, label: str) -> str:
    """A label of the metric for each group that is not OK."""
    of_not_ok = f"{metric}{_OF} and on (cluster, group) ({_NOT_OK})"
    return f"max by (cluster, group, {label}) ({of_not_ok})"


def _word_or_unknown(metric: str, label: str) -> str:
    """The same, or the word unknown."""
    nameless = f"max by (cluster, group) ({_NOT_OK}) unless on (cluster, group) {metric}{_OF}"
    unknown = f'label_replace({nameless}, "{label}", "unknown", "", "")'
    return f"{_word_of_not_ok(metric, label)} or {unknown}"


def _trends(board: builders.Dashboard) -> None:
    of_group = "{{cluster}} {{group}}"
    by_status = f"sum by (status) (max by (cluster, group, status) (lagwatch_group_status{_OF}))"
    in_trouble = (
        "sum by (cluster, status) "
        f"(max by (cluster, group, status) (lagwatch_group_partitions{_OF}))"
    )
    board.with_panel(
        p.curves(
            "Groups by status",
            [p.over_time(by_status, "{{status}}")],
            stacked=True,
            colors={status: p.STATUS_COLORS[status] for status in p.STATUS_CODES},
            about="How many groups had each verdict.",
        )
    )
    for title, metric, unit, about in (
        (
            "Worst groups by time lag",
            "lagwatch_group_max_lag_seconds",
            "s",
            "The ten groups that were latest in the time shown; a gap is unknown.",
        ),
        (
            "Worst groups by lag",
            "lagwatch_group_lag_messages",
            "short",
            "The ten groups with the most messages to read in the time shown.",
        ),
        (
            "Nearest to losing data",
            "lagwatch_group_retention_used_ratio",
            "percentunit",
            "Lag relative to what retention has left of the log; at 100 % messages are lost.",
        ),
    ):
        query = p.over_time(p.worst(metric, _OF), of_group)
        board.with_panel(p.curves(title, [query], unit=unit, about=about, link=p.TO_GROUP))
    board.with_panel(
        p.curves(
            "Partitions in trouble",
            [p.over_time(in_trouble, "{{cluster}} {{status}}")],
            about="Partitions of groups that are not OK, by verdict; all, whatever the budget.",
        )
    )
    board.with_panel(
        p.curves(
            "Partitions whose lag is not known",
            [
                p.over_time(
                    'max by (cluster, reason) (lagwatch_unknown_partitions{cluster=~"$cluster"})',
                    "{{cluster}} {{reason}}",
                )
            ],
            about="By reason; stale: nothing has been heard for too long.",
        )
    )

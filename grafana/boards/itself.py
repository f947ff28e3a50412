"""lagwatch itself: is what it says fresh, and what does it cost?"""

from grafana_foundation_sdk.builders import dashboard as builders

from grafana import panels as p

_OF = '{cluster=~"$cluster"}'
_PROCESS = '{job="lagwatch"}'


def dashboard() -> builders.Dashboard:
    """The dashboard."""
    board = p.live(
        "lagwatch-itself", "lagwatch: itself", "Freshness, errors and cost of lagwatch."
    ).with_variable(p.choice("cluster", "label_values(lagwatch_cluster_ready, cluster)"))
    _numbers(board)
    _reading(board)
    _sending(board)
    _cost(board)
    return board


def _rate(metric: str, by: str, selector: str = "") -> str:
    """How often a second, by these labels."""
    return f"sum by ({by}) (rate({metric}{selector}[$__rate_interval]))"


def _increase(metric: str, by: str, selector: str = "") -> str:
    """How often within a step, by these labels."""
    return f"sum by ({by}) (increase({metric}{selector}[$__rate_interval]))"


def _mean(metric: str, by: str, selector: str = "") -> str:
    """Mean of a histogram, by these labels; nothing where nothing was counted."""
    count = f"({_rate(f'{metric}_count', by, selector)} > 0)"
    return f"{_rate(f'{metric}_sum', by, selector)} / {count}"


def _numbers(board: builders.Dashboard) -> None:
    for title, expr, unit, bad_from, about in (
        (
            "Oldest data",
            p.oldest_data(_OF),
            "s",
            p.OLD_DATA_S,
            "Of all clusters; it grows while a cluster cannot be read.",
        ),
        (
            "Clusters not ready",
            p.clusters_not_ready(_OF),
            "short",
            1.0,
            "Not read completely yet, or stale.",
        ),
        (
            "Backlog",
            f"sum(max by (cluster) (lagwatch_backlog_records{_OF}))",
            "short",
            None,
            "Records of the offsets topic still to be read since the start.",
        ),
        (
            "Partitions without series",
            f"sum(max by (cluster) (lagwatch_partitions_left_out{_OF}))",
            "short",
            None,
            "More than metrics.partition_budget; they are in the sums.",
        ),
        (
            "Last scrape took",
            "max(lagwatch_scrape_duration_seconds)",
            "s",
            None,
            "Until the answer on /metrics was made.",
        ),
        (
            "Instances",
            "count(lagwatch_build_info)",
            "short",
            None,
            "Running lagwatch processes that Prometheus reaches.",
        ),
    ):
        board.with_panel(p.number(title, expr, unit=unit, bad_from=bad_from, about=about))


def _reading(board: builders.Dashboard) -> None:
    for title, expr, unit, about in (
        (
            "Commits taken in",
            _rate("lagwatch_commits_total", "cluster", _OF),
            "cps",
            "Commits a second.",
        ),
        (
            "Commits waiting for log ends",
            f"max by (cluster) (lagwatch_waiting_commits{_OF})",
            "short",
            "A commit is judged once a round of log ends came after it.",
        ),
        (
            "Age of the data",
            f"max by (cluster) (lagwatch_data_age_seconds{_OF})",
            "s",
            "Of log ends or commits, whichever are older.",
        ),
        (
            "Rounds of judgement",
            _rate("lagwatch_rounds_total", "cluster", _OF),
            "cps",
            "Rounds a second.",
        ),
        (
            "A round takes",
            _mean("lagwatch_round_duration_seconds", "cluster", _OF),
            "s",
            "Mean time to judge a cluster; no request is answered meanwhile.",
        ),
    ):
        board.with_panel(
            p.curves(title, [p.over_time(expr, "{{cluster}}")], unit=unit, about=about)
        )
    board.with_panel(
        p.curves(
            "Errors",
            [
                p.over_time(
                    _increase("lagwatch_errors_total", "cluster, kind", _OF), "{{cluster}} {{kind}}"
                ),
                p.over_time(
                    _increase("lagwatch_malformed_records_total", "cluster, reason", _OF),
                    "{{cluster}} malformed: {{reason}}",
                ),
                p.over_time(
                    _increase("lagwatch_collector_restarts_total", "cluster", _OF),
                    "{{cluster}} collector restarted",
                ),
            ],
            about="Failures to read Kafka, by kind, and restarts of collectors.",
        )
    )


def _sending(board: builders.Dashboard) -> None:
    board.with_panel(
        p.curves(
            "History",
            [
                p.over_time(_rate("lagwatch_history_rows_total", "job"), "recorded"),
                p.over_time(_rate("lagwatch_history_delivered_rows_total", "job"), "delivered"),
                p.over_time(
                    _rate("lagwatch_history_dropped_rows_total", "reason"), "dropped: {{reason}}"
                ),
                p.over_time(_rate("lagwatch_history_retries_total", "job"), "tried again"),
            ],
            unit="cps",
            about="Rows a second. Delivered stays below recorded: the store is away or too slow.",
        )
    )
    board.with_panel(
        p.curves(
            "Spool",
            [p.over_time("sum by (job) (lagwatch_history_spool_bytes)", "on disk")],
            unit="bytes",
            about="History that the store has not acknowledged yet.",
        )
    )
    board.with_panel(
        p.curves(
            "Notices",
            [
                p.over_time(
                    _increase("lagwatch_notices_delivered_total", "channel"),
                    "{{channel}} delivered",
                ),
                p.over_time(
                    _increase("lagwatch_notice_attempts_failed_total", "channel"),
                    "{{channel}} failed",
                ),
                p.over_time(
                    _increase("lagwatch_notices_dead_total", "channel"), "{{channel}} given up"
                ),
                p.over_time("sum by (channel) (lagwatch_queued_notices)", "{{channel}} waiting"),
            ],
            about="What lagwatch's own alerts sent, by channel.",
        )
    )
    board.with_panel(
        p.curves(
            "Open incidents",
            [p.over_time(f"max by (cluster) (lagwatch_open_incidents{_OF})", "{{cluster}}")],
            about="Of lagwatch's own alerts.",
        )
    )


def _cost(board: builders.Dashboard) -> None:
    cpu, memory = "cpu_seconds_total", "resident_memory_bytes"
    board.with_panel(
        p.curves(
            "CPU",
            [
                p.over_time(_rate(f"process_{cpu}", "instance", _PROCESS), "serving {{instance}}"),
                p.over_time(
                    _rate(f"lagwatch_collector_{cpu}", "cluster", _OF), "collector {{cluster}}"
                ),
            ],
            about="Cores, of the serving process and of the process that reads each cluster.",
        )
    )
    board.with_panel(
        p.curves(
            "Memory",
            [
                p.over_time(
                    f"max by (instance) (process_{memory}{_PROCESS})", "serving {{instance}}"
                ),
                p.over_time(
                    f"max by (cluster) (lagwatch_collector_{memory}{_OF})", "collector {{cluster}}"
                ),
            ],
            unit="bytes",
            about="Resident, of the serving process and of the process that reads each cluster.",
        )
    )
    board.with_panel(
        p.curves(
            "Answers",
            [p.over_time(_rate("lagwatch_http_request_duration_seconds_count", "route, status"),
                         "{{status}} {{route}}")],
            unit="cps",
            about="Answers of the HTTP server a second, by route and status.",
        )
    )  # fmt: skip
    board.with_panel(
        p.curves(
            "An answer takes",
            [p.over_time(_mean("lagwatch_http_request_duration_seconds", "route"), "{{route}}")],
            unit="s",
            about="Mean time until the answer begins, by route.",
        )
    )
    board.with_panel(
        p.curves(
            "Scrapes",
            [p.over_time(_rate("lagwatch_scrapes_total", "job"), "a second")],
            unit="cps",
            about="Answers on /metrics a second.",
        )
    )
    groups = 'lagwatch_group_status{cluster=~"$cluster",status="OK"}'
    shown = f"max by (cluster, group, topic, partition) (lagwatch_committed_offset{_OF})"
    board.with_panel(
        p.curves(
            "Groups and partitions shown",
            [
                p.over_time(
                    f"count by (cluster) (max by (cluster, group) ({groups}))", "{{cluster}} groups"
                ),
                p.over_time(f"count by (cluster) ({shown})", "{{cluster}} partitions"),
            ],
            about="With series of their own.",
        )
    )

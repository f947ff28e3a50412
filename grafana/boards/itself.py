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


def _numbers(board: builders.Dashboard) -> None:
    board.with_panel(
        p.number(
            "Oldest data",
            f"max(lagwatch_data_age_seconds{_OF})",
            unit="s",
            bad_from=60,
        )
    )
    board.with_panel(
        p.number("Clusters not ready", f"sum(1 - lagwatch_cluster_ready{_OF})", bad_from=1)
    )
    board.with_panel(p.number("Backlog", f"sum(lagwatch_backlog_records{_OF})"))
    board.with_panel(
        p.number("Partitions without series", f"sum(lagwatch_partitions_left_out{_OF})")
    )
    board.with_panel(p.number("Last scrape took", "lagwatch_scrape_duration_seconds", unit="s"))
    board.with_panel(
        p.number("Versions", "count by (version) (lagwatch_build_info)", about="Running instances.")
    )


def _reading(board: builders.Dashboard) -> None:
    board.with_panel(
        p.curves(
            "Commits taken in",
            [p.over_time(f"rate(lagwatch_commits_total{_OF}[$__rate_interval])", "{{cluster}}")],
            unit="cps",
        )
    )
    board.with_panel(
        p.curves(
            "Commits waiting for log ends",
            [p.over_time(f"lagwatch_waiting_commits{_OF}", "{{cluster}}")],
        )
    )
    board.with_panel(
        p.curves(
            "Age of the data",
            [p.over_time(f"lagwatch_data_age_seconds{_OF}", "{{cluster}}")],
            unit="s",
        )
    )
    board.with_panel(
        p.curves(
            "Rounds of judgement",
            [p.over_time(f"rate(lagwatch_rounds_total{_OF}[$__rate_interval])", "{{cluster}}")],
            unit="cps",
        )
    )
    board.with_panel(
        p.curves(
            "Errors",
            [
                p.over_time(
                    f"increase(lagwatch_errors_total{_OF}[$__rate_interval])",
                    "{{cluster}} {{kind}}",
                ),
                p.over_time(
                    f"increase(lagwatch_malformed_records_total{_OF}[$__rate_interval])",
                    "{{cluster}} malformed: {{reason}}",
                ),
                p.over_time(
                    f"increase(lagwatch_collector_restarts_total{_OF}[$__rate_interval])",
                    "{{cluster}} collector restarted",
                ),
            ],
        )
    )


def _sending(board: builders.Dashboard) -> None:
    board.with_panel(
        p.curves(
            "History",
            [
                p.over_time("rate(lagwatch_history_rows_total[$__rate_interval])", "recorded"),
                p.over_time(
                    "rate(lagwatch_history_delivered_rows_total[$__rate_interval])", "delivered"
                ),
                p.over_time(
                    "rate(lagwatch_history_dropped_rows_total[$__rate_interval])",
                    "dropped: {{reason}}",
                ),
                p.over_time(
                    "rate(lagwatch_history_retries_total[$__rate_interval])", "tried again"
                ),
            ],
            unit="cps",
        )
    )
    board.with_panel(
        p.curves("Spool", [p.over_time("lagwatch_history_spool_bytes", "on disk")], unit="bytes")
    )
    board.with_panel(
        p.curves(
            "Notices",
            [
                p.over_time(
                    "increase(lagwatch_notices_delivered_total[$__rate_interval])",
                    "{{channel}} delivered",
                ),
                p.over_time(
                    "increase(lagwatch_notice_attempts_failed_total[$__rate_interval])",
                    "{{channel}} failed",
                ),
                p.over_time(
                    "increase(lagwatch_notices_dead_total[$__rate_interval])",
                    "{{channel}} given up",
                ),
                p.over_time("lagwatch_queued_notices", "{{channel}} waiting"),
            ],
        )
    )
    board.with_panel(
        p.curves("Open incidents", [p.over_time(f"lagwatch_open_incidents{_OF}", "{{cluster}}")])
    )


def _cost(board: builders.Dashboard) -> None:
    board.with_panel(
        p.curves(
            "CPU",
            [p.over_time(f"rate(process_cpu_seconds_total{_PROCESS}[$__rate_interval])", "cores")],
            about="Of the serving process; the collectors are processes of their own.",
        )
    )
    board.with_panel(
        p.curves(
            "Memory",
            [p.over_time(f"process_resident_memory_bytes{_PROCESS}", "resident")],
            unit="bytes",
        )
    )
    board.with_panel(
        p.curves(
            "Scrapes",
            [p.over_time("rate(lagwatch_scrapes_total[$__rate_interval])", "a second")],
            unit="cps",
        )
    )
    board.with_panel(
        p.curves(
            "Groups and partitions shown",
            [
                p.over_time(f"count by (cluster) (lagwatch_group_status{_OF}) / 4", "groups"),
                p.over_time(f"count by (cluster) (lagwatch_committed_offset{_OF})", "partitions"),
            ],
        )
    )

"""How old data may be, and the reasons for which a cluster is not ready."""

import pytest

from lagwatch.config.cluster import ClusterSettings
from lagwatch.core.model import EpochMs
from lagwatch.monitor import ClusterMonitor
from lagwatch.monitor.freshness import FreshFor, Known, is_unreachable, missing, why_stale
from lagwatch.monitor.settings import MonitorSettings
from lagwatch.ports.reports import Backlog, SourceHealth, SourceKind

NOW_MS = EpochMs(1_000_000)
LIMITS = FreshFor(log_ends_ms=15_000, commits_ms=15_000, polled_ms=30_000)


def _known(log_ends_s: float, commits_s: float, *, polled: bool = False) -> Known:
    """Known up to so many seconds ago."""
    return Known(
        log_ends_ms=NOW_MS - round(log_ends_s * 1000),
        commits_ms=NOW_MS - round(commits_s * 1000),
        polled=polled,
    )


@pytest.mark.parametrize(
    ("interval_s", "limit_s"), [(1, 15), (5, 15), (10, 30)], ids=["fast", "default", "slow"]
)
def test_data_are_stale_after_three_rounds_and_at_least_15_s(
    interval_s: float, limit_s: float
) -> None:
    settings = ClusterSettings(bootstrap=("kafka:9092",), log_end_interval_s=interval_s)

    assert settings.stale_after_s == limit_s


@pytest.mark.parametrize(
    ("known", "stale"),
    [
        (_known(1, 1), False),
        (_known(15, 15), False),
        (_known(15.1, 1), True),
        (_known(1, 15.1), True),
        (_known(1, 25, polled=True), False),
        (_known(1, 31, polled=True), True),
        (Known(log_ends_ms=-1, commits_ms=-1, polled=False), False),
    ],
)
def test_log_ends_and_commits_both_make_data_stale(known: Known, *, stale: bool) -> None:
    assert known.is_stale(NOW_MS, LIMITS) is stale


def test_the_older_of_both_is_the_age() -> None:
    assert _known(3, 8).until_ms == NOW_MS - 8000


@pytest.mark.parametrize(
    ("known", "backlog", "said"),
    [
        (_known(1, 1), Backlog(read=0, total=0, ready=False), "backlog of commits has not been"),
        (_known(1, 1), Backlog(read=1200, total=5000, ready=False), "1,200 of 5,000 records"),
        (
            Known(log_ends_ms=-1, commits_ms=-1, polled=False),
            Backlog(read=5, total=5, ready=True),
            "log ends not known yet",
        ),
        (_known(1, 1), Backlog(read=5, total=5, ready=True), "commits wait for log ends"),
    ],
)
def test_what_is_missing_is_named(known: Known, backlog: Backlog, said: str) -> None:
    assert said in missing(known, backlog)


def test_the_cause_of_stale_data_is_the_problem_that_is_known() -> None:
    failed = SourceHealth(
        source=SourceKind.LOG_ENDS, ok=False, at_ms=NOW_MS, message="no broker answers"
    )

    assert why_stale(_known(60, 1), {SourceKind.LOG_ENDS: failed}, NOW_MS) == (
        "log_ends: no broker answers"
    )


@pytest.mark.parametrize(
    ("kind", "unreachable"),
    [("connection", True), ("timeout", True), ("authorization", False), ("partial", False)],
)
def test_a_cluster_is_unreachable_only_if_no_broker_answers(
    kind: str, *, unreachable: bool
) -> None:
    failed = SourceHealth(
        source=SourceKind.LOG_ENDS, ok=False, at_ms=NOW_MS, error_kind=kind, message="no"
    )
    well = SourceHealth(source=SourceKind.CONNECTION, ok=True, at_ms=NOW_MS)

    assert is_unreachable({well.source: well, failed.source: failed}) is unreachable
    assert is_unreachable({well.source: well}) is False


def test_why_a_cluster_is_not_ready_comes_before_what_is_missing_because_of_it() -> None:
    settings = MonitorSettings(
        intervals=5,
        min_distance_ms=0,
        expire_ms=86_400_000,
        allowed_lag=0,
        minimum_complete=0.0,
        history_ms=3_600_000,
    )
    monitor = ClusterMonitor("away", settings)
    refused = SourceHealth(
        source=SourceKind.CONNECTION,
        ok=False,
        at_ms=NOW_MS,
        error_kind="connection",
        message="nothing listens",
    )

    monitor.apply(refused, NOW_MS)

    assert monitor.is_unreachable(NOW_MS)
    assert monitor.not_ready_because(NOW_MS) == (
        "connection: nothing listens; the backlog of commits has not been read yet"
    )


def test_a_collector_that_says_nothing_is_named_with_what_is_late() -> None:
    assert why_stale(_known(60, 60), {}, NOW_MS).startswith("the last report came 1 min ago")
    assert why_stale(_known(60, 1), {}, NOW_MS).startswith("log ends were last read 1 min ago")
    assert why_stale(_known(1, 60), {}, NOW_MS).startswith("commits are known only up to 1 min ago")

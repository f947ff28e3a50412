"""What alerts see of a group: how far behind, since when, and what of it is only a bound."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from lagwatch.config.alerts import PolicySettings
from lagwatch.core.incident import Observation
from lagwatch.core.model import GroupStatus, PartitionStatus, Rule, TimeLagReason
from lagwatch.core.snapshot import RowTimes
from lagwatch.notify.objectives import Objectives, objective
from lagwatch.notify.observed import of_group, of_topics
from tests.support.stepped_cluster import SteppedCluster


def _behind() -> SteppedCluster:
    """Group `g` has read 10 of 100 messages of `t`."""
    cluster = SteppedCluster()
    cluster.create("t")
    cluster.ends()
    cluster.grow("t", 100)
    cluster.wait(5)
    cluster.commit("g", "t", 0, 10)
    cluster.ends()
    return cluster


@pytest.mark.parametrize(
    ("after_s", "again_s", "at_least"),
    [
        (8, None, True),
        (74, None, True),
        (130, None, False),
        (7200, None, False),
        # lagwatch started again
        (7200, 7180, True),
        (7200, 7230, True),
        (7200, 7000, False),
        (7200, 7400, False),
    ],
)
def test_a_rise_found_at_a_first_look_may_have_begun_before(after_s, again_s, at_least) -> None:
    cluster = SteppedCluster()
    cluster.create("t")
    cluster.ends()
    cluster.judge()
    cluster.wait(5)
    cluster.grow("t", 100)
    cluster.commit("g", "t", 0, 10)
    cluster.ends()
    snapshot = cluster.judge()
    first_ms = snapshot.around.first_ms
    since_ms = first_ms + after_s * 1000
    if again_s is not None:
        around = replace(snapshot.around, complete_ms=first_ms + again_s * 1000)
        snapshot = replace(snapshot, around=around)
    snapshot.group.status[:] = GroupStatus.WARN
    snapshot.rows.status[:] = PartitionStatus.WARN
    snapshot.rows.rule[:] = Rule.FALLING_BEHIND
    snapshot.rows.since_ms[:] = since_ms

    seen = of_group(snapshot, 0)

    assert snapshot.around.first_ms > 0
    assert (seen.since_ms, seen.since_at_least) == (since_ms, at_least)


@pytest.mark.parametrize(
    ("reason", "error_ms", "sure_ms", "most_ms"),
    [
        (TimeLagReason.RECORDED, 15_000.0, 5000, 35_000),
        (TimeLagReason.RECORDED, 300_000.0, 0, 320_000),
        (TimeLagReason.RECORDED, np.nan, 0, 40_000),
        # what producers say: at most 20 s
        (TimeLagReason.RECORD_TIME, 15_000.0, 5000, 20_000),
        (TimeLagReason.RECORD_TIME, 20_000.0, -1, 20_000),
        (TimeLagReason.RECORD_TIME, np.nan, -1, 20_000),
    ],
)
def test_a_time_lag_that_is_not_exact_is_sure_up_to_its_error(
    reason, error_ms, sure_ms, most_ms
) -> None:
    cluster = _behind()
    snapshot = cluster.judge()
    estimate = RowTimes(np.array([20_000]), np.array([reason], np.int8), np.array([error_ms]))
    snapshot.rows.__dict__["every_time"] = estimate
    snapshot.group.time_lag_reason[:] = reason

    seen = of_group(snapshot, 0)

    assert (seen.time_lag_ms, seen.time_lag_most_ms) == (sure_ms, most_ms)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ({"time_lag_ms": 70_000}, "1 min 10 s behind in time, more than the 1 min allowed"),
        (
            {"time_lag_ms": 70_000, "time_lag_open": True},
            "at least 1 min 10 s behind in time, more than the 1 min allowed",
        ),
        (
            {"time_lag_ms": 70_000, "time_lag_most_ms": 80_000},
            "at least 1 min 10 s behind in time, more than the 1 min allowed",
        ),
        ({"total_lag": 2700}, "2,700 messages behind, more than 10 allowed"),
        # nobody can read what was deleted
        ({"total_lag": 2700, "deleted": 1500}, "1,200 messages behind, more than 10 allowed"),
        ({"total_lag": 2700, "deleted": 2695}, ""),
    ],
)
def test_a_limit_is_missed_by_what_is_known_and_can_be_read(seen: dict, said: str) -> None:
    limits = objective(PolicySettings(max_time_lag_s=60, max_lag=10))
    assert limits is not None

    assert limits.missed(Observation(status=GroupStatus.OK, **seen), None) == said


@pytest.mark.parametrize("observe", [of_group, partial(of_topics, topics=frozenset({"t"}))])
def test_what_was_deleted_may_have_been_fetched_until_it_is_known_to_be_lost(observe) -> None:
    cluster = _behind()
    cluster.judge()
    cluster.list_groups("g")
    cluster.wait(5)
    cluster.ends(log_start=50)
    at_first = observe(cluster.judge(), 0)
    for _ in range(60):
        cluster.wait(5)
        cluster.list_groups("g")
        cluster.ends(log_start=50)
        later = observe(cluster.judge(), 0)

    assert (at_first.total_lag, at_first.deleted, at_first.perhaps_deleted) == (90, 0, 40)
    assert (later.total_lag, later.deleted, later.perhaps_deleted) == (90, 40, 0)
    assert later.lost == 40


@pytest.mark.parametrize(
    ("deleted", "perhaps", "status", "missed"),
    [
        (0, 0, GroupStatus.ERR, True),
        (0, 30, GroupStatus.ERR, True),
        # whether the limit is kept is not known: nothing opens, and nothing ends
        (0, 80, GroupStatus.UNKNOWN, False),
        (80, 0, GroupStatus.OK, False),
    ],
)
def test_a_limit_of_messages_is_neither_missed_nor_kept_by_what_may_have_been_fetched(
    deleted, perhaps, status, missed
) -> None:
    found = objective(PolicySettings(max_lag=50))
    assert found is not None
    seen = Observation(
        status=GroupStatus.OK, total_lag=100, deleted=deleted, perhaps_deleted=perhaps
    )

    judged, why = Objectives({"p": found}).judged("g", "p", seen, 0, lambda: None)

    assert (judged.status, bool(why)) == (status, missed)

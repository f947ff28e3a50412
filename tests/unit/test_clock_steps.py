"""lagwatch's clock is set while it runs: verdicts stay as they are, and outages are seen."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lagwatch.core.model import Rule
from lagwatch.ports.reports import CommitsKnown
from tests.support.stepped_cluster import SteppedCluster

_HOUR_S = 3600


class _Groups:
    """A group that reads, and one that is stalled; each step is 5 s."""

    def __init__(self, **settings) -> None:
        self.cluster = cluster = SteppedCluster(**settings)
        self.offset = 0
        cluster.create("t")
        cluster.ends()
        cluster.judge()

    def go_on(self, seconds: int, *, reads: bool = True) -> list[tuple[Rule, Rule]]:
        """The rules that are shown of both meanwhile."""
        cluster, shown = self.cluster, []
        for _ in range(0, seconds, 5):
            cluster.wait(5)
            cluster.grow("t", 100)
            self.offset += 100
            if reads:
                cluster.commit("healthy", "t", 0, self.offset - 50)
            cluster.commit("stalled", "t", 0, 1)
            cluster.apply(CommitsKnown(until_ms=np.array([cluster.now_ms]), polled=()))
            cluster.ends()
            rows = cluster.judge().rows
            shown.append((Rule(rows.rule[0]), Rule(rows.rule[1])))
        return shown


@pytest.mark.slow
@settings(max_examples=25)
@example([_HOUR_S, 0, -_HOUR_S, 0])
@given(st.lists(st.integers(-4 * _HOUR_S, 4 * _HOUR_S), min_size=1, max_size=4))
def test_a_clock_that_is_set_makes_no_verdict_better_or_worse(steps_s: list[int]) -> None:
    # an absence that seems to be long must not look like a silence, however short the limit is
    groups = _Groups(stop_after_ms=25_000, stall_after_ms=25_000)
    groups.go_on(200)
    for ahead_s in steps_s:
        groups.cluster.step_clock(ahead_s)
        healthy, stalled = zip(*groups.go_on(100), strict=True)
        assert set(healthy) <= {Rule.PROGRESSING, Rule.PAUSED}
        # how old its commits are is known once the skew is
        assert set(stalled) <= {Rule.STALLED, Rule.STOPPED}


def test_a_report_from_before_the_clock_was_set_back_hides_no_silence() -> None:
    """It waited to be taken in, and says that commits are known up to a time that is to come."""
    groups = _Groups(stop_after_ms=25_000, stall_after_ms=25_000)
    groups.go_on(200)
    groups.cluster.step_clock(4 * _HOUR_S)
    groups.go_on(100)
    late_ms = groups.cluster.now_ms
    groups.cluster.step_clock(0)
    groups.cluster.ends()
    groups.cluster.apply(CommitsKnown(until_ms=np.array([late_ms]), polled=()))

    healthy, _ = zip(*groups.go_on(300, reads=False), strict=True)

    assert healthy[-1] is Rule.STOPPED


def test_a_group_is_not_forgotten_by_a_clock_that_may_be_wrong() -> None:
    cluster = SteppedCluster(expire_ms=7 * 86_400_000)
    cluster.create("t")
    cluster.commit("rests", "t", 0, 1)
    cluster.ends()
    cluster.judge()
    ahead_ms = 8 * 86_400_000
    cluster.step_clock(ahead_ms / 1000)
    cluster.monitor.doubt_clock(ahead_ms)
    doubted = []
    for offset in range(1, 30):
        cluster.commit("runs", "t", 0, offset)
        cluster.ends()
        doubted.append(cluster.judge().groups)
        cluster.wait(5)

    # believed by itself, but Kafka's clock is known by then
    cluster.monitor.doubt_clock(0)
    cluster.wait(600)
    cluster.commit("runs", "t", 0, 30)
    cluster.ends()
    refuted = cluster.judge().groups
    cluster.step_clock(0)
    cluster.wait(ahead_ms / 1000 + _HOUR_S)
    cluster.commit("runs", "t", 0, 31)
    cluster.ends()
    true = cluster.judge().groups

    assert set(doubted) == {("rests", "runs")}
    assert refuted == ("rests", "runs")
    assert true == ("runs",)


@pytest.mark.slow
@pytest.mark.parametrize("steps_s", [[_HOUR_S, 0], [_HOUR_S, 0, -_HOUR_S], [-_HOUR_S]])
def test_a_group_that_stops_after_the_clock_was_set_back_is_found(steps_s: list[int]) -> None:
    groups = _Groups()
    groups.go_on(700)
    for ahead_s in steps_s:
        groups.cluster.step_clock(ahead_s)
        groups.go_on(100)

    shown = groups.go_on(1500, reads=False)

    assert shown[-1] == (Rule.STOPPED, Rule.STALLED)


def test_a_commit_that_waits_while_the_clock_is_set_back_holds_up_no_other() -> None:
    groups = _Groups(stop_after_ms=25_000, stall_after_ms=25_000)
    groups.go_on(200)
    groups.cluster.wait(1)  # it is newer than all log ends
    groups.cluster.grow("t", 100)
    groups.offset += 100
    groups.cluster.commit("healthy", "t", 0, groups.offset - 50)
    groups.cluster.step_clock(-_HOUR_S)

    healthy, stalled = zip(*groups.go_on(100), strict=True)

    assert set(healthy) <= {Rule.PROGRESSING, Rule.PAUSED}
    assert set(stalled) == {Rule.STALLED}
    assert groups.cluster.judge().rows.committed[0] == groups.offset - 50

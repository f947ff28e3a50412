"""A group that was called silent stays so, whatever becomes of Kafka, until it moves."""

from hypothesis import given, settings
from hypothesis import strategies as st

from lagwatch.core.model import PartitionStatus
from tests.support.stepped_cluster import SteppedCluster

_STEP_S = 5


def _dead_after_a_first_run() -> SteppedCluster:
    """A group that worked for ten seconds and is gone, with messages to read."""
    told = SteppedCluster(rules="lagwatch")
    told.create("t")
    told.grow("t", 50)
    told.ends()
    for offset in (10, 20, 30):
        told.groups_hold("g", "t", 0)
        told.wait(_STEP_S)
        told.commit("g", "t", 0, offset)
        told.ends()
        told.judge()
    told.wait(1)
    told.list_groups("g")
    return told


def _status(told: SteppedCluster) -> PartitionStatus:
    snapshot = told.judge()
    return PartitionStatus(int(snapshot.rows.status[0]))


@settings(max_examples=6)
@given(st.lists(st.tuples(st.integers(1, 400), st.integers(8, 300)), max_size=4))
def test_outages_hide_no_silence_that_was_said(parts: list[tuple[int, int]]) -> None:
    """`parts`: seconds with Kafka there, then away."""
    told, said = _dead_after_a_first_run(), False
    for there_s, away_s in [*parts, (700, 0)]:
        for _ in range(there_s // _STEP_S + 1):
            told.wait(_STEP_S)
            told.grow("t", 5)
            told.ends()
            status = _status(told)
            assert not said or status is not PartitionStatus.OK
            said |= status is PartitionStatus.WARN
        told.wait(away_s)
    assert said

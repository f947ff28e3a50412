"""Causes after lagwatch has started again."""

from lagwatch.core.causes import CauseName
from lagwatch.core.model import Rule
from lagwatch.ports.queries import Partitions
from lagwatch.query import SnapshotQueries
from tests.support.stepped_cluster import SteppedCluster


def _rounds(cluster: SteppedCluster, count: int) -> None:
    for _ in range(count):
        cluster.wait(5)
        cluster.ends()
        cluster.judge()


def _named(cluster: SteppedCluster) -> tuple[Rule | None, CauseName | None]:
    queries = SnapshotQueries({"here": cluster.monitor}, health=lambda: ())
    verdict = queries.verdict("here", "g", Partitions.ALL)
    cause = queries.cause(verdict, queries.outlook("here", "g"))
    return verdict.rule, None if cause is None else cause.name


def test_a_wrong_offset_is_no_new_topic_after_a_restart_either() -> None:
    cluster = SteppedCluster()
    cluster.create("t", 1)
    cluster.grow("t", 100)
    cluster.groups = ("g",)
    _rounds(cluster, 4)
    cluster.commit("g", "t", 0, 900)
    _rounds(cluster, 3)
    before = _named(cluster)

    cluster.restart(away_s=10)
    _rounds(cluster, 3)

    assert before == (Rule.AHEAD_OF_LOG_END, CauseName.COMMITTED_BEYOND_END)
    assert _named(cluster) == before

"""What `ports.Queries` promises: kept by the real one, and by the double that API tests use."""

from collections.abc import Callable

import pytest

from lagwatch.core.model import PartitionStatus, Rule
from lagwatch.errors import NotFoundError
from lagwatch.ports.queries import Partitions, Queries
from lagwatch.query import SnapshotQueries
from tests.support.api_doubles import GivenCluster, GivenQueries
from tests.support.history import Live


def _real() -> Queries:
    """Group `a` on `here` reads partition 0 of two of `orders`, and has read all of it."""
    live, other = Live(), Live()
    live.topics(orders=2)
    live.produce("orders", 0, 10)
    for _ in range(12):
        live.wait(10)
        live.commit(("a", "orders", 0, live.ends["orders", 0]))
    live.judge()
    other.judge()
    return SnapshotQueries({"there": other.monitor, "here": live.monitor}, health=tuple)


def _double() -> Queries:
    """The double, given what the real one answers."""
    real = _real()
    given = GivenCluster(
        topics={"orders": real.log_ends("here", "orders")},
        verdicts={"a": real.verdict("here", "a", Partitions.ALL)},
        details={"a": real.detail("here", "a")},
        groups_of_topic={"orders": ("a",)},
    )
    return GivenQueries({"there": GivenCluster(), "here": given})


@pytest.fixture(params=[_real, _double], ids=["real", "double"])
def queries(request: pytest.FixtureRequest) -> Queries:
    build: Callable[[], Queries] = request.param
    return build()


def test_clusters_are_sorted(queries: Queries) -> None:
    assert queries.clusters() == ("here", "there")


def test_what_is_known_is_answered(queries: Queries) -> None:
    assert queries.topics("here") == ("orders",)
    assert queries.log_ends("here", "orders") == (110, 100)
    assert queries.groups("here") == ("a",)
    assert queries.groups_of_topic("here", "orders") == ("a",)
    assert queries.snapshot("here").cluster
    assert list(queries.detail("here", "a").topics) == ["orders"]
    assert queries.topics("there") == queries.groups("there") == ()


def test_a_verdict_shows_as_many_partitions_as_is_asked(queries: Queries) -> None:
    bad = queries.verdict("here", "a", Partitions.BAD).partitions
    every = queries.verdict("here", "a", Partitions.ALL).partitions
    committed = queries.verdict("here", "a", Partitions.COMMITTED).partitions

    assert all(each.status is not PartitionStatus.OK for each in bad)
    assert [each.partition for each in every] == [0, 1]
    assert [each.partition for each in committed] == [0]
    assert every[1].rule is Rule.NEVER_COMMITTED


def test_outlooks_leave_out_groups_that_are_not_known(queries: Queries) -> None:
    assert list(queries.outlooks("here", ["unknown", "a"])) == ["a"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda queries: queries.topics("nowhere"),
        lambda queries: queries.log_ends("nowhere", "orders"),
        lambda queries: queries.groups("nowhere"),
        lambda queries: queries.groups_of_topic("nowhere", "orders"),
        lambda queries: queries.verdict("nowhere", "a", Partitions.ALL),
        lambda queries: queries.outlook("nowhere", "a"),
        lambda queries: queries.outlooks("nowhere", ["a"]),
        lambda queries: queries.detail("nowhere", "a"),
        lambda queries: queries.info("nowhere", "a"),
        lambda queries: queries.snapshot("nowhere"),
    ],
)
def test_a_cluster_that_is_not_known_is_named(queries: Queries, ask) -> None:
    with pytest.raises(NotFoundError) as caught:
        ask(queries)

    assert (caught.value.kind, caught.value.name) == ("cluster", "nowhere")


@pytest.mark.parametrize(
    "ask",
    [
        lambda queries: queries.verdict("here", "unknown", Partitions.ALL),
        lambda queries: queries.outlook("here", "unknown"),
        lambda queries: queries.detail("here", "unknown"),
    ],
)
def test_a_group_that_is_not_known_is_named(queries: Queries, ask) -> None:
    with pytest.raises(NotFoundError) as caught:
        ask(queries)

    assert (caught.value.kind, caught.value.name) == ("group", "unknown")


def test_the_members_of_a_group_that_is_not_known_are_not_known(queries: Queries) -> None:
    assert queries.info("here", "unknown") is None


def test_a_topic_that_is_not_known_is_named_and_has_no_groups(queries: Queries) -> None:
    with pytest.raises(NotFoundError) as caught:
        queries.log_ends("here", "nothing")

    assert (caught.value.kind, caught.value.name) == ("topic", "nothing")
    assert queries.groups_of_topic("here", "nothing") == ()

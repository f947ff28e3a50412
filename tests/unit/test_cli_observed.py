"""A short look: what was seen of a group, and where that is not enough."""

import pytest

from lagwatch.cli.local import LocalSource
from lagwatch.core.model import EpochMs, OpenTransaction
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.ports.reports import OpenTransactions
from lagwatch.query import SnapshotQueries
from lagwatch_api.v1.fleet import COLUMNS, fleet_rows
from tests.support.history import Live
from tests.support.stepped_cluster import SteppedCluster


def _watched() -> Live:
    """Groups that have read all, read on, and rest with lag."""
    live = Live()
    live.topics(orders=1)
    live.wait(1)
    live.produce("orders", 0, 100)
    live.commit(
        ("done", "orders", 0, 200), ("moves", "orders", 0, 110), ("rests", "orders", 0, 110)
    )
    live.wait(1)
    return live


def _verdicts(live: Live, first: ClusterSnapshot) -> dict[str, tuple[str, str]]:
    """Group → status and note after a look that began with `first`."""
    live.judge()
    queries = SnapshotQueries({"here": live.monitor}, health=tuple)
    source = LocalSource(queries, {"here": first})
    views = [source.group("here", group, show_all=False) for group in source.groups("here")]
    return {view.group: (view.status, view.note) for view in views}


def test_only_the_log_end_and_progress_that_was_seen_are_ok() -> None:
    live = _watched()
    first = live.judge()

    live.commit(("moves", "orders", 0, 150))
    live.wait(5)

    assert _verdicts(live, first) == {
        "done": ("OK", ""),
        "moves": ("OK", ""),
        "rests": ("UNKNOWN", "not enough seen"),
    }


def test_a_look_of_an_instant_sees_no_progress() -> None:
    live = _watched()

    verdicts = _verdicts(live, live.judge())

    assert verdicts["done"] == ("OK", "")
    assert verdicts["moves"] == verdicts["rests"] == ("UNKNOWN", "not enough seen")


@pytest.mark.parametrize(
    ("age_s", "said"),
    [
        (1200, ("WARN", "held_by_transaction", "")),
        (300, ("OK", "waits_for_transaction", "")),
        (None, ("UNKNOWN", "waits_for_transaction", "not enough seen")),
    ],
)
def test_a_group_that_waits_for_a_transaction_is_judged_by_what_the_broker_says(
    age_s: int | None, said: tuple[str, str, str]
) -> None:
    cluster = SteppedCluster()
    cluster.create("t")
    cluster.grow("t", 100)
    cluster.commit("g", "t", 0, 40)
    cluster.ends(stable=40)
    first = cluster.judge()

    cluster.wait(5)
    cluster.ends(stable=40)
    started_ms = None if age_s is None else EpochMs(cluster.now_ms - 1000 * age_s)
    transaction = OpenTransaction(
        topic="t",
        partition=0,
        last_stable=40,
        since_ms=EpochMs(cluster.now_ms - 5000),
        producer_id=7,
        transactional_id="tx",
        started_ms=started_ms,
        problem="",
    )
    cluster.apply(OpenTransactions(transactions=(transaction,)))
    cluster.judge()
    source = LocalSource(SnapshotQueries({"here": cluster.monitor}, health=tuple), {"here": first})
    view = source.group("here", "g", show_all=True)

    assert (view.status, view.partitions[0].rule, view.note) == said


def test_a_group_that_is_late_and_gets_later_is_not_called_ok() -> None:
    live = Live()
    live.topics(orders=1)
    for number in range(1, 42):
        live.wait(5)
        live.produce("orders", 0, 100)
        live.commit(("slow", "orders", 0, 25 * number), ("quick", "orders", 0, 100 * number))
        if number == 40:
            first = live.judge()
    live.wait(1)

    assert _verdicts(live, first) == {
        "slow": ("UNKNOWN", "not enough seen: its lag grows"),
        "quick": ("OK", ""),
    }


def test_members_that_hold_messages_and_do_not_commit_are_listed() -> None:
    live = Live()
    live.topics(orders=1, events=1)
    live.wait(1)
    live.commit(("done", "orders", 0, 100))
    live.assign("silent", ("events", 0))
    live.assign("elsewhere", ("absent", 0), ("events", 7))
    live.wait(1)
    first = live.judge()
    live.wait(5)

    assert _verdicts(live, first) == {
        "done": ("OK", ""),
        "silent": ("UNKNOWN", "not enough seen: no commit"),
    }


def test_a_loss_that_a_look_finds_may_be_older_than_the_look() -> None:
    cluster = SteppedCluster()
    cluster.create("t")
    cluster.grow("t", 100)
    cluster.commit("g", "t", 0, 40)
    cluster.ends(log_start=90)
    first = cluster.judge()
    cluster.wait(5)
    cluster.ends(log_start=90)
    snapshot = cluster.judge()

    source = LocalSource(SnapshotQueries({"here": cluster.monitor}, health=tuple), {"here": first})
    view = source.group("here", "g", show_all=True)
    (row,) = fleet_rows(snapshot).values()

    assert view.partitions[0].rule == "records_lost"
    assert view.since_at_least
    assert dict(zip(COLUMNS, row, strict=True))["since_at_least"] is True

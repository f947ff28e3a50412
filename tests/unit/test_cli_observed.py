"""A short look: what was seen of a group, and where that is not enough."""

from lagwatch.cli.local import LocalSource
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.query import SnapshotQueries
from tests.support.history import Live


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


def _told(live: Live, first: ClusterSnapshot) -> dict[str, tuple[str, str]]:
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

    assert _told(live, first) == {
        "done": ("OK", ""),
        "moves": ("OK", ""),
        "rests": ("UNKNOWN", "not enough seen"),
    }


def test_a_look_of_an_instant_sees_no_progress() -> None:
    live = _watched()

    told = _told(live, live.judge())

    assert told["done"] == ("OK", "")
    assert told["moves"] == told["rests"] == ("UNKNOWN", "not enough seen")

"""An open incident outlives the time in which its group cannot be judged."""

from functools import partial

from lagwatch.config.alerts import AlertsSettings
from lagwatch.core.incident import Act, Incident, State
from lagwatch.core.model import EpochMs, GroupStatus, Rule
from lagwatch.notify.policies import PolicyBook
from lagwatch.notify.store import Kept
from lagwatch.notify.watch import Decided, Watch
from lagwatch.ports.reports import Backlog
from lagwatch.query import SnapshotQueries
from tests.support.history import NOON_MS, Live


def _watch() -> Watch:
    """One whose group `a` had an open incident when lagwatch was restarted long ago."""
    at_ms = EpochMs(NOON_MS - 3_600_000)
    incident = Incident(since_ms=at_ms, opened_ms=at_ms, severity=GroupStatus.ERR)
    kept = Kept(
        cluster="here",
        group="a",
        incident="i1",
        policy="default",
        complete=0.0,
        state=State(incident=incident),
    )
    book = PolicyBook(AlertsSettings(policies={"default": {"close_for_s": 0}}))
    return Watch("here", book, [kept], {}, started_ms=0)


def _decided(watch: Watch, live: Live) -> list[Decided]:
    queries = SnapshotQueries({"here": live.monitor}, health=tuple)
    outlook = partial(queries.outlook, "here")
    return watch.decide(live.judge(), EpochMs(live.now_ms), lambda _: False, outlook)


def test_an_incident_stays_open_while_a_partition_of_its_group_is_warming_up() -> None:
    live = Live()
    live.topics(orders=2)
    live.wait(1)
    live.produce("orders", 1, 50)
    live.commit(("a", "orders", 0, 100), ("a", "orders", 1, 100))
    live.wait(1)
    watch = _watch()

    assert live.judge().group.status.tolist() == [GroupStatus.OK]
    assert _decided(watch, live) == []
    assert watch.open_incidents == 1


def test_it_closes_when_every_partition_is_judged_and_good() -> None:
    live = Live()
    live.topics(orders=2)
    live.wait(1)
    live.commit(("a", "orders", 0, 100), ("a", "orders", 1, 100))
    live.wait(1)

    (decided,) = _decided(_watch(), live)

    assert decided.decision.act is Act.CLOSE


def test_it_stays_open_where_it_is_not_known_since_when_the_group_is_silent() -> None:
    """Lagwatch began anew, without a checkpoint: a stop looks like a batch job between runs."""
    live = Live()
    live.topics(orders=1)
    live.commit(("a", "orders", 0, 50))
    live.now_ms += 2 * 3_600_000
    live.monitor.apply(Backlog(read=1, total=1, ready=True), EpochMs(live.now_ms))
    for _ in range(64):
        live.wait(5)
        live.judge()
    watch = _watch()

    assert live.judge().rows.rule.tolist() == [Rule.SILENT_BEFORE_START]
    assert _decided(watch, live) == []
    assert watch.open_incidents == 1

"""How many consumers a group should have: learned, bounded, damped, held."""

import asyncio
from collections.abc import Iterable

import httpx
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.scale import CALM_MS, Goal, ScaleAdvice, Scaler, Seen
from lagwatch.monitor.scaling import FollowedGroups
from lagwatch.query import SnapshotQueries
from lagwatch_api import create_app
from tests.support.api_doubles import GivenSettings, RecordingCommands
from tests.support.history import Live, SetClock

_PLACES = (("orders", 0),)


class _Group:
    """A group whose consumers read 100 messages a second each."""

    def __init__(self, goal: Goal, consumers: int) -> None:
        self.scaler = Scaler(goal)
        self.consumers = consumers
        self.at_ms, self.committed, self.log_end = 0, 0, 0

    def live(self, seconds: int, *, produced_per_s: int) -> ScaleAdvice:
        """Time passes, seen every 5 s."""
        for _ in range(seconds // 5):
            self.at_ms += 5000
            self.log_end += 5 * produced_per_s
            self.committed = min(self.log_end, self.committed + 500 * self.consumers)
            self.see()
        return self.scaler.advice

    def see(self, *, consumers_known: bool = True, lag_known: bool = True) -> ScaleAdvice:
        return self.scaler.observe(
            Seen(
                at_ms=self.at_ms,
                places=_PLACES,
                committed=(self.committed,),
                log_end=(self.log_end if lag_known else -1,),
                consumers=self.consumers if consumers_known else None,
                partitions=12,
            )
        )


def _group(consumers: int = 2, **goal: int) -> _Group:
    return _Group(Goal(time_lag_s=60, **goal), consumers)


def test_the_first_advice_changes_nothing() -> None:
    group = _group(consumers=3)

    advice = group.see()

    assert advice.desired == 3
    assert advice.held == "rates are not measured yet"


def test_a_group_that_falls_behind_gets_what_it_needs_and_no_more() -> None:
    group = _group(consumers=2)

    advice = group.live(120, produced_per_s=400)

    # 400/s come and 24,000 wait, to be read in a minute, at 100/s each
    assert advice.per_consumer_per_s == pytest.approx(100)
    assert advice.lag == 24_000
    assert advice.desired == 8


def test_what_is_produced_leaves_consumers_a_fifth_of_their_time() -> None:
    group = _group(consumers=2)
    group.live(120, produced_per_s=400)
    group.consumers = 12
    group.live(600, produced_per_s=400)

    advice = group.live(300, produced_per_s=400)

    assert advice.lag == 0
    assert advice.desired == 5


def test_fewer_are_advised_only_when_none_of_the_last_minutes_needed_more() -> None:
    group = _group(consumers=2)
    high = group.live(120, produced_per_s=400).desired
    group.consumers = 12
    calm_s = CALM_MS // 1000

    early = group.live(calm_s - 60, produced_per_s=50).desired
    late = group.live(240, produced_per_s=50).desired

    assert early is not None
    assert high is not None
    assert early >= high
    assert late == 1


def test_a_group_that_was_never_busy_is_tried_with_one_consumer_less() -> None:
    group = _group(consumers=6)

    before = group.live(240, produced_per_s=10).desired
    after = group.live(CALM_MS // 1000, produced_per_s=10).desired

    assert (before, after) == (6, 5)


def test_the_last_good_number_stays_while_something_is_not_known() -> None:
    group = _group(consumers=2)
    good = group.live(120, produced_per_s=400)
    group.at_ms += 5000

    unseen = [
        group.scaler.hold("the group is not known now"),
        group.see(lag_known=False),
        group.see(consumers_known=False),
    ]

    assert [advice.desired for advice in unseen] == [good.desired] * 3
    assert unseen[0].held == "the group is not known now"
    assert all(advice.held for advice in unseen)
    assert [advice.at_ms for advice in unseen] == [good.at_ms] * 3


def test_no_rate_is_drawn_over_a_gap() -> None:
    group = _group(consumers=2)
    group.live(120, produced_per_s=400)
    group.at_ms += 3_600_000
    group.log_end += 10_000_000

    advice = group.see()

    assert advice.held == "rates are not measured yet"
    assert advice.desired == 8


@given(
    seen=st.lists(
        st.tuples(
            st.integers(0, 90_000),
            st.integers(-1, 10_000),
            st.integers(-1, 10_000),
            st.none() | st.integers(0, 20),
        )
    ),
    least=st.integers(0, 4),
    more=st.integers(0, 8),
)
def test_advice_is_within_its_bounds_whatever_is_seen(
    seen: Iterable[tuple[int, int, int, int | None]], least: int, more: int
) -> None:
    scaler, at_ms = Scaler(Goal(time_lag_s=60, least=least, most=max(1, least + more))), 0

    for later_ms, committed, log_end, consumers in seen:
        at_ms += later_ms
        advice = scaler.observe(
            Seen(
                at_ms=at_ms,
                places=_PLACES,
                committed=(committed,),
                log_end=(log_end,),
                consumers=consumers,
                partitions=6,
            )
        )
        assert advice.desired is None or least <= advice.desired <= min(6, max(1, least + more))


def _get(live: Live, scaling: FollowedGroups, path: str) -> httpx.Response:
    queries = SnapshotQueries({"here": live.monitor}, health=lambda: ())
    app = create_app(
        queries, RecordingCommands(), GivenSettings(), scaling=scaling, hostname="h", version="1"
    )

    async def got() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(path)

    return asyncio.run(got())


@pytest.fixture
def live() -> Live:
    """A group with one member that holds two partitions."""
    live = Live()
    live.topics(orders=2)
    live.wait(1)
    live.assign("billing", ("orders", 0), ("orders", 1))
    live.commit(("billing", "orders", 0, 100), ("billing", "orders", 1, 100))
    live.wait(1)
    live.judge()
    return live


def _scaling(live: Live, clock: SetClock) -> FollowedGroups:
    return FollowedGroups(SnapshotQueries({"here": live.monitor}, health=lambda: ()), clock)


_PATH = "/api/v1/clusters/here/groups/billing/scale"


def test_a_group_that_is_forgotten_keeps_its_number(live: Live) -> None:
    scaling = _scaling(live, SetClock())
    first = _get(live, scaling, _PATH).json()

    live.forget("billing")
    live.wait(1)
    scaling.observe(live.judge())
    later = _get(live, scaling, _PATH).json()

    assert (first["desired_consumers"], first["consumers"], first["partitions"]) == (1, 1, 2)
    assert later["desired_consumers"] == 1
    assert (later["held"], later["reason"]) == (True, "the group is not known now")
    assert later["at_ms"] == first["at_ms"]


def _eighteen_rounds(live: Live, scaling: FollowedGroups, *, produced: int, read: int) -> None:
    """Ninety seconds; so many messages are produced and read in each round."""
    for round_ in range(1, 19):
        live.produce("orders", 0, produced)
        live.commit(("billing", "orders", 0, 100 + read * round_))
        live.wait(5)
        scaling.observe(live.judge())


def test_rates_come_from_the_rounds_after_the_first_question(live: Live) -> None:
    scaling = _scaling(live, SetClock())
    _get(live, scaling, _PATH)
    _eighteen_rounds(live, scaling, produced=50, read=20)

    answer = _get(live, scaling, _PATH).json()

    assert not answer["held"], answer["reason"]
    assert answer["produced_per_s"] == pytest.approx(10)
    assert answer["consumed_per_s"] == pytest.approx(4)
    assert answer["lag"] == 18 * 30
    assert answer["desired_consumers"] == 2


def test_all_members_of_a_share_group_count_though_they_share_partitions(live: Live) -> None:
    live.describe("billing", kind="share", members=5)
    live.wait(1)
    live.judge()
    scaling = _scaling(live, SetClock())
    first = _get(live, scaling, _PATH).json()
    _eighteen_rounds(live, scaling, produced=500, read=250)

    answer = _get(live, scaling, _PATH).json()

    assert (first["desired_consumers"], first["consumers"], first["partitions"]) == (5, 5, 2)
    assert answer["consumed_per_s"] == pytest.approx(50)
    assert answer["per_consumer_per_s"] == pytest.approx(10)
    assert answer["desired_consumers"] > 10, "100 per s are produced"
    bounded = _get(live, _scaling(live, SetClock()), _PATH + "?max=3").json()
    assert bounded["desired_consumers"] == 3


def test_the_last_good_number_outlives_a_restart(live: Live) -> None:
    before = _scaling(live, SetClock())
    _get(live, before, _PATH)
    _eighteen_rounds(live, before, produced=50, read=20)
    advised = _get(live, before, _PATH).json()

    again = _scaling(live, SetClock())
    again.restore("here", orjson.loads(orjson.dumps(before.kept("here"))))
    answer = _get(live, again, _PATH).json()
    live.wait(5)
    again.observe(live.judge())
    later = _get(live, again, _PATH).json()

    assert answer["held"]
    assert answer["reason"] == "rates are not measured yet since lagwatch was restarted"
    same = ("desired_consumers", "at_ms", "produced_per_s", "per_consumer_per_s")
    assert [answer[name] for name in same] == [advised[name] for name in same]
    assert (later["desired_consumers"], later["held"]) == (2, True)
    assert again.kept("elsewhere") == []


def test_who_is_not_asked_about_is_not_followed(live: Live) -> None:
    clock = SetClock()
    scaling = _scaling(live, clock)
    _get(live, scaling, _PATH)
    clock.ms += 3_600_001

    live.forget("billing")
    live.wait(1)
    scaling.observe(live.judge())

    assert _get(live, scaling, _PATH).status_code == 404


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (_PATH + "?target=soon", 400),
        (_PATH + "?target=0s", 400),
        (_PATH + "?max=0", 400),
        (_PATH + "?min=3&max=2", 400),
        (_PATH.replace("billing", "nobody"), 404),
        (_PATH.replace("here", "nowhere"), 404),
    ],
)
def test_questions_that_cannot_be_answered(live: Live, path: str, status: int) -> None:
    assert _get(live, _scaling(live, SetClock()), path).status_code == status

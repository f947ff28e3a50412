"""The limit `catch_up_within_s` is about the forecast that the API and the page show."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.config.alerts import AlertsSettings
from lagwatch.core.forecast import CatchUpReason, GroupOutlook, from_lags
from lagwatch.core.incident import Act, Observation, Reason
from lagwatch.core.model import EpochMs, GroupStatus
from lagwatch.core.words import duration
from lagwatch.notify.backtest import BackTest, Sample
from lagwatch.notify.policies import PolicyBook
from lagwatch.notify.store import Kept
from lagwatch.notify.verdict import limit_json
from lagwatch.notify.watch import Decided, Watch
from lagwatch.ports.queries import Partitions
from lagwatch.query import SnapshotQueries
from tests.support.history import Live

_STEP_S = 10


def _book(**policy: object) -> PolicyBook:
    return PolicyBook(AlertsSettings(policies={"p": {"close_for_s": 0, **policy}}))


class Scene:
    """A group that is far behind and reads at a constant speed, while 10/s are produced."""

    def __init__(self, **policy: object) -> None:
        self.live = Live()
        self.live.topics(orders=1)
        self.queries = SnapshotQueries({"here": self.live.monitor}, health=tuple)
        self.watch = Watch("here", _book(**policy), [], {}, started_ms=self.live.now_ms)
        self.committed = 0
        self.back_ms = 0
        """By how much the clock of lagwatch was set back."""
        self.rates_known = True
        self.decided: list[Decided] = []

    def restart(self, **policy: object) -> None:
        """Begin anew with what is stored of the incident; the speeds are not known then."""
        opened = self.decided[-1]
        kept = Kept(
            cluster="here",
            group="a",
            incident=opened.incident,
            policy="p",
            complete=1.0,
            state=opened.after,
        )
        self.watch = Watch("here", _book(**policy), [kept], {}, started_ms=self.live.now_ms)
        self.rates_known = False

    def outlook(self, group: str) -> GroupOutlook:
        found = self.queries.outlook("here", group)
        if self.rates_known:
            return found
        whole = replace(found.whole, catch_up_s=None, catch_up_reason=CatchUpReason.RATES_UNKNOWN)
        return replace(found, whole=whole)

    def reads(self, per_s: int, for_s: int) -> None:
        for _ in range(0, for_s, _STEP_S):
            self.live.produce("orders", 0, 10 * _STEP_S)
            self.committed += per_s * _STEP_S
            self.live.wait(_STEP_S)
            self.live.commit(("a", "orders", 0, self.committed))
            snapshot = self.live.judge()
            now_ms = EpochMs(self.live.now_ms - self.back_ms)
            found = self.watch.decide(snapshot, now_ms, lambda _: False, self.outlook)
            self.watch.apply(found)
            self.decided += found


@pytest.mark.parametrize("per_s", [5, 12, 15, 40])
def test_the_limit_is_missed_when_the_forecast_of_the_group_says_so(per_s: int) -> None:
    scene = Scene(catch_up_within_s=600)
    scene.reads(6, 600)
    before = len(scene.decided)
    lag = scene.live.ends["orders", 0] - scene.committed
    scene.reads(per_s, 60)

    whole = scene.queries.outlook("here", "a").whole
    late = whole.catch_up_reason is not CatchUpReason.CATCHING_UP or (
        whole.catch_up_s is not None and whole.catch_up_s > 600
    )
    is_open = scene.watch.open_incidents == 1

    assert lag > 2_000
    assert before >= 1, "it falls behind, which is no error by its verdict"
    assert "does not catch up at its speed" in scene.decided[0].missed
    assert is_open is late
    assert late is (per_s < 15)


def test_an_incident_stays_open_while_after_a_restart_no_speed_is_known() -> None:
    scene = Scene(catch_up_within_s=600)
    scene.reads(6, 600)
    opened = [each.decision.act for each in scene.decided]

    scene.restart(catch_up_within_s=600)
    scene.reads(6, 120)
    unknown = scene.decided[1:]
    scene.rates_known = True
    scene.reads(6, 60)
    again = scene.decided[1:]
    scene.reads(60, 300)

    assert opened == [Act.OPEN]
    assert unknown == again == []
    assert [each.decision.reason for each in scene.decided[1:]] == [Reason.HEALED]


def test_an_incident_stays_open_while_the_speed_is_not_known_any_more() -> None:
    scene = Scene(catch_up_within_s=600)
    scene.reads(6, 600)

    scene.rates_known = False
    scene.reads(6, 120)

    assert [each.decision.act for each in scene.decided] == [Act.OPEN]


def test_a_policy_for_one_topic_asks_when_that_topic_is_read() -> None:
    scene = Scene(catch_up_within_s=600, topic="^orders$")
    scene.live.topics(orders=1, mail=1)
    scene.live.commit(("a", "mail", 0, 0))
    scene.reads(6, 600)

    assert scene.watch.open_incidents == 1


def test_a_notice_about_a_limit_lists_who_is_behind_and_how_fast_that_grows() -> None:
    scene = Scene(max_lag=100)
    scene.reads(6, 600)
    verdict = scene.queries.verdict("here", "a", Partitions.ALL)
    trend = scene.queries.outlook("here", "a").whole.lag_trend_per_s

    found = limit_json(verdict, trend)

    assert [each["partition"] for each in found["partitions"]] == [0]
    assert found["partitions"][0]["current_lag"] > 2_000
    assert found["lag_trend_per_s"] == pytest.approx(4, rel=0.2)


@pytest.mark.parametrize(
    ("limits", "now", "reason"),
    [
        ({"max_lag": 100}, {}, Reason.LIMIT_REMOVED),
        ({"max_lag": 100}, {"max_lag": 1_000_000}, Reason.LIMIT_CHANGED),
        ({"max_time_lag_s": 30}, {"max_lag": 1_000_000}, Reason.LIMIT_CHANGED),
        ({"max_lag": 100}, {"group": "^other$"}, Reason.NO_POLICY),
        ({"max_lag": 100}, {"max_lag": 100, "threshold": "never"}, Reason.THRESHOLD_CHANGED),
    ],
)
def test_an_incident_whose_limit_is_taken_away_has_not_healed(limits, now, reason) -> None:
    scene = Scene(**limits)
    scene.reads(6, 600)
    opened = [each.decision.act for each in scene.decided]

    scene.watch.use(_book(**now))
    scene.reads(6, 10)

    assert opened == [Act.OPEN]
    assert [each.decision.reason for each in scene.decided[1:]] == [reason]


def test_a_limit_is_not_missed_since_before_the_offsets_were_set_back() -> None:
    scene = Scene(max_time_lag_s=10)
    scene.reads(10, 600)
    good_ms = scene.live.now_ms
    scene.committed -= 400
    scene.reads(10, 30)

    (opened,) = scene.decided
    assert "behind in time" in opened.missed
    assert opened.after.incident is not None
    assert opened.after.incident.since_ms >= good_ms


def test_a_spent_budget_whose_limit_is_taken_away_has_not_healed() -> None:
    scene = Scene(max_lag=100, objective_share=0.999)
    scene.reads(6, 60)
    scene.reads(0, 600)  # it stops, which the incident names besides the limit
    scene.reads(10 + (scene.live.ends["orders", 0] - scene.committed - 20) // 60, 60)
    acts = {each.decision.act for each in scene.decided}
    scene.decided.clear()

    scene.watch.use(_book())
    scene.reads(10, 10)

    assert 0 < scene.live.ends["orders", 0] - scene.committed < 100
    assert Act.OPEN in acts
    assert Act.CLOSE not in acts
    assert [each.decision.reason for each in scene.decided] == [Reason.LIMIT_REMOVED]


def test_an_incident_does_not_end_before_it_began_when_the_clock_is_set_back() -> None:
    scene = Scene(max_lag=100)
    scene.reads(6, 600)

    scene.back_ms = 3_600_000
    scene.watch.use(_book())
    scene.reads(6, 5)

    ended = scene.decided[-1]
    assert ended.decision.act is Act.CLOSE
    assert ended.before.incident is not None
    assert ended.before.incident.since_ms <= scene.live.now_ms - 3_600_000
    assert ended.before.incident.clock_set_back


def test_limits_that_were_changed_before_the_incident_do_not_matter() -> None:
    scene = Scene(max_lag=100)
    scene.watch.use(_book(max_lag=2000))
    scene.reads(6, 600)
    scene.reads(20, 60)

    assert scene.live.ends["orders", 0] - scene.committed > 100
    assert [each.decision.reason for each in scene.decided] == [Reason.FIRST, Reason.HEALED]


def test_one_that_reads_all_after_its_limit_was_changed_has_healed() -> None:
    scene = Scene(max_lag=100)
    scene.reads(6, 600)

    scene.watch.use(_book(max_lag=200))
    scene.reads(60, 600)

    assert scene.decided[-1].decision.reason is Reason.HEALED


@pytest.mark.parametrize(
    ("per_second", "remaining_s"), [(10, 880.0), (5, 1880.0), (0, inf), (-1, inf)]
)
def test_the_back_test_tells_the_speed_from_recorded_lags(per_second, remaining_s) -> None:
    lags = [(s * 1000, 10_000 - per_second * s) for s in range(0, 121, 30)]

    assert from_lags(lags) == remaining_s


def test_the_back_test_opens_when_the_recorded_lags_shrink_too_slowly() -> None:
    run = BackTest(book=_book(catch_up_within_s=1800))
    samples = [
        Sample(
            at_ms=s * 1000,
            cluster="here",
            group="a",
            seen=Observation(status=GroupStatus.OK, total_lag=10_000 - 5 * s, time_lag_ms=600_000),
        )
        for s in range(0, 1201, 30)
    ]

    sent = list(run.replay(samples))

    assert [(each.at_ms, each.event.value) for each in sent] == [
        (60_000, "open"),
        # 7,650 messages at 5/s are half an hour and 470 s less: it will be in time
        (next(ms for ms, lag in _lags(samples) if lag / 5 <= 1800), "close"),
    ]


def _lags(samples):
    return [(sample.at_ms, sample.seen.total_lag) for sample in samples]


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(1, 10**7))
def test_a_lag_that_shrinks_is_read_in_the_time_it_takes_at_that_speed(first, last, past_ms):
    found = from_lags([(0, first), (past_ms, last)])

    if last == 0:
        assert found == 0
    elif last >= first:
        assert found == inf
    else:
        assert found is not None
        years = last / ((first - last) * 1000 / past_ms) > 366 * 86_400
        assert found == (
            inf if years else pytest.approx(last * past_ms / 1000 / (first - last), abs=1e-3)
        )
        assert duration(min(found, 1e9))

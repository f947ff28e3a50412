"""What notices say: as of when, since when, what was lost, why an incident ended."""

import json
from dataclasses import replace
from typing import ClassVar

import pytest

from lagwatch.core.incident import (
    Incident,
    Observation,
    Policy,
    Reason,
    State,
    Tell,
    grade,
    step,
)
from lagwatch.core.model import EpochMs, GroupStatus, WindowEntry
from lagwatch.notify.notice import Message, Notice
from lagwatch.notify.own import unseen
from lagwatch.notify.verdict import growth_json
from lagwatch.notify.window_curve import window_curve
from lagwatch.notify.words import Tone, details, growth, headline, subject, tone
from lagwatch.ports.queries import ClusterHealth, GroupDetail, PartitionDetail
from lagwatch.query import SnapshotQueries
from tests.support.alert_situations import AT_MS, situations
from tests.support.history import Live
from tests.support.stepped_delivery import Unsteady, down, world
from tests.unit.test_alerts_rendered import CHANNELS

SITUATIONS = situations()
STOPPED = SITUATIONS["stopped"].notices[0]
HEALED = SITUATIONS["healed_with_messages_left"].notices[0]


def text(notice: Notice) -> str:
    return "\n".join([headline(notice), *details(notice)])


@pytest.mark.parametrize("channel", [name for name in CHANNELS if name != "webhook"])
def test_figures_that_are_old_when_sent_say_of_when_in_every_channel(channel) -> None:
    message = SITUATIONS["stopped"]

    late = CHANNELS[channel](message.sent_at(AT_MS + 61_000))

    assert "(as of 01:53 CET)" in late
    assert "as of" not in CHANNELS[channel](message.sent_at(AT_MS + 59_000))


def test_the_subject_and_text_of_a_webhook_say_it_too() -> None:
    late = CHANNELS["webhook"](SITUATIONS["stopped"].sent_at(AT_MS + 61_000))

    document = json.loads(late.partition("\n")[2])
    assert "(as of 01:53 CET)" in document["subject"]


def test_what_is_left_to_read_at_an_end_says_of_when() -> None:
    late = replace(HEALED, sent_ms=HEALED.at_ms + 3_600_000)

    assert "9,040 messages left to read (as of 02:18 CET)" in headline(late)
    assert "Left to read: 9,040 messages (as of 02:18 CET)." in text(late)


def test_a_day_later_it_says_the_day() -> None:
    assert "(as of 2026-11-30 01:53 CET)" in headline(replace(STOPPED, sent_ms=AT_MS + 86_400_000))


def test_delivery_gives_each_attempt_its_own_time(tmp_path) -> None:
    away = {"on": True}
    receiver = Unsteady(lambda: down() if away["on"] else None)
    with world(tmp_path, receiver) as here:
        here.bad("billing", GroupStatus.ERR)
        here.deliver_for(90)
        away["on"] = False
        here.deliver_for(300)

        (message,) = receiver.heard
        assert "as of" in subject(message)


class TestGrowth:
    def test_the_quiet_time_before_the_trouble_does_not_count(self) -> None:
        quiet = [(AT_MS - 3_600_000 + 60_000 * minute, 0) for minute in range(56)]
        trouble = [(STOPPED.since_ms + 1000 * second, 100 * second) for second in range(196)]

        said = text(replace(STOPPED, curve=(*quiet, *trouble)))

        assert "growing by 6,000 messages a minute" in said

    def test_a_trouble_that_just_began_has_no_rate(self) -> None:
        points = ((STOPPED.since_ms - 600_000, 0), (STOPPED.since_ms, 5), (AT_MS, 900))
        early = replace(STOPPED, since_ms=AT_MS - 20_000, curve=points)

        assert "growing" not in text(early)

    def test_the_rate_of_one_partition_is_not_the_groups(self) -> None:
        points = ((STOPPED.since_ms, 0), (AT_MS, 1950))
        one = replace(STOPPED, curve=points, curve_of="lag of orders/0")

        assert "orders/0 growing by 600 messages a minute" in text(one)


class TestCurveOfWindows:
    """The first notice: its curve is of the commits in the windows."""

    NOW_MS = 1_000_000
    VERDICT: ClassVar = {"at_ms": NOW_MS, "max_lag": {"topic": "t", "partition": 0}}

    def partition(self, lag: int | None, *commits: tuple[int, int | None]) -> PartitionDetail:
        window = [
            WindowEntry(offset=0, commit_ms=at_ms, observed_ms=at_ms, lag=behind)
            for at_ms, behind in ((EpochMs(self.NOW_MS - ago * 1000), lag) for ago, lag in commits)
        ]
        return PartitionDetail(window=(None, *window), owner="", client_id="", current_lag=lag)

    def curve(self, *partitions: PartitionDetail):
        never = PartitionDetail(window=(), owner="", client_id="", current_lag=None)
        detail = GroupDetail(topics={"t": [*partitions, never]})
        return window_curve(detail, self.VERDICT, since_ms=self.NOW_MS - 120_000)

    def test_growth_is_the_groups_where_all_partitions_are_known(self) -> None:
        found = self.curve(
            self.partition(700, (120, 100), (60, 400)),
            self.partition(240, (180, 0), (90, 60)),
        )

        assert found is not None
        points, shows = found
        assert shows == "total lag"
        assert points[0] == (self.NOW_MS - 120_000, 140)
        assert points[-1] == (self.NOW_MS, 940)
        assert growth(points, self.NOW_MS - 120_000) == "growing by 400 messages a minute"

    def test_else_it_is_that_of_the_worst_partition_by_its_name(self) -> None:
        worst = self.partition(700, (120, 100))
        for other in (
            self.partition(None, (120, 100)),
            self.partition(50, (120, None)),
            self.partition(50, (10, 40)),
        ):
            points = ((self.NOW_MS - 120_000, 100), (self.NOW_MS, 700))
            assert self.curve(worst, other) == (points, "lag of t/0")

    def test_of_nothing_known_there_is_none(self) -> None:
        found = window_curve(
            GroupDetail(topics={}), {"at_ms": self.NOW_MS, "max_lag": None}, since_ms=0
        )

        assert found is None


def test_a_loss_within_a_stop_counts_what_can_still_be_read_and_says_when() -> None:
    verdict = {**STOPPED.verdict, "readable_lag": 904, "lost": 300, "lost_ms": AT_MS - 60_000}
    notice = replace(STOPPED, kinds=("stopped", "records_lost"), verdict=verdict)

    said = text(notice)

    assert "stopped and records lost, 904 messages behind, 300 messages lost" in headline(notice)
    lost = "Deleted before the group read them: 300 messages, noticed at 2026-11-30 01:52:20 CET."
    assert lost in said
    assert "1,204 messages behind" not in said


class TestRunbook:
    def test_slack_and_teams_have_a_button_for_it(self) -> None:
        for channel in ("slack", "teams"):
            sent = CHANNELS[channel](SITUATIONS["stopped"])
            assert '"Runbook"' in sent
            assert '"https://wiki.example.com/billing"' in sent

    @pytest.mark.parametrize("runbook", ["", "javascript:alert(1)", "call Anna"])
    def test_what_is_no_web_address_has_none(self, runbook) -> None:
        message = Message(
            id="m", channel="c", at_ms=AT_MS, notices=(replace(STOPPED, runbook=runbook),)
        )
        for channel in ("slack", "teams"):
            assert '"Runbook"' not in CHANNELS[channel](message)


def test_several_reminders_do_not_look_like_new_failures() -> None:
    again = [replace(STOPPED, event=Tell.REMIND, group=name) for name in ("a", "b")]
    reminders = Message(id="m", channel="c", at_ms=AT_MS, notices=tuple(again))
    mixed = replace(reminders, notices=(*again, STOPPED))

    assert subject(reminders).startswith("Still ERROR: 2 consumer groups")
    assert subject(mixed).startswith("ERROR: 3 consumer groups")


def test_the_reason_of_an_unseen_cluster_is_said_once() -> None:
    refused = "connection refused by kafka-1:9092. Check bootstrap."
    health = ClusterHealth(
        cluster="prod",
        ready=False,
        age_s=90.0,
        backlog_read=0,
        backlog_total=0,
        commits_mode="",
        collector_restarts=0,
        problems=(f"groups: {refused}", f"log ends: {refused}", "topics: not authorized"),
        unseen=(),
        data_age_s=90.0,
        reason=f"log ends are 90 s old; {refused}",
    )

    (condition,) = unseen([health], 60, (), AT_MS)

    assert condition.problem.count("connection refused") == 1
    assert "topics: not authorized" in condition.problem


class TestEndedWhileMuted:
    POLICY = Policy(name="all", close_for_ms=60_000)
    OPEN = State(
        incident=Incident(
            since_ms=EpochMs(0),
            opened_ms=EpochMs(0),
            severity=GroupStatus.ERR,
            told=GroupStatus.ERR,
            told_ms=EpochMs(0),
        )
    )

    def lives(self, *seen: tuple[int, GroupStatus, bool]) -> list[tuple[Tell, Reason]]:
        state, said = self.OPEN, []
        for at_s, status, muted in seen:
            graded = grade(Observation(status=status), self.POLICY)
            state, decision = step(state, graded, self.POLICY, EpochMs(at_s * 1000), muted=muted)
            said.append((decision.tell, decision.reason))
        return said

    def test_an_incident_that_heals_while_muted_ends_by_a_word_of_its_own(self) -> None:
        ok = GroupStatus.OK

        said = self.lives((100, ok, True), (200, ok, True), (300, ok, False))

        assert said[-2:] == [
            (Tell.NOTHING, Reason.HELD_BY_MUTE),
            (Tell.CLOSE, Reason.ENDED_WHILE_MUTED),
        ]

    def test_one_that_is_bad_again_and_heals_after_the_mute_is_healed(self) -> None:
        ok, bad = GroupStatus.OK, GroupStatus.ERR

        said = self.lives(
            (100, ok, True), (200, ok, True), (300, bad, False), (400, ok, False), (500, ok, False)
        )

        assert said[-1] == (Tell.CLOSE, Reason.HEALED)

    def test_its_notice_says_when_it_recovered(self) -> None:
        ended = replace(
            HEALED,
            reason=Reason.ENDED_WHILE_MUTED.value,
            verdict={**HEALED.verdict, "ended_ms": AT_MS + 300_000},
        )

        said = text(ended)

        assert headline(ended).startswith("Ended while muted: billing on prod, after 8 min 15 s")
        assert "it recovered while it was muted" in said
        assert "to 2026-11-30 01:58:20 CET" in said
        assert "OK again" not in said
        assert tone(Message(id="m", channel="c", at_ms=0, notices=(ended,))) is Tone.GOOD


def test_the_last_owner_that_an_earlier_notice_named_is_said_after_a_restart() -> None:
    partitions = [{**each, "owner": "", "client_id": ""} for each in STOPPED.verdict["partitions"]]
    verdict = {**STOPPED.verdict, "partitions": partitions, "last_owner": "client a-1 on 192.0.2.9"}
    unknown = SITUATIONS["a_worse_kind"].notices[0].cause

    assert "Last owner: client a-1 on 192.0.2.9" in text(
        replace(STOPPED, verdict=verdict, cause=unknown)
    )
    named = {**(unknown or {}), "sentence": "the last one: client a-1 on 192.0.2.9."}
    assert "Last owner:" not in text(replace(STOPPED, verdict=verdict, cause=named))


def test_an_end_of_a_group_whose_lag_grows_says_still_behind_and_not_ok() -> None:
    ended = replace(HEALED, verdict={**HEALED.verdict, "lag_grows_per_s": 15.02})

    said = text(ended)

    assert headline(ended) == (
        "Incident ended: billing on prod, after 28 min 15 s, "
        "still behind: its lag grows by 15 messages per second"
    )
    assert "The group is still behind: it reads again, but its lag grows by 15 messages" in said
    assert "Left to read: 9,040 messages." in said
    assert "keeps up" not in said
    assert tone(Message(id="m", channel="c", at_ms=0, notices=(ended,))) is Tone.NEUTRAL


@pytest.mark.parametrize(
    ("per_s", "for_s", "grows_per_s"), [(5, 600, 15), (5, 60, 0), (40, 600, 0)]
)
def test_the_lag_of_a_group_that_reads_too_slowly_grows(per_s, for_s, grows_per_s) -> None:
    live = Live()
    live.topics(orders=1)
    live.commit(("a", "orders", 0, 0))
    for number in range(1, for_s // 5 + 1):
        live.produce("orders", 0, 100)
        live.wait(5)
        read = min(per_s * 5 * number, live.ends["orders", 0])
        live.commit(("a", "orders", 0, read))
    live.judge()
    queries = SnapshotQueries({"here": live.monitor}, health=tuple)

    found = growth_json(queries.verdict("here", "a", show_all=True), queries.outlook("here", "a"))

    assert found.get("lag_grows_per_s", 0) == pytest.approx(grows_per_s, rel=0.1)

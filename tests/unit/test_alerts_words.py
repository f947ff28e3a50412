"""What notices say: as of when, since when, what was lost, why an incident ended."""

import json
import re
from dataclasses import replace
from math import inf
from typing import Any, ClassVar

import pytest

from lagwatch.core.incident import (
    Incident,
    NoticeEvent,
    Observation,
    Policy,
    Reason,
    State,
    grade,
    step,
)
from lagwatch.core.model import EpochMs, GroupStatus, WindowEntry
from lagwatch.errors import NotifyError
from lagwatch.notify.channels import pagerduty
from lagwatch.notify.message_words import Tone, body, plain_text, subject, tone
from lagwatch.notify.notice import About, Message, Notice, OpenGroups
from lagwatch.notify.own import Condition, OwnIncidents, SteadyClock, unseen
from lagwatch.notify.sample import sample_messages
from lagwatch.notify.verdict import behind_json, figures_json
from lagwatch.notify.window_curve import window_curve
from lagwatch.notify.words import cause_then, clock_time, details, growth, headline, lead
from lagwatch.ports.queries import ClusterHealth, GroupDetail, PartitionDetail, Partitions
from lagwatch.query import SnapshotQueries
from tests.support.alert_situations import AT_MS, situations
from tests.support.history import Live
from tests.support.stepped_delivery import CHANNEL, Unsteady, World, down, world
from tests.unit.test_alerts_rendered import CHANNELS

SITUATIONS = situations()
STOPPED = SITUATIONS["stopped"].notices[0]
HEALED = SITUATIONS["healed_with_messages_left"].notices[0]
NOW = {
    "at_ms": AT_MS + 61_000,
    "total_lag": 60,
    "readable_lag": 50,
    "time_lag_s": 90.0,
    "time_lag_bound": "exact",
}


def text(notice: Notice) -> str:
    return "\n".join([headline(notice), *details(notice)])


@pytest.mark.parametrize("channel", [name for name in CHANNELS if name != "webhook"])
def test_figures_that_are_old_when_sent_say_of_when_in_every_channel(channel) -> None:
    message = SITUATIONS["stopped"]

    late = CHANNELS[channel](message.sent_at(AT_MS + 61_000))

    assert "(as of 01:53 CET)" in late
    assert "as of" not in CHANNELS[channel](message.sent_at(AT_MS + 59_000))


@pytest.mark.parametrize("channel", [*CHANNELS])
@pytest.mark.parametrize(
    ("situation", "line"),
    [
        ("stopped", "Open on prod now: 24 consumer groups, 20 in ERROR, 4 in WARNING"),
        ("healed_with_messages_left", "Open on prod now: 24 consumer groups, 20 in ERROR"),
    ],
)
def test_a_message_says_how_many_groups_are_bad_beside_its_own(channel, situation, line) -> None:
    message = SITUATIONS[situation].sent_at(AT_MS, open_of=lambda _: OpenGroups(20, 4))

    text = CHANNELS[channel](message)

    if channel == "webhook":
        document = json.loads(text.partition("\n")[2])
        assert document["open_groups"] == {"prod": {"error": 20, "warning": 4}}
    elif channel != "alertmanager" and not (channel == "pagerduty" and message.closing):
        assert text.count(line) == (2 if channel == "email" else 1)  # text and HTML


def test_a_message_about_all_that_is_bad_does_not_count_it_again() -> None:
    message = SITUATIONS["stopped"].sent_at(AT_MS, open_of=lambda _: OpenGroups(1, 0))

    assert "Open on" not in body(message, 4000)


def test_the_subject_and_text_of_a_webhook_say_it_too() -> None:
    late = CHANNELS["webhook"](SITUATIONS["stopped"].sent_at(AT_MS + 61_000))

    document = json.loads(late.partition("\n")[2])
    assert "(as of 01:53 CET)" in document["subject"]


def test_what_is_left_to_read_at_an_end_says_of_when() -> None:
    late = replace(HEALED, sent_ms=HEALED.at_ms + 3_600_000)

    assert "9,040 messages left to read (as of 02:18 CET)" in headline(late)
    assert "Left to read: 9,040 messages (as of 02:18 CET)." in text(late)


def test_a_cause_that_was_found_a_while_ago_says_when() -> None:
    stopped = SITUATIONS["stopped"].sent_at(AT_MS + 61_000).notices[0]
    now = replace(stopped, sent_ms=stopped.at_ms)

    assert stopped.cause is not None
    assert cause_then(now) == stopped.cause["sentence"]
    assert cause_then(stopped) == f"{stopped.cause['sentence']} (as of 01:53 CET)"


def test_a_day_later_it_says_the_day() -> None:
    assert "(as of 2026-11-30 01:53 CET)" in headline(replace(STOPPED, sent_ms=AT_MS + 86_400_000))


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("end", [False, True])
def test_a_test_says_so_in_every_channel(channel, end) -> None:
    message = sample_messages(test="eve on host")[int(end)]

    shown = CHANNELS[channel](message)

    if end and channel == "pagerduty":
        assert '"resolve"' in shown
        return
    word = "OK again" if end else "ERROR"
    assert f"TEST: {word}: lagwatch-sample on sample" in shown
    assert "eve on host" in shown
    assert "TEST" not in CHANNELS[channel](sample_messages()[int(end)])


@pytest.mark.parametrize(
    ("kept", "shown"),
    [
        ({"loss_acknowledged": True}, "314 messages were deleted before the group read them; the"),
        ({"loss_acknowledged": False}, "314 messages were deleted before the group read them."),
        ({"lost_in_all_is": "upper_bound"}, "Meanwhile up to 314 messages were deleted before"),
    ],
)
def test_an_end_says_what_was_lost_over_the_incident(kept, shown) -> None:
    ended = replace(HEALED, verdict={**HEALED.verdict, "lost_in_all": 314, **kept})

    said = text(ended)

    assert "314 messages lost, 9,040 messages left to read" in headline(ended)
    assert shown in said
    assert ("the loss was acknowledged" in said) is bool(kept.get("loss_acknowledged"))
    assert "deleted" not in text(HEALED)


def test_a_notice_after_a_mute_says_that_the_mute_has_ended() -> None:
    said = "A mute of the group has ended, which held back notices of this incident."

    assert said in text(replace(STOPPED, reason=Reason.MUTE_ENDED.value))
    assert said not in text(STOPPED)


@pytest.mark.parametrize(
    ("why", "shown"),
    [
        (f"refused by {'b' * 90}:9092 (1/1 brokers are down, as of now)", f"{'b' * 90}:9092…, "),
        (f"refused by {'b' * 90} and by another broker", f"{'b' * 90} and by another…, "),
        ("no answer (1/1 brokers are down)", ": no answer (1/1 brokers are down), "),
    ],
)
def test_the_reason_of_a_headline_is_not_cut_within_a_word_or_parenthesis(why, shown) -> None:
    unseen = SITUATIONS["cluster_unseen"].notices[0]

    line = headline(replace(unseen, verdict={**unseen.verdict, "why": why}))

    assert shown in line


UNREACHED = "This channel could not be reached in between."
HELD_BACK = "The receiver of this channel accepted no more messages in between."


def _end_of(here: World, receiver: Unsteady, group: str = "billing") -> str:
    here.deliver_for(600)
    notices = [notice for message in receiver.heard for notice in message.notices]
    (end,) = [notice for notice in notices if notice.group == group]
    assert end.closing
    assert not end.heard
    return text(end)


def test_an_end_that_overtakes_its_opening_blames_no_channel_that_works(tmp_path) -> None:
    receiver = Unsteady(lambda: None)
    with world(tmp_path, receiver) as here:
        here.bad("billing", GroupStatus.ERR)
        here.deliver_for(0.5)
        here.good("billing")

        said = _end_of(here, receiver)

    assert UNREACHED not in said
    assert HELD_BACK not in said


@pytest.mark.parametrize("status", [503, 429])
@pytest.mark.parametrize("restarts", [False, True])
def test_an_end_says_that_the_opening_failed_meanwhile(tmp_path, status, restarts) -> None:
    away = {"on": True}
    error = NotifyError(channel=CHANNEL, message=f"{status} no", retryable=True)
    receiver = Unsteady(lambda: error if away["on"] else None)
    with world(tmp_path, receiver) as here:
        here.bad("billing", GroupStatus.ERR)
        here.deliver_for(20)
        here.good("billing")
        if restarts:
            here.restart()
        else:
            here.deliver_for(20)
        away["on"] = False

        said = _end_of(here, receiver)

    assert (UNREACHED in said, HELD_BACK in said) == (status == 503, status == 429)


def test_an_end_says_that_the_channel_failed_on_others_meanwhile(tmp_path) -> None:
    away = {"on": True}
    receiver = Unsteady(lambda: down() if away["on"] else None)
    with world(tmp_path, receiver) as here:
        here.bad("orders", GroupStatus.ERR)
        here.deliver_for(60)
        here.bad("billing", GroupStatus.ERR)
        here.deliver_for(60)
        here.good("billing")
        away["on"] = False

        said = _end_of(here, receiver)

    assert UNREACHED in said


def test_what_failed_before_an_incident_is_not_said_of_it(tmp_path) -> None:
    away = {"on": True}
    receiver = Unsteady(lambda: down() if away["on"] else None)
    with world(tmp_path, receiver) as here:
        here.bad("orders", GroupStatus.ERR)
        here.deliver_for(60)
        away["on"] = False
        here.deliver_for(600)
        here.bad("billing", GroupStatus.ERR)
        here.good("billing")

        said = _end_of(here, receiver)

    assert UNREACHED not in said


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


def test_what_is_sent_late_says_what_was_and_what_is(tmp_path) -> None:
    away = {"on": True}
    receiver = Unsteady(lambda: down() if away["on"] else None)
    with world(tmp_path, receiver) as here:
        here.bad("billing", GroupStatus.ERR)
        here.deliver_for(90)
        here.newest["billing"] = NOW
        away["on"] = False
        here.deliver_for(300)

        (message,) = receiver.heard

    assert "7 messages behind (at 08:00 UTC; now 60 messages behind, 1 min 30 s in time)" in (
        subject(message)
    )
    assert message.notices[0].as_json()["newest"] == NOW


def test_after_a_loss_only_what_can_be_read_counts_as_behind_now() -> None:
    late = replace(
        STOPPED, sent_ms=AT_MS + 61_000, newest=NOW, verdict={**STOPPED.verdict, "lost": 7}
    )

    assert "(at 01:53 CET; now 50 messages behind, 1 min 30 s in time)" in headline(late)


def test_a_group_beyond_the_log_end_is_not_said_to_be_0_messages_behind() -> None:
    ahead = {**STOPPED.verdict["partitions"][0], "rule": "ahead_of_log_end", "evidence": {}}
    beyond = {
        "total_lag": 0,
        "time_lag_s": None,
        "partitions": [ahead],
        "beyond_partitions": 1,
        "beyond_messages": 400,
    }
    notice = replace(STOPPED, verdict={**STOPPED.verdict, **beyond})

    assert "400 messages beyond the log end" in headline(notice)
    assert "0 messages behind" not in text(notice)
    both = replace(notice, verdict={**notice.verdict, "total_lag": 12})
    assert "12 messages behind, 400 messages beyond the log end" in headline(both)


def test_what_is_beyond_several_log_ends_is_their_sum() -> None:
    beyond = {"beyond_partitions": 2, "beyond_messages": 903}
    verdict = {**STOPPED.verdict, "total_lag": 0, "unknown_partitions": 2, **beyond}
    set_right = {**NOW, "beyond_partitions": 0, "beyond_messages": 0}
    late = replace(STOPPED, verdict=verdict, sent_ms=AT_MS + 61_000, newest=set_right)

    assert "903 messages beyond 2 log ends" in headline(replace(STOPPED, verdict=verdict))
    assert "now" in headline(late)
    assert "beyond" not in headline(late).partition("now")[2]


def test_partitions_that_are_not_judged_are_not_affected() -> None:
    partition = STOPPED.verdict["partitions"][0]
    three = [partition, {**partition, "partition": 1}, {**partition, "status": "UNKNOWN"}]
    verdict = {**STOPPED.verdict, "partitions": three, "partition_count": 3}

    assert "2 of 3 partitions" in headline(replace(STOPPED, verdict=verdict))


def test_a_lag_of_which_a_part_is_unknown_is_a_lower_bound() -> None:
    partly = {**STOPPED.verdict, "total_lag": 50, "unknown_partitions": 1}
    nothing = {**partly, "total_lag": 0}

    assert ", at least 50 messages behind," in headline(replace(STOPPED, verdict=partly))
    assert "lag unknown" in headline(replace(STOPPED, verdict=nothing))


@pytest.mark.parametrize(
    ("lag", "left"),
    [(50, "at least 50 messages"), (0, "How much is left to read is unknown")],
)
def test_what_is_left_to_read_is_a_lower_bound_where_a_part_is_unknown(lag, left) -> None:
    verdict = {**STOPPED.verdict, "status": "OK", "total_lag": lag, "unknown_partitions": 1}
    closed = replace(STOPPED, event=NoticeEvent.CLOSE, reason="healed", verdict=verdict)

    assert left in text(closed)
    assert "keeps up again" not in text(closed)


def test_an_end_that_was_not_seen_is_at_the_latest_when_lagwatch_looked_again() -> None:
    began_ms = STOPPED.since_ms
    ends = {"ended_ms": began_ms + 900_000, "ended_after_ms": began_ms + 600_000}
    verdict = {**STOPPED.verdict, "status": "OK", **ends}
    closed = replace(STOPPED, event=NoticeEvent.CLOSE, reason="healed", verdict=verdict)

    assert "after at most 15 min" in headline(closed)
    assert "between " in text(closed)
    assert "after about 15 min" in headline(replace(closed, since_at_least=True))


def test_what_is_unknown_now_says_so() -> None:
    unknown = {**NOW, "total_lag": None, "time_lag_s": None}
    late = replace(STOPPED, sent_ms=AT_MS + 61_000, newest=unknown)

    assert "(at 01:53 CET; now lag unknown)" in headline(late)


def test_how_far_a_group_is_behind_now_comes_from_the_newest_round() -> None:
    live = Live()
    live.topics(orders=1)
    live.wait(1)
    live.commit(("a", "orders", 0, 40))
    live.wait(1)

    found = figures_json(live.judge(), "a")

    assert found is not None
    assert (found["at_ms"], found["total_lag"], found["readable_lag"]) == (live.now_ms, 60, 60)
    assert figures_json(live.judge(), "b") is None


@pytest.mark.parametrize(
    ("forecast", "said"),
    [
        (
            {"catch_up_s": 750.0, "catch_up_reason": "catching_up"},
            "At its present speed it has read all by about 02:05 CET (in 12 min 30 s).",
        ),
        ({"catch_up_reason": "falling_behind"}, "At its present speed it does not catch up."),
        (
            {"catch_up_reason": "falling_behind", "lag_steady": True},
            "It reads about as fast as is written: its lag is about steady.",
        ),
        (
            {"catch_up_reason": "not_moving", "loss_in_s": 12_000.0},
            (
                "If nothing changes, Kafka deletes messages before the group reads them, from "
                "about 05:13 CET (in 3 h 20 min) on."
            ),
        ),
        (
            {"catch_up_reason": "not_moving", "produced_per_s": 0.0, "consumed_per_s": 0.0},
            "Nothing is read, and nothing is written.",
        ),
        ({"loss_in_s": 200_000.0}, "from about 2026-12-02 09:26 CET (in 2 d 7 h) on."),
        ({"loss_in_s": 0.0}, "Kafka deletes messages before the group reads them, from now on."),
        (
            {"catch_up_reason": "waits_for_transaction"},
            "It cannot read on before a transaction ends.",
        ),
    ],
)
def test_it_says_when_it_catches_up_or_loses_messages(forecast, said) -> None:
    notice = replace(STOPPED, verdict={**STOPPED.verdict, **forecast})

    assert said in text(notice)


@pytest.mark.parametrize(("read_per_s", "shrinks"), [(0.0, False), (3.0, True), (None, True)])
def test_what_nobody_reads_does_not_shrink(read_per_s, shrinks) -> None:
    """The lag of a topic of which partitions were deleted falls, too."""
    curve = tuple((AT_MS - 180_000 + 60_000 * each, 2000 - 400 * each) for each in range(4))
    notice = replace(
        STOPPED, curve=curve, verdict={**STOPPED.verdict, "consumed_per_s": read_per_s}
    )

    assert ("shrinking by" in text(notice)) is shrinks


def test_a_message_of_several_says_which_were_escalated_and_acknowledged() -> None:
    handed_on = SITUATIONS["handed_on"].notices[0]
    known = replace(handed_on, group="orders", verdict={**handed_on.verdict, "acknowledged": True})
    lines = plain_text(replace(SITUATIONS["handed_on"], notices=(handed_on, known, STOPPED)))

    ends = [line.rpartition(" (")[2] for line in lines.splitlines() if line.endswith(")")]
    assert ends == ["escalated)", "escalated, acknowledged)"]


def test_a_forecast_that_is_sent_late_gives_the_time_alone() -> None:
    forecast = {"catch_up_s": 750.0, "catch_up_reason": "catching_up"}
    late = replace(STOPPED, verdict={**STOPPED.verdict, **forecast}, sent_ms=AT_MS + 600_000)

    assert "it has read all by about 02:05 CET." in text(late)


@pytest.mark.parametrize(
    "forecast",
    [
        {"catch_up_reason": "not_moving"},
        {"catch_up_s": 20.0, "catch_up_reason": "catching_up"},
        {"catch_up_reason": "rates_unknown"},
    ],
)
def test_what_is_not_known_or_soon_over_is_no_forecast(forecast) -> None:
    verdict = {**STOPPED.verdict, "loss_in_s": None, **forecast}
    notice = replace(STOPPED, verdict=verdict)

    assert "present speed" not in text(notice)
    assert "If nothing changes" not in text(notice)


def test_an_end_says_when_the_rest_is_read_and_not_that_it_never_is() -> None:
    soon = {"catch_up_s": 750.0, "catch_up_reason": "catching_up"}
    reads = replace(HEALED, verdict={**HEALED.verdict, **soon})
    keeps = replace(HEALED, verdict={**HEALED.verdict, "catch_up_reason": "falling_behind"})

    assert "At its present speed it has read all by about 02:30 CET (in 12 min 30 s)." in (
        text(reads)
    )
    assert "present speed" not in text(keeps)


def test_an_incident_during_which_the_clock_was_set_back_says_so() -> None:
    verdict = {**HEALED.verdict, "clock_set_back": True}
    ended = replace(HEALED, since_at_least=True, verdict=verdict)

    assert "after at least 28 min 15 s" in headline(ended)
    assert "The clock of lagwatch was set back" in text(ended)
    assert "The clock of lagwatch was set back" not in text(HEALED)


def test_an_escalation_says_that_somebody_has_acknowledged_the_incident() -> None:
    handed_on = replace(STOPPED, reason=Reason.HANDED_ON.value)
    taken = replace(handed_on, verdict={**STOPPED.verdict, "acknowledged": True})

    assert "Escalated: the incident is still open; other channels" in text(handed_on)
    assert "still open; somebody has acknowledged it; other channels" in text(taken)


def test_an_error_that_has_just_become_milder_says_what_it_was() -> None:
    """Its severity stays until the better verdict has lasted: the limit alone did not make it."""
    limit = "1 min 4 s behind in time, more than the 1 min allowed"
    verdict = {
        **STOPPED.verdict,
        "status": "OK",
        "rule": "progressing",
        "objective": limit,
        "eased": ("rewound",),
        "eased_ms": STOPPED.since_ms + 60_000,
    }
    notice = replace(STOPPED, verdict=verdict, kinds=(), reason=Reason.HANDED_ON.value)
    until = clock_time(notice, STOPPED.since_ms + 60_000)

    assert f": rewound until {until}, {limit}, " in headline(notice)
    assert f"rewound until {until}" in lead(notice, with_cluster=True, word=False)
    assert f"It was rewound until {until}; it stays ERROR until better has lasted." in text(notice)


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
        changed = replace(STOPPED, curve=points, curve_of="lag of orders/0")

        assert "orders/0 growing by 600 messages a minute" in text(changed)


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

    assert ": 300 messages lost and stopped, 904 messages behind, 3" in headline(notice)
    lost = "Deleted before the group read them: 300 messages, noticed at 2026-11-30 01:52:20 CET."
    assert lost in said
    bounded = replace(notice, verdict={**verdict, "lost_is": "upper_bound"})
    assert ": up to 300 messages lost and stopped, 904 messages behind, 3" in headline(bounded)
    assert "Deleted before the group read them: up to 300 messages" in text(bounded)
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
    again = [replace(STOPPED, event=NoticeEvent.REMIND, group=name) for name in ("a", "b")]
    reminders = Message(id="m", channel="c", at_ms=AT_MS, notices=tuple(again))
    mixed = replace(reminders, notices=(*again, STOPPED))

    assert subject(reminders).startswith("Still ERROR: 2 consumer groups")
    assert subject(mixed).startswith("ERROR: 3 consumer groups")


class TestSubjectOfSeveral:
    def test_it_says_what_is_wrong_with_the_worst_and_counts_the_rest(self) -> None:
        assert subject(SITUATIONS["a_storm"]) == (
            "ERROR: 1,000 consumer groups on prod: group-0999: stopped, 1,999 messages behind, "
            "18 min 19 s in time, since 01:48:25 CET; group-0998: stopped, 1,998 messages behind, "
            "18 min 18 s in time, since 01:48:25 CET; and 998 more"
        )

    def test_it_does_for_each_cluster(self) -> None:
        assert subject(SITUATIONS["several_causes"]) == (
            "ERROR: 15 consumer groups on 2 clusters: group-0014 on test: stopped, "
            "1,014 messages behind, 1 min 54 s in time, since 01:50:03 CET; group-0013 on prod: "
            "stopped, 1,013 messages behind, 1 min 53 s in time, since 01:50:03 CET; and 13 more"
        )

    def test_an_end_says_how_long_and_what_is_left(self) -> None:
        ends = (replace(HEALED, group="mailer"), HEALED)
        message = Message(id="m", channel="c", at_ms=AT_MS, notices=ends)

        assert subject(message) == (
            "OK again: 2 consumer groups on prod: billing: after 28 min 15 s, "
            "9,040 messages left to read; mailer: after 28 min 15 s, 9,040 messages left to read"
        )

    def test_ends_of_several_kinds_say_which(self) -> None:
        ends = (SITUATIONS["deleted"].notices[0], replace(HEALED, group="mailer"))
        message = Message(id="m", channel="c", at_ms=AT_MS, notices=ends)

        assert "billing: DELETED, after 28 min 15 s" in subject(message)
        assert "mailer: OK again, after 28 min 15 s" in subject(message)

    def test_a_group_that_is_gone_is_named_before_those_that_are_well_again(self) -> None:
        well = [replace(HEALED, group=f"group-{number}") for number in range(12)]
        gone = replace(SITUATIONS["deleted"].notices[0], group="old")
        line = subject(Message(id="m", channel="c", at_ms=AT_MS, notices=(*well, gone)))

        assert line.startswith("Ended: 13 consumer groups on prod: old: DELETED, after 28 min 15 s")
        assert line.endswith("more")

    def test_incidents_of_lagwatch_itself_are_named(self) -> None:
        unseen_cluster = SITUATIONS["cluster_unseen"].notices[0]
        both = (unseen_cluster, replace(unseen_cluster, cluster="test"))
        message = Message(id="m", channel="c", at_ms=AT_MS, notices=both)

        assert subject(message) == (
            "ERROR: 2 incidents on 2 clusters: lagwatch does not see cluster prod: connection "
            "refused by kafka-1:9092, since 01:52:20 CET; lagwatch does not see cluster test: "
            "connection refused by kafka-1:9092, since 01:52:20 CET"
        )

    @pytest.mark.parametrize("name", ["я" * 4000, "group"])
    def test_it_fits_the_subject_of_a_mail(self, name) -> None:
        many = tuple(
            replace(STOPPED, group=f"{number}{name}", cluster=f"{number % 5}{name}")
            for number in range(40)
        )
        line = subject(Message(id="m", channel="c", at_ms=AT_MS, notices=many))

        assert "on 5 clusters" in line
        assert "1,204 messages behind, 3 min 14 s in time, since 01:50:05 CET" in line
        assert re.search(r"; and (37|38|39) more$", line)
        assert len(line) <= 240

    def test_a_page_says_it_too(self) -> None:
        (event,) = pagerduty.events(SITUATIONS["several_causes"])

        assert event["payload"]["summary"] == subject(SITUATIONS["several_causes"])


def unready(*, data_age_s: float, **changes: Any) -> ClusterHealth:  # noqa: ANN401 - as the fields
    """A cluster of which no fresh data come."""
    health = ClusterHealth(
        cluster="c",
        ready=False,
        age_s=None,
        backlog_read=0,
        backlog_total=0,
        commits_mode="",
        collector_restarts=0,
        problems=(),
        unseen=(),
        data_age_s=data_age_s,
    )
    return replace(health, **changes)


def test_the_reason_of_an_unseen_cluster_is_said_once() -> None:
    refused = "connection refused by kafka-1:9092. Check bootstrap."
    health = unready(
        data_age_s=90.0,
        problems=(f"groups: {refused}", f"log ends: {refused}", "topics: not authorized"),
        reason=f"log ends are 90 s old; {refused}",
    )

    (condition,) = unseen([health], 60, (), AT_MS, steady_s=inf)

    assert condition.problem.count("connection refused") == 1
    assert "topics: not authorized" in condition.problem
    assert condition.since_ms == AT_MS - 90_000


def test_a_clock_that_was_set_makes_no_data_older_than_the_time_since_then() -> None:
    clock = SteadyClock()
    health = unready(data_age_s=3601.0, reason="log ends are 3601 s old")

    steady = [clock.for_s(AT_MS + at_s * 1000, 100.0 + at_s) for at_s in range(3)]
    set_ahead = [clock.for_s(AT_MS + (3600 + at_s) * 1000, 100.0 + at_s) for at_s in (3, 4)]
    (condition,) = unseen([health], 60, (), AT_MS, steady_s=set_ahead[-1])

    assert steady == [inf] * 3
    assert set_ahead == [0, 1]
    assert condition.since_ms == AT_MS - 1000


def test_a_cluster_that_was_away_before_the_start_is_unseen_since_its_last_data() -> None:
    health = unready(data_age_s=20.0, since_ms=AT_MS - 300_000)

    (condition,) = unseen([health], 60, (), AT_MS, steady_s=inf)

    assert condition.since_ms == AT_MS - 300_000
    assert condition.held_s == 20.0  # not an incident yet: this process looks for 20 s only


class TestEndedWhileMuted:
    POLICY = Policy(name="all", close_for_ms=60_000)
    OPEN = State(
        incident=Incident(
            since_ms=EpochMs(0),
            opened_ms=EpochMs(0),
            severity=GroupStatus.ERR,
            notified=GroupStatus.ERR,
            notified_ms=EpochMs(0),
        )
    )

    def lives(self, *seen: tuple[int, GroupStatus, bool]) -> list[tuple[NoticeEvent, Reason]]:
        state, said = self.OPEN, []
        for at_s, status, muted in seen:
            graded = grade(Observation(status=status), self.POLICY)
            state, decision = step(state, graded, self.POLICY, EpochMs(at_s * 1000), muted=muted)
            said.append((decision.event, decision.reason))
        return said

    def test_an_incident_that_heals_while_muted_ends_by_a_word_of_its_own(self) -> None:
        ok = GroupStatus.OK

        said = self.lives((100, ok, True), (200, ok, True), (300, ok, False))

        assert said[-2:] == [
            (NoticeEvent.NOTHING, Reason.HELD_BY_MUTE),
            (NoticeEvent.CLOSE, Reason.ENDED_WHILE_MUTED),
        ]

    def test_one_that_is_bad_again_and_heals_after_the_mute_is_healed(self) -> None:
        ok, bad = GroupStatus.OK, GroupStatus.ERR

        said = self.lives(
            (100, ok, True), (200, ok, True), (300, bad, False), (400, ok, False), (500, ok, False)
        )

        assert said[-1] == (NoticeEvent.CLOSE, Reason.HEALED)

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


@pytest.mark.parametrize(
    ("lag", "late_s", "catch_up_s", "keeps_up"),
    [
        (0, None, None, True),
        (40, 2.0, None, True),
        (9040, None, None, False),
        (9040, 90.0, None, False),
        (9040, 20.0, 750.0, False),
        (None, None, None, False),
    ],
)
def test_a_group_keeps_up_again_only_where_that_is_known(
    lag, late_s, catch_up_s, *, keeps_up: bool
) -> None:
    for reason in (Reason.HEALED, Reason.ENDED_WHILE_MUTED):
        figures = {"total_lag": lag, "time_lag_s": late_s, "catch_up_s": catch_up_s}
        ended = replace(HEALED, reason=reason.value, verdict={**HEALED.verdict, **figures})

        said = text(ended)

        assert ("The group keeps up again" in said) is keeps_up
        assert ("has not read all yet" in said) is (not keeps_up and lag is not None)


def test_an_incident_that_the_configuration_ended_is_not_ok_again() -> None:
    ended = replace(HEALED, reason=Reason.LIMIT_REMOVED.value)

    said = text(ended)

    assert headline(ended) == (
        "No longer watched: billing on prod, after 28 min 15 s: "
        "the limit was removed from the configuration"
    )
    assert "No longer watched: the limit was removed from the configuration." in said
    assert "Left to read: 9,040 messages." in said
    assert "keeps up" not in said
    assert tone(Message(id="m", channel="c", at_ms=0, notices=(ended,))) is Tone.NEUTRAL


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
    ("what", "said"),
    [
        ("all", "it reads nothing now"),
        ("some", "it does not read one of its partitions now"),
    ],
)
def test_an_end_of_a_group_that_reads_nothing_says_still_behind_and_not_ok(what, said) -> None:
    ended = replace(HEALED, verdict={**HEALED.verdict, "not_read": what})

    shown = text(ended)

    assert headline(ended) == (
        f"Incident ended: billing on prod, after 28 min 15 s, still behind: {said}"
    )
    assert f"The group is still behind: {said}, and may only pause." in shown
    assert "Left to read: 9,040 messages." in shown
    assert "OK" not in shown
    assert "keeps up" not in shown


@pytest.mark.parametrize(
    ("reads", "not_read"),
    [((), "all"), ((0,), "some"), ((0, 1), None)],
)
def test_a_group_whose_messages_wait_for_minutes_and_are_not_read_is_behind(
    reads, not_read
) -> None:
    live = Live()
    live.topics(orders=2)
    for number in range(1, 121):
        for partition in (0, 1):
            live.produce("orders", partition, 10)
        live.wait(5)
        for partition in (0, 1):
            read = live.ends["orders", partition] if number < 60 or partition in reads else 590
            live.commit(("a", "orders", partition, read))
    live.judge()
    queries = SnapshotQueries({"here": live.monitor}, health=tuple)

    found = behind_json(queries.verdict("here", "a", Partitions.ALL), queries.outlook("here", "a"))

    assert found.get("not_read") == not_read


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

    found = behind_json(queries.verdict("here", "a", Partitions.ALL), queries.outlook("here", "a"))

    assert found.get("lag_grows_per_s", 0) == pytest.approx(grows_per_s, rel=0.1)


class TestBesideALimit:
    """A group that misses a limit, stops, and then loses messages: each is said in one line."""

    LIMIT = "55.2 s behind in time, more than the 8 s allowed"
    MISSED = replace(
        STOPPED,
        kinds=(),
        cause=None,
        verdict={**STOPPED.verdict, "rule": "progressing", "objective": LIMIT, "partitions": []},
    )
    DEAD = replace(
        MISSED,
        event=NoticeEvent.ESCALATE,
        reason=Reason.WORSE_KIND.value,
        kinds=("stopped",),
        verdict={**MISSED.verdict, "rule": "stopped"},
    )
    LOSING = replace(
        DEAD,
        kinds=("records_lost", "stopped"),
        kinds_before=("stopped",),
        verdict={**DEAD.verdict, "lost": 1450},
    )

    @pytest.mark.parametrize("channel", [name for name in CHANNELS if name != "webhook"])
    @pytest.mark.parametrize("several", [False, True])
    def test_a_worse_kind_is_said_first_and_what_it_was_before(self, channel, several) -> None:
        said = [
            CHANNELS[channel](
                Message(
                    id="m",
                    channel="ops",
                    at_ms=AT_MS,
                    notices=(notice, replace(notice, group="b"))[: 1 + several],
                )
            )
            for notice in (self.MISSED, self.DEAD, self.LOSING)
        ]

        assert f": {self.LIMIT}, since" in said[0]
        assert f": stopped (before: only a limit was missed), {self.LIMIT}" in said[1]
        assert f"1,450 messages lost and stopped (before: stopped), {self.LIMIT}" in (said[2])

    def test_what_is_as_before_is_said_once(self) -> None:
        graver = replace(self.DEAD, reason=Reason.ESCALATED.value, kinds_before=("stopped",))

        assert f": stopped, {self.LIMIT}" in headline(graver)

    def test_a_group_that_reads_well_is_not_called_by_the_rule_it_reads_by(self) -> None:
        assert "progressing" not in text(self.MISSED)

    def test_a_loss_beside_a_stop_says_when_it_was_noticed_and_the_stop_when_it_began(self) -> None:
        verdict = {**self.LOSING.verdict, "lost_ms": AT_MS - 2_000}

        said = headline(replace(self.LOSING, verdict=verdict))

        assert said.endswith("loss noticed at 01:53:18 CET, since 01:50:05 CET")

    def test_a_loss_that_is_more_than_a_limit_is_said_once_and_as_a_bound(self) -> None:
        verdict = {
            **STOPPED.verdict,
            "rule": "records_lost",
            "lost": 179,
            "lost_is": "upper_bound",
            "lost_ms": AT_MS - 2_000,
            "objective": "up to 179 messages deleted before the group read them",
        }
        lost = replace(STOPPED, kinds=("records_lost",), verdict=verdict)

        said = headline(lost)

        assert ": up to 179 messages lost, 1" in said
        assert (said.count("179"), said.count("lost"), said.count("deleted")) == (1, 1, 0)

    def test_a_loss_alone_has_the_moment_of_its_notice_and_no_duration(self) -> None:
        verdict = {**STOPPED.verdict, "rule": "records_lost", "lost": 7, "lost_ms": AT_MS - 2_000}
        lost = replace(STOPPED, kinds=("records_lost",), verdict=verdict)

        assert headline(lost).endswith(", noticed at 01:53:18 CET")
        assert "7 messages, noticed at 2026-11-30 01:53:18 CET" in text(lost)
        assert "Since" not in text(lost)

    def test_what_began_unseen_says_at_least(self) -> None:
        unseen_start = replace(self.MISSED, since_at_least=True)
        ended = replace(HEALED, since_at_least=True)

        assert "at least since 01:50:05 CET" in headline(unseen_start)
        assert "At least since 2026-11-30 01:50:05 CET, for at least 3 min 15 s." in (
            text(unseen_start)
        )
        assert "after at least 28 min 15 s" in headline(ended)
        assert "from 2026-11-30 01:50:05 CET or before to" in text(ended)

    def test_its_speed_is_said_from_the_first_moment_on(self) -> None:
        verdict = {**self.MISSED.verdict, "lag_trend_per_s": 12.0}

        said = text(replace(self.MISSED, curve=(), verdict=verdict))

        assert "growing by 12 messages per second" in said

    def test_the_subject_of_several_begins_with_the_worst_kind(self) -> None:
        behind = [
            replace(
                self.MISSED, group=f"b{number}", verdict={**self.MISSED.verdict, "time_lag_s": 9e5}
            )
            for number in range(5)
        ]

        said = subject(Message(id="m", channel="o", at_ms=AT_MS, notices=(*behind, self.LOSING)))

        assert ": billing: 1,450 messages lost and stopped" in said


@pytest.mark.parametrize(
    ("membership", "said"),
    [
        ("unknown", False),  # a job outside of Kafka's groups
        (None, False),  # the rule of a job that stalls does not look at it
        ("rebalancing", False),
        ("held", False),
        ("empty", True),
        ("unheld", True),
    ],
)
def test_only_of_a_group_whose_members_are_known_is_it_said_that_there_is_none(
    membership, said
) -> None:
    (partition,) = STOPPED.verdict["partitions"]
    evidence = {**partition["evidence"], "membership": membership}
    changed = {**partition, "owner": "", "client_id": "", "evidence": evidence}

    shown = text(replace(STOPPED, verdict={**STOPPED.verdict, "partitions": [changed]}))

    assert ("No member of the group" in shown) is said


@pytest.mark.parametrize(
    ("about", "cluster", "name", "configured", "said"),
    [
        (About.CHANNEL, "", "old", {"old"}, "OK again: alert channel old delivers, after 10 s"),
        (
            *(About.CHANNEL, "", "old", {"new"}),
            "Ended: alert channel old is not configured any more; it did not deliver for 10 s",
        ),
        (About.CLUSTER, "prod", "", {"prod"}, "OK again: lagwatch sees cluster prod, after 10 s"),
        (
            *(About.CLUSTER, "prod", "", {"chat"}),
            "Ended: cluster prod is not configured any more; not seen for 10 s",
        ),
    ],
)
def test_what_is_not_configured_any_more_has_not_healed(
    about: About, cluster: str, name: str, configured: set[str], said: str
) -> None:
    own = OwnIncidents(())
    condition = Condition(
        about=about,
        cluster=cluster,
        name=name,
        since_ms=AT_MS,
        held_s=0,
        open_for_s=0,
        problem="it fails",
        listeners=(),
    )
    own.apply(own.changes([condition], (), EpochMs(AT_MS), configured=configured))
    ends = []
    for later_ms in (10_000, 15_000, 20_000):
        ends = own.changes([], (), EpochMs(AT_MS + later_ms), configured=configured)
        own.apply(ends)

    assert [headline(end.notice) for end in ends] == [said]

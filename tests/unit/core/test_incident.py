"""Incidents: what a verdict makes of them, case by case and by law."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagwatch.core.incident import (
    NEVER,
    QUIET,
    Act,
    Decision,
    Graded,
    Incident,
    NoticeEvent,
    Observation,
    Policy,
    Reason,
    State,
    channel_event,
    gone,
    grade,
    step,
)
from lagwatch.core.model import EpochMs, GroupStatus, PartitionStatus, Rule
from lagwatch.core.rules import STATUS_BY_RULE
from lagwatch.core.trouble import RANK, kind_words, kinds_of, worse

OK, WARN, ERR, UNKNOWN = GroupStatus.OK, GroupStatus.WARN, GroupStatus.ERR, GroupStatus.UNKNOWN
CASES = json.loads(
    (Path(__file__).parents[2] / "vectors" / "notifier_cases.json").read_text(encoding="utf-8")
)["cases"]
WARNS = Policy(name="warns", threshold=WARN)


class Story:
    """One group under one policy, judged verdict by verdict."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.state = QUIET
        self.now_ms = 1_000_000
        self.heard: list[NoticeEvent] = []
        self.acts: list[Act] = []

    def sees(self, status: GroupStatus | Graded, after_s: float = 1, *, muted=False) -> Decision:
        self.now_ms += int(after_s * 1000)
        graded = (
            status
            if isinstance(status, Graded)
            else grade(Observation(status=status, total_lag=100), self.policy)
        )
        self.state, decision = step(
            self.state, graded, self.policy, EpochMs(self.now_ms), muted=muted
        )
        if decision.event is not NoticeEvent.NOTHING:
            self.heard.append(decision.event)
        if decision.act is not Act.NONE:
            self.acts.append(decision.act)
        return decision


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_the_burrow_setting_decides_as_burrow_does(case) -> None:
    policy = Policy(
        name="burrow",
        burrow=True,
        threshold=GroupStatus(case["threshold"]),
        send_close=case["send_close"],
        send_once=case["send_once"],
    )
    now = EpochMs(10_000)
    state = State(
        incident=Incident(since_ms=EpochMs(1), opened_ms=EpochMs(1), severity=WARN)
        if case["incident_open"]
        else None,
        quiet_until_ms=EpochMs(5_000) if case["already_notified"] else None,
    )

    after, decision = step(state, grade_as_is(GroupStatus[case["status"]]), policy, now)

    assert (decision.event is not NoticeEvent.NOTHING) is case["expect_sent"]
    assert (decision.event is NoticeEvent.CLOSE) is case["expect_is_close"]
    assert (after.incident is not None) is case["expect_incident_after"]


def grade_as_is(status: GroupStatus) -> Graded:
    return Graded(severity=status, reason=Reason.FIRST)


class TestBurrowsDefects:
    """Wrong in the Burrow setting, which copies them; right in every other."""

    def test_no_end_is_sent_of_an_incident_of_which_nothing_was_sent(self) -> None:
        story = Story(Policy(name="errors", threshold=ERR))

        story.sees(WARN)
        story.sees(OK)

        assert story.heard == []

    def test_a_group_that_reopens_at_once_is_sent_only_if_it_stays_bad(self) -> None:
        story = Story(Policy(name="p", threshold=WARN, reopen_ms=60_000))

        reasons = [story.sees(status).reason for status in (WARN, OK, WARN, OK, WARN)]
        late = story.sees(WARN, after_s=60)

        assert reasons[2] is Reason.REOPENED_TOO_SOON
        assert reasons[3] is Reason.NEVER_SENT
        assert late.reason is Reason.STILL_OPEN
        assert story.heard == [NoticeEvent.OPEN, NoticeEvent.CLOSE, NoticeEvent.OPEN]

    def test_a_reopening_that_is_worse_than_before_is_sent_at_once(self) -> None:
        story = Story(Policy(name="p", threshold=WARN, reopen_ms=60_000))

        for status in (WARN, OK, ERR):
            story.sees(status)

        assert story.heard == [NoticeEvent.OPEN, NoticeEvent.CLOSE, NoticeEvent.OPEN]

    @pytest.mark.parametrize(("began_s", "heard"), [(-1, True), (0, False), (1, False)])
    def test_a_trouble_that_began_before_the_end_of_another_is_sent_at_once(
        self, *, began_s: int, heard: bool
    ) -> None:
        story = Story(Policy(name="p", threshold=WARN, reopen_ms=60_000))
        story.sees(ERR)
        story.sees(OK)
        since_ms = EpochMs(story.now_ms + 1000 * began_s)
        story.sees(Graded(severity=ERR, reason=Reason.FIRST, since_ms=since_ms), after_s=5)

        assert story.heard == [
            NoticeEvent.OPEN,
            NoticeEvent.CLOSE,
            *([NoticeEvent.OPEN] if heard else []),
        ]

    def test_a_warning_says_too_little_about_when_it_began(self) -> None:
        story = Story(Policy(name="p", threshold=WARN, reopen_ms=60_000))
        story.sees(WARN)
        story.sees(OK)
        since_ms = EpochMs(story.now_ms - 1000)
        story.sees(Graded(severity=WARN, reason=Reason.FIRST, since_ms=since_ms), after_s=5)

        assert story.heard == [NoticeEvent.OPEN, NoticeEvent.CLOSE]

    def test_an_escalation_is_sent_under_send_once(self) -> None:
        story = Story(Policy(name="p", threshold=WARN, send_once=True))

        for status in (WARN, WARN, ERR, WARN, ERR, OK):
            story.sees(status)

        assert story.heard == [NoticeEvent.OPEN, NoticeEvent.ESCALATE, NoticeEvent.CLOSE]


class TestTiming:
    def test_a_verdict_must_hold_before_it_opens(self) -> None:
        story = Story(Policy(name="p", threshold=WARN, open_for_ms=10_000))

        first = story.sees(WARN)
        story.sees(OK)
        again = story.sees(WARN)
        opened = story.sees(WARN, after_s=10)

        assert (first.reason, again.reason) == (Reason.WAITING, Reason.WAITING)
        assert opened == Decision(act=Act.OPEN, event=NoticeEvent.OPEN, reason=Reason.FIRST)
        assert story.state.incident is not None
        assert story.state.incident.since_ms == story.now_ms - 10_000

    def test_a_good_verdict_must_hold_before_it_closes(self) -> None:
        story = Story(Policy(name="p", threshold=WARN, close_for_ms=10_000))
        story.sees(WARN)

        healing = story.sees(OK)
        story.sees(WARN)
        story.sees(OK)
        closed = story.sees(OK, after_s=10)

        assert healing.reason is Reason.HEALING
        assert closed == Decision(act=Act.CLOSE, event=NoticeEvent.CLOSE, reason=Reason.HEALED)

    def test_escalation_waits_as_opening_does_and_easing_as_closing_does(self) -> None:
        story = Story(Policy(name="p", threshold=WARN, open_for_ms=5_000, close_for_ms=20_000))
        story.sees(WARN)
        story.sees(WARN, after_s=5)

        acts = [story.sees(ERR).act, story.sees(ERR, 5).act, story.sees(WARN).act]
        eased = story.sees(WARN, after_s=20)

        assert acts == [Act.NONE, Act.ESCALATE, Act.NONE]
        assert eased == Decision(
            act=Act.DE_ESCALATE, event=NoticeEvent.DE_ESCALATE, reason=Reason.DE_ESCALATED
        )

    def test_reminders_come_once_an_interval(self) -> None:
        story = Story(Policy(name="p", threshold=WARN, remind_ms=60_000))

        for _ in range(181):
            story.sees(WARN)

        assert story.heard == [
            NoticeEvent.OPEN,
            NoticeEvent.REMIND,
            NoticeEvent.REMIND,
            NoticeEvent.REMIND,
        ]


class TestClockSetBack:
    """An hour: every wait begins anew at most, and none takes an hour longer."""

    BACK_S = -3600

    def test_an_opening_waits_no_longer_than_twice(self) -> None:
        story = Story(Policy(name="p", threshold=WARN, open_for_ms=10_000))
        story.sees(WARN)
        story.sees(WARN, after_s=self.BACK_S)

        assert story.sees(WARN, after_s=10).act is Act.OPEN

    def test_a_close_waits_no_longer_than_twice(self) -> None:
        story = Story(Policy(name="p", threshold=WARN, close_for_ms=60_000))
        story.sees(WARN)
        story.sees(OK)
        story.sees(OK, after_s=self.BACK_S)

        assert story.sees(OK, after_s=60).act is Act.CLOSE

    def test_reminders_and_escalation_go_on(self) -> None:
        policy = Policy(name="p", remind_ms=60_000, escalate_ms=90_000, escalate_to=("boss",))
        story = Story(policy)
        story.sees(ERR)
        story.sees(ERR, after_s=self.BACK_S)

        reasons = [story.sees(ERR, after_s=30).reason for _ in range(4)]

        assert Reason.REMINDER_DUE in reasons
        assert Reason.HANDED_ON in reasons

    def test_the_pause_after_a_close_is_no_longer_than_the_policy_says(self) -> None:
        story = Story(Policy(name="p", threshold=WARN, reopen_ms=60_000))
        story.sees(WARN)
        story.sees(OK)
        story.sees(WARN, after_s=self.BACK_S)

        assert story.sees(WARN, after_s=60).reason is Reason.STILL_OPEN


LOST, STOPPED, STALLED, REWOUND = (
    Rule.RECORDS_LOST,
    Rule.STOPPED,
    Rule.STALLED,
    Rule.REWOUND,
)


def bad_by(*kinds: Rule, status: GroupStatus = ERR) -> Graded:
    return Graded(severity=status, reason=Reason.FIRST, kinds=frozenset(kinds))


class TestKinds:
    def test_a_stop_after_a_loss_is_sent_once(self) -> None:
        story = Story(Policy(name="p"))
        story.sees(bad_by(LOST))

        worse_one = story.sees(bad_by(STOPPED, LOST))
        rest = [story.sees(bad_by(*kinds)) for kinds in ((STOPPED,), (LOST,), (STOPPED,)) * 3]

        assert worse_one == Decision(event=NoticeEvent.ESCALATE, reason=Reason.WORSE_KIND)
        assert all(decision.silent for decision in rest)

    def test_a_stop_that_began_before_a_loss_was_noticed_is_since_its_own_beginning(self) -> None:
        story = Story(Policy(name="p"))
        noticed_ms, stopped_ms = EpochMs(story.now_ms), EpochMs(story.now_ms - 90_000)
        story.sees(replace(bad_by(LOST), since_ms=noticed_ms))
        opened = story.state.incident

        story.sees(replace(bad_by(STOPPED, LOST), since_ms=stopped_ms), after_s=300)

        assert opened is not None
        assert opened.since_ms == noticed_ms
        assert story.heard == [NoticeEvent.OPEN, NoticeEvent.ESCALATE]
        assert story.state.incident is not None
        assert story.state.incident.since_ms == stopped_ms

    def test_a_loss_after_a_stop_is_sent_once(self) -> None:
        story = Story(Policy(name="p"))

        for kinds in ((STOPPED,), (STOPPED, LOST), (STOPPED,), (STOPPED, LOST)):
            story.sees(bad_by(*kinds))

        assert story.heard == [NoticeEvent.OPEN, NoticeEvent.ESCALATE]

    def test_a_stop_that_began_before_a_limit_was_missed_is_since_its_own_beginning(self) -> None:
        story = Story(Policy(name="p", threshold=WARN))
        missed_ms, stopped_ms = EpochMs(story.now_ms - 10_000), EpochMs(story.now_ms - 50_000)
        story.sees(Graded(severity=WARN, reason=Reason.FIRST, since_ms=missed_ms))
        story.sees(Graded(severity=ERR, reason=Reason.FIRST, since_ms=stopped_ms), after_s=100)
        story.sees(Graded(severity=ERR, reason=Reason.FIRST, since_ms=stopped_ms), after_s=100)

        assert story.state.incident is not None
        assert story.state.incident.notified is ERR
        assert story.state.incident.since_ms == stopped_ms

    def test_an_error_began_when_its_own_cause_did_not_with_the_warning_before(self) -> None:
        story = Story(WARNS)
        slow_ms = EpochMs(story.now_ms - 60_000)
        story.sees(replace(bad_by(Rule.FALLING_BEHIND, status=WARN), since_ms=slow_ms))
        stopped_ms = EpochMs(story.now_ms + 600_000)
        stopped = replace(bad_by(STOPPED), since_ms=stopped_ms)
        story.sees(stopped, after_s=900)
        incident = story.state.incident
        story.sees(replace(bad_by(Rule.FALLING_BEHIND, status=WARN), since_ms=slow_ms))
        eased = story.state.incident

        assert incident is not None
        assert (incident.since_ms, incident.as_bad_ms) == (slow_ms, stopped_ms)
        assert incident.named_ms == stopped_ms
        assert eased is not None
        assert (eased.since_ms, eased.named_ms) == (slow_ms, slow_ms)

    def test_a_warning_while_an_incident_waits_is_not_the_beginning_of_its_error(self) -> None:
        story = Story(replace(WARNS, open_for_ms=60_000))
        story.sees(replace(bad_by(Rule.FALLING_BEHIND, status=WARN), since_ms=EpochMs(1)))
        stopped_ms = EpochMs(story.now_ms + 10_000)
        story.sees(replace(bad_by(STOPPED), since_ms=stopped_ms), after_s=60)

        assert story.state.incident is not None
        assert story.state.incident.since_ms == stopped_ms

    def test_a_worse_kind_began_when_it_did_and_the_error_before_it(self) -> None:
        story = Story(Policy(name="p"))
        rewound_ms, stopped_ms = EpochMs(story.now_ms), EpochMs(story.now_ms + 300_000)
        story.sees(replace(bad_by(REWOUND), since_ms=rewound_ms))
        story.sees(replace(bad_by(STOPPED), since_ms=stopped_ms), after_s=700)
        story.sees(replace(bad_by(REWOUND, STOPPED), since_ms=stopped_ms), after_s=700)

        assert story.heard == [NoticeEvent.OPEN, NoticeEvent.ESCALATE]
        incident = story.state.incident
        assert incident is not None
        assert (incident.as_bad_ms, incident.named_ms) == (rewound_ms, stopped_ms)

    @pytest.mark.parametrize("between", [OK, WARN])
    def test_trouble_that_comes_again_is_named_since_then_and_the_incident_goes_on(
        self, between
    ) -> None:
        story = Story(Policy(name="p", threshold=WARN, close_for_ms=60_000, remind_ms=60_000))
        story.sees(replace(bad_by(Rule.STOPPED), since_ms=EpochMs(900_000)))
        began = story.state.incident
        story.sees(grade_as_is(between), 20)

        story.sees(replace(bad_by(Rule.STOPPED), since_ms=EpochMs(1_015_000)), 20)

        incident = story.state.incident
        assert began is not None
        assert incident is not None
        assert began.named_ms == incident.since_ms == incident.as_bad_ms == 900_000
        assert incident.named_ms == 1_015_000
        # less bad trouble in between is trouble all the same
        assert incident.again_ms == (1_015_000 if between is OK else None)
        assert story.heard == [NoticeEvent.OPEN]

    def test_trouble_that_was_not_seen_for_a_moment_began_when_it_did(self) -> None:
        story = Story(Policy(name="p", threshold=WARN, close_for_ms=60_000))
        story.sees(replace(bad_by(Rule.STOPPED), since_ms=EpochMs(900_000)))
        story.sees(OK, 20)

        story.sees(replace(bad_by(Rule.STOPPED), since_ms=EpochMs(900_000)), 20)

        assert story.state.incident is not None
        assert story.state.incident.named_ms == 900_000

    def test_a_loss_that_has_doubled_since_the_last_notice_is_sent_and_at_most_once_a_minute(
        self,
    ) -> None:
        story = Story(Policy(name="p"))
        found = [(100, 5), (150, 600), (200, 5), (400, 5), (799, 60), (1_000, 60), (1_700, 60)]

        reasons = []
        for lost, after_s in found:
            decided = story.sees(replace(bad_by(LOST), lost=lost), after_s=after_s)
            reasons.append(decided.reason if not decided.silent else None)

        grown = Reason.LOSS_GREW
        assert reasons == [Reason.FIRST, None, grown, None, grown, None, grown]
        assert set(story.heard[1:]) == {NoticeEvent.ESCALATE}

    def test_what_is_lost_after_an_acknowledgement_is_news_again(self) -> None:
        story = Story(Policy(name="p"))
        for kinds, lost in ((LOST,), 483), ((STOPPED,), 0), ((STOPPED, LOST), 200):
            story.sees(replace(bad_by(*kinds), lost=lost), after_s=120)

        assert story.heard == [NoticeEvent.OPEN, NoticeEvent.ESCALATE, NoticeEvent.ESCALATE]

    def test_a_kind_that_is_not_worse_is_not_sent(self) -> None:
        story = Story(Policy(name="p"))

        for kind in (STOPPED, STALLED, REWOUND, STALLED, STOPPED):
            story.sees(bad_by(kind))

        assert story.heard == [NoticeEvent.OPEN]

    def test_a_worse_kind_must_hold_as_long_as_a_verdict_that_opens(self) -> None:
        story = Story(Policy(name="p", open_for_ms=10_000))
        story.sees(bad_by(LOST))
        story.sees(bad_by(LOST), after_s=10)

        for _ in range(5):
            story.sees(bad_by(STOPPED), after_s=5)
            story.sees(bad_by(LOST), after_s=4)
        flapped = list(story.heard)
        story.sees(bad_by(STOPPED))
        story.sees(bad_by(STOPPED), after_s=10)

        assert flapped == [NoticeEvent.OPEN]
        assert story.heard == [NoticeEvent.OPEN, NoticeEvent.ESCALATE]

    def test_a_new_incident_names_its_kinds_anew(self) -> None:
        story = Story(Policy(name="p"))
        for seen in (bad_by(LOST), bad_by(STOPPED), OK, bad_by(LOST), bad_by(STOPPED)):
            story.sees(seen)

        assert story.heard == [
            NoticeEvent.OPEN,
            NoticeEvent.ESCALATE,
            NoticeEvent.CLOSE,
            NoticeEvent.OPEN,
            NoticeEvent.ESCALATE,
        ]

    def test_a_kind_that_began_under_a_mute_is_sent_after_it(self) -> None:
        story = Story(Policy(name="p"))
        story.sees(bad_by(LOST))

        muted = story.sees(bad_by(STOPPED), muted=True)
        after = story.sees(bad_by(STOPPED))

        assert muted.event is NoticeEvent.NOTHING
        assert (after.event, after.reason) == (NoticeEvent.ESCALATE, Reason.MUTE_ENDED)

    def test_an_incident_of_an_older_version_learns_its_kinds_without_a_notice(self) -> None:
        story = Story(Policy(name="p"))
        at_ms = EpochMs(story.now_ms)
        story.state = State(
            incident=Incident(
                since_ms=at_ms, opened_ms=at_ms, severity=ERR, notified=ERR, notified_ms=at_ms
            )
        )

        reasons = [story.sees(bad_by(kind)).reason for kind in (STALLED, STALLED, STOPPED)]

        assert reasons == [Reason.ALREADY_SENT, Reason.ALREADY_SENT, Reason.WORSE_KIND]

    def test_a_severity_that_flaps_takes_longer_to_come_down_again(self) -> None:
        story = Story(Policy(name="p", threshold=WARN, close_for_ms=60_000, reopen_ms=300_000))
        stopped, slow = bad_by(STOPPED), bad_by(Rule.FALLING_BEHIND, status=WARN)

        for _ in range(40):  # a minute and a half of each, for two hours
            story.sees(stopped)
            story.sees(slow, after_s=1)
            story.sees(slow, after_s=89)

        assert story.heard == [NoticeEvent.OPEN, NoticeEvent.DE_ESCALATE, NoticeEvent.ESCALATE]

    def test_every_rule_that_is_an_error_has_a_rank(self) -> None:
        errors = {
            rule
            for rule, status in STATUS_BY_RULE.items()
            if status in set(PartitionStatus) - {PartitionStatus.OK, PartitionStatus.WARN}
            and status is not PartitionStatus.UNKNOWN
        }

        assert set(RANK) == errors

    @given(st.frozensets(st.sampled_from(Rule)), st.frozensets(st.sampled_from(Rule)))
    def test_what_is_named_is_never_worse_again(self, seen, named) -> None:
        assert not worse(seen, named | worse(seen, named))
        assert kinds_of(kind_words(seen)) == seen


class TestFloors:
    def test_under_the_floor_of_messages_nothing_is_bad(self) -> None:
        policy = replace(WARNS, minimum_lag=100)

        under = grade(Observation(status=ERR, total_lag=99), policy)
        at = grade(Observation(status=ERR, total_lag=100), policy)

        assert (under.severity, under.reason) == (OK, Reason.BELOW_FLOOR)
        assert at.severity is ERR

    def test_a_limit_of_lost_messages_is_under_no_floor(self) -> None:
        policy = replace(WARNS, minimum_lag=100, minimum_time_lag_ms=1000)
        seen = Observation(status=ERR, total_lag=5, time_lag_ms=10, too_many_lost=True)

        assert grade(seen, policy).severity is ERR

    def test_an_unknown_time_lag_is_under_no_floor(self) -> None:
        policy = replace(WARNS, minimum_time_lag_ms=30_000)

        assert grade(Observation(status=ERR, time_lag_ms=29_999), policy).severity is OK
        assert grade(Observation(status=ERR, time_lag_ms=-1), policy).severity is ERR
        least = Observation(status=ERR, time_lag_ms=29_999, time_lag_open=True)
        assert grade(least, policy).severity is ERR
        most = Observation(status=ERR, time_lag_most_ms=30_000)
        assert grade(most, policy).severity is ERR
        assert grade(replace(most, time_lag_most_ms=29_999), policy).severity is OK

    def test_windows_not_filled_enough_open_nothing_and_close_nothing(self) -> None:
        story = Story(replace(WARNS, minimum_complete=0.5))
        story.sees(WARN)

        thin = grade(Observation(status=WARN, complete=0.4), story.policy)
        decision = story.sees(thin)

        assert decision == Decision(reason=Reason.INCOMPLETE)
        assert story.state.incident is not None

    def test_a_group_of_a_policy_that_never_alerts_has_no_incident(self) -> None:
        story = Story(replace(WARNS, threshold=NEVER))

        assert story.sees(ERR).reason is Reason.BELOW_THRESHOLD
        assert story.state.idle


class TestOddVerdicts:
    def test_unknown_opens_nothing_and_closes_nothing(self) -> None:
        story = Story(WARNS)

        before = story.sees(UNKNOWN)
        story.sees(WARN)
        during = story.sees(UNKNOWN, after_s=3600)

        assert before.silent
        assert during.silent
        assert story.state.incident is not None

    def test_it_began_when_the_verdict_says_and_opened_when_it_was_seen(self) -> None:
        story = Story(WARNS)
        seen = Observation(status=WARN, total_lag=100, since_ms=400_000)

        story.sees(grade(seen, WARNS))

        assert story.state.incident is not None
        assert story.state.incident.since_ms == 400_000
        assert story.state.incident.opened_ms == story.now_ms

    def test_an_incident_of_a_group_that_is_gone_is_closed(self) -> None:
        story = Story(WARNS)
        story.sees(WARN)

        assert story.sees(gone()).reason is Reason.GROUP_GONE
        assert story.heard == [NoticeEvent.OPEN, NoticeEvent.CLOSE]


class TestMutes:
    def test_an_incident_that_opens_muted_is_sent_when_the_mute_ends(self) -> None:
        story = Story(WARNS)

        muted = story.sees(WARN, muted=True)
        after = story.sees(WARN)

        assert muted == Decision(act=Act.OPEN, reason=Reason.MUTED)
        assert after == Decision(event=NoticeEvent.OPEN, reason=Reason.MUTE_ENDED)

    def test_an_incident_within_a_mute_is_recorded_and_never_sent(self) -> None:
        story = Story(WARNS)

        story.sees(WARN, muted=True)
        story.sees(OK, muted=True)
        story.sees(OK)

        assert story.acts == [Act.OPEN, Act.CLOSE]
        assert story.heard == []

    def test_the_end_of_an_incident_that_was_sent_is_sent_after_the_mute(self) -> None:
        story = Story(WARNS)
        story.sees(WARN)

        held = story.sees(OK, muted=True)
        after = story.sees(OK)

        assert held.reason is Reason.HELD_BY_MUTE
        assert after.event is NoticeEvent.CLOSE

    def test_one_sent_before_the_mute_is_sent_once_more_if_it_is_open_after_it(self) -> None:
        story = Story(WARNS)
        story.sees(WARN)

        muted = [story.sees(WARN, muted=True).event for _ in range(2)]
        after = [story.sees(WARN) for _ in range(2)]

        assert muted == [NoticeEvent.NOTHING] * 2
        assert after[0] == Decision(event=NoticeEvent.REMIND, reason=Reason.MUTE_ENDED)
        assert after[1].silent

    def test_it_is_sent_too_when_it_was_good_for_a_while_within_the_mute(self) -> None:
        story = Story(WARNS)
        story.sees(WARN)
        story.sees(OK, muted=True)

        assert story.sees(WARN).reason is Reason.MUTE_ENDED

    def test_after_a_mute_nothing_is_said_again_of_what_is_acknowledged_or_sent_once(self) -> None:
        once, seen = Story(replace(WARNS, send_once=True)), Story(WARNS)
        for story in (once, seen):
            story.sees(WARN)
        assert seen.state.incident is not None
        acknowledged = replace(seen.state.incident, acknowledged=True)
        seen.state = replace(seen.state, incident=acknowledged)

        for story in (once, seen):
            story.sees(WARN, muted=True)
            assert story.sees(WARN).silent
            assert story.sees(ERR).reason is Reason.ESCALATED

    def test_an_escalation_within_a_mute_is_sent_after_it(self) -> None:
        story = Story(WARNS)
        story.sees(WARN)

        muted = story.sees(ERR, muted=True)
        after = story.sees(ERR)

        assert (muted.act, muted.event) == (Act.ESCALATE, NoticeEvent.NOTHING)
        assert (after.act, after.event) == (Act.NONE, NoticeEvent.ESCALATE)


class TestChannels:
    def test_a_channel_for_errors_hears_the_escalation_as_an_opening(self) -> None:
        assert channel_event(NoticeEvent.OPEN, WARN, ERR, knows=False) is NoticeEvent.NOTHING
        assert channel_event(NoticeEvent.ESCALATE, ERR, ERR, knows=False) is NoticeEvent.OPEN

    def test_a_channel_that_knows_hears_of_better_times_and_the_end(self) -> None:
        assert (
            channel_event(NoticeEvent.DE_ESCALATE, WARN, ERR, knows=True) is NoticeEvent.DE_ESCALATE
        )
        assert channel_event(NoticeEvent.REMIND, WARN, ERR, knows=True) is NoticeEvent.NOTHING
        assert channel_event(NoticeEvent.CLOSE, OK, ERR, knows=True) is NoticeEvent.CLOSE

    def test_a_channel_that_does_not_know_hears_of_no_end(self) -> None:
        assert channel_event(NoticeEvent.CLOSE, OK, WARN, knows=False) is NoticeEvent.NOTHING


policies = st.builds(
    Policy,
    name=st.just("any"),
    threshold=st.sampled_from([WARN, ERR, NEVER]),
    open_for_ms=st.sampled_from([0, 1000, 5000]),
    close_for_ms=st.sampled_from([0, 1000, 5000]),
    remind_ms=st.sampled_from([0, 2000]),
    reopen_ms=st.sampled_from([0, 4000]),
    send_once=st.booleans(),
    send_close=st.booleans(),
    minimum_lag=st.sampled_from([0, 50]),
    minimum_complete=st.sampled_from([0.0, 0.5]),
)
moments = st.lists(
    st.tuples(
        st.builds(
            Observation,
            status=st.sampled_from([OK, WARN, ERR, UNKNOWN]),
            kinds=st.frozensets(st.sampled_from([LOST, STOPPED, STALLED])),
            complete=st.sampled_from([0.2, 1.0]),
            total_lag=st.sampled_from([0, 100]),
        ),
        st.sampled_from([0, 500, 1000, 7000]),
        st.booleans(),
    ),
    max_size=60,
)


class Ledger:
    """Checks that what is opened is closed, and nothing else."""

    def __init__(self, opening: str, closing: str) -> None:
        self._opening, self._closing = opening, closing
        self.is_open = False

    def takes(self, word: str) -> None:
        if word == self._opening:
            assert not self.is_open, "opened twice"
            self.is_open = True
        elif word not in {"none", "nothing"}:
            assert self.is_open, f"{word} without an opening"
            self.is_open = word != self._closing


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(policy=policies, seen=moments)
def test_the_laws_of_incidents(policy: Policy, seen) -> None:
    state, now_ms = QUIET, 0
    incident, heard = Ledger("open", "close"), Ledger("open", "close")

    for observation, after_ms, muted in seen:
        now_ms += after_ms
        graded = grade(observation, policy)
        state, decision = step(state, graded, policy, EpochMs(now_ms), muted=muted)

        incident.takes(decision.act)
        heard.takes(decision.event)
        if decision.act is Act.CLOSE:
            heard.is_open = False  # a policy without send_close leaves it at that
        assert not (muted and decision.event is not NoticeEvent.NOTHING)
        if policy.send_once:
            assert decision.event not in (NoticeEvent.REMIND, NoticeEvent.DE_ESCALATE)
        if policy.threshold is NEVER:
            assert state.idle
        assert (state.incident is not None) == incident.is_open


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    policy=policies.map(lambda each: replace(each, threshold=WARN)),
    seen=moments,
)
def test_in_the_end_everybody_knows_how_it_is(policy: Policy, seen) -> None:
    """After any history, an hour unmuted of the same verdict leaves nothing unsent."""
    for last in (OK, ERR):
        state, now_ms = QUIET, 0
        knows: GroupStatus | None = None
        final = [(Observation(status=last, total_lag=100), 600_000, False)] * 6
        for observation, after_ms, muted in [*seen, *final]:
            now_ms += after_ms
            state, decision = step(
                state, grade(observation, policy), policy, EpochMs(now_ms), muted=muted
            )
            if decision.event is NoticeEvent.CLOSE or decision.act is Act.CLOSE:
                knows = None
            elif decision.event is not NoticeEvent.NOTHING and state.incident is not None:
                knows = state.incident.severity

        assert knows is (None if last is OK else ERR)


class TestEscalation:
    POLICY = Policy(name="p", escalate_ms=600_000, escalate_to=("boss",), remind_ms=300_000)

    def test_an_incident_that_stays_open_is_handed_on_once(self) -> None:
        story = Story(self.POLICY)

        reasons = [story.sees(ERR, 60).reason for _ in range(20)]

        assert reasons.count(Reason.HANDED_ON) == 1
        assert reasons[10] is Reason.HANDED_ON, "ten minutes after it opened"
        assert reasons.count(Reason.REMINDER_DUE) == 3, "every five minutes, as without it"

    def test_a_mute_holds_it_back_until_it_ends(self) -> None:
        story = Story(self.POLICY)
        story.sees(ERR)
        story.sees(ERR, 700, muted=True)

        reasons = [story.sees(ERR, 1).reason for _ in range(2)]

        assert Reason.HANDED_ON in reasons

    def test_acknowledging_silences_reminders_and_nothing_else(self) -> None:
        story = Story(self.POLICY)
        story.sees(ERR)
        assert story.state.incident is not None
        acknowledged = replace(story.state.incident, acknowledged=True)
        story.state = replace(story.state, incident=acknowledged)

        reminded = [story.sees(ERR, 60).reason for _ in range(9)]
        handed_on = story.sees(ERR, 120).reason
        story.sees(OK)

        assert Reason.REMINDER_DUE not in reminded
        assert Reason.ACKNOWLEDGED in reminded
        assert handed_on is Reason.HANDED_ON
        assert story.heard[-1] is NoticeEvent.CLOSE


class TestAClockThatIsSetBack:
    def test_an_incident_lasts_at_least_as_long_as_it_had(self) -> None:
        story = Story(Policy(name="p", close_for_ms=0))
        since_ms = EpochMs(story.now_ms - 60_000)
        story.sees(Graded(severity=ERR, reason=Reason.FIRST, since_ms=since_ms))
        opened = story.state.incident

        story.sees(ERR, after_s=-3600)
        shifted = story.state.incident

        assert opened is not None
        assert shifted is not None
        assert shifted.opened_ms == story.now_ms
        assert shifted.opened_ms - shifted.since_ms == opened.opened_ms - opened.since_ms
        assert shifted.since_at_least
        assert shifted.clock_set_back
        assert not opened.clock_set_back

    @given(
        st.lists(
            st.tuples(st.sampled_from([OK, WARN, ERR, UNKNOWN]), st.integers(-5000, 5000)),
            max_size=30,
        )
    )
    def test_no_incident_begins_or_opens_in_the_future(self, rounds) -> None:
        story = Story(replace(WARNS, open_for_ms=20_000, close_for_ms=20_000))

        for status, after_s in rounds:
            story.sees(status, after_s)
            incident = story.state.incident

            assert incident is None or incident.since_ms <= incident.opened_ms <= story.now_ms

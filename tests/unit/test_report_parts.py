"""Parts of the nightly report that need no Spark: days, words, colours, verdicts, sending."""

import email
import email.policy
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, date, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from aiosmtpd.controller import Controller
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from lagwatch.cli import app
from lagwatch.config.alerts import AlertsSettings
from lagwatch.core.advise import Load
from lagwatch.core.model import Rule
from lagwatch.core.rollback import Standing
from lagwatch.errors import ConfigError
from lagwatch.jobs.report import words
from lagwatch.jobs.report.day import QUARTER_MS, Day, quarters, yesterday
from lagwatch.jobs.report.deliver import report_message, send
from lagwatch.jobs.report.model import (
    VERSION,
    ClusterDay,
    DeployedOffset,
    DeploymentDay,
    GroupDay,
    GroupObjective,
    GroupTurn,
    HeatMap,
    ObjectivesKept,
    Report,
    ReportedIncident,
    RetentionRisk,
    Side,
    Skew,
    TopicAdvice,
    Trend,
)
from lagwatch.jobs.report.page import colour, facts, html, spark
from lagwatch.jobs.report.parts import (
    deployment_day,
    to_do,
    topic_advice,
    urgency,
    with_hottest,
    with_rounds,
)
from lagwatch.jobs.report.text import text as plain
from lagwatch.jobs.report.words import verdict
from lagwatch.kafka.embedded.ports import free_ports
from lagwatch.notify.broadcast import check
from lagwatch.notify.words import rule as notified
from tests.support.history import SetClock
from tests.support.receiver import Receiver, Reply, receiving

_ZONES = st.sampled_from(
    [
        *("UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kathmandu", "Australia/Lord_Howe"),
        *("America/Havana", "Asia/Beirut", "Pacific/Chatham", "America/St_Johns"),
    ]
)
_DATES = st.dates(date(2000, 1, 1), date(2035, 12, 31))


@given(_ZONES, _DATES)
def test_days_follow_each_other_without_a_gap(zone, when) -> None:
    day = Day(date=when, zone=ZoneInfo(zone))

    assert day.before(1).to_ms == day.from_ms
    assert day.to_ms == day.before(-1).from_ms
    assert 22.5 * 3600 <= day.seconds <= 25.5 * 3600
    assert day.wall(day.from_ms).date() == when
    assert day.wall(day.to_ms - 1).date() == when


@given(_ZONES, _DATES)
def test_hours_and_quarters_cover_the_day(zone, when) -> None:
    day = Day(date=when, zone=ZoneInfo(zone))

    hours = day.hours
    assert (hours[0].from_ms, hours[-1].to_ms) == (day.from_ms, day.to_ms)
    assert all(before.to_ms == after.from_ms for before, after in pairwise(hours))
    mine = [quarter for quarter in quarters(day, 1) if quarter.days_ago == 0]
    assert len(mine) * QUARTER_MS == day.to_ms - day.from_ms
    for quarter in mine:
        first, last = day.wall(quarter.quarter_ms), day.wall(quarter.quarter_ms + QUARTER_MS - 1)
        # in St. John's clocks were changed at one minute past midnight
        assert quarter.hour == last.hour or first.utcoffset() != last.utcoffset()


@pytest.mark.parametrize(
    ("when", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-07-01", 24)]
)
def test_a_day_may_be_short_or_long(when, hours) -> None:
    day = Day(date=date.fromisoformat(when), zone=ZoneInfo("Europe/Berlin"))

    assert len(day.hours) == hours
    assert len({hour.label for hour in day.hours}) == hours


def test_yesterday_is_that_of_the_zone() -> None:
    now = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)
    now_ms = int(now.timestamp() * 1000)

    assert yesterday(now_ms, ZoneInfo("UTC")).date == date(2026, 11, 19)
    assert yesterday(now_ms, ZoneInfo("Asia/Tokyo")).date == date(2026, 11, 20)


def test_numbers_are_written_for_people() -> None:
    assert [words.duration(each) for each in (None, 0, 0.32, 59.6, 3661, 90_000, 200_000)] == [
        "unknown",
        "0 s",
        "0.3 s",
        "59.6 s",
        "1 h 1 min",
        "1 d 1 h",
        "2 d 7 h",
    ]
    assert [words.number(each) for each in (None, 0, 9999, 12_345, 4_567_890, 0.123, 1e15)] == [
        "unknown",
        "0",
        "9,999",
        "12.3 k",
        "4.57 M",
        "0.123",
        "1e+15",
    ]
    assert [words.share(each) for each in (None, 1.0, 0.99999, 0.5, 0.123, 0.00038, 0.0)] == [
        "unknown",
        "100%",
        "> 99.9%",
        "50%",
        "12.3%",
        "< 0.1%",
        "0%",
    ]
    assert [words.used(each) for each in (0.8, 1.5, 5.0, 99.0)] == ["80%", "150%", "5 ×", "99 ×"]  # noqa: RUF001


@given(st.floats(0, 1e12))
def test_a_share_that_is_not_all_never_reads_as_all(value) -> None:
    assert value >= 1 or words.share(value) != "100%"
    assert value <= 0 or words.share(value) != "0%"


def test_cells_are_coloured_by_the_objective() -> None:
    lags = (None, 0.0, 15.0, 15.1, 60.0, 61.0, 300.0, 1800.0, 1801.0)

    assert [colour(lag, 60.0) for lag in lags] == [
        *("hu", "h0", "h0", "h1", "h1", "h2", "h2", "h3", "h4")
    ]


def test_a_curve_breaks_where_nothing_is_known() -> None:
    assert spark([10.0, None, 5.0, 0.0], 10.0) == "M0.0 1.0h0.1M66.7 10.0h0.1L100.0 19.0"
    assert spark([], 1.0) == ""


_CALM = Side(
    seconds=3600,
    lag_avg=100,
    time_lag_max_s=5,
    consumed_per_s=10,
    produced_per_s=10,
    not_ok_s=0,
    rebalances=0,
)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "same"),
        ({"not_ok_s": 300}, "worse"),
        ({"time_lag_max_s": 100}, "worse"),
        ({"time_lag_max_s": 9}, "same"),
        ({"time_lag_max_s": None, "lag_avg": 1000}, "worse"),
        ({"seconds": 600}, "unknown"),
        ({"not_ok_s": None, "time_lag_max_s": None, "lag_avg": None}, "unknown"),
    ],
)
def test_a_deployment_is_judged_by_what_clearly_differs(changes, word) -> None:
    other = replace(_CALM, **changes)

    turned = {"worse": "better"}.get(word, word)
    assert verdict(_CALM, other) == word
    assert verdict(other, _CALM) == turned


# sending


@pytest.fixture
def report() -> Report:
    """Of a day on which nothing was recorded."""
    day = Day(date=date(2026, 11, 20), zone=ZoneInfo("Europe/Berlin"))
    none: tuple[()] = ()
    return Report(
        version=VERSION,
        lagwatch="1",
        day="2026-11-20",
        time_zone="Europe/Berlin",
        from_ms=day.from_ms,
        to_ms=day.to_ms,
        seconds=day.seconds,
        made_ms=day.to_ms,
        to_do=none,
        clusters=none,
        groups=none,
        objectives=ObjectivesKept(
            objective_s=60, objective_share=0.99, budget_days=28, groups=none
        ),
        trend=Trend(test="", days_before=0, compared=0, changes=None),
        heat=HeatMap(hours=none, rows=none, left_out=0),
        groups_new=none,
        groups_gone=none,
        turnover_known=False,
        incidents=none,
        retention=none,
        retention_known=False,
        skew=none,
        deployments=none,
        advice_days=7,
        advice=none,
        unreadable_files=0,
        only_coarse=False,
        notes=("There is <nothing> here.",),
    )


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as server:
        yield server


_SUBJECT = "Consumer lag on 2026-11-20: nothing was recorded"


def _send(report: Report, **channels):
    alerts = AlertsSettings(**channels)
    names = [name for name, _ in alerts.channels()]
    return send(report, names, alerts, SetClock())


@pytest.mark.parametrize("rule", Rule)
def test_an_incident_has_the_words_of_its_notices(report, rule) -> None:
    incident = ReportedIncident(
        cluster="prod",
        group="billing",
        from_ms=report.from_ms + 60_000,
        to_ms=None,
        seconds=60.0,
        worst="ERR",
        rule=rule.word,
        lag_max=7,
        time_lag_max_s=None,
    )
    with_incident = replace(report, incidents=(incident,))
    noticed = notified({"rule": rule.word})

    assert f">{noticed}<" in html(with_incident)
    assert f"({noticed})" in plain(with_incident)


_INCIDENT = ReportedIncident(
    cluster="prod",
    group="billing",
    from_ms=None,
    to_ms=None,
    seconds=60.0,
    worst="ERR",
    rule="stopped",
    lag_max=7,
    time_lag_max_s=None,
)


def _rounds(*counted: tuple[str | None, str | None, int]) -> list[dict]:
    return [
        {
            "cause": cause,
            "cause_certainty": certainty,
            "rounds": number,
            "lag_max": None,
            "time_lag_max_s": None,
        }
        for cause, certainty, number in counted
    ]


def test_an_incident_has_the_greatest_lags_of_its_own_rounds() -> None:
    none, one, two = _rounds((None, None, 1), (None, "unknown", 1), ("all_slow", "likely", 1))
    rounds = [none, one | {"lag_max": 7, "time_lag_max_s": 2.5}, two | {"lag_max": 9}]
    beside = replace(_INCIDENT, lag_max=8_000, time_lag_max_s=400.0)  # of buckets

    found = with_rounds(beside, rounds, {})

    assert (found.lag_max, found.time_lag_max_s, found.cause) == (9, 2.5, "all_slow")
    assert with_rounds(beside, [], {}) == beside


def test_an_incident_has_the_known_cause_that_was_named_most_often() -> None:
    rounds = _rounds(
        (None, "unknown", 60), ("no_members", "certain", 25), ("no_members", "likely", 5),
        ("all_slow", "likely", 10),
    )  # fmt: skip

    found = with_rounds(_INCIDENT, rounds, {"no_members": "the group has no members"})

    assert (found.cause, found.cause_certainty) == ("no_members", "certain")
    assert found.cause_share == pytest.approx(0.3)
    assert found.cause_text == "Cause (certain): the group has no members."


def test_the_numbers_of_a_cause_say_of_when_and_of_which_partition_they_are() -> None:
    at_ms = Day(date=date(2026, 11, 20), zone=ZoneInfo("UTC")).from_ms + 11_520_000

    said = words.as_of("the log begins at 5,122", at_ms, ZoneInfo("Europe/Berlin"))

    assert said == (
        "the log begins at 5,122 (as of 20 Nov 04:12, in the partition that decided then)"
    )


def test_without_a_recorded_sentence_a_cause_is_reported_by_its_meaning() -> None:
    found = with_rounds(_INCIDENT, _rounds(("no_members", "likely", 1)), {})

    assert found.cause_text is not None
    assert found.cause_text.startswith(
        "Cause (likely): the group is empty, and commits have ended for all its partitions. "
        "Refuted if "
    )


def test_as_many_likely_as_certain_samples_are_no_certainty() -> None:
    rounds = _rounds(("no_members", "certain", 3), ("no_members", "likely", 3))

    assert with_rounds(_INCIDENT, rounds, {}).cause_certainty == "likely"


def test_a_cause_that_was_looked_for_and_not_found_is_not_one_that_was_not_recorded() -> None:
    unknown = with_rounds(_INCIDENT, _rounds((None, "unknown", 3)), {})

    assert (unknown.cause, unknown.cause_certainty) == (None, "unknown")
    assert unknown.cause_text == "Cause: not known."
    assert with_rounds(_INCIDENT, [], {}) == _INCIDENT


def test_the_text_says_how_far_an_objective_was_missed_and_what_of_the_budget_is_used(
    report,
) -> None:
    missed = GroupObjective(
        cluster="prod",
        group="mailer",
        known_s=86_400,
        late_s=1728,
        share=0.98,
        met=False,
        burn=2.0,
        budget_known_s=86_400,
        budget_s=864,
        spent_s=1296,
        left=-0.5,
    )
    unknown = replace(missed, group="new", left=None)
    kept = replace(report.objectives, groups=(missed, unknown))

    (line,) = [each for each in plain(replace(report, objectives=kept)).splitlines()
               if each.startswith("Objective")]  # fmt: skip

    assert line == (
        "Objective (1 min for 99% of the time): 0 of 2 groups kept it; missed by "
        "mailer (98% in time, budget used 150%), new (98% in time, budget used unknown)"
    )


def _cluster(name: str) -> ClusterDay:
    return ClusterDay(
        cluster=name, groups=1, recorded_s=86_400, not_ok_s=0, produced=None, consumed=None,
        rebalances=None,
    )  # fmt: skip


_ADVICE = TopicAdvice(
    cluster="lab", group="mailer", topic="mails", kind="add_consumers", needed=5, needed_bare=4,
    formula="", partitions=8, consumers=2, peak_per_s=350, rate_per_s=100, buckets=9,
    saturated_buckets=9, unowned_buckets=0, partly_buckets=0, read_share=1, headroom=0.7, reason="",
)  # fmt: skip


def test_where_there_are_several_clusters_the_text_names_that_of_each_group(report) -> None:
    missed = GroupObjective(
        cluster="lab", group="mailer", known_s=86_400, late_s=1728, share=0.98, met=False,
        burn=2.0, budget_known_s=86_400, budget_s=864, spent_s=1296, left=-0.5,
    )  # fmt: skip
    came = GroupTurn(cluster="prod", group="audit", at_ms=0, lag=None)
    of_one = replace(
        report,
        clusters=(_cluster("lab"),),
        objectives=replace(report.objectives, groups=(missed,)),
        groups_new=(came,),
        advice=(_ADVICE,),
    )

    one = plain(of_one)
    several = plain(replace(of_one, clusters=(_cluster("lab"), _cluster("prod"))))

    assert "missed by mailer (" in one
    assert "New: audit" in one.splitlines()
    assert "Scale: mailer needs 5 consumers for topic mails" in one
    assert "missed by mailer on lab (" in several
    assert "New: audit on prod" in several.splitlines()
    assert "Scale: mailer on lab needs 5 consumers for topic mails" in several


@pytest.mark.parametrize(
    ("share", "what", "said"),
    [(0.62, "produced", True), (0.19, "produced", False), (0.62, "lag", False)],
)
def test_a_partition_that_is_too_much_for_one_consumer_is_named(
    report, share: float, what: str, *, said: bool
) -> None:
    skews = [
        Skew(
            cluster="lab", group=None, topic=topic, partition=number, what=what, partitions=8,
            share=value, factor=8 * value,
        )
        for topic, number, value in (
            ("mails", 1, share / 2), ("mails", 3, share), ("others", 5, 0.9),
        )
    ]  # fmt: skip

    (advised,) = with_hottest([_ADVICE], skews)

    sentence = "Partition 3 gets 62% of them, 217 messages/s at peak"
    assert (sentence in advised.hottest, bool(advised.hottest)) == (said, said)
    assert (sentence in plain(replace(report, advice=(advised,)))) == said


def test_a_deployment_has_its_offsets_in_the_text(report) -> None:
    offsets = [
        DeployedOffset(
            topic="mails", partition=number, committed_offset=offset, log_start_offset=0,
            log_end_offset=9000,
        )
        for number, offset in enumerate([1204, None, 980, 7, 8, 9, 10])
    ]  # fmt: skip
    side = Side(
        seconds=3600.0, lag_avg=1.0, time_lag_max_s=1.0, consumed_per_s=1.0, produced_per_s=1.0,
        not_ok_s=0.0, rebalances=0,
    )  # fmt: skip
    made = DeploymentDay(
        cluster="prod", group="mailer", at_ms=report.from_ms, version="2.1", note="",
        partitions=7, before=side, after=side, verdict="same", offsets=offsets,
    )  # fmt: skip

    def after_deployed(*deployments: DeploymentDay) -> list[str]:
        lines = plain(replace(report, deployments=deployments)).splitlines()
        return lines[next(at for at, line in enumerate(lines) if line.startswith("Deployed")) + 1 :]

    assert after_deployed(made) == [
        "  offsets then: mails/0 1,204, mails/2 980, mails/3 7, mails/4 8 and 2 more partitions"
    ]
    assert after_deployed(replace(made, offsets=offsets[:2])) == ["  offsets then: mails/0 1,204"]
    assert after_deployed(replace(made, offsets=())) == []


def _standing(**changes) -> dict:
    row = {
        "cluster": "prod",
        "group": "billing",
        "at_ms": 0,
        "status": "ERR",
        "ended_unknown": False,
        "total_lag": 104_000_000,
        "time_lag_s": 11_000.0,
        "time_lag_reason": "beyond_history",
        "catch_up_s": None,
        "catch_up_reason": "falling_behind",
        "partitions": 3,
        "since_ms": None,
        "loss_in_s": 18_000.0,
        "loss_reason": "nearing",
    }
    return row | changes


def test_text_and_page_lead_with_what_to_do(report) -> None:
    incident = with_rounds(_INCIDENT, _rounds(("all_slow", "likely", 1)), {"all_slow": "too slow"})
    with_incident = replace(
        report, to_do=(to_do(_standing(), incident, ()),), incidents=(incident,)
    )

    lines = plain(with_incident).splitlines()

    assert lines[2:4] == [
        (
            "To do: billing on prod is ERR: lag 104 M; time lag ≥ 3 h 3 min; "
            "catch-up: never, more is written than it reads; loss: in 5 h"
        ),
        f"  {incident.cause_text}",
    ]
    page = html(with_incident)
    for shown in ("≥ 3 h 3 min", "104 M", "never, more is written than it reads", "in 5 h"):
        assert f">{shown}<" in page
    assert page.index('id="today"') < page.index('id="heat"')
    assert "Cause (likely): too slow." in page
    assert with_incident.as_json()["to_do"][0]["loss_in_s"] == 18_000.0


@pytest.mark.parametrize(
    ("recorded_min", "incident_min", "said"),
    [
        (678, 684, "is ERR, since 11:18: lag"),
        (690, 684, "is ERR, since 11:24: lag"),
        (None, 684, "is ERR, since 11:24: lag"),
        (-60, None, "is ERR, since {yesterday} 23:00: lag"),
        (None, None, "is ERR: lag"),
    ],
)
def test_trouble_begins_before_the_verdict_on_it(report, recorded_min, incident_min, said) -> None:
    at = lambda minutes: None if minutes is None else report.from_ms + minutes * 60_000  # noqa: E731
    incident = replace(_INCIDENT, from_ms=at(incident_min))
    row = to_do(_standing(since_ms=at(recorded_min)), incident, ())
    zone = ZoneInfo(report.time_zone)
    yesterday = f"{datetime.fromtimestamp(report.from_ms / 1000 - 3600, zone):%-d %b}"

    text = plain(replace(report, to_do=(row,)))

    assert f"To do: billing on prod {said.format(yesterday=yesterday)}" in text


@pytest.mark.parametrize(
    ("partitions", "said"),
    [(1, "never, nothing is read"), (3, "never, not all partitions are read")],
)
def test_a_group_that_reads_some_partitions_is_not_said_to_read_nothing(
    report, partitions, said
) -> None:
    row = to_do(_standing(catch_up_reason="not_moving", partitions=partitions), None, ())
    with_row = replace(report, to_do=(row,))

    assert f"catch-up: {said};" in plain(with_row)
    assert f">{said}<" in html(with_row)


def test_the_status_of_a_group_that_ended_unknown_is_said_to_be_the_last_known_one(report) -> None:
    last_ms = report.from_ms + 86_040_000
    row = to_do(_standing(at_ms=last_ms, ended_unknown=True), None, ())
    with_row = replace(report, to_do=(row,))

    known = f"when last known, at {words.clock(last_ms, ZoneInfo(report.time_zone))}"

    assert f"To do: billing on prod was ERR {known}: lag 104 M;" in plain(with_row)
    assert f"ERR</span> {known}</td>" in html(with_row)
    assert with_row.as_json()["to_do"][0]["ended_unknown"] is True


def test_an_incident_is_not_said_to_go_on_while_nothing_was_recorded(report) -> None:
    seen_ms = report.from_ms + 51_000_000
    began = replace(_INCIDENT, from_ms=report.from_ms + 49_200_000, to_ms=None, lag_max=7)
    cut_off = replace(began, last_seen_ms=seen_ms, seconds=1800.0)
    older = replace(cut_off, group="old", from_ms=None)
    open_ = replace(began, group="open", last_seen_ms=report.to_ms - 1000)
    whole = replace(report, incidents=(cut_off, older, open_))

    said, page = plain(whole), html(whole)

    assert " from 13:40, open when last recorded at 14:10" in said
    assert " since before the history, open when last recorded at 14:10" in said
    assert " from 13:40, still open" in said
    assert page.count(">open at 14:10<") == 2
    assert facts(whole)[1]["more"] == "1 still open, 2 open when last recorded"
    assert facts(replace(whole, incidents=(older,)))[1]["more"] == "1 open when last recorded"
    assert page.count('x="56.94" width="2.08"') == 2, "half an hour of the day"


def test_what_is_not_known_is_no_zero_on_the_page_or_in_the_text(report) -> None:
    load = Load(
        peak_per_s=10.0, buckets=100, rate_per_s=None, saturated_buckets=0, unowned_buckets=0,
        partly_buckets=0, read_share=1.0, partitions=4, consumers=2,
    )  # fmt: skip
    row = {"cluster": "prod", "group": "mailer", "topic": "mails", **asdict(load)}
    unknown: dict[str, Any] = dict.fromkeys(GroupDay.__slots__)
    group = GroupDay(**unknown | {"cluster": "prod", "group": "mailer"})
    first_day = replace(report, groups=(group,), advice=(topic_advice(row, 0.7),))
    compared = replace(first_day.trend, days_before=7, compared=3, changes=())

    page, text = html(first_day), plain(first_day)
    known = replace(first_day, trend=compared)

    tiles = [one["what"] for one in facts(first_day) if one["count"] is None]
    assert tiles == ["Missed the objective", "Partitions at risk", "To be scaled", "Changed"]
    assert page.count("<b>unknown</b>") == len(tiles)
    assert "Not known: nothing could be compared." in page
    assert "Scale: not known, of no group it is known what its consumers can do" in text
    assert "Changed against the week before: not known, nothing could be compared" in text
    assert first_day.as_json()["trend"]["changes"] is None
    assert "Nothing changed by more than chance." in html(known)
    assert facts(known)[-1]["count"] == 0
    assert "Changed" not in plain(known)


def test_the_text_sums_up_what_a_group_loses(report) -> None:
    risk = RetentionRisk(
        cluster="prod",
        group="audit",
        topic="logs",
        partition=2,
        lost=3_050_000,
        lost_at_most=True,
        margin=-3_050_000,
        behind_share=1.0,
        margin_per_s=9.1,
        left_s=None,
    )
    less = replace(risk, partition=0, lost=3_040_000, lost_at_most=False)
    coming = replace(risk, group="search", lost=0, margin=7200, left_s=7200.0)
    later = replace(coming, partition=1, left_s=9000.0)
    apart = replace(coming, group="mailer", left_s=None)

    said = plain(replace(report, retention=(risk, less, coming, later, apart))).splitlines()

    assert [line for line in said if line.startswith("Retention")] == [
        "Retention: audit on prod: up to 6.09 M messages lost, most of logs/2",
        "Retention: search on prod: loses messages in 2 h, first of logs/2",
        (
            "Retention: mailer on prod: far behind in logs/2, "
            "of which messages were deleted in the day"
        ),
    ]


def test_the_text_says_what_a_deployment_changed_and_what_the_way_back_reads_again(
    report,
) -> None:
    before = Side(
        seconds=3600,
        lag_avg=1_450_000,
        time_lag_max_s=2502,
        consumed_per_s=40.0,
        produced_per_s=40.0,
        not_ok_s=0,
        rebalances=0,
    )
    after = replace(before, lag_avg=160_000, time_lag_max_s=None, not_ok_s=90)
    deployed = DeploymentDay(
        cluster="prod",
        group="billing",
        at_ms=report.from_ms + 51_000_000,
        version="4.2",
        note="",
        partitions=None,
        before=before,
        after=after,
        verdict="better",
    )

    (line,) = [each for each in plain(replace(report, deployments=(deployed,))).splitlines()
               if each.startswith("Deployed")]  # fmt: skip

    assert line == (
        "Deployed: billing on prod 4.2 at 14:10: better: mean lag 1.45 M → 160 k, time lag "
        "41 min 42 s → unknown, not OK 0 s → 1 min 30 s; back: no offsets were recorded"
    )


def test_a_name_does_not_turn_the_direction_of_the_text(report) -> None:
    incident = replace(_INCIDENT, group="pay\u202egpj")

    said = plain(replace(report, incidents=(incident,)))

    assert "pay\ufffdgpj" in said
    assert "\u202e" not in said


def test_what_is_not_known_ahead_of_a_group_is_said_and_not_shown_as_0() -> None:
    old = to_do(
        _standing(time_lag_s=None, catch_up_reason=None, loss_in_s=None, loss_reason=None), None, ()
    )

    assert words.time_lag(old.time_lag_s, old.time_lag_bound) == "unknown"
    assert words.catch_up(old.catch_up_s, old.catch_up_reason) == "unknown"
    assert words.loss(old.loss_in_s, old.loss_reason) == "unknown"
    assert words.loss(None, "not_nearing", "1,234") == "not in sight, 1,234 lost already"
    assert words.catch_up(0.0, "caught_up") == "in 0 s"


def test_a_topic_of_which_messages_were_deleted_once_is_not_called_one_without_deletions() -> None:
    said = words.loss(None, "nothing_deleted")

    assert said == "not in sight, fewer than two deletions were seen"


def test_a_loss_within_a_day_is_the_most_urgent() -> None:
    rows = [
        to_do(_standing(group=name, **changes), None, ())
        for name, changes in (
            ("late", {"loss_in_s": None, "time_lag_s": 1e6}),
            ("warned", {"loss_in_s": None, "time_lag_s": 2e6, "status": "WARN"}),
            ("loses", {"loss_in_s": 600.0, "time_lag_s": 1.0, "status": "WARN"}),
            ("unknown", {"loss_in_s": None, "time_lag_s": None}),
        )
    ]

    assert [row.group for row in sorted(rows, key=urgency)] == [
        *("loses", "late", "unknown", "warned")
    ]


def test_the_headroom_is_a_formula_with_both_answers() -> None:
    load = Load(
        peak_per_s=350.0,
        buckets=100,
        rate_per_s=100.0,
        saturated_buckets=10,
        unowned_buckets=0,
        partly_buckets=0,
        read_share=1.0,
        partitions=8,
        consumers=4,
    )
    row = {name: getattr(load, name) for name in Load.__slots__}

    advised = topic_advice(row | {"cluster": "prod", "group": "g", "topic": "t"}, 0.7)

    assert (advised.needed_bare, advised.needed) == (4, 5)
    assert advised.formula == (
        "350/s ÷ 100/s = 3.5 → 4; with headroom 0.7: 350/s ÷ (100/s \u00d7 0.7) = 5 → 5"
    )


def test_a_deployment_has_its_offsets_and_the_way_back() -> None:
    detail = {
        "version": "2",
        "note": "n",
        "offsets": {"t": [100, 5, None]},
        "log_start": {"t": [0, 0, 0]},
        "log_end": {"t": [120, 9, 0]},
    }
    sides = {f"{side}_{name}": getattr(_CALM, name) for side in ("before", "after")
             for name in Side.__slots__}  # fmt: skip
    row = {"cluster": "c", "group": "g", "at_ms": 1, "version": "2", "partitions": 3} | sides
    now = {
        ("t", 0): Standing(committed=150, log_start=0, log_end=200),
        ("t", 1): Standing(committed=50, log_start=20, log_end=60),
        ("t", 2): Standing(committed=3, log_start=0, log_end=3),
    }

    found = deployment_day(row | {"detail": json.dumps(detail)}, now)

    assert [(each.committed_offset, each.log_end_offset) for each in found.offsets] == [
        *((100, 120), (5, 9), (None, 0))
    ]
    assert found.rollback is not None
    assert [each.state.value for each in found.rollback.partitions] == [
        *("exact", "deleted", "not_committed_then")
    ]
    assert (found.rollback.read_again, found.rollback.deleted) == (50 + 30, 15)
    assert found.rollback.csv == "t,0,100\nt,1,20\n"
    unseen = deployment_day(row | {"detail": json.dumps(detail)}, {}).rollback
    assert unseen is not None
    assert unseen.read_again is None, "0 would say that nothing is read again"
    other = deployment_day(row | {"detail": "by another program"}, now)
    assert (other.note, other.offsets, other.rollback) == ("", (), None)


def test_a_webhook_gets_the_documented_json(report, receiver) -> None:
    made = {"url": receiver.url, "secret": "s3cret", "headers": {"X-Kind": "{{ message.event }}"}}

    [with_incident] = _send(report, webhook={"hook": made})

    [request] = receiver.taken
    assert with_incident.delivered
    assert request.json["subject"] == _SUBJECT
    assert request.json["text"].splitlines()[1] == "There is <nothing> here."
    assert (request.json["event"], request.json["report"]["groups"]) == ("report", 0)
    assert request.json["report"]["changes"] is request.json["report"]["to_scale"] is None
    assert request.key == "report-Europe-Berlin-2026-11-20"
    assert request.headers["x-kind"] == "report"
    assert request.headers["x-lagwatch-signature"].startswith("t=")


def test_a_template_made_for_alerts_is_reported_and_not_sent(report, receiver) -> None:
    [with_incident] = _send(report, webhook={"hook": {"url": receiver.url + "/{{ notice.group }}"}})

    assert not with_incident.delivered
    assert "template failed" in with_incident.answer
    assert receiver.requests == []


def test_chats_get_subject_and_text(report, receiver) -> None:
    receiver.replies += [Reply(status=202, body="ok")] * 2  # what Slack and what Teams accept
    hook = {"webhook_url": receiver.url}

    with_incident = _send(report, slack={"slack": hook}, teams={"teams": hook})

    assert [block.delivered for block in with_incident] == [True, True]
    slack, teams = sorted(
        (request.json for request in receiver.taken), key=lambda block: "text" not in block
    )
    assert slack["text"] == _SUBJECT
    assert "&lt;nothing&gt;" in slack["blocks"][1]["text"]["text"]
    card = teams["attachments"][0]["content"]
    shown = [block["inlines"][0]["text"] for block in card["body"]]
    assert shown == [_SUBJECT, "There is <nothing> here."]


@pytest.mark.slow
def test_it_is_tried_again_where_that_may_help(report) -> None:
    with receiving(Reply(status=503), Reply(hang_up=True)) as healing:
        [with_incident] = _send(report, webhook={"hook": {"url": healing.url}})
    with receiving(Reply(status=403, body="no")) as refusing:
        [refused] = _send(report, webhook={"hook": {"url": refusing.url}})

    assert with_incident.delivered
    assert len({request.key for request in healing.requests}) == 1
    assert (len(healing.requests), len(refusing.requests)) == (3, 1)
    assert (refused.delivered, refused.answer) == (False, "403 Forbidden: no")


class _Kept:
    def __init__(self) -> None:
        self.mails: list[bytes] = []

    async def handle_DATA(self, server, session, envelope) -> str:  # noqa: N802 its name
        del server, session
        self.mails.append(envelope.content)
        return "250 taken"


def test_an_e_mail_carries_the_page_as_a_file(report) -> None:
    kept = _Kept()
    (port,) = free_ports(1)
    controller = Controller(kept, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        [with_incident] = _send(
            report,
            email={
                "mail": {
                    "host": "127.0.0.1",
                    "port": port,
                    "security": "none",
                    "sender": "lagwatch@example.org",
                    "to": ["ops@example.org"],
                }
            },
        )
    finally:
        controller.stop()

    mail = email.message_from_bytes(kept.mails[0], policy=email.policy.default)
    [page] = mail.iter_attachments()
    assert with_incident.delivered
    assert mail["Subject"] == _SUBJECT
    assert page.get_filename() == "lagwatch-2026-11-20.html"
    assert "There is &lt;nothing&gt; here." in page.get_content()


def test_channels_that_cannot_take_it_are_named_before_anything_runs() -> None:
    alerts = AlertsSettings.model_validate(
        {
            "pagerduty": {"pager": {"routing_key": "k"}},
            "webhook": {"hook": {"url": "http://localhost:1"}},
        }
    )

    check(["hook"], alerts, key="jobs.report.channels")
    with pytest.raises(ConfigError) as raised:
        check(["pager", "nobody"], alerts, key="jobs.report.channels")

    assert [fault.problem for fault in raised.value.faults] == [
        "sends alerts only",
        "no channel has this name",
    ]


def test_sending_to_none_is_nothing(report) -> None:
    assert send(report, ["nobody"], AlertsSettings(), SetClock()) == []
    assert json.loads(json.dumps(report_message(report).as_json("c")))["channel"] == "c"


# the command


@pytest.mark.parametrize(
    ("arguments", "with_incident"),
    [
        (["--day", "tomorrow"], "is no day and no instant: write it as 2026-11-21, or"),
        (["--day", "2999-01-01"], "is not over in UTC"),
        (["--day", "0001-01-01"], "is before 1971: nothing is recorded of it"),
        (["--day", ""], "is no day and no instant"),
        (["--day", "2026-01-01", "--from", "2026-01-01"], "say --day, or --from and --to"),
        (["--to", "2026-01-01"], "needs --from as well"),
        (["--from", "2026-01-02", "--to", "2026-01-01"], "is before --from"),
    ],
)
def test_days_that_are_none_are_refused_before_spark_starts(
    arguments, with_incident, tmp_path: Path
) -> None:
    found = CliRunner().invoke(
        app, ["report", *arguments, "--store", str(tmp_path)], env={"COLUMNS": "200"}
    )

    assert found.exit_code == 2
    assert with_incident in found.stderr


def test_a_folder_that_cannot_be_written_is_refused_before_spark_starts(tmp_path: Path) -> None:
    found = CliRunner().invoke(
        app,
        ["report", "--folder", "/dev/null/x", "--store", str(tmp_path)],
        env={"COLUMNS": "200", "JAVA_HOME": str(tmp_path), "SPARK_HOME": str(tmp_path)},
    )

    # Spark would have found neither of its homes
    assert found.exit_code not in {0, 1}
    assert "jobs.report.folder: /dev/null/x cannot be written" in found.stderr

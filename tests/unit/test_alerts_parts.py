"""The parts of the alerts, one by one: mutes, policies, templates, waiting, the curve."""

import struct
import zlib
from datetime import datetime
from random import Random
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.config.alerts import AlertsSettings, MuteSettings
from lagwatch.notify.alerts import page_link
from lagwatch.notify.backoff import Allowance, ChannelBackoff
from lagwatch.notify.curve import png
from lagwatch.notify.mutes import from_settings
from lagwatch.notify.policies import PolicyBook
from lagwatch.notify.render import Templates
from lagwatch.notify.sample import sample_messages
from lagwatch.notify.words import plain_text

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str, zone: ZoneInfo = BERLIN) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


def weekly(**changes):
    given = {
        "reason": "load",
        "days": ["sat"],
        "at": "23:00",
        "duration_s": 7200,
        "timezone": "Europe/Berlin",
    }
    return from_settings("w", MuteSettings(**given | changes)).window


class TestMutes:
    def test_a_weekly_window_passes_midnight(self) -> None:
        window = weekly()  # Saturday 23:00 to Sunday 01:00

        assert window.ends_ms(at("2026-11-21T22:59:59")) is None
        assert window.ends_ms(at("2026-11-21T23:00")) == at("2026-11-22T01:00")
        assert window.ends_ms(at("2026-11-22T00:59:59")) == at("2026-11-22T01:00")
        assert window.ends_ms(at("2026-11-22T01:00")) is None

    def test_a_weekly_window_keeps_its_local_time_when_clocks_change(self) -> None:
        window = weekly(days=["sun"], at="04:00", duration_s=3600)

        assert window.ends_ms(at("2026-10-18T04:30")) is not None  # summer time
        assert window.ends_ms(at("2026-10-25T04:30")) is not None  # the day it ends
        assert window.ends_ms(at("2026-10-25T03:30")) is None

    def test_a_window_that_comes_once_begins_and_ends_in_its_time_zone(self) -> None:
        settings = MuteSettings(
            reason="upgrade",
            starts="2027-01-31T22:00",
            ends="2027-02-01T02:00",
            timezone="Europe/Berlin",
        )
        window = from_settings("once", settings).window

        assert window.ends_ms(at("2027-01-31T22:00")) == at("2027-02-01T02:00")
        assert window.ends_ms(at("2027-02-01T02:00")) is None

    @given(
        st.integers(0, 6),
        st.integers(0, 23),
        st.integers(60, 7 * 86_400),
        st.integers(1_780_000_000, 1_830_000_000),
    )
    def test_an_open_window_ends_within_its_length(self, day, hour, length_s, now_s) -> None:
        days = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
        window = weekly(days=[days[day]], at=f"{hour:02}:00", duration_s=length_s)

        ends_ms = window.ends_ms(now_s * 1000)

        assert ends_ms is None or now_s * 1000 < ends_ms <= (now_s + length_s) * 1000


class TestPolicies:
    def test_the_first_match_decides_topic_by_topic(self) -> None:
        book = PolicyBook(
            AlertsSettings(
                policies={
                    "dlq": {"topic": "-dlq$", "threshold": "never"},
                    "pay": {"group": "^pay", "cluster": "prod"},
                    "rest": {"group": "^(pay|mail)"},
                }
            )
        )

        found = book.of("prod", "payments", ["orders", "orders-dlq"])

        assert {topic: policy and policy.name for topic, policy in found.items()} == {
            "orders": "pay",
            "orders-dlq": "dlq",
        }
        assert book.of("test", "payments", ["x"])["x"] is book.by_name["rest"]
        assert book.of("test", "other", ["x"])["x"] is None


class TestTemplates:
    def test_an_unknown_variable_is_named_with_its_line(self) -> None:
        (fault,) = Templates().faults("alerts.webhook.x.body", "fine\n{{ subject }}\n{{ grup }}")

        assert fault.key == "alerts.webhook.x.body"
        assert "line 3" in fault.problem
        assert "'grup'" in fault.problem

    def test_an_unknown_field_is_named_with_its_line(self) -> None:
        (fault,) = Templates().faults("body", "\n\n\n{{ notice.Id }}")

        assert "line 4" in fault.problem
        assert "Id" in fault.problem

    def test_a_syntax_error_is_named_with_its_line(self) -> None:
        (fault,) = Templates().faults("body", "\n{% if %}")

        assert "line 2" in fault.problem

    def test_the_sandbox_lets_nothing_out(self) -> None:
        (fault,) = Templates().faults("body", "{{ subject.__class__.__mro__ }}")

        assert "unsafe" in fault.problem

    def test_every_field_of_the_documented_json_can_be_used(self) -> None:
        source = (
            "{{ message.id }}{{ message | json }}{% for one in notices %}{{ one.cluster }}"
            "{{ one.since_ms | instant }}{{ one.verdict.total_lag | number }}{% endfor %}"
            "{{ verdict.partitions[0].evidence | json if verdict.partitions }}{{ text }}"
        )

        assert Templates().faults("body", source) == []

    def test_plain_text_says_what_since_when_and_whose(self) -> None:
        text = plain_text(sample_messages()[0])

        for part in ("stopped", "nothing read for 3 min 15 s", "Since 2027", "client sample-1"):
            assert part in text
        assert "1,204 messages behind" in text


class TestWaiting:
    def test_waits_double_up_to_five_minutes_with_jitter(self) -> None:
        backoff = ChannelBackoff(Random(1))  # noqa: S311

        delays = [backoff.delay_s(attempt, None) for attempt in range(1, 40)]

        assert 0.5 <= delays[0] <= 1
        assert all(0.5 * min(300, 2**n) <= delay <= 300 for n, delay in enumerate(delays))
        assert len(set(delays)) == len(delays)

    def test_a_minutes_worth_may_go_at_once_and_no_more(self) -> None:
        allowance = Allowance(60, now_s=0)

        for _ in range(60):
            assert allowance.wait_s(0) == 0
            allowance.take(0)

        assert 0.99 <= allowance.wait_s(0) <= 1.002
        assert allowance.wait_s(1.002) == 0


class TestCurve:
    def test_it_is_a_png_with_the_line_where_the_values_are(self) -> None:
        picture = png([(0, 0), (1000, 100)])

        assert picture is not None
        width, height = struct.unpack(">II", picture[16:24])
        length = struct.unpack(">I", picture[33:37])[0]
        raw = zlib.decompress(picture[41 : 41 + length])
        rows = [raw[y * (1 + width * 3) + 1 :][: width * 3] for y in range(height)]
        red = [
            min(y for y in range(height) if rows[y][x * 3 : x * 3 + 3] == bytes((192, 57, 43)))
            for x in (10, width // 2, width - 10)
        ]
        assert red == sorted(red, reverse=True)
        assert red[0] > height * 0.8
        assert red[2] < height * 0.2

    @pytest.mark.parametrize("points", [[], [(5, 7)]])
    def test_fewer_than_two_points_make_no_curve(self, points) -> None:
        assert png(points) is None


def test_a_notice_links_to_its_group_on_the_page() -> None:
    link = page_link("https://lag.example/", "prod", "a group/with?signs")

    assert link == "https://lag.example/?group=a+group%2Fwith%3Fsigns&of=prod"
    assert page_link("", "prod", "g") == ""

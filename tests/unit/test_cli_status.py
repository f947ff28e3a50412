"""`status`: the same look through a lagwatch, a Burrow and the monitor in this process."""

import http.server
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from lagwatch.cli import app, words
from lagwatch.cli.local import LocalSource
from lagwatch.cli.remote import RemoteSource
from lagwatch.cli.reporting import Exit
from lagwatch.cli.status import look
from lagwatch.cli.status_table import draw_group, draw_groups
from lagwatch.cli.views import GroupView, StatusSource, readiness
from lagwatch.core.model import (
    EpochMs,
    GroupStatus,
    GroupVerdict,
    PartitionStatus,
    Rule,
    RuleSet,
    TimeLagReason,
)
from lagwatch.core.rules import LAGWATCH
from lagwatch.errors import NotFoundError
from lagwatch.ports.queries import GroupDetail
from lagwatch_api import create_app
from tests.support.api_doubles import (
    NOW_MS,
    GivenCluster,
    GivenQueries,
    GivenSettings,
    RecordingCommands,
    cluster_health,
    group_verdict,
    partition_verdict,
    unknown_partition,
)
from tests.support.fleet import Fleet, ShiftedClock
from tests.support.serving import served

pytestmark = pytest.mark.slow  # asks real HTTP servers

BURROW = Path(__file__).parents[1] / "vectors" / "burrow-answers"

OK = group_verdict(
    partition_verdict(status=PartitionStatus.OK, rule=Rule.PROGRESSING, current_lag=1_234_567),
    group="fine",
    status=GroupStatus.OK,
    rule=Rule.PROGRESSING,
)
WARN = group_verdict(partition_verdict(), group="behind / odd?", since_ms=None)
ERR = group_verdict(
    partition_verdict(status=PartitionStatus.STOP, rule=Rule.STOPPED),
    unknown_partition(),
    group="stopped",
    status=GroupStatus.ERR,
    rule=Rule.STOPPED,
)
UNKNOWN = group_verdict(
    unknown_partition(),
    group="unseen",
    status=GroupStatus.UNKNOWN,
    rule=None,
    max_lag=None,
    total_lag=0,
    time_lag_s=None,
)


def queries(*verdicts: GroupVerdict, ready: bool = True, problems: tuple[str, ...] = ()):
    names = {verdict.group: verdict for verdict in verdicts}
    details = dict.fromkeys(names, GroupDetail(topics={}))
    clusters = {"c1": GivenCluster(verdicts=names, details=details)}
    return GivenQueries(clusters, [cluster_health("c1", ready=ready, problems=problems)])


@contextmanager
def lagwatch_at(*verdicts: GroupVerdict, **health) -> Iterator[str]:
    application = create_app(
        queries(*verdicts, **health),
        RecordingCommands(),
        GivenSettings(),
        hostname="test",
        version="1",
    )
    with served(application) as server:
        yield f"http://127.0.0.1:{server.port}"


@cache
def _recorded() -> dict[str, tuple[int, object]]:
    """Path → status and body; the list of clusters, not recorded, as the one cluster there was."""
    files = (json.loads(path.read_text()) for path in BURROW.glob("GET*.json"))
    answers = {
        file["request"]["path"]: (file["status"], file["body"])
        for file in files
        if "status" in file
    }
    return answers | {"/v3/kafka": (200, {"error": False, "clusters": ["local"]})}


class _RecordedBurrow(http.server.BaseHTTPRequestHandler):
    """Answers what a Burrow answered to the same path."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        status, body = _recorded().get(self.path, (404, ""))
        raw = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def burrow_at(handler: type[http.server.BaseHTTPRequestHandler] = _RecordedBurrow) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def drawn(group: GroupView) -> str:
    console = Console(width=10_000, color_system=None, force_terminal=False)
    with console.capture() as captured:
        draw_group(console, group)
    return captured.get()


def table_of(source: StatusSource, clusters: tuple[str, ...], *, width: int = 10_000) -> str:
    """What is drawn of all groups."""
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as captured:
        draw_groups(console, look(source, clusters, None).groups)
    return captured.get()


def status(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["status", *arguments])


class TestExitCode:
    @pytest.mark.parametrize(
        ("verdicts", "code"),
        [
            ((), 0),
            ((OK,), 0),
            ((OK, WARN), 1),
            ((OK, WARN, ERR), 2),
            ((OK, UNKNOWN), 3),
            ((WARN, UNKNOWN), 1),
            ((ERR, UNKNOWN), 2),
        ],
    )
    def test_it_is_that_of_the_worst_group(
        self, verdicts: tuple[GroupVerdict, ...], code: int
    ) -> None:
        with lagwatch_at(*verdicts) as url:
            assert status("--url", url).exit_code == code

    @pytest.mark.parametrize(("group", "code"), [("fine", 0), ("behind / odd?", 1), ("stopped", 2)])
    def test_it_is_that_of_the_group_asked_for(self, group: str, code: int) -> None:
        with lagwatch_at(OK, WARN, ERR) as url:
            assert status(group, "--url", url).exit_code == code

    @pytest.mark.parametrize(("verdict", "code"), [(OK, 3), (WARN, 1), (ERR, 2)])
    def test_a_cluster_that_is_not_ready_is_never_ok(
        self, verdict: GroupVerdict, code: int
    ) -> None:
        with lagwatch_at(verdict, ready=False) as url:
            result = status("--url", url)

        assert result.exit_code == code
        assert "cluster 'c1': not read to the end yet (10 of 100 records" in result.stderr

    def test_of_one_group_only_its_own_cluster_counts(self) -> None:
        found = queries(OK)
        found.given["dr-site"] = GivenCluster()
        found.health_lines += (cluster_health("dr-site", ready=False, problems=("no answer",)),)
        source = LocalSource(found)

        known, missing = (look(source, ("c1", "dr-site"), name) for name in ("fine", "other"))

        assert (known.code, known.problems) == (Exit.OK, ())
        assert missing.code == Exit.UNKNOWN
        assert "cluster 'dr-site': no answer" in missing.problems

    def test_what_is_wrong_with_a_cluster_is_reported(self) -> None:
        with lagwatch_at(OK, problems=("log_ends: no answer. Check the brokers.",)) as url:
            result = status("--url", url)

        assert result.exit_code == 0
        assert "cluster 'c1': log_ends: no answer. Check the brokers." in result.stderr

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("nobody",), "group 'nobody' is not known"),
            (("--cluster", "nowhere"), "cluster 'nowhere' is not known"),
        ],
    )
    def test_what_nobody_knows_is_unknown(self, arguments: tuple[str, ...], message: str) -> None:
        with lagwatch_at(OK) as url:
            result = status(*arguments, "--url", url)

        assert result.exit_code == 3
        assert result.stderr == f"lagwatch: {message}\n"

    def test_a_group_not_seen_so_far_is_unknown(self) -> None:
        with lagwatch_at(OK, ready=False) as url:
            result = status("nobody", "--url", url)

        assert result.exit_code == 3
        assert "group 'nobody' is not known so far" in result.stderr

    def test_a_closed_port_is_unknown_with_the_reason(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]

        result = status("--url", f"http://127.0.0.1:{port}")

        assert result.exit_code == 3
        assert "Connection refused" in result.stderr

    def test_silence_is_unknown_after_the_wait(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            result = status("--url", url, "--wait", "0.2")

        assert result.exit_code == 3
        assert "did not answer in time" in result.stderr

    @pytest.mark.parametrize("url", ["ftp://host", "http://", "http://host:port", "http://[::1"])
    def test_what_is_no_url_is_reported(self, url: str) -> None:
        result = status("--url", url)

        assert result.exit_code == 3
        assert "is no URL of a server" in result.stderr

    @pytest.mark.parametrize(
        "body", [b"", b"hello", b"[]", b'{"clusters": 5}', b'{"clusters": [5]}']
    )
    def test_a_stranger_is_reported(self, body: bytes) -> None:
        class Stranger(_RecordedBurrow):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        with burrow_at(Stranger) as url:
            result = status("--url", url)

        assert result.exit_code == 3
        assert "did not answer as lagwatch or Burrow does" in result.stderr

    def test_a_fault_of_the_configuration_is_unknown(self) -> None:
        result = status("--bootstrap", "kafka")

        assert result.exit_code == 3
        assert 'clusters.local.bootstrap[0] = "kafka": has no port' in result.stderr

    def test_only_one_way_to_ask_can_be_given(self) -> None:
        assert status("--bootstrap", "kafka:9092", "--url", "http://host").exit_code == 2


def test_a_fault_is_said_once_however_many_parts_meet_it() -> None:
    refused = "nothing listens at 127.0.0.1:9092"
    problems = (
        f"connection: {refused}",
        "groups: no answer from 127.0.0.1:9092",
        f"topics: listing topics: {refused}",
    )
    seen = partial(readiness, backlog=(1, 1), problems=problems, data_age_s=49.3)

    stale = seen(ready=False, stale=True, reason=problems[0])
    fresh = seen(ready=True, stale=False, reason="")

    assert stale.problems == (f"data are 49.3 s old: {problems[0]}", problems[1])
    assert fresh.problems == problems[:2]


class TestOutput:
    def test_json_names_everything(self) -> None:
        with lagwatch_at(OK, ERR, UNKNOWN) as url:
            answer = json.loads(status("--url", url, "--json").stdout)

        assert answer["status"] == "ERROR"
        assert answer["problems"] == []
        groups = {group["group"]: group for group in answer["groups"]}
        assert list(groups) == ["fine", "stopped", "unseen"]
        assert groups["fine"]["total_lag"] == 1_234_567
        assert groups["stopped"]["rule"] == "stopped"
        assert groups["stopped"]["unknown_partitions"] == 1
        assert groups["unseen"]["total_lag"] is None

    def test_a_group_is_shown_with_all_its_partitions(self) -> None:
        with lagwatch_at(OK) as url:
            every = json.loads(status("fine", "--url", url, "--json").stdout)
            bad = json.loads(status("--url", url, "--json").stdout)

        assert len(every["groups"][0]["partitions"]) == 1
        assert bad["groups"][0]["partitions"] == []

    def test_eighty_columns_break_no_word_of_the_partitions_of_a_group(self) -> None:
        stalled = partition_verdict(
            topic="archive", status=PartitionStatus.STALL, rule=Rule.STALLED, current_lag=4_333,
            time_lag_s=105.0, owner="", client_id="",
        )  # fmt: skip
        source = LocalSource(queries(group_verdict(stalled, group="mailer", rule=Rule.STALLED)))
        screen = Console(width=80, color_system=None)

        with screen.capture() as captured:
            draw_group(screen, source.group("c1", "mailer", show_all=True))

        shown = captured.get()
        assert re.search(r"TOPIC +PARTITION +STATUS +RULE +LAG", shown)
        assert re.search(r"archive +0 +STALL +stalled +4,333", shown)
        assert max(len(line) for line in shown.splitlines()) <= 80

    @pytest.mark.parametrize("width", [60, 80])
    def test_a_narrow_terminal_cuts_no_number_topic_or_owner_of_a_group(self, width: int) -> None:
        stalled = partition_verdict(
            topic="orders." + "y" * 200, status=PartitionStatus.STALL, rule=Rule.STALLED,
            current_lag=123_456_789, time_lag_s=75_400.0, owner="/10.0.3.14", client_id="mailer-1",
        )  # fmt: skip
        hidden = replace(unknown_partition(), topic=stalled.topic, partition=11)
        name = "team." + "x" * 290
        source = LocalSource(queries(group_verdict(stalled, hidden, group=name, rule=Rule.STALLED)))
        screen = Console(width=width, color_system=None)

        with screen.capture() as captured:
            draw_group(screen, source.group("c1", name, show_all=True))

        shown = captured.get()
        whole = "".join(line.rstrip() for line in shown.splitlines())
        assert re.search(r"0 +STALL +123,456,789 +20 h 56 min", shown)
        assert "stalled; client mailer-1 on 10.0.3.14" in shown
        assert "topic_not_visible" in shown
        assert stalled.topic in whole
        assert name in whole
        assert max(len(line) for line in shown.splitlines()) <= width

    def test_a_lag_of_nothing_beside_an_unknown_partition_is_unknown(self) -> None:
        read = partition_verdict(
            current_lag=0, status=PartitionStatus.OK, rule=Rule.LAG_WITHIN_ALLOWED
        )
        hidden = replace(unknown_partition(), partition=1)
        verdict = group_verdict(
            read, hidden, group="partly", status=GroupStatus.OK, total_lag=0, readable_lag=0,
            unknown_partitions=1, time_lag_s=0.0, time_lag_reason=TimeLagReason.LOG_END_UNKNOWN,
        )  # fmt: skip
        screen = Console(width=100, color_system=None)
        view = LocalSource(queries(verdict)).group("c1", "partly", show_all=True)

        with screen.capture() as captured:
            draw_group(screen, replace(view, time_lag_bound="at_least"))

        assert "lag unknown, time lag unknown" in captured.get()

    @pytest.mark.parametrize(
        ("left", "said"),
        [(46_000, "lag 46,113 (46,000 in topics left behind), "), (0, "lag 46,113, ")],
    )
    def test_what_of_the_lag_is_of_topics_that_the_group_has_left_is_said(
        self, left: int, said: str
    ) -> None:
        source = LocalSource(
            queries(replace(OK, total_lag=46_113, readable_lag=46_113, left_behind_lag=left))
        )
        screen = Console(width=200, color_system=None)

        with screen.capture() as captured:
            draw_group(screen, source.group("c1", OK.group, show_all=True))

        assert said in captured.get()

    def test_old_data_say_nothing_of_speeds(self) -> None:
        source = LocalSource(queries(replace(OK, stale=True)))
        screen = Console(width=200, color_system=None)
        view = replace(
            source.group("c1", OK.group, show_all=True),
            consumed_per_s=7.0,
            lag_trend_per_s=2.0,
            catch_up_reason="not_moving",
        )

        with screen.capture() as captured:
            draw_group(screen, view)

        assert "/s" not in captured.get()

    def test_a_list_keeps_causes_while_data_are_old_and_names_open_incidents(self) -> None:
        source = LocalSource(queries(replace(WARN, stale=True), OK))
        bad, fine = (source.group("c1", each.group, show_all=True) for each in (WARN, OK))
        screen = Console(width=200, color_system=None)

        with screen.capture() as captured:
            views = [replace(bad, cause="all slow"), replace(fine, trouble_since_ms=NOW_MS)]
            draw_groups(screen, views)

        text = captured.get()
        assert ("CAUSE" in text, "RULE" in text) == (True, False)
        assert "all slow" in text
        assert "open incident" in text

    def test_old_data_say_as_of_when_they_are(self) -> None:
        fresh = LocalSource(queries(OK)).group("c1", OK.group, show_all=True)
        at_ms = NOW_MS - 120_000

        old = drawn(replace(fresh, stale=True, at_ms=at_ms, data_age_s=66.0))

        as_of = words.instant(at_ms - 66_000)
        assert f"The data are old: what follows is as of {as_of}." in old
        assert "The data are old" not in drawn(fresh)

    def test_owners_are_named_as_in_notices(self) -> None:
        with lagwatch_at(WARN) as url:
            shown = status(WARN.group, "--url", url).stdout

        assert "client billing-1 on 10.0.0.7" in shown
        assert "/10.0.0.7" not in shown

    def test_the_table_begins_with_the_worst_and_shows_unknown_as_such(self) -> None:
        with lagwatch_at(OK, WARN, ERR, UNKNOWN) as url:
            lines = status("--url", url).stdout.splitlines()

        cells = [re.split(r" {2,}", row.strip()) for row in lines[1:]]
        assert [row[:2] for row in cells] == [
            ["STOP", "stopped"],
            ["WARN", "behind / odd?"],
            ["UNKNOWN", "unseen"],
            ["OK", "fine"],
        ]
        assert "≥ 42" in cells[0]
        assert "unknown" in cells[2]
        assert "1,234,567" in cells[3]

    def test_a_partition_that_lost_messages_decides_before_an_unknown_one(self) -> None:
        lost = partition_verdict(status=PartitionStatus.ERR, rule=Rule.RECORDS_LOST)
        losing = group_verdict(
            unknown_partition(), lost, group="losing", status=GroupStatus.ERR,
            rule=Rule.RECORDS_LOST,
        )  # fmt: skip
        with lagwatch_at(WARN, losing) as url:
            shown = {
                "here": table_of(LocalSource(queries(WARN, losing)), ("c1",)),
                "there": status("--url", url).stdout,
            }
            groups = json.loads(status("--url", url, "--json").stdout)["groups"]

        for where, text in shown.items():
            first = re.split(r" {2,}", text.splitlines()[1].strip())
            assert first[:2] == ["ERR", "losing"], where
        assert {each["group"]: each["worst"] for each in groups}["losing"] == "ERR"

    @pytest.mark.parametrize("rules", list(RuleSet))
    def test_it_shows_every_column_that_top_shows(self, rules: RuleSet) -> None:
        fleet = Fleet(["good", "broken", "slow"], ShiftedClock(), rules=rules)
        fleet.slow.add("slow")
        fleet.fail("broken")
        application = create_app(
            fleet.queries, RecordingCommands(), GivenSettings(), hostname="h", version="0"
        )

        with served(application) as server:
            url = f"http://127.0.0.1:{server.port}"
            shown = status("--url", url).stdout
            top = CliRunner().invoke(app, ["top", "--once", "--url", url]).stdout

        titles = ["VERDICT", "GROUP", "CLUSTER", "FOR", "LAG", "TREND", "TIME LAG", "READS"]
        assert re.split(r" {2,}", shown.splitlines()[0].strip())[:8] == titles
        assert shown == top
        assert table_of(LocalSource(fleet.queries), ("here",)) == top
        assert re.search(r"STOP +broken +here +[\d.]+ (s|min)", shown)

    @pytest.mark.parametrize("width", [60, 80, 120])
    def test_names_of_300_characters_leave_numbers_whole_and_their_ends_readable(
        self, width: int
    ) -> None:
        names = ["team." + "x" * 290 + end for end in ("-one", "-two")]
        source = LocalSource(queries(*(replace(OK, group=name) for name in names)))

        text = table_of(source, ("c1",), width=width)

        assert text.count("1,234,567") == 2
        assert "-one " in text
        assert "-two " in text
        assert max(len(line) for line in text.splitlines()) <= width

    def test_what_is_piped_has_whole_names_that_do_not_pad_other_lines(self) -> None:
        name = "team." + "x" * 290 + "-one"
        with lagwatch_at(replace(OK, group=name), WARN) as url:
            shown = status("--url", url).stdout.splitlines()

        assert any(name in line for line in shown)
        assert all(len(line) < 150 for line in shown if name not in line)

    def test_of_a_burrow_there_is_no_column_without_a_value(self) -> None:
        with burrow_at() as url:
            head = status("--url", url, "--cluster", "local").stdout.splitlines()[0]

        assert "STATE" not in head
        assert "MEMBERS" not in head
        assert "VERDICT" in head

    def test_one_group_is_shown_with_its_rule_in_words(self) -> None:
        numbers: dict[str, Any] = {name: None for row in LAGWATCH for name in row.evidence}
        known = {"quiet_ms": 90_000, "limit_ms": 60_000, "membership": "empty"}
        bad = replace(ERR.partitions[0], evidence=numbers | known)
        with lagwatch_at(
            replace(ERR, partitions=(bad, *ERR.partitions[1:]), since_ms=NOW_MS)
        ) as url:
            text = status("stopped", "--url", url).stdout

        assert "stopped on c1: ERR  stopped" in text
        assert (
            "orders/0: nothing read for 1 min 30 s, longer than the 1 min that this group may "
            "pause; the group has no members; offset unknown"
        ) in text
        assert "in trouble since 2026-11-21 04:03:15Z, lag 42 + 1 unknown, time lag 3.5 s" in text
        assert "topic_not_visible" in text

    def test_a_group_is_in_trouble_since_its_incident_began(self) -> None:
        worse = replace(ERR, since_ms=EpochMs(NOW_MS - 60_000))
        with lagwatch_at(worse) as url, RemoteSource(url, timeout_s=10) as source:
            judged = source.group("c1", "stopped", show_all=True)
        both = replace(judged, trouble_since_ms=NOW_MS - 3_600_000)
        well = replace(both, since_ms=None)

        assert "in trouble since 2026-11-21 04:02:15Z, " in drawn(judged)
        assert "in trouble since 2026-11-21 03:03:15Z, " in drawn(both)
        assert "in trouble since" not in drawn(well)
        assert "open incident since 2026-11-21 03:03:15Z, " in drawn(well)
        assert "open incident" not in drawn(both)

    def test_trouble_that_may_have_begun_before_its_incident_says_so(self) -> None:
        worse = replace(ERR, since_ms=EpochMs(NOW_MS - 60_000))
        with lagwatch_at(worse) as url, RemoteSource(url, timeout_s=10) as source:
            judged = source.group("c1", "stopped", show_all=True)
        found = replace(judged, trouble_since_ms=NOW_MS - 3_600_000, trouble_since_at_least=True)

        assert "in trouble since at least 2026-11-21 03:03:15Z, " in drawn(found)
        well = replace(found, since_ms=None)
        assert "open incident since at least 2026-11-21 03:03:15Z, " in drawn(well)

    def test_numbers_of_a_rule_stand_in_its_sentence(self) -> None:
        numbers = {"current_lag": 7, "last_stable_offset": 10, "transaction_age_ms": 5_000}
        names: dict[str, Any] = {
            "producer_id": 4002,
            "transactional_id": "pay",
            "transaction_unnamed": None,
        }

        said = words.sentence("waits_for_transaction", {**numbers, **names})
        unknown = words.sentence("waits_for_transaction", {"of": "another version"})

        assert said == (
            "everything is read up to offset 10, where the transaction pay of producer 4002 has "
            "been open for 5 s"
        )
        assert unknown == ""

    @pytest.mark.parametrize("name", ["a\x1b[31mred\x1b]0;mine\x07", "a\n b OK", "\u202eevil"])
    def test_a_name_cannot_draw_on_the_terminal(self, name: str) -> None:
        odd = replace(ERR, group=name)
        with lagwatch_at(odd) as url:
            every = status("--url", url).stdout
            alone = status(name, "--url", url).stdout
            refused = status(f"{name} too", "--url", url).stderr

        for text in (every, alone, refused):
            assert not {"\x1b", "\x07", "\u202e"} & set(text)
            assert name.rsplit("\n", maxsplit=1)[-1] not in text.splitlines()

    def test_an_empty_cluster_is_reported_so(self) -> None:
        with lagwatch_at() as url:
            assert status("--url", url).stdout == "no groups\n"


class TestSources:
    @pytest.mark.parametrize("group", [None, "stopped"])
    def test_a_lagwatch_says_what_its_monitor_says(self, group: str | None) -> None:
        local = LocalSource(queries(OK, WARN, ERR))

        with lagwatch_at(OK, WARN, ERR) as url, RemoteSource(url, timeout_s=10) as remote:
            near, far = look(local, ["c1"], group), look(remote, ["c1"], group)

        # this server cannot be asked for the speeds and causes of many groups
        unsaid = {} if group else {"cause_sentence": "", "catch_up_reason": ""}
        by_name = {view.group: asdict(view) | unsaid for view in near.groups}
        assert {view.group: asdict(view) for view in far.groups} == by_name
        assert near.code is far.code is Exit.ERROR

    def test_a_burrow_is_understood(self) -> None:
        with burrow_at() as url:
            result = status("brw-classic", "--url", url, "--cluster", "local", "--json")

        (group,) = json.loads(result.stdout)["groups"]
        recorded = json.loads(
            (BURROW / "GET_v3_kafka_local_consumer_brw_classic_lag.json").read_text()
        )
        assert result.exit_code == 0
        assert group["total_lag"] == recorded["body"]["status"]["totallag"]
        assert len(group["partitions"]) == len(recorded["body"]["status"]["partitions"])
        assert group["rule"] is None

    def test_an_unknown_group_of_a_burrow_is_unknown(self) -> None:
        with burrow_at() as url:
            result = status("nope", "--url", url)

        assert result.exit_code == 3
        assert "group 'nope' is not known" in result.stderr

    def test_a_server_behind_a_path_and_a_password_is_reached(self) -> None:
        seen = []

        class Guarded(_RecordedBurrow):
            def do_GET(self) -> None:
                seen.append((self.path, self.headers["Authorization"]))
                self.path = self.path.removeprefix("/burrow-1")
                super().do_GET()

        with burrow_at(Guarded) as url:
            guarded = urlsplit(url)._replace(netloc=f"me:p%40w@{urlsplit(url).netloc}").geturl()
            with RemoteSource(f"{guarded}/burrow-1/", timeout_s=10) as source:
                assert source.clusters() == ("local",)

        assert seen == [("/burrow-1/v3/kafka", "Basic bWU6cEB3")]

    def test_a_password_in_the_url_is_not_shown(self) -> None:
        result = status("--url", "http://me:hunter2@127.0.0.1:1")

        assert result.exit_code == 3
        assert "hunter2" not in result.output

    def test_a_connection_that_had_gone_is_opened_again(self) -> None:
        class Closing(_RecordedBurrow):
            def do_GET(self) -> None:
                super().do_GET()
                self.close_connection = True

        with burrow_at(Closing) as url, RemoteSource(url, timeout_s=10) as source:
            assert source.clusters() == source.clusters() == ("local",)

    def test_a_group_that_goes_between_two_questions_is_left_out(self) -> None:
        class Forgetful(GivenQueries):
            def groups(self, cluster: str) -> tuple[str, ...]:
                return (*super().groups(cluster), "gone")

        source = LocalSource(Forgetful(queries(OK).given, [cluster_health("c1", ready=True)]))

        assert [group.group for group in look(source, ["c1"], None).groups] == ["fine"]

    def test_a_group_in_none_of_the_clusters_is_not_found(self) -> None:
        with pytest.raises(NotFoundError, match="nobody"):
            look(LocalSource(queries(OK)), ["c1"], "nobody")

"""Lists of incidents, notices and mutes: names of any length, and times as notices write them."""

import getpass
import json
import re
import socket
from base64 import b64encode
from datetime import datetime

import pytest
from typer.testing import CliRunner

from lagwatch.cli import app
from lagwatch.cli.listing import listing
from lagwatch.clock import SystemClock
from tests.support.receiver import Reply, receiving

LONG = "team-a." + "x" * 280 + ".orders"
AT_MS = 1_800_000_000_000


def incident(group: str) -> dict:
    return {
        "id": "3f2a9c0d11e25b7a",
        "about": "group",
        "cluster": "prod",
        "group": group,
        "severity": "error",
        "since_ms": AT_MS,
        "closed_ms": None,
        "healed_ms": None,
        "acknowledged_ms": None,
        "verdict": {"rule": "stopped"},
    }


def mute() -> dict:
    return {
        "id": "m1",
        "cluster": "",
        "group": LONG,
        "matching": 1,
        "active": True,
        "ends_ms": AT_MS,
        "weekly": "",
        "author": "anna",
        "reason": "deploying",
    }


def lines(words: str, *answers: dict) -> list[str]:
    """What a command prints when a server gives these answers in turn."""
    with receiving(*(Reply(body=json.dumps(answer)) for answer in answers)) as server:
        done = CliRunner().invoke(app, ["alert", *words.split(), "--url", server.url])
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "words", ["acknowledge m1", "mute add billing --for 1h --reason deploying"]
)
def test_a_user_without_a_name_may_call(words, monkeypatch) -> None:
    def nameless() -> str:
        raise OSError("No username set in the environment")

    monkeypatch.setattr(getpass, "getuser", nameless)
    answer = {**mute(), **incident(LONG), "id": "m1", "acknowledged_by": "somebody"}
    with receiving(Reply(body=json.dumps(answer)), Reply(body='{"time_zone": "UTC"}')) as server:
        done = CliRunner().invoke(app, ["alert", *words.split(), "--url", server.url])

    assert done.exit_code == 0, done.output
    assert server.taken[0].json["author"] == "somebody"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["", "--cluster", "prod"], "GROUP"),
        ([""], "GROUP"),
        ([" "], "GROUP"),
        (["billing", "--cluster", ""], "--cluster"),
    ],
)
def test_an_empty_name_mutes_nothing(words, what) -> None:
    with receiving() as server:
        order = ["add", *words, "--for", "1h", "--reason", "deploying", "--url", server.url]
        done = CliRunner().invoke(app, ["alert", "mute", *order])

    assert done.exit_code != 0
    assert f"{what} is empty. Write '*' for all." in done.stderr
    assert server.requests == []


@pytest.mark.parametrize("what", ["incidents", "mute list"])
def test_a_name_of_thousands_of_characters_is_cut(what) -> None:
    name = "g" * 4000
    entries = {"incidents": [incident(name)], "mutes": [{**mute(), "group": name}]}

    shown = lines(what, entries)

    assert "g…" in shown[1]
    assert max(map(len, shown)) < 400


def test_a_long_name_pads_no_line_of_a_replay(tmp_path) -> None:
    policy, samples = tmp_path / "p.toml", tmp_path / "s.csv"
    policy.write_text("[alerts.policies.all]\nfor_s = 0\n")
    long = "g" * 4000
    samples.write_text(
        "at_ms,cluster,group,status\n"
        f"{AT_MS},prod,{long},ERR\n{AT_MS},prod,billing,ERR\n{AT_MS},prod,orders,ERR\n"
    )

    done = CliRunner().invoke(
        app, ["alert", "backtest", "--policy", str(policy), "--samples", str(samples)]
    )

    assert done.exit_code == 0, done.output
    shown = done.stdout.splitlines()
    assert sum("g…" in line for line in shown) == 2
    assert max(map(len, shown)) < 400
    assert sum(len(line) > 100 for line in shown) == 2


NOTICE = {
    "channel": "chat",
    "state": "dead",
    "event": "open",
    "cluster": "prod",
    "group": LONG,
    "at_ms": AT_MS,
    "attempts": 1,
    "message": "m",
    "last_error": "400 Bad Request",
}


@pytest.mark.parametrize(
    ("what", "answer"),
    [
        ("incidents", {"incidents": [incident(LONG), incident("billing")]}),
        ("notices", {"notices": [NOTICE]}),
        ("mute list", {"mutes": [mute()]}),
    ],
)
def test_in_a_pipe_each_row_is_a_whole_line_and_a_long_name_pads_no_other(what, answer) -> None:
    shown = lines(what, answer)

    assert LONG in shown[1]
    assert all(len(each) < 200 for each in shown if LONG not in each)


@pytest.mark.parametrize("width", [40, 80])
def test_on_a_narrow_terminal_nothing_is_cut(width: int) -> None:
    ids = "3f2a9c0d11e25b7a", "0123456789abcdef0123456789abcdef"
    titles = ("id", "what", "severity", "message", "reason")
    rows = [(ids[0], "prod/" + LONG, "error", ids[1], "a broker that is away for long " * 4)]

    shown = listing(titles, rows, first=("id", "what", "severity"), width=width)

    assert shown[0] == f"{ids[0]}  prod/{LONG}  error"
    assert any(ids[1] in line for line in shown[1:])
    assert all(line.startswith("    ") for line in shown[1:])
    assert max(map(len, shown[1:])) <= width
    assert " ".join(" ".join(shown[1:]).split()).endswith("a broker that is away for long")


def test_on_a_wide_terminal_a_list_is_a_table() -> None:
    shown = listing(("id", "by"), [("a", "anna"), ("bcd", "bob")], first=("id",), width=80)

    assert shown == ["id   by", "a    anna", "bcd  bob"]


def test_mutes_end_at_the_time_that_notices_would_write() -> None:
    known = {"mutes": [mute()], "time_zone": "Asia/Tokyo"}

    listed = lines("mute list", known)
    added = lines("mute add billing --for 2h --reason x", mute(), known)

    assert "2027-01-15 17:00:00 JST" in listed[1]
    assert "until 2027-01-15 17:00:00 JST" in added[0]


def test_a_weekly_mute_says_when_it_comes() -> None:
    weekly = mute() | {"ends_ms": None, "weekly": "sun at 02:00 UTC for 2 h"}

    listed = lines("mute list", {"mutes": [weekly], "time_zone": "UTC"})

    assert "  sun at 02:00 UTC for 2 h  anna" in listed[1]


def test_a_single_notice_is_one() -> None:
    (said,) = lines("retry 3f2a", {"notices": 1})

    assert said.startswith("1 notice queued again")


def test_a_retry_says_that_what_waits_is_tried_too() -> None:
    (said,) = lines("retry --channel chat", {"notices": 0})

    assert said == "0 notices queued again; what waits for chat is tried at once"


def test_a_name_of_thousands_of_characters_does_not_fill_the_table() -> None:
    found = lines("incidents", {"incidents": [incident("y" * 4000)]})

    assert sum(map(len, found)) < 2000
    assert any("…" in line for line in found)


TEST_CHANNELS = """
[alerts]
file = "{folder}/a.sqlite"
[alerts.webhook.{broken}]
url = "{url}"
headers = {{ Content-Length = "5", Upgrade = "x" }}
cert_file = "{folder}/not-a-certificate.pem"
[alerts.pagerduty.pager]
url = "{url}"
routing_key = "{key}"
[clusters.here]
bootstrap = "localhost:1"
"""


def test_a_channel_that_cannot_be_opened_does_not_keep_others_from_being_tested(tmp_path) -> None:
    (tmp_path / "not-a-certificate.pem").write_text("nothing")
    with receiving(*[Reply(body="ok")] * 2) as server:
        config = tmp_path / "lagwatch.toml"
        given = {"folder": tmp_path, "url": server.url, "broken": "a", "key": "k" * 32}
        config.write_text(TEST_CHANNELS.format(**given))
        done = CliRunner().invoke(app, ["alert", "test", "-c", str(config)])

    assert done.exit_code == 2
    assert "a: " in done.output
    assert "Traceback" not in done.output
    assert "pager: 200 OK: ok (no answer of a receiver of this kind" in done.output


def test_a_receiver_that_quotes_what_it_got_makes_no_secret_known(tmp_path) -> None:
    given = b64encode(b"anna:s3cret-password").decode()
    quoted = f"denied: /hook/s3cret-path-1, Authorization: Basic {given}"
    with receiving(Reply(status=400, body=quoted)) as server:
        config = tmp_path / "lagwatch.toml"
        config.write_text(
            f'[alerts]\nfile = "{tmp_path}/a.sqlite"\n[alerts.webhook.a]\n'
            f'url = "{server.url}/hook/s3cret-path-1"\n'
            'username = "anna"\npassword = "s3cret-password"\n'
            '[clusters.here]\nbootstrap = "localhost:1"\n'
        )
        done = CliRunner().invoke(app, ["alert", "test", "-c", str(config)])

    assert "denied" in done.output
    assert "s3cret" not in done.output
    assert given not in done.output


def test_headers_that_say_how_a_request_is_sent_do_not_break_it(tmp_path) -> None:
    with receiving(Reply()) as server:
        config = tmp_path / "lagwatch.toml"
        config.write_text(
            f'[alerts]\nfile = "{tmp_path}/a.sqlite"\n[alerts.webhook.a]\nurl = "{server.url}"\n'
            'headers = { Content-Length = "5", Transfer-Encoding = "x" }\n'
            '[clusters.here]\nbootstrap = "localhost:1"\n'
        )
        done = CliRunner().invoke(app, ["alert", "test", "-c", str(config)])

        assert done.exit_code == 0, done.output
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        ({"status": "OK", "rule": "progressing", "objective": "9 min behind"}, "9 min behind"),
        ({"status": "ERR", "rule": "stopped", "objective": "9 min behind"}, "stopped; 9 min"),
        ({"status": "OK", "rule": "progressing"}, "  -"),
    ],
)
def test_an_incident_is_never_explained_by_a_rule_that_is_good(verdict, said) -> None:
    shown = lines("incidents", {"incidents": [incident("billing") | {"verdict": verdict}]})

    assert said in "\n".join(shown)
    assert "progressing" not in "\n".join(shown)


def test_a_problem_of_lagwatch_itself_is_one_line() -> None:
    verdict = {"problem": "No fresh data of it: " + "connection refused " * 40}
    unseen = incident("") | {"about": "cluster", "verdict": verdict}

    titles, shown = lines("incidents", {"incidents": [unseen]})

    assert "last said" in titles
    assert "No fresh data of it: connection refused" in shown
    assert "…" in shown
    assert len(shown) < 300


@pytest.mark.parametrize("what", ["incidents", "notices"])
def test_a_list_that_is_cut_says_how_many_more_there_are(what) -> None:
    entry = incident("billing") if what == "incidents" else NOTICE
    pages = [{what: [entry] * number, "next": after} for number, after in ((2, "c"), (3, "d"))]

    cut = lines(f"{what} --limit 2", *pages, {what: [entry], "next": ""})
    whole = lines(f"{what} --limit 1", {what: [entry], "next": ""})

    assert cut[-1] == "… and 4 more: --limit 6"
    assert len(cut) == 1 + 2 + 1
    assert len(whole) == 1 + 1


def test_a_limit_beyond_a_page_asks_for_as_many_pages_as_it_needs() -> None:
    pages = [{"incidents": [incident("billing")] * 1000, "next": "c"}]

    shown = lines("incidents --limit 1500", *pages, {"incidents": [incident("a")], "next": ""})

    assert len(shown) == 1 + 1001


def test_the_sample_of_a_channel_looks_as_its_notices_would(tmp_path) -> None:
    config = tmp_path / "lagwatch.toml"
    with receiving(Reply(body="ok"), Reply(body="ok")) as server:
        config.write_text(
            '[clusters.here]\nbootstrap = ["localhost:1"]\n[alerts]\ntime_zone = "Asia/Tokyo"\n'
            'page_url = "https://lag.example.com"\n'
            f'[alerts.slack.ops]\nwebhook_url = "{server.url}"\n'
        )
        done = CliRunner().invoke(app, ["alert", "test", "--close", "-c", str(config)])
        ended_by_ms = SystemClock().now_ms()
        opening, end = (json.dumps(request.json) for request in server.taken)

    ended = re.search(r"from ([-0-9: ]+) JST to ([-0-9: ]+) JST, for 2 min 30 s", end)
    assert done.exit_code == 0, done.output
    assert "JST" in opening
    assert "https://lag.example.com/?group=lagwatch-sample&of=sample" in opening
    assert ended is not None
    assert datetime.fromisoformat(f"{ended[2]}+09:00").timestamp() * 1000 <= ended_by_ms
    assert "could not be reached" not in end


@pytest.mark.parametrize(
    ("kind", "asked", "sent"),
    [
        ("pagerduty", (), ["trigger", "resolve"]),
        ("pagerduty", ("--no-close",), ["trigger"]),
        ("pagerduty", ("--close",), ["trigger", "resolve"]),
        ("webhook", (), ["open"]),
    ],
)
def test_a_test_says_that_it_is_one_and_leaves_no_page_open(tmp_path, kind, asked, sent) -> None:
    config = tmp_path / "lagwatch.toml"
    key = 'routing_key = "k"\n' if kind == "pagerduty" else ""
    with receiving(*[Reply(status=202, body='{"status":"success"}')] * 2) as server:
        config.write_text(
            '[clusters.here]\nbootstrap = ["localhost:1"]\n'
            f'[alerts.{kind}.it]\n{key}url = "{server.url}"\n'
        )
        done = CliRunner().invoke(app, ["alert", "test", *asked, "-c", str(config)])
        events = [request.json for request in server.taken]

    assert done.exit_code == 0, done.output
    assert [event.get("event_action") or event["event"] for event in events] == sent
    who = f"{getpass.getuser()} on {socket.gethostname()}"
    if kind == "pagerduty":
        payload = events[0]["payload"]
        assert payload["summary"].startswith("TEST: ERROR: lagwatch-sample on sample")
        assert f"nothing is wrong: {who} asked for it" in payload["custom_details"]["text"]
    else:
        assert events[0]["subject"].startswith("TEST: ERROR: lagwatch-sample on sample")
        assert events[0]["notices"][0]["test"] == who


def test_an_incident_whose_end_a_mute_holds_back_is_listed_as_healed() -> None:
    healed = {**incident("billing"), "healed_ms": AT_MS}

    (line,) = (each for each in lines("incidents", {"incidents": [healed]}) if "billing" in each)

    assert "healed 2027-01-15 08:00:00 UTC, muted" in line


def test_who_acknowledges_may_write_no_line_of_his_own() -> None:
    answer = {**incident("billing"), "acknowledged_by": "me\nall is well"}
    with receiving(Reply(body=json.dumps(answer))) as server:
        order = ["acknowledge", "m1", "--author", "x", "--url", server.url]
        done = CliRunner().invoke(app, ["alert", *order])

    assert len(done.stdout.splitlines()) == 1

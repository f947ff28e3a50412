"""`[alerts]`: what is accepted, what is refused and how it is said; the commands around it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lagwatch.cli.app import app
from lagwatch.config.load import load, load_with_origins
from lagwatch.config.show import as_toml
from lagwatch.errors import ConfigError
from lagwatch.notify.channels.slack import SlackSettings
from lagwatch.notify.render import Templates
from lagwatch.notify.review_policies import covers
from tests.support.receiver import Reply, receiving

HEAD = '[clusters.local]\nbootstrap = ["localhost:1"]\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "lagwatch.toml"
    path.write_text(HEAD + text, encoding="utf-8")
    return path


def complaint(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        load(written(folder, text), {})
    return str(raised.value)


def run(*arguments: object):
    return CliRunner().invoke(app, ["alert", *map(str, arguments)])


class TestFaults:
    def test_a_channel_nobody_configured(self, tmp_path) -> None:
        text = '[alerts.policies.p]\nchannels = ["pager"]\n[alerts.webhook.hook]\nurl = "http://x"'

        assert 'alerts.policies.p.channels = "pager": no channel has this name' in complaint(
            tmp_path, text
        )

    def test_two_channels_of_one_name(self, tmp_path) -> None:
        text = '[alerts.webhook.a]\nurl = "http://x"\n[alerts.slack.a]\nwebhook_url = "http://y"'

        assert "there is a channel of this name already: alerts.webhook.a" in complaint(
            tmp_path, text
        )

    def test_a_mistyped_option_of_a_policy(self, tmp_path) -> None:
        assert "Did you mean 'alerts.policies.p.threshold'?" in complaint(
            tmp_path, '[alerts.policies.p]\ntreshold = "error"'
        )

    def test_a_mute_that_is_neither_once_nor_weekly(self, tmp_path) -> None:
        assert "Set starts and ends, or days, at and duration_s." in complaint(
            tmp_path, '[alerts.mutes.m]\nreason = "x"'
        )

    def test_a_time_zone_nobody_knows(self, tmp_path) -> None:
        assert "alerts.mutes.m.timezone" in complaint(
            tmp_path, '[alerts.mutes.m]\nreason = "x"\ntimezone = "Mars/Olympus"'
        )

    def test_a_time_of_day_that_is_a_number(self, tmp_path) -> None:
        assert "alerts.mutes.m.at = 5: is no time of day" in complaint(
            tmp_path, '[alerts.mutes.m]\nreason = "x"\ndays = "sat"\nat = 5\nduration_s = 60'
        )

    @pytest.mark.parametrize("at", ['"22:30"', "22:30:00"])
    def test_a_time_of_day_is_text_or_a_time_of_toml(self, tmp_path, at) -> None:
        text = f'[alerts.mutes.m]\nreason = "x"\ndays = "sat"\nat = {at}\nduration_s = 60'

        assert load(written(tmp_path, text), {}).alerts.mutes["m"].at == "22:30"

    def test_a_secret_that_is_given_twice(self, tmp_path) -> None:
        (tmp_path / "s").write_text("x")
        text = (
            '[alerts.webhook.h]\nurl = "http://x"\nsecret = "hunter2"\n'
            f'secret_file = "{tmp_path / "s"}"'
        )

        said = complaint(tmp_path, text)

        assert "given twice" in said
        assert "hunter2" not in said


def test_secrets_come_from_their_files_and_are_never_shown(tmp_path) -> None:
    (tmp_path / "s").write_text("https://hooks.example.com/hunter2\n")
    path = written(tmp_path, f'[alerts.slack.a]\nwebhook_url_file = "{tmp_path / "s"}"')

    loaded = load_with_origins(path, {})

    slack = dict(loaded.settings.alerts.channels())["a"]
    assert isinstance(slack, SlackSettings)
    url = slack.webhook_url
    assert url is not None
    assert url.get_secret_value() == "https://hooks.example.com/hunter2"
    assert "hunter2" not in as_toml(loaded)


def test_config_check_shows_the_policy_of_a_group_and_broken_templates(tmp_path) -> None:
    path = written(
        tmp_path,
        '[alerts.policies.pay]\ngroup = "^pay"\n[alerts.webhook.h]\nurl = "http://x"',
    )
    good = CliRunner().invoke(app, ["config", "check", "-c", str(path), "--group", "payments"])
    written(tmp_path, '[alerts.webhook.h]\nurl = "http://x"\nbody = "{{ nix }}"')
    bad = CliRunner().invoke(app, ["config", "check", "-c", str(path)])

    assert "local/payments: policy pay, channels: h" in good.stdout
    assert bad.exit_code == 2
    assert "alerts.webhook.h.body: line 1: there is no variable 'nix'" in bad.stderr


MAIL = 'host = "mx"\nsender = "a@example.com"\nto = ["b@example.com"]\n'


@pytest.mark.parametrize(
    ("channel", "option"),
    [
        *((f"[alerts.email.m]\n{MAIL}", name) for name in ("text_file", "html_file", "ca_file")),
        (f'[alerts.email.m]\n{MAIL}username = "u"\n', "password_file"),
        *(
            ('[alerts.webhook.m]\nurl = "http://x"\n', name)
            for name in ("body_file", "close_body_file", "secret_file", "cert_file", "ca_file")
        ),
        ("[alerts.pagerduty.m]\n", "routing_key_file"),
        ("[alerts.slack.m]\n", "webhook_url_file"),
        ("[alerts.teams.m]\n", "webhook_url_file"),
        ("[alerts.apprise.m]\n", "service_urls_file"),
        ('[alerts.alertmanager.m]\nurls = ["http://x"]\nusername = "u"\n', "password_file"),
    ],
)
@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's
def test_a_file_that_cannot_be_read_is_one_fault_beside_the_others(
    tmp_path, channel, option
) -> None:
    path = written(
        tmp_path,
        f'{channel}{option} = "/none/x"\n'
        '[alerts.webhook.i]\nurl = "http://x"\nbody = "{{ nix }}"',
    )

    checked = CliRunner().invoke(app, ["config", "check", "-c", str(path)])

    table = channel.partition("]")[0].removeprefix("[")
    assert checked.exit_code == 2
    assert "2 faults in the configuration" in checked.stderr
    assert f"{table}.{option} = /none/x: cannot be read: No such file" in checked.stderr
    assert "alerts.webhook.i.body: line 1: there is no variable 'nix'" in checked.stderr


@pytest.mark.parametrize("key", ['routing_key_file = "/dev/null"', ""])
def test_a_key_that_is_empty_or_missing_is_one_fault(tmp_path, key) -> None:
    path = written(tmp_path, f"[alerts.pagerduty.p]\n{key}")

    checked = CliRunner().invoke(app, ["config", "check", "-c", str(path)])

    assert "the configuration has a fault" in checked.stderr


def test_a_template_whose_text_nobody_takes_is_refused() -> None:
    (fault,) = Templates().faults("alerts.webhook.h.body", "{{ 'x' * 99999999 }}")

    assert "makes a text of 99,999,999 characters" in fault.problem


def test_config_check_says_where_a_template_ends_too_early(tmp_path) -> None:
    """Beside the faults of the other channels."""
    path = written(
        tmp_path,
        '[alerts.webhook.h]\nurl = "http://x"\nbody = "{{ notice.group "\n'
        '[alerts.webhook.i]\nurl = "http://x"\nbody = "{{ nix }}"',
    )
    checked = CliRunner().invoke(app, ["config", "check", "-c", str(path)])

    assert checked.exit_code == 2
    assert "alerts.webhook.h.body: line 1: unexpected end of template" in checked.stderr
    assert "alerts.webhook.i.body: line 1: there is no variable 'nix'" in checked.stderr


class TestCommands:
    def test_test_sends_a_sample_and_shows_the_answer(self, tmp_path) -> None:
        with receiving() as receiver:
            path = written(tmp_path, f'[alerts.webhook.hook]\nurl = "{receiver.url}"')
            result = run("test", "hook", "--close", "-c", path)

            assert result.exit_code == 0
            assert result.stdout == "200 OK: fine\n" * 2
            assert [request.json["event"] for request in receiver.taken] == ["open", "close"]

    def test_test_takes_several_names(self, tmp_path) -> None:
        with receiving() as one, receiving() as two, receiving() as three:
            urls = {"a": one.url, "b": two.url, "c": three.url}
            text = "".join(
                f'[alerts.webhook.{name}]\nurl = "{url}"\n' for name, url in urls.items()
            )
            path = written(tmp_path, text)

            both = run("test", "a", "b", "-c", path)
            wrong = run("test", "a", "x", "y", "-c", path)

        assert both.exit_code == 0, both.output
        assert both.stdout.splitlines() == ["a: 200 OK: fine", "b: 200 OK: fine"]
        assert (len(one.requests), len(two.requests), len(three.requests)) == (1, 1, 0)
        assert wrong.exit_code == 2
        assert "channel x" in wrong.output
        assert "channel y" in wrong.output

    def test_test_without_a_name_tries_every_channel(self, tmp_path) -> None:
        with (
            receiving(Reply(body="ok"), Reply(body="ok")) as good,
            receiving(Reply(status=403, body="go away")) as bad,
        ):
            text = (
                f'[alerts.webhook.bad]\nurl = "{bad.url}"\n'
                f'[alerts.slack.chat]\nwebhook_url = "{good.url}"\n'
                f'[alerts.webhook.good]\nurl = "{good.url}"\n'
            )
            result = run("test", "-c", written(tmp_path, text))

        assert result.exit_code == 2
        assert sorted(result.stdout.splitlines()) == ["chat: 200 OK: ok", "good: 200 OK: ok"]
        assert "bad: 403 Forbidden: go away" in result.stderr

    @pytest.mark.parametrize(
        ("channel", "status", "answer", "accepted"),
        [
            ("slack.webhook_url", 200, "ok", True),
            ("slack.webhook_url", 200, '{"success":true}', True),
            ("slack.webhook_url", 200, "invalid_payload", False),
            ("slack.webhook_url", 200, "<html>log in</html>", False),
            ("slack.webhook_url", 200, "", False),
            ("teams.webhook_url", 202, "", True),
            ("teams.webhook_url", 200, "1", True),
            ("teams.webhook_url", 200, "Teams returned HTTP error 429 with", False),
            ("pagerduty.url", 202, '{"status":"success","dedup_key":"k"}', True),
            ("pagerduty.url", 202, '{"status":"invalid event"}', False),
            ("pagerduty.url", 200, "<html>log in</html>", False),
            ("webhook.url", 200, "invalid_payload", True),
        ],
    )
    def test_an_error_in_a_2xx_is_a_refusal(
        self, tmp_path, channel, status, answer, accepted
    ) -> None:
        kind, option = channel.split(".")
        key = 'routing_key = "k"\n' if kind == "pagerduty" else ""
        with receiving(*[Reply(status=status, body=answer)] * 2) as receiver:
            text = f'[alerts.{kind}.it]\n{key}{option} = "{receiver.url}"\n'
            result = run("test", "it", "-c", written(tmp_path, text))

        assert result.exit_code == (0 if accepted else 2)
        assert answer in (result.stdout if accepted else result.stderr)

    def test_test_shows_why_a_receiver_refuses(self, tmp_path) -> None:
        with receiving(Reply(status=403, body="go away")) as receiver:
            path = written(tmp_path, f'[alerts.webhook.hook]\nurl = "{receiver.url}"')
            result = run("test", "hook", "-c", path)

        assert result.exit_code == 2
        assert "hook: 403 Forbidden: go away" in result.stderr

    def test_render_shows_what_becomes_of_a_template(self, tmp_path) -> None:
        template = tmp_path / "body.j2"
        template.write_text("{{ notice.group }}: {{ notice.event }}")

        assert run("render", template, "--close").stdout == "lagwatch-sample: close\n"

    def test_render_says_what_is_wrong_and_where(self, tmp_path) -> None:
        template = tmp_path / "body.j2"
        template.write_text("\n{{ notice.Id }}")
        result = run("render", template)

        assert result.exit_code == 2
        assert "line 2" in result.stderr

    @pytest.mark.parametrize("form", ["csv", "jsonl"])
    def test_backtest_prints_what_would_have_been_sent(self, tmp_path, form) -> None:
        policy = tmp_path / "policy.toml"
        policy.write_text(
            '[alerts.policies.p]\nthreshold = "warning"\nclose_for_s = 60\nminimum_lag = 10\n'
        )
        samples = tmp_path / f"samples.{form}"
        rows = [
            (0, "a", "WARN", 100), (30, "a", "ERR", 100), (60, "a", "OK", 0), (130, "a", "OK", 0),
            (0, "b", "WARN", 5), (30, "b", "WARN", 5),
        ]  # fmt: skip
        names = ("at_ms", "cluster", "group", "status", "total_lag")
        table = [(1_800_000_000_000 + s * 1000, "c", *rest) for s, *rest in rows]
        if form == "csv":
            lines = [",".join(names), *(",".join(map(str, row)) for row in table)]
        else:
            lines = [json.dumps(dict(zip(names, row, strict=True))) for row in table]
        samples.write_text("\n".join(lines))

        result = run("backtest", "--policy", policy, "--samples", samples, "--json")
        answer = json.loads(result.stdout)

        assert [notice["event"] for notice in answer["notices"]] == ["open", "escalate", "close"]
        assert answer["per_group"] == [{"cluster": "c", "group": "a", "notices": 3}]
        assert (answer["samples"], answer["groups"]) == (6, 2)

    def test_backtest_names_the_row_that_cannot_be_used(self, tmp_path) -> None:
        (tmp_path / "p.toml").write_text("[alerts.policies.p]\n")
        (tmp_path / "s.csv").write_text("at_ms,cluster,group,status\n1,c,g,BROKEN\n")
        result = run("backtest", "--policy", tmp_path / "p.toml", "--samples", tmp_path / "s.csv")

        assert result.exit_code == 2
        assert "item 0, field 'status'" in result.stderr


class TestReview:
    """What `config check` finds although every value for itself is allowed."""

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ('[alerts.webhook.h]\nurl = "hooks.example.com/x"', "alerts.webhook.h.url: is no http"),
            (
                (
                    '[alerts.webhook.h]\nurl = "http://x"\n[alerts.policies.all]\n'
                    '[alerts.policies.late]\ngroup = "^pay"'
                ),
                "alerts.policies.late: is never reached: all before it",
            ),
            (
                (
                    '[alerts.webhook.h]\nurl = "http://x"\n[alerts.policies.pay]\ngroup = "^pay"\n'
                    '[alerts.policies.late]\ngroup = "^pay"'
                ),
                "alerts.policies.late: is never reached: pay before it has the same patterns",
            ),
            (
                (
                    '[alerts.webhook.h]\nurl = "http://x"\nthreshold = "error"\n'
                    '[alerts.policies.p]\nthreshold = "warning"\nmax_lag = 5\n'
                    'objective_severity = "warning"'
                ),
                "is below the threshold of all its channels (h), so a missed limit (max_lag)",
            ),
            (
                (
                    '[alerts.webhook.h]\nurl = "http://x"\n[alerts.webhook.i]\nurl = "http://y"\n'
                    '[alerts.policies.all]\nchannels = ["h"]'
                ),
                "channel i: no policy sends to it",
            ),
            ("[alerts.policies.all]", "alerts.policies.all: sends to no channel"),
            (
                '[alerts.webhook.h]\nurl = "http://x"\n[alerts.policies.p]\ncluster = "prdo"',
                'alerts.policies.p.cluster = "prdo": matches no cluster',
            ),
            (
                '[alerts.webhook.h]\nurl = "http://x"\nbody = \'{"a": {{ subject }}}\'',
                "alerts.webhook.h.body: makes no JSON of the sample",
            ),
            ('[alerts.pagerduty.p]\nrouting_key = "abc"', "has 3 characters"),
            (
                '[alerts.webhook.h]\nurl = "https://hooks.slack.com/services/T/B/x"',
                "is an address of Slack, which takes no such body",
            ),
            (
                '[alerts.webhook.h]\nurl = "https://events.eu.pagerduty.com/v2/enqueue"',
                "is an address of PagerDuty, which takes no such body",
            ),
            (
                '[alerts.webhook.h]\nurl = "https://acme.webhook.office.com/webhookb2/x"',
                "is an address of Teams, which takes no such body",
            ),
            (
                '[alerts.slack.s]\nwebhook_url = "https://acme.slack.com/archives/C01"',
                "is not the URL of an incoming webhook",
            ),
            (
                '[alerts.alertmanager.a]\nurls = ["http://a:9090"]',
                "alerts.alertmanager.a.urls[0] = http://a:9090: is the port of Prometheus",
            ),
            (
                (
                    '[alerts]\npage_url = "https://l.example.com/?group=a"\n'
                    '[alerts.webhook.h]\nurl = "http://x"'
                ),
                "alerts.page_url: has a query or a fragment",
            ),
            (
                (
                    '[alerts]\npage_url = "https://u:secret@l.example.com/lag"\n'
                    '[alerts.webhook.h]\nurl = "http://x"'
                ),
                "alerts.page_url: holds a user name or password",
            ),
            (
                (
                    '[alerts.policies.pay]\ngroup = "^pay"\n'
                    '[alerts.policies.late]\ngroup = "^payments-(eu|us)$"\n'
                    '[alerts.webhook.h]\nurl = "http://x"'
                ),
                "alerts.policies.late: is never reached: pay before it matches all of its groups",
            ),
            (
                '[jobs.report]\nchannels = ["nix"]\n[alerts.webhook.h]\nurl = "http://x"',
                'jobs.report.channels = "nix": is no channel of this configuration',
            ),
            (
                (
                    '[checkpoint]\npath = "state"\n[alerts]\nfile = "state"\n'
                    '[alerts.webhook.h]\nurl = "http://x"'
                ),
                "is also checkpoint.path",
            ),
            (
                (
                    '[alerts.policies.p]\nchannels = ["a", "b"]\n'
                    '[alerts.webhook.a]\nurl = "http://x"\n[alerts.webhook.b]\nurl = "http://x"'
                ),
                'alerts.policies.p.channels = "b": has the address of a',
            ),
            (
                '[alerts.webhook.h]\nurl = "https://x"\npassword = "hunter2"',
                "alerts.webhook.h.password = ***: is not sent without username",
            ),
            (
                '[alerts.policies.p]\ngroup = "^a$|"\n[alerts.webhook.h]\nurl = "http://x"',
                'alerts.policies.p.group = "^a$|": matches every name',
            ),
            (
                '[alerts.policies.p]\nmax_time_lag_s = 5\n[alerts.webhook.h]\nurl = "http://x"',
                "alerts.policies.p.max_time_lag_s = 5: is no more than log_end_interval_s",
            ),
            (
                '[alerts]\nkeep_s = 1\n[alerts.webhook.h]\nurl = "http://x"',
                "alerts.keep_s = 1: forgets",
            ),
            (
                '[alerts.policies.p]\nchannels = ["h", "h"]\n[alerts.webhook.h]\nurl = "http://x"',
                'alerts.policies.p.channels = "h": is listed twice',
            ),
            (
                (
                    "[alerts.policies.p]\nsend_close = false\n"
                    f'[alerts.pagerduty.p]\nrouting_key = "{"k" * 32}"'
                ),
                "alerts.policies.p.send_close = false: never resolves what p opens",
            ),
            (
                '[alerts.email.m]\nhost = "h"\nsender = "x"\nto = ["a@example.com"]',
                'alerts.email.m.sender = "x": is no mail address',
            ),
            (
                '[alerts.email.m]\nhost = "h"\nsender = "nonsense"\nto = ["a@example.com"]',
                'alerts.email.m.sender = "nonsense": is no mail address',
            ),
            (
                (
                    '[alerts.email.m]\nhost = "h"\nport = 465\nsender = "a@example.com"\n'
                    'to = ["b@example.com"]'
                ),
                "alerts.email.m.port = 465: is the port of SMTP over TLS",
            ),
            (
                '[alerts]\npage_url = "lagwatch.example.com"\n[alerts.webhook.h]\nurl = "http://x"',
                "alerts.page_url: is no http(s) URL",
            ),
            ('[alerts.apprise.a]\nservice_urls = ["nosuch://x"]', "Apprise does not know this URL"),
            (
                '[alerts.alertmanager.a]\nurls = ["http://a:9093"]\nlabels = { "my-team" = "x" }',
                'alerts.alertmanager.a.labels = "my-team": is no name of a label',
            ),
            (
                '[alerts.alertmanager.a]\nurls = ["http://a:9093/api/v2/"]',
                "alerts.alertmanager.a.urls[0] = http://a:9093/…: ends with the path of the API",
            ),
            (
                (
                    "[alerts.slack.s]\n"
                    'webhook_url = "https://hooks.example.com/x"\n'
                    'allow_hosts = ["*.example.org"]'
                ),
                "alerts.slack.s.allow_hosts = *.example.org: leaves out the channel's own host",
            ),
            (
                '[alerts.webhook.h]\nurl = "http://127.0.0.1:9/x"\nprivate_networks = false',
                "alerts.webhook.h.private_networks = false: refuses the channel's own host",
            ),
            (
                '[alerts.webhook.h]\nurl = "http://[fd00::1]/x"\nprivate_networks = false',
                "refuses the channel's own host fd00::1",
            ),
            (
                (
                    "[alerts.webhook.h]\n"
                    'url = "http://localhost/{{ notice.group }}"\n'
                    "private_networks = false"
                ),
                "refuses the channel's own host localhost",
            ),
            (
                '[alerts.webhook.h]\nurl = "http://x:99999/y"',
                "alerts.webhook.h.url = http://x:99999/…: its port is not a number from 1 to 65535",
            ),
            (
                '[alerts.heartbeat]\nurl = "http://x:99999/"',
                "alerts.heartbeat.url = http://x:99999/: its port",
            ),
            (
                (
                    "[alerts.webhook.h]\n"
                    'url = "http://x"\n'
                    "[alerts.policies.p]\n"
                    "max_lag = 5\n"
                    'objective_severity = "warning"'
                ),
                'alerts.policies.p.objective_severity = "warning": is below threshold',
            ),
            (
                (
                    "[alerts.webhook.h]\n"
                    'url = "http://x"\n'
                    "[alerts.policies.p]\n"
                    "max_lag = 5\n"
                    'threshold = "never"'
                ),
                (
                    'alerts.policies.p.threshold = "never": opens '
                    "no incident, so max_lag has no effect"
                ),
            ),
            (
                '[alerts.webhook.h]\nurl = "http://x"\n[alerts.policies.p]\nobjective_share = 0.99',
                "alerts.policies.p.objective_share = 0.99: has no limit to keep to",
            ),
            (
                (
                    "[alerts.webhook.h]\n"
                    'url = "http://x"\n'
                    "[alerts.policies.p]\n"
                    "max_lag = 5\n"
                    "minimum_lag = 50"
                ),
                "alerts.policies.p.minimum_lag = 50: is above max_lag (5)",
            ),
            (
                (
                    "[alerts.webhook.h]\n"
                    'url = "http://x"\n'
                    "[alerts.policies.p]\n"
                    "max_time_lag_s = 5\n"
                    "minimum_time_lag_s = 50"
                ),
                "is above max_time_lag_s (5)",
            ),
            (
                '[alerts.webhook.h]\nurl = "http://x"\n[alerts.policies.p]\ngroup = "^$"',
                'alerts.policies.p.group = "^$": matches no name',
            ),
            (
                (
                    "[alerts.webhook.h]\n"
                    'url = "http://x"\n'
                    "[alerts.mutes.m]\n"
                    'reason = "x"\n'
                    'group = "^$"\n'
                    'starts = "2040-01-01"\n'
                    'ends = "2040-01-02"'
                ),
                'alerts.mutes.m.group = "^$": matches no name',
            ),
            (
                (
                    "[alerts.webhook.h]\n"
                    'url = "http://x"\n'
                    "[alerts.policies.p]\n"
                    'channels = ["h"]\n'
                    "escalate_after_s = 60\n"
                    'escalate_to = ["h"]'
                ),
                'alerts.policies.p.escalate_to = "h": gets the notices of the policy already',
            ),
            (
                (
                    "[alerts.webhook.h]\n"
                    'url = "http://x"\n'
                    "[alerts.mutes.m]\n"
                    'reason = "x"\n'
                    'starts = "2020-01-01"\n'
                    'ends = "2020-01-02"'
                ),
                'alerts.mutes.m.ends = "2020-01-02": is past',
            ),
            (
                (
                    "[alerts]\n"
                    'file = "/dev/null/alerts.sqlite"\n'
                    "[alerts.webhook.h]\n"
                    'url = "http://x"\n'
                ),
                'alerts.file = "/dev/null/alerts.sqlite": /dev/null is no folder',
            ),
            (
                '[alerts]\nfile = "/"\n[alerts.webhook.h]\nurl = "http://x"\n',
                'alerts.file = "/": is a folder',
            ),
            (
                '[alerts]\nfallback = ["h"]\n[alerts.webhook.h]\nurl = "http://x"\n',
                'alerts.fallback = "h": is the only channel',
            ),
            (
                (
                    "[alerts.webhook.h]\n"
                    'url = "http://x"\n'
                    "[alerts.policies.p]\n"
                    'runbook = "https://me:s3cret@wiki.example.com/x"'
                ),
                "shows its user and password to all who read alerts",
            ),
            (
                (
                    '[alerts.webhook.h]\nurl = "http://x"\n[alerts.policies.p]\n'
                    'runbook = "javascript:alert(1)"'
                ),
                'alerts.policies.p.runbook = "javascript:alert(1)": is no http(s) URL',
            ),
            (
                (
                    '[alerts.webhook.h]\nurl = "http://x"\n[alerts.policies.p]\n'
                    'runbook = "https://wiki.example.com/run book?x=1&y=<2>"'
                ),
                (
                    'alerts.policies.p.runbook = "https://wiki.example.com/run book?x=1&y=<2>": '
                    "has a "
                    "space, which no URL has, so it is no link. Write "
                    "https://wiki.example.com/run%20book?x=1&y=%3C2%3E or begin it with a "
                    "word."
                ),
            ),
            (
                (
                    '[alerts.webhook.h]\nurl = "http://x"\n[alerts.policies.p]\n'
                    'runbook = "https://wiki.example.com/<team>"'
                ),
                "has <, which no URL has",
            ),
            (
                (
                    "[alerts.webhook.h]\n"
                    'url = "http://x"\n'
                    "[alerts.policies.p]\n"
                    'runbook = "wiki.example.com/billing"'
                ),
                "is no http(s) URL, so it is no link",
            ),
            (
                (
                    "[alerts.email.m]\n"
                    'host = "h"\n'
                    'username = "u"\n'
                    'sender = "a@example.com"\n'
                    'to = ["b@example.com"]'
                ),
                'alerts.email.m.username = "u": has no password',
            ),
            (
                (
                    "[alerts.webhook.h]\n"
                    'url = "http://x"\n'
                    "[alerts.policies.p]\n"
                    "max_lag = 5\n"
                    "objective_share = 0.9"
                ),
                (
                    "alerts.policies.p.objective_share = 0.9: leaves so much that only its "
                    "slow burn is ever found"
                ),
            ),
            (
                (
                    "[alerts.webhook.h]\n"
                    'url = "http://x"\n'
                    "[alerts.policies.p]\n"
                    'threshold = "warning"\n'
                    "max_lag = 5\n"
                    "objective_share = 0.8"
                ),
                (
                    "alerts.policies.p.objective_share = 0.8: leaves so much that no "
                    "incident ever opens"
                ),
            ),
            (
                '[alerts.alertmanager.a]\nurls = ["http://a:9093"]\nlabels = { group = "x" }',
                'alerts.alertmanager.a.labels = "group": is set by lagwatch itself',
            ),
            (
                (
                    "[alerts.webhook.h]\n"
                    'url = "http://x"\n'
                    "[alerts.webhook.boss]\n"
                    'url = "http://y"\n'
                    'threshold = "error"\n'
                    "[alerts.policies.p]\n"
                    'threshold = "warning"\n'
                    'channels = ["h"]\n'
                    "escalate_after_s = 600\n"
                    'escalate_to = ["boss"]'
                ),
                (
                    'alerts.policies.p.escalate_to = "boss": gets errors only, so an '
                    "incident that is a warning never escalates to it"
                ),
            ),
            (
                (
                    "[alerts.webhook.h]\n"
                    'url = "http://x"\n'
                    "[alerts.mutes.m]\n"
                    'reason = "x"\n'
                    'days = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]\n'
                    'at = "00:00"\n'
                    "duration_s = 86400"
                ),
                "alerts.mutes.m: mutes all groups at all times",
            ),
            (
                (
                    "[alerts.webhook.h]\n"
                    'url = "http://x"\n'
                    "[alerts.mutes.m]\n"
                    'reason = "x"\n'
                    'group = ".*"\n'
                    'days = ["mon"]\n'
                    'at = "00:00"\n'
                    "duration_s = 604800"
                ),
                "alerts.mutes.m: mutes all groups at all times",
            ),
            (
                (
                    "[alerts.webhook.h]\n"
                    'url = "http://x"\n'
                    "[alerts.mutes.m]\n"
                    'reason = "x"\n'
                    'starts = "2026-01-01"\n'
                    'ends = "2199-01-01"'
                ),
                "alerts.mutes.m: mutes all groups for",
            ),
            (
                (
                    "[alerts.webhook.h]\n"
                    'url = "http://x"\n'
                    "[alerts.policies.p]\n"
                    "for_s = 600\n"
                    "escalate_after_s = 60\n"
                    'escalate_to = ["i"]\n'
                    'channels = ["h"]\n'
                    "[alerts.webhook.i]\n"
                    'url = "http://y"'
                ),
                "alerts.policies.p.escalate_after_s = 60: is less than for_s (600)",
            ),
            (
                (
                    "[alerts.webhook.h]\n"
                    'url = "http://x"\n'
                    "[alerts.policies.p]\n"
                    "send_once = true\n"
                    "remind_s = 600"
                ),
                "alerts.policies.p.remind_s = 600: has no effect with send_once = true",
            ),
            (
                (
                    '[alerts.webhook.h]\nurl = "http://x"\n'
                    "[alerts.policies.p]\nfor_s = 60\nremind_s = 30"
                ),
                "alerts.policies.p.remind_s = 30: repeats every open incident more often than once",
            ),
            (
                (
                    '[alerts.webhook.h]\nurl = "http://x"\n'
                    "[alerts.policies.p]\nfor_s = 600\nremind_s = 90"
                ),
                "alerts.policies.p.remind_s = 90: is less than for_s (600): it repeats sooner",
            ),
            (
                '[alerts.webhook.h]\nurl = "http://x"\n[alerts.policies.p]\ngroup = "^billing-*"',
                'alerts.policies.p.group = "^billing-*": is a regular expression, in which *',
            ),
            (
                '[alerts.webhook.h]\nurl = "http://example.com/x"\ntoken = "t"',
                "alerts.webhook.h.token = ***: is sent to example.com without encryption",
            ),
            (
                (
                    "[alerts.teams.t]\n"
                    'webhook_url = "https://shop.webhook.office.com/webhookb2/a@b/IncomingWebhook/c"'
                ),
                "is of a connector, which Teams has retired",
            ),
            (
                (
                    '[windows]\nintervals = 5\n[alerts.webhook.h]\nurl = "http://x"\n'
                    "[alerts.policies.p]\ncatch_up_within_s = 60"
                ),
                "windows.intervals = 5: gives groups that commit often no rate",
            ),
            (
                (
                    "[windows]\nintervals = 2\nmin_distance_s = 9\n"
                    '[alerts.webhook.h]\nurl = "http://x"\n'
                    "[alerts.policies.p]\ncatch_up_within_s = 60"
                ),
                "windows.intervals = 2: gives groups that commit often no rate",
            ),
            (
                '[alerts]\ncluster_unseen_s = 5\n[alerts.webhook.h]\nurl = "http://x"\n',
                "alerts.cluster_unseen_s = 5: has no effect below the 15 s",
            ),
            (
                (
                    "[alerts.email.m]\n"
                    'host = "h"\n'
                    'security = "none"\n'
                    'username = "u"\n'
                    'password = "p"\n'
                    'sender = "a@example.com"\n'
                    'to = ["b@example.com"]'
                ),
                "alerts.email.m.password = ***: is sent without encryption",
            ),
            (
                '[alerts.webhook.h]\nurl = "http://x"\nbody = \'{"a": "{{ notice.group }}"}\'',
                "alerts.webhook.h.body: makes no JSON of a group whose name holds a quote",
            ),
            (
                '[alerts.webhook.h]\nurl = "http://x"\nheaders = { Title = "a\\nb" }',
                "alerts.webhook.h.headers.Title: holds a line break",
            ),
            (
                '[alerts.webhook.h]\nurl = "http://x"\nheaders = { "content-length" = "5" }',
                "alerts.webhook.h.headers.content-length: is not sent",
            ),
            (
                '[alerts.webhook.h]\nurl = "http://x"\nheaders = { Transfer-Encoding = "x" }',
                "alerts.webhook.h.headers.Transfer-Encoding: is not sent",
            ),
            (
                '[alerts.heartbeat]\nurl = "https://u:p@[::1/x"',
                "alerts.heartbeat.url = https://…@[::1/…: names no host",
            ),
            (
                '[alerts.webhook.h]\nurl = "{{ notice.cluster }}/x"',
                "alerts.webhook.h.url: is no http(s) URL",
            ),
            (
                '[alerts.webhook.h]\nurl = "http://x"\nheaders = { "A b" = "c" }',
                "alerts.webhook.h.headers.A b: is no name of a header",
            ),
            (
                (
                    "[alerts.pagerduty.p]\n"
                    f'routing_key = "{"k" * 32}"\n'
                    'url = "https://events.pagerduty.com/generic/2010-04-15/create_event.json"'
                ),
                "alerts.pagerduty.p.url = https://events.pagerduty.com/…: is not the address of",
            ),
            (
                (
                    "[alerts.pagerduty.p]\n"
                    'routing_key = "abc"\n'
                    'url = "https://events.eu.pagerduty.com/v2/enqueue"'
                ),
                "has 3 characters",
            ),
            (
                '[alerts.slack.s]\nwebhook_url = "https://slack.com/api/chat.postMessage"',
                "alerts.slack.s.webhook_url = https://slack.com/…: is not the URL of an incoming",
            ),
            (
                '[alerts.slack.s]\nwebhook_url = "https://hooks.slack.com/triggers/T1/2/3"',
                "is not the URL of an incoming webhook",
            ),
            (
                (
                    "[alerts.email.m]\n"
                    'host = "h"\n'
                    'security = "tls"\n'
                    'sender = "a@example.com"\n'
                    'to = ["b@example.com"]'
                ),
                "alerts.email.m.port = 587: is a port where TLS begins with STARTTLS",
            ),
            (
                '[alerts.webhook.h]\nurl = "http://x"\ngive_up_after_s = 5',
                "alerts.webhook.h.give_up_after_s = 5: is less than timeout_s (10)",
            ),
            (
                (
                    '[alerts.webhook.h]\nurl = "http://x"\n'
                    '[alerts.policies.p]\nobjective_severity = "warning"'
                ),
                'alerts.policies.p.objective_severity = "warning": has no limit to be missed',
            ),
            (
                (
                    '[alerts.webhook.h]\nurl = "http://x"\nthreshold = "error"\n'
                    '[alerts.policies.p]\nthreshold = "warning"'
                ),
                'alerts.policies.p.threshold = "warning": is below the threshold of all its channe',
            ),
            (
                (
                    '[alerts.webhook.h]\nurl = "http://x"\n'
                    "[alerts.policies.p]\nescalate_after_s = 600\n"
                    'escalate_to = ["h"]'
                ),
                'alerts.policies.p.escalate_to = "h": leaves no other channel',
            ),
            *(
                (
                    (
                        '[alerts.webhook.h]\nurl = "http://x"\n'
                        f"[alerts.policies.p]\nburrow_compatible = true\n{option}"
                    ),
                    f"alerts.policies.p.{option}: has no effect with burrow_compatible = true",
                )
                for option in ("max_lag = 5", "for_s = 60.0", "minimum_lag = 5")
            ),
            *(
                (
                    (
                        '[alerts.webhook.h]\nurl = "http://x"\n[alerts.policies.all]\n'
                        f'group = "{pattern}"\n[alerts.policies.late]\ngroup = "^pay"'
                    ),
                    "alerts.policies.late: is never reached: all before it matches every group",
                )
                for pattern in ("^", "$", ".", "(.*)", "^.+", ".*$")
            ),
            (
                (
                    '[alerts.webhook.h]\nurl = "http://x"\n'
                    """body = '{"a": 1{{ "x" if notice.event == "close" }}}'"""
                ),
                "alerts.webhook.h.close_body: makes no JSON of the sample",
            ),
            *(
                (f'[alerts.email.m]\nhost = "{host}"\nsender = "a@b"\nto = ["c@d"]', problem)
                for host, problem in (
                    ("smtp://mx", 'alerts.email.m.host = "smtp://mx": is not only the name'),
                    ("mx:587", 'alerts.email.m.host = "mx:587": is not only the name'),
                )
            ),
            *(
                (
                    f'[alerts.slack.s]\nwebhook_url = "https://hooks.slack.com/services/{key}"',
                    "is not the URL of an incoming webhook",
                )
                for key in ("", "T1/B2", "T1/B2/")
            ),
            (
                '[alerts.teams.t]\nwebhook_url = "https://outlook.office.com/webhook/x"',
                "alerts.teams.t.webhook_url = https://outlook.office.com/…: is of a connector",
            ),
            *(
                (
                    (
                        f'{kind}_deny = "{deny}"\n[alerts.webhook.h]\nurl = "http://x"\n'
                        f'[alerts.policies.p]\n{kind} = "{pattern}"'
                    ),
                    f"is never used: {kind}_deny of every cluster it is for (local) leaves out",
                )
                for kind, deny, pattern in (
                    ("group", "^a.*z", "^a.*z"),
                    ("group", "^billing", "^billing-mailer"),
                    ("group", "mail", "^billing-mailer$"),
                    ("group", "mail.r$", "^billing-mailer$"),
                    ("group", "mail", "billing-mailer"),
                    ("topic", "^orders$", "^orders$"),
                )
            ),
            *(
                (
                    (
                        '[alerts.webhook.h]\nurl = "http://x"\n'
                        f'[alerts.policies.p]\ngroup = "{pattern}"'
                    ),
                    f'alerts.policies.p.group = "{pattern}": has a space at its',
                )
                for pattern in ("^ billing$", " billing", "^billing $", "billing ")
            ),
            (
                ('[alerts.webhook.h]\nurl = "http://x"\n[alerts.policies.p]\nrunbook = "wiki/lag"'),
                'alerts.policies.p.runbook = "wiki/lag": is no http(s) URL',
            ),
            (
                '[alerts]\nkeep_s = 3600\n[alerts.webhook.h]\nurl = "http://x"',
                "alerts.keep_s = 3600: is less than give_up_after_s of h (86400)",
            ),
            *(
                (
                    (
                        '[alerts.webhook.h]\nurl = "http://x"\n[alerts.policies.p]\nmax_lag = 5\n'
                        f"objective_share = {share}"
                    ),
                    f"alerts.policies.p.objective_share = {share}: {said}",
                )
                for share, said in (
                    ("99", "is a share of time and less than 1. Write 0.99 for 99 %."),
                    ("99.5", "is a share of time and less than 1. Write 0.995 for 99.5 %."),
                    ("1.0", "is a share of time and less than 1. Write 0.99 for 99 %."),
                )
            ),
        ],
    )
    @pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's
    def test_it_is_found(self, tmp_path, text, found) -> None:
        path = written(tmp_path, text)

        done = CliRunner().invoke(app, ["config", "check", "-c", str(path)])

        assert done.exit_code != 0
        assert found in done.output

    @pytest.mark.parametrize(
        "text",
        [
            '[alerts.policies.p]\nrunbook = "call Anna: +49 1"',
            "[alerts.policies.p]\nmax_lag = 50\nminimum_lag = 50",
            '[alerts.policies.p]\ngroup = "^(|a)$"',
            (
                '[alerts.policies.p]\nescalate_after_s = 60\nescalate_to = ["h"]\n'
                '[alerts.webhook.i]\nurl = "http://8.8.8.8/"\nprivate_networks = false\n'
                'allow_hosts = ["8.8.*"]'
            ),
            '[alerts.webhook.i]\nurl = "http://{{ notice.cluster }}:99999/"\nallow_hosts = ["x"]',
            '[alerts.policies.p]\nthreshold = "warning"\nmax_lag = 5\nobjective_share = 0.9',
            "[alerts.policies.p]\nmax_lag = 5\nobjective_share = 0.94",
            "[alerts.policies.p]\nsend_once = true",
            "[alerts.policies.p]\nburrow_compatible = true\nremind_s = 60\nsend_close = false",
            '[alerts.policies.one]\ngroup = "^.$"\n[alerts.policies.pay]\ngroup = "^pay"',
            (
                "[alerts.pagerduty.p]\n"
                f'routing_key = "{"k" * 32}"\n'
                'url = "https://events.eu.pagerduty.com/v2/enqueue"'
            ),
            '[alerts.pagerduty.p]\nrouting_key = "k"\nurl = "http://relay.example.com/pagerduty"',
            *(
                f'[alerts.email.m]\nhost = "{host}"\nsender = "a@b"\nto = ["c@d"]'
                for host in ("mx.example.com", "::1", "192.0.2.1")
            ),
            '[alerts.policies.p]\nrunbook = "restart it and/or scale it"',
            '[alerts.policies.p]\ngroup = "^my group[ ]$"',
            "[alerts]\nkeep_s = 86400",
            '[alerts.slack.s]\nwebhook_url = "https://hooks.slack.com/services/T1/B2/x3"',
            '[alerts.slack.s]\nwebhook_url = "https://chat.example.com/hooks/x3"',
            "[alerts.policies.p]\nsend_once = true\nremind_s = 0",
            "[alerts.policies.p]\nfor_s = 60\nremind_s = 60",
            "[alerts.policies.p]\ncatch_up_within_s = 60",
            "[alerts.policies.p]\nmax_lag = 60\n[windows]\nintervals = 5",
            (
                "[alerts.policies.p]\ncatch_up_within_s = 60\n"
                "[windows]\nintervals = 5\nmin_distance_s = 1.3"
            ),
            (
                "[alerts.mutes.m]\n"
                'reason = "x"\n'
                'days = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]\n'
                'at = "00:00"\n'
                "duration_s = 36000"
            ),
            (
                "[alerts.mutes.m]\n"
                'reason = "x"\n'
                'group = "^test-"\n'
                'days = ["mon"]\n'
                'at = "00:00"\n'
                "duration_s = 604800"
            ),
            '[alerts.alertmanager.a]\nurls = ["http://a:9093"]\nlabels = { team = "x" }',
            (
                "[alerts.webhook.i]\n"
                'url = "http://x"\n'
                'headers = { Title = "{{ subject }}" }\n'
                "body = '{\"a\": {{ notice.group | json }}}'"
            ),
        ],
    )
    def test_what_works_is_not_doubted(self, tmp_path, text) -> None:
        path = written(tmp_path, f'[alerts.webhook.h]\nurl = "http://x"\n{text}')

        done = CliRunner().invoke(app, ["config", "check", "-c", str(path)])

        assert done.exit_code == 0, done.output

    @pytest.mark.parametrize(
        ("deny", "group"),
        [("^billing-", "^billing"), ("mail.r", "mailer"), ("x$", "^x"), ("^b", "b"), ("", "")],
    )
    def test_a_policy_of_which_a_group_may_be_left_is_not_doubted(
        self, tmp_path, deny, group
    ) -> None:
        path = written(
            tmp_path,
            f'group_deny = "{deny}"\n[alerts.webhook.h]\nurl = "http://x"\n'
            f'[alerts.policies.p]\ngroup = "{group}"',
        )

        done = CliRunner().invoke(app, ["config", "check", "-c", str(path)])

        assert done.exit_code == 0, done.output

    def test_a_policy_that_one_of_two_clusters_leaves_out_is_not_doubted(self, tmp_path) -> None:
        path = written(
            tmp_path,
            'group_deny = "^b"\n[clusters.other]\nbootstrap = "localhost:2"\n'
            '[alerts.webhook.h]\nurl = "http://x"\n[alerts.policies.p]\ngroup = "^b"',
        )

        done = CliRunner().invoke(app, ["config", "check", "-c", str(path)])

        assert done.exit_code == 0, done.output

    def test_a_port_that_is_too_large_is_no_traceback_of_alert_test(self, tmp_path) -> None:
        path = written(tmp_path, '[alerts.webhook.h]\nurl = "http://127.0.0.1:99999/y"')

        done = run("test", "h", "-c", path)

        assert done.exit_code == 2
        assert "the URL cannot be used" in done.output
        assert isinstance(done.exception, SystemExit)

    @pytest.mark.parametrize(
        ("text", "key"),
        [
            ('[alerts.webhook.h]\nurl = "https:///x"', "alerts.webhook.h.url"),
            ('[alerts.webhook.h]\nurl = "https://x"\n[alerts]\npage_url = "https://"', "page_url"),
        ],
    )
    def test_a_url_names_a_host(self, tmp_path, text, key) -> None:
        done = CliRunner().invoke(app, ["config", "check", "-c", str(written(tmp_path, text))])

        assert done.exit_code != 0
        assert key in done.output
        assert "names no host" in done.output

    def test_what_is_meant_is_fine(self, tmp_path) -> None:
        text = (
            '[alerts.webhook.h]\nurl = "https://x/{{ notice.group }}"\n'
            'body = \'{"a": {{ subject | json }}}\'\n[alerts.policies.pay]\ngroup = "^pay"\n'
            '[alerts.policies.all]\n[alerts.email.m]\nhost = "h"\n'
            'sender = "Ops <a@example.com>"\nto = ["b@example.com"]\n'
        )

        done = CliRunner().invoke(app, ["config", "check", "-c", str(written(tmp_path, text))])

        assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("pattern", "other", "covered"),
    [
        ("^pay", "^payments$", True),
        ("^pay", "^pay", True),
        ("", "^payments", True),
        ("^pay", "^payments-(eu|us)$", True),
        ("^pay", "^payments|^orders", False),
        ("^pay", "^pay(a)|x(b)", False),
        ("^pay", "^pay[(]|x)", False),
        ("^pay", "^pay?", False),
        ("^pay", "^pa{2}", False),
        ("^pay", "payments", False),
        ("^pay", "", False),
        ("^p.y", "^pay", False),
    ],
)
def test_a_policy_is_covered_where_that_is_certain(pattern, other, covered) -> None:
    assert covers((pattern, ""), (other, "^orders")) is covered


def test_config_check_shows_faults_of_all_kinds_at_once(tmp_path) -> None:
    path = written(
        tmp_path,
        '[alerts]\npage_url = "lagwatch.example.com"\nkeep_s = "long"\n'
        '[alerts.policies.p]\ntreshold = "error"\nchannels = ["h", "h", "nix"]\n'
        f'[alerts.webhook.h]\nurl = "http://x"\nca_file = "{tmp_path / "ca"}"\n'
        '[alerts.webhook.t]\nurl = "http://x"\nbody = "{{ nix }}"\n'
        f'[server.auth]\ntokens_file = "{tmp_path / "tokens"}"\n',
    )
    (tmp_path / "ca").write_text("x")
    (tmp_path / "tokens").write_text("x y z")

    said = CliRunner().invoke(app, ["config", "check", "-c", str(path)]).output

    for key in (
        *("alerts.page_url", "alerts.keep_s", "alerts.policies.p.treshold"),
        *('alerts.policies.p.channels = "h"', 'alerts.policies.p.channels = "nix"'),
        *("alerts channel h: its certificates", "alerts.webhook.t.body", "tokens"),
    ):
        assert key in said

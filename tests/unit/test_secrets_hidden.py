"""No secret is printed: not by `config show`, not in a fault, not as text of the settings."""

import asyncio
import io
import logging
import socket
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import structlog
from typer.testing import CliRunner

from lagwatch import log
from lagwatch.cli.app import app
from lagwatch.clock import SystemClock
from lagwatch.config.alerts import AlertsSettings
from lagwatch.config.jobs import JobsSettings
from lagwatch.config.load import load
from lagwatch.config.reference import options
from lagwatch.config.secret import Headers, Properties, ShownUrl, Url, looks_secret
from lagwatch.config.settings import Settings
from lagwatch.config.walk import hidden_texts, holds, option_at
from lagwatch.errors import ConfigError, HistoryError, JobError, NotifyError
from lagwatch.hiding import hide, remember
from lagwatch.history.folder import open_folder
from lagwatch.jobs.session import start
from lagwatch.notify.channels.registry import open_channel
from lagwatch.notify.channels.webhook import WebhookSettings
from lagwatch.notify.sample import sample_messages
from tests.support.planted import MARK, changed, places, planted, toml

BOTH = pytest.mark.parametrize("by_password", [True, False])
HOLDERS = list(places())


@pytest.fixture
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
def written(tmp_path: Path):
    def write(tree: dict[str, object]) -> Path:
        path = tmp_path / "lagwatch.toml"
        path.write_text(toml(tree), encoding="utf-8")
        return path

    return write


def faults(path: Path) -> str:
    with pytest.raises(ConfigError) as raised:
        load(path, {})
    return f"{raised.value}\n{raised.value!r}"


def loaded(written, *, by_password: bool = True) -> Settings:
    return load(written(planted(by_password=by_password)), {})


def test_every_option_with_the_name_of_a_secret_or_url_has_a_type_that_hides_it() -> None:
    named = [
        option
        for option in options()
        if looks_secret(option.path[-1]) or option.path[-1].rstrip("s").endswith("url")
    ]
    public = {"key_file", "send_once", "private_networks"}

    open_ = [
        option.key
        for option in named
        if option.kind != "path" and option.path[-1] not in public
        if (field := option_at(option.path)[1]) is None or holds(field) is None
    ]

    assert len(named) > 20
    assert open_ == []


@BOTH
def test_the_settings_print_no_secret(written, by_password) -> None:
    settings = loaded(written, by_password=by_password)

    printed = [
        repr(settings),
        str(settings),
        f"{settings}",
        str(settings.model_dump()),
        str(settings.model_dump(mode="json")),
        settings.model_dump_json(),
        repr(dict(settings)),
    ]

    assert not [text for text in printed if MARK in text]


@BOTH
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_config_show_prints_no_secret(written, form, by_password) -> None:
    path = written(planted(by_password=by_password))

    result = CliRunner().invoke(app, ["config", "show", "-c", str(path), *form])

    assert result.exit_code == 0, result.output
    assert "***" in result.output
    assert MARK not in result.output


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_config_show_prints_the_runbook_of_a_policy_without_its_user(written, form) -> None:
    policies = {"night": {"channels": [], "runbook": f"https://u:{MARK}@wiki/x"}}
    path = written(
        {"clusters": {"here": {"bootstrap": "k:9092"}}, "alerts": {"policies": policies}}
    )

    done = CliRunner().invoke(app, ["config", "show", "-c", str(path), *form])

    assert done.exit_code == 0
    assert "@wiki/x" in done.output
    assert MARK not in done.output


def test_config_show_prints_what_identifies_a_url_and_a_table(written) -> None:
    path = written(planted())

    text = CliRunner().invoke(app, ["config", "show", "-c", str(path)]).output

    assert 'url = "https://…@host.example/…"' in text
    assert 'url = "s3://…@bucket/path?…"' in text
    assert '"a.size" = "5"' in text
    assert 'Accept = "text/plain"' in text


@BOTH
@pytest.mark.parametrize("wrong", [{"a": "b"}, "a b", -7, [True]])
def test_wrong_values_beside_secrets_are_refused_without_them(written, wrong, by_password) -> None:
    tree = planted(by_password=by_password)
    secret = {path for path, _ in HOLDERS}
    for option in options():
        path = tuple(
            {"clusters": "here"}.get(option.path[at - 1], f"the-{option.path[at - 1]}")
            if part == "NAME"
            else part
            for at, part in enumerate(option.path)
        )
        if path not in secret:
            tree = changed(tree, path, wrong)

    assert MARK not in faults(written(tree))


@pytest.mark.parametrize(
    "wrong",
    [
        [f"{MARK}-a", 5],
        5,
        True,
        {"a": [f"{MARK}-b"], "b": {"c": f"{MARK}-c"}},
        f"{MARK}-d",
        f"user:{MARK}-e@host",
        f"ftp://user:{MARK}-f@host/{MARK}-g",
    ],
)
def test_a_secret_that_is_refused_is_not_in_the_fault(written, wrong) -> None:
    for by_password in (True, False):
        tree = changed(planted(by_password=by_password), ("log", "level"), "loud")
        for path, _ in HOLDERS:
            tree = changed(tree, path, wrong)

        assert MARK not in faults(written(tree))


def test_a_secret_under_a_wrong_name_or_in_the_place_of_its_file_is_not_in_the_fault(
    written,
) -> None:
    tree = planted()
    for path, _ in HOLDERS:
        tree = changed(tree, (*path[:-1], f"{path[-1]}x"), f"{MARK}-x")
        tree = changed(tree, (*path[:-1], f"{path[-1]}_file"), f"https://host/{MARK}-file")

    tree = changed(tree, ("clusters", "here", "tls", "ca_file"), f"{MARK}0123456789abcdef")

    said = faults(written(tree))

    assert MARK not in said
    assert "clusters.here.tls.ca_file = ***: is not the path of a file." in said
    assert "clusters.here.sasl.password_file = ***: is not the path of a file." in said
    assert "alerts.slack.the-slack.webhook_url = ***: is given twice" in said


def test_the_user_of_a_url_is_not_in_the_fault_of_any_option(written) -> None:
    tree = changed(planted(), ("server", "address"), f"https://user:{MARK}@host:1")
    tree = changed(tree, ("clusters", "here", "bootstrap"), [f"user:{MARK}@kafka"])

    assert MARK not in faults(written(tree))


@pytest.mark.slow
@pytest.mark.usefixtures("_logging_as_before")
@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's
@pytest.mark.parametrize("level", ["trace", "debug"])
@pytest.mark.parametrize("form", ["json", "console"])
def test_channels_that_fail_log_and_raise_no_secret(written, level, form) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    tree = planted()
    for kind, key in {"webhook": "url", "slack": "webhook_url", "pagerduty": "url"}.items():
        url = f"http://user:{MARK}-{kind}@127.0.0.1:{port}/{MARK}-path?key={MARK}-query"
        tree = changed(tree, ("alerts", kind, f"the-{kind}", key), url)
    services = [f"json://user:{MARK}-user@127.0.0.1:{port}/{MARK}-path", f"slack://{MARK}-token"]
    tree = changed(tree, ("alerts", "apprise", "the-apprise", "service_urls"), services[:1])
    alerts = load(written(tree), {}).alerts.model_copy(update={"email": {}})
    stream = io.StringIO()
    log.configure(level=level, form=form, stream=stream, secrets=hidden_texts(alerts))

    said = asyncio.run(refusals(alerts))

    assert len(said) > 5
    assert MARK not in "\n".join(said) + stream.getvalue()


async def refusals(alerts: AlertsSettings) -> list[str]:
    """What every channel says of a message that it cannot send."""
    said = []
    for name, settings in alerts.channels():
        channel = open_channel(name, settings, SystemClock())
        for message in sample_messages():
            with pytest.raises(NotifyError) as raised:
                await channel.send(message)
            said.append(f"{raised.value} {raised.value!r}")
        await channel.close()
    return said


@pytest.mark.parametrize(
    "written",
    [
        "Authorization: Basic {}",
        "authorization=basic {}, x",
        '{{"Authorization": "Basic {}"}}',
        "Authorization%3A+Basic+{}",
    ],
)
@pytest.mark.parametrize("user", ["a:secret", "anna:s3cret-password", "client%20id:s3cret/+é"])
def test_a_password_as_http_carries_it_is_hidden_in_every_text(written, user) -> None:
    carried = b64encode(user.encode()).decode()

    said = hide(written.format(carried))

    assert said == written.format("***")
    assert carried[:12] not in hide(written.format(carried[:-3]))


@pytest.mark.parametrize("text", ["Basic authentication", "basic YWJjZGVmZ2hp", "basics: a:b"])
def test_words_that_look_like_a_password_stay(text) -> None:
    assert hide(text) == text


def test_the_path_that_a_client_encodes_is_hidden() -> None:
    settings = WebhookSettings.model_validate({"url": "https://h/q/se cret ü?key=short"})
    remember(hidden_texts(settings))
    try:
        asked = httpx.URL(settings.url.get_secret_value())
        assert hide(f"no such path {asked.raw_path.decode()}") == "no such path ***"
    finally:
        remember(())


def test_a_key_in_the_template_of_a_body_is_hidden() -> None:
    body = '{"api_key": "k-one", "to": "{{ group }}", "room":"R0123456789AB", "pwd" : "s3cret-pw"}'
    settings = WebhookSettings.model_validate({"url": "https://h", "body": body})
    remember(hidden_texts(settings))
    try:
        said = hide("wrong: s3cret-pw, R0123456789AB, to")
    finally:
        remember(())

    assert said == "wrong: ***, ***, to"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("", ""),
        ("https://host", "https://host"),
        ("https://host:8443/", "https://host:8443/"),
        ("https://host/token", "https://host/…"),
        ("https://host?token=x", "https://host/…"),
        ("https://user:pw@host/", "https://…@host/"),
        ("https://user:p/w@host/", "https://…"),
        ("https://{{ cluster }}.host/x", "https://{{ cluster }}.host/…"),
        ("user:pw@host", "***"),
    ],
)
def test_a_url_is_shown_as_scheme_and_host(url, shown) -> None:
    assert str(Url(url)) == shown


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("lagwatch-history", "lagwatch-history"),
        ("local[*]", "local[*]"),
        ("s3://bucket/path", "s3://bucket/path"),
        ("s3://key:sec/ret@bucket/path", "s3://…@bucket/path"),
        ("s3://bucket/path?secret=x", "s3://bucket/path?…"),
        ("sc://host:15002/;token=x", "sc://host:15002/;…"),
    ],
)
def test_a_place_is_shown_without_its_user_and_query(place, shown) -> None:
    assert str(ShownUrl(place)) == shown


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("sasl.oauthbearer.client.secret", True),
        ("sasl.oauthbearer.config", True),
        ("ssl.key.pem", True),
        ("spark.hadoop.fs.s3a.access.key", True),
        ("spark.authenticate.secret", True),
        ("basic.auth.user.info", True),
        ("smtp.pass", True),
        ("truststore_pw", True),
        ("spark.passes", False),
        ("ssl.key.location", False),
        ("sasl.oauthbearer.token.endpoint.url", False),
        ("socket.timeout.ms", False),
        ("spark.executor.memory", False),
    ],
)
def test_properties_whose_name_looks_secret_are_hidden(name, hidden) -> None:
    assert ("value" not in repr(Properties({name: "value"}))) is hidden


@pytest.mark.parametrize(
    ("options", "hidden"),
    [
        ("-Xmx1g -Dstore.password=hunter22", True),
        ("-Dpw=hunter22", True),
        ("-Xmx1g -Dparts=2", False),
    ],
)
def test_options_of_a_program_are_hidden_if_one_looks_secret(options, hidden) -> None:
    shown = Properties({"spark.executor.extraJavaOptions": options}).shown()

    assert (options not in shown.values()) is hidden


def test_headers_are_hidden_but_for_a_few() -> None:
    headers = Headers({"User-Agent": "me", "content-type": "text/plain", "X-Anything": "key"})

    assert headers.shown() == {
        "User-Agent": "me",
        "content-type": "text/plain",
        "X-Anything": "***",
    }


@pytest.mark.parametrize("scheme", ["unknown", "s3", "http"])
def test_a_store_that_cannot_be_opened_is_named_without_its_secrets(scheme) -> None:
    with pytest.raises(HistoryError) as raised:
        open_folder(f"{scheme}://user:{MARK}@host:x/bucket?secret={MARK}")

    assert MARK not in str(raised.value)


def test_a_spark_that_does_not_answer_is_named_without_its_token() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    settings = JobsSettings.model_validate({"master": f"sc://127.0.0.1:{port}/;token={MARK}"})

    with pytest.raises(JobError, match=f"jobs.master = sc://127.0.0.1:{port}/;…") as raised:
        start(settings, name="test")

    assert MARK not in str(raised.value)

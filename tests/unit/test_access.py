"""Who a caller is: tokens, users of a proxy, names of the server."""

import os
import resource
from base64 import b64encode
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from lagwatch.access import AccessControl
from lagwatch.config.server import ServerSettings
from lagwatch.config.tokens import line, new_token
from lagwatch.errors import ConfigError
from lagwatch.ports.access import EVERYBODY, NOBODY, Scope
from tests.support.step_clock import StepClock

READER, ADMIN = "lagwatch_" + "r" * 43, "lagwatch_" + "a" * 43


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(f"# who\n\n{line('reader', 'read', READER)}{line('root', 'admin', ADMIN)}")
    return path


def control(clock: StepClock | None = None, **auth: object) -> AccessControl:
    settings = ServerSettings.model_validate({"address": ":1", "auth": auth, "open": not auth})
    return AccessControl(settings, clock or StepClock())


def basic(user: str, password: str) -> bytes:
    return b"Basic " + b64encode(f"{user}:{password}".encode())


@pytest.mark.parametrize(
    ("header", "name", "scope"),
    [
        (f"Bearer {READER}".encode(), "reader", Scope.READ),
        (f"bearer  {ADMIN} ".encode(), "root", Scope.ADMIN),
        (basic("reader", READER), "reader", Scope.READ),
        (basic("root", READER), "", Scope.NONE),
        (basic("", READER), "", Scope.NONE),
        (basic("reader", "x"), "", Scope.NONE),
        (b"Basic \xff", "", Scope.NONE),
        (f"Bearer {READER}x".encode(), "", Scope.NONE),
        (b"Bearer", "", Scope.NONE),
        (b"", "", Scope.NONE),
        (f"Token {READER}".encode(), "", Scope.NONE),
    ],
)
def test_a_token_is_taken_as_bearer_or_as_a_password(file, header, name, scope) -> None:
    caller = control(tokens_file=file).caller({b"authorization": header}, "10.0.0.1")

    assert (caller.name, caller.scope) == (name, scope)


def test_who_tries_tokens_is_logged_once_a_minute_with_the_number_of_tries(file) -> None:
    clock = StepClock()
    access = control(clock, tokens_file=file)
    wrong, right = {b"authorization": b"Bearer x"}, {b"authorization": b"Bearer " + READER.encode()}

    with capture_logs() as logged:
        for _ in range(3):
            access.caller(wrong, "10.0.0.1")
        access.caller(right, "10.0.0.1")
        access.caller(wrong, "10.0.0.2")
        clock.pass_s(60)
        access.caller(wrong, "10.0.0.1")

    seen = [(each["event"], each["peer"], each["times"]) for each in logged]
    assert seen == [
        ("http_refused", "10.0.0.1", 1),
        ("http_refused", "10.0.0.2", 1),
        ("http_refused", "10.0.0.1", 3),
    ]


def test_orders_of_strangers_are_counted_and_long_paths_are_cut(file) -> None:
    access, path = control(tokens_file=file), "/" + "x" * 8000
    wrong, known = {b"authorization": b"Bearer x"}, access.holder(READER)

    with capture_logs() as logged:
        for _ in range(50):
            access.note(access.caller({}, "10.0.0.1"), "10.0.0.1", "POST", path, 401)
            access.note(access.caller(wrong, "10.0.0.2"), "10.0.0.2", "POST", path, 401)
        access.note(known, "10.0.0.3", "POST", path, 403)

    assert [(each["event"], each["peer"]) for each in logged] == [
        ("http_refused", "10.0.0.1"),
        ("http_refused", "10.0.0.2"),
        ("http_order", "10.0.0.3"),
    ]
    assert len(logged[-1]["path"]) < 600


@pytest.mark.parametrize(
    ("cookie", "name"),
    [
        (f"lagwatch_token={READER}", "reader"),
        (f"a=b; lagwatch_token={READER}; c", "reader"),
        (f"xlagwatch_token={READER}", ""),
        ("lagwatch_token=", ""),
        (";;=;", ""),
    ],
)
def test_a_browser_sends_its_token_in_a_cookie(file, cookie, name) -> None:
    caller = control(tokens_file=file).caller({b"cookie": cookie.encode()}, "10.0.0.1")

    assert caller.name == name


def test_who_tries_tokens_in_cookies_is_logged(file) -> None:
    access = control(tokens_file=file)

    with capture_logs() as logged:
        access.caller({b"cookie": b"lagwatch_token=x"}, "10.0.0.1")

    assert [(each["event"], each["peer"]) for each in logged] == [("http_refused", "10.0.0.1")]


def test_a_wrong_token_is_not_made_good_by_a_cookie(file) -> None:
    headers = {b"authorization": b"Bearer x", b"cookie": f"lagwatch_token={ADMIN}".encode()}

    assert control(tokens_file=file).caller(headers, "10.0.0.1") == NOBODY


def test_everyone_may_do_everything_where_nothing_is_configured() -> None:
    assert control().caller({}, "10.0.0.1") is EVERYBODY


def test_a_changed_file_applies_without_a_restart_and_a_broken_one_changes_nothing(file) -> None:
    clock = StepClock()
    access = control(clock, tokens_file=file)
    newer = new_token()

    file.write_text(line("newer", "operate", newer))
    assert access.holder(newer) is NOBODY, "it looks once a second"
    clock.pass_s(2.0)
    assert access.holder(newer).scope is Scope.OPERATE
    assert access.holder(READER) is NOBODY

    file.write_text("broken")
    clock.pass_s(2.0)
    assert access.holder(newer).name == "newer"
    file.unlink()
    clock.pass_s(2.0)
    assert access.holder(newer).name == "newer"


def test_who_deletes_the_last_line_revokes_the_last_token(file) -> None:
    clock = StepClock()
    access = control(clock, tokens_file=file)
    before = access.holder(READER)

    file.write_text("# nobody\n")
    clock.pass_s(2.0)

    assert before is not NOBODY
    assert access.holder(READER) is NOBODY


def test_a_line_is_revoked_once_the_file_has_the_rights_that_were_asked_for(file) -> None:
    clock = StepClock()
    access = control(clock, tokens_file=file)

    file.chmod(0o666)
    file.write_text(line("root", "admin", ADMIN))
    clock.pass_s(2.0)
    assert access.holder(READER).name == "reader"
    file.chmod(0o600)
    clock.pass_s(2.0)

    assert access.holder(READER) is NOBODY


def test_tokens_that_could_not_be_read_are_read_as_soon_as_they_can(file) -> None:
    clock = StepClock()
    access = control(clock, tokens_file=file)
    file.write_text(line("root", "admin", ADMIN))

    with capture_logs() as logged:
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
        try:
            for _ in range(3):
                clock.pass_s(2.0)
                assert access.holder(READER).name == "reader"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        problem = access.problem
        clock.pass_s(2.0)
        assert access.holder(READER) is NOBODY

    assert str(file) in problem
    assert access.problem == ""

    assert [each["event"] for each in logged] == ["tokens_not_read", "tokens_read"]


class TestProxy:
    PROXY = {  # noqa: RUF012 is not changed
        "addresses": ["10.1.0.0/16", "::1"],
        "user_header": "X-User",
        "operators": ["olga"],
        "admins": ["anna", "olga2"],
    }

    @pytest.mark.parametrize(
        ("user", "peer", "scope"),
        [
            ("ron", "10.1.2.3", Scope.READ),
            ("olga", "10.1.2.3", Scope.OPERATE),
            ("anna", "::1", Scope.ADMIN),
            ("anna", "::ffff:10.1.2.3", Scope.ADMIN),
            ("anna", "::ffff:10.2.0.1", Scope.NONE),
            ("anna", "10.2.0.1", Scope.NONE),
            ("anna", "127.0.0.1", Scope.NONE),
            ("anna", "", Scope.NONE),
            ("", "10.1.2.3", Scope.NONE),
            ("  ", "10.1.2.3", Scope.NONE),
        ],
    )
    def test_a_user_is_believed_only_from_the_proxy(self, user, peer, scope) -> None:
        caller = control(proxy=self.PROXY).caller({b"x-user": user.encode()}, peer)

        assert caller.scope is scope

    def test_a_token_goes_before_the_proxy(self, file) -> None:
        headers = {b"x-user": b"anna", b"authorization": f"Bearer {READER}".encode()}

        caller = control(proxy=self.PROXY, tokens_file=file).caller(headers, "10.1.0.1")

        assert caller.name == "reader"

    def test_an_old_cookie_does_not_shut_out_whom_the_proxy_knows(self, file) -> None:
        headers = {b"x-user": b"anna", b"cookie": b"lagwatch_token=old"}

        for access in (control(proxy=self.PROXY), control(proxy=self.PROXY, tokens_file=file)):
            assert access.caller(headers, "10.1.2.3").name == "anna"
            assert access.caller(headers, "10.2.0.1") is NOBODY

    def test_its_header_is_among_those_that_are_sent_once(self, file) -> None:
        alone, behind = control(tokens_file=file), control(proxy=self.PROXY)

        assert {b"host", b"authorization", b"origin"} <= alone.sent_once
        assert behind.sent_once - alone.sent_once == {b"x-user"}


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("localhost", True),
        ("LOCALHOST:8000", True),
        ("127.0.0.1:8000", True),
        ("[::1]:8000", True),
        ("10.1.2.3", True),
        ("lag.example", True),
        ("Lag.Example.:443", True),
        ("evil.example", False),
        ("lag.example.evil", False),
        ("localhost.evil", False),
        ("127.0.0.1.evil", False),
        ("[::1", False),
        ("[::1].evil", False),
        ("[::1]evil:80", False),
        ("localhost:80.evil", False),
        ("localhost:evil", False),
        ("", False),
    ],
)
def test_only_own_names_and_addresses_are_hosts(host, ours) -> None:
    settings = ServerSettings.model_validate({"hosts": ["lag.example"]})

    assert AccessControl(settings, StepClock()).is_host(host.encode()) is ours


def test_a_star_accepts_every_name() -> None:
    settings = ServerSettings.model_validate({"hosts": ["*"]})

    assert AccessControl(settings, StepClock()).is_host(b"any.example")


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("# nothing", "holds no token"),
        ("alice read", "line 1 is not that of a token"),
        (f"alice read sha256:{'0' * 64}\nbob root sha256:{'0' * 64}", "line 2"),
        (f"alice read sha256:{'x' * 64}", "line 1"),
        (f"a read sha256:{'0' * 64}\nb admin sha256:{'0' * 64}", "lines 1 and 2 hold the same"),
    ],
)
def test_a_file_with_a_wrong_token_is_refused_without_showing_it(file, lines, problem) -> None:
    file.write_text(lines)

    with pytest.raises(ConfigError, match=problem) as raised:
        control(tokens_file=file)

    assert "0000" not in str(raised.value)


def test_a_pipe_in_the_place_of_the_file_blocks_nobody(file) -> None:
    """To open one waits until somebody writes into it; all of lagwatch would wait."""
    clock = StepClock()
    access = control(clock, tokens_file=file)
    file.unlink()
    os.mkfifo(file)
    clock.pass_s(2.0)

    assert access.holder(READER).name == "reader"
    assert "it is a pipe or device, not a file" in access.problem


def test_a_file_that_anybody_may_write_is_refused(file) -> None:
    file.chmod(0o666)

    with pytest.raises(ConfigError, match="may be written by anybody"):
        control(tokens_file=file)

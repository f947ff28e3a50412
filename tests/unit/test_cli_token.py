"""Commands send the token that they are given, and `lagwatch token` makes one."""

import os
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lagwatch.cli.app import app
from lagwatch.cli.ask import ask
from lagwatch.cli.remote import RemoteSource
from lagwatch.config.tokens import hashed, read_tokens
from lagwatch.errors import SourceError
from tests.support.receiver import Reply, receiving


def test_a_token_is_shown_once_and_kept_as_its_hash(tmp_path: Path) -> None:
    file = tmp_path / "tokens"

    made = [
        CliRunner().invoke(app, ["token", *arguments, "--file", str(file)]).output.strip()
        for arguments in (["prometheus"], ["alice", "--scope", "operate"])
    ]

    first, second = read_tokens(file)
    assert (first.name, first.scope, first.hash) == ("prometheus", "read", hashed(made[0].encode()))
    assert (second.name, second.scope) == ("alice", "operate")
    assert made[0] not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_it_is_said_that_an_old_token_of_the_name_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    arguments = ["token", "alice", "--scope", "operate", "--file", str(file)]

    first, second = (CliRunner().invoke(app, arguments) for _ in range(2))

    assert first.stderr == ""
    assert "alice holds 2 tokens now: to revoke the old, delete their lines" in second.stderr
    assert len(read_tokens(file)) == 2


def test_a_pipe_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    os.mkfifo(file)

    done = CliRunner().invoke(app, ["token", "alice", "--file", str(file)])

    assert done.exit_code == 2
    assert "is a pipe or device" in " ".join(done.output.replace("│", "").split())


def test_a_name_that_would_break_the_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokens"

    done = CliRunner().invoke(app, ["token", "a b\nroot admin", "--file", str(file)])

    assert done.exit_code == 2
    assert not file.exists()


@pytest.mark.parametrize("by_file", [True, False])
def test_commands_send_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, by_file: bool
) -> None:
    (tmp_path / "token").write_text("secret\n")
    monkeypatch.setenv("LAGWATCH_TOKEN", "wrong" if by_file else "secret")
    if by_file:
        monkeypatch.setenv("LAGWATCH_TOKEN_FILE", str(tmp_path / "token"))

    with receiving(Reply(body="{}"), Reply(body='{"clusters":[]}')) as receiver:
        ask(receiver.url, "GET", "/x")
        with RemoteSource(receiver.url, timeout_s=30) as source:
            source.clusters()

    assert [request.headers["authorization"] for request in receiver.requests] == [
        "Bearer secret"
    ] * 2


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_names_the_remedy(status: int) -> None:
    with receiving(Reply(status=status), Reply(status=status)) as receiver:
        with pytest.raises(SourceError, match="LAGWATCH_TOKEN"):
            ask(receiver.url, "POST", "/x")
        with (
            RemoteSource(receiver.url, timeout_s=30) as source,
            pytest.raises(SourceError, match="--token-file"),
        ):
            source.clusters()

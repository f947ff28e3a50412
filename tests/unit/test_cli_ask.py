"""Orders to a running lagwatch: what is said when it cannot be reached."""

import socket

import pytest

from lagwatch.cli.ask import ask
from lagwatch.errors import SourceError


def test_the_user_of_the_url_is_not_in_the_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    with pytest.raises(SourceError, match=f"cannot ask http://127.0.0.1:{port}: ") as raised:
        ask(f"http://user:hunter2@127.0.0.1:{port}", "GET", "/api/v1/alerts/mutes")

    assert "hunter2" not in str(raised.value)

"""Orders to a running lagwatch: what is said when it cannot be reached."""

import socket
import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from typer.testing import CliRunner

from lagwatch.cli import app
from lagwatch.cli.ask import ask, cluster_of
from lagwatch.errors import NotFoundError, SourceError
from lagwatch.ports.queries import GroupDetail
from lagwatch_api import create_app
from tests.support.api_doubles import (
    GivenCluster,
    GivenQueries,
    GivenSettings,
    RecordingCommands,
    group_verdict,
)
from tests.support.certificates import self_signed
from tests.support.receiver import Reply, receiving
from tests.support.serving import served


def test_the_user_of_the_url_is_not_in_the_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    with pytest.raises(SourceError, match=f"cannot ask http://127.0.0.1:{port}: ") as raised:
        ask(f"http://user:hunter2@127.0.0.1:{port}", "GET", "/api/v1/alerts/mutes")

    assert "hunter2" not in str(raised.value)


@pytest.mark.slow  # serves HTTP
@pytest.mark.parametrize("command", [["alert", "incidents"], ["status"]])
def test_an_answer_that_is_not_of_lagwatch_is_named(command: list[str]) -> None:
    with receiving(*[Reply(body="<html>Log in</html>")] * 9) as server:
        found = CliRunner().invoke(app, [*command, "--url", server.url])

    assert isinstance(found.exception, SystemExit)
    assert f"{server.url} did not answer as lagwatch" in found.stderr


@pytest.mark.slow  # serves HTTP
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"error":true,"message":"end it in the file","result":{}}', ": end it in the file"),
        ("<h1>Bad</h1>", ": <h1>Bad</h1>"),
    ],
)
def test_a_refusal_is_told_in_the_words_of_the_server(body: str, said: str) -> None:
    with receiving(Reply(status=400, body=body)) as server:
        found = CliRunner().invoke(
            app, ["alert", "mute", "remove", "config:x", "--url", server.url]
        )

    assert f"answered 400{said}" in " ".join(found.stderr.split())


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("incidents --state bogus", "'closed'"),
        ("notices --state bogus", "'unreadable'"),
        ("mute add x --reason y --for 0s", "--for 0s: a mute must last"),
        ("mute add x --reason y --for nans", "--for nans: a mute must last"),
    ],
)
def test_an_order_that_makes_no_sense_is_not_sent(order: str, said: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        found = CliRunner().invoke(app, ["alert", *order.split(), "--url", url])

    assert found.exit_code != 0
    assert said in found.stderr


@pytest.mark.slow  # serves HTTPS
@pytest.mark.parametrize("command", [["alert", "incidents"], ["status"]])
def test_the_remedy_for_a_ca_of_ones_own_is_named(command: list[str], tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*self_signed(tmp_path))
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        url = f"https://localhost:{server.server_port}"
        found = CliRunner().invoke(app, [*command, "--url", url])
        server.shutdown()
        thread.join()

    assert found.exit_code in {2, 3}
    assert "SSL_CERT_FILE" in found.stderr


@pytest.mark.slow  # serves HTTP
class TestTheClusterOfAGroup:
    """Two clusters; one group is on both."""

    @pytest.fixture
    def url(self) -> Iterator[str]:
        billing, both = (group_verdict(group=name) for name in ("billing", "both"))
        clusters = {
            "east": GivenCluster(verdicts={"billing": billing, "both": both}),
            "west": GivenCluster(verdicts={"both": both}),
        }
        for cluster in clusters.values():
            cluster.details |= dict.fromkeys(cluster.verdicts, GroupDetail(topics={}))
        application = create_app(
            GivenQueries(clusters), RecordingCommands(), GivenSettings(), hostname="h", version="1"
        )
        with served(application) as server:
            yield f"http://127.0.0.1:{server.port}"

    def test_it_is_found_without_being_named(self, url: str) -> None:
        assert cluster_of(url, "billing") == "east"

    def test_clusters_that_share_the_name_are_listed(self, url: str) -> None:
        with pytest.raises(SourceError, match="both is on east, west: say which with --cluster"):
            cluster_of(url, "both")

    def test_a_group_that_none_has_is_not_known(self, url: str) -> None:
        with pytest.raises(NotFoundError, match="other on east, west"):
            cluster_of(url, "other")

    def test_commands_find_it(self, url: str) -> None:
        found = CliRunner().invoke(app, ["explain", "billing", "--url", url])
        shared = CliRunner().invoke(app, ["events", "both", "--url", url])

        assert found.exit_code == 0, found.output
        assert "say which with --cluster" in shared.output

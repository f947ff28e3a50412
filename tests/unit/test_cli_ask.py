"""Orders to a running lagwatch: what is said when it cannot be reached."""

import socket
from collections.abc import Iterator

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
from tests.support.serving import served


def test_the_user_of_the_url_is_not_in_the_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    with pytest.raises(SourceError, match=f"cannot ask http://127.0.0.1:{port}: ") as raised:
        ask(f"http://user:hunter2@127.0.0.1:{port}", "GET", "/api/v1/alerts/mutes")

    assert "hunter2" not in str(raised.value)


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

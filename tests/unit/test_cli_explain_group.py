"""`lagwatch explain GROUP --url`: the cause of a verdict, as a running lagwatch names it."""

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner, Result

from docs import example
from lagwatch.cli import app
from lagwatch.ports.queries import GroupDetail
from lagwatch_api import create_app
from tests.support.api_doubles import (
    GivenCluster,
    GivenQueries,
    GivenSettings,
    RecordingCommands,
    group_verdict,
)
from tests.support.serving import Served, served

pytestmark = pytest.mark.slow  # serves HTTP


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    application = create_app(
        example.queries(), RecordingCommands(), GivenSettings(), hostname="h", version="1"
    )
    with served(application) as found:
        yield found


def explain(server: Served, *arguments: str) -> Result:
    url = f"http://127.0.0.1:{server.port}"
    return CliRunner().invoke(app, ["explain", *arguments, "--url", url])


def test_it_says_the_cause_its_evidence_and_what_would_refute_it(server: Served) -> None:
    result = explain(server, "mailer")

    assert result.exit_code == 0
    assert "cause (likely): stuck_on_record" in result.output
    assert "does not get past offset" in result.output
    assert "refuted if: " in result.output


def test_as_json_it_is_what_the_api_says(server: Served) -> None:
    shown = json.loads(explain(server, "click-stats", "--json").output)

    answer = server.ask("/api/v1/clusters/prod/groups/click-stats").json
    assert shown["cause"] == answer["cause"]
    assert (shown["status"], shown["cause"]["name"]) == ("WARN", "all_slow")
    assert (
        shown["cause"]["evidence"]["consumed_per_s"] < shown["cause"]["evidence"]["produced_per_s"]
    )


def test_of_a_healthy_group_it_says_that_nothing_is_wrong(server: Served) -> None:
    assert "cause: none, nothing is wrong" in explain(server, "billing").output
    answer = server.ask("/api/v1/clusters/prod/groups/billing").json
    assert answer["cause"] is None


def test_a_group_that_is_not_known_is_an_error(server: Served) -> None:
    result = explain(server, "nobody")

    assert result.exit_code == 2
    assert "nobody on prod" in result.output


def test_of_old_data_it_says_their_age_and_ends_as_status_does() -> None:
    verdict = group_verdict(group="billing", stale=True, data_age_s=58.0)
    cluster = GivenCluster(
        verdicts={"billing": verdict}, details={"billing": GroupDetail(topics={})}
    )
    application = create_app(
        GivenQueries({"prod": cluster}),
        RecordingCommands(),
        GivenSettings(),
        hostname="h",
        version="1",
    )
    with served(application) as server:
        result = explain(server, "billing")

    assert result.exit_code == 3
    assert "billing  was " in result.stdout
    assert "the data of billing are 58 s old" in result.stderr

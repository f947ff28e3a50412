"""Acknowledging the lost messages of a group."""

from typer.testing import CliRunner

from lagwatch.cli import app as command
from lagwatch_api import create_app
from tests.support.api_doubles import GivenQueries, GivenSettings, RecordingCommands
from tests.support.serving import ask, served


def test_a_loss_is_acknowledged_and_the_partitions_are_counted() -> None:
    commands = RecordingCommands()
    app = create_app(GivenQueries({}, ()), commands, GivenSettings(), hostname="h", version="0")

    answered = ask(app, "/api/v1/clusters/c1/groups/a%2Fb/losses/acknowledge", "POST")

    assert (answered.status, answered.json) == (200, {"partitions": 2})
    assert commands.acknowledged == [("c1", "a/b")]


def test_the_command_acknowledges_a_loss() -> None:
    commands = RecordingCommands()
    app = create_app(GivenQueries({}, ()), commands, GivenSettings(), hostname="h", version="0")

    with served(app) as server:
        url = f"http://127.0.0.1:{server.port}"
        arguments = ["loss", "acknowledge", "billing", "--cluster", "c1", "--url", url]
        result = CliRunner().invoke(command, arguments)

    assert (result.exit_code, result.stdout) == (0, "billing on c1: losses of 2 partitions\n")
    assert commands.acknowledged == [("c1", "billing")]

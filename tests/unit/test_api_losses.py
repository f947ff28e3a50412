"""Acknowledging the lost messages of groups."""

import json

import pytest
from fastapi import FastAPI
from typer.testing import CliRunner, Result

from lagwatch.cli import app as command
from lagwatch_api import create_app
from tests.support.api_doubles import (
    GivenCluster,
    GivenQueries,
    GivenSettings,
    RecordingCommands,
    group_verdict,
)
from tests.support.serving import Answered, ask, served


def _order(app: FastAPI, order: dict[str, object]) -> Answered:
    return ask(
        app,
        "/api/v1/losses/acknowledge",
        "POST",
        json.dumps(order).encode(),
        headers={"content-type": "application/json"},
    )


def _app(commands: RecordingCommands) -> FastAPI:
    groups = {"c1": ["a-1", "a-2", "billing", "ok-a"], "c2": ["a-3", "billing", "x"]}
    clusters = {
        cluster: GivenCluster(verdicts={name: group_verdict(group=name) for name in names})
        for cluster, names in groups.items()
    }
    queries = GivenQueries(clusters)
    return create_app(queries, commands, GivenSettings(), hostname="h", version="0")


def test_a_loss_is_acknowledged_and_the_partitions_are_counted() -> None:
    commands = RecordingCommands()

    answered = ask(_app(commands), "/api/v1/clusters/c1/groups/a%2Fb/losses/acknowledge", "POST")

    assert (answered.status, answered.json) == (200, {"partitions": 2})
    assert commands.acknowledged == [("c1", "a/b")]


@pytest.mark.parametrize(
    ("order", "acknowledged", "matching", "unmatched"),
    [
        ({"groups": ["a-*"]}, [("c1", "a-1"), ("c1", "a-2"), ("c2", "a-3")], 3, []),
        ({"groups": ["a-*"], "cluster": "c2"}, [("c2", "a-3")], 1, []),
        ({"groups": ["*a*"], "cluster": "c1"}, [("c1", "a-1"), ("c1", "a-2")], 3, []),
        ({"groups": ["x", "a-1", "a-*", "y", "y*"], "cluster": "*1"},
         [("c1", "a-1"), ("c1", "a-2")], 2, ["x", "y", "y*"]),
        ({"groups": ["a"]}, [], 0, ["a"]),
        ({"groups": ["billing"], "cluster": "c3"}, [], 0, ["billing"]),
    ],
)  # fmt: skip
def test_losses_of_several_groups_are_acknowledged_at_once(
    order, acknowledged, matching, unmatched
) -> None:
    """The names as in mutes; only groups that showed a loss are listed."""
    answered = _order(_app(RecordingCommands()), order)

    assert answered.status == 200
    assert [(of["cluster"], of["group"]) for of in answered.json["acknowledged"]] == acknowledged
    assert (answered.json["matching"], answered.json["unmatched"]) == (matching, unmatched)
    for each in answered.json["acknowledged"]:
        assert (each["partitions"], each["lost"], each["lost_is"]) == (2, 1500, "exact")


@pytest.mark.parametrize(
    "order",
    [
        {},
        {"groups": []},
        {"groups": [""]},
        {"groups": ["a"], "group": "b"},
        {"groups": ["a" * 501]},
        {"groups": [f"*{number}*" for number in range(101)]},
    ],
)
def test_an_order_that_names_no_group_or_too_much_is_refused(order) -> None:
    commands = RecordingCommands()

    answered = _order(_app(commands), order)

    assert answered.status in {400, 422}
    assert commands.acknowledged == []


def _acknowledge(*words: str) -> tuple[Result, RecordingCommands]:
    commands = RecordingCommands()
    with served(_app(commands)) as server:
        url = f"http://127.0.0.1:{server.port}"
        result = CliRunner().invoke(command, ["loss", "acknowledge", *words, "--url", url])
    return result, commands


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["billing", "--cluster", "c1"], "billing on c1: losses of 2 partitions, 1,500 messages"),
        (["x"], "x on c2: losses of 2 partitions, 1,500 messages"),
        (["a-*"], "3 of 3 groups: losses of 6 partitions, 4,500 messages"),
        (["*", "--cluster", "c1"], "3 of 4 groups: losses of 6 partitions, 4,500 messages"),
        (["a-1", "a-3", "ok*"], "2 of 3 groups: losses of 4 partitions, 3,000 messages"),
        (["ok-a"], "nothing to acknowledge: the group shows no loss"),
    ],
)
def test_the_command_says_what_it_acknowledged(words, said) -> None:
    result, _ = _acknowledge(*words)

    assert (result.exit_code, result.stdout) == (0, f"{said}\n"), result.output


def test_the_command_names_what_matches_nothing_and_does_the_rest() -> None:
    result, commands = _acknowledge("bil*x", "a-1", "bilings")

    assert result.exit_code == 2
    assert result.stdout == "a-1 on c1: losses of 2 partitions, 1,500 messages\n"
    assert "nothing matches: no known group has the name 'bil*x'" in result.stderr
    assert "nothing matches: no known group has the name 'bilings'" in result.stderr
    assert commands.acknowledged == [("c1", "a-1")]


@pytest.mark.parametrize("words", [[""], ["a-1", ""], ["a-1", "--cluster", ""]])
def test_an_empty_name_acknowledges_nothing(words) -> None:
    result, commands = _acknowledge(*words)

    assert result.exit_code == 2
    assert "is empty. Write '*' for all." in result.stderr
    assert commands.acknowledged == []


def test_a_name_on_several_clusters_needs_the_cluster() -> None:
    result, commands = _acknowledge("billing")

    assert result.exit_code == 2
    assert "say which with --cluster" in result.stderr
    assert commands.acknowledged == []

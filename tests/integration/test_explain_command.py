"""`lagwatch explain GROUP --config`: the cause, seen in a short look at a real broker."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lagwatch.cli import app
from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import commit, create_topic, produce, unique
from tests.support.traffic import producer_of, running


def _explain(folder: Path, kafka: EmbeddedKafka, group: str, *more: str) -> Result:
    file = folder / "lagwatch.toml"
    file.write_text(
        "[evaluator]\nstop_after_s = 10\n[clusters.here]\nlog_end_interval_s = 1\n"
        f'group_interval_s = 1\nbootstrap = "{kafka.bootstrap_servers}"\n'
    )
    return CliRunner().invoke(
        app, ["explain", group, "-c", str(file), *more], catch_exceptions=False
    )


@pytest.fixture
def stopped(kafka: EmbeddedKafka) -> tuple[str, str]:
    """A group that has committed once, and its topic, in which messages wait."""
    group, topic = unique("stopped"), create_topic(kafka, "left")
    produce(kafka, topic, 100)
    commit(kafka, group, topic, 40)
    return group, topic


def test_a_short_look_names_the_cause_with_its_evidence(
    kafka: EmbeddedKafka, stopped: tuple[str, str], tmp_path: Path
) -> None:
    group, topic = stopped
    with running(producer_of(kafka, topic, rate=20)):
        seen = _explain(tmp_path, kafka, group, "--for", "20s", "--json")

    assert seen.exit_code == 0, seen.output
    answer = json.loads(seen.output)
    assert (answer["status"], answer["cause"]["name"]) == ("ERR", "no_members")
    # its last member was not seen to leave
    assert answer["cause"]["certainty"] == "likely"
    assert answer["cause"]["evidence"]["state"] == "Empty"


def test_what_a_look_is_too_short_for_is_not_said_to_be_well(
    kafka: EmbeddedKafka, stopped: tuple[str, str], tmp_path: Path
) -> None:
    seen = _explain(tmp_path, kafka, stopped[0], "--for", "0")

    assert "not known, because too little was seen" in seen.output
    assert "nothing is wrong" not in seen.output


def test_a_group_that_no_cluster_has_is_an_error(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    seen = _explain(tmp_path, kafka, "nobody", "--for", "0")

    assert seen.exit_code == 2
    assert "nobody" in seen.output

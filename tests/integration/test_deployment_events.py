"""`lagwatch deployment` and `deployments` against the real service over a real broker."""

import json
import re
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner, Result

from lagwatch.cli import app
from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import commit, create_topic, produce, unique
from tests.support.kafka_tools import consumer_groups
from tests.support.served import Served, serving
from tests.support.waiting import eventually

_QUICK = "[evaluator]\ninterval_s = 0.5\n[history]\ninterval_s = 1\nflush_s = 0.2\n"


def test_a_deployment_stands_among_the_events_of_its_group(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka, "deployed", partitions=2), unique("deployed")
    produce(kafka, topic, 10)
    commit(kafka, group, topic, 7)
    options: dict[str, object] = {"log_end_interval_s": 1}

    with serving(kafka.bootstrap_servers, cluster=options, sections=_QUICK) as lagwatch:
        lagwatch.wait_ready()
        eventually(lambda: group in lagwatch.groups(), "the group")
        arguments = ["deployment", group, "--version", "4.2", "--url", lagwatch.base, "--json"]
        result = CliRunner().invoke(app, arguments)
        path = f"/api/v1/clusters/here/groups/{group}/events?fields=event,after,detail"
        eventually(
            lambda: any(point["event"] == "deployment" for point in lagwatch.get(path)["points"]),
            "the event",
        )
        events = lagwatch.get(path)["points"]

    made = json.loads(result.stdout)
    [event] = [each for each in events if each["event"] == "deployment"]
    assert (event["at_ms"], event["after"]) == (made["at_ms"], "4.2")
    assert json.loads(event["detail"])["offsets"] == made["offsets"]
    assert 7 in made["offsets"][topic]


def test_kafkas_own_tool_takes_the_rollback_plan(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    topic, group = create_topic(kafka, "rolled-back", partitions=2), unique("rolled-back")
    for partition, offset in enumerate((20, 30)):
        produce(kafka, topic, 100, partition=partition)
        commit(kafka, group, topic, offset, partition=partition)
    options: dict[str, object] = {"log_end_interval_s": 0.5}

    with serving(kafka.bootstrap_servers, cluster=options, sections=_QUICK) as lagwatch:
        lagwatch.wait_ready()
        eventually(lambda: _offsets(lagwatch, group) == [20, 30], "both commits")
        assert _asked(lagwatch, "deployment", group, "--version", "4.1").exit_code == 0
        for partition, offset in enumerate((70, 95)):
            commit(kafka, group, topic, offset, partition=partition)
        _delete_before(kafka, topic, 0, 50)
        eventually(lambda: _offsets(lagwatch, group) == [70, 95], "the later commits")
        command = ("deployments", "rollback-plan", group, "4.1")

        def planned() -> bool:
            plan = json.loads(_asked(lagwatch, *command, "--json").stdout)
            standing = [each["committed_offset"] for each in plan["partitions"]]
            return bool(plan["deleted"]) and standing == [70, 95]

        eventually(planned, "the deletion and the later commits, as judged")
        plan = _asked(lagwatch, *command)
        numbers = json.loads(_asked(lagwatch, *command, "--json").stdout)

    file = tmp_path / "plan.csv"
    file.write_text(plan.stdout)
    reset = ("--reset-offsets", "--group", group, "--from-file", str(file), "--dry-run")
    printed = consumer_groups(kafka.bootstrap_servers, *reset)
    taken = re.findall(rf"{group}\s+{topic}\s+(\d+)\s+(\d+)", printed)
    assert sorted(taken) == [("0", "50"), ("1", "30")], printed
    assert "WARN" not in printed  # it had to correct none of the offsets
    assert (numbers["read_again"], numbers["deleted"]) == (20 + 65, 30)
    assert f"{topic} 0: records from offset 20 on were deleted" in plan.stderr


def _asked(lagwatch: Served, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--url", lagwatch.base])


def _offsets(lagwatch: Served, group: str) -> list[int | None]:
    if group not in lagwatch.groups():
        return []
    found = lagwatch.get(f"/api/v1/clusters/here/groups/{group}")["partitions"]
    return [point["committed"] for point in found]


def _delete_before(kafka: EmbeddedKafka, topic: str, partition: int, offset: int) -> None:
    place = TopicPartition(topic, partition, offset)
    admin = AdminClient(kafka.admin_config())  # it must live until the answer is there
    for done in admin.delete_records([place]).values():
        done.result(30)

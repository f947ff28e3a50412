"""`lagwatch deployment` against the real service over a real broker."""

import json

from typer.testing import CliRunner

from lagwatch.cli import app
from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import commit, create_topic, produce, unique
from tests.support.served import serving
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
        told = CliRunner().invoke(app, arguments)
        path = f"/api/v1/clusters/here/groups/{group}/events?fields=event,after,detail"
        eventually(
            lambda: any(one["event"] == "deployment" for one in lagwatch.get(path)["points"]),
            "the event",
        )
        events = lagwatch.get(path)["points"]

    made = json.loads(told.stdout)
    [event] = [one for one in events if one["event"] == "deployment"]
    assert (event["at_ms"], event["after"]) == (made["at_ms"], "4.2")
    assert json.loads(event["detail"])["offsets"] == made["offsets"]
    assert 7 in made["offsets"][topic]

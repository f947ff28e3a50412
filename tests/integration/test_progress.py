"""Positions reported over HTTP, against the real service over a real broker."""

import json
import urllib.request

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import commit, create_topic, produce, unique
from tests.support.served import Served, serving
from tests.support.waiting import eventually

_QUICK = "[evaluator]\ninterval_s = 0.5\n[history]\ninterval_s = 1\nflush_s = 0.2\n"


def test_reported_positions_have_lag_time_lag_and_history_beside_a_group_of_kafka(
    kafka: EmbeddedKafka,
) -> None:
    topic, group, job = create_topic(kafka, "sums", partitions=2), unique("group"), unique("job")
    for partition in range(2):
        produce(kafka, topic, 50, partition=partition)
        commit(kafka, group, topic, 30, partition=partition)
    options: dict[str, object] = {"log_end_interval_s": 0.5, "group_interval_s": 0.5}

    with serving(kafka.bootstrap_servers, cluster=options, sections=_QUICK) as lagwatch:
        lagwatch.wait_ready()
        eventually(lambda: group in lagwatch.groups(), "the group of Kafka")
        taken = _report(lagwatch, job, topic, 50, 50)
        eventually(lambda: job in lagwatch.groups(), "the job")
        produce(kafka, topic, 20)
        eventually(lambda: lagwatch.known(job)["totallag"] == 20, "its lag")
        _report(lagwatch, job, topic, 60, 50)
        eventually(lambda: lagwatch.known(job)["totallag"] == 10, "its new position")
        shown = lagwatch.get(f"/api/v1/clusters/here/groups/{job}")
        path = f"/api/v1/clusters/here/groups/{job}/history?step=raw"
        eventually(
            lambda: any(point["total_lag"] == 10 for point in lagwatch.get(path)["points"]),
            "its history",
        )
        other = lagwatch.known(group)

    assert taken == {**taken, "cluster": "here", "group": job, "kind": "flink", "partitions": 2}
    assert (shown["info"]["type"], shown["info"]["members"]) == ("flink", None)
    assert [partition["committed"] for partition in shown["partitions"]] == [60, 50]
    assert 0 <= shown["time_lag_s"] < 60
    assert other["totallag"] == 20 + 40


def _report(lagwatch: Served, job: str, topic: str, *offsets: int) -> dict[str, object]:
    positions = {topic: {str(number): offset for number, offset in enumerate(offsets)}}
    request = urllib.request.Request(  # noqa: S310 loopback
        f"{lagwatch.base}/api/v1/clusters/here/progress/{job}",
        data=json.dumps({"kind": "flink", "positions": positions}).encode(),
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 loopback
        taken: dict[str, object] = json.load(answer)
        return taken

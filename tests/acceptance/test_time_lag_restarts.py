"""Restarts with a group that lags: its time lag is true in every answer, and soon known."""

import json
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.append_truth import KINDS, Line, Truth, now_s
from tests.support.kafka import ANSWER_TIMEOUT_S, commit, create_topic, produce, unique
from tests.support.served import Served, serving
from tests.support.thorough import rounds
from tests.support.waiting import eventually

pytestmark = pytest.mark.minutes

_KINDS: Final = ("steady", "append_time", "idle")
_RESTARTS: Final = rounds(20, quick=4)
_TRAFFIC_S: Final = 4.0
_ANSWERED_S: Final = 30.0
"""Brokers are asked for times within so long where no checkpoint has them; a second is usual."""


_SEEDED_RESTARTS: Final = 5


def _lines(truth: Truth, served: Served, kinds: Sequence[str] = _KINDS) -> list[Line]:
    return [truth.line(kind, served.known(truth.topics[kind].group)) for kind in kinds]


def test_time_lags_are_true_after_each_restart(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    truth, state = Truth(kafka), tmp_path / "state"
    names = "|".join(topic.name for topic in truth.topics.values())
    options = {"log_end_interval_s": 1, "topic_allow": f"^({names})$"}
    sections = f'[checkpoint]\npath = "{state}"\ninterval_s = 1\n[history]\nstore = "none"\n'
    began_s = now_s()
    with truth.traffic():
        eventually(lambda: now_s() - began_s > _TRAFFIC_S, "traffic", timeout_s=60)
    truth.commit(
        lambda topic: (
            topic.offset_after(began_s + 1) if topic.kind in {"steady", "append_time"} else 5
        )
    )
    slowest_s, unknown = 0.0, 0
    wrong: list[Line] = []

    for number in range(_RESTARTS + 1):
        without_checkpoint = number % 2 == 0
        if without_checkpoint:
            shutil.rmtree(state, ignore_errors=True)
        with serving(kafka.bootstrap_servers, cluster=options, sections=sections) as served:
            served.wait_ready()
            ready_s = time.monotonic()

            def known(served: Served = served) -> bool:
                nonlocal unknown
                lines = _lines(truth, served)
                wrong.extend(line for line in lines if line.value_s is not None and not line.holds)
                lacking = [line for line in lines if line.value_s is None]
                unknown += bool(lacking)
                return not lacking

            if without_checkpoint:
                eventually(known, "brokers are asked", timeout_s=_ANSWERED_S)
            else:
                assert known(), "with a checkpoint it is known in the first answer"
            slowest_s = max(slowest_s, time.monotonic() - ready_s)

    sys.stdout.write(
        f"{_RESTARTS} restarts: known at most {slowest_s:.1f} s after ready; "
        f"{unknown} answers before\n"
    )
    assert wrong == []


def _without_checkpoint(folder: Path) -> str:
    """Configuration with a history of a sample every second."""
    return (
        '[evaluator]\ninterval_s = 0.5\n[checkpoint]\npath = ""\n'
        f'[history]\nurl = "{folder / "history"}"\n'
        f'spool = "{folder / "spool"}"\ninterval_s = 1\nflush_s = 1\n'
    )


def _seeded(served: Served) -> tuple[int, int] | None:
    """Rows that were looked up in the stored history, and of how many it says nothing."""
    for line in served.log.read_text().splitlines():
        if "time_lags_seeded" in line:
            told = json.loads(line)
            return told["rows"], told["unknown"]
    return None


def test_without_a_checkpoint_the_stored_history_says_at_once_since_when_a_group_waits(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    truth, sections = Truth(kafka), _without_checkpoint(tmp_path)
    names = "|".join(topic.name for topic in truth.topics.values())
    options = {"log_end_interval_s": 1, "topic_allow": f"^({names})$"}
    with serving(kafka.bootstrap_servers, cluster=options, sections=sections) as served:
        truth.commit(lambda _: 0)
        began_s = now_s()
        with truth.traffic():
            served.wait_ready()
            eventually(lambda: now_s() - began_s > 2 * _TRAFFIC_S, "traffic", timeout_s=60)
            late_s = now_s() - 1.25 * _TRAFFIC_S
        truth.commit(lambda topic: 5 if topic.kind == "idle" else topic.offset_after(late_s))

        def measured() -> bool:
            (steady, *_) = _lines(truth, served)
            return steady.method == "log_end_history"

        eventually(measured, "the log end history is used", timeout_s=60)

    by_history: list[Line] = []
    wrong: list[Line] = []
    slowest_s, restarts = 0.0, 0
    # a broker may be as quick as the store, and then it answers
    while not (by_history and restarts >= _SEEDED_RESTARTS) and restarts < _RESTARTS:
        restarts += 1
        with serving(kafka.bootstrap_servers, cluster=options, sections=sections) as served:
            served.wait_ready()
            ready_s = time.monotonic()

            def known(served: Served = served) -> bool:
                lines = _lines(truth, served, KINDS)
                wrong.extend(line for line in lines if line.value_s is not None and not line.holds)
                by_history.extend(line for line in lines if line.method == "stored_history")
                return _seeded(served) is not None and all(
                    line.value_s is not None for line in lines
                )

            eventually(known, "all time lags are known", timeout_s=_ANSWERED_S)
            slowest_s = max(slowest_s, time.monotonic() - ready_s)
            _, unknown = _seeded(served) or (0, 0)
            assert unknown == 0

    sys.stdout.write(
        f"{restarts} restarts: known at most {slowest_s:.1f} s after ready, by the history:\n  "
    )
    sys.stdout.write("\n  ".join(map(str, by_history[-2 * len(KINDS) :])) + "\n")
    assert wrong == []
    assert by_history


def test_the_history_of_a_topic_that_was_made_anew_meanwhile_is_not_taken_for_its_own(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic, group, sections = create_topic(kafka, "anew"), unique("g"), _without_checkpoint(tmp_path)
    options = {"log_end_interval_s": 1, "topic_allow": f"^{topic}$"}
    with serving(kafka.bootstrap_servers, cluster=options, sections=sections) as served:
        produce(kafka, topic, 10)
        commit(kafka, group, topic, 5)
        served.wait_ready()
        produce(kafka, topic, 50)

        def recorded() -> bool:
            path = f"/api/v1/clusters/here/groups/{group}/topics/{topic}/partitions/0/history"
            asked = f"{path}?from=-1h&step=raw&fields=log_end_offset"
            return 60 in [point["log_end_offset"] for point in served.get(asked)["points"]]

        eventually(recorded, "samples are stored", timeout_s=60)

    admin = AdminClient(kafka.admin_config())
    admin.delete_topics([topic])[topic].result(ANSWER_TIMEOUT_S)
    eventually(lambda: topic not in admin.list_topics(timeout=10).topics, "it is gone")
    made_s = now_s()

    def made() -> bool:
        asked = admin.create_topics([NewTopic(topic, 1, 1)])
        return asked[topic].exception(ANSWER_TIMEOUT_S) is None

    eventually(made, "the topic is made again")
    produce(kafka, topic, 100)
    commit(kafka, group, topic, 20)

    with serving(kafka.bootstrap_servers, cluster=options, sections=sections) as served:
        served.wait_ready()
        eventually(lambda: _seeded(served) is not None, "the history is read", timeout_s=60)
        assert _seeded(served) == (1, 1)
        (told,) = served.known(group)["partitions"]
        assert (told["time_lag_s"] or 0.0) <= now_s() - made_s + 1

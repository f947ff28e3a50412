"""Every stated time lag is true as of its instant, whenever one asks."""

import sys
from random import Random
from typing import Final

import pytest

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.append_truth import Line, Topic, Truth, now_s
from tests.support.kafka import commit
from tests.support.served import serving
from tests.support.waiting import eventually

pytestmark = pytest.mark.minutes

_ASKED_S: Final = 120.0
_KINDS: Final = ("steady", "bursty", "seldom", "append_time", "out_of_order", "compacted", "idle")


def _offset(topic: Topic, rng: Random) -> int:
    """The end of what was appended, or an offset up to 20 s behind it."""
    end = max(topic.appended_s, default=-1) + 1
    if rng.random() < 0.5 or not topic.appended_s:
        return end
    behind_s = now_s() - rng.uniform(0, 20)
    return min(
        (each for each, (at_s, _) in list(topic.appended_s.items()) if at_s > behind_s), default=end
    )


@pytest.mark.thorough  # test_time_lag_truth asks for now
def test_a_time_lag_asked_for_at_any_moment_is_true_as_of_its_instant(kafka: EmbeddedKafka) -> None:
    truth = Truth(kafka)
    rng = Random(14)  # noqa: S311 moments, no secret
    names = "|".join(topic.name for topic in truth.topics.values())
    lines: list[Line] = []
    with (
        serving(
            kafka.bootstrap_servers,
            cluster={"topic_allow": f"^({names})$"},
            sections='[history]\nstore = "none"\n',
        ) as served,
        truth.traffic(),
    ):
        for kind in _KINDS:
            topic = truth.topics[kind]
            eventually(lambda topic=topic: bool(topic.appended_s), "traffic")  # type: ignore[misc]
            commit(kafka, topic.group, topic.name, _offset(topic, rng))
        served.wait_ready()
        eventually(lambda: len(served.groups()) == len(_KINDS), "all are known", timeout_s=60)

        began_s, next_s = now_s(), 0.0

        def due() -> bool:
            return now_s() >= next_s

        while now_s() - began_s < _ASKED_S:
            next_s = now_s() + rng.uniform(0, 0.5)
            eventually(due, "a random moment", timeout_s=10)
            kind = rng.choice(_KINDS)
            topic = truth.topics[kind]
            if rng.random() < 0.3:
                commit(kafka, topic.group, topic.name, _offset(topic, rng))
            lines.append(truth.line(kind, served.known(topic.group)))

    said = [line for line in lines if line.value_s is not None]
    outside = [line for line in said if not line.holds]
    caught_up = sum(line.method == "caught_up" for line in lines)
    sys.stdout.write(f"{len(lines)} asked, {len(said)} known, {caught_up} had caught up\n")
    sys.stdout.write("\n".join(map(str, outside)) + "\n")
    assert outside == []
    assert len(said) > 0.9 * len(lines), "hardly any is unknown"
    assert min(caught_up, len(said) - caught_up) > len(lines) / 20, "of both kinds"

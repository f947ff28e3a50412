"""Twenty restarts with a group that lags: its time lag is true in every answer, and soon known."""

import shutil
import sys
import time
from pathlib import Path
from typing import Final

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.append_truth import Line, Truth, now_s
from tests.support.served import Served, serving
from tests.support.waiting import eventually

_KINDS: Final = ("steady", "append_time", "idle")
_RESTARTS: Final = 20
_TRAFFIC_S: Final = 4.0
_ANSWERED_S: Final = 30.0
"""Brokers are asked for times within so long where no checkpoint has them; a second is usual."""


def _lines(truth: Truth, served: Served, offsets: dict[str, int]) -> list[Line]:
    return [
        truth.line(kind, offsets[kind], served.known(truth.topics[kind].group)) for kind in _KINDS
    ]


def test_time_lags_are_true_after_each_of_twenty_restarts(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    truth, state = Truth(kafka), tmp_path / "state"
    names = "|".join(topic.name for topic in truth.topics.values())
    options = {"log_end_interval_s": 1, "topic_allow": f"^({names})$"}
    sections = f'[checkpoint]\npath = "{state}"\ninterval_s = 1\n[history]\nstore = "none"\n'
    began_s = now_s()
    with truth.traffic():
        eventually(lambda: now_s() - began_s > _TRAFFIC_S, "traffic", timeout_s=60)
    offsets = truth.commit(
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
                lines = _lines(truth, served, offsets)
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

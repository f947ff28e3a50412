"""Time lags against known append times, on every kind of topic: before, while and after we run."""

import sys
from pathlib import Path
from typing import Final

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.append_truth import KINDS, Line, Truth, now_s
from tests.support.served import Served, serving
from tests.support.waiting import eventually

_BEFORE_S: Final = 9.0
_WHILE_S: Final = 8.0
_RESTARTS: Final = 3
_ROUND_S: Final = 1.0
"""A verdict may be of a round that is older than its answer by so much on a busy machine."""


def _lines(truth: Truth, served: Served) -> list[Line]:
    return [truth.line(kind, served.known(truth.topics[kind].group)) for kind in KINDS]


def _show(title: str, lines: list[Line]) -> None:
    sys.stdout.write("\n  ".join((title, *map(str, lines))) + "\n")


def test_every_time_lag_encloses_the_truth(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    truth = Truth(kafka)
    names = "|".join(topic.name for topic in truth.topics.values())
    options = {"log_end_interval_s": _ROUND_S, "topic_allow": f"^({names})$"}
    sections = (
        f'[checkpoint]\npath = "{tmp_path / "state"}"\ninterval_s = 1\n[history]\nstore = "none"\n'
    )

    def lagwatch():
        return serving(kafka.bootstrap_servers, cluster=options, sections=sections)

    # messages that came before lagwatch ran
    began_s = now_s()
    with truth.traffic():
        eventually(lambda: now_s() - began_s > _BEFORE_S, "traffic", timeout_s=60)
    # an idle topic has nothing after its first half second
    before = truth.commit(
        lambda topic: 5 if topic.kind == "idle" else topic.offset_after(began_s + 3)
    )
    with lagwatch() as served:
        served.wait_ready()

        def asked() -> bool:
            lines = _lines(truth, served)
            return all(line.method in {"offset_time", "record_time"} for line in lines)

        eventually(asked, "brokers are asked for all", timeout_s=60)
        lines = _lines(truth, served)
        _show("older than the process", lines)
        assert [line for line in lines if not line.holds] == []
        # of messages from before the start nobody knows under which setting they were written
        assert {(line.method, line.bound) for line in lines} == {("record_time", "at_most")}
        assert all(line.off_s < _ROUND_S for line in lines if line.kind != "out_of_order"), (
            "producers are in time: the upper bound is close to the truth"
        )

        # messages that come while it runs
        began_s = now_s()
        with truth.traffic():
            eventually(lambda: now_s() - began_s > _WHILE_S, "traffic", timeout_s=60)
        truth.commit(
            lambda topic: (
                before["idle"] if topic.kind == "idle" else topic.offset_after(began_s + 2)
            )
        )

        def measured() -> bool:
            lines = _lines(truth, served)
            methods = {line.method for line in lines if line.kind != "idle"}
            return methods == {"log_end_history"}

        eventually(measured, "the history of log ends is used", timeout_s=60)
        lines = _lines(truth, served)
        _show("while it runs", lines)
        assert [line for line in lines if not line.holds] == []

    # and after each restart, from the first answer on
    for number in range(_RESTARTS):
        earlier_s = {line.kind: line.value_s or 0.0 for line in lines}
        with lagwatch() as served:
            served.wait_ready()
            lines = _lines(truth, served)
            _show(f"restart {number + 1}", lines)
            assert [line for line in lines if not line.holds] == []
            assert all((line.value_s or 0.0) > earlier_s[line.kind] for line in lines), (
                "none begins anew"
            )
            methods = {line.kind: line.method for line in lines}
            assert methods["steady"] == "stored_history"
            assert methods["idle"] == "record_time", "an answer of a broker outlives a restart"

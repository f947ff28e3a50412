"""lagwatch's clock is half a minute off Kafka's: verdicts are the same, and `/readyz` says it.

The times of the rules are shorter than the 30 s, and longer than a busy machine holds up a commit.
"""

import contextlib
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import create_topic, unique
from tests.support.traffic import committing, keeping_up, producer_of, running
from tests.support.waiting import eventually
from tests.support.watched import MODES, Watched, watching

_EVALUATOR: Final = "[evaluator]\nstop_after_s = 25\nstall_after_s = 25\n"
_CLUSTER: Final = {"log_end_interval_s": 1, "group_interval_s": 1}
_AHEAD_S: Final = (30, -30)


def _skew_is_known(watched: Watched, ahead_s: int) -> bool:
    skew_s = watched.served.health()["clock_skew_s"]
    return skew_s is not None and abs(skew_s - ahead_s) < 2


@pytest.mark.timeout(600)
def test_a_clock_half_a_minute_off_changes_no_verdict(kafka: EmbeddedKafka) -> None:
    topic, group, slow = create_topic(kafka, "clocks"), unique("healthy"), unique("slow")
    with (
        running(
            producer_of(kafka, topic, rate=40),
            keeping_up(kafka, group, topic),
            committing(kafka, slow, topic, lambda number: 4 * number, every_s=1.0),
        ),
        contextlib.ExitStack() as stack,
    ):
        watches = [
            (
                ahead_s,
                stack.enter_context(
                    watching(
                        kafka,
                        mode,
                        sections=_EVALUATOR,
                        clock_ahead_s=ahead_s,
                        topic_allow=f"^{topic}$",
                        **_CLUSTER,
                    )
                ),
            )
            for mode in MODES
            for ahead_s in _AHEAD_S
        ]
        for ahead_s, watched in watches:
            watched.wait(slow, topic, "WARN", "falling_behind", timeout_s=240)
            eventually(
                lambda watched=watched: group in watched.shown,  # type: ignore[misc]
                f"the healthy group ({watched.mode}, {ahead_s} s)",
            )
            if watched.mode == "offsets-topic":
                eventually(
                    lambda watched=watched, ahead_s=ahead_s: _skew_is_known(watched, ahead_s),  # type: ignore[misc]
                    f"the skew of {ahead_s} s",
                )
                said = " ".join(watched.served.health()["problems"])
                where = "ahead of" if ahead_s > 0 else "behind"
                assert f"s {where} Kafka's" in said

        for ahead_s, watched in watches:
            shown = f"{watched.mode}, {ahead_s} s: {watched.shown}"
            assert not watched.statuses(group) & {"ERR", "WARN"}, shown
            assert "ERR" not in watched.statuses(slow), shown
            assert {each for each, _ in watched.notices} <= {slow}, watched.notices


@pytest.mark.timeout(600)
@pytest.mark.thorough  # half a minute, above, goes the same way
def test_a_clock_that_jumps_an_hour_changes_no_verdict(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic, group, stalled = create_topic(kafka, "jumps"), unique("healthy"), unique("stalled")
    clock = tmp_path / "ahead"
    clock.write_text("0")
    with (
        running(
            producer_of(kafka, topic, rate=40),
            keeping_up(kafka, group, topic),
            committing(kafka, stalled, topic, lambda _: 1, every_s=1.0),
        ),
        contextlib.ExitStack() as stack,
    ):
        watches = [
            stack.enter_context(
                watching(
                    kafka,
                    mode,
                    sections=_EVALUATOR,
                    clock_ahead_s=clock,
                    topic_allow=f"^{topic}$",
                    **_CLUSTER,
                )
            )
            for mode in MODES
        ]
        for watched in watches:
            watched.served.wait_ready()
        # polls do not show that it commits the same offset again: there it may only rest
        watches[0].wait(stalled, topic, "STALL", timeout_s=240)
        for ahead_s in (3600, 0, -3600, 0):
            new = clock.with_suffix(".new")
            new.write_text(str(ahead_s))
            new.replace(clock)
            began_s = time.monotonic()
            time.sleep(20)  # noqa: TID251 samples what is shown over time
            for watched in watches:
                eventually(watched.served.ready, f"ready ({watched.mode}, {ahead_s} s)")
                took_s = time.monotonic() - began_s
                shown = f"{watched.mode}, {ahead_s} s: {dict(watched.shown)}"
                print(f"{watched.mode}, {ahead_s} s: ready within {took_s:.0f} s", file=sys.stderr)  # noqa: T201 figures
                assert watched.served.process.poll() is None
                assert not watched.statuses(group) & {"ERR", "WARN"}, shown
                assert [each for each, _ in watched.notices if each != stalled] == []
            assert watches[0].says(stalled, topic, "STALL")

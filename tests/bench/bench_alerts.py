"""Alerts: what watching costs, and how long it takes from the verdict to a receiver."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from lagwatch import log
from tests.bench.figures import Figure
from tests.support.fleet import Fleet, ShiftedClock, alert_settings
from tests.support.receiver import Receiver, receiving
from tests.support.running_alerts import Running, running
from tests.support.waiting import eventually

_GROUPS = 10_000
_FAILING = 1000
_AT_ONCE = 500
_ROUNDS = 7


def run() -> Iterator[Figure]:
    """10,000 groups: all healthy, a tenth of them bad, and 500 that fail at once."""
    log.configure(level="warning")
    with tempfile.TemporaryDirectory() as folder, receiving() as receiver:
        clock = ShiftedClock()
        fleet = Fleet([f"g{number:05}" for number in range(_GROUPS)], clock)
        with running(_settings(Path(folder), receiver), clock) as alerts:
            yield Figure(
                name="alerts_observe_healthy",
                value=_observe_ms(alerts, fleet, clock),
                unit="ms",
                target=3,
            )
            fleet.fail(*fleet.groups[:_FAILING])
            alerts.sees(fleet)
            eventually(lambda: len(receiver.notices) == _FAILING, "the failing groups' notices")
            yield Figure(
                name="alerts_observe_tenth_bad",
                value=_observe_ms(alerts, fleet, clock),
                unit="ms",
                target=30,
            )
            fleet.fail(*fleet.groups[_FAILING : _FAILING + _AT_ONCE])
            began_s = time.perf_counter()
            alerts.sees(fleet)
            observed_s = time.perf_counter() - began_s
            eventually(lambda: len(receiver.notices) == _FAILING + _AT_ONCE, "the notices")
            taken_s = time.perf_counter() - began_s
    yield Figure(name="alerts_observe_500_open", value=observed_s * 1000, unit="ms", target=1000)
    yield Figure(name="alerts_verdict_to_webhook", value=taken_s, unit="s", target=2)
    yield Figure(
        name="alerts_messages_for_500", value=len(receiver.taken) - 1, unit="messages", target=1
    )


def _settings(folder: Path, receiver: Receiver):
    # one message for all of them: how they are split is no matter of time
    text = f'[alerts.webhook.hook]\nurl = "{receiver.url}"\nmost_bytes = 100000000\n'
    return alert_settings(folder, text)


def _observe_ms(alerts: Running, fleet: Fleet, clock: ShiftedClock) -> float:
    """The median of some rounds, once the verdicts are there."""
    fleet.judge()
    snapshot = fleet.monitor.snapshot
    assert snapshot is not None
    took = []

    def observe() -> None:
        began_s = time.perf_counter()
        alerts.alerts.observe(snapshot, fleet.queries, clock.now_ms())
        took.append(time.perf_counter() - began_s)

    for _ in range(_ROUNDS):
        alerts.call(observe)
    return sorted(took)[_ROUNDS // 2] * 1000

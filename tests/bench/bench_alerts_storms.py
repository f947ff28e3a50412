"""Alerts: what storms of 3,000 groups leave on disk: a day, and an hour without receiver."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from lagwatch import log
from tests.bench.figures import Figure
from tests.support.fleet import Fleet, ShiftedClock, alert_settings
from tests.support.receiver import Receiver, Reply, receiving
from tests.support.running_alerts import Running, running
from tests.support.waiting import eventually

_GROUPS = 3000
_TIMES = 24
_TIMES_AN_HOUR = 12
_WINDOW_S = 8
"""Seconds after which a window holds nothing of the failure before."""
_WITHIN_S = 300.0


def run() -> Iterator[Figure]:
    log.configure(level="warning")
    yield from _a_day()
    yield from _an_hour_without_receiver()


def _a_day() -> Iterator[Figure]:
    """All groups fail and heal once an hour; every notice is delivered."""
    with tempfile.TemporaryDirectory() as folder, receiving() as receiver:
        clock, fleet = _fleet()
        with running(_settings(Path(folder), receiver), clock) as alerts:
            for _ in range(_TIMES):
                fleet.fail(*fleet.groups)
                _shown(alerts, fleet)
                fleet.heal(*fleet.groups)
                _shown(alerts, fleet)
                fleet.pass_time(_WINDOW_S)
            size = _size(Path(folder))
    received = len(receiver.notices)
    yield Figure(name="alerts_storms_day_on_disk", value=size, unit="MB", target=50)
    yield Figure(
        name="alerts_storms_notices_missing",
        value=2 * _TIMES * _GROUPS - received,
        unit="notices",
        target=0,
    )


def _an_hour_without_receiver() -> Iterator[Figure]:
    """All groups fail and heal every five minutes and then fail; the receiver answers 503."""
    with tempfile.TemporaryDirectory() as folder, receiving() as receiver:
        receiver.replies[:] = [Reply(status=503)] * 100_000
        clock, fleet = _fleet()
        with running(_settings(Path(folder), receiver), clock) as alerts:
            for _ in range(_TIMES_AN_HOUR):
                fleet.fail(*fleet.groups)
                alerts.sees(fleet)
                fleet.heal(*fleet.groups)
                alerts.sees(fleet)
                fleet.pass_time(_WINDOW_S)
            fleet.fail(*fleet.groups)
            alerts.sees(fleet)
            size = _size(Path(folder))
            receiver.replies[:] = []
            alerts.call(lambda: alerts.alerts.retry_channel("hook"))
            eventually(alerts.idle, "all notices", timeout_s=_WITHIN_S)
            after = _size(Path(folder))
    last = {notice["group"]: notice["event"] for notice in receiver.notices}
    wrong = _GROUPS - sum(event != "close" for event in last.values())
    yield Figure(name="alerts_storms_hour_on_disk", value=max(size, after), unit="MB", target=80)
    yield Figure(name="alerts_storms_last_words_wrong", value=wrong, unit="groups", target=0)


def _fleet() -> tuple[ShiftedClock, Fleet]:
    clock = ShiftedClock()
    return clock, Fleet([f"consumer-group-{number:04}" for number in range(_GROUPS)], clock)


def _settings(folder: Path, receiver: Receiver):
    text = (
        "group_wait_s = 0.02\ngroup_interval_s = 0\n"
        "[alerts.policies.all]\nclose_for_s = 0\nreopen_s = 0\n"
        f'[alerts.webhook.hook]\nurl = "{receiver.url}"\nper_minute = 6000\n'
    )
    return alert_settings(folder, text)


def _size(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.glob("alerts.sqlite*")) / 1e6


def _shown(alerts: Running, fleet: Fleet) -> None:
    alerts.sees(fleet)
    eventually(alerts.idle, "all notices", timeout_s=_WITHIN_S)

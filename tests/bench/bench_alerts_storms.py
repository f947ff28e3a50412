"""Alerts: what a day of storms leaves on disk. 3,000 groups fail and heal 24 times."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from lagwatch import log
from tests.bench.figures import Figure
from tests.support.fleet import Fleet, ShiftedClock, alert_settings
from tests.support.receiver import receiving
from tests.support.running_alerts import Running, running
from tests.support.waiting import eventually

_GROUPS = 3000
_TIMES = 24
_WINDOW_S = 8
"""Seconds after which a window holds nothing of the failure before."""
_WITHIN_S = 300.0


def run() -> Iterator[Figure]:
    log.configure(level="warning")
    with tempfile.TemporaryDirectory() as folder, receiving() as receiver:
        clock = ShiftedClock()
        fleet = Fleet([f"consumer-group-{number:04}" for number in range(_GROUPS)], clock)
        text = (
            "group_wait_s = 0.02\ngroup_interval_s = 0\n"
            "[alerts.policies.all]\nclose_for_s = 0\nreopen_s = 0\n"
            f'[alerts.webhook.hook]\nurl = "{receiver.url}"\nper_minute = 6000\n'
        )
        with running(alert_settings(Path(folder), text), clock) as alerts:
            for _ in range(_TIMES):
                fleet.fail(*fleet.groups)
                _shown(alerts, fleet)
                fleet.heal(*fleet.groups)
                _shown(alerts, fleet)
                fleet.pass_time(_WINDOW_S)
            size = sum(file.stat().st_size for file in Path(folder).glob("alerts.sqlite*"))
    received = len(receiver.notices)
    yield Figure(name="alerts_storms_day_on_disk", value=size / 1e6, unit="MB", target=50)
    yield Figure(
        name="alerts_storms_notices_missing",
        value=2 * _TIMES * _GROUPS - received,
        unit="notices",
        target=0,
    )


def _shown(alerts: Running, fleet: Fleet) -> None:
    alerts.sees(fleet)
    eventually(alerts.idle, "all notices", timeout_s=_WITHIN_S)

"""A storm of incidents keeps nothing else of lagwatch waiting."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.support.fleet import Fleet, ShiftedClock, alert_settings
from tests.support.receiver import Receiver, receiving
from tests.support.running_alerts import running
from tests.support.waiting import eventually

POLICY = "[alerts.policies.all]\nclose_for_s = 0\nreopen_s = 0\n"


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as server:
        yield server


def hook(receiver: Receiver, name: str = "hook") -> str:
    return f'[alerts.webhook.{name}]\nurl = "{receiver.url}/{name}"\n'


def test_a_storm_is_decided_in_parts_so_that_others_may_run(tmp_path, clock, receiver) -> None:
    fleet = Fleet([f"group-{number}" for number in range(700)], clock)
    with running(alert_settings(tmp_path, POLICY + hook(receiver)), clock) as alerts:
        fleet.fail(*fleet.groups)
        fleet.judge()
        opened = []
        for _ in range(10):
            alerts.call(lambda: fleet.decided_by(alerts.alerts))
            opened.append(alerts.call(alerts.alerts.counts).open_incidents["here"])
            if not alerts.call(lambda: alerts.alerts.unfinished):
                break
        eventually(lambda: len(receiver.notices) == 700, "all of them")
        fleet.heal(*fleet.groups)
        alerts.sees(fleet)
        eventually(lambda: len(receiver.notices) == 1400, "all ends")

    assert opened[-1] == 700
    assert len(opened) > 2
    assert max(b - a for a, b in pairwise([0, *opened])) <= 300


def test_in_a_storm_each_group_is_looked_at_once_a_round(tmp_path, clock, receiver) -> None:
    fleet = Fleet([f"group-{number}" for number in range(1200)], clock)

    def looks() -> int:
        return sum(alerts.call(alerts.alerts.counts).reasons.values())

    with running(alert_settings(tmp_path, POLICY + hook(receiver)), clock) as alerts:
        alerts.sees(fleet)
        calm = looks()
        fleet.fail(*fleet.groups)
        alerts.sees(fleet)
        in_storm = looks() - calm
        fleet.judge()
        alerts.call(lambda: fleet.decided_by(alerts.alerts))
        at_once = looks() - in_storm - calm
        unfinished = bool(alerts.call(lambda: alerts.alerts.unfinished))

    assert in_storm == 1200
    assert 0 < at_once < 1200, "others may run in between also when all are known"
    assert unfinished


def test_groups_that_are_well_again_end_in_a_storm_of_others(tmp_path, clock, receiver) -> None:
    """Also where each part of the storm meets a new snapshot, as on a slow machine."""
    fleet = Fleet([f"group-{number}" for number in range(800)], clock)
    first, others = fleet.groups[:200], fleet.groups[200:]
    with running(alert_settings(tmp_path, POLICY + hook(receiver)), clock) as alerts:
        fleet.fail(*first)
        alerts.sees(fleet)
        fleet.heal(*first)
        fleet.fail(*others)
        open_before = alerts.call(alerts.alerts.counts).open_incidents["here"]
        for _ in range(16):
            fleet.pass_time(1)
            fleet.judge()
            alerts.call(lambda: fleet.decided_by(alerts.alerts))
        open_after = alerts.call(alerts.alerts.counts).open_incidents["here"]

    assert (open_before, open_after) == (200, 600)


def test_what_it_takes_to_move_the_notices_of_a_channel_grows_no_faster_than_their_number(
    tmp_path, clock, receiver
) -> None:
    def steps(number: int) -> int:
        """Thousands of steps of SQLite's machine."""
        folder = tmp_path / str(number)
        folder.mkdir()
        fleet = Fleet([f"group-{each}" for each in range(number)], clock)
        text = "group_wait_s = 300\n" + POLICY + hook(receiver) + hook(receiver, "other")
        with running(alert_settings(folder, text), clock) as alerts:
            fleet.fail(*fleet.groups)
            alerts.sees(fleet)
            counted = []
            connection = alerts.alerts._database.connection  # noqa: SLF001
            alerts.call(lambda: connection.set_progress_handler(lambda: counted.append(1), 1000))
            alerts.call(lambda: alerts.alerts.retry_channel("hook", to="other"))
            alerts.call(lambda: connection.set_progress_handler(None, 1000))
        return len(counted)

    few, many = steps(200), steps(800)

    assert many < 8 * max(few, 1)

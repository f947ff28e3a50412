"""The clock is set, or the machine pauses: what is old by it?"""

import pytest

from lagwatch.clock import BelievedClock, Leaps, Standstills
from lagwatch.core.model import EpochMs
from tests.support.history import NOON_MS

_DAY_S = 86_400


class _Clock:
    """A machine's clock; `pause` is what a wall clock shows that was set ahead, too."""

    def __init__(self) -> None:
        self.wall_s, self.ran_s = NOON_MS / 1000, 5.0

    def now_ms(self) -> EpochMs:
        return EpochMs(round(self.wall_s * 1000))

    def monotonic_s(self) -> float:
        return self.ran_s

    async def sleep(self, delay_s: float) -> None:
        self.run(delay_s)

    def run(self, seconds: float) -> None:
        self.wall_s += seconds
        self.ran_s += seconds

    def leap(self, seconds: float) -> None:
        self.wall_s += seconds


def test_a_leap_is_believed_after_an_hour() -> None:
    clock = _Clock()
    leaps = Leaps(clock)
    clock.run(_DAY_S)
    assert leaps.ahead_ms() == 0

    clock.leap(8 * _DAY_S)
    found = [leaps.ahead_ms()]
    for seconds in (3000, 700):
        clock.run(seconds)
        found.append(leaps.ahead_ms())

    assert found == [8 * _DAY_S * 1000, 8 * _DAY_S * 1000, 0]


def test_a_clock_that_is_set_right_again_is_believed_at_once() -> None:
    clock = _Clock()
    leaps = Leaps(clock)
    clock.leap(40 * _DAY_S)
    assert leaps.ahead_ms() == 40 * _DAY_S * 1000
    clock.run(45)

    clock.leap(-40 * _DAY_S)

    assert leaps.ahead_ms() == 0


def test_a_clock_that_goes_a_little_wrong_is_believed() -> None:
    clock = _Clock()
    leaps = Leaps(clock)
    found = []
    for seconds in (5, -5, 14, -14):
        clock.leap(seconds)
        found.append(leaps.ahead_ms())
        clock.run(2)

    assert found == [0, 0, 0, 0]


def test_what_is_left_of_a_leap_that_was_set_right_is_believed() -> None:
    clock = _Clock()
    leaps = Leaps(clock)
    found = []
    for seconds in (-3600, 3601, 7200, -7199):
        clock.leap(seconds)
        found.append(leaps.ahead_ms())

    assert found == [-3_600_000, 0, 7_200_000, 0]


@pytest.mark.parametrize(
    ("witnessed_ms", "after_s"), [(150, 0), (-150, 0), (None, 3600), (-3_600_000, None)]
)
def test_a_clock_that_is_set_back_is_believed_as_kafka_says_or_after_an_hour(
    witnessed_ms: int | None, after_s: int | None
) -> None:
    clock = _Clock()
    leaps = Leaps(clock, lambda: witnessed_ms)
    clock.leap(-3600)
    at_once = leaps.ahead_ms()
    clock.run(3600)

    assert at_once == (0 if after_s == 0 else -3_600_000)
    assert leaps.ahead_ms() == (-3_600_000 if after_s is None else 0)


def test_nothing_is_younger_for_a_clock_that_was_set_back() -> None:
    clock = _Clock()
    leaps = Leaps(clock, lambda: -3_600_000)
    clock.leap(-3600)

    assert leaps.believed_ms() == clock.now_ms()


def test_a_leap_is_believed_as_soon_as_kafka_says_the_same() -> None:
    """The machine paused for three hours: second-line people are not called an hour late."""
    clock = _Clock()
    seen: list[int | None] = [None]
    leaps = Leaps(clock, lambda: seen[0])
    clock.leap(3 * 3600)
    clock.run(15)
    unknown = leaps.ahead_ms()
    seen[0] = 200

    assert (unknown, leaps.ahead_ms()) == (10_800_000, 0)


def test_a_leap_is_never_believed_while_kafka_says_otherwise() -> None:
    clock = _Clock()
    leaps = Leaps(clock, lambda: 40 * _DAY_S * 1000)
    clock.leap(40 * _DAY_S)
    found = []
    for _ in range(5):
        found.append(leaps.ahead_ms())
        clock.run(3000)

    assert found == [40 * _DAY_S * 1000] * 5


def test_nothing_may_be_deleted_before_it_is_known_that_the_clock_is_right() -> None:
    clock = _Clock()
    seen: list[int | None] = [None]
    leaps = Leaps(clock, lambda: seen[0])
    believed = []
    for witnessed_ms, seconds in ((None, 60), (40 * _DAY_S * 1000, 60), (150, 60), (None, 3600)):
        clock.run(seconds)
        seen[0] = witnessed_ms
        now_ms = leaps.believed_ms()
        believed.append(None if now_ms is None else clock.now_ms() - now_ms)

    assert believed == [None, 40 * _DAY_S * 1000, 150, 0]


def test_the_believed_clock_goes_on_without_a_leap() -> None:
    clock = _Clock()
    believed = BelievedClock(clock, Leaps(clock))
    before_ms = believed.now_ms()
    clock.run(60)
    clock.leap(_DAY_S)
    clock.run(60)
    meanwhile_ms = believed.now_ms()
    clock.run(3600)

    assert meanwhile_ms == before_ms + 120_000
    assert believed.now_ms() == clock.now_ms()
    assert believed.monotonic_s() == clock.monotonic_s()


def test_the_believed_clock_does_not_go_back() -> None:
    clock = _Clock()
    believed = BelievedClock(clock, Leaps(clock, lambda: -3_600_000))
    before_ms = believed.now_ms()
    clock.leap(-3600)
    clock.run(60)
    meanwhile_ms = believed.now_ms()
    clock.leap(3600)
    clock.run(60)

    assert (meanwhile_ms, believed.now_ms()) == (before_ms + 60_000, before_ms + 120_000)


def test_a_clock_that_was_set_back_is_noticed_once() -> None:
    clock = _Clock()
    standstills = Standstills(clock)
    found = []
    for seconds in (0, -3600, 0):
        clock.leap(seconds)
        clock.run(1)
        unnoticed = standstills.unnoticed
        assert standstills.look() is None
        found.append((unnoticed, standstills.set_back_ms, standstills.unnoticed))

    assert found == [(False, 0, False), (True, 3_600_000, False), (False, 0, False)]

"""The clock is set, or the machine pauses: what is old by it?"""

from lagwatch.clock import Leaps
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


def test_a_clock_that_is_set_back_or_goes_a_little_wrong_is_believed() -> None:
    clock = _Clock()
    leaps = Leaps(clock)
    found = []
    for seconds in (-_DAY_S, 5, -5, 14):
        clock.leap(seconds)
        found.append(leaps.ahead_ms())
        clock.run(2)

    assert found == [0, 0, 0, 0]

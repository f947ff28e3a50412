"""How often a cluster is judged as time passes."""

import pytest

from lagwatch.clock import Cadence
from tests.support.step_clock import StepClock


@pytest.mark.parametrize(
    ("took_s", "least_s", "most_s", "due_s"),
    [
        (0.001, 2, 5, 2),  # a small cluster: as the interval says
        (0.01, 2, 5, 4),
        (0.3, 2, 5, 5),  # however long it takes
        (0.3, 60, 5, 60),
    ],
)
def test_what_takes_long_is_due_later(
    took_s: float, least_s: float, most_s: float, due_s: float
) -> None:
    clock = StepClock()
    cadence = Cadence(clock, least_s=least_s, most_s=most_s)
    assert cadence.due_in_s() <= 0, "the first is due at once"
    began_s = clock.monotonic_s()
    clock.pass_s(took_s)

    assert cadence.ended(began_s) == pytest.approx(took_s)

    assert cadence.due_in_s() == pytest.approx(due_s - took_s)


def test_each_that_ends_puts_the_next_one_off() -> None:
    clock = StepClock()
    cadence = Cadence(clock, least_s=2, most_s=5)
    cadence.ended(clock.monotonic_s())
    clock.pass_s(1.5)
    cadence.ended(clock.monotonic_s())
    clock.pass_s(1.5)

    assert cadence.due_in_s() == pytest.approx(0.5)

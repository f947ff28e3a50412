"""Roll-ups made anew from an incomplete source against those made earlier."""

from typing import Any

import pytest

from lagwatch.core.record import Kind, from_rows
from lagwatch.core.rollup import keep_fuller, lacks_rows
from tests.support.history import NOON_MS, in_order, rollup
from tests.support.rollups import Recording, recording

KIND = Kind.ROLLUP_5M


def row(group: str, samples: int, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    return rollup(KIND, **{"group": group, "samples": samples} | changes)


def test_of_every_bucket_of_a_group_the_one_of_more_samples_stays_with_all_its_levels() -> None:
    of_partition = {"level": "partition", "topic": "orders", "partition": 0}
    made = [
        row("equal", 10, lag_max=7),
        row("fuller", 11, lag_max=7),
        row("fuller", 9, bucket_ms=NOON_MS + 300_000, lag_max=7),
        row("less", 10, lag_max=7),
        row("new", 1, lag_max=7),
    ]
    earlier = [
        row("equal", 10),
        row("fuller", 10),
        row("fuller", 10, bucket_ms=NOON_MS + 300_000),
        row("gone", 10),
        row("less", 10),
        row("less", 1, **of_partition),
    ]

    chosen, kept = keep_fuller(from_rows(KIND, made), from_rows(KIND, earlier))

    expected = [made[1], made[4], *(earlier[index] for index in (0, 2, 3, 4, 5))]
    assert in_order(chosen.rows(), KIND) == in_order(expected, KIND)
    assert in_order(kept.rows(), KIND) == in_order(expected[2:], KIND)


def test_without_earlier_rows_all_that_is_made_stays() -> None:
    made = [row("billing", 3), row("shipping", 4)]

    chosen, kept = keep_fuller(from_rows(KIND, made), from_rows(KIND, ()))

    assert in_order(chosen.rows(), KIND) == in_order(made, KIND)
    assert kept.size == 0


def test_of_equal_ones_those_made_anew_stay_on_demand() -> None:
    made, earlier = (
        [row("equal", 10, lag_max=7), row("less", 9)],
        [row("equal", 10), row("less", 10)],
    )

    chosen, kept = keep_fuller(from_rows(KIND, made), from_rows(KIND, earlier), of_equal=False)

    assert in_order(chosen.rows(), KIND) == in_order([made[0], earlier[1]], KIND)
    assert in_order(kept.rows(), KIND) == in_order([earlier[1]], KIND)


@pytest.mark.parametrize("seed", range(5))
def test_a_recording_lacks_rows_when_one_that_was_written_is_gone(seed: int) -> None:
    whole = recording(seed)
    regular = [each for each in whole.samples if each["reason"] == "interval"]
    lacking = [each for each in whole.samples if each is not regular[seed]]
    changes_only = [each for each in whole.samples if each["reason"] == "change"]

    raws = [
        Recording(samples=rows, groups=whole.groups, events=[]).raw()
        for rows in (whole.samples, lacking, changes_only)
    ]
    found = [lacks_rows([raw.samples], raw.rounds, NOON_MS) for raw in raws]

    assert found == [False, True, True]


def test_rows_before_the_time_in_question_are_not_missed() -> None:
    whole = recording(3)
    later_ms = NOON_MS + 600_000
    late = [each for each in whole.samples if each["at_ms"] >= later_ms]
    raw = Recording(samples=late, groups=whole.groups, events=[]).raw()

    assert lacks_rows([raw.samples], raw.rounds, NOON_MS)
    assert not lacks_rows([raw.samples], raw.rounds, later_ms)

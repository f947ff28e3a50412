"""The search for append times by ListOffsets, on logs whose times are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.offset_search import MOST_ROUNDS, Found, OffsetSearch

START_MS = 1_800_000_000_000


class Log:
    """Offsets and times of the records that are left of one partition."""

    def __init__(self, offsets: list[int], times_ms: list[int]) -> None:
        self.offsets, self.times_ms = np.array(offsets, np.int64), np.array(times_ms, np.int64)
        self.questions = 0

    def first_at(self, at_ms: int) -> tuple[int, int]:
        self.questions += 1
        found = np.flatnonzero(self.times_ms >= at_ms)
        if not found.size:
            return -1, -1
        return int(self.offsets[found[0]]), int(self.times_ms[found[0]])

    def newest(self) -> tuple[int, int]:
        place = int(self.times_ms.argmax())
        return int(self.offsets[place]), int(self.times_ms[place])


def _column(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


def search(log: Log, offset: int, now_ms: int) -> Found:
    """Search for one offset; fails when it does not end."""
    looking = OffsetSearch(_column([offset]), now_ms=now_ms)
    yes = np.ones(1, np.bool_)
    first, newest = log.first_at(0), log.newest()
    looking.begin(
        (_column([first[0]]), _column([first[1]])),
        (_column([newest[0]]), _column([newest[1]])),
        yes,
    )
    for _ in range(MOST_ROUNDS + 1):
        rows, asked_ms = looking.questions()
        if not rows.size:
            return looking.found()
        at, at_ms = log.first_at(int(asked_ms[0]))
        looking.answer(rows, asked_ms, (_column([at]), _column([at_ms])), yes)
    raise AssertionError("it goes on and on")


@given(
    gaps_ms=st.lists(st.integers(0, 600_000), min_size=1, max_size=80),
    data=st.data(),
)
def test_where_times_rise_the_time_of_an_offset_is_found(
    gaps_ms: list[int], data: st.DataObject
) -> None:
    times_ms = np.cumsum([START_MS, *gaps_ms]).tolist()
    offset = data.draw(st.integers(0, len(times_ms) - 1))
    now_ms = times_ms[-1] + data.draw(st.integers(0, 3_600_000))

    found = search(Log(list(range(len(times_ms))), times_ms), offset, now_ms)

    assert found.low_ms[0] <= times_ms[offset] <= found.high_ms[0]
    age_ms = now_ms - times_ms[offset]
    assert found.high_ms[0] - found.low_ms[0] <= max(250, age_ms / 500)


@given(
    times_s=st.lists(st.integers(0, 100_000), min_size=1, max_size=60),
    data=st.data(),
)
def test_in_any_order_of_times_the_greatest_up_to_the_offset_is_found(
    times_s: list[int], data: st.DataObject
) -> None:
    times_ms = [START_MS + each * 1000 for each in times_s]
    offset = data.draw(st.integers(0, len(times_ms) - 1))

    found = search(Log(list(range(len(times_ms))), times_ms), offset, max(times_ms))

    greatest_ms = max(times_ms[: offset + 1])
    assert found.low_ms[0] <= greatest_ms <= found.high_ms[0]


@given(data=st.data(), size=st.integers(1, 60))
def test_of_a_compacted_log_the_next_record_is_within_the_wider_range(
    data: st.DataObject, size: int
) -> None:
    gaps_ms = data.draw(st.lists(st.integers(0, 60_000), min_size=size, max_size=size))
    times_ms = np.cumsum([START_MS, *gaps_ms])
    left = sorted(data.draw(st.sets(st.integers(0, size), min_size=1)))
    offset = data.draw(st.integers(0, left[-1]))
    next_ms = times_ms[min(each for each in left if each >= offset)]

    found = search(Log(left, times_ms[left].tolist()), offset, int(times_ms[-1]))

    assert found.low_ms[0] <= next_ms <= found.next_ms[0]


@pytest.mark.parametrize(("shape", "most"), [("steady", 6), ("bursty", 14), ("daily", 11)])
def test_few_questions_are_enough(shape: str, most: float) -> None:
    rng = np.random.default_rng(1)
    size = 20_000
    gaps_ms = rng.exponential(200, size)
    if shape == "bursty":
        gaps_ms = np.where(rng.random(size) < 0.002, 300_000, gaps_ms / 10)
    if shape == "daily":
        gaps_ms = gaps_ms * (1.2 + np.sin(np.arange(size) / 3_000))
    times_ms = (START_MS + np.cumsum(gaps_ms)).astype(np.int64).tolist()
    asked = []
    for offset in rng.integers(0, size, 50).tolist():
        log = Log(list(range(size)), times_ms)
        search(log, offset, times_ms[-1])
        asked.append(log.questions)

    assert np.mean(asked) <= most


def test_an_unusable_time_index_ends_the_search_within_bounds() -> None:
    looking = OffsetSearch(_column([50]), now_ms=START_MS + 200_000)
    yes = np.ones(1, np.bool_)
    looking.begin(
        (_column([0]), _column([START_MS])), (_column([99]), _column([START_MS + 100_000])), yes
    )
    rows, asked_ms = looking.questions()

    looking.answer(rows, asked_ms, (_column([-1]), _column([-1])), yes)

    assert looking.questions()[0].size == 0
    found = looking.found()
    assert (found.low_ms[0], found.high_ms[0]) == (START_MS, START_MS + 100_000)


def test_a_partition_that_does_not_answer_stays_unknown() -> None:
    looking = OffsetSearch(_column([50]), now_ms=START_MS)
    none = _column([-1])

    looking.begin((none, none), (none, none), np.zeros(1, np.bool_))

    assert looking.questions()[0].size == 0
    assert looking.found().low_ms.tolist() == [-1]

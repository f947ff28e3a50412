"""Up to which instants commits are known: positions of the reader against rounds of log ends."""

import numpy as np

from lagwatch.core.model import EpochMs
from lagwatch.pollers.known import ReaderProgress
from lagwatch.pollers.loop import EndsRound, PartitionEnds
from lagwatch.ports.kafka import TopicListing
from tests.support.step_clock import StepClock

NO_TOPICS = TopicListing(names=(), partitions=np.zeros(0, np.int32), leader=np.zeros(0, np.int32))


def ends(at_ms: int, log_end: list[int], last_stable: list[int] | None = None) -> PartitionEnds:
    stable = log_end if last_stable is None else last_stable
    return PartitionEnds(
        started_ms=EpochMs(at_ms),
        log_end=np.array(log_end, np.int64),
        last_stable=np.array(stable, np.int64),
    )


def a_round(at_ms: int, log_end: list[int], last_stable: list[int] | None = None) -> EndsRound:
    offsets_topic = ends(at_ms, log_end, last_stable)
    nothing = ends(at_ms, [])
    return EndsRound(version=1, topics=NO_TOPICS, ends=nothing, offsets_topic=offsets_topic)


def until(known: ReaderProgress, positions: dict[int, int]) -> list[int] | None:
    report = known.read(positions)
    return None if report is None else report.until_ms.tolist()


def test_a_round_is_reported_once_when_the_reader_has_come_to_all_log_ends() -> None:
    known = ReaderProgress(StepClock())
    known.note(a_round(1000, [5, 7]))

    assert until(known, {0: 5, 1: 6}) is None
    assert until(known, {0: 5, 1: 7}) == [1000, 1000]
    assert until(known, {0: 5, 1: 7}) is None


def test_a_reader_that_is_late_is_not_waited_for_longer_than_a_second() -> None:
    clock = StepClock()
    known = ReaderProgress(clock)
    known.note(a_round(1000, [5, 7]))

    clock.pass_s(1.0)

    assert until(known, {0: 5, 1: 6}) == [1000, -1]


def test_a_partition_without_leader_keeps_its_instant_and_holds_no_other_back() -> None:
    known = ReaderProgress(StepClock())
    known.note(a_round(1000, [5, 7]))
    until(known, {0: 5, 1: 7})

    known.note(a_round(2000, [6, -1]))

    assert until(known, {0: 6, 1: 7}) == [2000, 1000]


def test_commits_behind_the_last_stable_offset_are_not_known() -> None:
    known = ReaderProgress(StepClock())

    known.note(a_round(1000, [9], last_stable=[5]))

    assert until(known, {0: 5}) == [-1], "an open transaction holds back all that follows"


def test_a_transaction_that_is_always_open_somewhere_lets_earlier_rounds_count() -> None:
    known = ReaderProgress(StepClock())
    for at_ms, end in ((1000, 9), (2000, 20), (3000, 30)):
        known.note(a_round(at_ms, [end], last_stable=[end - 3]))

    assert until(known, {0: 21}) == [2000]


def test_what_was_polled_counts_and_never_goes_back() -> None:
    known = ReaderProgress(StepClock())
    known.note(a_round(1000, [5, 7]))
    known.note(a_round(2000, [9, 7], last_stable=[5, 7]))
    known.poll_instead([0])

    report = known.polled([0], 2500)
    again = known.read({0: 5, 1: 7})

    assert (report.until_ms.tolist(), report.polled) == ([2500, -1], (0,))
    assert again is not None
    assert again.until_ms.tolist() == [2500, 2000]


def test_another_number_of_partitions_begins_anew() -> None:
    known = ReaderProgress(StepClock())
    known.note(a_round(1000, [5]))
    until(known, {0: 5})

    known.note(a_round(2000, [6, 1]))

    assert until(known, {0: 5, 1: 1}) is None
    assert known.until_ms(0) == -1, "groups have moved to other partitions"

"""Up to which instants commits are known: positions of the reader against rounds of log ends."""

from lagwatch.pollers.known import STUCK_AFTER_S, ReaderProgress
from tests.support.rounds import a_round
from tests.support.step_clock import StepClock


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


def stuck(rounds: list[tuple[float, list[int], dict[int, int]]]) -> list[tuple[int, ...]]:
    """The stuck partitions after each round, given as (its seconds, log ends, positions)."""
    clock = StepClock()
    known, found = ReaderProgress(clock), []
    for pause_s, end, positions in rounds:
        known.note(a_round(clock.now_ms(), end))
        clock.pass_s(pause_s)
        known.read(positions)
        found.append(known.stuck())
    return found


def test_a_partition_of_which_nothing_is_read_although_there_is_more_is_named_once() -> None:
    rounds = int(STUCK_AFTER_S / 5)

    found = stuck([(5, [9, 7 + each], {0: 5, 1: 6 + each}) for each in range(rounds + 2)])

    assert found == [*[()] * rounds, (0,), ()], "the other one moves, and is always one behind"


def test_the_time_in_which_no_broker_answered_does_not_count() -> None:
    away = [(400.0, [9], {0: 5}), (400.0, [-1], {0: 5})]

    assert stuck([(5, [9], {0: 5}), *away, (5, [9], {0: 5}), (5, [9], {0: 5})]) == [()] * 5

"""Log starts over the last rounds."""

import numpy as np

from lagwatch.monitor.losses import LogStarts

AT = np.array([0])


def starts(*rounds: tuple[int, int]) -> LogStarts:
    """(end of the round in ms, log start) of one partition."""
    found = LogStarts()
    for finished_ms, start in rounds:
        found.add(np.array([start]), finished_ms)
    return found


def test_a_commit_is_compared_with_the_log_start_of_its_time() -> None:
    found = starts((1_000, 0), (2_000, 50), (3_000, 90))

    known = [found.known_at(AT, np.array([at_ms]))[0] for at_ms in (999, 1_000, 2_999, 3_000)]

    assert known == [-1, 0, 50, 90]


def test_rounds_that_find_the_same_are_one() -> None:
    found = starts((1_000, 0), (2_000, 50), (3_000, 50))

    assert found.since_ms == 2_000
    assert found.there_until_ms(0, 60) == 3_000
    assert found.there_until_ms(0, 49) == 1_000


def test_the_oldest_log_starts_are_kept_when_there_are_many() -> None:
    found = starts(*((1_000 * number, number) for number in range(100)))

    assert found.known_at(AT, np.array([10]))[0] == 0
    assert found.newest[0] == 99


def test_a_message_that_no_round_has_found_was_there_before_the_first() -> None:
    assert starts((1_000, 70), (2_000, 80)).there_until_ms(0, 10) == 1_000
    assert LogStarts().there_until_ms(0, 10) == -1


def test_a_new_partition_has_no_log_start_yet() -> None:
    found = starts((1_000, 7))

    found.remap(np.array([-1, 0]))

    assert found.newest.tolist() == [-1, 7]

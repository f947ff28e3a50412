"""The score of the causes that were named for injected faults."""

from tests.bench.faults.score import Outcome, figures, table


def outcome(true: str, named: str, *wrong: str) -> Outcome:
    return Outcome(true=true, named=named, wrongly_certain=frozenset(wrong), after_s=3.0)


def test_the_share_named_right_and_all_that_was_wrongly_certain_count() -> None:
    outcomes = [
        *[outcome("all_slow", "all_slow")] * 8,
        outcome("all_slow", "none"),
        outcome("no_members", "records_lost", "records_lost"),
    ]

    faults, right, wrong = figures(outcomes, 10)

    assert (faults.value, faults.ok) == (10, True)
    assert (right.value, right.ok) == (0.8, False)
    assert (wrong.value, wrong.ok) == (1, False)


def test_faults_that_were_not_injected_leave_the_score_short() -> None:
    faults, right, wrong = figures([outcome("all_slow", "all_slow")], 2)

    assert [each.ok for each in (faults, right, wrong)] == [False, True, True]
    assert not any(each.ok for each in list(figures([], 2))[:2])


def test_the_table_has_a_line_for_each_kind_with_what_it_was_taken_for() -> None:
    lines = list(
        table([outcome("a", "a"), outcome("a", "b"), outcome("a", "a"), outcome("b", "a", "a")])
    )

    assert [line.split()[:4] for line in lines] == [["a", "2", "of", "3"], ["b", "0", "of", "1"]]
    assert "a 2, b 1" in lines[0]
    assert "wrongly certain: a" in lines[1]

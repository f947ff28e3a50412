"""The rule tables: their order matters, and each rule has a scenario."""

from itertools import pairwise
from pathlib import Path

import pytest

from lagwatch.core.model import PartitionStatus, Rule, RuleSet
from lagwatch.core.rules import BURROW, LAGWATCH, TABLES, judge
from tests.support.any_rows import any_rows
from tests.support.lives import lives

ROOT = Path(__file__).parents[2]
SCENARIOS = ROOT / "tests" / "scenarios"
COMMUTING = {
    (RuleSet.LAGWATCH, Rule.LOG_END_UNKNOWN, Rule.CONTROL_RECORDS_ONLY): "lag unknown, or above 0",
}
"""Neighbours whose order makes no difference, and why."""
PAIRS = [
    (rules, number)
    for rules, table in TABLES.items()
    for number, _ in enumerate(pairwise(table[:-1]))
]


@pytest.mark.parametrize(
    ("rules", "number"),
    PAIRS,
    ids=lambda each: str(each) if isinstance(each, RuleSet) else None,
)
def test_neighbours_in_another_order_decide_otherwise_or_are_listed(rules, number) -> None:
    table = list(TABLES[rules])
    first, second = table[number : number + 2]
    table[number : number + 2] = second, first
    drawn = [any_rows(1, 150_000, beginning=beginning) for beginning in (False, True)]

    changed = any(
        (judge(table, rows).rule != judge(TABLES[rules], rows).rule).any() for rows in drawn
    )

    assert changed != ((rules, first.rule, second.rule) in COMMUTING)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_the_last_rule_of_a_table_holds_always(table) -> None:
    assert table[-1].holds(any_rows(2, 1000)).all()
    assert len({row.rule for row in table}) == len(table)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_row_has_what_its_status_asks_for(table) -> None:
    """A warning its headline, as `WARNING` says too little, and an OK what it rests on."""
    without_headline = [
        row.rule.word
        for row in table
        if row.status is PartitionStatus.WARN and row.headline is None
    ]
    wrong_ok = [
        row.rule.word for row in table if (row.status is PartitionStatus.OK) != bool(row.ok)
    ]

    assert without_headline == []
    assert wrong_ok == []


def test_every_default_rule_has_a_life() -> None:
    text = (SCENARIOS / "lives.txt").read_text(encoding="utf-8")

    shown = set().union(*(life.rules for life in lives(text)))

    assert shown == {row.rule.word for row in LAGWATCH}


def test_every_rule_of_burrow_has_a_window() -> None:
    lines = (SCENARIOS / "windows.txt").read_text(encoding="utf-8").splitlines()

    shown = {line.split("|")[0].split()[1] for line in lines if line and line[0] != "#"}

    # a window is not empty, and has no limit of completeness of its own
    elsewhere = {"never_committed", "window_incomplete", "log_end_unknown"}
    assert shown | elsewhere == {row.rule.word for row in BURROW}

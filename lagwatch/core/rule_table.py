"""The rules of both tables side by side, for the documentation."""

from collections.abc import Sequence
from typing import Final

from lagwatch.core.model import Rule
from lagwatch.core.rules import BURROW, LAGWATCH, STATUS_BY_RULE, RuleRow

_ABSENT: Final = "-"


def markdown() -> str:
    """One line per rule: verdict, and when it holds by default and by Burrow's rules.

    The numbers are the order of precedence.
    """
    rules = dict.fromkeys(row.rule for row in (*LAGWATCH, *BURROW))
    return "\n".join(
        [
            "| Rule | Verdict | By default | By Burrow's rules |",
            "|---|---|---|---|",
            *(
                f"| `{rule.word}` | {STATUS_BY_RULE[rule].name} "
                f"| {_when(LAGWATCH, rule)} | {_when(BURROW, rule)} |"
                for rule in rules
            ),
        ]
    )


def _when(table: Sequence[RuleRow], rule: Rule) -> str:
    """When a rule holds, after its place in the order."""
    for number, row in enumerate(table, start=1):
        if row.rule is rule:
            return f"{number}. {row.meaning}"
    return _ABSENT

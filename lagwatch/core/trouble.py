"""Kinds of trouble: the rules that make a group bad, and which of them are worse than others."""

from collections.abc import Iterable, Mapping
from typing import Final

from lagwatch.core.model import Rule

Kinds = frozenset[Rule]

RANK: Final[Mapping[Rule, int]] = {
    Rule.REWOUND: 1,
    Rule.RECORDS_LOST: 2,
    Rule.AHEAD_OF_LOG_END: 2,
    Rule.STALLED: 3,
    Rule.STOPPED: 4,
}
"""How bad the kinds of an ERR are: a group that reads is better off than one that does not.

Every other rule is a WARN at most, and ranks 0.
"""

_GRAVEST: Final = max(RANK.values()) + 1


def worse(seen: Kinds, named: Kinds) -> Kinds:
    """The kinds among `seen` that are worse than all that notices have `named`.

    A loss is worse than any other kind that was named: nothing brings the messages back.
    """
    highest = max((RANK.get(rule, 0) for rule in named), default=0)
    return frozenset(
        rule for rule in seen - named if RANK.get(rule, 0) > highest or rule is Rule.RECORDS_LOST
    )


def gravity(kinds: Iterable[Rule]) -> int:
    """How bad the worst of these kinds is, to sort by: a loss is worse than any other; 0: none."""
    return max(map(_gravity, kinds), default=0)


def _gravity(rule: Rule) -> int:
    return _GRAVEST if rule is Rule.RECORDS_LOST else RANK.get(rule, 0)


def kind_words(kinds: Iterable[Rule]) -> tuple[str, ...]:
    """`records_lost`, `stopped`: the worst first."""
    worst_first = sorted(kinds, key=lambda rule: (-_gravity(rule), rule.word))
    return tuple(rule.word for rule in worst_first)


_BY_WORD: Final = {rule.word: rule for rule in Rule}


def kinds_of(names: Iterable[str]) -> Kinds:
    """The kinds with these words; those that this version does not know are left out."""
    return frozenset(_BY_WORD[name] for name in names if name in _BY_WORD)

"""Patterns with `*`, as mutes and acknowledgements have them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.words import named

_TEXT = st.text("ab*.\n", max_size=12)


@given(_TEXT.filter(bool), _TEXT)
def test_a_star_is_any_characters(pattern: str, name: str) -> None:
    plain = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)

    assert bool(named(pattern).search(name)) == bool(plain.fullmatch(name))


def test_no_pattern_means_all() -> None:
    assert named("").search("anything")


@pytest.mark.timeout(10)
@pytest.mark.parametrize("stars", [1, 30, 120])
def test_many_stars_end_on_a_long_name(stars: int) -> None:
    assert not named("*a" * stars + "*b").search("a" * 249)

"""A day against the week before: only what is more than chance, and matters."""

import random

from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.trend import FALSE_SHARE, Comparison, compare, significant

_VALUES = st.floats(0, 1e9)
_HOURS = st.dictionaries(st.integers(0, 23), _VALUES, max_size=24)


def _day(level: float, chance: random.Random, *, noise: float = 0.05) -> dict[int, float]:
    """A day with a daily shape."""
    shape = [0.2 + (hour % 12) / 6 for hour in range(24)]
    return {hour: level * shape[hour] * (1 + chance.uniform(-noise, noise)) for hour in range(24)}


def _compared(level: float, seed: int = 1) -> Comparison:
    chance = random.Random(seed)  # noqa: S311 not a secret
    found = compare(_day(level, chance), [_day(100, chance) for _ in range(7)])
    assert found is not None
    return found


def test_a_day_of_twice_the_load_is_a_change() -> None:
    found = _compared(200)

    assert significant([found]) == [(0, found.p)]
    assert found.p < 1e-6
    assert 1.9 < found.now / found.before < 2.1


def test_a_day_like_the_others_is_none() -> None:
    days = [_compared(100, seed) for seed in range(100)]

    assert significant(days) == []


def test_what_is_sure_but_small_is_not_reported() -> None:
    found = _compared(112)

    assert found.p < FALSE_SHARE
    assert not found.matters


def test_one_wild_hour_is_no_change() -> None:
    chance = random.Random(5)  # noqa: S311 not a secret
    day = _day(100, chance) | {3: 100_000.0}

    found = compare(day, [_day(100, chance) for _ in range(7)])

    assert found is not None
    assert found.matters
    assert significant([found]) == []


def test_a_sunday_is_compared_with_a_sunday_too() -> None:
    chance = random.Random(6)  # noqa: S311 not a secret
    week = [_day(100, chance) for _ in range(6)] + [_day(20, chance)]

    found = compare(_day(20.0, chance), week)

    assert found is not None
    assert found.p < FALSE_SHARE
    assert significant([found]) == []


def test_too_few_days_or_hours_are_not_compared() -> None:
    whole = dict.fromkeys(range(24), 1.0)
    short = dict.fromkeys(range(11), 1.0)

    assert compare(whole, [whole, whole, {}]) is None
    assert compare(short, [whole] * 7) is None
    assert compare(whole, [whole] * 3) is not None


@given(_HOURS, st.lists(_HOURS, max_size=7))
def test_it_never_fails_and_never_finds_change_where_there_is_none(day, before) -> None:
    found = compare(day, before)
    same = compare(day, [day] * 7)

    assert found is None or 0 < found.p <= 1
    assert same is None or significant([same]) == []

"""The lives of `lives.txt`, judged by the default rules; a block is a life, and says why."""

from pathlib import Path

import pytest

from tests.support.lives import Life, broken, live, lives

LIVES = tuple(lives((Path(__file__).parent / "lives.txt").read_text(encoding="utf-8")))


@pytest.mark.slow
@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.why[:70])
def test_life(life: Life) -> None:
    assert broken(life, live(life)) == [], life.why

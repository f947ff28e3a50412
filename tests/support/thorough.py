"""How often tests kill, restart and repeat: a few times, or as often as it takes to be sure.

A fault that shows itself at one kill in twenty needs fifty of them, and each takes seconds.
`make test THOROUGH=1` does all of them, with more examples of each law and the tests marked
`thorough`; without it a run stays short enough for every change.
"""

import os
from typing import Final

THOROUGH: Final = os.environ.get("THOROUGH", "") not in {"", "0"}


def rounds(all_of_them: int, *, quick: int) -> int:
    """Return how many rounds a test does."""
    return all_of_them if THOROUGH else quick

"""Names out of paths, as careless clients write them."""

from collections.abc import Callable
from itertools import islice, product
from typing import TypeVar
from urllib.parse import unquote

from lagwatch.errors import NotFoundError

T = TypeVar("T")


def asked(question: Callable[..., T], *names: str) -> T:
    """The answer to `question(*names)`; names that nobody knows are decoded once more.

    Telegraf's `inputs.burrow` escapes names twice: `with space` arrives as `with%2520space`.

    Raises:
        NotFoundError: nobody knows the names either way.
    """
    try:
        return question(*names)
    except NotFoundError:
        if not any("%" in name for name in names):
            raise
        for reading in islice(product(*((name, unquote(name)) for name in names)), 1, None):
            try:
                return question(*reading)
            except NotFoundError:
                continue
        raise

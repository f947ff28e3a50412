"""A channel is one file: nothing else in the sources knows it by name."""

import re
from pathlib import Path

import pytest

from lagwatch.notify.channels.registry import KINDS

_SOURCES = Path(__file__).parents[2] / "lagwatch"
_CHANNELS = _SOURCES / "notify" / "channels"


@pytest.mark.parametrize("table", KINDS)
def test_only_the_file_of_a_channel_names_it(table: str) -> None:
    name = re.compile(rf"[\"']{table}[\"']|channels\.{table}\b|channels import .*\b{table}\b")

    naming = {
        path for path in _SOURCES.rglob("*.py") if name.search(path.read_text(encoding="utf-8"))
    }

    assert naming == {_CHANNELS / f"{table}.py"}


def test_every_channel_of_the_manual_is_found() -> None:
    assert set(KINDS) == {
        "alertmanager",
        "apprise",
        "email",
        "pagerduty",
        "slack",
        "teams",
        "webhook",
    }

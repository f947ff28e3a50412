"""A channel is one file: nothing else in the sources knows it by name."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from lagwatch.notify.channels.base import ChannelKind
from lagwatch.notify.channels.registry import KINDS

_ROOT = Path(__file__).parents[2]
_SOURCES = _ROOT / "lagwatch"
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


def test_the_manual_lists_every_channel_whose_options_are_checked() -> None:
    text = (_ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
    listed = re.search(
        r"^`lagwatch config check` also finds .*?^`serve` ", text, re.MULTILINE | re.DOTALL
    )
    assert listed is not None
    (unchecked,) = (field.default for field in fields(ChannelKind) if field.name == "doubts")

    checked = {table for table, kind in KINDS.items() if kind.doubts is not unchecked}

    assert {table for table in checked if table not in listed[0].lower()} == set()
    assert "slack" in checked

"""What Grafana shows in a panel: its own published code, fed with answers of a real Prometheus."""

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.dashboards import chosen
from tests.support.prometheus import Prometheus

NEUTRAL: Final = "#ccccdc"
"""Of texts, in Grafana's dark theme."""
_FOLDER: Final = Path(__file__).parent / "grafana"
_DEADLINE_S: Final = 120

Panel = Mapping[str, Any]
Cell = Mapping[str, Any]
"""`value` raw, `text` on the screen, `color` by its name."""
Shown = Mapping[str, Any]
"""`series` with `name` and `cells`; of a table `columns` and `rows` (heading → cell)."""


def shown(
    prometheus: Prometheus,
    panels: Sequence[Panel],
    *,
    choices: Mapping[str, str],
    at_s: float,
    over_s: float = 60,
) -> list[Shown]:
    """What the panels show of the `over_s` seconds until `at_s`, with these variables."""
    asked = [
        {"panel": panel, "answers": _answers(prometheus, panel, choices, at_s, over_s)}
        for panel in panels
    ]
    return as_shown(asked)


def _answers(
    prometheus: Prometheus, panel: Panel, choices: Mapping[str, str], at_s: float, over_s: float
) -> Mapping[str, Any]:
    return {
        target.get("refId") or "A": prometheus.answer(
            chosen(target["expr"], choices),
            at_s=at_s,
            over_s=0 if target.get("instant") else over_s,
        )
        for target in panel["targets"]
    }


def as_shown(asked: Sequence[Mapping[str, Any]]) -> list[Shown]:
    """What Grafana makes of panels and the answers to their queries."""
    done = subprocess.run(
        [_node(), "show.cjs"],
        cwd=_FOLDER,
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[Shown] = json.loads(done.stdout)
    return found


def _node() -> str:
    """The path of Node; without it, or without Grafana's packages, the test is skipped."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed (Debian: apt-get install nodejs npm)")
    if not (_FOLDER / "node_modules").is_dir():
        pytest.skip("Grafana's packages are missing: npm ci --prefix tests/support/grafana")
    return node

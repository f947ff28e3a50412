"""The files of CI services call the one program that says what must pass."""

from pathlib import Path
from typing import Final

import yaml

ROOT: Final = Path(__file__).parents[2]
RUN: Final = ".ci/run"


def test_github_runs_it() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())

    steps = workflow["jobs"]["test"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == [RUN]


def test_gitlab_runs_it() -> None:
    assert yaml.safe_load((ROOT / ".gitlab-ci.yml").read_text())["test"]["script"] == [RUN]


def test_it_checks_and_tests() -> None:
    program = ROOT / RUN

    assert program.stat().st_mode & 0o111
    lines = program.read_text().splitlines()
    assert {"make check", 'if make test 2>&1 | tee "$first"; then'} <= set(lines)

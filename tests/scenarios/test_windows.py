"""The windows of `windows.txt`: a line is a case, and says why."""

import re
from pathlib import Path

import pytest

from lagwatch.core.explain import WindowInput, explain

LINES = [
    line
    for line in (Path(__file__).parent / "windows.txt").read_text().splitlines()
    if line and not line.startswith("#")
]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split("|")[-1].strip()[:60])
def test_window(line) -> None:
    verdict, commits, log_ends, now, why = (part.strip() for part in line.split("|"))
    status, rule = verdict.split()
    entries = re.findall(r"(\d+)@(\d+):(\d+|\?)", commits)
    assert len(entries) == len(commits.split())
    ends = [int(end) for end in log_ends.split()]

    (judged,) = explain(
        [
            WindowInput(
                offset=[int(offset) for offset, _, _ in entries],
                commit_ms=[int(second) * 1000 for _, second, _ in entries],
                lag=[None if lag == "?" else int(lag) for _, _, lag in entries],
                broker_offsets=ends,
                current_lag=max(0, ends[-1] - int(entries[-1][0])),
                now_ms=int(now) * 1000,
            )
        ]
    )

    assert (judged.status.name, judged.rule.word) == (status, rule), why

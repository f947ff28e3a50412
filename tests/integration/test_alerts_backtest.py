"""The back-test over recorded history decides as the live alerts would have."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

from lagwatch.cli.app import app
from lagwatch.core.record import Kind, Records, Text, schema
from lagwatch.core.record.records import DTYPE
from lagwatch.history.parquet import ParquetStore

_START_MS = 1_800_000_000_000
_KIND = Kind.GROUP_SAMPLES


def test_recorded_verdicts_are_replayed(tmp_path: Path) -> None:
    store = ParquetStore(str(tmp_path / "history"))
    store.write([_recorded([("WARN", 40), ("ERR", 80), ("ERR", 90), ("OK", 0)])], batch="b1")
    store.close()
    (tmp_path / "lagwatch.toml").write_text(
        f'[clusters.prod]\nbootstrap = ["x:1"]\n[history]\nurl = "{tmp_path / "history"}"\n'
    )
    (tmp_path / "policy.toml").write_text(
        '[alerts.policies.p]\nthreshold = "warning"\nminimum_lag = 50\nclose_for_s = 0\n'
    )

    result = CliRunner().invoke(
        app,
        [
            *("alert", "backtest", "--policy", str(tmp_path / "policy.toml"), "--json"),
            *("-c", str(tmp_path / "lagwatch.toml"), "--from", "2027-01-15", "--to", "2027-01-16"),
        ],
    )

    notices = json.loads(result.stdout)["notices"]
    assert [(notice["event"], notice["at_ms"] - _START_MS) for notice in notices] == [
        ("open", 30_000),
        ("close", 90_000),
    ]


def _recorded(verdicts: list[tuple[str, int]]) -> Records:
    size = len(verdicts)
    given: dict[str, Any] = {
        "cluster": Text.same("prod", size),
        "group": Text.same("billing", size),
        "status": Text.of([status for status, _ in verdicts]),
        "at_ms": np.arange(size, dtype=np.int64) * 30_000 + _START_MS,
        "total_lag": np.array([lag for _, lag in verdicts], np.int64),
        "complete": np.ones(size),
    }
    columns = {
        column.name: given.get(column.name, _unknown(column.type, size))
        for column in schema(_KIND).values()
    }
    return Records(kind=_KIND, columns=columns)


def _unknown(type_, size: int):
    if type_ not in DTYPE:
        return Text.same("x", size)
    dtype = DTYPE[type_]
    return np.full(size, np.nan if dtype is np.float64 else 0, dtype)

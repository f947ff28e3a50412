"""The back-test over recorded history decides as the live alerts would have."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from lagwatch.cli.app import app
from lagwatch.core.record import Kind, Records, Text, from_rows, schema
from lagwatch.core.record.records import DTYPE
from lagwatch.history.parquet import ParquetStore
from lagwatch.notify.backtest import from_file, from_history
from tests.support.history import NOON_MS, group_sample, happening

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


def test_a_recorded_loss_misses_its_objective_from_the_event_on(tmp_path: Path) -> None:
    """In the range of the replay: what was lost before may have been acknowledged."""
    store = ParquetStore(str(tmp_path / "history"))
    store.write([_recorded([("OK", 0)] * 6)], batch="b1")
    losses = [
        happening(
            cluster="prod", event="records_lost", at_ms=_START_MS + at_ms, count=count, **other
        )
        for at_ms, count, other in (
            (10_000, 40, {}),
            (80_000, 60, {"partition": 1}),
            (20_000, 500, {"group": "another"}),
            (-10_000, 500, {"partition": 2}),
        )
    ]
    store.write([from_rows(Kind.EVENTS, losses)], batch="b2")
    store.close()

    notices = _replayed(tmp_path, "lost_records = 100\nclose_for_s = 0\n", from_ms=_START_MS)

    assert [(notice["event"], notice["at_ms"] - _START_MS) for notice in notices] == [
        ("open", 90_000)
    ]


def test_a_loss_that_was_recorded_twice_counts_once(tmp_path: Path) -> None:
    store = ParquetStore(str(tmp_path / "history"))
    store.write([_recorded([("OK", 0)] * 6)], batch="b1")
    events: list[dict[str, Any]] = [
        {"at_ms": 10_000, "detail": '{"first": 0, "end": 60, "exact": true}'},
        {"at_ms": 10_900, "detail": '{"first": 0, "end": 60, "exact": true}'},
        {"at_ms": 40_000, "detail": '{"first": 30, "end": 80, "exact": false}'},
        {"at_ms": 70_000, "event": "topic_recreated", "partition": None, "detail": None},
        {"at_ms": 80_000, "detail": '{"first": 0, "end": 20, "exact": true}'},
    ]
    rows = [
        happening(**{"cluster": "prod", "event": "records_lost"} | event)
        | {"at_ms": _START_MS + event["at_ms"]}
        for event in events
    ]
    store.write([from_rows(Kind.EVENTS, rows)], batch="b2")

    samples = from_history(
        store, from_ms=_START_MS, to_ms=_START_MS + 200_000, cluster="prod", group=None
    )

    store.close()
    assert [sample.seen.lost for sample in samples] == [0, 60, 80, 100, 100, 100]


def test_a_stop_after_a_recorded_loss_is_sent(tmp_path: Path) -> None:
    store = ParquetStore(str(tmp_path / "history"))
    rules = ["records_lost", "records_lost", "stopped", "stopped"]
    store.write([_recorded([("ERR", 50)] * 4, rules=rules)], batch="b1")
    store.close()

    notices = _replayed(tmp_path, "")

    assert [(notice["event"], notice["reason"]) for notice in notices] == [
        ("open", "first"),
        ("escalate", "worse_kind"),
    ]


def test_samples_of_a_file_may_say_what_is_lost(tmp_path: Path) -> None:
    (tmp_path / "samples.csv").write_text(
        "at_ms,cluster,group,status,lost\n1000,prod,a,OK,\n2000,prod,a,OK,100\n3000,prod,a,OK,0\n"
    )

    samples = from_file(tmp_path / "samples.csv", from_ms=0, to_ms=10_000)

    assert [sample.seen.lost for sample in samples] == [0, 100, 0]


_CONFIGURED = """
[alerts]
also_to = ["mail"]
fallback = ["mail"]
[alerts.webhook.hook]
url = "http://127.0.0.1:9/"
[alerts.webhook.mail]
url = "http://127.0.0.1:9/"
[alerts.policies.old]
threshold = "never"
channels = ["hook"]
"""


@pytest.mark.parametrize("more", ["", '[alerts.webhook.own]\nurl = "http://127.0.0.1:9/"\n'])
def test_a_file_of_policies_may_name_the_channels_of_the_configuration(
    tmp_path: Path, more: str
) -> None:
    """Its policies replace those of the configuration; it may define more channels."""
    store = ParquetStore(str(tmp_path / "history"))
    store.write([_recorded([("ERR", 50), ("OK", 0)])], batch="b1")
    store.close()
    channels = 'channels = ["hook", "own"]' if more else 'channels = ["hook"]'

    notices = _replayed(tmp_path, f"{channels}\nclose_for_s = 0\n{more}", configured=_CONFIGURED)

    assert [(notice["event"], notice["policy"]) for notice in notices] == [
        ("open", "p"),
        ("close", "p"),
    ]


def test_a_channel_that_no_file_has_is_named(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('[alerts.policies.p]\nchannels = ["hok"]\n')
    (tmp_path / "lagwatch.toml").write_text(f'[clusters.prod]\nbootstrap = "x:1"\n{_CONFIGURED}')

    result = CliRunner().invoke(
        app,
        [
            *("alert", "backtest", "--policy", str(tmp_path / "p.toml")),
            *("-c", str(tmp_path / "lagwatch.toml")),
        ],
    )

    assert result.exit_code == 2
    assert "alerts.policies.p.channels" in result.stderr
    assert "Known: hook, mail." in result.stderr


def test_without_a_configuration_policies_may_name_any_channel(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('[alerts.policies.p]\nchannels = ["hook"]\n')
    (tmp_path / "s.csv").write_text("at_ms,cluster,group,status\n1000,c,g,ERR\n")

    result = CliRunner().invoke(
        app,
        [
            *("alert", "backtest", "--policy", str(tmp_path / "p.toml")),
            *("--samples", str(tmp_path / "s.csv"), "--json"),
        ],
    )

    assert result.exit_code == 0, result.output
    assert [notice["event"] for notice in json.loads(result.stdout)["notices"]] == ["open"]


def _replayed(
    folder: Path, policy: str, *, from_ms: int = 0, configured: str = ""
) -> list[dict[str, Any]]:
    """What `lagwatch alert backtest` prints of the recorded history under a policy."""
    (folder / "lagwatch.toml").write_text(
        f'[clusters.prod]\nbootstrap = ["x:1"]\n[history]\nurl = "{folder / "history"}"\n'
        f"{configured}"
    )
    (folder / "policy.toml").write_text(f"[alerts.policies.p]\n{policy}")
    begin = ["--from", datetime.fromtimestamp(from_ms / 1000, UTC).isoformat()] if from_ms else []
    result = CliRunner().invoke(
        app,
        [
            *("alert", "backtest", "--policy", str(folder / "policy.toml"), "--json"),
            *("-c", str(folder / "lagwatch.toml"), *begin),
        ],
    )
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)["notices"]
    return found


def _recorded(verdicts: list[tuple[str, int]], *, rules: list[str] | None = None) -> Records:
    size = len(verdicts)
    given: dict[str, Any] = {
        "cluster": Text.same("prod", size),
        "group": Text.same("billing", size),
        "status": Text.of([status for status, _ in verdicts]),
        "rule": Text.of(rules or ["progressing"] * size),
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


def test_a_history_without_samples_is_said_and_not_taken_for_silence(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("[alerts.policies.all]\n")
    (tmp_path / "lagwatch.toml").write_text(
        f'[clusters.prod]\nbootstrap = ["x:1"]\n[history]\nurl = "{tmp_path / "none"}"\n'
    )

    result = CliRunner().invoke(
        app,
        [
            *("alert", "backtest", "--policy", str(tmp_path / "policy.toml")),
            *("--config", str(tmp_path / "lagwatch.toml")),
        ],
    )

    assert result.exit_code == 3
    assert "nothing to replay" in result.stderr


def test_a_recorded_bound_is_no_measurement(tmp_path: Path) -> None:
    rows = [
        group_sample(at_ms=NOON_MS + 30_000 * number, time_lag_s=200.0, time_lag_reason=reason)
        for number, reason in enumerate(["earlier_offset", "beyond_history", "measured"])
    ]
    store = ParquetStore(str(tmp_path / "history"))
    store.write([from_rows(Kind.GROUP_SAMPLES, rows)], batch="b")
    samples = from_history(
        store, from_ms=NOON_MS, to_ms=NOON_MS + 90_000, cluster="here", group="billing"
    )
    store.close()

    seen = [sample.seen for sample in samples]
    assert [(each.time_lag_ms, each.time_lag_most_ms, each.time_lag_open) for each in seen] == [
        (-1, 200_000, False),
        (200_000, -1, True),
        (200_000, -1, False),
    ]

"""What processes load: what they never use would take memory all the time."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

_WRITES_AND_READS = """
import sys
import tempfile
from pathlib import Path
from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind
from lagwatch.history.arrow import from_stream, to_stream
from lagwatch.history.drivers.registry import open_store
from lagwatch.memory import keep_pandas_out
from tests.support.history import group_sample, group_samples, held

if {kept_out}:
    keep_pandas_out()
with tempfile.TemporaryDirectory() as folder:
    settings = HistorySettings(url=folder + "/store", spool=Path(folder, "spool"))
    store = open_store(settings)
    rows = group_samples([group_sample(status="ERR")])
    from_stream(rows.kind, to_stream(rows))
    store.write([rows], batch="one")
    print([row["status"] for row in held(store, Kind.GROUP_SAMPLES)], "pandas" in sys.modules)
"""


@pytest.mark.parametrize("kept_out", [True, False])
def test_the_history_is_written_and_read_without_pandas(kept_out) -> None:
    pytest.importorskip("pandas")

    done = subprocess.run(
        [sys.executable, "-c", _WRITES_AND_READS.format(kept_out=kept_out)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.stdout.split() == ["['ERR']", str(not kept_out)]


def test_a_collector_loads_what_reads_kafka_and_nothing_else_of_ours() -> None:
    loaded = _loaded_by("lagwatch.collector.__main__")

    rooms = {".".join(name.split(".")[:2]) for name in loaded}
    assert "lagwatch.kafka" in rooms
    assert not rooms & {
        *("lagwatch.notify", "lagwatch.history", "lagwatch.monitor", "lagwatch.query"),
        *("lagwatch.metrics", "pyarrow", "pandas"),
    }
    assert "lagwatch.config.settings" not in " ".join(loaded)


def test_a_service_without_history_loads_no_pyarrow() -> None:
    loaded = _loaded_by("lagwatch.cli.serve, lagwatch.service, lagwatch_api")

    assert [name for name in loaded if name.startswith(("pyarrow", "pandas"))] == []


def _loaded_by(modules: str) -> list[str]:
    """The modules that a new process has loaded once it has imported these."""
    program = f"import {modules}, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.split()

"""Jobs that are killed in a phase and run again at once, against the same job undisturbed.

Each job has a folder of its own with what it works on. A driver is killed with SIGKILL at a call
of one of the project's functions, in the driver or in one of its workers; then the same command
runs again, and must leave what an undisturbed run leaves.

Killed drivers are processes with a Spark of their own; what runs to its end uses the Spark of this
process, which the caller starts: that takes a second instead of ten.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from typer.testing import CliRunner

from lagwatch.cli import app
from lagwatch.clock import SystemClock
from lagwatch.core.record import Kind
from lagwatch.history.layout import DAY_MS, HOUR_MS, day_of, day_start_ms
from lagwatch.history.parquet import ParquetStore
from lagwatch.jobs.rollup.plan import ROLLUPS
from tests.support.copies import some_hours
from tests.support.history import NOON_MS, held
from tests.support.rollups import recording

ROOT: Final = Path(__file__).parents[2]
RECORDED: Final = (Kind.SAMPLES, Kind.GROUP_SAMPLES, Kind.EVENTS)
HOURS: Final = 4
_DEADLINE_S: Final = 300
_KILLED: Final = -9
_DAY: Final = day_of(SystemClock().now_ms() - DAY_MS)
"""Over, and rolled up by any run from five minutes past midnight on."""
_KILLER: Final = '''
"""Kills the driver when a function is called for the n-th time, in the driver or in a worker."""

import functools
import importlib.abc
import importlib.machinery
import operator
import os
import signal
import sys

_MODULE, _NAME, _CALLER, _TIME = os.environ["KILL_AT"].split(":")
_calls = 0


def _deadly(function):
    @functools.wraps(function)
    def call(*values, **named):
        global _calls
        if sys._getframe(1).f_code.co_filename.endswith(_CALLER):
            _calls += 1
            if _calls == int(_TIME):
                os.kill(int(open(os.environ["DRIVER_PID"]).read()), signal.SIGKILL)
        return function(*values, **named)

    return call


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the module of the function, and replaces the function once it is imported."""

    def find_spec(self, name, path, target=None):
        if name != _MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def then_replace(module):
            execute(module)
            _replace(module)

        spec.loader.exec_module = then_replace
        return spec


def _replace(module):
    owner, _, last = _NAME.rpartition(".")
    holder = operator.attrgetter(owner)(module) if owner else module
    setattr(holder, last, _deadly(vars(holder)[last]))


if _MODULE in sys.modules:
    _replace(sys.modules[_MODULE])
else:
    sys.meta_path.insert(0, _Finder())
'''
_START: Final = """
import os, sys
open(os.environ["DRIVER_PID"], "w").write(str(os.getpid()))
from lagwatch.cli import main
main()
"""
_CONFIG: Final = """
[clusters.here]
bootstrap = "127.0.0.1:9"
[history]
url = "{folder}/history"
spool = "{folder}/spool"
[history.retention]
{retention}
[jobs]
master = "local[1]"
driver_memory_mb = 512
[jobs.spark]
"spark.sql.shuffle.partitions" = 2
[jobs.report]
folder = "{folder}/reports"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A function whose call is the moment of the kill."""

    module: str
    function: str
    """Or method, after the name of its class."""
    calls: int = 1
    """At least so many calls of it happen in one process."""
    first: int = 1
    """The first call that counts: earlier ones belong to other work."""
    caller: str = ".py"
    """End of the path of the calling function's file."""

    def place(self, time: int) -> str:
        """For the killer: another call each time, as far as there are several."""
        number = self.first + time % self.calls
        return f"{self.module}:{self.function}:{self.caller}:{number}"


_WRITTEN: Final = Phase(module="lagwatch.history.folder", function="LocalFolder._written_beside")
PHASES: Final[Mapping[str, Mapping[str, Phase]]] = {
    "backfill": {
        "reading": Phase(module="lagwatch.jobs.backfill.copies", function="_records", calls=2),
        "judging": Phase(
            module="lagwatch.jobs.backfill.replay", function="Replay._close", calls=400
        ),
        "writing": replace(_WRITTEN, first=5, calls=8),
        "written": Phase(module="lagwatch.jobs.backfill.plan", function="Ledger.add", calls=4),
        "shard": Phase(module="lagwatch.jobs.backfill.plan", function="Ledger.close"),
        "event": Phase(module="lagwatch.jobs.backfill.filling", function="Filling._record"),
        "ending": Phase(
            module="lagwatch.jobs.stores.parquet.state",
            function="FolderState.delete",
            calls=3,
            caller="jobs/fence.py",
        ),
    },
    "rollup": {
        "reading": Phase(module="lagwatch.jobs.rollup.rows", function="Roller._read", calls=6),
        "aggregating": Phase(module="lagwatch.jobs.rollup.rows", function="roll_up", calls=6),
        "writing": replace(_WRITTEN, first=2, calls=3),
        "swapping": Phase(
            module="lagwatch.jobs.stores.parquet.rollups", function="delete", calls=3
        ),
        "watermark": Phase(module="lagwatch.jobs.rollup.job", function="_Run._remember"),
    },
    "compaction": {
        "reading": Phase(module="lagwatch.history.compact", function="_merge", calls=6),
        "writing": Phase(
            module="lagwatch.history.parquet_slots",
            function="ParquetSlots.publish",
            calls=6,
            caller="history/compact.py",
        ),
        "deleting": Phase(
            module="lagwatch.history.folder",
            function="LocalFolder.delete",
            calls=8,
            caller="history/compact.py",
        ),
    },
    "nightly": {
        "rolled": Phase(module="lagwatch.cli.report", function="report_day"),
        "reading": Phase(
            module="lagwatch.jobs.stores.parquet.rows", function="parquet_rows", calls=4
        ),
        "building": Phase(
            module="lagwatch.jobs.report.build", function="_Builder._collected", calls=8
        ),
        "page": Phase(module="lagwatch.jobs.report.deliver", function="documents"),
        "files": Phase(
            module="pathlib", function="Path.replace", calls=3, caller="report/deliver.py"
        ),
    },
}


class Killing:
    """One job: what it works on, made once, and what an undisturbed run makes of it."""

    def __init__(self, job: str, folder: Path) -> None:
        """`folder` is filled and may be deleted afterwards."""
        self.job = job
        self._folder = folder
        folder.mkdir(parents=True)
        killer = folder / "killer"
        killer.mkdir()
        (killer / "sitecustomize.py").write_text(_KILLER, encoding="utf-8")
        _MADE[job](self)

    @property
    def before(self) -> Path:
        """What the job begins with."""
        return self._folder / "before"

    @cached_property
    def expected(self) -> Mapping[str, Any]:
        """What an undisturbed run leaves."""
        undisturbed = self.copied("undisturbed")
        self.run(undisturbed)
        return self.left(undisturbed)

    def kill_and_repeat(self, phase: str, time: int) -> None:
        """Kill it in a phase, run it again at once, and compare.

        Raises:
            AssertionError: it was not killed, or the second run did not end well or left something
                else than an undisturbed run.
        """
        expected = self.expected
        place = self.copied(f"{phase}-{time}")
        killed = self._killed(place, PHASES[self.job][phase].place(time))
        self.run(place)
        said = killed.stdout + killed.stderr[-3000:]
        assert killed.returncode == _KILLED, f"{phase} {time}: it was not killed\n{said}"
        found = self.left(place)
        for name, value in expected.items():
            assert found[name] == value, f"{self.job} killed while {phase}, {time}: {name} differs"
        shutil.rmtree(place)

    def run(self, place: Path) -> None:
        """Run its command on a copy, in the Spark of this process.

        Raises:
            AssertionError: it did not end well.
        """
        done = CliRunner().invoke(app, self._command(place))
        assert done.exit_code == 0, f"{self.job}: {done.output[-3000:]}{done.exception!r}"

    def _killed(self, place: Path, kill_at: str) -> "subprocess.CompletedProcess[str]":
        """Run it in a process, and a Spark, of its own."""
        return subprocess.run(
            [sys.executable, "-c", _START, *self._command(place)],
            cwd=ROOT,
            env={
                **os.environ,
                "DRIVER_PID": str(place / "pid"),
                "KILL_AT": kill_at,
                "PYTHONPATH": str(self._folder / "killer"),
            },
            capture_output=True,
            text=True,
            timeout=_DEADLINE_S,
            check=False,
        )

    def left(self, place: Path) -> Mapping[str, Any]:
        """All that the job leaves behind, as far as it says nothing of the run itself."""
        store = ParquetStore(str(place / "history"))
        kinds = RECORDED if self.job == "backfill" else (*RECORDED, *ROLLUPS)
        rows = {
            kind.value: [row for row in held(store, kind) if row.get("event") not in _OF_RUNS]
            for kind in kinds
        }
        checked = store.verify()
        faults = {"duplicates": checked.duplicates, "torn": checked.torn}
        store.close()
        return {**rows, **faults, "beside": _beside(place), **_reports(place)}

    def copied(self, name: str) -> Path:
        """What it begins with, in a folder of that name."""
        place = self._folder / name
        shutil.copytree(self.before, place)
        config = place / "lagwatch.toml"
        retention = "\n".join(f"{kind.value}_days = 0" for kind in Kind)
        text = _CONFIG.format(folder=place, retention=retention)
        config.write_text(text, encoding="utf-8")
        return place

    def _command(self, place: Path) -> list[str]:
        config = ["-c", str(place / "lagwatch.toml")]
        if self.job != "backfill":
            name = "nightly" if self.job == "nightly" else "rollup"
            return [name, *config]
        hours = ["--since", _instant(NOON_MS), "--until", _instant(NOON_MS + HOURS * HOUR_MS)]
        source = ["--from", f"parquet:{place / 'copies'}", "--cluster", "here"]
        return ["backfill", *config, *source, *hours]

    # what they begin with

    def _copies(self) -> None:
        some_hours(self.before / "copies", hours=HOURS).write()
        ParquetStore(str(self.before / "history")).close()

    def _samples(self) -> None:
        store = ParquetStore(str(self.before / "history"))
        for number in range(6):
            start_ms = day_start_ms(_DAY) + number * 2 * HOUR_MS
            found = recording(number, rounds=100, thin=False, start_ms=start_ms)
            store.write(found.records(), batch=f"b{number}")
        store.close()

    def _small_files(self) -> None:
        store = ParquetStore(str(self.before / "history"))
        for number in range(6):
            start_ms = day_start_ms(_DAY) + number * 2 * HOUR_MS
            found = recording(number, rounds=100, thin=False, start_ms=start_ms)
            for part in range(2):
                store.write(found.part(part, 2).records(), batch=f"b{number}-{part}")
        store.close()


_OF_RUNS: Final = frozenset({"job", "recording"})
"""Events that tell of the run."""
_MADE: Final = {
    "backfill": Killing._copies,  # noqa: SLF001 of this file
    "rollup": Killing._samples,  # noqa: SLF001
    "compaction": Killing._small_files,  # noqa: SLF001
    "nightly": Killing._samples,  # noqa: SLF001
}


def _instant(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()


def _beside(place: Path) -> list[str]:
    """Plans and ledgers of work that was begun, and half-written reports."""
    jobs = place / "history" / "_jobs"
    begun = [path.name for path in jobs.glob("backfill-*.json")]
    return sorted(begun + [path.name for path in (place / "reports").glob(".*")])


def _reports(place: Path) -> Mapping[str, Any]:
    reports = {}
    for path in sorted((place / "reports").glob("*.json")):
        report = json.loads(path.read_bytes())
        report.pop("made_ms", None)
        reports[path.name] = report
    names = sorted(path.name for path in (place / "reports").glob("[!.]*"))
    return {"names": names, "reports": reports}

"""Roll-ups of samples in Parquet: against DuckDB on the same cores, more data, fewer cores.

DuckDB computes the same from the same files and writes it to Parquet: partitions, topics and
groups, 5 minutes, hours and days. Its quantiles are exact; ours of an hour and a day come from
sketches and may be 1 % off. Besides, ours can be merged and know of rows that were left out.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import numpy as np

from lagwatch.core.record import Kind
from lagwatch.history.parquet import ParquetStore
from tests.bench.bench_history import (
    GROUPS,
    HOUR_MS,
    INTERVAL_MS,
    PARTITIONS,
    START_MS,
    group_samples_of_hour,
    samples_of_hour,
)
from tests.bench.figures import Bound, Figure

CORES = 2
HOURS = (24, 48, 96)
"""10, 20 and 40 million samples."""
_TURNS = 3
_WITHIN_S = 900
_ROOT = Path(__file__).resolve().parents[2]
_STEPS_MS = {Kind.ROLLUP_5M: 300_000, Kind.ROLLUP_1H: HOUR_MS, Kind.ROLLUP_1D: 24 * HOUR_MS}
_LEVELS = {"partition": "moved", "topic": "rounds", "group": "groups"}


def run() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        history = Path(folder) / "history"
        few, some, many = HOURS
        write(history, range(many))
        duck = DuckDB(history, Path(folder))
        to_duck, to_one_core = [], []
        for _ in range(_TURNS):
            # what else runs on the machine changes by the minute: each turn has its own ratios
            of_duck, of_one_core = duck.roll_up(some), rolled_up(history, some, cores=1)
            seconds = rolled_up(history, some)
            to_duck.append(seconds / of_duck)
            to_one_core.append(of_one_core / seconds)
        duck.check(history)
        yield Figure(name="rollup_5m_row", value=bytes_of_row(history), unit="B", target=36.4)
        yield Figure(name="rollup_20m_to_duckdb", value=median(to_duck), unit="x", target=1.2)
        yield Figure(
            name="rollup_two_cores",
            value=median(to_one_core),
            unit="x",
            target=1.6,
            bound=Bound.AT_LEAST,
        )
        rates = [hours / rolled_up(history, hours) for hours in (few, many)]
        yield Figure(name="rollup_linear", value=rates[0] / rates[1], unit="x", target=1.2)


def bytes_of_row(history: Path) -> float:
    """Of the roll-ups of five minutes, in files; lags and time lags are random: the worst case."""
    (stored,) = (
        entry for entry in ParquetStore(str(history)).stats() if entry.kind is Kind.ROLLUP_5M
    )
    return stored.size_bytes / stored.rows


def write(folder: Path, hours: range) -> None:
    store = ParquetStore(str(folder))
    for hour in hours:
        groups = group_samples_of_hour(hour)
        # time lags are whole milliseconds, as lagwatch measures them
        whole = {"time_lag_s": np.round(groups.reals("time_lag_s"), 3)}
        groups = replace(groups, columns={**groups.columns, **whole})
        store.write([samples_of_hour(hour), groups], batch=f"h{hour:03}")


def rolled_up(folder: Path, hours: int, *, cores: int = CORES) -> float:
    """Seconds for the first so many hours."""
    command = [sys.executable, "-m", "tests.bench.rollup_child"]
    command += [f"local[{cores}]", str(folder), str(hours)]
    ended = subprocess.run(
        command, cwd=_ROOT, stdout=subprocess.PIPE, timeout=_WITHIN_S, check=True, text=True
    )
    seconds = float(ended.stdout.split()[-1])
    samples = hours * (HOUR_MS // INTERVAL_MS) * GROUPS * PARTITIONS
    print(f"  local[{cores}]: {samples:,} samples in {seconds:.1f} s", file=sys.stderr)
    return seconds


class DuckDB:
    """The same computation in SQL."""

    def __init__(self, history: Path, folder: Path) -> None:
        self._history = history
        self._out = folder
        self._spill = folder / "spill"

    def roll_up(self, hours: int) -> float:
        """Seconds for the first so many hours."""
        end_ms = START_MS + hours * HOUR_MS
        started_s = time.perf_counter()
        with self._connected() as connection:
            for table in (_MOVED, _ROUNDS, _GROUPS):
                connection.execute(table.format(history=self._history, end_ms=end_ms))
            for level, table in _LEVELS.items():
                for kind, step_ms in _STEPS_MS.items():
                    statement = _of_level(level, table, step_ms)
                    path = self._path(level, kind)
                    connection.execute(f"copy ({statement}) to '{path}' (compression zstd)")
        seconds = time.perf_counter() - started_s
        print(f"  DuckDB: {seconds:.1f} s", file=sys.stderr)
        return seconds

    def check(self, history: Path) -> None:
        """Is what Spark wrote the same, row by row, in all that both compute?"""
        with self._connected() as connection:
            for kind in _STEPS_MS:
                for level in _LEVELS:
                    wrong = _differing(connection, history, self._path(level, kind), level, kind)
                    assert wrong == 0, f"{wrong} rows of {kind} differ at level {level}"

    def _connected(self) -> Any:  # noqa: ANN401 DuckDB has no types
        config: dict[str, Any] = {
            "threads": CORES,
            "memory_limit": "8GB",
            "temp_directory": str(self._spill),
        }
        return duckdb.connect(config=config)

    def _path(self, level: str, kind: Kind) -> Path:
        return self._out / f"{level}-{kind}.parquet"


_MOVED = """
create temp table moved as
select "group", topic, "partition", at_ms, lag, time_lag_s, status, owner,
  greatest(log_end_offset - lag(log_end_offset) over series, 0) as produced,
  greatest(committed_offset - lag(committed_offset) over series, 0) as consumed,
  (commit_ms > lag(commit_ms) over series)::int as commits,
  least(coalesce(lead(at_ms) over series, at_ms + 30000) - at_ms, 30000) as held
from read_parquet('{history}/samples/**/*.parquet') where at_ms < {end_ms}
window series as (partition by "group", topic, "partition" order by at_ms)
"""
_ROUNDS = """
create temp table rounds as
select "group", topic, null::int as "partition", at_ms, sum(lag) as lag,
  max(time_lag_s) as time_lag_s, max(status) as status, arg_max(owner, lag) as owner,
  max(lag) as owner_lag, sum(produced) as produced, sum(consumed) as consumed,
  sum(commits) as commits, 30000 as held
from moved group by "group", topic, at_ms
"""
_GROUPS = """
create temp table groups as
select grouped.*, worst.owner, worst.owner_lag, worst.produced, worst.consumed, worst.commits from (
  select "group", null as topic, null::int as "partition", at_ms, total_lag as lag, time_lag_s,
    status, 30000 as held
  from read_parquet('{history}/group_samples/**/*.parquet') where at_ms < {end_ms}) as grouped
left join (
  select "group", at_ms, arg_max(owner, owner_lag) as owner, max(owner_lag) as owner_lag,
    sum(produced) as produced, sum(consumed) as consumed, sum(commits) as commits
  from rounds group by "group", at_ms) as worst using ("group", at_ms)
"""


def _of_level(level: str, table: str, step_ms: int) -> str:
    owner_lag = "lag" if level == "partition" else "owner_lag"
    return f"""
select "group", topic, "partition", at_ms // {step_ms} * {step_ms} as bucket_ms,
  count(*) as samples, count(lag) as lag_known, sum(lag) as lag_sum, min(lag) as lag_min,
  max(lag) as lag_max, avg(lag) as lag_avg, quantile_disc(lag, [0.5, 0.95, 0.99]) as quantiles,
  max(time_lag_s) as time_lag_max_s, quantile_disc(time_lag_s, 0.95) as time_lag_p95_s,
  coalesce(sum(held) filter (status = 'OK'), 0) / 1000 as ok_s,
  coalesce(sum(held) filter (status = 'WARN'), 0) / 1000 as warn_s,
  sum(produced) as produced, sum(consumed) as consumed, sum(commits) as commits,
  arg_max(owner, {owner_lag}) as owner, max({owner_lag}) as owner_lag
from {table} group by all order by all
"""  # noqa: S608 our own words


_EQUAL = (
    *("samples", "lag_known", "lag_sum", "lag_min", "lag_max", "owner_lag", "time_lag_max_s"),
    *("ok_s", "warn_s", "produced", "consumed", "commits"),
)
_QUANTILES = ("quantiles[1]", "quantiles[2]", "quantiles[3]", "time_lag_p95_s")
_OURS = ("lag_p50", "lag_p95", "lag_p99", "time_lag_p95_s")


def _differing(connection: Any, history: Path, theirs: Path, level: str, kind: Kind) -> int:  # noqa: ANN401
    """Rows that stand on one side only, or differ."""
    # 5 minutes hold ten values, and so are exact
    off = 0 if kind is Kind.ROLLUP_5M else 0.01
    differs = [
        *(f"ours.{name} is distinct from theirs.{name}" for name in _EQUAL),
        "abs(ours.lag_avg - theirs.lag_avg) > 1e-9 * theirs.lag_avg",
        *(
            f"abs(ours.{ours} - theirs.{name}) > {off} * theirs.{name} + 1e-9"
            for ours, name in zip(_OURS, _QUANTILES, strict=True)
        ),
        "theirs.samples is null",
        "ours.samples is null",
    ]
    (count,) = connection.execute(f"""
select count(*) from (
  select * from read_parquet('{history}/{kind}/**/*.parquet') where level = '{level}') as ours
full join '{theirs}' as theirs
  on ours."group" = theirs."group" and ours.topic is not distinct from theirs.topic
  and ours."partition" is not distinct from theirs."partition"
  and ours.bucket_ms = theirs.bucket_ms
where {" or ".join(differs)}
""").fetchone()  # noqa: S608 our own words
    return int(count)

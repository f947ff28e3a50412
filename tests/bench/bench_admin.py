"""Committed offsets of many groups in one round of admin mode, and memory over many rounds."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.bench.commit_load import OFFSETS_PARTITIONS, Load, make_topics, write_commits
from tests.bench.figures import Figure

ROOT = Path(__file__).parents[2]
ROUNDS = 50
WIDE = Load(groups=1000, topics=20, partitions=50, topics_per_group=2)
MANY = Load(groups=10_000, topics=20, partitions=10, topics_per_group=1)


def run() -> Iterator[Figure]:
    for name, load, number in (("1000x100", WIDE, ROUNDS), ("10000x10", MANY, 5)):
        seconds, rss, bare_s = _rounds(load, number)
        print(
            f"{name}: rounds of {np.median(seconds):.2f} s, {rss[-1] / 1e6:.0f} MB", file=sys.stderr
        )
        took_s = float(np.median(seconds))
        yield Figure(name=f"admin_{name}", value=took_s, unit="s", target=5)
        yield Figure(name=f"admin_{name}_to_bare", value=took_s / bare_s, unit="x", target=2)
        if number == ROUNDS:
            # the first rounds fill pools that stay
            early, late = np.median(rss[5:15]), np.median(rss[-10:])
            yield Figure(
                name="admin_memory_growth",
                value=float(late / early - 1) * 100,
                unit="%",
                target=5,
            )


def _rounds(load: Load, number: int) -> tuple[list[float], list[int], float]:
    """Seconds and resident bytes of each round; seconds of a bare loop."""
    with EmbeddedKafka(offsets_partitions=OFFSETS_PARTITIONS) as kafka:
        make_topics(kafka, load)
        write_commits(kafka, load, sweeps=1)
        # the coordinator reads the commits when it takes the partitions over
        kafka.stop_broker(0)
        kafka.start_broker(0)
        command = [sys.executable, "-m", "tests.bench.admin_rounds", kafka.bootstrap_servers]
        done = subprocess.run(
            [*command, str(number), str(load.groups)],
            check=True,
            capture_output=True,
            text=True,
            timeout=600,
            cwd=ROOT,
        )
    *lines, (bare_s,) = (line.split() for line in done.stdout.splitlines())
    assert all(int(line[3]) == load.rows for line in lines), lines[-1]
    return [float(line[0]) for line in lines], [int(line[1]) for line in lines], float(bare_s)

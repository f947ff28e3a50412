"""The benchmarks' own tools measure what they say."""

import math
import os
import subprocess
import sys

import pytest

from tests.bench.figures import Bound, Figure
from tests.bench.usage import cpu_time, family, rss_bytes

BUSY = "import os\nwhile sum(os.times()[:2]) < 0.3: pass\n"


@pytest.mark.parametrize(
    ("value", "bound", "verdict"),
    [
        (2.3, Bound.AT_MOST, "ok"),
        (2.31, Bound.AT_MOST, "SHORT"),
        (2.3, Bound.AT_LEAST, "ok"),
        (2.29, Bound.AT_LEAST, "SHORT"),
        (math.nan, Bound.AT_MOST, "SHORT"),
        (math.nan, Bound.AT_LEAST, "SHORT"),
    ],
)
def test_a_figure_is_ok_on_the_good_side_of_its_target(
    value: float, bound: Bound, verdict: str
) -> None:
    figure = Figure(name="ingest_cpu", value=value, unit="x", target=2.3, bound=bound)

    assert figure.line() == f"ingest_cpu {value:.4g} x 2.3 {verdict}"


@pytest.mark.slow
def test_cpu_time_counts_children_that_ended_inside_the_block() -> None:
    with cpu_time(os.getpid()) as spent:
        subprocess.run([sys.executable, "-c", BUSY], check=True, timeout=60)

    assert 0.25 <= spent.seconds < 5


def test_memory_is_that_of_the_whole_family() -> None:
    hoard = "x = bytearray(50_000_000)\nprint(flush=True)\ninput()"
    before_bytes = rss_bytes(os.getpid())
    with subprocess.Popen(
        [sys.executable, "-c", hoard], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()

        grown_bytes = rss_bytes(os.getpid()) - before_bytes
        alone = family((os.getpid(),), without=(child.pid,))
        child.communicate(b"\n")

    assert grown_bytes > 50_000_000
    assert child.pid not in alone

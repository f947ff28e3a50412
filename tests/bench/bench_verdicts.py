"""Verdicts on a simulated month with known truth, of both rule sets: false pages, misses, delays.

Burrow's rules judge the first eight days of it: their rates need no whole month.

A shorter run: `MONTH_GROUPS=100 MONTH_DAYS=2 make bench ONLY=verdicts`; also `MONTH_SHARDS`
(clusters), `MONTH_PROCESSES`, `MONTH_ROUND_S`, `MONTH_SEED` and `MONTH_COMPARED_DAYS`. With
`MONTH_JUDGES_TWICE=1` each round judges all rows as well, and must find the same.

Without `MONTH_SEED` each day has a seed of its own, which is printed: rules that are looked at with
one seed only come to fit its groups.
"""

import os
import resource
import sys
import time
from collections.abc import Iterator
from datetime import date

import numpy as np

from tests.bench.figures import Bound, Figure
from tests.bench.month import report
from tests.bench.month.drive import run as run_month
from tests.bench.month.plan import Size
from tests.bench.month.score import Score

_NO_TARGET = np.inf


def run() -> Iterator[Figure]:
    """The figures; the breakdown goes to standard error."""
    size = size_from(os.environ)
    began_s = time.perf_counter()
    processes = int(os.environ.get("MONTH_PROCESSES", os.cpu_count() or 1))
    scores = run_month(size, processes=processes)
    for line in report.lines(scores):
        print(line, file=sys.stderr)
    took_s = time.perf_counter() - began_s
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu_s = sum(each.ru_utime + each.ru_stime for each in spent)
    print(f"{size}: {took_s:.0f} s, {cpu_s:.0f} CPU s", file=sys.stderr)
    yield from figures(scores["lagwatch"], scores["burrow"])
    yield Figure(name="verdicts_seed", value=size.seed, unit="seed", target=_NO_TARGET)


def size_from(settings: "os._Environ[str] | dict[str, str]") -> Size:
    """The size of a run from the environment."""
    usual = Size()
    return Size(
        groups=int(settings.get("MONTH_GROUPS", usual.groups)),
        days=float(settings.get("MONTH_DAYS", usual.days)),
        shards=int(settings.get("MONTH_SHARDS", usual.shards)),
        round_s=int(settings.get("MONTH_ROUND_S", usual.round_s)),
        seed=int(settings.get("MONTH_SEED", date.today().toordinal())),  # noqa: DTZ011 any day does
        compared_days=float(settings.get("MONTH_COMPARED_DAYS", usual.compared_days)),
    )


def figures(ours: Score, burrow: Score) -> Iterator[Figure]:
    """Ours against Burrow's: pages, misses, delays; those without a target for comparison."""
    pages, their_pages = (
        score.per_1000_group_days(len(score.false_pages)) for score in (ours, burrow)
    )
    late_s, their_late_s = (_delay_s(score, 99) for score in (ours, burrow))
    per = "per_1000_group_days"
    yield Figure(name="verdicts_false_pages", value=pages, unit=per, target=0.1)
    yield _compared("verdicts_false_pages_burrow", their_pages, per)
    # no false page at all counts as one: a ratio needs a divisor
    fewer = their_pages / ours.per_1000_group_days(max(1, len(ours.false_pages)))
    yield Figure(
        name="verdicts_false_pages_fewer", value=fewer, unit="x", target=100, bound=Bound.AT_LEAST
    )
    yield Figure(name="verdicts_missed", value=len(ours.missed), unit="troubles", target=0)
    yield _compared("verdicts_missed_burrow", len(burrow.missed), "troubles")
    yield _compared("verdicts_delay_median", _delay_s(ours, 50), "s")
    yield _compared("verdicts_delay_median_burrow", _delay_s(burrow, 50), "s")
    yield Figure(name="verdicts_delay_p99", value=late_s, unit="s", target=2 * their_late_s)
    yield _compared("verdicts_delay_p99_burrow", their_late_s, "s")
    for name, score in (("", ours), ("_burrow", burrow)):
        warnings = score.per_1000_group_days(len(score.false_warnings))
        yield _compared(f"verdicts_false_warnings{name}", warnings, per)
        hours = sum(call.length_s for call in score.false_pages) / 3600
        yield _compared(f"verdicts_false_page_hours{name}", hours, "h")


def _compared(name: str, value: float, unit: str) -> Figure:
    return Figure(name=name, value=value, unit=unit, target=_NO_TARGET)


def _delay_s(score: Score, percentile: float) -> float:
    return float(np.percentile(score.delays_s, percentile)) if score.delays_s else float("nan")

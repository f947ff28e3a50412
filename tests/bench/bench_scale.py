"""Advice for autoscalers against KEDA's lag threshold, on the same loads.

Each trace lasts six hours. The threshold is set by somebody who knows what a consumer does and sets
what it reads in half of the objective; with one threshold for fast and slow groups alike; and to
KEDA's default.
"""

import sys
from collections.abc import Callable, Iterator

import numpy as np

from tests.bench.figures import Bound, Figure
from tests.bench.scaling.policies import advised, by_lag_threshold
from tests.bench.scaling.traces import traces
from tests.bench.scaling.world import Outcome, Policy, Trace
from tests.bench.scaling.world import run as live

_TARGET_S = 60.0
_SEED = 7
_POLICIES: dict[str, Callable[[Trace], Policy]] = {
    "lagwatch": lambda _: advised(_TARGET_S),
    "keda_tuned": lambda trace: by_lag_threshold(trace.capacity_per_s[0] * _TARGET_S / 2),
    "keda_one": lambda _: by_lag_threshold(1000),
    "keda_default": lambda _: by_lag_threshold(10),
}


def run() -> Iterator[Figure]:
    """Share of time within the objective, and consumer-hours; each trace goes to stderr."""
    found: dict[str, list[Outcome]] = {name: [] for name in _POLICIES}
    for trace in traces(_SEED):
        for name, make in _POLICIES.items():
            outcome = live(trace, make(trace), target_s=_TARGET_S)
            found[name].append(outcome)
            print(
                f"{trace.name:14} {name:13} within {outcome.within:.3f} "
                f"hours {outcome.consumer_hours:6.1f} changes {outcome.changes}",
                file=sys.stderr,
            )
    within = {
        name: float(np.mean([result.within for result in all_])) for name, all_ in found.items()
    }
    hours = {name: sum(result.consumer_hours for result in all_) for name, all_ in found.items()}
    yield Figure(
        name="scale_within_objective",
        value=within["lagwatch"],
        unit="share",
        target=0.95,
        bound=Bound.AT_LEAST,
    )
    yield Figure(
        name="scale_missed_against_tuned",
        value=(1 - within["lagwatch"]) / (1 - within["keda_tuned"]),
        unit="x",
        target=0.8,
    )
    yield Figure(
        name="scale_hours_against_tuned",
        value=hours["lagwatch"] / hours["keda_tuned"],
        unit="x",
        target=1.2,
    )
    yield Figure(
        name="scale_hours_against_default",
        value=hours["lagwatch"] / hours["keda_default"],
        unit="x",
        target=0.8,
    )
    for name in _POLICIES:
        for figure, unit, value in (
            (f"scale_within_{name}", "share", within[name]),
            (f"scale_hours_{name}", "consumer-hours", hours[name]),
        ):
            yield Figure(name=figure, value=value, unit=unit, target=np.inf)

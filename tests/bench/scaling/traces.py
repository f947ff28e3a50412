"""Loads of some hours, as groups have them."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tests.bench.scaling.world import Trace

_HOURS = 6
_SECONDS = _HOURS * 3600

Floats = NDArray[np.float64]


def traces(seed: int) -> Iterator[Trace]:
    """Each kind of load with a slow and a fast consumer."""
    for capacity in (20.0, 2000.0):
        random = np.random.default_rng(seed)
        for name, load in _loads(random).items():
            # of what six consumers do
            produced = random.poisson(np.maximum(load, 0) * 6 * capacity).astype(np.float64)
            speed = np.full(_SECONDS, capacity)
            yield Trace(name=f"{name}_{capacity:g}", produced_per_s=produced, capacity_per_s=speed)
        slower = np.where(np.arange(_SECONDS) < _SECONDS // 2, capacity, capacity / 2)
        produced = random.poisson(np.full(_SECONDS, 2.0 * capacity)).astype(np.float64)
        yield Trace(name=f"slower_{capacity:g}", produced_per_s=produced, capacity_per_s=slower)


def _loads(random: np.random.Generator) -> dict[str, Floats]:
    at = np.arange(_SECONDS)
    bursts = np.full(_SECONDS, 0.2)
    for begin in random.integers(1800, _SECONDS - 900, 5).tolist():
        bursts[begin : begin + 600] = 1.2
    return {
        "steady": np.full(_SECONDS, 0.6),
        "day": 0.7 + 0.6 * np.sin(2 * np.pi * at / _SECONDS),
        "bursts": bursts,
        "ramp": np.linspace(0.1, 1.6, _SECONDS),
        "batch": np.where(at % 3600 < 300, 2.5, 0.05),
    }

"""what a benchmark yields: one figure and the target it is held against."""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never


class Bound(StrEnum):
    """On which side of its target a figure is good."""

    AT_MOST = "at_most"
    AT_LEAST = "at_least"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured number."""

    name: str
    """One word, beginning with the benchmark's name: `ingest_cpu_ratio`."""
    value: float
    unit: str
    """One word: `ms`, `bytes/row`, `x` for a ratio."""
    target: float
    bound: Bound = Bound.AT_MOST

    @property
    def ok(self) -> bool:
        """Is the target met? Not-a-number never meets one."""
        match self.bound:
            case Bound.AT_MOST:
                return self.value <= self.target
            case Bound.AT_LEAST:
                return self.value >= self.target
            case _:
                assert_never(self.bound)

    def line(self) -> str:
        """Return `name value unit target ok|SHORT`."""
        verdict = "ok" if self.ok else "SHORT"
        return f"{self.name} {self.value:.4g} {self.unit} {self.target:g} {verdict}"

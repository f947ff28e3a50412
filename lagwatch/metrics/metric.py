"""What a metric is: its name, kind, unit and labels."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How the values of a metric move."""

    GAUGE = "gauge"
    COUNTER = "counter"
    """Only grows, from zero at the start of the process; its name ends in `_total`."""
    INFO = "info"
    """Always 1: what it says is in its labels; its name ends in `_info`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric family."""

    name: str
    labels: tuple[str, ...]
    help: str
    """One line, without backslashes and quotation marks."""
    kind: Kind = Kind.GAUGE
    unit: str = ""
    """Last word of the name: messages, seconds, bytes, ratio; "" where there is none."""

    @property
    def family(self) -> str:
        """The name without the suffix of its kind: what OpenMetrics calls it."""
        match self.kind:
            case Kind.COUNTER:
                return self.name.removesuffix("_total")
            case Kind.INFO:
                return self.name.removesuffix("_info")
            case _:
                return self.name

"""A set of metrics under the names of another exporter."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lagwatch.metrics.labels import Dialect, Labels
from lagwatch.metrics.metric import Metric
from lagwatch.metrics.source import Column, Source, Values
from lagwatch.metrics.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The metrics of another exporter, as far as we know their values."""

    name: str
    names: Dialect
    columns: tuple[Source, ...]


def column(
    name: str,
    labels: Labels,
    values: Callable[[View], Values],
    meaning: str,
    *,
    tails: Callable[[View], Iterable[str]] | None = None,
) -> Column:
    """A gauge; its labels are what `labels` writes in the profile's dialect."""
    metric = Metric(name=name, labels=(), help=meaning)
    return Column(metric=metric, labels=labels, values=values, tails=tails)

"""Metrics that are columns of a snapshot, and the lines they become."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import compress
from operator import add
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lagwatch.metrics.labels import Dialect, LabelBook, Labels
from lagwatch.metrics.metric import Metric, lines
from lagwatch.metrics.view import View

Values = NDArray[np.integer] | NDArray[np.floating]


class MetricSource(Protocol):
    """Where the lines of one metric come from."""

    @property
    def metric(self) -> Metric: ...

    def lines(self, view: View, book: LabelBook, names: Dialect) -> Iterator[str]:
        """Text of the lines of one cluster, in pieces."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSource:
    """A metric with one value for each of its labels; below zero and NaN: no line."""

    metric: Metric
    labels: Labels
    values: Callable[[View], Values]
    tails: Callable[[View], Iterable[str]] | None = None
    """More labels, one text behind each of the others."""

    def lines(self, view: View, book: LabelBook, names: Dialect) -> Iterator[str]:
        values = self.values(view)
        labels: Iterable[str] = book.get(self.labels, names)
        if self.tails is not None:
            labels = map(add, labels, self.tails(view))
        known = values >= 0
        if known.all():
            return lines(self.metric.name, labels, values.tolist())
        kept = compress(labels, known.tolist())
        return lines(self.metric.name, kept, values[known].tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """One line for each state, 1 for the one that holds and 0 for the others.

    The last label of the metric takes the states as its values.
    """

    metric: Metric
    labels: Labels
    states: tuple[str, ...]
    codes: Callable[[View], NDArray[np.integer]]
    """Index into `states`; -1 unknown: no line."""
    only_held: bool = False
    """True: write no lines for states that do not hold."""

    def lines(self, view: View, book: LabelBook, names: Dialect) -> Iterator[str]:
        codes, labels = self.codes(view), book.get(self.labels, names)
        known = codes >= 0
        for number, state in enumerate(self.states):
            held = codes == number
            chosen = held if self.only_held else known
            tail = f',{self.metric.labels[-1]}="{state}"'
            kept = (label + tail for label in compress(labels, chosen.tolist()))
            yield from lines(self.metric.name, kept, held[chosen].astype(np.int8).tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many things are in each state; no line where the number is 0.

    The last label of the metric takes the states as its values.
    """

    metric: Metric
    labels: Labels
    states: Mapping[str, Callable[[View], Values]]
    """State → the counts; below zero: no line."""

    def lines(self, view: View, book: LabelBook, names: Dialect) -> Iterator[str]:
        labels = book.get(self.labels, names)
        for state, values in self.states.items():
            counts = values(view)
            known = counts >= 0
            tail = f',{self.metric.labels[-1]}="{state}"'
            kept = (label + tail for label in compress(labels, known.tolist()))
            yield from lines(self.metric.name, kept, counts[known].tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Metrics of another exporter whose values lagwatch knows."""

    name: str
    names: Dialect
    columns: tuple[MetricSource, ...]


def column(
    name: str,
    labels: Labels,
    values: Callable[[View], Values],
    meaning: str,
    *,
    tails: Callable[[View], Iterable[str]] | None = None,
) -> ColumnSource:
    """A gauge; its labels are what `labels` writes in the profile's dialect."""
    metric = Metric(name=name, labels=(), help=meaning)
    return ColumnSource(metric=metric, labels=labels, values=values, tails=tails)

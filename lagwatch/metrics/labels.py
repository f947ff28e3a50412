"""Labels as text, `{cluster="a",group="b"`, open at the end: one for each value of a column."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from operator import add

import numpy as np

from lagwatch.core.model import Member
from lagwatch.metrics.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Names of the labels."""

    cluster: str = "cluster"
    group: str = "group"
    topic: str = "topic"
    partition: str = "partition"


NATIVE = Dialect()

Labels = Callable[[View, Dialect], Sequence[str]]


class LabelBook:
    """The labels of one view, each kind made once."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._made: dict[tuple[Labels, Dialect], Sequence[str]] = {}

    def get(self, labels: Labels, names: Dialect) -> Sequence[str]:
        key = (labels, names)
        if key not in self._made:
            self._made[key] = labels(self._view, names)
        return self._made[key]


def of_cluster(view: View, names: Dialect) -> Sequence[str]:
    """The cluster, once."""
    return [f'{{{names.cluster}="{escape(view.snapshot.cluster)}"']


def of_groups(view: View, names: Dialect) -> Sequence[str]:
    """By group."""
    (head,) = of_cluster(view, names)
    return [f'{head},{names.group}="{escape(group)}"' for group in view.snapshot.groups]


def of_group_topics(view: View, names: Dialect) -> Sequence[str]:
    """By (group, topic) pair."""
    return _pairs(view, names, view.pair_first)


def of_partitions(view: View, names: Dialect) -> Sequence[str]:
    """By row that is shown."""
    group, topic = view.of_shown(view.row_group), view.of_shown(view.rows.topic)
    if not group.size:
        return []
    first = np.append(0, np.flatnonzero((np.diff(group) != 0) | (np.diff(topic) != 0)) + 1)
    heads = _pairs(view, names, view.shown[first])
    sizes = np.diff(np.append(first, group.size))
    return _numbered(heads, sizes.tolist(), view.of_shown(view.rows.partition).tolist(), names)


def of_topics(view: View, names: Dialect) -> Sequence[str]:
    """By topic that is visible."""
    (head,) = of_cluster(view, names)
    return [f'{head},{names.topic}="{escape(topic)}"' for topic in view.snapshot.topics.names]


def of_topic_partitions(view: View, names: Dialect) -> Sequence[str]:
    """By partition of the visible topics."""
    sizes = view.topic_partitions.tolist()
    partitions = list(chain.from_iterable(map(range, sizes)))
    return _numbered(of_topics(view, names), sizes, partitions, names)


def of_owners(view: View, text: Callable[[Member | None], str]) -> Iterable[str]:
    """By row that is shown: labels for who holds the partition, made once for each member."""
    owners = view.owners
    texts = {key: text(owner) for key, owner in {id(owner): owner for owner in owners}.items()}
    return map(texts.__getitem__, map(id, owners))


def _pairs(
    view: View, names: Dialect, rows: "np.ndarray[tuple[int], np.dtype[np.int64]]"
) -> list[str]:
    """Group and topic of these rows."""
    groups = of_groups(view, names)
    topics = [f',{names.topic}="{escape(topic)}"' for topic in view.snapshot.topic_names]
    return [
        groups[group] + topics[topic]
        for group, topic in zip(
            view.row_group[rows].tolist(), view.rows.topic[rows].tolist(), strict=True
        )
    ]


def _numbered(
    heads: Iterable[str], sizes: Iterable[int], partitions: Sequence[int], names: Dialect
) -> list[str]:
    """Repeat each head `sizes` times, followed by the number of a partition."""
    tails = [f',{names.partition}="{number}"' for number in range(max(partitions, default=-1) + 1)]
    repeated = chain.from_iterable(map(repeat, heads, sizes))
    return list(map(add, repeated, map(tails.__getitem__, partitions)))


def escape(value: str) -> str:
    """A label's value as it is between quotation marks; what is not Unicode, escaped."""
    if not value.isascii():
        value = value.encode("utf-8", "backslashreplace").decode()
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

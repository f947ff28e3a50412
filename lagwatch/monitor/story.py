"""The newest events of each group, in memory."""

from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, Protocol

from lagwatch.core.record import EventName
from lagwatch.errors import NotFoundError
from lagwatch.ports.queries import GroupEvent

_OF_GROUP: Final = 200
_OF_CLUSTER: Final = 50_000
_LEFT: Final = frozenset({EventName.MEMBER_LEFT.value, EventName.STATIC_MEMBER_AWAY.value})


class Story:
    """The newest events of a cluster's groups; used from one thread.

    Who left last stays, however many events follow: a cause may rest on it as long as the group is
    known. About 500 bytes per event. When there are too many, those go first whose group
    has had no event for longest.
    """

    def __init__(self, *, of_group: int = _OF_GROUP, of_cluster: int = _OF_CLUSTER) -> None:
        self._of_group = of_group
        self._of_cluster = of_cluster
        self._groups: OrderedDict[str, deque[GroupEvent]] = OrderedDict()
        self._number = 0
        self._unsent: list[GroupEvent] = []

    def add(self, event: GroupEvent) -> None:
        """Take an event in; events of a group come in the order of time."""
        events = self._groups.setdefault(event.group, deque())
        self._groups.move_to_end(event.group)
        events.append(event)
        self._number += 1
        if len(events) > self._of_group:
            kept = _newest(events, self._of_group)
            self._number -= len(events) - len(kept)
            self._groups[event.group] = deque(kept)
        while self._number > self._of_cluster:
            _, dropped = self._groups.popitem(last=False)
            self._number -= len(dropped)
        if event.to_record:
            self._unsent.append(event)

    def of(self, group: str) -> tuple[GroupEvent, ...]:
        """Events of a group, oldest first."""
        return tuple(self._groups.get(group, ()))

    def newest(self, of_group: int) -> Iterator[GroupEvent]:
        """So many of the newest events of every group; those whose group had one last come last."""
        for events in self._groups.values():
            yield from _newest(events, of_group)

    def restore(self, events: Iterable[GroupEvent]) -> None:
        """Begin with events of an earlier process, which has recorded them."""
        for event in events:
            self.add(replace(event, to_record=False))

    def clear(self) -> None:
        """Forget all events but those that are still to be recorded."""
        self._groups.clear()
        self._number = 0

    def take(self) -> tuple[GroupEvent, ...]:
        """Events to be recorded since the last call."""
        unsent, self._unsent = self._unsent[-self._of_cluster :], []
        return tuple(unsent)


def _newest(events: Collection[GroupEvent], number: int) -> list[GroupEvent]:
    """So many of them, oldest first; before them comes who left last of each kind, if no newer."""
    before, newest = list(events)[:-number], list(events)[-number:]
    left = {event.event: event for event in before if event.event in _LEFT}
    newer = {event.event for event in newest}
    return [*(event for name, event in left.items() if name not in newer), *newest]


class _Told(Protocol):
    """A cluster with a story."""

    @property
    def story(self) -> Story: ...


class Stories:
    """Events of the groups of all clusters (`ports.EventQueries`)."""

    def __init__(self, clusters: Mapping[str, _Told]) -> None:
        self._clusters = clusters

    def events(self, cluster: str, group: str) -> tuple[GroupEvent, ...]:
        """Oldest first; empty for a group of which nothing is known.

        Raises:
            NotFoundError: the cluster is not known.
        """
        found = self._clusters.get(cluster)
        if found is None:
            raise NotFoundError(kind="cluster", name=cluster)
        return found.story.of(group)

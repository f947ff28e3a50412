"""Tombstones of groups: is the group gone, or does it only change its protocol?

A group that goes over from the classic protocol to KIP-848, or back, has its record of the one
kind removed and one of the other kind written right behind; its offsets stay. So a tombstone waits
a moment before it counts.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lagwatch.core.wire import (
    ClassicGroup,
    ConsumerGroupEpoch,
    GroupRecord,
    GroupTombstone,
    KeyKind,
)
from lagwatch.ports import GroupsGone

HOLD_S: Final = 1.0

_GONE: Final = frozenset({KeyKind.GROUP_METADATA, KeyKind.CONSUMER_GROUP_METADATA})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    tombstone: GroupTombstone
    due_s: float


class Tombstones:
    """Holds tombstones back until they are `HOLD_S` old."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}

    def __bool__(self) -> bool:
        """Whether any is held back; then positions must not be told yet."""
        return bool(self._held)

    def add(self, records: Iterable[GroupRecord], *, now_s: float) -> None:
        """Take tombstones in; drop those that a record of the other kind follows."""
        for record in records:
            if isinstance(record, GroupTombstone) and record.kind in _GONE:
                self._held[record.group] = _Held(tombstone=record, due_s=now_s + HOLD_S)
            elif (kind := _kind(record)) is not None:
                held = self._held.get(record.group)
                if held is not None and held.tombstone.kind is not kind:
                    del self._held[record.group]

    def due(self, *, now_s: float) -> GroupsGone | None:
        """Groups that are gone; None when there are none."""
        gone = [each.tombstone for each in self._held.values() if each.due_s <= now_s]
        if not gone:
            return None
        for tombstone in gone:
            del self._held[tombstone.group]
        return GroupsGone(
            groups=tuple(each.group for each in gone),
            orders=tuple(each.order for each in gone),
        )


def _kind(record: GroupRecord) -> KeyKind | None:
    match record:
        case ClassicGroup():
            return KeyKind.GROUP_METADATA
        case ConsumerGroupEpoch():
            return KeyKind.CONSUMER_GROUP_METADATA
        case _:
            return None

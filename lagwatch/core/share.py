"""Position of a share group (KIP-932) in one partition, from the records of its state.

A share group has no committed offset. Everything before its start offset is done, and so are some
records behind it. `position` is the start offset plus the number of those: it grows by one with
every record that is done, so it plays the part of the committed offset, and

    lag = log end offset - start offset - records done behind it = log end offset - position

as Kafka's own tool counts it. Records in flight are not done: they are part of the lag.

Source: KIP-1226.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from lagwatch.core.model import UNKNOWN, SharePartition
from lagwatch.core.wire import COMPLETED, DeliveryState, ShareStateRecord, StateBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareState:
    """State of one share-partition."""

    start_offset: int = UNKNOWN
    """-1: nothing was delivered yet."""
    completed: int = 0
    """Records done behind the start offset."""
    batches: tuple[StateBatch, ...] = ()
    """Of the records behind the start offset, ascending and without overlaps."""

    @property
    def position(self) -> int:
        """What the log end offset is compared with; -1: nothing was delivered yet."""
        return UNKNOWN if self.start_offset < 0 else self.start_offset + self.completed

    def after(self, record: ShareStateRecord) -> "ShareState":
        """The state once a snapshot or an update was written (not a removal)."""
        start = record.start_offset
        if start < 0 and not record.snapshot:
            start = self.start_offset
        before = () if record.snapshot else self.batches
        batches = _behind(start, _overlaid(before, record.batches))
        counted = sum(each.records for each in batches if each.state in COMPLETED)
        completed = counted if record.completed < 0 else record.completed
        return ShareState(start_offset=start, completed=completed, batches=batches)

    def shown(self) -> SharePartition:
        """The state as readers see it."""
        waiting = [each for each in self.batches if each.state == DeliveryState.AVAILABLE]
        return SharePartition(
            start_offset=self.start_offset,
            completed=self.completed,
            delivered_again=sum(each.records for each in waiting if each.deliveries > 0),
            most_deliveries=max((each.deliveries for each in waiting), default=0),
        )


def _overlaid(before: Iterable[StateBatch], after: Iterable[StateBatch]) -> Sequence[StateBatch]:
    """Batches of an update take the place of what was known of their offsets."""
    batches = list(before)
    for new in after:
        begin = bisect_left(batches, new.first, key=attrgetter("last"))
        end = bisect_right(batches, new.last, key=attrgetter("first"))
        touched = batches[begin:end]
        head = [_part(each, each.first, new.first - 1) for each in touched[:1]]
        tail = [_part(each, new.last + 1, each.last) for each in touched[-1:]]
        # a batch that only touches the new one on the inside leaves an empty part
        batches[begin:end] = [each for each in (*head, new, *tail) if each.records > 0]
    return batches


def _behind(start: int, batches: Iterable[StateBatch]) -> tuple[StateBatch, ...]:
    return tuple(
        each if each.first >= start else _part(each, start, each.last)
        for each in batches
        if each.last >= start
    )


def _part(batch: StateBatch, first: int, last: int) -> StateBatch:
    return StateBatch(first=first, last=last, state=batch.state, deliveries=batch.deliveries)

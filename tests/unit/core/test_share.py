"""How far a share group has come: snapshots, updates, and records counted one by one."""

from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.model import UNKNOWN
from lagwatch.core.share import ShareState
from lagwatch.core.wire import COMPLETED, DeliveryState, ShareStateRecord, StateBatch

AVAILABLE, ACKNOWLEDGED, ARCHIVED = (
    DeliveryState.AVAILABLE,
    DeliveryState.ACKNOWLEDGED,
    DeliveryState.ARCHIVED,
)


def record(
    start: int, *batches: tuple[int, int, int, int], snapshot: bool = False, completed: int = -1
) -> ShareStateRecord:
    return ShareStateRecord(
        group="g",
        topic_id="t",
        partition=0,
        order=0,
        removed=False,
        snapshot=snapshot,
        start_offset=start,
        completed=completed,
        batches=tuple(
            StateBatch(first=first, last=last, state=state, deliveries=deliveries)
            for first, last, state, deliveries in batches
        ),
    )


def test_a_share_partition_that_was_never_delivered_has_no_position() -> None:
    state = ShareState().after(record(UNKNOWN, snapshot=True))

    assert state.position == UNKNOWN


def test_the_position_counts_what_is_done_and_not_what_is_in_flight() -> None:
    state = ShareState().after(
        record(0, (0, 2, ACKNOWLEDGED, 1), (3, 3, ARCHIVED, 1), (4, 29, AVAILABLE, 1))
    )

    assert state.position == 4
    assert 30 - state.position == 26, "in flight is lag"


def test_the_count_of_kafka_is_taken_where_it_is_written() -> None:
    state = ShareState().after(record(10, (12, 12, ACKNOWLEDGED, 1), completed=7))

    assert state.position == 17


def test_an_update_without_a_start_offset_leaves_it_and_a_snapshot_replaces_all() -> None:
    state = ShareState().after(record(5, (6, 6, ACKNOWLEDGED, 1), snapshot=True))

    updated = state.after(record(UNKNOWN, (8, 8, ACKNOWLEDGED, 1)))
    replaced = updated.after(record(3, snapshot=True))

    assert (updated.start_offset, updated.completed) == (5, 2)
    assert (replaced.position, replaced.batches) == (3, ()), "set back by an administrator"


def test_records_that_were_released_are_shown_as_delivered_again() -> None:
    state = ShareState().after(
        record(0, (0, 3, AVAILABLE, 2), (4, 4, AVAILABLE, 4), (5, 9, AVAILABLE, 0))
    )

    shown = state.shown()

    assert (shown.delivered_again, shown.most_deliveries) == (5, 4)


BATCH = st.tuples(
    st.integers(0, 40), st.integers(0, 8), st.sampled_from(DeliveryState), st.integers(0, 5)
)


@given(st.lists(st.tuples(st.integers(0, 30), st.lists(BATCH, max_size=4)), max_size=8))
def test_updates_say_of_each_record_what_was_written_last(
    updates: list[tuple[int, list[tuple[int, int, DeliveryState, int]]]],
) -> None:
    state, truth, start = ShareState().after(record(0, snapshot=True)), dict[int, int](), 0

    for moved_to, batches in updates:
        start = max(start, moved_to)
        spans = [(first, first + more, kind, times) for first, more, kind, times in batches]
        state = state.after(record(start, *spans))
        for first, last, kind, _ in spans:
            truth |= dict.fromkeys(range(first, last + 1), kind)

    left = {offset: kind for offset, kind in truth.items() if offset >= start}
    delivered = {
        offset: batch.state
        for batch in state.batches
        for offset in range(batch.first, batch.last + 1)
    }
    assert delivered == left
    assert state.completed == sum(kind in COMPLETED for kind in left.values())
    assert len(delivered) == sum(batch.records for batch in state.batches), (
        "no offset is held twice"
    )

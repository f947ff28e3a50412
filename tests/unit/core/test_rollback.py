"""The plan that brings a group back to recorded offsets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.rollback import (
    RollbackPartition,
    RollbackPlan,
    RollbackState,
    Standing,
    partitions,
)

_PLACE = ("orders", 0)
_OFFSET = st.none() | st.integers(0, 50)


def _only(recorded: int | None, now: Standing) -> RollbackPartition:
    [found] = partitions({_PLACE: recorded}, {_PLACE: now})
    return found


@pytest.mark.parametrize(
    ("recorded", "committed", "state", "offset", "read_again", "skipped", "deleted"),
    [
        (40, 70, RollbackState.EXACT, 40, 30, 0, 0),
        (40, 35, RollbackState.EXACT, 40, 0, 5, 0),
        (40, None, RollbackState.EXACT, 40, None, None, 0),
        (10, 70, RollbackState.DELETED, 30, 40, 0, 20),
        (10, 20, RollbackState.DELETED, 30, 0, 0, 20),
        (40, 20, RollbackState.EXACT, 40, 0, 10, 0),
        (120, 70, RollbackState.BEYOND_END, 100, 0, 30, 0),
        (None, 70, RollbackState.NOT_COMMITTED_THEN, None, None, None, 0),
    ],
)
def test_a_log_from_30_to_100(
    *,
    recorded: int | None,
    committed: int | None,
    state: RollbackState,
    offset: int | None,
    read_again: int | None,
    skipped: int | None,
    deleted: int,
) -> None:
    found = _only(recorded, Standing(committed=committed, log_start=30, log_end=100))

    assert (found.state, found.offset, found.deleted) == (state, offset, deleted)
    assert (found.read_again, found.skipped) == (read_again, skipped)


def test_offsets_of_a_topic_that_was_created_anew_are_not_set() -> None:
    now = {_PLACE: Standing(committed=70, log_start=30, log_end=100)}
    [found] = partitions({_PLACE: 40}, now, recreated={"orders"})

    assert (found.state, found.offset, found.deleted) == (RollbackState.RECREATED, 30, 0)
    assert (found.read_again, found.skipped) == (40, 0)


def test_a_topic_that_is_gone_is_left_alone() -> None:
    [found] = partitions({_PLACE: 40}, {})

    assert (found.state, found.offset) == (RollbackState.NOT_VISIBLE, None)


@given(recorded=_OFFSET, committed=_OFFSET, start=_OFFSET, records=st.integers(0, 50))
def test_what_is_set_exists_and_the_counts_add_up(
    recorded: int | None, committed: int | None, start: int | None, records: int
) -> None:
    end = None if start is None else start + records
    found = _only(recorded, Standing(committed=committed, log_start=start, log_end=end))

    if found.offset is None:
        assert (found.read_again, found.skipped, found.deleted) == (None, None, 0)
        return
    assert start is not None
    assert end is not None
    assert start <= found.offset <= end
    assert found.deleted == max(0, start - (recorded or 0))
    if committed is not None:
        assert (found.read_again or 0) - (found.skipped or 0) == max(
            committed, start
        ) - found.offset


def test_the_csv_has_no_line_for_what_is_left_alone() -> None:
    now = Standing(committed=9, log_start=0, log_end=10)
    plan = RollbackPlan(
        cluster="here",
        group="billing",
        deployed_ms=1,
        version="4.1",
        at_ms=2,
        members=0,
        partitions=tuple(
            partitions({("b", 0): 3, ("a", 1): None, ("a", 0): 4}, {("b", 0): now, ("a", 0): now})
        ),
    )

    assert plan.csv() == "a,0,4\nb,0,3\n"
    assert plan.read_again == 11

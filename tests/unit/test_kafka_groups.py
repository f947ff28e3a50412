"""State of a group as the client library describes it, and where it has no word for it."""

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, Node, TopicPartition
from confluent_kafka.admin import ConsumerGroupDescription, MemberAssignment, MemberDescription

from lagwatch.kafka.groups import state_of


def _member(holds: tuple[int, ...], target: tuple[int, ...] | None) -> MemberDescription:
    def places(numbers: tuple[int, ...]) -> MemberAssignment:
        return MemberAssignment([TopicPartition("orders", number) for number in numbers])

    return MemberDescription(
        member_id="m",
        client_id="c",
        host="/10.0.0.1",
        assignment=places(holds),
        target_assignment=None if target is None else places(target),
    )


def _described(
    *members: MemberDescription,
    state: ConsumerGroupState = ConsumerGroupState.UNKNOWN,
    kind: ConsumerGroupType = ConsumerGroupType.CONSUMER,
) -> str:
    description = ConsumerGroupDescription(
        group_id="g",
        is_simple_consumer_group=False,
        members=list(members),
        partition_assignor="uniform",
        state=state,
        coordinator=Node(1, "localhost", 9092),
        type=kind,
    )
    return state_of(description)


@pytest.mark.parametrize(("holds", "target"), [((), (0,)), ((0, 1), (0,)), ((0,), (1, 0))])
def test_a_group_whose_members_do_not_hold_their_target_is_reconciling(
    holds: tuple[int, ...], target: tuple[int, ...]
) -> None:
    assert _described(_member((2,), (2,)), _member(holds, target)) == "Reconciling"


def test_a_state_is_unknown_only_where_nothing_shows_it() -> None:
    on_the_way = _member((), (0,))

    assert _described(on_the_way, state=ConsumerGroupState.STABLE) == "Stable"
    assert _described(on_the_way, kind=ConsumerGroupType.CLASSIC) == "Unknown"
    assert _described(_member((1, 0), (0, 1))) == "Unknown", "it may be Assigning"
    assert _described(_member((0,), None)) == "Unknown"

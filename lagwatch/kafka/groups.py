"""Groups through the Admin API: which there are, their state and members."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Final, TypeVar

from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    ConsumerGroupDescription,
    ListConsumerGroupsResult,
    MemberAssignment,
    MemberDescription,
)

from lagwatch.core.model import GroupInfo, Member
from lagwatch.errors import SourceError
from lagwatch.kafka import codes
from lagwatch.kafka.client import KafkaClients, kafka_error
from lagwatch.kafka.group_calls import GroupCalls
from lagwatch.kafka.patience import REQUEST_TIMEOUT_S
from lagwatch.sources import GroupDescriptions, GroupListing, ListedGroup

T = TypeVar("T")

_STATES: Final[Mapping[object, str]] = {
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.EMPTY: "Empty",
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
    ConsumerGroupState.DEAD: "Dead",
}
_TYPES: Final[Mapping[object, str]] = {
    ConsumerGroupType.CLASSIC: "classic",
    ConsumerGroupType.CONSUMER: "consumer",
}


class KafkaGroups:
    """Classic and KIP-848 groups, as a `GroupSource`."""

    def __init__(self, clients: KafkaClients) -> None:
        self._clients = clients
        self._calls = GroupCalls(clients, _ask)

    async def list_groups(self) -> GroupListing:
        """All groups we may see; share and streams groups are not among them."""
        doing = "listing groups"
        asked: Future[ListConsumerGroupsResult] = self._clients.admin.list_consumer_groups(
            request_timeout=REQUEST_TIMEOUT_S
        )
        answer = await self._clients.call(_result(asked, REQUEST_TIMEOUT_S), doing=doing)
        errors = [kafka_error(error) for error in answer.errors or []]
        # a group may be told by two brokers while its coordinator moves
        found = {
            each.group_id: ListedGroup(
                name=each.group_id,
                type=_TYPES.get(each.type, "unknown"),
                state=_STATES.get(each.state, "Unknown"),
            )
            for each in answer.valid or []
        }
        return GroupListing(
            groups=tuple(found.values()), problem=_broker_silent(errors[0]) if errors else ""
        )

    async def describe(self, names: Sequence[str]) -> GroupDescriptions:
        """State and members of these groups."""
        infos: list[GroupInfo] = []
        refused: list[str] = []
        missing: list[str] = []
        problems: dict[str, str] = {}
        async for answers in self._calls.ask_all(names):
            for name, answer in answers:
                match answer:
                    case ConsumerGroupDescription(state=ConsumerGroupState.DEAD):
                        missing.append(name)
                    case ConsumerGroupDescription():
                        infos.append(_info(answer))
                    case KafkaError() if answer.code() in codes.AUTHORIZATION:
                        refused.append(name)
                    case KafkaError() if answer.code() in codes.NO_GROUP:
                        missing.append(name)
                    case _:
                        reason = self._clients.causes.error(answer, doing="describing groups")
                        problems[name] = str(reason)
        return GroupDescriptions(
            infos=tuple(infos),
            refused=tuple(refused),
            missing=tuple(missing),
            problems=problems,
        )

    async def may_list_all(self) -> bool:
        """Whether we hold DESCRIBE on the cluster; a broker that tells nothing says no by that."""
        asked = self._clients.admin.describe_cluster(
            include_authorized_operations=True, request_timeout=REQUEST_TIMEOUT_S
        )
        doing = "asking for our rights on the cluster"
        try:
            answer = await self._clients.call(_result(asked, REQUEST_TIMEOUT_S), doing=doing)
        except SourceError as error:
            if error.kind == "authorization":
                return False
            raise
        return AclOperation.DESCRIBE in (answer.authorized_operations or ())


def _broker_silent(error: KafkaError) -> str:
    return f"a broker does not answer, the groups it coordinates are not listed ({error.str()})"


def _result(future: "Future[T]", timeout_s: float) -> Callable[[], T]:
    return lambda: future.result(timeout_s + 1)


def _ask(admin: AdminClient, group: str, timeout_s: float) -> Future[ConsumerGroupDescription]:
    asked: dict[str, Future[ConsumerGroupDescription]] = admin.describe_consumer_groups(
        [group], request_timeout=timeout_s
    )
    return asked[group]


def _info(description: ConsumerGroupDescription) -> GroupInfo:
    return GroupInfo(
        group=description.group_id,
        type=_TYPES.get(description.type, "unknown"),
        state=_STATES.get(description.state, "Unknown"),
        assignor=description.partition_assignor or "",
        coordinator=description.coordinator.id,
        members=tuple(_member(member) for member in description.members),
    )


def _member(member: MemberDescription) -> Member:
    return Member(
        member_id=member.member_id,
        client_id=member.client_id or "",
        host=member.host or "",
        instance_id=member.group_instance_id or "",
        assignment=_assignment(member.assignment),
    )


def _assignment(assignment: MemberAssignment | None) -> tuple[tuple[str, tuple[int, ...]], ...]:
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for each in assignment.topic_partitions if assignment is not None else ():
        by_topic[each.topic].append(each.partition)
    return tuple((topic, tuple(sorted(by_topic[topic]))) for topic in sorted(by_topic))

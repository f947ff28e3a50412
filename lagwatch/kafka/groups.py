"""Groups through the Admin API: which there are, their state, members and committed offsets."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, TypeVar

import structlog
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    ConsumerGroupDescription,
    ListConsumerGroupsResult,
    MemberAssignment,
    MemberDescription,
    TopicDescription,
)

from lagwatch.core.model import GroupInfo, Member
from lagwatch.errors import SourceError
from lagwatch.kafka import codes
from lagwatch.kafka.client import REQUEST_TIMEOUT_S, KafkaClients, kafka_error
from lagwatch.kafka.group_calls import CallAnswer, GroupCalls
from lagwatch.ports.kafka import CommittedOffsets, GroupDescriptions, GroupListing, ListedGroup

T = TypeVar("T")

_ALL_EVERY_S: Final = 30.0
_ALL_SHARE: Final = 100.0
"""Listing groups of all kinds may use at most a hundredth of the time."""

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

_KNOWN_WELL: Final = codes.AUTHORIZATION | codes.NO_GROUP
"""A coordinator answers so."""
_SETTLES_S: Final = 5.0
"""After a group's coordinator was silent, or was none."""

_LEADERS_TIMEOUT_S: Final = 1.0
"""Without an answer in that time the offsets are asked for all the same."""

_log = structlog.get_logger(__name__)


class KafkaGroups:
    """Classic and KIP-848 groups, as a `GroupSource`."""

    def __init__(self, clients: KafkaClients) -> None:
        self._clients = clients
        self._calls = GroupCalls(clients, _ask)
        self._all: frozenset[str] = frozenset()
        self._others: frozenset[str] = frozenset()
        self._listed: frozenset[str] = frozenset()
        """Classic and KIP-848 groups listed since `_all` was, also those that are gone by now."""
        self._all_due_s = 0.0

    async def list_groups(self) -> GroupListing:
        """All groups we may see; those that are neither classic nor KIP-848 groups as `others`."""
        await self._list_all()
        doing = "listing groups"
        asked: Future[ListConsumerGroupsResult] = self._clients.admin.list_consumer_groups(
            request_timeout=REQUEST_TIMEOUT_S
        )
        answer = await self._clients.call(_result(asked, REQUEST_TIMEOUT_S), doing=doing)
        errors = [kafka_error(error) for error in answer.errors or []]
        if errors:  # the other list may lack the same groups
            self._all_due_s = 0.0
        # a group may be listed by two brokers while its coordinator moves
        found = {
            each.group_id: ListedGroup(
                name=each.group_id,
                type=_TYPES.get(each.type, "unknown"),
                state=_STATES.get(each.state, "Unknown"),
            )
            for each in answer.valid or []
        }
        self._listed |= found.keys()
        self._others = of_other_kinds(
            self._all, self._listed, known=self._others, complete=not errors
        )
        return GroupListing(
            groups=tuple(found.values()),
            problem=_broker_silent(errors[0]) if errors else "",
            others=tuple(sorted(self._others)),
        )

    async def _list_all(self) -> None:
        """Renew the names of groups of all kinds, now and then.

        The client library drops streams groups from its list of groups. Only its older request
        names them, and that one describes every classic group, too.
        """
        clock = self._clients.clock
        started_s = clock.monotonic_s()
        if started_s < self._all_due_s:
            return
        try:
            found = await self._clients.call(
                lambda: _every_group(self._clients.admin), doing="listing groups of all kinds"
            )
            self._all = frozenset(found)
            self._listed = frozenset()
            pause_s = _ALL_SHARE * (clock.monotonic_s() - started_s)
        except SourceError as error:  # the list of consumer groups reports the problem
            _log.debug("groups_of_all_kinds_unknown", reason=str(error))
            pause_s = 0.0  # it says nothing of how long an answer takes
        self._all_due_s = started_s + max(_ALL_EVERY_S, pause_s)

    async def describe(self, names: Sequence[str]) -> GroupDescriptions:
        """State and members of these groups."""
        infos: list[GroupInfo] = []
        refused: list[str] = []
        missing: list[str] = []
        problems: dict[str, str] = {}
        async for answers in self._calls.ask_all(names):
            for answer in answers:
                match answer.value:
                    case ConsumerGroupDescription(state=ConsumerGroupState.DEAD):
                        missing.append(answer.group)
                    case ConsumerGroupDescription() as description:
                        infos.append(_info(description))
                    case KafkaError() as error if error.code() in codes.AUTHORIZATION:
                        refused.append(answer.group)
                    case KafkaError() as error if error.code() in codes.NO_GROUP:
                        missing.append(answer.group)
                    case error:
                        reason = self._clients.causes.error(error, doing="describing groups")
                        problems[answer.group] = str(reason)
        return GroupDescriptions(
            infos=tuple(infos),
            refused=tuple(refused),
            missing=tuple(missing),
            problems=problems,
        )

    async def may_list_all(self) -> bool:
        """True if lagwatch holds DESCRIBE on the cluster; no answer counts as a refusal."""
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


def of_other_kinds(
    every: AbstractSet[str], listed: AbstractSet[str], *, known: AbstractSet[str], complete: bool
) -> frozenset[str]:
    """Groups that are neither classic nor KIP-848 groups: those that only the older list has.

    A list that lacks the groups of a broker says nothing of those it lacks: then only those count
    that are `known` from the last complete one.
    """
    others = frozenset(every - listed)
    return others if complete else others & known


def _every_group(admin: AdminClient) -> list[str]:
    # past `AdminClient.list_groups`, which only adds a warning that it is old
    listed = super(AdminClient, admin).list_groups(timeout=REQUEST_TIMEOUT_S)
    return [str(each.id) for each in listed]


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
        state=state_of(description),
        assignor=description.partition_assignor or "",
        coordinator=description.coordinator.id,
        members=tuple(_member(member) for member in description.members),
    )


def state_of(description: ConsumerGroupDescription) -> str:
    """Kafka's word, also where the client library has none: it knows no state of KIP-848 alone.

    A group of that kind is Reconciling while a member does not hold what it is to hold. Without
    such a member it may be Assigning as well.

    Source: Kafka, org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup, `state`.
    """
    word = _STATES.get(description.state, "Unknown")
    if word != "Unknown" or description.type != ConsumerGroupType.CONSUMER:
        return word
    on_the_way = any(
        member.target_assignment is not None
        and _assignment(member.target_assignment) != _assignment(member.assignment)
        for member in description.members
    )
    return "Reconciling" if on_the_way else word


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


class KafkaCommitted:
    """Committed offsets of any groups, as a `CommittedSource`."""

    def __init__(self, clients: KafkaClients) -> None:
        self._clients = clients
        self._calls = GroupCalls(clients, _ask_committed)
        self._descriptions = GroupCalls(clients, _ask)
        self._described = False
        """False before the first question: such a broker may have ended the process before."""
        self._coordinators: tuple[int, ...] = ()
        """The broker of each partition of the offsets topic, when it was last known."""
        self._doubted: dict[str, float] = {}
        """Groups without answer, and until when (monotonic) they are not asked for offsets."""

    async def committed(self, groups: Sequence[str]) -> AsyncIterator[Sequence[CommittedOffsets]]:
        """Answers for all groups, in chunks as they come."""
        doubted = [name for name in groups if name in self._doubted or not self._described]
        not_ready = await self._not_ready(doubted)
        self._described = True
        await self._follow_coordinators()
        if not_ready:
            yield [self._no_answer(answer, error) for answer, error in not_ready.values()]
        async for answers in self._calls.ask_all(
            [name for name in groups if name not in not_ready]
        ):
            read = [self._read(answer) for answer in answers]
            self._doubt(each.group for each in read if each.problem)
            yield read

    async def _follow_coordinators(self) -> None:
        """Ask with a new client where groups have another coordinator than before.

        Brokers that are restarted in turn hand on their groups first, and answer at once that they
        coordinate them no more: a question for offsets that is answered so ends the process, as
        `_not_ready` says.
        """
        topic = self._clients.settings.offsets_topic

        def asked(admin: AdminClient) -> Future[TopicDescription]:
            return admin.describe_topics(
                TopicCollection([topic]), request_timeout=_LEADERS_TIMEOUT_S
            )[topic]

        try:
            found = await self._clients.ask(asked, timeout_s=_LEADERS_TIMEOUT_S)
        except KafkaException:  # not allowed, no such topic yet, or no answer: as without it
            return
        # a partition may have no leader for a while
        leaders = tuple(getattr(each.leader, "id", -1) for each in found.partitions)
        if leaders != self._coordinators:
            self._coordinators = leaders
            self._calls.renew()

    def _doubt(self, groups: Iterable[str]) -> None:
        until_s = self._clients.clock.monotonic_s() + _SETTLES_S
        self._doubted |= dict.fromkeys(groups, until_s)

    async def _not_ready(
        self, groups: Sequence[str]
    ) -> dict[str, tuple[CallAnswer[Any], KafkaError]]:
        """Groups whose coordinator does not answer, or is none, with its answer.

        Found by describing them: a question for offsets to a broker that is no coordinator any more
        ends the process, in the client library (librdkafka 2.16, issue 5040). So it is when a
        broker comes back that was away, and when a collector has just been started again. A broker
        that was frozen answers for some seconds before it learns that it is no coordinator.
        """
        found: dict[str, tuple[CallAnswer[Any], KafkaError]] = {}
        async for answers in self._descriptions.ask_all(groups):
            now_s = self._clients.clock.monotonic_s()
            for answer in answers:
                group, error = answer.group, answer.value
                if isinstance(error, KafkaError) and error.code() not in _KNOWN_WELL:
                    self._doubt([group])
                    found[group] = answer, error
                elif now_s < self._doubted.get(group, 0.0):
                    found[group] = answer, KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
                else:
                    self._doubted.pop(group, None)
        return found

    async def not_surely_deleted(self, left_out: Mapping[str, tuple[str, int]]) -> frozenset[str]:
        """Topics of which Kafka does not say, when asked by name, that there is no offset.

        Without a partition in the question it leaves out what may not be described; of a named
        one it says so. Source: Kafka, KafkaApis.fetchOffsetsForGroup.
        """
        asked = [self._is_deleted(place[0], topic, place[1]) for topic, place in left_out.items()]
        deleted = await asyncio.gather(*asked)
        return frozenset(topic for topic, gone in zip(left_out, deleted, strict=True) if not gone)

    async def _is_deleted(self, group: str, topic: str, partition: int) -> bool:
        place, admin = TopicPartition(topic, partition), self._clients.admin
        ask = partial(_ask_committed, group=group, timeout_s=REQUEST_TIMEOUT_S, places=[place])
        try:
            answer = await self._clients.ask(ask, timeout_s=REQUEST_TIMEOUT_S)
        except KafkaException as error:
            code = kafka_error(error).code()
            if code not in codes.NO_GROUP | codes.AUTHORIZATION:
                self._clients.renew_admin(admin)  # it may go on asking a former coordinator
            return code in codes.NO_GROUP
        found = answer.topic_partitions or []
        return bool(found) and all(each.error is None and each.offset < 0 for each in found)

    def _read(self, answer: CallAnswer[ConsumerGroupTopicPartitions]) -> CommittedOffsets:
        if isinstance(answer.value, KafkaError) and answer.value.code() not in codes.NO_GROUP:
            return self._no_answer(answer, answer.value)
        # a group of a kind that commits no offsets has none
        answered = (
            [] if isinstance(answer.value, KafkaError) else answer.value.topic_partitions or []
        )
        valid = [each for each in answered if each.offset >= 0 and each.error is None]
        return CommittedOffsets(
            group=answer.group,
            topics=[each.topic for each in valid],
            partitions=[each.partition for each in valid],
            offsets=[each.offset for each in valid],
            asked_ms=answer.asked_ms,
            answered_ms=answer.answered_ms,
        )

    def _no_answer(self, answer: CallAnswer[Any], error: KafkaError) -> CommittedOffsets:
        refused = error.code() in codes.AUTHORIZATION
        reason = self._clients.causes.error(error, doing="asking for committed offsets")
        return CommittedOffsets(
            group=answer.group,
            topics=(),
            partitions=(),
            offsets=(),
            asked_ms=answer.asked_ms,
            answered_ms=answer.answered_ms,
            refused=refused,
            problem="" if refused else str(reason),
        )


def _ask_committed(
    admin: AdminClient,
    group: str,
    timeout_s: float,
    places: Sequence[TopicPartition] | None = None,
) -> Future[ConsumerGroupTopicPartitions]:
    """`places`: the partitions to ask for; None: all of which there are offsets."""
    wanted = None if places is None else [*places]
    asked: dict[str, Future[ConsumerGroupTopicPartitions]] = admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, wanted)], request_timeout=timeout_s
    )
    return asked[group]

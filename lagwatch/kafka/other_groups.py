"""State and members of share and streams groups, asked through kafka-python.

librdkafka has no calls for them. kafka-python lists them and sends any message; those that describe
them are in `lagwatch.kafka.messages`.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from lagwatch.config import ClusterSettings
from lagwatch.core.model import UNKNOWN, GroupInfo, Member
from lagwatch.kafka.python_client import Questions, UnavailableError, python_client, sentence, tried
from lagwatch.ports.kafka import GroupDescriptions

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

_KINDS: Final = ("share", "streams")
_WITHOUT_MEMBERS: Final = frozenset({"Empty", "Dead"})
_GROUP_AUTHORIZATION_FAILED: Final = 30
_TOPIC_AUTHORIZATION_FAILED: Final = 29
_GROUP_ID_NOT_FOUND: Final = 69
_STUCK: Final = "the brokers gave no answer in time when asked for share and streams groups"
_AT_ONCE: Final = 200
"""Groups in one request."""


class KafkaOtherGroups:
    """Share and streams groups, as an `OtherGroupSource`."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._questions = Questions()

    async def describe(self, names: Sequence[str]) -> GroupDescriptions:
        """State and members of these groups; `problems` says why some are not known."""
        answer, error = await self._questions.ask(lambda: self._describe(names))
        if answer is None:
            reason = _STUCK if error is None else sentence("describing groups", error)
            return _unknown(names, reason)
        return answer

    def _describe(self, names: Sequence[str]) -> GroupDescriptions:
        try:
            with python_client(
                self._settings, needed_to="describe share and streams groups"
            ) as client:
                return _Question(client).describe(frozenset(names))
        except UnavailableError as error:
            return _unknown(names, str(error))


def _unknown(names: Sequence[str], reason: str) -> GroupDescriptions:
    return GroupDescriptions(
        infos=(), refused=(), missing=(), problems=dict.fromkeys(names, reason)
    )


class _Question:
    """Asks one client."""

    def __init__(self, client: "KafkaAdminClient") -> None:
        self._client = client
        self._infos: list[GroupInfo] = []
        self._refused: list[str] = []
        self._problems: dict[str, str] = {}

    def describe(self, names: frozenset[str]) -> GroupDescriptions:
        listed = self._listed(names)
        for kind in _KINDS:
            of_kind = {name: state for name, (its, state) in listed.items() if its == kind}
            idle = [name for name, state in of_kind.items() if state in _WITHOUT_MEMBERS]
            self._infos += [_info(name, kind, of_kind[name]) for name in idle]
            self._ask(kind, sorted(of_kind.keys() - idle))
        known = {info.group for info in self._infos}
        return GroupDescriptions(
            infos=tuple(self._infos),
            refused=tuple(self._refused),
            missing=tuple(sorted(names - known - self._problems.keys() - set(self._refused))),
            problems=self._problems,
        )

    def _listed(self, names: frozenset[str]) -> Mapping[str, tuple[str, str]]:
        """Kind and state of the groups that are there."""
        listed, error = tried(self._client.list_groups)
        if error is not None:
            self._problems |= dict.fromkeys(names, sentence("listing groups", error))
            return {}
        return {
            each["group_id"]: (
                # before Kafka 4.0 a list has no types
                each.get("group_type") or each["protocol_type"],
                each.get("group_state") or "Unknown",
            )
            for each in listed
            if each["group_id"] in names
        }

    def _ask(self, kind: str, names: Sequence[str]) -> None:
        for first in range(0, len(names), _AT_ONCE):
            chunk = names[first : first + _AT_ONCE]
            answers, error = tried(partial(self._answers, kind, chunk))
            if error is not None:
                reason = sentence(f"describing {kind} groups", error)
                self._problems |= dict.fromkeys(chunk, reason)
                continue
            for answer in answers:
                self._take(kind, answer)

    def _answers(self, kind: str, names: Sequence[str]) -> Sequence[Any]:
        # the client has no public call for messages of others
        groups: Sequence[Any] = self._client._manager.run(self._send, kind, names)  # noqa: SLF001
        return groups

    async def _send(self, kind: str, names: Sequence[str]) -> list[Any]:
        """Ask the groups' coordinators; what comes back are groups as the schema has them."""
        made = _describe_request("ShareGroup" if kind == "share" else "StreamsGroup")
        by_coordinator = defaultdict(list)
        found = await self._client._find_coordinator_ids(list(names))  # noqa: SLF001 as above
        for name, node in found.items():
            by_coordinator[node].append(name)
        groups: list[Any] = []
        for node, ours in by_coordinator.items():
            request = made(group_ids=ours, include_authorized_operations=False)
            answer = await self._client._manager.send(request, node_id=node)  # noqa: SLF001
            groups += answer.groups
        return groups

    def _take(self, kind: str, answer: Any) -> None:  # noqa: ANN401 kafka-python has no types
        name = str(answer.group_id)
        match answer.error_code:
            case 0:
                self._infos.append(_described(kind, answer))
            case code if code == _GROUP_AUTHORIZATION_FAILED:
                self._refused.append(name)
            case code if code == _GROUP_ID_NOT_FOUND:
                return
            case code if code == _TOPIC_AUTHORIZATION_FAILED:
                self._problems[name] = (
                    f"the members of {kind} group {name} are not shown; grant: "
                    "Allow DESCRIBE on the TOPICs it reads"
                )
            case code:
                why = answer.error_message or f"error {code}"
                self._problems[name] = f"describing {kind} group {name} failed: {why}"


def _info(
    name: str, kind: str, state: str, assignor: str = "", members: tuple[Member, ...] = ()
) -> GroupInfo:
    return GroupInfo(
        group=name,
        type=kind,
        state=state,
        assignor=assignor,
        coordinator=UNKNOWN,
        members=members,
    )


def _described(kind: str, answer: Any) -> GroupInfo:  # noqa: ANN401 as above
    sources = {} if kind == "share" else _topics_of_tasks(answer.topology)
    members = tuple(
        Member(
            member_id=member.member_id,
            client_id=member.client_id,
            host=member.client_host,
            instance_id=getattr(member, "instance_id", None) or "",
            assignment=_sorted(
                _of_share(member.assignment)
                if kind == "share"
                else _of_streams(member.assignment, sources)
            ),
        )
        for member in answer.members
    )
    assignor = answer.assignor_name if kind == "share" else ""
    return _info(str(answer.group_id), kind, answer.group_state, assignor, members)


def _of_share(assignment: Any) -> Iterator[tuple[str, int]]:  # noqa: ANN401 as above
    for topic in assignment.topic_partitions:
        for partition in topic.partitions:
            yield topic.topic_name, partition


@cache
def _describe_request(kind: str) -> Any:  # noqa: ANN401 kafka-python has no types
    """The class of a request that kafka-python lacks, from its schema in `lagwatch.kafka.messages`.

    That of the response is made, too: kafka-python then finds it by its key when an answer comes.
    """
    from kafka.protocol.api_message import ApiMessage  # noqa: PLC0415 - optional

    def message(name: str) -> Any:  # noqa: ANN401
        return type(ApiMessage)(name, (ApiMessage,), {}, load_json="lagwatch.kafka.messages")

    message(f"{kind}DescribeResponse")
    return message(f"{kind}DescribeRequest")


def _topics_of_tasks(topology: Any) -> Mapping[str, Sequence[str]]:  # noqa: ANN401 as above
    """Subtopology → the topics that its tasks read."""
    parts = [] if topology is None else topology.subtopologies or []
    return {
        part.subtopology_id: [
            *part.source_topics,
            *(topic.name for topic in part.repartition_source_topics),
        ]
        for part in parts
    }


def _of_streams(
    assignment: Any,  # noqa: ANN401 as above
    sources: Mapping[str, Sequence[str]],
) -> Iterator[tuple[str, int]]:
    """An active task reads the partition of its number of each of its topics."""
    for task in assignment.active_tasks:
        for topic in sources.get(task.subtopology_id, ()):
            for partition in task.partitions:
                yield topic, partition


def _sorted(held: Iterator[tuple[str, int]]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in held:
        by_topic[topic].append(partition)
    return tuple((topic, tuple(sorted(by_topic[topic]))) for topic in sorted(by_topic))

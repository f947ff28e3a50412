"""A real collector that may only ask: committed offsets and groups through the Admin API."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType

from lagwatch.clock import SystemClock
from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.ports.reports import CollectorFacts, CommitsKnown, GroupsGone, GroupsSeen
from tests.support.collecting import Seen, collecting, settings
from tests.support.kafka import commit, create_topic, produce, unique
from tests.support.rights import Rights
from tests.support.streams import StreamsMember
from tests.support.waiting import eventually


def test_committed_offsets_are_polled_and_changes_are_reported(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka, partitions=2), unique("group")
    commit(kafka, group, topic, 3, partition=1)
    with collecting(settings(kafka, commits="admin")) as seen:
        eventually(lambda: seen.offsets(group, topic, 1) == [3], "the offset is reported")
        rounds = len(seen.of(GroupsSeen))

        eventually(lambda: len(seen.of(GroupsSeen)) > rounds + 2, "rounds go by")
        assert seen.offsets(group, topic, 1) == [3], "an offset that stays is not a commit"
        before_ms = SystemClock().now_ms()
        commit(kafka, group, topic, 5, partition=1)
        after_ms = SystemClock().now_ms()

        eventually(lambda: seen.offsets(group, topic, 1) == [3, 5], "the change is sent")

    first, second = seen.of_partition(group, topic, 1)
    assert all(not each.exact and each.only_change for each in (first, second))
    assert second.order > first.order
    assert first.after_ms == -1
    assert second.after_ms <= after_ms, "the poll before came before the commit was over"
    assert second.commit_ms >= before_ms, "and the one that saw it, after it began"


def test_a_living_member_that_does_not_move_does_not_commit(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka), unique("group")
    produce(kafka, topic, 3)
    member = Consumer(kafka.admin_config() | {"group.id": group, "enable.auto.commit": False})
    member.subscribe([topic])
    try:
        eventually(lambda: _assigned(member), "the member is assigned")
        member.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        with collecting(settings(kafka, commits="admin")) as seen:
            eventually(lambda: seen.offsets(group, topic) == [1], "its offset is sent")
            rounds = len(seen.of(CommitsKnown))

            eventually(lambda: len(seen.of(CommitsKnown)) > rounds + 2, "rounds go by")
    finally:
        member.close()

    assert seen.offsets(group, topic) == [1]


def test_a_group_that_hands_partitions_over_is_reconciling(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka, partitions=4), unique("group")
    settings_of_one = {**kafka.admin_config(), "group.id": group, "group.protocol": "consumer"}
    first, second = Consumer(settings_of_one), Consumer(settings_of_one)
    first.subscribe([topic])
    try:
        eventually(lambda: _assigned(first), "the first member is assigned")
        with collecting(settings(kafka, commits="admin")) as seen:
            eventually(lambda: _state(seen, group) == "Stable", "all is assigned")
            second.subscribe([topic])

            # the first does not poll any more: it gives nothing back
            def waits() -> bool:
                second.poll(0.1)
                return _state(seen, group) == "Reconciling"

            eventually(waits, "the second waits for its partitions")
    finally:
        first.close()
        second.close()


def test_streams_groups_are_listed_and_polled(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka), unique("streams")
    member = StreamsMember(kafka, group, topic)
    member.join()
    member.commit(7)

    with collecting(settings(kafka, commits="admin")) as seen:
        eventually(lambda: seen.offsets(group, topic) == [7], "its offset is sent")
        eventually(lambda: type_of(seen, group) == "streams", "it is listed")
        member.commit(9)
        eventually(lambda: seen.offsets(group, topic) == [7, 9], "the next one, too")


def test_streams_groups_are_listed_where_commits_are_read(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka), unique("streams")
    member = StreamsMember(kafka, group, topic)
    member.join()
    member.commit(7)

    with collecting(settings(kafka)) as seen:
        eventually(lambda: seen.offsets(group, topic) == [7], "its commit is read")
        eventually(lambda: type_of(seen, group) == "streams", "it is listed")


def type_of(seen: Seen, group: str) -> str:
    seen_groups = seen.last(GroupsSeen)
    listed = seen_groups.groups if seen_groups is not None else ()
    return next((each.type for each in listed if each.group == group), "")


def test_a_deleted_group_is_reported_gone(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka), unique("group")
    commit(kafka, group, topic, 3)
    admin = AdminClient(kafka.admin_config())
    with collecting(settings(kafka, commits="admin")) as seen:
        eventually(lambda: seen.offsets(group, topic) == [3], "the offset is reported")

        admin.delete_consumer_groups([group])[group].result(30)

        eventually(
            lambda: any(group in each.groups for each in seen.of(GroupsGone)), "it is reported gone"
        )


def test_offsets_that_leave_with_their_topic_are_reported(kafka: EmbeddedKafka) -> None:
    topic, stays, group = create_topic(kafka), create_topic(kafka), unique("group")
    commit(kafka, group, topic, 3)
    commit(kafka, group, stays, 4)
    admin = AdminClient(kafka.admin_config())
    with collecting(settings(kafka, commits="admin")) as seen:
        eventually(lambda: seen.offsets(group, stays) == [4], "the offsets are reported")

        admin.delete_topics([topic], operation_timeout=30)[topic].result(30)

        eventually(lambda: seen.offsets(group, topic) == [3, -1], "the offset leaves")
    assert seen.offsets(group, stays) == [4]


@pytest.fixture
def rights(secure_kafka: EmbeddedKafka) -> Iterator[Rights]:
    """What alice may do; taken away again at the end."""
    rights = Rights(secure_kafka)
    yield rights
    rights.revoke_all()


def unseen(seen: Seen) -> str:
    facts = seen.last(CollectorFacts)
    return "\n".join(facts.unseen) if facts is not None else ""


def mode(seen: Seen) -> str:
    facts = seen.last(CollectorFacts)
    return facts.commits_mode if facts is not None else ""


def test_without_the_right_to_read_the_offsets_topic_auto_polls_and_says_so(
    secure_kafka: EmbeddedKafka, rights: Rights
) -> None:
    topic, group = create_topic(secure_kafka), unique("group")
    commit(secure_kafka, group, topic, 3)
    rights.grant(AclOperation.DESCRIBE, ResourceType.TOPIC, topic)
    rights.grant(AclOperation.DESCRIBE, ResourceType.GROUP, group)

    with collecting(settings(secure_kafka, "alice")) as seen:
        eventually(lambda: mode(seen) == "admin", "it falls back")
        eventually(lambda: seen.offsets(group, topic) == [3], "and polls")
        eventually(lambda: seen.log_end(topic) == (0, 0, 0), "log ends are reported, too")
        eventually(
            lambda: "Allow DESCRIBE on CLUSTER kafka-cluster" in unseen(seen),
            "it says that other groups may be hidden",
        )

    facts = seen.last(CollectorFacts)
    assert facts is not None
    assert "Allow DESCRIBE and READ on TOPIC __consumer_offsets" in facts.reason


def test_describe_alone_on_the_offsets_topic_is_not_enough_and_is_said(
    secure_kafka: EmbeddedKafka, rights: Rights
) -> None:
    commit(secure_kafka, unique("group"), create_topic(secure_kafka), 3)
    rights.grant(AclOperation.DESCRIBE, ResourceType.TOPIC, "__consumer_offsets")

    with collecting(settings(secure_kafka, "alice")) as seen:
        eventually(lambda: mode(seen) == "admin", "it falls back")

    facts = seen.last(CollectorFacts)
    assert facts is not None
    assert "Allow READ on TOPIC __consumer_offsets" in facts.reason


def test_what_the_offsets_topic_names_and_may_not_be_seen_is_reported_with_the_acl(
    secure_kafka: EmbeddedKafka, rights: Rights
) -> None:
    topic, group = create_topic(secure_kafka), unique("group")
    commit(secure_kafka, group, topic, 3)
    rights.grant(AclOperation.READ, ResourceType.TOPIC, "__consumer_offsets")

    with collecting(settings(secure_kafka, "alice")) as seen:
        eventually(lambda: seen.offsets(group, topic) == [3], "commits are read")
        eventually(
            lambda: f"Allow DESCRIBE on TOPIC {topic}" in unseen(seen), "the topic's ACL is named"
        )
        eventually(
            lambda: f"Allow DESCRIBE on GROUP {group}" in unseen(seen), "the group's ACL is named"
        )
    assert mode(seen) == "offsets-topic"


def _assigned(member: Consumer) -> bool:
    member.poll(0.05)
    return bool(member.assignment())


def _state(seen: Seen, group: str) -> str:
    """State of the group as last reported; "" while it is not known."""
    last = seen.last(GroupsSeen)
    states = {each.group: each.state for each in last.groups} if last is not None else {}
    return states.get(group, "")

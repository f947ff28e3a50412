"""A real collector on a real broker: what it reads of the offsets topic."""

import os
import signal
import time

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from lagwatch.core.model import GroupInfo
from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.ports.reports import (
    Backlog,
    CollectorFacts,
    CollectorStarted,
    GroupsGone,
    GroupsSeen,
)
from tests.support.collecting import Seen, collecting, settings
from tests.support.kafka import commit, create_topic, produce, unique
from tests.support.waiting import eventually
from tests.support.wire import encode_offset_key, encode_offset_value


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def info(seen: Seen, group: str) -> GroupInfo | None:
    """The newest description of a group."""
    infos = [each for report in seen.of(GroupsSeen) for each in report.groups]
    return next((each for each in reversed(infos) if each.group == group), None)


def rebalances(seen: Seen, group: str) -> int:
    return sum((report.rebalances or {}).get(group, 0) for report in seen.of(GroupsSeen))


def test_commits_arrive_with_their_exact_offsets_and_times(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka), unique("group")
    commit(kafka, group, topic, 3)

    with collecting(settings(kafka)) as seen:
        seen.wait_ready()
        before_ms = now_ms()
        commit(kafka, group, topic, 7)
        after_ms = now_ms()
        eventually(lambda: seen.offsets(group, topic) == [3, 7], "both commits arrive")

    old, new = seen.of_partition(group, topic)
    assert before_ms <= new.commit_ms <= after_ms
    assert old.commit_ms < before_ms
    assert new.order > old.order
    assert new.exact


def test_from_latest_only_new_commits_are_read(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka), unique("group")
    commit(kafka, group, topic, 3)

    with collecting(settings(kafka, start="latest")) as seen:
        seen.wait_ready()
        commit(kafka, group, topic, 7)
        eventually(lambda: 7 in seen.offsets(group, topic), "the new commit arrives")

    assert seen.offsets(group, topic) == [7]


def test_commits_with_200_bytes_of_metadata_are_read(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka), unique("group")
    consumer = Consumer(kafka.admin_config() | {"group.id": group, "enable.auto.commit": False})
    wordy = TopicPartition(topic, 0, 42, metadata="m" * 200)
    before_ms = now_ms()
    consumer.commit(offsets=[wordy], asynchronous=False)
    consumer.close()

    with collecting(settings(kafka)) as seen:
        eventually(lambda: seen.offsets(group, topic) == [42], "the commit arrives")

    assert before_ms <= seen.of_partition(group, topic)[0].commit_ms <= now_ms()


def test_a_deleted_offset_leaves_and_so_does_a_deleted_group(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka, partitions=2), unique("group")
    commit(kafka, group, topic, 5, partition=0)
    commit(kafka, group, topic, 6, partition=1)
    admin = AdminClient(kafka.admin_config())
    with collecting(settings(kafka)) as seen:
        eventually(lambda: seen.offsets(group, topic, 1) == [6], "the commits arrive")

        admin.delete_consumer_groups([group])[group].result(30)

        eventually(lambda: seen.offsets(group, topic, 0) == [5, -1], "partition 0 leaves")
        eventually(lambda: seen.offsets(group, topic, 1) == [6, -1], "partition 1 leaves")


def test_a_group_with_members_once_is_reported_gone_when_deleted(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka), unique("group")
    produce(kafka, topic, 3)
    admin = AdminClient(kafka.admin_config())
    with collecting(settings(kafka)) as seen:
        read_as_member(kafka, group, topic, 3)
        eventually(lambda: bool(seen.offsets(group, topic)), "its commit arrives")

        admin.delete_consumer_groups([group])[group].result(30)

        eventually(
            lambda: any(group in each.groups for each in seen.of(GroupsGone)), "the group is gone"
        )
    gone = next(each for each in seen.of(GroupsGone) if group in each.groups)
    newest = max(row.order for row in seen.of_partition(group, topic) if row.offset >= 0)
    assert gone.orders[gone.groups.index(group)] > newest


def test_classic_members_are_reported_with_their_names_and_partitions(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka, partitions=2), unique("group")
    config = kafka.admin_config() | {
        "group.id": group,
        "client.id": "reader-a",
        "group.instance.id": "static-a",
    }
    consumer = Consumer(config)
    try:
        with collecting(settings(kafka, group_interval_s=60)) as seen:
            seen.wait_ready()
            consumer.subscribe([topic])
            eventually(lambda: poll_assigned(consumer), "the member is assigned")

            eventually(lambda: has_members(seen, group), "its members are reported at once")
            described = info(seen, group)
            eventually(lambda: rebalances(seen, group) >= 1, "the rebalance is counted")
    finally:
        consumer.close()

    assert described is not None
    (member,) = described.members
    assert (described.type, described.state) == ("classic", "Stable")
    assert (member.client_id, member.instance_id) == ("reader-a", "static-a")
    assert member.assignment == ((topic, (0, 1)),)


def test_kip_848_members_are_reported_too(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka, partitions=2), unique("group")
    config = kafka.admin_config() | {
        "group.id": group,
        "client.id": "reader-b",
        "group.protocol": "consumer",
    }
    consumer = Consumer(config)
    consumer.subscribe([topic])
    try:
        with collecting(settings(kafka)) as seen:
            eventually(lambda: poll_assigned(consumer), "the member is assigned")

            eventually(lambda: has_members(seen, group), "its members are reported")
            described = info(seen, group)
    finally:
        consumer.close()

    assert described is not None
    assert described.type == "consumer"
    assert described.members[0].client_id == "reader-b"
    assert described.members[0].assignment == ((topic, (0, 1)),)


def test_a_group_that_changes_its_protocol_is_not_gone(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka), unique("group")
    produce(kafka, topic, 3)
    with collecting(settings(kafka)) as seen:
        read_as_member(kafka, group, topic, 3)

        read_as_member(kafka, group, topic, 0, protocol="consumer")

        eventually(lambda: is_type(seen, group, "consumer"), "it is a KIP-848 group now")
        marker = create_topic(kafka)
        commit(kafka, unique("marker"), marker, 1)
        eventually(
            lambda: any(key[1] == marker for key in seen.commits()), "later records were read"
        )

    assert not any(group in each.groups for each in seen.of(GroupsGone))


def test_filters_hold_for_groups_and_topics(kafka: EmbeddedKafka) -> None:
    wanted, other = create_topic(kafka, "wanted"), create_topic(kafka, "other")
    group, shy = unique("group"), unique("shy")
    with collecting(settings(kafka, group_deny="^shy", topic_allow="^wanted")) as seen:
        seen.wait_ready()
        commit(kafka, shy, wanted, 1)
        commit(kafka, group, other, 1)
        commit(kafka, group, wanted, 1)
        eventually(lambda: seen.offsets(group, wanted) == [1], "the wanted commit arrives")
        eventually(lambda: is_type(seen, group, "classic"), "the wanted group is listed")

    assert all(key[0] != shy and key[1].startswith("wanted") for key in seen.commits())
    assert info(seen, shy) is None


def test_malformed_records_are_counted_and_do_not_stop_the_reader(kafka: EmbeddedKafka) -> None:
    # a topic of our own in its place: a group coordinator does not survive strange records
    offsets_topic, group = create_topic(kafka, "offsets"), unique("group")
    writer = Producer(kafka.admin_config())
    records: list[tuple[bytes | None, bytes | None]] = [
        (encode_offset_key(group, "t", 0), encode_offset_value(1, 1_700_000_000_000)),
        (b"\x00", b"?"),
        (None, b"no key"),
        (encode_offset_key(group, "t", 0), b"\x00"),
        (b"\x00\x63", b"a kind of the future"),
        (encode_offset_key(group, "t", 0), encode_offset_value(2, 1_700_000_001_000)),
    ]
    for key, value in records:
        writer.produce(offsets_topic, key=key, value=value)
    writer.flush(30)

    with collecting(settings(kafka, offsets_topic=offsets_topic)) as seen:
        eventually(lambda: seen.offsets(group, "t") == [1, 2], "what is sound is read")
        eventually(lambda: len(malformed(seen)) > 0, "the rest is counted")
        seen.wait_ready()

    assert malformed(seen) == {"key_too_short": 1, "key_missing": 1, "value_too_short": 1}
    backlog = seen.last(Backlog)
    assert backlog is not None
    assert (backlog.read, backlog.total) == (len(records), len(records))


def test_a_killed_collector_is_replaced_and_nothing_is_lost(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka), unique("group")
    with collecting(settings(kafka)) as seen:
        seen.wait_ready()
        commit(kafka, group, topic, 1)
        eventually(lambda: seen.offsets(group, topic) == [1], "the first commit arrives")
        pid = seen.supervisor.pid
        assert pid is not None

        os.kill(pid, signal.SIGABRT)
        commit(kafka, group, topic, 2)
        eventually(lambda: 2 in seen.offsets(group, topic), "the commit made meanwhile arrives")
        commit(kafka, group, topic, 3)
        eventually(lambda: 3 in seen.offsets(group, topic), "and those after it")

    by_order = {row.order: row.offset for row in seen.of_partition(group, topic)}
    assert [by_order[order] for order in sorted(by_order)] == [1, 2, 3]
    assert [each.incarnation for each in seen.of(CollectorStarted)] == [1, 2]
    assert seen.supervisor.restarts == 1


def test_a_collector_that_hangs_is_replaced(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka), unique("group")
    with collecting(settings(kafka), silent_s=20) as seen:
        seen.wait_ready()
        pid = seen.supervisor.pid
        assert pid is not None

        os.kill(pid, signal.SIGSTOP)
        commit(kafka, group, topic, 2)

        eventually(
            lambda: seen.offsets(group, topic) == [2], "its successor reads on", timeout_s=120
        )
    assert [each.incarnation for each in seen.of(CollectorStarted)] == [1, 2]


def test_offsets_deleted_one_by_one_leave(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka), unique("group")
    admin = AdminClient(kafka.admin_config())
    commit(kafka, group, topic, 5)
    with collecting(settings(kafka)) as seen:
        eventually(lambda: seen.offsets(group, topic) == [5], "the commit arrives")

        # -1 as offset deletes nothing: only the group's deletion writes tombstones
        moved = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 2)])]
        admin.alter_consumer_group_offsets(moved)[group].result(30)

        eventually(lambda: seen.offsets(group, topic) == [5, 2], "a reset is a commit like others")


def malformed(seen: Seen) -> dict[str, int]:
    facts = seen.last(CollectorFacts)
    return dict(facts.malformed) if facts is not None else {}


def has_members(seen: Seen, group: str) -> bool:
    described = info(seen, group)
    return described is not None and any(member.assignment for member in described.members)


def is_type(seen: Seen, group: str, kind: str) -> bool:
    described = info(seen, group)
    return described is not None and described.type == kind


def poll_assigned(consumer: Consumer) -> bool:
    consumer.poll(0.05)
    return bool(consumer.assignment())


def read_as_member(
    kafka: EmbeddedKafka, group: str, topic: str, count: int, *, protocol: str = "classic"
) -> None:
    """Join, read `count` records, commit, leave."""
    config = kafka.admin_config() | {
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = Consumer(config)
    consumer.subscribe([topic])
    try:
        eventually(lambda: poll_assigned(consumer), f"{group} is assigned")
        if count:
            consumer.commit(offsets=[TopicPartition(topic, 0, count)], asynchronous=False)
    finally:
        consumer.close()

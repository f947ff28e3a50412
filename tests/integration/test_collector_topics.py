"""A real collector on a real broker: topics and log ends."""

from confluent_kafka import KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.ports.reports import LogEnds, SourceKind, Topics
from tests.support.collecting import Seen, collecting, settings
from tests.support.kafka import commit, create_topic, produce, unique
from tests.support.waiting import eventually
from tests.support.wire import encode_offset_key, encode_offset_value


def topic_id(seen: Seen, topic: str) -> str | None:
    """As in the newest listing; None: not in it."""
    topics = seen.last(Topics)
    if topics is None or topic not in topics.names:
        return None
    return topics.ids[topics.names.index(topic)]


def test_log_start_log_end_and_last_stable_offset_are_exact(kafka: EmbeddedKafka) -> None:
    topic = create_topic(kafka, partitions=2)
    produce(kafka, topic, 5, partition=1)
    admin = AdminClient(kafka.admin_config())
    with collecting(settings(kafka)) as seen:
        eventually(lambda: seen.log_end(topic, 1) == (0, 5, 5), "the log end is reported")
        assert seen.log_end(topic, 0) == (0, 0, 0)

        admin.delete_records([TopicPartition(topic, 1, 2)])[TopicPartition(topic, 1, 2)].result(30)

        eventually(lambda: seen.log_end(topic, 1) == (2, 5, 5), "the new log start is reported")


def test_an_open_transaction_holds_the_last_stable_offset_back(kafka: EmbeddedKafka) -> None:
    topic = create_topic(kafka)
    producer = Producer(kafka.admin_config() | {"transactional.id": unique("tx")})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value=b"pending")
    producer.flush(30)
    with collecting(settings(kafka)) as seen:
        eventually(lambda: seen.log_end(topic) == (0, 0, 1), "the last stable offset stays behind")

        producer.commit_transaction(30)

        eventually(lambda: seen.log_end(topic) == (0, 2, 2), "it comes up, over the marker")


def test_a_new_topic_is_noticed_by_its_first_commit(kafka: EmbeddedKafka) -> None:
    with collecting(settings(kafka, topic_interval_s=3600)) as seen:
        seen.wait_ready()
        topic = create_topic(kafka)
        produce(kafka, topic, 3)

        commit(kafka, unique("group"), topic, 1)

        eventually(lambda: seen.log_end(topic) == (0, 3, 3), "its log end is reported")


def test_a_topic_made_anew_under_its_name_is_noticed_by_its_id(kafka: EmbeddedKafka) -> None:
    topic = create_topic(kafka)
    produce(kafka, topic, 3)
    admin = AdminClient(kafka.admin_config())
    with collecting(settings(kafka, topic_interval_s=3600)) as seen:
        eventually(lambda: seen.log_end(topic) == (0, 3, 3), "its log end is reported")
        first_id = topic_id(seen, topic)

        admin.delete_topics([topic], operation_timeout=30)[topic].result(30)
        eventually(lambda: topic_id(seen, topic) is None, "it leaves")
        admin.create_topics([NewTopic(topic, 1)], operation_timeout=30)[topic].result(30)
        commit(kafka, unique("group"), topic, 0)

        eventually(lambda: topic_id(seen, topic) is not None, "it is back")
    assert topic_id(seen, topic) != first_id


def test_a_commit_that_names_another_id_than_the_listed_makes_the_topic_be_looked_at(
    kafka: EmbeddedKafka,
) -> None:
    # an offsets topic of our own: few clients commit by topic id yet
    offsets_topic, group, topic = (
        create_topic(kafka, "offsets"),
        unique("group"),
        create_topic(kafka),
    )
    writer, admin = Producer(kafka.admin_config()), AdminClient(kafka.admin_config())

    def write(topic_id: str, at_ms: int) -> None:
        value = encode_offset_value(0, at_ms, topic_id=topic_id)
        writer.produce(offsets_topic, key=encode_offset_key(group, topic, 0), value=value)
        writer.flush(30)

    options = settings(kafka, offsets_topic=offsets_topic, topic_interval_s=3600)
    with collecting(options) as seen:
        eventually(lambda: topic_id(seen, topic) is not None, "the topic is listed")
        first_id = topic_id(seen, topic)
        assert first_id is not None
        write(first_id, 1_700_000_000_000)
        eventually(lambda: seen.offsets(group, topic) == [0], "the commit is read")
        admin.delete_topics([topic], operation_timeout=30)[topic].result(30)
        admin.create_topics([NewTopic(topic, 1)], operation_timeout=30)[topic].result(30)
        eventually(lambda: described_id(admin, topic) is not None, "Kafka describes it")
        new_id = described_id(admin, topic)
        assert new_id is not None
        assert new_id != first_id

        write(new_id, 1_700_000_009_000)

        eventually(lambda: topic_id(seen, topic) == new_id, "the new id is reported")
        eventually(
            lambda: first_commit_ms(seen, topic) == 1_700_000_009_000, "and its first commit"
        )


def described_id(admin: AdminClient, topic: str) -> str | None:
    """Its id as commits name it; None while no broker knows the topic."""
    try:
        described = admin.describe_topics(TopicCollection([topic]))[topic].result(30)
    except KafkaException:
        return None
    return str(described.topic_id).replace("+", "-").replace("/", "_")


def first_commit_ms(seen: Seen, topic: str) -> int | None:
    topics = seen.last(Topics)
    return None if topics is None else topics.first_commit_ms.get(topic)


def test_a_change_is_reported_once_and_not_again(kafka: EmbeddedKafka) -> None:
    create_topic(kafka)
    with collecting(settings(kafka, topic_interval_s=0.2)) as seen:
        eventually(lambda: len(seen.of(LogEnds)) >= 4, "rounds go by")

    versions = [each.version for each in seen.of(Topics)]
    assert versions == sorted(set(versions))
    assert len(versions) < 4


def test_a_killed_broker_costs_only_its_own_partitions(three_brokers: EmbeddedKafka) -> None:
    topic = create_topic(three_brokers, partitions=6, replicas=1)
    for partition in range(6):
        produce(three_brokers, topic, 1, partition=partition)
    with collecting(settings(three_brokers)) as seen:
        eventually(
            lambda: all(seen.log_end(topic, each) == (0, 1, 1) for each in range(6)),
            "all log ends are reported",
        )
        topics = seen.last(Topics)
        assert topics is not None
        at = int(topics.partitions[: topics.names.index(topic)].sum())
        leaders = topics.leader[at : at + 6].tolist()
        living = [each for each in range(6) if leaders[each] != 3]

        three_brokers.kill_broker(2)
        try:
            for partition in living:
                produce(three_brokers, topic, 1, partition=partition)
            eventually(
                lambda: all(seen.log_end(topic, each) == (0, 2, 2) for each in living),
                "the other brokers' partitions stay fresh",
            )
            gone = next(each for each in range(6) if leaders[each] == 3)
            eventually(lambda: ends_unknown(seen, topic, gone), "the lost ones are unknown")
            # seen_ends at the end of a round, after its log ends
            eventually(lambda: not seen.healthy_since(0, SourceKind.LOG_ENDS), "the source is ill")
        finally:
            three_brokers.start_broker(2)

        eventually(lambda: seen.log_end(topic, gone) == (0, 1, 1), "and come back")


def test_log_ends_follow_a_leader_that_moves(three_brokers: EmbeddedKafka) -> None:
    topic = create_topic(three_brokers, partitions=3)
    with collecting(settings(three_brokers)) as seen:
        eventually(
            lambda: all(seen.log_end(topic, each) == (0, 0, 0) for each in range(3)),
            "all log ends are reported",
        )

        three_brokers.kill_broker(0)
        try:
            eventually(
                lambda: all(no_leader_is(seen, topic, broker) for broker in (-1, 1)),
                "the new leaders are reported",
            )
            for partition in range(3):
                produce(three_brokers, topic, 1, partition=partition)

            eventually(
                lambda: all(seen.log_end(topic, each) == (0, 1, 1) for each in range(3)),
                "and asked for log ends",
            )
        finally:
            three_brokers.start_broker(0)


def no_leader_is(seen: Seen, topic: str, broker: int) -> bool:
    topics = seen.last(Topics)
    assert topics is not None
    at = int(topics.partitions[: topics.names.index(topic)].sum())
    return broker not in topics.leader[at : at + 3].tolist()


def ends_unknown(seen: Seen, topic: str, partition: int) -> bool:
    seen_ends = seen.log_end(topic, partition)
    return seen_ends is not None and seen_ends[2] == -1

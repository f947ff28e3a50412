"""A real collector on a real broker: offsets at log ends that hold control records only."""

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.ports.reports import CollectorFacts, EmptyTails
from tests.support.collecting import Seen, collecting, settings
from tests.support.kafka import Transactions, commit, create_topic, produce, unique
from tests.support.rights import Rights
from tests.support.waiting import eventually


def tails(seen: Seen, topic: str) -> list[tuple[int, int]]:
    """(first, end) of the ranges reported of a topic's partition 0."""
    return [
        (int(first), int(end))
        for report in seen.of(EmptyTails)
        for name, first, end in zip(
            report.topic, report.first.tolist(), report.end.tolist(), strict=True
        )
        if name == topic
    ]


@pytest.mark.parametrize("mode", ["offsets-topic", "admin"])
def test_a_marker_and_aborted_records_at_the_log_end_are_an_empty_tail(
    kafka: EmbeddedKafka, mode: str
) -> None:
    topic, plain = create_topic(kafka), create_topic(kafka)
    transactions = Transactions(kafka)
    transactions.write(topic, 5)
    transactions.commit()  # its marker is offset 5
    transactions.write(topic, 3)
    transactions.abort()  # records 6 to 8, marker 9
    produce(kafka, plain, 5)
    for group, offset in ((unique("read-all"), 5), (unique("behind"), 4), (unique("next"), 7)):
        commit(kafka, group, topic, offset)
    commit(kafka, unique("behind"), plain, 3)

    with collecting(settings(kafka, commits=mode)) as seen:
        eventually(lambda: bool(tails(seen, topic)), "the range is reported")
        rounds = seen.rounds()
        eventually(lambda: seen.rounds() > rounds + 6, "rounds go by")

    assert sorted(tails(seen, topic)) == [(5, 10), (7, 10)], "and each once"
    assert tails(seen, plain) == []


def test_a_tail_is_looked_at_again_when_the_log_end_has_moved(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka), unique("group")
    transactions = Transactions(kafka)
    transactions.write(topic, 5)
    transactions.commit()
    commit(kafka, group, topic, 5)
    with collecting(settings(kafka)) as seen:
        eventually(lambda: tails(seen, topic) == [(5, 6)], "the range is reported")

        transactions.write(topic, 1)
        transactions.abort()

        eventually(lambda: tails(seen, topic) == [(5, 6), (5, 8)], "the longer one, too")


def test_without_the_right_to_read_the_topic_the_acl_is_named(secure_kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(secure_kafka), unique("group")
    transactions = Transactions(secure_kafka)
    transactions.write(topic, 5)
    transactions.commit()
    commit(secure_kafka, group, topic, 5)
    rights = Rights(secure_kafka)
    try:
        rights.grant(AclOperation.DESCRIBE, ResourceType.TOPIC, topic)
        rights.grant(AclOperation.DESCRIBE, ResourceType.GROUP, group)
        with collecting(settings(secure_kafka, "alice", commits="admin")) as seen:
            eventually(
                lambda: f"Allow READ on TOPIC {topic} to prove that the 1 offsets" in unseen(seen),
                "the missing right is named",
            )
        assert tails(seen, topic) == []
    finally:
        rights.revoke_all()


def unseen(seen: Seen) -> str:
    facts = seen.last(CollectorFacts)
    return "\n".join(facts.unseen) if facts is not None else ""

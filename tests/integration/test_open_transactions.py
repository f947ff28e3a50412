"""A real collector on a real broker: transactions that hold last stable offsets back."""

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from lagwatch.clock import SystemClock
from lagwatch.core.model import OpenTransaction
from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.ports.reports import OpenTransactions
from tests.support.collecting import Seen, collecting, settings
from tests.support.kafka import Transactions, create_topic, produce, unique
from tests.support.rights import Rights
from tests.support.waiting import eventually


def is_open(seen: Seen, topic: str) -> OpenTransaction | None:
    """As in the newest report."""
    report = seen.last(OpenTransactions)
    listed = report.transactions if report is not None else ()
    return next((each for each in listed if each.topic == topic), None)


def test_an_open_transaction_is_reported_with_its_names_until_it_ends(kafka: EmbeddedKafka) -> None:
    pytest.importorskip("kafka", reason="kafka-python names the transactions")
    topic, transactions = create_topic(kafka), Transactions(kafka)
    produce(kafka, topic, 4)
    before_ms = SystemClock().now_ms()
    transactions.write(topic, 2)
    with collecting(settings(kafka)) as seen:
        eventually(lambda: is_open(seen, topic) is not None, "it is reported")
        transaction = is_open(seen, topic)

        transactions.commit()

        eventually(lambda: is_open(seen, topic) is None, "it leaves")

    assert transaction is not None
    assert (transaction.partition, transaction.last_stable, transaction.problem) == (0, 4, "")
    assert transaction.transactional_id == transactions.name
    assert transaction.producer_id is not None
    assert transaction.started_ms is not None
    assert before_ms - 1000 <= transaction.started_ms <= transaction.since_ms


def test_behind_scram_and_tls_the_rights_that_are_missing_are_named(
    secure_kafka: EmbeddedKafka,
) -> None:
    pytest.importorskip("kafka", reason="kafka-python names the transactions")
    topic, transactions = create_topic(secure_kafka), Transactions(secure_kafka)
    rights = Rights(secure_kafka)
    rights.grant(AclOperation.DESCRIBE, ResourceType.TOPIC, topic)
    transactions.write(topic, 2)
    try:
        with collecting(settings(secure_kafka, "alice", commits="admin")) as seen:
            eventually(lambda: is_open(seen, topic) is not None, "it is reported")
            hidden = is_open(seen, topic)
        rights.grant(AclOperation.READ, ResourceType.TOPIC, topic)
        rights.grant(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactions.name)
        with collecting(settings(secure_kafka, "alice", commits="admin")) as seen:
            eventually(lambda: is_open(seen, topic) is not None, "it is reported again")
            shown = is_open(seen, topic)
    finally:
        transactions.abort()
        rights.revoke_all()

    assert hidden is not None
    assert hidden.producer_id is None
    assert hidden.problem == f"grant: Allow READ on TOPIC {topic} to name its transactions"
    assert shown is not None
    assert (shown.transactional_id, shown.problem) == (transactions.name, "")


def test_short_transactions_are_not_reported(kafka: EmbeddedKafka) -> None:
    topic, transactions = create_topic(kafka), Transactions(kafka)
    with collecting(settings(kafka, client_id=unique("client"))) as seen:
        for _ in range(10):
            transactions.write(topic, 1)
            transactions.commit()
        eventually(lambda: seen.log_end(topic) == (0, 20, 20), "all are over")
        rounds = seen.rounds()
        eventually(lambda: seen.rounds() > rounds + 6, "rounds go by")

    assert all(
        each.topic != topic for report in seen.of(OpenTransactions) for each in report.transactions
    )

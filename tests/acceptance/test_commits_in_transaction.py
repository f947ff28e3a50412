"""A group that commits in a transaction which does not end, on a real broker."""

import threading

from confluent_kafka import Consumer

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import Transactions, create_topic, unique
from tests.support.traffic import producer_of, running
from tests.support.waiting import eventually
from tests.support.watched import QUICK_RULES, watching


def test_a_transaction_that_does_not_end_is_named_as_why_no_commit_comes(
    kafka: EmbeddedKafka,
) -> None:
    topic, group = create_topic(kafka), unique("exactly-once")
    transactions = Transactions(kafka, timeout_s=900)

    def reads(stop: threading.Event) -> None:
        member = Consumer(
            kafka.admin_config()
            | {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        )
        member.subscribe([topic])
        while not stop.is_set():
            member.poll(0.2)
        member.close()

    with (
        running(producer_of(kafka, topic, rate=20), reads),
        watching(kafka, "offsets-topic", sections=QUICK_RULES, group_interval_s=1) as watched,
    ):
        watched.served.wait_ready()
        for offset in range(10, 60, 10):
            transactions.begin(group, topic, offset)
            transactions.commit()
            threading.Event().wait(1)

        transactions.begin(group, topic, 60)
        try:
            eventually(  # others have groups on the same broker
                lambda: group in dict(watched.notices), "a notice", timeout_s=120
            )
            found = watched.group(group) or {}
        finally:
            transactions.abort()

    assert found["status"] == "ERR"
    assert found["cause"]["name"] == "commits_in_transaction", found["cause"]
    assert "no commit came since a transaction has been open in partition " in str(
        watched.receiver.notices
    )

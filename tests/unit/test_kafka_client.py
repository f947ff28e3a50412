"""A client library that falls silent, which no broker can be made to cause."""

import asyncio
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from lagwatch.clock import SystemClock
from lagwatch.config import ClusterSettings
from lagwatch.errors import SourceError
from lagwatch.kafka import codes
from lagwatch.kafka.client import KafkaClients, kafka_error


@pytest.fixture
def clients() -> KafkaClients:
    settings = ClusterSettings(bootstrap="127.0.0.1:1")
    return KafkaClients("here", settings, SystemClock(), grace_s=0.05)


def test_a_question_left_unanswered_is_a_timeout_and_costs_the_client(clients) -> None:
    first = clients.admin
    asked: list[AdminClient] = []

    def question(admin: AdminClient) -> Future[None]:
        asked.append(admin)
        return Future()

    with pytest.raises(KafkaException) as raised:
        asyncio.run(clients.ask(question, timeout_s=0.05))

    assert kafka_error(raised.value).code() == codes.TIMED_OUT
    assert asked == [first]
    assert clients.admin is not first


def test_so_is_a_call_that_gives_no_answer_in_time(clients) -> None:
    first = clients.admin
    never: Future[None] = Future()

    with pytest.raises(SourceError, match="waiting: the client library gave no answer in time"):
        asyncio.run(clients.call(lambda: never.result(0.05), doing="waiting"))

    assert clients.admin is not first


def test_an_answer_keeps_the_client(clients) -> None:
    first = clients.admin
    answer: Future[int] = Future()
    answer.set_result(42)

    assert asyncio.run(clients.ask(lambda _: answer, timeout_s=5)) == 42
    assert clients.admin is first

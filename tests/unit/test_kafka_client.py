"""A client library that falls silent, which no broker can be made to cause."""

import asyncio
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from lagwatch.clock import SystemClock
from lagwatch.config import ClusterSettings
from lagwatch.errors import SourceError
from lagwatch.kafka import codes
from lagwatch.kafka.client import KafkaClients, kafka_error
from tests.support.step_clock import LaterClock
from tests.support.waiting import eventually


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


def test_a_refused_connection_explains_silence_until_the_next_one_is_tried() -> None:
    clock, minute_ms = LaterClock(), 60_000
    rarely = {"reconnect.backoff.ms": minute_ms, "reconnect.backoff.max.ms": minute_ms}
    clients = KafkaClients("here", ClusterSettings(bootstrap="127.0.0.1:1", client=rarely), clock)

    def reason() -> str:
        silence = KafkaError(codes.TIMED_OUT)
        return str(asyncio.run(clients.explain(silence, doing="listing topics")))

    eventually(lambda: "connection refused" in reason(), "the first attempt fails")
    clock.ahead_s = 20.0
    before = reason()
    clock.ahead_s = 40.0

    assert "connection refused" in before
    assert "no answer" in reason()

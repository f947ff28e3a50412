"""Names of open transactions, asked through kafka-python: librdkafka cannot ask for them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from lagwatch.clock import Clock
from lagwatch.config import ClusterSettings
from lagwatch.core.model import EpochMs
from lagwatch.kafka.python_client import (
    DEADLINE_S,
    TIMEOUT_MS,
    Questions,
    UnavailableError,
    python_client,
    sentence,
    tried,
)
from lagwatch.ports.kafka import HeldPartition, TransactionNames

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

_STUCK: Final = "the brokers gave no answer in time when asked for transactions"


class KafkaTransactions:
    """Producers, transactional ids and starts of open transactions, as a `TransactionSource`."""

    def __init__(self, settings: ClusterSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._questions = Questions()

    async def names(
        self, held: Sequence[HeldPartition]
    ) -> Mapping[HeldPartition, TransactionNames]:
        """An answer for each; `problem` says why names are missing. Raises nothing."""
        answers, error = await self._questions.ask(lambda: self._names(held))
        if answers is None:
            reason = _STUCK if error is None else sentence("asking for transactions", error)
            return dict.fromkeys(held, _unknown(reason))
        return answers

    def _names(self, held: Sequence[HeldPartition]) -> Mapping[HeldPartition, TransactionNames]:
        try:
            with python_client(self._settings, needed_to="name transactions") as client:
                return _Question(client, self._clock).names(held)
        except UnavailableError as error:
            return dict.fromkeys(held, _unknown(str(error)))


class _Question:
    """Asks one client, within the deadline."""

    def __init__(self, client: "KafkaAdminClient", clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._ends_s = clock.monotonic_s() + DEADLINE_S - TIMEOUT_MS / 1000

    def names(self, held: Sequence[HeldPartition]) -> Mapping[HeldPartition, TransactionNames]:
        found: dict[HeldPartition, TransactionNames] = {}
        producers: dict[HeldPartition, int] = {}
        for each in held:
            if self._clock.monotonic_s() > self._ends_s:
                found[each] = _unknown(_STUCK)
                continue
            producer_id, problem = self._producer(each)
            if producer_id is None:
                found[each] = _unknown(problem)
            else:
                producers[each] = producer_id
        if producers:
            ids, problem = self._transactional_ids(sorted(set(producers.values())))
            started_ms = self._started_ms(sorted(ids.values()))
            for each, producer_id in producers.items():
                name = ids.get(producer_id, "")
                found[each] = TransactionNames(
                    producer_id=producer_id,
                    transactional_id=name,
                    started_ms=started_ms.get(name),
                    problem="" if name else problem or _hidden(producer_id),
                )
        return found

    def _producer(self, held: HeldPartition) -> tuple[int | None, str]:
        """The producer whose transaction begins at the last stable offset."""
        from kafka import TopicPartition  # noqa: PLC0415 - optional

        place = TopicPartition(held.topic, held.partition)
        found, error = tried(lambda: self._client.describe_producers([place])[place])
        if error is not None:
            if "Authorization" in type(error).__name__:
                return None, f"grant: Allow READ on TOPIC {held.topic} to name its transactions"
            return None, sentence("asking for producers", error)
        begun = {
            each.current_transaction_start_offset: int(each.producer_id)
            for each in found.active_producers
        }
        producer_id = begun.get(held.last_stable)
        return producer_id, "" if producer_id is not None else "it ended meanwhile"

    def _transactional_ids(self, producer_ids: Sequence[int]) -> tuple[dict[int, str], str]:
        found, error = tried(
            lambda: self._client.list_transactions(producer_id_filters=list(producer_ids))
        )
        if error is not None:
            return {}, sentence("listing transactions", error)
        listed = [each for of_broker in found.values() for each in of_broker]
        return {int(each.producer_id): str(each.transactional_id) for each in listed}, ""

    def _started_ms(self, names: Sequence[str]) -> Mapping[str, EpochMs]:
        if not names:
            return {}
        found, error = tried(lambda: self._client.describe_transactions(names))
        if error is not None:  # only an addition: a failure changes nothing else
            return {}
        return {
            name: EpochMs(int(each.transaction_start_time_ms))
            for name, each in found.items()
            if each.transaction_start_time_ms >= 0
        }


def _unknown(problem: str) -> TransactionNames:
    return TransactionNames(producer_id=None, transactional_id="", started_ms=None, problem=problem)


def _hidden(producer_id: int) -> str:
    return (
        f"the transactional id of producer {producer_id} is not shown; grant: "
        "Allow DESCRIBE on TRANSACTIONAL_ID *"
    )

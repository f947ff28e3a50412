"""Names of open transactions, asked through kafka-python: librdkafka cannot ask for them.

Optional (extra `transactions`), imported when the first transaction is found open. A client is made
for each question and closed after it: after a broker's restart one that is kept keeps failing.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lagwatch.clock import Clock
from lagwatch.config import ClusterSettings
from lagwatch.config.cluster import WITH_PASSWORD
from lagwatch.core.model import EpochMs
from lagwatch.ports.kafka import HeldPartition, TransactionNames

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

_TIMEOUT_MS: Final = 5_000
_DEADLINE_S: Final = 15.0
_MISSING: Final = (
    "kafka-python is not installed, which is needed to name transactions: "
    "pip install 'lagwatch[transactions]'"
)
_STUCK: Final = "the brokers gave no answer in time when asked for transactions"
_SECURITY: Final = ("ssl.", "sasl.", "security.", "enable.ssl.", "bootstrap.", "metadata.broker.")


class KafkaTransactions:
    """Producers, transactional ids and starts of open transactions, as a `TransactionSource`."""

    def __init__(self, settings: ClusterSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._asking: asyncio.Task[Mapping[HeldPartition, TransactionNames]] | None = None

    async def names(
        self, held: Sequence[HeldPartition]
    ) -> Mapping[HeldPartition, TransactionNames]:
        """An answer for each; `problem` says why names are missing. Raises nothing."""
        if self._asking is not None and not self._asking.done():
            return dict.fromkeys(held, _unknown(_STUCK))
        # a thread cannot be ended: it is left alone when it is late, and no other is started
        self._asking = asyncio.create_task(asyncio.to_thread(self._names, held))
        done, _ = await asyncio.wait({self._asking}, timeout=_DEADLINE_S)
        if not done:
            return dict.fromkeys(held, _unknown(_STUCK))
        told, error = _tried(self._asking.result)
        if error is not None:
            return dict.fromkeys(held, _unknown(_sentence("asking for transactions", error)))
        answers: Mapping[HeldPartition, TransactionNames] = told
        return answers

    def _names(self, held: Sequence[HeldPartition]) -> Mapping[HeldPartition, TransactionNames]:
        problem = _unsupported(self._settings)
        if problem:
            return dict.fromkeys(held, _unknown(problem))
        try:
            from kafka.admin import KafkaAdminClient  # noqa: PLC0415 - optional
        except ImportError:
            return dict.fromkeys(held, _unknown(_MISSING))
        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # a failure is reported in `problem`
        try:
            client = KafkaAdminClient(**_options(self._settings))
        except Exception as error:  # noqa: BLE001 - it raises whatever it likes
            return dict.fromkeys(held, _unknown(_sentence("connecting", error)))
        try:
            return _Question(client, self._clock).names(held)
        finally:
            client.close()


class _Question:
    """Asks one client, within the deadline."""

    def __init__(self, client: "KafkaAdminClient", clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._ends_s = clock.monotonic_s() + _DEADLINE_S - _TIMEOUT_MS / 1000

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
        told, error = _tried(lambda: self._client.describe_producers([place])[place])
        if error is not None:
            if "Authorization" in type(error).__name__:
                return None, f"grant: Allow READ on TOPIC {held.topic} to name its transactions"
            return None, _sentence("asking for producers", error)
        begun = {
            each.current_transaction_start_offset: int(each.producer_id)
            for each in told.active_producers
        }
        producer_id = begun.get(held.last_stable)
        return producer_id, "" if producer_id is not None else "it ended meanwhile"

    def _transactional_ids(self, producer_ids: Sequence[int]) -> tuple[dict[int, str], str]:
        told, error = _tried(
            lambda: self._client.list_transactions(producer_id_filters=list(producer_ids))
        )
        if error is not None:
            return {}, _sentence("listing transactions", error)
        listed = [each for of_broker in told.values() for each in of_broker]
        return {int(each.producer_id): str(each.transactional_id) for each in listed}, ""

    def _started_ms(self, names: Sequence[str]) -> Mapping[str, EpochMs]:
        if not names:
            return {}
        told, error = _tried(lambda: self._client.describe_transactions(names))
        if error is not None:  # good to know, no more
            return {}
        return {
            name: EpochMs(int(each.transaction_start_time_ms))
            for name, each in told.items()
            if each.transaction_start_time_ms >= 0
        }


def _tried(ask: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return ask(), None
    except Exception as error:  # noqa: BLE001 - it raises whatever it likes
        return None, error


def _unknown(problem: str) -> TransactionNames:
    return TransactionNames(producer_id=None, transactional_id="", started_ms=None, problem=problem)


def _hidden(producer_id: int) -> str:
    return (
        f"the transactional id of producer {producer_id} is not shown; grant: "
        "Allow DESCRIBE on TRANSACTIONAL_ID *"
    )


def _sentence(doing: str, error: Exception) -> str:
    return f"{doing} failed: {type(error).__name__}: {error}"


def _unsupported(settings: ClusterSettings) -> str:
    """Why kafka-python cannot connect as this cluster wants it; "" when it can."""
    if settings.sasl is not None and settings.sasl.mechanism not in WITH_PASSWORD:
        return f"transactions cannot be named with SASL {settings.sasl.mechanism}"
    own = sorted(name for name in settings.client if name.startswith(_SECURITY))
    if own:
        return f"transactions cannot be named with `client` option {own[0]}"
    return ""


def _options(settings: ClusterSettings) -> dict[str, Any]:
    protocol = ("SASL_" if settings.sasl else "") + ("SSL" if settings.tls.enabled else "PLAINTEXT")
    options: dict[str, Any] = {
        "bootstrap_servers": list(settings.bootstrap),
        "client_id": settings.client_id,
        "security_protocol": protocol,
        "request_timeout_ms": _TIMEOUT_MS,
        "bootstrap_timeout_ms": _TIMEOUT_MS,
    }
    if settings.tls.enabled:
        options["ssl_context"] = _context(settings)
    if settings.sasl is not None:
        options["sasl_mechanism"] = settings.sasl.mechanism
        options["sasl_plain_username"] = settings.sasl.username
        password = settings.sasl.password
        options["sasl_plain_password"] = password.get_secret_value() if password else ""
    return options


def _context(settings: ClusterSettings) -> ssl.SSLContext:
    tls = settings.tls
    context = ssl.create_default_context(cafile=None if tls.ca_file is None else str(tls.ca_file))
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert_file is not None:
        password = tls.key_password.get_secret_value() if tls.key_password else None
        context.load_cert_chain(tls.cert_file, tls.key_file, password)
    return context

"""kafka-python's client, for what librdkafka cannot ask: transactions, share and streams groups.

Optional (extra `transactions`), imported when it is first needed. A client is made for each
question and closed after it: after a broker's restart one that is kept keeps failing.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lagwatch.config import ClusterSettings
from lagwatch.config.cluster import WITH_PASSWORD

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

T = TypeVar("T")

TIMEOUT_MS: Final = 5_000
DEADLINE_S: Final = 15.0
_SECURITY: Final = ("ssl.", "sasl.", "security.", "enable.ssl.", "bootstrap.", "metadata.broker.")


class UnavailableError(Exception):
    """No client could be made; the text says why. Never leaves `lagwatch.kafka`."""


@contextmanager
def python_client(settings: ClusterSettings, *, needed_to: str) -> Iterator["KafkaAdminClient"]:
    """Connect a client; `needed_to` says what for ("name transactions").

    Raises:
        UnavailableError: it is not installed, cannot log in as this cluster wants it, or no broker
            answers.
    """
    if problem := _unsupported(settings, needed_to):
        raise UnavailableError(problem)
    try:
        from kafka.admin import KafkaAdminClient  # noqa: PLC0415 - optional
    except ImportError as error:
        raise UnavailableError(
            f"kafka-python is not installed, which is needed to {needed_to}: "
            "pip install 'lagwatch[transactions]'"
        ) from error
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # a failure is reported by the caller
    client, failure = tried(lambda: KafkaAdminClient(**_options(settings)))
    if failure is not None:
        raise UnavailableError(sentence("connecting", failure)) from failure
    try:
        yield client
    finally:
        client.close()


class Questions:
    """Runs one question at a time in a thread, with a deadline."""

    def __init__(self) -> None:
        self._asking: asyncio.Task[object] | None = None

    async def ask(self, question: Callable[[], T]) -> tuple[T | None, Exception | None]:
        """The answer, or the exception; neither if there was no answer in time."""
        if self._asking is not None and not self._asking.done():
            return None, None
        # a thread cannot be ended: it is left alone when it is late, and no other is started
        asking = asyncio.create_task(asyncio.to_thread(question))
        self._asking = asking
        done, _ = await asyncio.wait({asking}, timeout=DEADLINE_S)
        return tried(asking.result) if done else (None, None)


def tried(ask: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """The answer, or what kafka-python raised instead."""
    try:
        return ask(), None
    except Exception as error:  # noqa: BLE001 - its exceptions have no common base
        return None, error


def sentence(doing: str, error: Exception) -> str:
    """What failed, in one sentence."""
    return f"{doing} failed: {type(error).__name__}: {error}"


def _unsupported(settings: ClusterSettings, needed_to: str) -> str:
    """Why kafka-python cannot connect as this cluster wants it; "" when it can."""
    if settings.sasl is not None and settings.sasl.mechanism not in WITH_PASSWORD:
        mechanism = settings.sasl.mechanism
        return f"kafka-python, needed to {needed_to}, cannot connect with SASL {mechanism}"
    own = sorted(name for name in settings.client if name.startswith(_SECURITY))
    if own:
        return f"kafka-python, needed to {needed_to}, cannot connect with `client` option {own[0]}"
    return ""


def _options(settings: ClusterSettings) -> dict[str, Any]:
    protocol = ("SASL_" if settings.sasl else "") + ("SSL" if settings.tls.enabled else "PLAINTEXT")
    options: dict[str, Any] = {
        "bootstrap_servers": list(settings.bootstrap),
        "client_id": settings.client_id,
        "security_protocol": protocol,
        "request_timeout_ms": TIMEOUT_MS,
        "bootstrap_timeout_ms": TIMEOUT_MS,
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

"""The clients of one cluster: made, polled for events, timed, and their failures explained."""

import asyncio
import gc
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock
from typing import Final, TypeVar, cast

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from lagwatch.clock import Clock
from lagwatch.config import ClusterSettings, SaslSettings
from lagwatch.config.cluster import AWS_MSK_IAM
from lagwatch.errors import SourceError
from lagwatch.kafka import codes, msk, properties
from lagwatch.kafka.causes import Causes

REQUEST_TIMEOUT_S: Final = 5.0
"""Deadline of a request; a broker that needs longer counts as not answering."""
GRACE_S: Final = 2.0
"""Grace beyond the client library's own deadlines, for a busy machine or a missed deadline."""
_SHORT_S: Final = 1.0
_FULL_EVERY: Final = 4


class AdaptiveTimeout:
    """Full deadlines as long as answers come; after a miss short ones, and every 4th time full.

    So a dead broker delays others only briefly, and a slow one gets another chance.
    """

    def __init__(self) -> None:
        self._missed = 0

    @property
    def timeout_s(self) -> float:
        return REQUEST_TIMEOUT_S if self._missed % _FULL_EVERY == 0 else _SHORT_S

    def note(self, *, answered: bool) -> None:
        """Record how a round ended."""
        self._missed = 0 if answered else self._missed + 1


_EVENT_AGE_S: Final = 10.0
_EXPLAINS_S: Final = 30.0
"""An event says for so long why there is no answer: the client library tries to connect every ten
seconds or so, and no answer clears them."""
_EVENTS: Final = 2_000
"""Bounds memory; room for what all clients of a broker that is down report in that time."""
_LISTEN_S: Final = 0.2

T = TypeVar("T")

_log = logging.getLogger("lagwatch.librdkafka")


class Events:
    """What the client library reported lately; any thread may add."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._errors: deque[tuple[float, KafkaError]] = deque(maxlen=_EVENTS)

    def add(self, error: KafkaError) -> None:
        with self._lock:
            self._errors.append((self._clock.monotonic_s(), error))

    def recent(self, age_s: float = _EVENT_AGE_S) -> list[KafkaError]:
        since_s = self._clock.monotonic_s() - age_s
        with self._lock:
            return [error for at_s, error in self._errors if at_s >= since_s]

    def clear(self) -> None:
        with self._lock:
            self._errors.clear()


class _DisconnectLog(logging.Handler):
    """Reads in the client library's log what no event reports: a broker closed the connection."""

    def __init__(self, events: Events) -> None:
        super().__init__()
        self._events = events

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if "closed by peer" in text:
            self._events.add(KafkaError(codes.TRANSPORT, text))


class KafkaClients:
    """One admin client and, on demand, readers; blocking calls run in threads."""

    def __init__(
        self, cluster: str, settings: ClusterSettings, clock: Clock, *, grace_s: float = GRACE_S
    ) -> None:
        """Make the admin client; connects to nothing yet.

        `grace_s` is added to every deadline of the client library.

        Raises:
            SourceError: `tls` or `protocol`: the client library refuses the configuration.
        """
        self.cluster = cluster
        self.settings = settings
        self.clock = clock
        self.grace_s = grace_s
        self.causes = Causes(cluster, settings)
        self._events = Events(clock)
        # its log repeats 20 times a second what its events report; with `debug` all is kept
        _log.propagate = "debug" in settings.client
        _log.setLevel(logging.DEBUG)
        _log.handlers[:] = [_DisconnectLog(self._events)]
        self.admin = self.another_admin()

    def another_admin(self) -> AdminClient:
        """Make an admin client with connections of its own.

        It mostly replaces another one. Errors of that one refer to it in a circle; the collector
        looks for such circles too seldom, and each client has several threads and connections.

        Raises:
            SourceError: as the constructor.
        """
        gc.collect()
        return self._made(
            lambda: AdminClient(self._with_events(properties.common(self.settings)), logger=_log)
        )

    def reader(self, *, bulk: bool = False, uncommitted: bool = False) -> Consumer:
        """Make a consumer for partitions assigned by hand; `bulk`: to read much at once and end.

        `uncommitted`: it reads records of open and aborted transactions, too.

        Raises:
            SourceError: as the constructor.
        """
        chosen = properties.bulk_reader if bulk else properties.reader
        wanted = chosen(self.settings)
        if uncommitted:
            wanted = {**wanted, "isolation.level": "read_uncommitted"}
        return self._made(lambda: Consumer(self._with_events(wanted), logger=_log))

    def tail_reader(self) -> Consumer:
        """Make a consumer for the last offsets of some partitions.

        Raises:
            SourceError: as the constructor.
        """
        chosen = properties.tail_reader(self.settings)
        return self._made(lambda: Consumer(self._with_events(chosen), logger=_log))

    async def call(self, function: Callable[[], T], *, doing: str) -> T:
        """Run a blocking call in a thread; `doing` says in a few words what is tried.

        Raises:
            SourceError: with the most specific cause that the client library named meanwhile.
        """
        admin = self.admin
        try:
            return await asyncio.to_thread(function)
        except KafkaException as error:
            raise await self.explain(kafka_error(error), doing=doing) from error
        except TimeoutError as error:
            self.renew_admin(admin)
            message = f"{doing}: the client library gave no answer in time"
            raise SourceError(cluster=self.cluster, kind="timeout", message=message) from error

    async def ask(self, question: Callable[[AdminClient], Future[T]], *, timeout_s: float) -> T:
        """Send a question that has a deadline of its own, `timeout_s`, and wait for the answer.

        Raises:
            KafkaException: as reported; or `TIMED_OUT`, when the deadline is over without a report.
        """
        admin = self.admin
        try:
            async with asyncio.timeout(timeout_s + self.grace_s):
                return await asyncio.wrap_future(question(admin))
        except TimeoutError as error:
            self.renew_admin(admin)
            raise KafkaException(KafkaError(codes.TIMED_OUT)) from error

    async def explain(self, error: KafkaError, *, doing: str) -> SourceError:
        """Why a request failed; waits a moment for events of the client library."""
        await asyncio.to_thread(self.admin.poll, _LISTEN_S)
        return self.causes.best(self._events.recent(_EXPLAINS_S), error, doing=doing)

    async def listen(self) -> None:
        """Let the client library report its events; needed about once a second.

        Raises:
            SourceError: no broker could be spoken to lately.
        """
        await asyncio.to_thread(self.admin.poll, 0)
        recent = self._events.recent()
        lost = next((error for error in recent if error.code() in codes.LOST), None)
        if lost is not None:
            raise self.causes.best(recent, lost)

    def answered(self) -> None:
        """Forget earlier problems, because the cluster answers."""
        self.causes.answered()
        self._events.clear()

    def renew_admin(self, admin: AdminClient) -> None:
        """Replace this admin client by a new one, unless that was done already.

        After a broker's restart the client library may never send waiting requests, or keep using
        former leaders.
        """
        if self.admin is admin:
            with suppress(SourceError):  # a file with a secret is missing now: keep the old client
                self.admin = self.another_admin()
                free_replaced()

    def _made(self, make: Callable[[], T]) -> T:
        try:
            return make()
        except KafkaException as error:
            raise self.causes.misconfigured(error) from error

    def _with_events(self, configuration: properties.Properties) -> properties.Properties:
        # a callback among the values: the stubs of the client know plain values only
        callbacks: dict[str, object] = {"error_cb": self._events.add}
        sasl = self.settings.sasl
        if sasl is not None and sasl.mechanism == AWS_MSK_IAM:
            self._token("")  # the client library would wait for it for ten seconds
            callbacks["oauth_cb"] = self._token
        return {**configuration, **callbacks}  # type: ignore[dict-item]

    def _token(self, _configuration: str) -> tuple[str, float]:
        try:
            return msk.token(cast("SaslSettings", self.settings.sasl))
        except msk.NoTokenError as error:
            raise self.causes.no_token(str(error)) from error


def free_replaced() -> None:
    """Free clients that were replaced: each has several threads and connections.

    Errors refer to them in circles, for which the collector looks too seldom by itself.
    """
    gc.collect()


def kafka_error(error: BaseException | KafkaError) -> KafkaError:
    """Take the error out of an exception of the client library; an error is itself."""
    if isinstance(error, KafkaError):
        return error
    inner = error.args[0] if error.args else None
    return inner if isinstance(inner, KafkaError) else KafkaError(codes.FAILED, str(error))

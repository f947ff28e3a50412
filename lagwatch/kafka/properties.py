"""From our configuration to librdkafka's properties.

Source: https://github.com/confluentinc/librdkafka/blob/v2.16.0/CONFIGURATION.md
"""

from typing import Final

from lagwatch.config import ClusterSettings, SaslSettings, TlsSettings
from lagwatch.config.cluster import AWS_MSK_IAM

Properties = dict[str, str | int | float | bool]

_COMMON: Final[Properties] = {
    "reconnect.backoff.ms": 100,
    # librdkafka's 10 s would make us the last to notice that a broker is back
    "reconnect.backoff.max.ms": 2_000,
    "socket.keepalive.enable": True,
    # "closed by the broker at once" is the only sign of plaintext sent to a TLS port
    "log.connection.close": True,
    # KIP-714: send the brokers no client metrics
    "enable.metrics.push": False,
}
_READER: Final[Properties] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # the end of a partition may be behind records that are never handed out
    "enable.partition.eof": True,
    # commits of transactions that were aborted, or are still open, do not count
    "isolation.level": "read_committed",
    "check.crcs": False,
    # Little in store, often fetched: bounds the memory of a long backlog. With the default back-off
    # of 1 s the same records took 40 s instead of 8 s.
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 8_192,
    "fetch.queue.backoff.ms": 20,
    "fetch.message.max.bytes": 1_048_576,
    "fetch.max.bytes": 8_388_608,
    # Commits come one by one, all the time: an answer for each of them takes five times the CPU
    # time of one every half second.
    "fetch.min.bytes": 1_000_000,
    "fetch.wait.max.ms": 500,
    "fetch.error.backoff.ms": 200,
    # an answer comes after `fetch.wait.max.ms`; without one the connection may be half-open, and
    # the default of 60 s would be that long without commits
    "socket.timeout.ms": 10_000,
    "auto.offset.reset": "earliest",
}

_BULK: Final[Properties] = {
    "queued.min.messages": 100_000,
    "queued.max.messages.kbytes": 32_768,
    "fetch.message.max.bytes": 4_194_304,
    "fetch.max.bytes": 16_777_216,
    # an empty answer shows the end of the log: no call waits for more records
    "fetch.min.bytes": 1,
    "fetch.wait.max.ms": 10,
    # a range that is gone must not begin anew somewhere else
    "auto.offset.reset": "error",
}

_TAIL: Final[Properties] = {
    # a few records are looked at, and only their offsets
    "fetch.min.bytes": 1,
    "fetch.wait.max.ms": 200,
    "queued.min.messages": 1_000,
    "queued.max.messages.kbytes": 1_024,
    "fetch.message.max.bytes": 65_536,
    "fetch.max.bytes": 1_048_576,
    # what retention took away must not begin anew somewhere else
    "auto.offset.reset": "error",
}


def common(settings: ClusterSettings) -> Properties:
    """Properties of every client of this cluster, the user's own last."""
    return {
        **_COMMON,
        "bootstrap.servers": ",".join(settings.bootstrap),
        "client.id": settings.client_id,
        "security.protocol": _protocol(settings),
        **(_tls(settings.tls) if settings.tls.enabled else {}),
        **(_sasl(settings.sasl) if settings.sasl else {}),
        **settings.client,
    }


def reader(settings: ClusterSettings) -> Properties:
    """Properties of the reader of the offsets topic.

    The client demands a group id; with partitions assigned by hand and no commits it is never
    sent to a broker.
    """
    return {**_READER, "group.id": settings.client_id, **common(settings)}


def bulk_reader(settings: ClusterSettings) -> Properties:
    """Properties of a reader of one range of offsets, which ends with it."""
    return {**_READER, **_BULK, "group.id": settings.client_id, **common(settings)}


def tail_reader(settings: ClusterSettings) -> Properties:
    """Properties of a reader of the last offsets of any topics."""
    return {**_READER, **_TAIL, "group.id": settings.client_id, **common(settings)}


def _protocol(settings: ClusterSettings) -> str:
    match settings.tls.enabled, settings.sasl is not None:
        case True, True:
            return "SASL_SSL"
        case True, False:
            return "SSL"
        case False, True:
            return "SASL_PLAINTEXT"
        case _:
            return "PLAINTEXT"


def _tls(tls: TlsSettings) -> Properties:
    properties: Properties = {
        "enable.ssl.certificate.verification": tls.verify,
        "ssl.endpoint.identification.algorithm": "https" if tls.verify else "none",
    }
    for name, file in (
        ("ssl.ca.location", tls.ca_file),
        ("ssl.certificate.location", tls.cert_file),
        ("ssl.key.location", tls.key_file),
    ):
        if file is not None:
            properties[name] = str(file)
    if tls.key_password:
        properties["ssl.key.password"] = tls.key_password.get_secret_value()
    return properties


def _sasl(sasl: SaslSettings) -> Properties:
    if sasl.mechanism == AWS_MSK_IAM:
        return {"sasl.mechanism": "OAUTHBEARER"}  # with a callback that signs the tokens
    properties: Properties = {"sasl.mechanism": sasl.mechanism}
    if sasl.username is not None:
        properties["sasl.username"] = sasl.username
    if sasl.password:
        properties["sasl.password"] = sasl.password.get_secret_value()
    return properties

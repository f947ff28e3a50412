"""A member of a streams group (KIP-1071), which no client library for Python can be.

Speaks as much of Kafka's protocol as that needs: StreamsGroupHeartbeat 0 and OffsetCommit 9.
"""

import socket
import uuid
from struct import pack, unpack
from typing import Final

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import ANSWER_TIMEOUT_S, commit, unique
from tests.support.waiting import eventually

_OFFSET_COMMIT: Final = 8
_STREAMS_GROUP_HEARTBEAT: Final = 88
_NO_TAGS: Final = b"\x00"
_NULL_STRUCT: Final = b"\xff"
_NONE: Final = b"\x00"
_EMPTY: Final = b"\x01"
_EPOCH: Final = 1
"""Of a member that joined alone."""


class StreamsMember:
    """One member of a streams group that reads one topic."""

    def __init__(self, kafka: EmbeddedKafka, group: str, topic: str) -> None:
        host, port = kafka.bootstrap_servers.split(",")[0].split(":")
        self._address = (host, int(port))
        self._group = group
        self._topic = topic
        # coordinators are there once somebody has committed
        commit(kafka, unique("first"), topic, 0)
        self._member = str(uuid.uuid4())

    def join(self) -> None:
        """Join with a topology of one part that reads the topic."""
        part = _text("0") + _array(_text(self._topic)) + 5 * _EMPTY + _NO_TAGS
        topology = b"\x01" + pack(">i", 0) + _array(part) + _NO_TAGS
        no_tasks = 3 * _EMPTY
        self._call(
            _STREAMS_GROUP_HEARTBEAT,
            0,
            _text(self._group)
            + _text(self._member)
            + pack(">ii", 0, 0)
            + 2 * _NONE
            + pack(">i", 60_000)
            + topology
            + no_tasks
            + _text("process")
            + _NULL_STRUCT
            + _EMPTY
            + 2 * _NONE
            + b"\x00"
            + _NO_TAGS,
            error_at=4,
        )

    def commit(self, offset: int) -> None:
        """Commit for partition 0."""
        partition = pack(">iqi", 0, offset, -1) + _NONE + _NO_TAGS
        topic = _text(self._topic) + _array(partition) + _NO_TAGS
        # throttle time, array of topics, its name, array of partitions, partition
        error_at = 4 + 1 + len(_text(self._topic)) + 1 + 4
        self._call(
            _OFFSET_COMMIT,
            9,
            _text(self._group)
            + pack(">i", _EPOCH)
            + _text(self._member)
            + _NONE
            + _array(topic)
            + _NO_TAGS,
            error_at=error_at,
        )

    def _call(self, api: int, version: int, body: bytes, *, error_at: int) -> None:
        eventually(
            lambda: self._error(api, version, body, error_at) == 0,
            f"Kafka grants request {api}",
            timeout_s=ANSWER_TIMEOUT_S,
        )

    def _error(self, api: int, version: int, body: bytes, error_at: int) -> int:
        client = b"test"
        header = pack(">hhih", api, version, 1, len(client)) + client + _NO_TAGS
        with socket.create_connection(self._address, timeout=ANSWER_TIMEOUT_S) as broker:
            broker.sendall(pack(">i", len(header) + len(body)) + header + body)
            answer = broker.makefile("rb")
            (size,) = unpack(">i", answer.read(4))
            answer_bytes = answer.read(size)[5:]  # behind the correlation id and its tags
        (error,) = unpack(">h", answer_bytes[error_at : error_at + 2])
        return int(error)


def _text(value: str) -> bytes:
    raw = value.encode()
    return bytes([len(raw) + 1]) + raw


def _array(item: bytes) -> bytes:
    """An array of one."""
    return b"\x02" + item

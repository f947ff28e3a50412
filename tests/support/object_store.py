"""An S3 store on loopback, with the conditional writes that locks need (moto's server)."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from uuid import uuid4

from pyarrow import fs

_MAY_BE_MADE: Final = "&allow_bucket_creation=true"


@contextmanager
def s3_bucket() -> Iterator[str]:
    """An empty bucket; yields its URL, with keys, because workers of Spark run already."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 takes a second

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _one_at_a_time(server)
    try:
        host, port = server.get_host_and_port()
        name = f"lag-{uuid4().hex[:12]}"
        query = f"endpoint_override={host}:{port}&scheme=http&region=us-east-1"
        here, _ = fs.FileSystem.from_uri(f"s3://tests:tests@{name}?{query}{_MAY_BE_MADE}")
        here.create_dir(name)
        yield f"s3://tests:tests@{name}/history?{query}"
    finally:
        server.stop()


def _one_at_a_time(server: Any) -> None:  # noqa: ANN401 moto has no types
    """Let the server answer one request after the other.

    It looks whether an object is there, then writes it: S3 does both at once, moto's threads
    do not, and of two writers that come together both would succeed.
    """
    application, lock = server._server.app, threading.Lock()  # noqa: SLF001

    def alone(environ: Any, start_response: Any) -> Iterable[bytes]:  # noqa: ANN401
        with lock:
            return list(application(environ, start_response))

    server._server.app = alone  # noqa: SLF001

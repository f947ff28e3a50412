"""An S3 store on loopback, with the conditional writes that locks need (moto's server)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

from pyarrow import fs

_MAY_BE_MADE: Final = "&allow_bucket_creation=true"


@contextmanager
def s3_bucket() -> Iterator[str]:
    """An empty bucket; yields its URL, with keys, because workers of Spark run already."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 takes a second

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        name = f"lag-{uuid4().hex[:12]}"
        query = f"endpoint_override={host}:{port}&scheme=http&region=us-east-1"
        here, _ = fs.FileSystem.from_uri(f"s3://tests:tests@{name}?{query}{_MAY_BE_MADE}")
        here.create_dir(name)
        yield f"s3://tests:tests@{name}/history?{query}"
    finally:
        server.stop()

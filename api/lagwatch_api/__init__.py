"""The HTTP layer of lagwatch: Burrow's `/v3`, health, and the documentation of both.

It sees `lagwatch.core`, `lagwatch.ports` and `lagwatch.errors`, nothing else: every answer comes
from the snapshots behind the `Queries` port, so no request ever waits for Kafka.
"""

from lagwatch_api.app import create_app

__all__ = ["create_app"]

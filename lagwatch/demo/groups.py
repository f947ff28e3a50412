"""Who plays in the demo, and the verdict each of them must get."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One consumer group of the demo."""

    group: str
    topic: str
    story: str
    status: str
    """The group's status as `/v3` must show it."""
    worst: str = ""
    """Status of its worst partition; "" when the group must be OK."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTopic:
    """One topic of the demo and its traffic."""

    name: str
    partitions: int
    rate: int
    """Messages a second, over all partitions."""
    backlog: int = 0
    """Messages per partition that are there before lagwatch starts."""
    transactional: bool = False


ORDERS: Final = DemoTopic(name="orders", partitions=3, rate=120)
CLICKS: Final = DemoTopic(name="clicks", partitions=1, rate=100)
ARCHIVE: Final = DemoTopic(name="archive", partitions=2, rate=20, backlog=4000)
LEDGER: Final = DemoTopic(name="ledger", partitions=1, rate=40, transactional=True)
TOPICS: Final = (ORDERS, CLICKS, ARCHIVE, LEDGER)

HEALTHY: Final = Role(group="shipping", topic="orders", story="keeps up", status="OK")
STATIC: Final = Role(
    group="invoices",
    topic="orders",
    story="static member, restarts every few seconds",
    status="OK",
)
MODERN: Final = Role(
    group="search-index", topic="orders", story="KIP-848 group, keeps up", status="OK"
)
TRANSACTIONAL: Final = Role(
    group="bookkeeping", topic="ledger", story="read_committed reader", status="OK"
)
FALLING_BEHIND: Final = Role(
    group="click-stats",
    topic="clicks",
    story="reads slower than is written",
    status="WARN",
    worst="WARN",
)
STALLED: Final = Role(
    group="mailer",
    topic="archive",
    story="commits, but never moves",
    status="ERR",
    worst="STALL",
)
STOPPED: Final = Role(
    group="reports", topic="archive", story="died after a few seconds", status="ERR", worst="STOP"
)
REWINDING: Final = Role(
    group="replayer", topic="archive", story="keeps going back", status="ERR", worst="REWIND"
)
DEMO_GROUPS: Final = (
    HEALTHY,
    STATIC,
    MODERN,
    TRANSACTIONAL,
    FALLING_BEHIND,
    STALLED,
    STOPPED,
    REWINDING,
)

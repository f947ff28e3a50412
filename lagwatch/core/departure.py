"""Why a group has no committed offsets any more: it was deleted, or its offsets expired.

Kafka removes the offsets of a group that has been without members, and has not committed, for
`offsets.retention.minutes`, and writes the same tombstones as for a deletion. So the last sign of
life decides: what is gone sooner than that did not expire.

Source: KIP-211; Kafka, GroupMetadata.scala, removeExpiredOffsets.
"""

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final

DEFAULT_RETENTION_MS: Final = 7 * 86_400_000
"""`offsets.retention.minutes` of a broker that is configured as delivered."""
_MARGIN_MS: Final = 60_000
"""Clocks may differ, and a member may have been seen a little before it left."""


@unique
class Departure(StrEnum):
    """How a group went."""

    DELETED = "deleted"
    LIKELY_DELETED = "likely_deleted"
    EXPIRED = "expired"
    LIKELY_EXPIRED = "likely_expired"
    FORGOTTEN = "forgotten"
    """By lagwatch, because it has not committed for long; Kafka may hold it still."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class LastSeen:
    """The last signs of life of a group; instants on lagwatch's clock."""

    commit_ms: int
    """Its newest commit; -1 unknown."""
    alive_ms: int
    """Its newest commit, or when it was last seen with members, whichever is later."""
    at_least: bool = False
    """It may have lived on after that: lagwatch did not look all the time."""


def gone_after_ms(last: LastSeen | None) -> int | None:
    """When a group that went while lagwatch did not look was there still; None: it looked."""
    return last.alive_ms if last is not None and last.at_least and last.alive_ms >= 0 else None


def departure(
    last: LastSeen | None, gone_ms: int, *, retention_ms: int | None, forget_ms: int
) -> Departure:
    """How a group went that was not seen any more at `gone_ms`.

    `retention_ms`: the shortest that any broker has; None: not readable, Kafka's default is likely.
    `forget_ms`: silence after which lagwatch itself drops a group.
    """
    if last is None or last.commit_ms < 0:
        return Departure.UNKNOWN
    silent_ms = gone_ms - last.alive_ms
    kept_ms = DEFAULT_RETENTION_MS if retention_ms is None else retention_ms
    forgotten = gone_ms - last.commit_ms >= forget_ms - _MARGIN_MS
    if last.at_least and (silent_ms >= kept_ms or forgotten):
        return Departure.UNKNOWN
    if silent_ms >= kept_ms:
        return Departure.LIKELY_EXPIRED if retention_ms is None else Departure.EXPIRED
    if forgotten:
        return Departure.FORGOTTEN
    if silent_ms >= kept_ms - min(_MARGIN_MS, kept_ms // 10):
        return Departure.UNKNOWN
    return Departure.LIKELY_DELETED if retention_ms is None else Departure.DELETED

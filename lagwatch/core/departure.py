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


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long Kafka keeps the offsets of a group without members."""

    known_ms: int | None = None
    """The shortest that any broker has; None: not known."""
    refused: bool = False
    """The brokers refuse to say it."""

    @property
    def likely_ms(self) -> int | None:
        """As known, or Kafka's default where it cannot be asked; None: not asked yet."""
        if self.known_ms is None and self.refused:
            return DEFAULT_RETENTION_MS
        return self.known_ms


def gone_after_ms(last: LastSeen | None) -> int | None:
    """When a group that went while lagwatch did not look was there still; None: it looked."""
    return last.alive_ms if last is not None and last.at_least and last.alive_ms >= 0 else None


def departure(
    last: LastSeen | None, gone_ms: int, *, retention: Retention, forget_ms: int
) -> Departure:
    """How a group went that was not seen any more at `gone_ms`.

    `forget_ms`: silence after which lagwatch itself drops a group.
    """
    if last is None or last.commit_ms < 0:
        return Departure.UNKNOWN
    silent_ms = gone_ms - last.alive_ms
    kept_ms = retention.likely_ms
    expired = kept_ms is not None and silent_ms >= kept_ms
    forgotten = gone_ms - last.commit_ms >= forget_ms - _MARGIN_MS
    if last.at_least and (expired or forgotten):
        return Departure.UNKNOWN
    if expired:
        return Departure.LIKELY_EXPIRED if retention.known_ms is None else Departure.EXPIRED
    if forgotten:
        return Departure.FORGOTTEN
    if kept_ms is None or silent_ms >= kept_ms - min(_MARGIN_MS, kept_ms // 10):
        return Departure.UNKNOWN
    return Departure.LIKELY_DELETED if retention.known_ms is None else Departure.DELETED

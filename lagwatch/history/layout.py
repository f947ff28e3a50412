"""Paths of the Parquet store: `KIND/cluster=NAME/day=2026-11-21[/hour=07]/part-BATCH.parquet`.

The way Hive lays out partitions, so Spark, DuckDB and pandas find `cluster`, `day` and `hour` as
columns; in the files themselves `cluster` is not repeated.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote, unquote

from lagwatch.core.record import Kind

DAY_MS: Final = 86_400_000
HOUR_MS: Final = 3_600_000
SUFFIX: Final = ".parquet"
BY_HOUR: Final = frozenset({Kind.SAMPLES, Kind.GROUP_SAMPLES})
"""Kinds with so many rows that their files are split by hour, others by day."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS: Final = 253_402_300_799_999
"""The last instant of the year 9999."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Slot:
    """A folder of one kind and cluster and the time it covers: an hour or a day, UTC."""

    kind: Kind
    cluster: str
    from_ms: int

    @classmethod
    def at(cls, kind: Kind, cluster: str, at_ms: int) -> "Slot":
        """The slot that holds an instant."""
        return cls(kind=kind, cluster=cluster, from_ms=at_ms - at_ms % slot_ms(kind))

    @property
    def to_ms(self) -> int:
        return self.from_ms + slot_ms(self.kind)

    @property
    def path(self) -> str:
        """Relative to the folder of the store."""
        path = f"{cluster_path(self.kind, self.cluster)}/day={day_of(self.from_ms)}"
        if self.kind in BY_HOUR:
            path += f"/hour={self.from_ms % DAY_MS // HOUR_MS:02d}"
        return path

    def file(self, batch: str) -> str:
        """Path of the file of a batch."""
        return f"{self.path}/part-{batch}{SUFFIX}"


def slot_ms(kind: Kind) -> int:
    """How long a slot of this kind is."""
    return HOUR_MS if kind in BY_HOUR else DAY_MS


def slots(kind: Kind, cluster: str, from_ms: int, to_ms: int) -> Iterator[Slot]:
    """The slots that overlap a time, in order."""
    step = slot_ms(kind)
    for at_ms in range(from_ms - from_ms % step, to_ms, step):
        yield Slot(kind=kind, cluster=cluster, from_ms=at_ms)


def slot_of(path: str) -> Slot | None:
    """The slot a path belongs to; None if it is not a path of the store."""
    kind, *folders = path.split("/")
    parts = dict(folder.split("=", 1) for folder in folders if "=" in folder)
    try:
        day = datetime.strptime(parts["day"], "%Y-%m-%d").replace(tzinfo=UTC)
        hour = timedelta(hours=int(parts.get("hour", "0")))
        return Slot.at(Kind(kind), unquote(parts["cluster"]), _ms(day + hour))
    except (KeyError, ValueError):
        return None


def is_data(name: str) -> bool:
    """True if readers read this file."""
    return name.endswith(SUFFIX) and not name.startswith((".", "_"))


def cluster_path(kind: Kind, cluster: str) -> str:
    """The folder of a kind and cluster; a name may hold any character."""
    return f"{kind}/cluster={quote(cluster, safe='')}"


def cluster_of(name: str) -> str | None:
    """The cluster of a folder `cluster=NAME`."""
    return unquote(name.removeprefix("cluster=")) if name.startswith("cluster=") else None


def day_of(at_ms: int) -> str:
    """The day (UTC) of an instant: `2026-11-21`; the first or last there is for one beyond."""
    within = min(max(at_ms, 0), _LAST_MS)
    return (_EPOCH + timedelta(milliseconds=within)).strftime("%Y-%m-%d")


def day_start_ms(day: str) -> int:
    """The first instant of a day.

    Raises:
        ValueError: it is not written `2026-11-21`.
    """
    return _ms(datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC))


def _ms(instant: datetime) -> int:
    return (instant - _EPOCH) // timedelta(milliseconds=1)

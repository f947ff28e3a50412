"""Copies of an offsets topic and of log ends as Parquet files, made up."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lagwatch.monitor.settings import MonitorSettings
from tests.support.history import NOON_MS
from tests.support.wire import encode_group_key, encode_offset_key, encode_offset_value

INTERVAL_MS = 30_000
Record = dict[str, Any]


def monitor_settings(**changes: Any) -> MonitorSettings:  # noqa: ANN401
    """As configured by default, or as changed."""
    values: dict[str, Any] = {
        "intervals": 10,
        "min_distance_ms": 1000,
        "expire_ms": 7 * 86_400_000,
        "allowed_lag": 0,
        "minimum_complete": 0.0,
        "history_ms": 86_400_000,
    }
    return MonitorSettings(**(values | changes))


@dataclass
class Copied:
    """What the files will hold."""

    folder: Path
    records: list[Record] = field(default_factory=list)
    log_ends: list[Record] = field(default_factory=list)
    orders: dict[int, int] = field(default_factory=dict)

    def commit(
        self,
        group: str,
        offset: int | None,
        second: float,
        *,
        topic: str = "orders",
        of: int = 0,
        place: int = 0,
    ) -> None:
        """A commit of a group on a partition, or its removal; `place` in the offsets topic."""
        at_ms = NOON_MS + round(second * 1000)
        value = None if offset is None else encode_offset_value(offset, at_ms)
        self.add(encode_offset_key(group, topic, of), value, at_ms, place)

    def delete(self, group: str, second: float, *, place: int = 0) -> None:
        """Kafka deletes a group."""
        self.add(encode_group_key(group), None, NOON_MS + round(second * 1000), place)

    def add(self, key: bytes | None, value: bytes | None, at_ms: int, place: int = 0) -> None:
        order = self.orders.get(place, 0)
        self.orders[place] = order + 1
        self.records.append(
            {"partition": place, "offset": order, "timestamp": at_ms, "key": key, "value": value}
        )

    def compact(self, place: int, below: int) -> None:
        """As Kafka does it: below an offset only the last record of each key stays."""
        last = {
            record["key"]: record["offset"]
            for record in self.records
            if record["partition"] == place and record["offset"] < below
        }
        self.records = [
            record
            for record in self.records
            if record["partition"] != place
            or record["offset"] >= below
            or last[record["key"]] == record["offset"]
        ]

    def ends(
        self,
        end_at: Callable[[int], int | None],
        seconds: Iterable[int],
        *,
        topic: str = "orders",
        partitions: int = 1,
    ) -> None:
        """Log ends of a topic at some seconds."""
        self.log_ends += [
            {
                "topic": topic,
                "partition": partition,
                "at_ms": NOON_MS + second * 1000,
                "log_end": end_at(second),
                "log_start": 0,
                "method": "observed",
            }
            for second in seconds
            for partition in range(partitions)
        ]

    def write(self, *, parts: int = 2) -> str:
        """Put it into files; returns their folder."""
        for name, rows, columns in (
            ("offsets", self.records, _RECORD),
            ("log_ends", self.log_ends, _LOG_END),
        ):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
            for part in range(parts):
                table = pa.Table.from_pylist(rows[part::parts], columns)
                pq.write_table(table, self.folder / name / f"{part}.parquet")
        return str(self.folder)


_RECORD = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
_LOG_END = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("at_ms", pa.int64()),
        ("log_end", pa.int64()),
        ("log_start", pa.int64()),
        ("method", pa.string()),
    ]
)


def some_hours(
    folder: Path, *, hours: int = 3, groups: Sequence[str] = tuple("abcdefgh")
) -> Copied:
    """Groups that fall behind, stop and recover, each in its own way."""
    copied = Copied(folder)
    until = hours * 3600
    for number, second in enumerate(range(-600, until, 20)):
        for place, group in enumerate(groups):
            stopped = place % 3 == 0 and 3000 < second < 4000
            slow = place % 3 == 1 and 2000 < second < 6000
            if stopped or (number + place) % 3:
                continue
            behind = (second - 2000) // 2 if slow else 0
            for partition in range(2):
                offset = max(0, second + 605 - behind)
                copied.commit(group, offset, second + place / 10, of=partition, place=place % 2)
    copied.ends(lambda second: second + 605, range(-600, until + 1, 30), partitions=2)
    return copied

"""Eight days of a fleet, as the recorder and the roll-ups write them, in a real Parquet store.

Each partition is a queue: messages come with a daily shape, a consumer takes at most what it can.
Samples of groups are five minutes apart, so that there are few enough of them.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.record import Kind, Records, Source, Text, concat, from_rows, schema
from lagwatch.core.record.records import column_of
from lagwatch.history.parquet import ParquetStore
from lagwatch.jobs.report.day import Day

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

BERLIN: Final = ZoneInfo("Europe/Berlin")
LONG_DAY: Final = Day(date=date(2026, 10, 25), zone=BERLIN)
"""The clocks go back at 03:00: 25 hours."""
STEP_MS: Final = 300_000
STEP_S: Final = 300.0
ROUNDS_DAYS: Final = 2
"""Days before the day of which there are samples of groups."""
_SAMPLES: Final = 10
_COMMIT_S: Final = 5.0


@dataclass(frozen=True, kw_only=True)
class Group:
    """A group that reads one topic, and its fate; times are hours after the day's midnight."""

    name: str
    topic: str
    partitions: int = 1
    per_s: float = 20.0
    """Produced to all partitions together, on average."""
    can_per_s: float = 1000.0
    """What one consumer takes."""
    consumers: int = 1
    cluster: str = "prod"
    skew: float = 0.0
    """Share of the messages that partition 1 gets beside its own."""
    factor_today: float = 1.0
    stopped: tuple[float, float] | None = None
    """Consumers take nothing between these hours."""
    warned: tuple[float, float] | None = None
    seen: tuple[float, float] = (-1e9, 1e9)
    """Known to Kafka between these hours."""
    deployed: tuple[float, str, str] | None = None
    faster_after: float = 1.0
    """How many times more a consumer takes after the deployment."""
    blind: bool = False
    """No log end offset is known."""
    unowned: bool = False
    causes: tuple[tuple[float, str | None, str], ...] = ()
    """Hour from which on a cause is named in trouble, the cause, its certainty."""
    losses: tuple[tuple[float, int, int, int, bool], ...] = ()
    """Hour, partition, first offset and end of messages lost, and whether all of them are."""
    retained: int = 0
    """The broker holds so many messages of each partition; 0 = all."""


FLEET: Final = (
    Group(name="billing", topic="orders", partitions=6, per_s=1200, can_per_s=260, consumers=6),
    Group(
        name="shipping",
        topic="orders",
        partitions=6,
        per_s=1200,
        can_per_s=2000,
        consumers=3,
        losses=((4, 1, 100, 600, True), (5, 1, 700, 1_200, False), (6, 2, 0, 50, True)),
    ),
    Group(
        name="mailer",
        topic="mails",
        partitions=3,
        per_s=60,
        can_per_s=90,
        consumers=2,
        stopped=(3.2, 6.1),
        causes=(
            (3.2, None, "unknown"),
            (4.0, "no_members", "certain"),
            (5.8, "all_slow", "likely"),
        ),
    ),
    Group(
        name="search-indexer",
        topic="catalogue",
        partitions=12,
        per_s=400,
        can_per_s=150,
        consumers=6,
        skew=0.35,
    ),
    Group(
        name="fraud-scoring",
        topic="payments",
        partitions=4,
        per_s=500,
        can_per_s=170,
        consumers=4,
        deployed=(14.13, "4.2", "new scoring model"),
        faster_after=2.5,
    ),
    Group(
        name="audit-archive",
        topic="audit",
        partitions=3,
        per_s=30,
        stopped=(-150, 1e9),
        causes=((-150, "not_committing", "likely"),),
        losses=((-30, 0, 10, 900, True), (3, 0, 1_000, 1_400, True)),
        retained=2_500_000,
    ),
    Group(
        name="ledger",
        topic="bookings",
        partitions=4,
        per_s=150,
        can_per_s=900,
        consumers=2,
        factor_today=2.6,
    ),
    Group(name="newcomer", topic="mails", partitions=3, per_s=60, seen=(9.0, 1e9)),
    Group(name="leaver", topic="catalogue", partitions=12, per_s=400, seen=(-1e9, 11.0)),
    Group(
        name="recommender",
        topic="clicks",
        partitions=8,
        per_s=900,
        can_per_s=130,
        consumers=8,
        warned=(17.0, 19.5),
        unowned=True,
    ),
    Group(name="ghost", topic="secret", partitions=2, blind=True),
    Group(
        name="flaky/sync",
        topic="sync",
        partitions=2,
        per_s=12,
        can_per_s=30,
        stopped=(21.0, 21.4),
        deployed=(20.95, "1.0.7-rc2", ""),
    ),
    Group(name="lab-copy", topic="orders", partitions=2, per_s=8, cluster="lab"),
    Group(
        name='<b>odd</b> & "group"',
        topic="te<st",
        partitions=1,
        per_s=3,
        cluster="lab",
        warned=(8.0, 8.5),
    ),
    *(
        Group(name=f"svc-{number:02d}", topic=f"svc-{number:02d}", per_s=2.0 + number)
        for number in range(1, 33)
    ),
)


@dataclass(frozen=True, kw_only=True)
class Rolled:
    """What was written."""

    store: ParquetStore
    url: str
    day: Day
    rows: dict[Kind, int] = field(default_factory=dict)


def write_fleet(
    url: str, day: Day = LONG_DAY, fleet: Sequence[Group] = FLEET, *, seed: int = 7
) -> Rolled:
    """Write the day and the week before it; also the first hour after it."""
    chance = np.random.default_rng(seed)
    store = ParquetStore(url)
    written: dict[Kind, list[Records]] = {}
    loads = {group.topic: chance.uniform(0.9, 1.1, 4000) for group in fleet}
    for group in fleet:
        series = _Series(group, day, chance, loads[group.topic])
        for records in series.records():
            written.setdefault(records.kind, []).append(records)
    for kind, parts in written.items():
        store.write([concat(parts)], batch=f"made-{kind.value.replace('_', '-')}")
    return Rolled(
        store=store,
        url=url,
        day=day,
        rows={kind: sum(part.size for part in parts) for kind, parts in written.items()},
    )


class _Series:
    """The buckets of one group; arrays are [partitions, buckets] or [buckets]."""

    def __init__(self, group: Group, day: Day, chance: np.random.Generator, load: Floats) -> None:
        self.group = group
        self.day = day
        begin = day.before(7).from_ms
        everything = np.arange(begin, day.to_ms + 3_600_000, STEP_MS)
        self.hours = (everything - day.from_ms) / 3_600_000
        """Hours since midnight of the day; negative before."""
        self.at_ms = everything
        self.there = (self.hours >= group.seen[0]) & (self.hours < group.seen[1])
        if group.cluster == "lab":
            self.there &= ~((self.hours >= 13) & (self.hours < 15))
        self.stopped = _between(self.hours, group.stopped)
        self.warned = _between(self.hours, group.warned)
        self.produced = self._produced(chance, load)
        self.consumed, self.lag_end = self._read()
        lag_start = np.concatenate([self.lag_end[:, :1] * 0, self.lag_end[:, :-1]], axis=1)
        residue = np.round(self.produced / STEP_S * _COMMIT_S / 2)
        self.lag_min = np.where(
            np.minimum(lag_start, self.lag_end) > 0, np.minimum(lag_start, self.lag_end), 0
        )
        self.lag_max = np.maximum(np.maximum(lag_start, self.lag_end), residue)
        self.lag_sum = np.round((self.lag_min + self.lag_max) / 2 * _SAMPLES)
        rate = np.maximum(self.produced / STEP_S, 0.05)
        self.time_lag_s = np.round(np.where(self.lag_max > 0, self.lag_max / rate, 0), 3)

    def _produced(self, chance: np.random.Generator, load: Floats) -> Floats:
        group = self.group
        wall = (self.hours + 24 * 8) % 24
        shape = (
            0.35
            + 1.3 * np.exp(-(((wall - 11) / 4.5) ** 2))
            + 0.6 * np.exp(-(((wall - 19) / 2.5) ** 2))
        )
        today = np.where(self.hours >= 0, group.factor_today, 1.0)
        total = group.per_s * shape * today * load[: self.hours.size] * STEP_S
        share = np.full(group.partitions, (1 - group.skew) / group.partitions)
        if group.skew:
            share[1] += group.skew
        noise = np.random.default_rng(len(group.topic)).uniform(
            0.98, 1.02, (group.partitions, self.hours.size)
        )
        del chance
        return np.round(share[:, None] * total[None, :] * noise)

    def _read(self) -> tuple[Floats, Floats]:
        group = self.group
        can = np.full(self.hours.size, group.can_per_s * group.consumers / group.partitions)
        if group.deployed:
            can = np.where(self.hours >= group.deployed[0], can * group.faster_after, can)
        can = np.where(self.stopped, 0, can) * STEP_S
        lag = np.zeros(group.partitions)
        consumed = np.empty_like(self.produced)
        lags = np.empty_like(self.produced)
        for bucket in range(self.hours.size):
            waiting = lag + self.produced[:, bucket]
            consumed[:, bucket] = np.minimum(waiting, np.round(can[bucket]))
            lag = lags[:, bucket] = waiting - consumed[:, bucket]
        return consumed, lags

    @property
    def status(self) -> NDArray[np.object_]:
        """The group's, by bucket."""
        if self.group.blind:
            return np.full(self.hours.size, "UNKNOWN", object)
        words = np.where(self.warned, "WARN", "OK").astype(object)
        words[self.stopped] = "ERR"
        return words

    def records(self) -> Iterator[Records]:
        yield self._partition_buckets()
        yield self._group_buckets()
        yield self._rounds()
        yield self._samples()
        events = self._events()
        if events:
            yield from_rows(Kind.EVENTS, events)

    def _owner(self, partition: int) -> str | None:
        group = self.group
        return None if group.unowned else f"/10.0.{len(group.name)}.{partition % group.consumers}"

    def _partition_buckets(self) -> Records:
        group, there = self.group, self.there
        size, count = group.partitions, int(self.there.sum())
        status = np.where(self.stopped, "STOP", self.status)[there]
        known = not group.blind
        return _records(
            Kind.ROLLUP_5M,
            size * count,
            cluster=group.cluster,
            level="partition",
            group=group.name,
            topic=group.topic,
            partition=np.repeat(np.arange(size), count),
            bucket_ms=np.tile(self.at_ms[there], size),
            **self._lags(there, known=known),
            status=np.tile(status, size),
            ok_s=np.tile(np.where(status == "OK", STEP_S, 0.0), size),
            warn_s=np.tile(np.where(status == "WARN", STEP_S, 0.0), size),
            stop_s=np.tile(np.where(status == "STOP", STEP_S, 0.0), size),
            produced=_known(self.produced[:, there].ravel(), known),
            consumed=self.consumed[:, there].ravel(),
            produced_per_s=_maybe(self.produced[:, there].ravel() / STEP_S, known),
            consumed_per_s=self.consumed[:, there].ravel() / STEP_S,
            commits=np.where(self.consumed[:, there] > 0, STEP_S / _COMMIT_S, 0).ravel(),
            owner=[self._owner(number) for number in range(size) for _ in range(count)],
        )

    def _lags(self, there: Bools, *, known: bool) -> dict[str, Any]:
        cells = self.lag_max[:, there].ravel()
        return {
            "samples": np.full(cells.size, _SAMPLES),
            "lag_known": np.full(cells.size, _SAMPLES if known else 0),
            "lag_sum": _known(self.lag_sum[:, there].ravel(), known),
            "lag_min": _known(self.lag_min[:, there].ravel(), known),
            "lag_max": _known(cells, known),
            "lag_avg": _maybe(self.lag_sum[:, there].ravel() / _SAMPLES, known),
            "time_lag_max_s": _maybe(self.time_lag_s[:, there].ravel().astype(np.float64), known),
        }

    def _group_buckets(self) -> Records:
        group, there = self.group, self.there
        known = not group.blind
        status = self.status[there]
        rebalances = np.zeros(int(there.sum()))
        if group.deployed:
            hour = self.hours[there]
            rebalances[(hour <= group.deployed[0]) & (group.deployed[0] < hour + 1 / 12)] = 2
        return _records(
            Kind.ROLLUP_5M,
            int(there.sum()),
            cluster=group.cluster,
            level="group",
            group=group.name,
            bucket_ms=self.at_ms[there],
            samples=np.full(int(there.sum()), _SAMPLES),
            lag_known=np.full(int(there.sum()), _SAMPLES if known else 0),
            lag_sum=_known(self.lag_sum.sum(axis=0)[there], known),
            lag_max=_known(self.lag_max.sum(axis=0)[there], known),
            lag_avg=_maybe(self.lag_sum.sum(axis=0)[there] / _SAMPLES, known),
            time_lag_max_s=_maybe(self.time_lag_s.max(axis=0)[there], known),
            status=status,
            ok_s=np.where(status == "OK", STEP_S, 0.0),
            warn_s=np.where(status == "WARN", STEP_S, 0.0),
            err_s=np.where(status == "ERR", STEP_S, 0.0),
            produced=_known(self.produced.sum(axis=0)[there], known),
            consumed=self.consumed.sum(axis=0)[there],
            commits=np.where(self.consumed.sum(axis=0)[there] > 0, 60 * group.partitions, 0),
            rebalances=rebalances,
            owner=[self._owner(0)] * int(there.sum()),
        )

    def _rounds(self) -> Records:
        group = self.group
        chosen = self.there & (self.hours >= -24 * ROUNDS_DAYS) & (self.at_ms < self.day.to_ms)
        size = int(chosen.sum())
        time_lag_s = self.time_lag_s.max(axis=0)[chosen]
        beyond = group.stopped is not None and group.stopped[0] < -100
        reason = "beyond_history" if beyond else "measured"
        return _records(
            Kind.GROUP_SAMPLES,
            size,
            cluster=group.cluster,
            group=group.name,
            at_ms=self.at_ms[chosen],
            observed_ms=self.at_ms[chosen] + 700,
            status=self.status[chosen],
            total_lag=_known(self.lag_end.sum(axis=0)[chosen], not group.blind),
            time_lag_s=_maybe(time_lag_s, not (group.blind or beyond)),
            time_lag_reason="log_end_unknown" if group.blind else reason,
            members=np.full(size, group.consumers),
            observed=np.full(size, group.partitions),
            interval_ms=np.full(size, STEP_MS),
            reason="interval",
            **self._found(chosen),
        )

    def _found(self, chosen: Bools) -> dict[str, Any]:
        """Causes and forecasts of the rounds in which the group is in trouble."""
        group, hours = self.group, self.hours[chosen]
        bad = (self.stopped | self.warned)[chosen]
        if not group.causes:
            return {}
        named = np.searchsorted([begin for begin, _, _ in group.causes], hours, side="right") - 1
        causes = [group.causes[max(number, 0)] for number in named.tolist()]
        return {
            "cause": [
                each[1] if is_bad else None for each, is_bad in zip(causes, bad, strict=True)
            ],
            "cause_certainty": [
                each[2] if is_bad else None for each, is_bad in zip(causes, bad, strict=True)
            ],
            "catch_up_reason": ["not_moving" if is_bad else None for is_bad in bad],
            "since_ms": np.where(bad, self.at_ms[chosen] - 864_000_000, -1),
            "loss_in_s": np.where(bad & (group.retained > 0), 7200.0, np.nan),
            "loss_reason": [
                ("nearing" if group.retained else "nothing_deleted") if is_bad else None
                for is_bad in bad
            ],
        }

    def _samples(self) -> Records:
        """Partitions every half hour of the day."""
        group = self.group
        chosen = self.there & (self.hours >= 0) & (self.at_ms < self.day.to_ms)
        chosen &= self.at_ms % 1_800_000 == 0
        size, count = group.partitions, int(chosen.sum())
        end = np.cumsum(self.produced, axis=1)[:, chosen] + 10_000_000
        committed = end - self.lag_end[:, chosen]
        start = np.maximum(0, end - group.retained) if group.retained else np.zeros_like(end)
        if group.retained:
            start[0] = np.maximum(start[0], committed[0] + 1234)  # of this one some are lost
        return _records(
            Kind.SAMPLES,
            size * count,
            cluster=group.cluster,
            group=group.name,
            topic=group.topic,
            partition=np.repeat(np.arange(size), count),
            at_ms=np.tile(self.at_ms[chosen], size),
            observed_ms=np.tile(self.at_ms[chosen] + 700, size),
            committed_offset=committed.ravel(),
            log_end_offset=_known(end.ravel(), not group.blind),
            log_start_offset=_known(start.ravel(), not group.blind),
            lag=_known(self.lag_end[:, chosen].ravel(), not group.blind),
            time_lag_reason="measured",
            status="OK",
            rule="progressing",
            complete=np.ones(size * count),
            reason="interval",
        )

    def _events(self) -> list[dict[str, Any]]:
        group = self.group
        found = []
        for begin, end, word, rule in (
            (*(group.stopped or (None, None)), "ERR", "stopped"),
            (*(group.warned or (None, None)), "WARN", "lag_not_decreasing"),
        ):
            if begin is not None and begin > -24 * 7:
                found.append(self._event(begin, "OK", word, rule))
            if end is not None and end < 1e6:
                found.append(self._event(end, word, "OK", "progressing"))
        for hour, partition, first, end, exact in group.losses:
            found.append(
                self._row(hour, event="records_lost", count=end - first)
                | {"topic": group.topic, "partition": partition}
                | {"detail": json.dumps({"first": first, "end": end, "exact": exact})}
            )
        if group.seen[1] < 1e6:
            found.append(self._event(group.seen[1], "OK", "NOTFOUND", None))
        if group.deployed:
            hour, version, note = group.deployed
            detail = {"version": version, "note": note, "offsets": {group.topic: [1, None]}}
            found.append(
                self._row(hour, event="deployment", after=version, count=1)
                | {"detail": json.dumps(detail)}
            )
        return found

    def _event(self, hour: float, before: str, after: str, rule: str | None) -> dict[str, Any]:
        bucket = int(np.searchsorted(self.hours, hour)) - 1
        lag = int(self.lag_end[:, max(bucket, 0)].sum())
        return self._row(hour, event="group_status", before=before, after=after, rule=rule, lag=lag)

    def _row(self, hour: float, **values: Any) -> dict[str, Any]:  # noqa: ANN401
        return {
            "cluster": self.group.cluster,
            "group": self.group.name,
            "at_ms": self.day.from_ms + round(hour * 3_600_000),
            "source": Source.LIVE.value,
            "schema_version": 1,
            **values,
        }


def _between(hours: Floats, span: tuple[float, float] | None) -> Bools:
    if span is None:
        return np.zeros(hours.size, np.bool_)
    return (hours >= span[0] - 1e-9) & (hours < span[1] - 1e-9)


def _known(values: Floats, known: bool) -> Floats:  # noqa: FBT001
    """Whole numbers; -1 where they are not known."""
    return values if known else np.full(values.size, -1.0)


def _maybe(values: Floats, known: bool) -> Floats:  # noqa: FBT001
    return values if known else np.full(values.size, np.nan)


def _records(kind: Kind, size: int, **columns: Any) -> Records:  # noqa: ANN401
    """Columns given as one word, a list or an array; the rest is unknown."""
    given = {"source": Source.LIVE.value, "schema_version": np.ones(size), **columns}
    made = {}
    for name, column in schema(kind).items():
        values = given.get(name)
        if values is None:
            made[name] = column_of([None] * size, column.type)
        elif isinstance(values, str):
            made[name] = Text.same(values, size)
        elif isinstance(values, list) or values.dtype == object:
            made[name] = Text.of(values)
        else:
            empty = column_of([], column.type)
            assert not isinstance(empty, Text)
            made[name] = values.astype(empty.dtype)
    return Records(kind=kind, columns=made)

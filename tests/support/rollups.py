"""A recording to roll up: random, thinned, with gaps and changes, as rows of history."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from lagwatch.core.record import Kind, Records, from_rows
from lagwatch.core.rollup import EVENT_COLUMNS, ROUND_COLUMNS, SAMPLE_COLUMNS, Raw
from tests.support.history import NOON_MS, group_sample, happening, sample

INTERVAL_MS = 30_000
Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Recording:
    """Rows of one cluster."""

    samples: Rows
    groups: Rows
    events: Rows

    def records(self) -> list[Records]:
        return [
            from_rows(Kind.SAMPLES, self.samples),
            from_rows(Kind.GROUP_SAMPLES, self.groups),
            from_rows(Kind.EVENTS, self.events),
        ]

    def raw(self) -> Raw:
        return Raw(
            samples=from_rows(Kind.SAMPLES, self.samples, SAMPLE_COLUMNS),
            rounds=from_rows(Kind.GROUP_SAMPLES, self.groups, ROUND_COLUMNS),
            events=from_rows(Kind.EVENTS, self.events, EVENT_COLUMNS),
        )

    def part(self, number: int, of: int) -> "Recording":
        """The rows of some of the groups; all parts together are the whole."""

        def ours(rows: Rows) -> Rows:
            return [row for row in rows if int(row["group"][-1]) % of == number]

        return Recording(
            samples=ours(self.samples), groups=ours(self.groups), events=ours(self.events)
        )


def recording(
    seed: int,
    *,
    start_ms: int = NOON_MS,
    rounds: int = 60,
    groups: int = 2,
    partitions: int = 3,
    interval_ms: int = INTERVAL_MS,
    full_every: int = 20,
    thin: bool = True,
    cluster: str = "here",
) -> Recording:
    """Groups that read two topics; rows are left out as the recorder leaves them out.

    Rounds are missing now and then, values are unknown now and then, statuses change in between.
    """
    rng = np.random.default_rng(seed)
    samples: Rows = []
    of_groups: Rows = []
    events: Rows = []
    for number in range(groups):
        name = f"group-{number}"
        last: dict[int, dict[str, Any]] = {}
        previous_ms: int | None = None
        state = _Moving(rng, partitions)
        for turn in range(rounds):
            at_ms = start_ms + turn * interval_ms
            if rng.random() < 0.05:
                last, previous_ms = {}, None  # the recorder was away
                continue
            whole = not last or turn % full_every == number or not thin
            rows, unchanged = [], 0
            for partition in range(partitions):
                row = state.row(partition, cluster=cluster, group=name, at_ms=at_ms)
                if not whole and _same(row, last.get(partition)):
                    unchanged += 1
                    continue
                last[partition] = row
                rows.append(row)
            samples += rows
            of_groups.append(
                group_sample(
                    cluster=cluster,
                    group=name,
                    at_ms=at_ms,
                    status=rng.choice(["OK", "WARN", "ERR"]).item(),
                    total_lag=None if rng.random() < 0.1 else int(rng.integers(0, 900)),
                    time_lag_s=None if rng.random() < 0.1 else int(rng.integers(0, 9000)) / 1000,
                    observed=partitions,
                    unchanged=unchanged,
                    previous_ms=previous_ms,
                    interval_ms=interval_ms,
                )
            )
            previous_ms = at_ms
            if rng.random() < 0.2 and last:
                # a change between two rounds; the recorder writes the group whole next
                partition = int(rng.integers(partitions))
                between_ms = at_ms + int(rng.integers(1, interval_ms))
                changed = state.row(partition, cluster=cluster, group=name, at_ms=between_ms)
                changed |= {"status": "STALL", "reason": "change"}
                samples.append(changed)
                last = {}
                previous_ms = at_ms
            if rng.random() < 0.1:
                events.append(
                    happening(
                        cluster=cluster,
                        group=name,
                        topic=None,
                        partition=None,
                        event="rebalance",
                        at_ms=at_ms + 7,
                        count=2,
                    )
                )
    return Recording(samples=samples, groups=of_groups, events=events)


class _Moving:
    """Partitions whose offsets move on, or rest."""

    def __init__(self, rng: np.random.Generator, partitions: int) -> None:
        self._rng = rng
        self._end = [1000] * partitions
        self._committed = [900] * partitions
        self._commit_ms = [NOON_MS - 60_000] * partitions
        self._later_ms = 600

    def row(self, partition: int, *, at_ms: int, **names: Any) -> dict[str, Any]:  # noqa: ANN401
        rng = self._rng
        if rng.random() < 0.4:
            self._end[partition] += int(rng.integers(0, 500))
            self._committed[partition] = min(
                self._end[partition], self._committed[partition] + int(rng.integers(-50, 600))
            )
            self._commit_ms[partition] = at_ms + self._later_ms - int(rng.integers(0, 40_000))
        if rng.random() < 0.03:
            self._later_ms = int(rng.integers(-2000, 29_000))  # lagwatch was started anew
        known = rng.random() > 0.1
        lag = self._end[partition] - self._committed[partition]
        return sample(
            **names,
            topic=f"topic-{partition % 2}",
            partition=partition,
            at_ms=at_ms,
            committed_offset=self._committed[partition],
            commit_ms=self._commit_ms[partition],
            log_end_offset=self._end[partition] if known else None,
            log_end_ms=at_ms + self._later_ms if known else None,
            lag=lag if known else None,
            time_lag_s=lag / 1000 if known else None,
            status="UNKNOWN" if not known else "WARN" if lag > 400 else "OK",
            owner=None if lag % 7 == 0 else f"/10.0.0.{lag % 3}",
        )


def _same(row: dict[str, Any], last: dict[str, Any] | None) -> bool:
    moment = {"at_ms", "observed_ms", "log_end_ms", "time_lag_at_ms"}
    return last is not None and all(
        value == last[name] for name, value in row.items() if name not in moment
    )


def going_on(until_ms: int) -> Recording:
    """Of more than a day, of a cluster of its own: by its time what is old is deleted."""
    rounds, every_ms = 10, 3 * 3_600_000
    start_ms = until_ms - rounds * every_ms
    return recording(14, rounds=rounds, start_ms=start_ms, interval_ms=every_ms, cluster="goes on")

"""The replay of the past: what the live service would have recorded, no more and no less."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagwatch.core.model import RuleSet
from lagwatch.core.record import Kind, Records, Text, concat
from lagwatch.history.grid import expand
from lagwatch.history.recorder import Recorder, RecorderSettings
from lagwatch.history.spool import Spool
from lagwatch.jobs.backfill.inputs import Gap, judged_instants, sample_instants
from lagwatch.jobs.backfill.recording import Part
from lagwatch.jobs.backfill.replay import Replay, ReplaySettings, replay
from lagwatch.jobs.backfill.rows import CommitRows, GoneRows, LogEndRows
from lagwatch.monitor.settings import MonitorSettings
from tests.support.history import NOON_MS, Live, SetClock, in_order

pytestmark = pytest.mark.slow  # replays hours

INTERVAL_MS = 30_000
HOUR_MS = 3_600_000
_NOT_KNOWN_AFTERWARDS = (
    "source",
    "method",
    "group_state",
    "owner",
    "client_id",
    "members",
    "state",
    "log_end_ms",
    "topic_id",
    "rebalances",
)


def replay_settings(
    *, full_every: int = 20, expire_ms: int = 86_400_000, rules: RuleSet = RuleSet.LAGWATCH
) -> ReplaySettings:
    """As the monitor of `tests.support.history.Live`."""
    return ReplaySettings(
        monitor=MonitorSettings(
            intervals=3,
            min_distance_ms=0,
            expire_ms=expire_ms,
            allowed_lag=0,
            minimum_complete=0.0,
            history_ms=3_600_000,
            rules=rules,
        ),
        interval_ms=INTERVAL_MS,
        full_every=full_every,
    )


def grid(seconds: int, *, first_ms: int = NOON_MS) -> np.ndarray:
    return np.arange(first_ms, NOON_MS + seconds * 1000 + 1, INTERVAL_MS)


def commits(*rows: tuple[str, str, int, float, int], at_ms: int = NOON_MS) -> CommitRows:
    """(group, topic, partition, second, offset), in the order of their records."""
    group, topic, partition, second, offset = (
        zip(*rows, strict=True) if rows else ((), (), (), (), ())
    )
    moments = np.array([at_ms + round(each * 1000) for each in second], np.int64)
    return CommitRows(
        at_ms=moments,
        group=Text.of(group),
        topic=Text.of(topic),
        partition=np.array(partition, np.int32),
        offset=np.array(offset, np.int64),
        commit_ms=moments,
        order=np.arange(len(rows), dtype=np.int64),
        offsets_partition=np.zeros(len(rows), np.int32),
    )


def log_ends(
    *rows: tuple[float, str, int, int], method: str = "offsets_for_times", log_start: int = 0
) -> LogEndRows:
    """(second, topic, partition, log end); -1 unknown."""
    second, topic, partition, end = zip(*rows, strict=True) if rows else ((), (), (), ())
    return LogEndRows(
        at_ms=np.array([NOON_MS + round(each * 1000) for each in second], np.int64),
        topic=Text.of(topic),
        partition=np.array(partition, np.int32),
        log_end=np.array(end, np.int64),
        log_start=np.full(len(rows), log_start, np.int64),
        method=Text.same(method, len(rows)),
    )


def every(
    seconds: int, end_at: Callable[[int], int], *, step_s: int = 30, topic: str = "orders"
) -> LogEndRows:
    """The log end of one partition on a grid."""
    return log_ends(
        *((second, topic, 0, end_at(second)) for second in range(0, seconds + 1, step_s))
    )


def rows(hours: list[Part], kind: Kind) -> list[dict[str, Any]]:
    return in_order(
        (
            row
            for hour in hours
            for part in hour.records
            if part.kind is kind
            for row in part.rows()
        ),
        kind,
    )


def whole(hours: list[Part], kind: Kind) -> Records:
    return concat([part for hour in hours for part in hour.records if part.kind is kind])


class Watched:
    """A live cluster that is recorded, and what a replay needs to know of it."""

    def __init__(self, folder: Path) -> None:
        self.live = Live()
        self.spool = Spool(folder, max_bytes=100_000_000, spool_id="test")
        self.records: list[Records] = []
        self.recorder = Recorder(
            self.spool,
            RecorderSettings(interval_ms=INTERVAL_MS, full_every=20),
            SetClock(),
            appended=lambda: None,
        )
        append = self.spool.append

        def kept(records: Iterable[Records], *, series: str = "") -> int:
            taken = list(records)
            self.records += taken
            return append(taken, series=series)

        # remembers, and spools all the same
        self.spool.append = kept  # type: ignore[method-assign]
        self.commits: list[tuple[str, str, int, float, int]] = []
        self.ends: list[tuple[float, str, int, int]] = []

    @property
    def second(self) -> float:
        return (self.live.now_ms - NOON_MS) / 1000

    def commit(self, *some: tuple[str, str, int, int]) -> None:
        self.live.commit(*some)
        self.commits += [(group, topic, part, self.second, at) for group, topic, part, at in some]

    def wait(self, seconds: int) -> None:
        self.live.wait(seconds)
        self.ends += [
            (self.second, topic, partition, end)
            for (topic, partition), end in self.live.ends.items()
        ]
        if self.live.now_ms % INTERVAL_MS == 0:
            self.live.shown_to(self.recorder)

    def rows(self, kind: Kind) -> list[dict[str, Any]]:
        found = (row for part in self.records if part.kind is kind for row in part.rows())
        return in_order((row for row in found if row.get("event") != "recording"), kind)


def comparable(some: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without what nobody can know afterwards."""
    return [
        {name: value for name, value in row.items() if name not in _NOT_KNOWN_AFTERWARDS}
        for row in some
    ]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_replay_records_what_the_service_recorded(tmp_path: Path, seed: int) -> None:
    chance = np.random.default_rng(seed)
    watched = Watched(tmp_path)
    watched.live.topics(orders=2, clicks=1)
    watched.wait(0)
    partitions = list(watched.live.ends)
    offset = dict.fromkeys(((group, *where) for group in "ab" for where in partitions), 90)
    for _ in range(240):
        for topic, partition in partitions:
            watched.live.produce(topic, partition, int(chance.integers(0, 5)))
        watched.live.now_ms += 1000  # commits come between two rounds
        for group, topic, partition in offset:
            if chance.random() < 0.3:
                ahead = watched.live.ends[topic, partition] - offset[group, topic, partition]
                offset[group, topic, partition] += int(chance.integers(-2, ahead + 1))
                watched.commit((group, topic, partition, offset[group, topic, partition]))
        watched.wait(4)

    again = replay(
        "here",
        replay_settings(),
        sample_ms=grid(1200),
        commits=commits(*watched.commits),
        log_ends=log_ends(*watched.ends),
    )

    assert len({row["status"] for row in watched.rows(Kind.SAMPLES)}) > 2
    for kind in (Kind.SAMPLES, Kind.GROUP_SAMPLES, Kind.EVENTS):
        assert comparable(rows(again, kind)) == comparable(watched.rows(kind))


def test_rows_say_that_they_are_backfilled_and_how_log_ends_were_known() -> None:
    first = every(30, lambda second: 100 + second)
    later = log_ends((60, "orders", 0, 160), method="latest")

    run = Replay("here", replay_settings(full_every=1), sample_ms=grid(60), complete_from={})
    hours = [
        *run.feed(commits=commits(("a", "orders", 0, 1, 90)), log_ends=first),
        *run.feed(log_ends=later),
        *run.finish(),
    ]

    found = rows(hours, Kind.SAMPLES)
    assert [row["method"] for row in found] == ["offsets_for_times", "latest"]
    assert {row["source"] for kind in Kind for row in rows(hours, kind)} == {"backfill"}
    assert [row["observed_ms"] for row in found] == [row["at_ms"] for row in found]
    assert {row["owner"] for row in found} == {None}


@pytest.mark.parametrize(
    ("rules", "rule"),
    [(RuleSet.BURROW, "lag_was_within_allowed"), (RuleSet.LAGWATCH, "warming_up")],
)
def test_the_lag_of_a_commit_is_taken_on_the_line_between_two_log_ends(
    rules: RuleSet, rule: str
) -> None:
    # 100 at 0 s, 160 at 30 s: 130 at 15 s, when the group committed 130 and was not behind
    hours = replay(
        "here",
        replay_settings(rules=rules),
        sample_ms=grid(30),
        commits=commits(("a", "orders", 0, 15, 130)),
        log_ends=every(30, lambda second: 100 + 2 * second),
    )

    (row,) = rows(hours, Kind.SAMPLES)
    assert (row["lag"], row["rule"], row["time_lag_s"]) == (30, rule, 14.755)


@pytest.mark.parametrize(
    ("rules", "status"), [(RuleSet.BURROW, "STOP"), (RuleSet.LAGWATCH, "UNKNOWN")]
)
def test_without_log_ends_lag_and_verdict_stay_unknown(rules: RuleSet, status: str) -> None:
    hours = replay(
        "here",
        replay_settings(rules=rules),
        sample_ms=grid(60),
        commits=commits(("a", "orders", 0, 1, 90)),
        log_ends=log_ends((0, "orders", 0, -1), (30, "orders", 0, -1), (60, "orders", 0, 200)),
    )

    found = rows(hours, Kind.SAMPLES)
    assert [(row["status"], row["lag"], row["time_lag_s"]) for row in found] == [
        ("UNKNOWN", None, None),
        (status, 110, None),
    ]
    assert sum(hour.unknown_lag for hour in hours) == 1
    assert [row["total_lag"] for row in rows(hours, Kind.GROUP_SAMPLES)] == [None, 110]


def test_a_topic_that_was_made_anew_later_had_no_log_end_of_zero_before() -> None:
    """Asked for a time before its first record, Kafka names the offset of that record."""
    hours = replay(
        "here",
        replay_settings(),
        sample_ms=grid(300),
        commits=commits(
            ("a", "orders", 0, 1, 5_000),
            ("b", "empty", 0, 2, 0),
            ("a", "orders", 0, 31, 5_060),
            ("a", "orders", 0, 185, 10),
        ),
        log_ends=log_ends(
            *(
                row
                for second in range(0, 301, 30)
                for row in (
                    (second, "empty", 0, 0),
                    (second, "orders", 0, 0 if second < 180 else 10),
                )
            )
        ),
    )

    found = rows(hours, Kind.SAMPLES)
    orders = [row for row in found if row["topic"] == "orders"]
    assert {row["status"] for row in orders if row["at_ms"] < NOON_MS + 180_000} == {"UNKNOWN"}
    for name in ("lag", "log_end_offset", "log_start_offset"):
        assert {row[name] for row in orders if row["at_ms"] < NOON_MS + 180_000} == {None}
    assert (orders[-1]["status"], orders[-1]["lag"]) == ("OK", 0)
    assert {row["lag"] for row in found if row["topic"] == "empty"} == {0}


def test_a_topic_of_which_nothing_is_known_is_no_reason_to_stop() -> None:
    hours = replay(
        "here",
        replay_settings(),
        sample_ms=grid(30),
        commits=commits(("a", "gone", 7, 1, 90), ("a", "orders", 0, 1, 100)),
        log_ends=every(30, lambda _: 100),
    )

    assert [(row["topic"], row["status"], row["lag"]) for row in rows(hours, Kind.SAMPLES)] == [
        ("gone", "UNKNOWN", None),
        ("orders", "OK", 0),
    ]


def test_samples_are_left_out_while_log_ends_are_stale() -> None:
    run = Replay("here", replay_settings(), sample_ms=grid(300), complete_from={})
    hours = [
        *run.feed(
            commits=commits(("a", "orders", 0, 1, 90), ("a", "orders", 0, 299, 95)),
            log_ends=every(60, lambda _: 100),
        ),
        *run.finish(),
    ]

    seconds = {(row["at_ms"] - NOON_MS) // 1000 for row in rows(hours, Kind.GROUP_SAMPLES)}
    assert seconds == {30, 60, 90, 120}
    assert run.stale == 6


def test_time_between_gaps_is_not_sampled_and_breaks_the_chain_of_rounds() -> None:
    sample_ms = np.concatenate([grid(90), grid(300, first_ms=NOON_MS + 240_000)])

    hours = replay(
        "here",
        replay_settings(),
        sample_ms=sample_ms,
        commits=commits(("a", "orders", 0, 0, 100)),
        log_ends=every(300, lambda _: 100),
    )

    found = rows(hours, Kind.GROUP_SAMPLES)
    seconds = [(row["at_ms"] - NOON_MS) // 1000 for row in found]
    previous = [row["previous_ms"] and (row["previous_ms"] - NOON_MS) // 1000 for row in found]
    assert list(zip(seconds, previous, strict=True)) == [
        (0, None),
        (30, 0),
        (60, 30),
        (90, 60),
        (240, None),
        (270, 240),
        (300, 270),
    ]
    assert [row["unchanged"] for row in found] == [0, 1, 1, 1, 0, 1, 1]
    assert rows(hours, Kind.EVENTS) == []


def test_what_was_left_out_can_be_put_back() -> None:
    hours = replay(
        "here",
        replay_settings(full_every=20),
        sample_ms=grid(600),
        commits=commits(("a", "orders", 0, 0, 100), ("a", "orders", 0, 301, 200)),
        log_ends=every(600, lambda second: 200 if second >= 300 else 100),
    )

    samples, rounds = whole(hours, Kind.SAMPLES), whole(hours, Kind.GROUP_SAMPLES)
    assert samples.size < 5
    assert expand(samples, rounds).at_ms().tolist() == grid(600).tolist()


def test_rows_of_a_group_begin_where_its_commits_are_complete() -> None:
    whole_from = NOON_MS + 61_000
    some = commits(
        ("a", "orders", 0, 1, 90), ("b", "orders", 0, 1, 100), ("a", "orders", 0, 62, 99)
    )
    by_partition = CommitRows(
        **{
            name: getattr(some, name)
            for name in CommitRows.__slots__
            if name != "offsets_partition"
        },
        offsets_partition=np.array([7, 8, 7], np.int32),
    )

    hours = replay(
        "here",
        replay_settings(rules=RuleSet.BURROW),  # tells of a silence within these two minutes
        sample_ms=grid(150),
        commits=by_partition,
        log_ends=every(150, lambda _: 100),
        complete_from={7: whole_from},
    )

    found = rows(hours, Kind.GROUP_SAMPLES)
    of_a = [row for row in found if row["group"] == "a"]
    of_b = [row for row in found if row["group"] == "b"]
    assert [(row["at_ms"] - NOON_MS) // 1000 for row in of_a] == [90, 120, 150]
    assert [(row["at_ms"] - NOON_MS) // 1000 for row in of_b] == [30, 60, 90, 120, 150]
    assert (of_a[0]["previous_ms"], of_a[0]["unchanged"]) == (None, 0)
    assert sum(hour.suppressed for hour in hours) == 2
    events = [row for row in rows(hours, Kind.EVENTS) if row["group"] == "a"]
    assert events
    assert min(row["at_ms"] for row in events) > of_a[0]["at_ms"]


def test_a_deleted_group_goes_and_one_that_came_back_stays() -> None:
    hours = replay(
        "here",
        replay_settings(full_every=1),
        sample_ms=grid(120),
        commits=commits(
            ("a", "orders", 0, 1, 90), ("b", "orders", 0, 1, 90), ("b", "orders", 0, 45, 95)
        ),
        log_ends=every(120, lambda _: 100),
        gone=GoneRows(
            at_ms=np.array([NOON_MS + 40_000] * 2),
            group=Text.of(("a", "b")),
            order=np.array([1, 1]),
        ),
    )

    found = rows(hours, Kind.GROUP_SAMPLES)
    seconds = {
        name: [(row["at_ms"] - NOON_MS) // 1000 for row in found if row["group"] == name]
        for name in "ab"
    }
    assert seconds == {"a": [30], "b": [30, 60, 90, 120]}
    gone = [row for row in rows(hours, Kind.EVENTS) if row["after"] == "NOTFOUND"]
    assert [row["group"] for row in gone] == ["a"]


def test_a_removed_commit_takes_its_partition_away() -> None:
    hours = replay(
        "here",
        replay_settings(),
        sample_ms=grid(60),
        commits=commits(
            ("a", "orders", 0, 1, 90), ("a", "orders", 1, 1, 90), ("a", "orders", 1, 31, -1)
        ),
        log_ends=log_ends(*((s, "orders", p, 100) for s in (0, 30, 60) for p in (0, 1))),
    )

    assert [row["observed"] for row in rows(hours, Kind.GROUP_SAMPLES)] == [2, 1]


def test_commits_older_than_the_expiry_are_not_fed_to_windows() -> None:
    hours = replay(
        "here",
        replay_settings(expire_ms=60_000),
        sample_ms=grid(30),
        commits=commits(("old", "orders", 0, -90, 90), ("new", "orders", 0, -20, 90)),
        log_ends=every(30, lambda _: 100),
    )

    assert {row["group"] for row in rows(hours, Kind.GROUP_SAMPLES)} == {"new"}


def test_rounds_before_the_first_commit_can_be_left_out_without_a_trace() -> None:
    first_s, until_s = 6 * 3600 + 905, 8 * 3600
    gaps = (Gap(from_ms=NOON_MS, to_ms=NOON_MS + until_s * 1000),)
    seen = commits(
        *(("a", "orders", 0, second, 2 * second - 9000) for second in range(first_s, until_s, 41))
    )
    ends = every(until_s, lambda second: 100 + 2 * second)

    def rows_of(sample_ms: np.ndarray) -> list[list[dict[str, Any]]]:
        parts = replay("here", replay_settings(), sample_ms=sample_ms, commits=seen, log_ends=ends)
        return [rows(parts, kind) for kind in (Kind.SAMPLES, Kind.GROUP_SAMPLES, Kind.EVENTS)]

    fewer = judged_instants(gaps, 30_000, begin_ms=int(seen.at_ms[0]))

    assert fewer.size == 3 * 120
    assert rows_of(fewer) == rows_of(sample_instants(gaps, 30_000))


def test_rows_come_hour_by_hour() -> None:
    hours = replay(
        "here",
        replay_settings(),
        sample_ms=np.arange(NOON_MS - 60_000, NOON_MS + HOUR_MS + 60_000, INTERVAL_MS),
        commits=commits(("a", "orders", 0, -70, 90)),
        log_ends=log_ends(*((second, "orders", 0, 100) for second in range(-90, 3700, 30))),
    )

    assert [(hour.from_ms - NOON_MS) / 1000 for hour in hours] == [-60, 0, 3600]
    assert [(hour.to_ms - NOON_MS) / 1000 for hour in hours] == [0, 3600, 3660]
    assert [hour.rounds for hour in hours] == [2, 120, 2]
    for hour in hours:
        for part in hour.records:
            assert (part.at_ms() // HOUR_MS == hour.from_ms // HOUR_MS).all()


def test_nothing_in_gives_nothing_out() -> None:
    hours = replay(
        "here", replay_settings(), sample_ms=grid(60), commits=commits(), log_ends=log_ends()
    )

    assert hours == []


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_it_does_not_matter_how_the_rows_are_cut(data: st.DataObject) -> None:
    number = data.draw(st.integers(1, 40), label="commits")
    seconds = sorted(data.draw(st.lists(st.integers(-40, 200), min_size=number, max_size=number)))
    drawn = [
        (data.draw(st.sampled_from("ab")), "orders", data.draw(st.integers(0, 1)), second, 90 + at)
        for at, second in enumerate(seconds)
    ]
    ends = [(second, "orders", p, 100 + second) for second in range(0, 181, 30) for p in (0, 1)]
    cuts = sorted(data.draw(st.lists(st.integers(-40_000, 200_000), max_size=5)))
    all_commits, all_ends = commits(*drawn), log_ends(*ends)

    at_once = replay(
        "here", replay_settings(), sample_ms=grid(180), commits=all_commits, log_ends=all_ends
    )
    run = Replay("here", replay_settings(), sample_ms=grid(180), complete_from={})
    in_parts = [
        hour
        for low, high in zip([-100_000, *cuts], [*cuts, 300_000], strict=True)
        for hour in run.feed(
            commits=_between(all_commits, low, high), log_ends=_between(all_ends, low, high)
        )
    ]
    in_parts += run.finish()

    for kind in (Kind.SAMPLES, Kind.GROUP_SAMPLES, Kind.EVENTS):
        assert rows(in_parts, kind) == rows(at_once, kind)


_Rows = TypeVar("_Rows", CommitRows, LogEndRows)


def _between(some: _Rows, low: int, high: int) -> _Rows:
    chosen = np.flatnonzero((some.at_ms - NOON_MS > low) & (some.at_ms - NOON_MS <= high))
    columns: dict[str, Any] = {name: getattr(some, name) for name in type(some).__slots__}
    for name, values in columns.items():
        columns[name] = values.take(chosen) if isinstance(values, Text) else values[chosen]
    return type(some)(**columns)

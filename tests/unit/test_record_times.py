"""Which offsets brokers are asked for, how often, and what is reported and kept."""

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from lagwatch.core.model import EpochMs
from lagwatch.core.window import Windows
from lagwatch.monitor.append_times import AppendTimeColumns, Committed
from lagwatch.monitor.rows import RowTable
from lagwatch.monitor.topics import no_topics
from lagwatch.pollers.known import KeyRows, LastOffsets
from lagwatch.pollers.loop import EndsRound, PartitionEnds
from lagwatch.pollers.record_times import RecordTimePoller
from lagwatch.ports.kafka import RecordTimes, TopicListing, TopicTimes
from lagwatch.ports.reports import AppendTimes, Commits, Report
from tests.support.step_clock import StepClock

START_MS = 1_800_000_000_000


class SteadyLogs:
    """Partitions in which offset n was appended n seconds after the start."""

    def __init__(self) -> None:
        self.size = 100
        self.removed: set[int] = set()
        self.silent: set[str] = set()
        self.configured: dict[str, TopicTimes] = {}
        self.ahead_ms = 0
        """By how much the clock is ahead that gave records their times."""
        self.asked = 0

    async def first_at(self, places: Sequence[tuple[str, int]], at_ms: np.ndarray) -> RecordTimes:
        self.asked += len(places)
        offset = np.maximum(-((START_MS + self.ahead_ms - at_ms) // 1000), 0)
        while np.isin(offset, list(self.removed)).any():
            offset = np.where(np.isin(offset, list(self.removed)), offset + 1, offset)
        offset = np.where(offset < self.size, offset, -1)
        return self._answer(places, offset)

    async def newest(self, places: Sequence[tuple[str, int]]) -> RecordTimes:
        return self._answer(places, np.full(len(places), self.size - 1))

    def _answer(self, places: Sequence[tuple[str, int]], offset: np.ndarray) -> RecordTimes:
        answered = np.array([name not in self.silent for name, _ in places], np.bool_)
        offset = np.where(answered, offset, -1)
        times_ms = np.where(offset >= 0, START_MS + offset * 1000 + self.ahead_ms, -1)
        return RecordTimes(offset=offset, timestamp=times_ms, answered=answered)

    async def topic_times(self, topics: Sequence[str]) -> Mapping[str, TopicTimes]:
        return {name: self.configured[name] for name in topics if name in self.configured}


class Scene:
    """Topic "t" with two partitions and topic "u" with one."""

    def __init__(self) -> None:
        self.logs, self.last, self.clock = SteadyLogs(), LastOffsets(), StepClock()
        self.reports: list[Report] = []
        self.listing = TopicListing(
            names=("t", "u"), partitions=np.array([2, 1], np.int32), leader=np.ones(3, np.int32)
        )
        self.clock.pass_s(START_MS / 1000 + 200 - self.clock.monotonic_s())
        self.version, self.at_ms = 1, int(self.clock.now_ms())
        self.log_end = np.full(3, 100, np.int64)
        self.poller = RecordTimePoller(
            self.logs, last=self.last, rows=KeyRows(self.last), clock=self.clock, send=self._keep
        )

    async def _keep(self, report: Report) -> None:
        self.reports.append(report)

    def commit(self, key: int, offset: int, topic: str = "t", partition: int = 0) -> None:
        new = key == len(self.last)
        self.last.note(
            Commits(
                first_new_id=key,
                new_groups=("g",) if new else (),
                new_topics=(topic,) if new else (),
                new_partitions=(partition,) if new else (),
                key=np.array([key], np.int32),
                offset=np.array([offset], np.int64),
                commit_ms=np.zeros(1, np.int64),
                order=np.zeros(1, np.int64),
                observed_ms=EpochMs(0),
            )
        )

    def round(
        self, passed_s: float = 5, *, asked: bool = True
    ) -> dict[int, tuple[int, int, int, bool]]:
        """Key → (offset, low, high in seconds after the start, by broker) of what is reported."""
        self.at_ms += round(passed_s * 1000)
        asyncio.run(self.clock.sleep(passed_s))
        ends = PartitionEnds(
            started_ms=EpochMs(self.at_ms), log_end=self.log_end.copy(), last_stable=self.log_end
        )
        self.poller.note(
            EndsRound(
                version=self.version,
                topics=self.listing,
                ends=ends,
                offsets_topic=None,
                asked=np.full(self.log_end.size, asked),
            )
        )
        before = len(self.reports)
        asyncio.run(self._poll())
        found = {}
        for report in self.reports[before:]:
            assert isinstance(report, AppendTimes)
            columns = (report.offset, report.low_ms, report.high_ms, report.by_broker)
            for key, offset, low_ms, high_ms, by_broker in zip(
                report.key.tolist(), *(column.tolist() for column in columns), strict=True
            ):
                low_s, high_s = ((each - START_MS) // 1000 for each in (low_ms, high_ms))
                found[key] = (offset, low_s, high_s, by_broker)
        return found

    async def _poll(self) -> None:
        await self.poller.poll_once()


def test_an_offset_passed_before_the_start_is_asked_for_once() -> None:
    scene = Scene()
    scene.logs.configured["t"] = TopicTimes(by_broker=True, compacted=False)
    scene.commit(0, 42)

    first = scene.round()
    asked = scene.logs.asked
    later = scene.round()

    assert first == {0: (42, 42, 42, False)}
    assert later == {}
    assert scene.logs.asked == asked


def test_an_offset_that_goes_back_after_rounds_in_which_nothing_moved_is_asked_for() -> None:
    scene = Scene()
    scene.commit(0, 100)

    at_rest = [scene.round() for _ in range(4)]
    scene.commit(0, 30)

    assert at_rest == [{}] * 4
    assert scene.round() == {0: (30, 30, 30, False)}


def test_offsets_that_came_while_the_log_end_was_read_are_not_asked_for() -> None:
    scene = Scene()
    scene.commit(0, 100)
    scene.round()
    scene.log_end[:] = 150
    scene.round()

    assert scene.round() == {}
    assert scene.logs.asked == 0


def test_offsets_that_came_while_it_was_not_read_are() -> None:
    scene = Scene()
    scene.logs.size = 200
    scene.commit(0, 120)
    scene.round()
    scene.log_end[:] = 150

    assert scene.round(passed_s=53).keys() == {0}


def test_a_partition_that_did_not_answer_for_a_while_counts_alike() -> None:
    scene = Scene()
    scene.logs.size = 200
    scene.commit(0, 120)
    scene.round()
    for _ in range(6):
        scene.log_end[0] = -1
        assert scene.round() == {}
    scene.log_end[0] = 150

    assert scene.round().keys() == {0}


@pytest.mark.slow
def test_after_half_a_day_an_offset_is_asked_for() -> None:
    scene = Scene()
    scene.logs.size = 200
    scene.commit(0, 120)
    scene.round()
    scene.log_end[:] = 150
    found = [scene.round(passed_s=15) for _ in range(4 * 60 * 13)]

    # the history of log ends reaches back for a day
    (first, *_) = [number for number, each in enumerate(found) if each]
    assert 6 * 240 <= first <= 12 * 240 + 1


def test_an_offset_that_moves_is_asked_for_now_and_then() -> None:
    scene = Scene()
    scene.commit(0, 10)
    scene.round()
    asked = []
    for second in range(1, 61):
        scene.commit(0, 10 + second)
        before = scene.logs.asked
        scene.round(passed_s=1)
        asked += [second] if scene.logs.asked > before else []

    assert asked == [2, 5, 10, 19, 35, 51], "soon at first"


def test_an_answer_for_a_commit_of_the_backlog_is_soon_replaced() -> None:
    scene = Scene()
    scene.commit(0, 10)
    first = scene.round(passed_s=1)
    # the reader comes to the newest commit
    scene.commit(0, 70)

    found = [scene.round(passed_s=1) for _ in range(3)]

    assert first[0][0] == 10
    assert {each[0][0] for each in found if each} == {70}


def test_what_was_reported_is_reported_again_for_rows_that_had_no_place_yet() -> None:
    scene = Scene()
    scene.commit(0, 42)
    asks = [bool(scene.round(passed_s=10)) for _ in range(15)]

    assert asks[0]
    assert 1 <= sum(asks[1:]) <= 3


def test_a_partition_that_does_not_answer_is_tried_again_a_minute_later() -> None:
    scene = Scene()
    scene.logs.silent = {"t"}
    scene.commit(0, 42)
    scene.commit(1, 42, topic="u", partition=0)

    assert scene.round().keys() == {1}
    scene.logs.silent = set()
    assert 0 not in scene.round(passed_s=10)
    assert 0 in scene.round(passed_s=60)


def test_where_the_configuration_may_not_be_read_times_are_not_the_brokers() -> None:
    scene = Scene()
    scene.commit(0, 42)

    assert scene.round()[0][-1] is False


def _of_brokers(scene: Scene) -> None:
    """Topic "t" has `LogAppendTime`, and that is known."""
    scene.logs.configured["t"] = TopicTimes(by_broker=True, compacted=False)
    scene.logs.size = 200
    scene.commit(0, 42)
    assert scene.round()[0][-1] is False, "written perhaps before the setting was made"
    scene.round()


def test_records_that_came_since_the_setting_is_known_have_their_times_from_brokers() -> None:
    scene = Scene()
    _of_brokers(scene)
    scene.log_end[:] = 150
    scene.commit(0, 120)

    assert scene.round(passed_s=53) == {0: (120, 120, 120, True)}


def test_records_from_before_the_setting_is_known_have_not() -> None:
    scene = Scene()
    _of_brokers(scene)
    scene.log_end[:] = 150
    scene.commit(0, 99)

    assert scene.round(passed_s=53)[0][-1] is False


def test_a_setting_that_was_taken_back_meanwhile_proves_nothing() -> None:
    scene = Scene()
    _of_brokers(scene)
    scene.log_end[:] = 150
    scene.commit(0, 120)
    scene.logs.configured["t"] = TopicTimes(by_broker=False, compacted=False)

    assert scene.round(passed_s=53)[0][-1] is False
    # and counts anew when it is made again
    scene.logs.configured["t"] = TopicTimes(by_broker=True, compacted=False)
    scene.commit(0, 121)
    assert scene.round(passed_s=700)[0][-1] is False


@pytest.mark.parametrize("ahead_s", [1_800, -START_MS // 1000])
def test_times_in_the_future_or_before_kafka_are_no_answer(ahead_s: int) -> None:
    scene = Scene()
    scene.logs.ahead_ms = ahead_s * 1000
    scene.commit(0, 42)

    assert scene.round() == {}


@pytest.mark.parametrize("compacted", [False, True])
def test_where_compaction_removed_all_up_to_the_offset_the_first_record_left_is_no_answer(
    *, compacted: bool
) -> None:
    scene = Scene()
    scene.logs.configured["t"] = TopicTimes(by_broker=True, compacted=compacted)
    scene.logs.removed = set(range(50))
    scene.commit(0, 42)

    # after deletion the group goes on with the first record that is left
    assert scene.round() == ({} if compacted else {0: (42, 50, 50, False)})


def test_partitions_keep_their_past_when_topics_come() -> None:
    scene = Scene()
    scene.commit(0, 42, topic="u", partition=0)
    scene.round()
    scene.version, scene.listing = 2, TopicListing(
        names=("s", "t", "u"), partitions=np.array([4, 2, 1], np.int32), leader=np.ones(7, np.int32)
    )  # fmt: skip
    scene.log_end = np.full(7, 100, np.int64)
    scene.commit(1, 42, topic="u", partition=0)

    assert scene.round().keys() == {1}, "and the answer for the other is kept"


def _all_admitted(rows: NDArray[np.integer]) -> NDArray[np.int64]:
    return np.full(rows.size, np.iinfo(np.int64).max)


class TestKept:
    """What the monitor remembers, by stored row."""

    def _table(self, rows: int) -> RowTable:
        table = RowTable(Windows(intervals=3, min_distance_ms=0))
        table.announce(0, ["g"] * rows, ["t"] * rows, list(range(rows)))
        return table

    def _report(self, *keys: int, offset: int = 5) -> AppendTimes:
        size = len(keys)
        return AppendTimes(
            key=np.array(keys, np.int32),
            offset=np.full(size, offset, np.int64),
            low_ms=np.array(keys, np.int64) * 10,
            high_ms=np.array(keys, np.int64) * 20,
            by_broker=np.ones(size, np.bool_),
        )

    def test_a_newer_answer_replaces_the_older_one(self) -> None:
        table, kept = self._table(4), AppendTimeColumns()
        rows = table.place(np.arange(4, dtype=np.int32), no_topics())
        kept.take(self._report(0, 3), table, _all_admitted)
        kept.take(self._report(3, 1, offset=6), table, _all_admitted)

        times = kept.at(_all_admitted)
        assert times is not None
        found = dict(zip(times.row.tolist(), times.offset.tolist(), strict=True))
        assert found == {int(rows[0]): 5, int(rows[1]): 6, int(rows[3]): 6}
        assert (np.diff(times.row) > 0).all()

    def test_an_answer_for_an_offset_beyond_the_commits_leaves_the_one_before(self) -> None:
        """A commit waits for a log end; meanwhile the group's time lag does not jump to a bound."""
        table, kept = self._table(2), AppendTimeColumns()
        table.place(np.arange(2, dtype=np.int32), no_topics())

        def come_to(*offsets: int) -> Committed:
            return lambda rows: np.array(offsets, np.int64)[rows]

        kept.take(self._report(0, 1), table, _all_admitted)
        for offset in (6, 7):  # of both, and only one of the two has come so far
            kept.take(self._report(0, 1, offset=offset), table, come_to(5, offset))
        early, whole = kept.at(come_to(5, 7)), kept.at(come_to(7, 7))

        assert early is not None
        assert whole is not None
        assert (early.row.tolist(), early.offset.tolist()) == ([0, 1], [5, 7])
        assert whole.offset.tolist() == [7, 7]
        kept.clear(np.array([0]))
        kept.take(self._report(0, offset=9), table, come_to(0, 7))
        again = kept.at(come_to(0, 7))
        assert again is not None
        assert again.offset.tolist() == [9, 7], "nothing is left of a row that was given up"

    def test_a_key_without_a_row_or_not_announced_is_left_out(self) -> None:
        table, kept = self._table(2), AppendTimeColumns()

        kept.take(self._report(1, 7), table, _all_admitted)

        assert kept.at(_all_admitted) is None

    def test_a_row_that_is_given_up_is_forgotten(self) -> None:
        table, kept = self._table(2), AppendTimeColumns()
        rows = table.place(np.arange(2, dtype=np.int32), no_topics())
        kept.take(self._report(0, 1), table, _all_admitted)

        kept.clear(rows.astype(np.intp))

        assert kept.at(_all_admitted) is None

    def test_copies_of_rows_can_be_put_back(self) -> None:
        table, kept, again = self._table(3), AppendTimeColumns(), AppendTimeColumns()
        rows = table.place(np.arange(3, dtype=np.int32), no_topics())
        kept.take(self._report(0, 2), table, _all_admitted)

        again.put(0, kept.copied(np.sort(rows).astype(np.intp)))

        before, after = kept.at(_all_admitted), again.at(_all_admitted)
        assert before is not None
        assert after is not None
        for name in ("row", "offset", "low_ms", "high_ms", "by_broker"):
            assert getattr(after, name).tolist() == getattr(before, name).tolist()
        again = AppendTimeColumns()
        again.put(0, {})
        assert again.at(_all_admitted) is None


def test_what_came_while_a_partition_was_not_asked_for_is_asked_of_the_brokers() -> None:
    scene = Scene()
    scene.round()
    scene.commit(0, 100)
    for _ in range(5):
        scene.round(asked=False)
    scene.log_end[0] = 103

    assert 0 in scene.round()

"""Progress that jobs keep outside of Kafka becomes a group like any other."""

import asyncio
from typing import Any

import httpx
import numpy as np
import pytest

from lagwatch.core.model import EpochMs, GroupStatus
from lagwatch.errors import NotFoundError
from lagwatch.monitor.progress import ReportedProgress
from lagwatch.ports.queries import Partitions
from lagwatch.ports.reports import CommitsKnown, Progress, ProgressKnown
from lagwatch.query import SnapshotQueries
from lagwatch_api import create_app
from tests.support.api_doubles import GivenSettings, RecordingCommands
from tests.support.history import Live, SetClock

_PATH = "/api/v1/clusters/here/progress/sums"


class _Job:
    """A job that reads topic `orders` and reports to lagwatch."""

    def __init__(self) -> None:
        self.live = Live()
        self.live.topics(orders=2)
        self.live.commit(("other", "orders", 0, 1))
        self.live.wait(1)
        self.live.judge()
        self.clock = SetClock(self.live.now_ms)
        self.sink = ReportedProgress({"here": self.live.monitor}, self.clock)
        self.queries = SnapshotQueries({"here": self.live.monitor}, health=lambda: ())

    def post(self, body: object, path: str = _PATH) -> httpx.Response:
        """Report at the instant of the cluster."""
        self.clock.ms = self.live.now_ms
        app = create_app(
            self.queries,
            RecordingCommands(),
            GivenSettings(),
            progress=self.sink,
            hostname="h",
            version="1",
        )

        async def posted() -> httpx.Response:
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await client.post(path, json=body)

        return asyncio.run(posted())

    def report(self, *offsets: int, **more: object) -> httpx.Response:
        positions = {"orders": {str(number): offset for number, offset in enumerate(offsets)}}
        return self.post({"kind": "flink", "positions": positions, **more})

    def round(self, seconds: float = 5) -> None:
        self.live.wait(seconds)
        self.live.judge()

    def status(self) -> GroupStatus:
        status: GroupStatus = self.verdict.status
        return status

    @property
    def verdict(self) -> Any:  # noqa: ANN401 a verdict
        return self.queries.verdict("here", "sums", Partitions.ALL)


@pytest.fixture
def job() -> _Job:
    return _Job()


def test_positions_are_shown_as_a_group_of_their_kind(job: _Job) -> None:
    answer = job.report(90, 40)
    job.round()

    assert answer.status_code == 200
    assert answer.json()["partitions"] == 2
    assert [partition.end.offset for partition in job.verdict.partitions] == [90, 40]
    assert job.verdict.total_lag == 10 + 60
    info = job.queries.info("here", "sums")
    assert info is not None
    assert (info.type, info.member_count) == ("flink", None)


@pytest.mark.slow
def test_a_job_that_falls_behind_is_found_by_the_same_rules(job: _Job) -> None:
    for step in range(120):
        job.live.produce("orders", 0, 50)
        job.live.produce("orders", 1, 50)
        job.report(10 * step, 10 * step)
        job.round(10)

    assert job.status() is GroupStatus.WARN


@pytest.mark.slow
def test_a_job_that_no_longer_reports_with_messages_to_read_is_stopped(job: _Job) -> None:
    for step in range(60):
        job.live.produce("orders", 0, 5)
        job.report(100 + 5 * step, 100)
        job.round(10)
    assert job.status() is GroupStatus.OK
    for _ in range(180):
        job.live.produce("orders", 0, 5)
        job.round(10)

    assert job.status() is GroupStatus.ERR


def test_the_same_report_again_and_a_late_one_change_nothing(job: _Job) -> None:
    at_ms = job.live.now_ms
    job.report(50, 50, at_ms=at_ms)
    job.round()
    admitted = job.live.monitor.admitted

    job.report(50, 50, at_ms=at_ms)
    job.report(20, 20, at_ms=at_ms - 5000)
    job.round()

    assert job.live.monitor.admitted == admitted
    assert [partition.end.offset for partition in job.verdict.partitions] == [50, 50]


def test_an_instant_ahead_of_now_counts_as_now(job: _Job) -> None:
    answer = job.report(50, 50, at_ms=job.live.now_ms + 60_000)

    assert answer.json()["at_ms"] == job.live.now_ms


def test_a_collector_that_begins_anew_leaves_the_job_as_it_is(job: _Job) -> None:
    job.report(50, 50)
    job.round()

    job.live.restart_collector()
    job.report(60, 60)
    job.round()

    assert [partition.end.offset for partition in job.verdict.partitions] == [60, 60]


def test_a_topic_that_a_job_does_not_read_any_more_is_no_part_of_it() -> None:
    live = Live()
    live.topics(orders=1, returns=1)
    queries = SnapshotQueries({"here": live.monitor}, health=lambda: ())

    def report(*topics: str, reads: tuple[str, ...] | None) -> list[str]:
        live.wait(5)
        number = len(topics)
        progress = Progress(
            group="sums",
            kind="spark-checkpoint",
            topic=topics,
            partition=(0,) * number,
            offset=(5,) * number,
            at_ms=EpochMs(live.now_ms),
            reads=reads,
        )
        live.monitor.apply(progress, EpochMs(live.now_ms))
        live.wait(5)
        live.judge()
        verdict = queries.verdict("here", "sums", Partitions.ALL)
        return [each.topic for each in verdict.partitions]

    assert report("orders", "returns", reads=("orders", "returns")) == ["orders", "returns"]
    assert report("orders", reads=None) == ["orders", "returns"], "others may have been left out"
    assert report("orders", reads=("orders",)) == ["orders"]


def test_a_name_that_a_group_of_kafka_has_is_refused(job: _Job) -> None:
    job.live.assign("billing", ("orders", 0))

    answer = job.post({"positions": {"orders": {"0": 1}}}, _PATH.replace("sums", "billing"))

    assert answer.status_code == 409
    assert "by another name" in answer.json()["message"]


def test_a_partition_that_its_topic_does_not_have_is_refused(job: _Job) -> None:
    for partition in (2, 900_000, 2**31 - 1):
        answer = job.post({"positions": {"orders": {"0": 1, str(partition): 1}}})

        assert answer.status_code == 400
        assert f"positions.orders.{partition}" in answer.json()["message"]
        assert "2 partitions, from 0 to 1" in answer.json()["message"]
    job.round()
    with pytest.raises(NotFoundError):
        _ = job.verdict


def test_the_answer_names_topics_that_are_not_visible(job: _Job) -> None:
    answer = job.post({"positions": {"orders": {"0": 1}, "typo": {"0": 7}}}).json()
    assert answer["topics_not_visible"] == ["typo"]


def test_a_topic_that_is_not_there_yet_has_no_millions_of_partitions(job: _Job) -> None:
    assert job.post({"positions": {"later": {"10000": 1}}}).status_code == 400
    assert job.post({"positions": {"later": {"9999": 1}, "too": {"0": 1}}}).status_code == 400
    assert job.post({"positions": {"later": {"9998": 1}, "too": {"0": 1}}}).status_code == 200


@pytest.mark.parametrize("kind", ["consumer", "classic", "share", "streams"])
def test_progress_is_not_taken_for_a_group_of_kafka(job: _Job, kind: str) -> None:
    answer = job.post({"kind": kind, "positions": {"orders": {"0": 1}}})

    assert answer.status_code == 400
    assert f"kind '{kind}' is one of Kafka's own groups" in answer.json()["message"]


@pytest.mark.parametrize("ahead_ms", [301_000, 10**12])
def test_an_instant_far_ahead_is_refused(job: _Job, ahead_ms: int) -> None:
    answer = job.report(1, 2, at_ms=job.live.now_ms + ahead_ms)

    assert answer.status_code == 400
    assert "ahead of lagwatch's clock" in answer.json()["message"]


@pytest.mark.parametrize("at_ms", [0, 1_800_000_000])
def test_an_instant_that_is_no_instant_of_today_is_refused(job: _Job, at_ms: int) -> None:
    answer = job.report(1, 2, at_ms=at_ms)

    assert answer.status_code == 400
    assert "milliseconds since 1970" in answer.json()["message"]


def test_a_report_that_comes_late_is_called_so(job: _Job) -> None:
    now_ms = job.live.now_ms

    late = [job.report(9, 9, at_ms=now_ms - ago).json()["late"] for ago in (2000, 1000, 1000, 1500)]

    assert late == [False, False, False, True]


def test_a_name_whose_progress_is_read_is_refused(job: _Job) -> None:
    job.sink = ReportedProgress({"here": job.live.monitor}, job.clock, read={"here": {"sums": 1}})

    answer = job.report(1, 2)

    assert answer.status_code == 409
    assert "[clusters.here.progress.sums]" in answer.json()["message"]


@pytest.mark.parametrize("readable", [True, False])
@pytest.mark.slow
def test_silence_is_a_stop_only_of_a_job_whose_progress_could_be_read(
    job: _Job, *, readable: bool
) -> None:
    def known(until_ms: int) -> None:
        everything = CommitsKnown(until_ms=np.full(4, job.live.now_ms, np.int64))
        progress = ProgressKnown(until_ms={"sums": EpochMs(until_ms)}, away_after_ms=15_000)
        for report in (everything, progress):
            job.live.monitor.apply(report, EpochMs(job.live.now_ms))

    for step in range(60):
        job.live.produce("orders", 0, 5)
        job.report(100 + 5 * step, 100)
        job.round(10)
        known(job.live.now_ms)
    seen_ms = job.live.now_ms
    for _ in range(180):
        job.live.produce("orders", 0, 5)
        job.round(10)
        known(job.live.now_ms if readable else seen_ms)

    assert job.status() is (GroupStatus.ERR if readable else GroupStatus.OK)
    assert job.verdict.stale is not readable


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (_PATH.replace("here", "nowhere"), {"positions": {"orders": {"0": 1}}}, 404),
        (_PATH, {"positions": {}}, 400),
        (_PATH, {"positions": {"orders": {"0": -1}}}, 400),
        (_PATH, {"positions": {"orders": {"-1": 1}}}, 400),
        (_PATH, {"positions": {"orders": {"00": 1}}}, 400),
        (_PATH, {"positions": {"orders": {" 1": 1}}}, 400),
        (_PATH, {"positions": {"orders": {"0": True}}}, 400),
        (_PATH, {"positions": {"orders": {"0": "120"}}}, 400),
        (_PATH, {"positions": {"orders": {"0": 1.0}}}, 400),
        (_PATH, {"positions": {"orders": {"0": 1}}, "kind": "A kind"}, 400),
        (_PATH, {"positions": {"orders": {"0": 1}}, "offset": 3}, 400),
    ],
)
def test_what_is_no_progress_is_refused(job: _Job, path: str, body: object, status: int) -> None:
    assert job.post(body, path).status_code == status
    job.round()
    assert job.queries.groups("here") == ("other",)

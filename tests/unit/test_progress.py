"""Progress that jobs keep outside of Kafka becomes a group like any other."""

import asyncio
from typing import Any

import httpx
import numpy as np
import pytest

from lagwatch.core.model import EpochMs, GroupStatus
from lagwatch.monitor.progress import ReportedProgress
from lagwatch.ports.reports import CommitsKnown, ProgressKnown
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
        return self.queries.verdict("here", "sums", show_all=True)


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


def test_a_job_that_falls_behind_is_found_by_the_same_rules(job: _Job) -> None:
    for step in range(120):
        job.live.produce("orders", 0, 50)
        job.live.produce("orders", 1, 50)
        job.report(10 * step, 10 * step)
        job.round(10)

    assert job.status() is GroupStatus.WARN


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


def test_a_name_that_a_group_of_kafka_has_is_refused(job: _Job) -> None:
    job.live.assign("billing", ("orders", 0))

    answer = job.post({"positions": {"orders": {"0": 1}}}, _PATH.replace("sums", "billing"))

    assert answer.status_code == 409
    assert "by another name" in answer.json()["message"]


def test_a_name_whose_progress_is_read_is_refused(job: _Job) -> None:
    job.sink = ReportedProgress({"here": job.live.monitor}, job.clock, read={"here": {"sums": 1}})

    answer = job.report(1, 2)

    assert answer.status_code == 409
    assert "[clusters.here.progress.sums]" in answer.json()["message"]


@pytest.mark.parametrize("readable", [True, False])
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
        (_PATH, {"positions": {"orders": {"0": 1}}, "kind": "A kind"}, 400),
        (_PATH, {"positions": {"orders": {"0": 1}}, "offset": 3}, 400),
    ],
)
def test_what_is_no_progress_is_refused(job: _Job, path: str, body: object, status: int) -> None:
    assert job.post(body, path).status_code == status
    job.round()
    assert job.queries.groups("here") == ("other",)

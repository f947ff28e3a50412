"""An error in one part of the service ends neither the service nor another part."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from structlog.testing import capture_logs

from lagwatch.clock import SystemClock
from lagwatch.config.load import load
from lagwatch.core.model import GroupStatus
from lagwatch.core.record import Kind
from lagwatch.history.layout import HOUR_MS, Slot
from lagwatch.monitor import ClusterMonitor
from lagwatch.ports.queries import ClusterHealth, Partitions
from lagwatch.service import Service
from tests.support.history import held
from tests.support.kafka import commit, create_topic, produce, unique
from tests.support.receiver import receiving

_WITHIN_S = 60.0


@pytest.fixture
def scene(kafka, tmp_path: Path):
    """A group, and a service that watches its cluster by two names."""
    topic, group = create_topic(kafka, "orders"), unique("orders")
    produce(kafka, topic, 7)
    for offset in (2, 3, 4):
        commit(kafka, group, topic, offset)
    with receiving() as receiver:
        config = tmp_path / "lagwatch.toml"
        config.write_text(
            "".join(
                f'[clusters.{name}]\nbootstrap = "{kafka.bootstrap_servers}"\n'
                f'log_end_interval_s = 1\ngroup_allow = "^{group}$"\n'
                for name in ("east", "west")
            )
            + f'[checkpoint]\npath = "{tmp_path / "state"}"\ninterval_s = 1\n'
            f'[history]\nstore = "parquet"\nurl = "{tmp_path / "history"}"\n'
            f'spool = "{tmp_path / "spool"}"\n'
            f'[alerts]\nfile = "{tmp_path / "alerts.sqlite"}"\n'
            f'[alerts.policies.all]\n[alerts.webhook.hook]\nurl = "{receiver.url}"\n'
        )
        yield Scene(Service(load(config, {}), SystemClock()), group)


def spoil(monitor: ClusterMonitor) -> None:
    """What a defect may do to its columns: the next round raises."""
    monitor.windows.count = np.zeros((0, 0, 0), np.int8)


class Scene:
    def __init__(self, service: Service, group: str) -> None:
        self.service = service
        self.group = group

    def run(self, act: Callable[[], Awaitable[None]]) -> None:
        """Watch until both clusters are ready; then act, while it goes on."""

        async def run() -> None:
            watching = asyncio.create_task(self.service.watch())
            try:
                await self.until(lambda: all(each.ready for each in self.service.health()))
                await act()
                assert not watching.done()
            finally:
                watching.cancel()
                await asyncio.wait({watching})
                self.service.close()

        asyncio.run(run())

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(_WITHIN_S):
            while not holds():
                await SystemClock().sleep(0.02)

    def health(self, cluster: str) -> ClusterHealth:
        return next(each for each in self.service.health() if each.cluster == cluster)

    def is_replaced(self, monitor: ClusterMonitor) -> bool:
        return self.service.monitors["east"] is not monitor

    def lag(self, cluster: str) -> int | None:
        return self.service.queries.verdict(cluster, self.group, Partitions.ALL).total_lag


def test_a_monitor_that_fails_is_begun_again_from_its_checkpoint(scene: Scene) -> None:
    service = scene.service

    async def act() -> None:
        await service.keep()
        broken, other = service.monitors["east"], service.monitors["west"]
        commits = int(broken.windows.count.sum())
        spoil(broken)
        await scene.until(lambda: service.monitors["east"] is not broken)
        health = scene.health("east")
        assert not health.ready
        assert health.problems[0].startswith("monitor: the monitor of east failed 1 time (")
        await scene.until(lambda: scene.health("west").ready)  # on a busy machine it may be stale
        assert not any(problem.startswith("monitor") for problem in scene.health("west").problems)
        await scene.until(lambda: scene.health("east").ready)
        assert int(service.monitors["east"].windows.count.sum()) == commits
        assert service.monitors["west"] is other
        assert scene.lag("east") == scene.lag("west") == 3
        assert scene.health("east").problems[0].startswith("monitor: ")  # has run for seconds only

    scene.run(act)


def test_a_monitor_that_fails_again_and_again_is_begun_without_its_checkpoint(
    scene: Scene,
) -> None:
    service = scene.service

    async def act() -> None:
        await service.keep()
        for number in range(1, 4):
            broken = service.monitors["east"]
            spoil(broken)
            await scene.until(partial(scene.is_replaced, broken))
            assert f" failed {number} time" in scene.health("east").problems[0]
            await scene.until(lambda: scene.health("east").ready)
        assert scene.lag("east") == 3

    with capture_logs() as logs:
        scene.run(act)

    begun = [line["event"] for line in logs if line.get("cluster") == "east"]
    assert begun.count("checkpoint_restored") == 2


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("history", "history: recording failed "),
        ("alerts", "alerts: alerting failed "),
        ("scaling", "figures: figures of scaling failed "),
    ],
)
def test_what_is_done_with_verdicts_may_fail_and_verdicts_go_on(
    scene: Scene, part: str, said: str
) -> None:
    service = scene.service

    async def act() -> None:
        whole = getattr(service, part)
        setattr(service, part, Broken(whole))
        await scene.until(lambda: any(said in each for each in scene.health("west").problems))
        judged_ms = service.monitors["west"].snapshot.at_ms  # type: ignore[union-attr]
        await scene.until(lambda: service.monitors["west"].snapshot.at_ms > judged_ms)  # type: ignore[union-attr]
        assert scene.health("west").ready
        verdict = service.queries.verdict("west", scene.group, Partitions.BAD)
        assert verdict.status in GroupStatus
        setattr(service, part, whole)
        await scene.until(lambda: not any(said in each for each in scene.health("west").problems))

    scene.run(act)


def test_a_damaged_file_of_the_history_is_named_by_readiness_and_ends_nothing(
    scene: Scene, tmp_path: Path
) -> None:
    service = scene.service
    an_hour_ago_ms = SystemClock().now_ms() - HOUR_MS  # retention takes what is older
    of_west = Slot.at(Kind.SAMPLES, "west", an_hour_ago_ms).path
    damaged = tmp_path / "history" / of_west / "part-b1.parquet"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"rubbish")

    async def act() -> None:
        history = service.history
        assert history is not None
        await history.queries.using(held)
        said = [each for each in scene.health("west").problems if each.startswith("history: ")]
        assert len(said) == 1
        assert f"{of_west}/part-b1.parquet cannot be read" in said[0]
        assert "`lagwatch history verify`" in said[0]
        await scene.until(lambda: scene.health("west").ready)  # on a busy machine it may be stale
        assert history.health().problem == ""  # recording goes on

    scene.run(act)


class Broken:
    """A part that fails in each round; all else is as before."""

    def __init__(self, whole: object) -> None:
        self.whole = whole

    def __getattr__(self, name: str) -> object:
        return getattr(self.whole, name)

    def offer(self, *_: object) -> None:
        raise ZeroDivisionError

    observe = offer

"""The machine's clock is set while lagwatch runs."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lagwatch.clock import SystemClock
from lagwatch.config.load import load
from lagwatch.core.model import EpochMs
from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.ports.alerts import IncidentAsk
from lagwatch.service import Service
from tests.support.waiting import eventually


class SetClock(SystemClock):
    """The machine's clock, that much ahead of what it was."""

    ahead_ms = 0

    def now_ms(self) -> EpochMs:
        return EpochMs(super().now_ms() + self.ahead_ms)


@pytest.mark.parametrize("leap_s", [7200, -3600])
def test_what_was_known_of_the_skew_is_forgotten(tmp_path: Path, leap_s: int) -> None:
    config = tmp_path / "lagwatch.toml"
    config.write_text('[clusters.here]\nbootstrap = "127.0.0.1:1"\n[alerts]\nfile = ""\n')
    clock = SetClock()
    service = Service(load(config, {}), clock)
    skew = service.monitors["here"].skew
    for _ in range(20):
        skew.see(newest_commit_ms=clock.now_ms() - 100, observed_ms=clock.now_ms())

    def known() -> bool:
        return skew.witnessed_ms is not None

    async def run() -> None:
        watching = asyncio.create_task(service.watch())
        await clock.sleep(2)
        assert known()
        clock.ahead_ms = leap_s * 1000
        async with asyncio.timeout(60):
            while known():
                await clock.sleep(0.1)
        watching.cancel()
        await asyncio.wait({watching})
        service.close()

    asyncio.run(run())


@contextmanager
def watching(service: Service) -> Iterator[Callable[[], None]]:
    """The service at work; the function lets it go on for a tenth of a second."""
    with asyncio.Runner() as runner:
        work = runner.get_loop().create_task(service.watch())
        yield lambda: runner.run(asyncio.sleep(0.1))
        work.cancel()
        runner.run(asyncio.wait({work}))
    service.close()


def config_in(folder: Path, bootstrap: str) -> Path:
    config = folder / "lagwatch.toml"
    config.write_text(
        f'[clusters.here]\nbootstrap = "{bootstrap}"\n'
        f'[alerts]\nfile = "{folder}/alerts.sqlite"\n'
        '[alerts.webhook.one]\nurl = "http://127.0.0.1:1/"\n'
        f'[history]\nurl = "{folder}/history"\nspool = "{folder}/spool"\n'
        f'[checkpoint]\npath = "{folder}/checkpoint"\n'
    )
    return config


def test_a_start_by_a_wrong_clock_forgets_no_mute(tmp_path: Path) -> None:
    settings = load(config_in(tmp_path, "127.0.0.1:1"), {})
    clock, now_ms = SetClock(), SystemClock().now_ms()
    week = {"starts_ms": now_ms, "ends_ms": now_ms + 7 * 86_400_000}
    kept: list[list[str]] = []
    for ahead_days in (0, 40, 0):
        clock.ahead_ms = ahead_days * 86_400_000
        service = Service(settings, clock)
        assert service.alerts is not None
        if not kept:
            service.alerts.mute(cluster="here", group="x", reason="repair", author="ann", **week)
        with watching(service) as go_on:
            for _ in range(20):
                go_on()
            kept.append([mute.group for mute in service.alerts.mutes()])

    assert kept == [["x"], [], ["x"]]


@pytest.mark.parametrize("leap_s", [300, -3600])
def test_a_leap_of_the_clock_makes_no_cluster_seem_unseen(
    kafka: EmbeddedKafka, tmp_path: Path, leap_s: int
) -> None:
    clock = SetClock()
    service = Service(load(config_in(tmp_path, kafka.bootstrap_servers), {}), clock)
    alerts, found = service.alerts, []
    assert alerts is not None
    with watching(service) as go_on:
        eventually(lambda: (go_on(), service.monitors["here"].complete)[1], "all is known")
        for ahead_s in (0, leap_s, 0):
            clock.ahead_ms = ahead_s * 1000
            for _ in range(90):
                go_on()
            found += [each for each in alerts.incidents(IncidentAsk())[0] if not each.group]

    assert found == []


@pytest.mark.parametrize("leap_s", [40 * 86_400, -3600])
def test_a_mute_does_not_end_by_a_clock_that_may_be_wrong(tmp_path: Path, leap_s: int) -> None:
    """Nor does anything else of the alerts happen for its age: all of them have that clock."""
    clock = SetClock()
    service = Service(load(config_in(tmp_path, "127.0.0.1:1"), {}), clock)
    alerts = service.alerts
    assert alerts is not None
    now_ms = clock.now_ms()
    hours = {"starts_ms": now_ms, "ends_ms": now_ms + 7_200_000}
    alerts.mute(cluster="here", group="billing", reason="repair", author="ann", **hours)

    found = []
    for ahead_s in (leap_s, 0):
        clock.ahead_ms = ahead_s * 1000
        found.append([(mute.group, mute.active) for mute in alerts.mutes()])
    service.close()

    assert found == [[("billing", True)], [("billing", True)]]

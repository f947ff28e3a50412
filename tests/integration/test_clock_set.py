"""The machine's clock is set while lagwatch runs."""

import asyncio
from pathlib import Path

from lagwatch.clock import SystemClock
from lagwatch.config.load import load
from lagwatch.core.model import EpochMs
from lagwatch.service import Service


class SetClock(SystemClock):
    """The machine's clock, that much ahead of what it was."""

    ahead_ms = 0

    def now_ms(self) -> EpochMs:
        return EpochMs(super().now_ms() + self.ahead_ms)


def test_what_was_known_of_the_skew_is_forgotten(tmp_path: Path) -> None:
    config = tmp_path / "lagwatch.toml"
    config.write_text('[clusters.here]\nbootstrap = "127.0.0.1:1"\n[alerts]\nfile = ""\n')
    clock = SetClock()
    service = Service(load(config, {}), clock)
    skew = service.monitors["here"].skew
    for _ in range(20):
        skew.see(newest_commit_ms=clock.now_ms() - 100, observed_ms=clock.now_ms())

    async def run() -> None:
        watching = asyncio.create_task(service.watch())
        await clock.sleep(2)
        assert skew.known_ms is not None
        clock.ahead_ms = 2 * 3_600_000
        async with asyncio.timeout(60):
            while service.monitors["here"].skew.known_ms is not None:
                await clock.sleep(0.1)
        watching.cancel()
        await asyncio.wait({watching})
        service.close()

    asyncio.run(run())


def test_a_mute_does_not_end_by_a_clock_that_may_be_wrong(tmp_path: Path) -> None:
    """Nor does anything else of the alerts happen for its age: all of them have that clock."""
    config = tmp_path / "lagwatch.toml"
    config.write_text(
        '[clusters.here]\nbootstrap = "127.0.0.1:1"\n'
        f'[alerts]\nfile = "{tmp_path}/alerts.sqlite"\n'
        '[alerts.webhook.one]\nurl = "http://127.0.0.1:1/"\n'
        f'[history]\nurl = "{tmp_path}/history"\nspool = "{tmp_path}/spool"\n'
    )
    clock = SetClock()
    service = Service(load(config, {}), clock)
    alerts = service.alerts
    assert alerts is not None
    now_ms = clock.now_ms()
    hours = {"starts_ms": now_ms, "ends_ms": now_ms + 7_200_000}
    alerts.mute(cluster="here", group="billing", reason="repair", author="ann", **hours)

    clock.ahead_ms = 40 * 86_400_000
    meanwhile = [mute.group for mute in alerts.mutes()]
    clock.ahead_ms = 0
    afterwards = [mute.group for mute in alerts.mutes()]
    service.close()

    assert meanwhile == afterwards == ["billing"]

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

"""A process with alerts that a test may kill: `alerts_child.py CONFIG FAILING GROUPS`.

The first FAILING of GROUPS groups have stopped. Prints `kept` when the transitions are kept, then
delivers; prints `empty` when nothing is left to deliver.
"""

import asyncio
import sys
from pathlib import Path

from lagwatch.config.load import load
from lagwatch.notify.alerts import Alerts
from tests.support.fleet import Fleet, ShiftedClock


async def main(config: Path, failing: int, groups: int) -> None:
    clock = ShiftedClock()
    clock.ahead_ms = -120_000  # what the fleet lives through lies in the past
    alerts = Alerts(load(config, {}), clock)
    names = [f"g{number:03}" for number in range(groups)]
    fleet = Fleet(names, clock)
    fleet.fail(*names[:failing])
    delivering = asyncio.create_task(alerts.run())
    await asyncio.sleep(0)
    fleet.shown_to(alerts)
    print("kept", flush=True)  # noqa: T201
    said = False
    while not delivering.done():
        await asyncio.sleep(0.02)
        left = sum(alerts.counts().undelivered.values())
        if not left and not said:
            said = True
            print("empty", flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
